"""Sub-queries as the operands of operators and functions, on the columnar path: DuckDB allows none in a lambda, and
takes `= ANY((SELECT array))` for a comparison with rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import pytest

from tests.engine.session.conftest import Pair, outcome
from tests.samples import Part, parts, some

VALUES = {
    "int4": "1", "int8": "2", "numeric": "1.5", "float8": "1.5", "text": "'a'", "date": "'2020-01-01'",
    "timestamp": "'2020-01-01'", "timestamptz": "'2020-01-01'", "bool": "true", "box": "'(1,1),(0,0)'",
    "int4[]": "'{1,2}'", "jsonb": "'1'", "interval": "'1 day'", "char(3)": "'a'", '"char"': "'a'", "name": "'n'",
    "bytea": "'a'", "time": "'1:00'",
}  # fmt: skip
COLUMNS = {type_: f"c{number}" for number, type_ in enumerate(VALUES)}
GENERAL = (
    "coalesce({0}, {0})", "greatest({0}, {0}, {1})", "nullif({0}, {0})", "({0})::text", "CASE {0} WHEN {0} THEN 1 END",
    "{0} IN ({0}, {1})", "{0} BETWEEN {0} AND {1}", "max({0}) OVER ()", "ARRAY[{0}]", "ROW({0}) = ROW({1})",
    "{1} = ANY ((SELECT ARRAY[{1}])::{2}[])", "{0} = ANY ((SELECT ARRAY[{1}])::{2}[])", "{0} <> ALL (ARRAY[{0}, {1}])",
)  # fmt: skip
OWN = {
    "numeric": ("abs({0})", "{0} + {0}", "{0} / {0}", "{0} % {0}", "round({0})", "{0}::int", "{0}::numeric(5,1)",
                "power({0}, {0})", "sum({0}) OVER ()", "avg({0}) OVER ()"),
    "int4": ("{0} / {0}", "{0} * {0}", "{0} % {0}", "- {0}", "{0} & {0}", "power({0}, {0})", "to_char({0}, '9')"),
    "float8": ("sqrt({0})", "{0} / {0}", "{0}::int", "{0}::numeric", "round({0})"),
    "text": ("lower({0})", "{0} || {0}", "substr({0}, 1, 2)", "{0} LIKE {0}", "{0} ~ {0}", "{0} !~~ {1}",
             "lpad({0}, 5)", "{0}::char(2)", "{0}::varchar(1)", "initcap({0})", "split_part({0}, {0}, 1)"),
    "date": ("{0} + 1", "{0} - {0}", "date_larger({0}, {0})", "timestamp({0})", "extract(year from {0})",
             "date_trunc('day', {0})", "{0} + interval '1 day'", "{0} + time '1:00'", "{0}::timestamptz"),
}  # fmt: skip
OPERATORS = ("=", "<", "<>", "IS DISTINCT FROM")
TIMES = ("date", "timestamp", "timestamptz")


def query(type_: str) -> str:
    return f"(SELECT {COLUMNS[type_]} FROM s s2 LIMIT 1 OFFSET 0)"


def either(type_: str) -> str:
    """A sub-query within an expression."""
    return f"CASE WHEN k = 1 THEN {query(type_)} ELSE {query(type_)} END"


def expressions(type_: str) -> Iterator[str]:
    inner, column = query(type_), COLUMNS[type_]
    for operator in OPERATORS:
        for left, right in ((column, inner), (inner, column), (inner, inner), (either(type_), inner)):
            yield f"{left} {operator} {right}"
    for form in (*GENERAL, *OWN.get(type_, ())):
        yield form.format(inner, column, type_)
        yield form.format(f"({either(type_)})", column, type_)


def times() -> Iterator[str]:
    """Dates and timestamps with each other."""
    for left, right in itertools.product(TIMES, TIMES):
        sides = itertools.product((COLUMNS[left], query(left), either(left)), (COLUMNS[right], query(right)))
        for (one, other), operator in itertools.product(sides, (*OPERATORS, ">=")):
            yield f"{one} {operator} {other}"


@pytest.fixture
def filled(pair: Pair) -> Pair:
    columns = ", ".join(f"{name} {type_}" for type_, name in COLUMNS.items())
    values = ", ".join(f"{value}::{type_}" for type_, value in VALUES.items())
    pair.run(f"CREATE TABLE s (k int PRIMARY KEY, {columns})", f"INSERT INTO s VALUES (1, {values})")
    pair.run("INSERT INTO s (k) VALUES (2)")
    pair.shoal.execute("SET shoal.path = columnar")
    return pair


@pytest.mark.parametrize("type_", some(VALUES, 2))
def test_operands(filled: Pair, type_: str) -> None:
    same(filled, expressions(type_))


@pytest.mark.parametrize("part", parts(2))
def test_dates_and_timestamps(filled: Pair, part: Part) -> None:
    same(filled, part.of(times()))


def same(pair: Pair, made: Iterable[str]) -> None:
    """Each expression has the same values for each row, or is refused by its name."""
    for expression in made:
        sql = f"SELECT k, {expression} AS x FROM s"
        ours = outcome(pair.shoal, sql)
        assert ours[0] == "0A000" or ours == outcome(pair.postgres, sql), sql
