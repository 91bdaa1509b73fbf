"""How often volatile operands are evaluated: once in every function, operator and form of expression, on both paths, as
in PostgreSQL.

An operand is `CASE WHEN random() < 2 THEN value END`. On the columnar path, `random()` of the finished SQL is replaced
by a UDF that counts; on servers it is a sequence that counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import psycopg
import pytest

from catalog.errors import SqlError
from catalog.functions import registry
from catalog.types import pg_type_by_oid
from engine.columnar.generate import generate, operands
from engine.columnar.generate.catalog_functions import catalog_functions
from engine.columnar.worker import udf
from engine.sql import tree
from engine.system_views import surroundings as _registered_there  # noqa: F401
from tests.catalog.functions.expressions import Comparison
from tests.oracle import PostgresServer
from tests.server import ShoalServer

ROWS = 3
SAMPLES = {
    "bool": "true", "int2": "2", "int4": "2", "int8": "2", "float4": "0.5", "float8": "0.5", "numeric": "0.5",
    "text": "ab", "varchar": "ab", "bpchar": "ab ", "name": "ab", "char": "a", "bytea": r"\x6162", "date": "2024-02-29",
    "time": "12:30", "timetz": "12:30+02", "timestamp": "2024-02-29 12:30", "timestamptz": "2024-02-29 12:30+00",
    "interval": "1 day", "uuid": "00000000-0000-0000-0000-000000000001", "json": '{"a": [1, 2]}',
    "jsonb": '{"a": [1, 2]}', "jsonpath": "$.a", "inet": "10.0.0.1/8", "cidr": "10.0.0.0/8", "oid": "2",
    "int4[]": "{1,2,3}", "text[]": "{a,b}", "int8[]": "{1,2}", "float8[]": "{0.5,1}", "bool[]": "{true}",
    "numeric[]": "{0.5,1.25}", "int4range": "[1,5)", "int8range": "[1,5)", "numrange": "[1,5)",
    "daterange": "[2024-01-01,2024-02-01)", "int4multirange": "{[1,5)}", "money": "1.5", "bit": "1", "varbit": "101",
    "macaddr": "08:00:2b:01:02:03", "point": "(1,2)", "tsvector": "a b", "tsquery": "a",
}  # fmt: skip
_POLYMORPHIC = {
    "any": "int4", "anyelement": "int4", "anyarray": "int4[]", "anynonarray": "int4", "anycompatible": "int4",
    "anycompatiblearray": "int4[]", "anycompatiblenonarray": "int4", "anyrange": "int4range",
    "anymultirange": "int4multirange", "anycompatiblerange": "int4range", "anycompatiblemultirange": "int4multirange",
}  # fmt: skip
_OPERAND = re.compile(r"\{([^}]+)\}")

# Forms of expressions, with how many of their operands are evaluated.
FORMS = {
    "nullif({int4}, {int4})": 2,
    "nullif({text}, 'x')": 1,
    "nullif({numeric}, {int4})": 2,
    "coalesce(nullif({int4}, 2), {int4})": 2,
    "coalesce({numeric}, {numeric})": 1,
    "coalesce({numeric}::numeric(10,2), 1.5)": 1,
    "greatest({int4}, {int4}, {int4})": 3,
    "least({float8}, {float8})": 2,
    "greatest({numeric}, {numeric})": 2,
    "greatest({interval}, {interval})": 2,
    "{int4} IN (1, 2, 3)": 1,
    "{int4} IN (1, 3, 2)": 1,
    "{numeric} IN (1, 1.5, 0.5)": 1,
    "{text} NOT IN ('a', 'b')": 1,
    "{bpchar} IN ('a', 'b', 'c')": 1,
    "{float8} IN (1, 2, 0.25)": 1,
    "{int4} = ANY (ARRAY[1, 3])": 1,
    "{int4} <> ALL (ARRAY[1, 3])": 1,
    "{numeric} > ANY (ARRAY[1, 3])": 1,
    "{text} LIKE ANY (ARRAY['x%', 'y%', 'z%'])": 1,
    "{int4} = ANY ({int4[]})": 2,
    "5 = ANY ({int4[]})": 1,
    "nullif({bool}, 5 = ANY (ARRAY[a, 2]))": 1,
    "nullif({bool}, a = ANY (string_to_array('1,2', ',')::int4[]))": 1,
    "{numeric} < ALL ({numeric[]})": 2,
    "{int4} BETWEEN 0 AND 5": 2,  # PostgreSQL evaluates its subject twice
    "{int4} IS DISTINCT FROM {int4}": 2,
    "{numeric} IS NOT DISTINCT FROM {numeric}": 2,
    "{bpchar} IS DISTINCT FROM {bpchar}": 2,
    "({int4}, {text}) < ({int4}, {text})": 4,
    "({int4}, {text}) = (2, 'ab')": 2,
    "CASE {int4} WHEN 0 THEN 1 WHEN 1 THEN 2 WHEN 5 THEN 3 END": 1,
    "CASE {text} WHEN 'x' THEN {int4} WHEN 'ab' THEN 2 ELSE 3 END": 1,
    "CASE {numeric} WHEN 1 THEN 1.5 WHEN 2 THEN 2.25 ELSE {numeric} END": 2,
    "CASE WHEN {bool} THEN {numeric}::numeric(10,2) ELSE 0 END": 2,
    "CASE WHEN {int4} = 1 THEN 1 WHEN {int4} = 2 THEN 2 END": 2,
    "{bool} IS TRUE": 1,
    "{bool} IS NOT UNKNOWN": 1,
    "NOT {bool}": 1,
    "({bool} AND {bool})": 2,
    "{int4} IS NULL": 1,
    "{float8}::int4": 1,
    "{float8}::int2": 1,
    "{float8}::numeric": 1,
    "{float8}::text": 1,
    "{numeric}::int4": 1,
    "{numeric}::numeric(10,1)": 1,
    "{numeric}::numeric(10,2)::numeric(4,1)": 1,
    "{int4}::numeric(10,2)": 1,
    "{int4}::bool": 1,
    "{int4}::oid": 1,
    "{text}::varchar(3)": 1,
    "{varchar}::char(3)": 1,
    "{text}::name": 1,
    "{interval}::text": 1,
    "{timestamptz}::text": 1,
    "{timestamptz}::date": 1,
    "{int4[]}::text[]": 1,
    "{numeric[]}::int4[]": 1,
    "{date}::timestamp": 1,
    "{jsonb}::text": 1,
    "ARRAY[{int4}, {int4}]": 2,
    "({int4[]})[{int4}]": 2,
    "({int4[]})[{int4}:{int4}]": 3,
    "({int4[]})[:{int4}]": 2,
    "({name})[{int4}]": 2,
    "ROW({int4}, {text})": 2,
    "ROW({int4}, {text}) IS NOT NULL": 2,
    "{timestamptz} AT TIME ZONE 'Europe/Berlin'": 1,
    "extract(year FROM {timestamp})": 1,
    "overlay({text} placing {text} from {int4})": 3,
    "trim({text})": 1,
    "{text} SIMILAR TO 'a%'": 1,
    "{text} ILIKE {text}": 2,
    "{text} || {int4}": 2,
    "substring({text} from {int4} for {int4})": 3,
    "concat({text}, {int4}, {text})": 3,
    "concat_ws({text}, {text}, {int4})": 3,
    "format('%s %s', {text}, {int4})": 2,
    "({int4} = 1) = ({int4} = 2)": 2,
    "{int4} IN (SELECT 2)": 1,
    "{numeric} IN (SELECT 1.5 UNION SELECT 0.5)": 1,
    "{numeric} NOT IN (SELECT 1.5 UNION SELECT 0.25)": 1,
}
OPERATORS = """+ - * / % ^ < <= = >= > <> || && @> <@ ~ !~ ~* !~* ~~ !~~ ~~* !~~* & | # << >> -> ->> #> #>> #- ? ?| ?&
    -|- &< &> <<= >>= @ |/ ||/ @@ @? ^@ ~<~ ~<=~ ~>=~ ~>~"""
# DuckDB's answer does not depend on all operands, which cannot do anything there.
FEWER = ('"pg_typeof"', '"array_lower"', '"boolor_statefunc"', '"booland_statefunc"')


def _functions() -> Iterator[str]:
    for oid in registry.function_oids():
        function = registry.function(oid)
        names = [_shown(type_) for type_ in function.argument_types]
        if function.kind != "f" or function.returns_set or function.volatility == "v" or not all(names):
            continue
        if registry.implementation(function.source) is not None and names:
            yield f'pg_catalog."{function.name}"({", ".join(f"{{{name}}}" for name in names)})'


def _operators() -> Iterator[str]:
    for name in OPERATORS.split():
        for operator in registry.operators_named(name):
            left, right = _shown(operator.left) if operator.left else " ", _shown(operator.right)
            if left and right:
                yield f"{{{left}}} OPERATOR(pg_catalog.{name}) {{{right}}}".replace("{ } ", "")


def _shown(oid: int) -> str:
    """The name of a type with a sample, '' if there is none."""
    row = pg_type_by_oid.get(oid)
    if row is None:
        return ""
    name = _POLYMORPHIC.get(row.name, row.name)
    name = f"{name[1:]}[]" if name.startswith("_") else name
    return name if name in SAMPLES else ""


def _literal(name: str) -> str:
    array = name.endswith("[]")
    return f"""'{SAMPLES[name]}'::pg_catalog."{name[:-2] if array else name}"{"[]" if array else ""}"""


def _filled(expression: str, chance: str) -> str:
    return _OPERAND.sub(lambda found: f"(CASE WHEN {chance} THEN {_literal(found[1])} END)", expression)


def _expected(expression: str) -> int:
    return FORMS.get(expression) or len(_OPERAND.findall(expression))


class Counter(Comparison):
    """Counts evaluations in DuckDB."""

    def __init__(self, postgres: psycopg.Connection) -> None:
        super().__init__(postgres, {"a": ("int4", [str(number) for number in range(ROWS)])})
        self.count = 0
        self._connection.create_function("counted", self._counted, [], "DOUBLE", side_effects=True)

    def _counted(self) -> float:
        self.count += 1
        return 0.5

    def evaluations(self, expression: str) -> int | None:
        """How often operands are evaluated for a row; None where the expression is refused or raises."""
        sql = f"SELECT {_filled(expression, 'random() < 2')} AS x FROM v"
        try:
            statement = self._analysed(sql, ()).statement
            assert isinstance(statement, tree.Query)
            query = generate(statement, (), self.settings)
            for signature in query.functions:
                if signature.name not in self._registered:
                    udf.register(self._connection, signature)
                    self._registered.add(signature.name)
            bound = [self._bound(query, source, ()) for source, _ in query.parameters]
        except SqlError:
            return None
        self.count = 0
        if any(name in expression for name in FEWER):
            return None
        text = query.sql.format(t16385="t16385").replace("random()", "counted()")
        try:
            self._connection.execute(text, bound).fetchall()
        except Exception:
            return None
        return self.count // ROWS if self.count % ROWS == 0 else -1


@pytest.fixture
def counter(postgres: psycopg.Connection) -> Iterator[Counter]:
    made = Counter(postgres)
    yield made
    made.close()


def _of_the_catalog(expression: str) -> bool:
    """Whether the call is answered by a look into the catalog, or always alike: what it does not need DuckDB leaves
    out."""
    name = re.match(r'pg_catalog."(\w+)"\(', expression)
    if name is None:
        return False
    return any(function.source in catalog_functions for function in registry.functions_named(name[1]))


def _wrong(evaluations: Callable[[str], int | None], expressions: list[str]) -> tuple[list[str], int]:
    found, counted = [], 0
    for expression in expressions:
        count = evaluations(expression)
        if count is not None:
            counted += 1
            if count != _expected(expression) and not (count < _expected(expression) and _of_the_catalog(expression)):
                found.append(f"{expression}: {count} evaluations instead of {_expected(expression)}")
    return found, counted


def test_duckdb_evaluates_each_operand_once(counter: Counter) -> None:
    expressions = [*FORMS, *_functions(), *_operators()]
    wrong, counted = _wrong(counter.evaluations, expressions)
    assert not wrong, f"{len(wrong)} of {counted}:\n" + "\n".join(wrong[:40])
    assert counted > len(expressions) / 2


def test_an_operand_that_is_repeated_is_noticed(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the binding of operands taken away."""
    monkeypatch.setattr(operands, "_evaluated_again", lambda sql, known: set())
    wrong, _ = _wrong(counter.evaluations, list(FORMS))
    assert len(wrong) > 10


def test_servers_evaluate_each_operand_once(server: ShoalServer | PostgresServer) -> None:
    """The row path: a sequence counts."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TEMP SEQUENCE counted")
        before = 0

        def evaluations(expression: str) -> int | None:
            nonlocal before
            try:
                connection.execute(f"SELECT {_filled(expression, _DRAWN)}".encode())
            except psycopg.Error:
                failed = True
            else:
                failed = False
            last = connection.execute("SELECT nextval('counted')").fetchone()
            assert last is not None
            count, before = last[0] - before - 1, last[0]
            return None if failed else count

        wrong, counted = _wrong(evaluations, [*FORMS, *_functions(), *_operators()])
    assert not wrong, f"{len(wrong)} of {counted}:\n" + "\n".join(wrong[:40])
    assert counted > 1000


_DRAWN = "nextval('counted') > 0"
