"""What pg_typeof() and the columns of a result say of domains, of their arrays and of whole rows, on both servers."""

from __future__ import annotations

from itertools import product

import psycopg
import pytest

from tests.engine.bulk.conftest import Connection
from tests.engine.session.conftest import Pair
from tests.samples import Part, parts

_SETUP = (
    "CREATE DOMAIN d4 AS int4",
    "CREATE DOMAIN d5 AS d4",
    "CREATE DOMAIN da AS int4[]",
    "CREATE DOMAIN dl AS d4[]",
    "CREATE TABLE x (a int4, d d4, e d5, v d4[], l dl, w da)",
    "CREATE VIEW vx AS SELECT a, d FROM x",
)
_ROWS = "INSERT INTO x SELECT n, n, n, ARRAY[n, n + 1], ARRAY[n], ARRAY[n, 2] FROM generate_series(1, {0}) n"
_VALUES = ("d", "e", "a", "4::d4", "7", "NULL", "v", "l", "w", "ARRAY[1]", "x", "ROW(a, d)")
_OF_DOMAINS, _PLAIN = {"v", "l"}, {"w", "ARRAY[1]"}  # arrays: of a domain beside integer[] they are integer[] here
_OVER = {"l", "w"}  # domains over arrays, of which there are no arrays here
_EXPRESSIONS = (
    "{0}", "coalesce({0})", "ARRAY[{0}]", "(SELECT {0})", "CASE WHEN a = 1 THEN {0} END", "first_value({0}) OVER ()",
    "lag({0}) OVER (ORDER BY a)",
)  # fmt: skip
_OF_TWO = (
    "coalesce({0}, {1})", "CASE WHEN a = 1 THEN {0} ELSE {1} END", "greatest({0}, {1})", "nullif({0}, {1})",
    "ARRAY[{0}, {1}]",
)  # fmt: skip
_OF_ARRAYS = (
    "{0}[1]", "{0}[1:1]", "{0} || {0}", "{0} || 4::d4", "{0} || 4", "array_append({0}, d)", "array_append({0}, 1)",
    "array_cat({0}, {0})", "array_remove({0}, d)", "unnest({0})", "array_prepend(4::d4, {0})", "ARRAY[{0}, {0}]",
    "trim_array({0}, 1)", "{0}::int4[]", "{0}::d4[]",
)  # fmt: skip
_GROUPED = ("max(d)", "min(e)", "sum(d)", "max(v)", "min(l)", "max(w)", "max(ARRAY[d])", "array_agg(d)", "count(x)")
_FROM = (
    "(SELECT d q FROM x) s",
    "(SELECT d q FROM x LIMIT 9) s",
    "(SELECT x q FROM x) s",
    "(SELECT d q FROM x GROUP BY d) s",
    "(SELECT 4::d4 q UNION ALL SELECT 7::d4) s",
    "(SELECT 4::d4 q UNION SELECT 7) s",
    "(SELECT d q FROM x UNION SELECT 7::d4) s",
    "(SELECT 4::d4 q UNION SELECT NULL) s",
    "(SELECT v q FROM x UNION ALL SELECT NULL) s",
    "(SELECT x q FROM x EXCEPT SELECT NULL) s",
    "(SELECT e q FROM x INTERSECT SELECT d FROM x) s",
    "(SELECT 1::d4 q UNION (SELECT 2::d4 UNION ALL SELECT d FROM x)) s",
    "(VALUES (4::d4), (7::d4)) s(q)",
    "(VALUES (4::d4), (7)) s(q)",
    "(VALUES (4::d4)) s(q)",
    "(VALUES (4::d4), (NULL)) s(q)",
    "(VALUES (ARRAY[4::d4]), (NULL)) s(q)",
    "(SELECT a FROM x) q",
    "x q",
    "vx q",
    "unnest(ARRAY[4::d4, 7::d4]) s(q)",
    "(SELECT array(SELECT d FROM x) q) s",
    "(SELECT DISTINCT d q FROM x) s",
    "ONLY x q",
    "(SELECT y.q FROM x LEFT JOIN x q ON false CROSS JOIN LATERAL (SELECT q) y(q)) s",
    "x s(z, q)",
)


@pytest.fixture(params=[3, pytest.param(3000, marks=pytest.mark.long)], ids=["few", "many"])
def tables(both_paths: Pair, request: pytest.FixtureRequest) -> Pair:
    both_paths.run(*_SETUP, _ROWS.format(request.param))
    return both_paths


def _shown(connection: Connection, sql: str) -> object:
    """The name of the result's type, and its texts; None where the server has no such query."""
    try:
        cursor = connection.execute(sql.encode())
    except psycopg.Error as error:
        return error.sqlstate if error.sqlstate != "XX000" else str(error)
    assert cursor.description is not None
    oids = [column.type_code for column in cursor.description]
    texts = sorted({tuple(map(str, row)) for row in cursor.fetchall()})[:20]
    names = [connection.execute("SELECT %s::oid::regtype::text", (oid,)).fetchone() for oid in oids]
    return names, texts


def _differences(pair: Pair, statements: list[str]) -> list[tuple[str, object, object]]:
    """Statements that give something else here; those aside that only one server has."""
    found = []
    for sql in statements:
        ours, theirs = _shown(pair.shoal, sql), _shown(pair.postgres, sql)
        if ours != theirs and ours != "0A000" and not isinstance(theirs, str):
            found.append((sql, ours, theirs))
    return found


def test_types_of_expressions(tables: Pair) -> None:
    made = [
        form.format(value) for form, value in product(_EXPRESSIONS, _VALUES) if form[0] != "A" or value not in _OVER
    ]
    made += [form.format(value) for form, value in product(_OF_ARRAYS, ("v", "ARRAY[d]", "ARRAY[4::d4]"))]
    made += [form.format(value) for form, value in product(_OF_ARRAYS, ("l", "w")) if form[0] != "A"]
    statements = [f"SELECT DISTINCT pg_typeof({value}) FROM x" for value in made]
    found = _differences(tables, statements)
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize("part", parts(3))
def test_types_of_what_is_one_of_two(tables: Pair, part: Part) -> None:
    pairs = [pair for pair in product(_VALUES, _VALUES) if len({*pair} & _OF_DOMAINS) != 1 or not {*pair} & _PLAIN]
    made = [
        form.format(*pair)
        for form, pair in part.of(product(_OF_TWO, pairs))
        if not (form[:5] == "ARRAY" and {*pair} & _OVER)
    ]
    statements = [f"SELECT DISTINCT pg_typeof({value}) FROM x" for value in made]
    found = _differences(tables, statements)
    assert not found, "\n".join(map(str, found))


def test_types_of_groups(tables: Pair) -> None:
    statements = [f"SELECT pg_typeof({value}) FROM x" for value in _GROUPED]
    statements += [f"SELECT pg_typeof({value}), count(*) FROM x GROUP BY a % 2" for value in _GROUPED]
    found = _differences(tables, statements)
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize("part", parts(2))
def test_types_through_queries(tables: Pair, part: Part) -> None:
    statements = [f"SELECT pg_typeof(q), count(*) FROM {item} GROUP BY 1" for item in _FROM]
    statements += [
        f"WITH s AS MATERIALIZED (SELECT q FROM {item}) SELECT DISTINCT pg_typeof(q) FROM s" for item in _FROM
    ]
    found = _differences(tables, part.of(statements))
    assert not found, "\n".join(map(str, found))


def test_types_of_result_columns(tables: Pair) -> None:
    """Of a domain clients are told the base type; of its arrays and of rows the type itself."""
    statements = [f"SELECT {value} AS r FROM x" for value in _VALUES]
    statements += [f"SELECT q FROM {item}" for item in _FROM]
    statements += ["SELECT x, x.a, vx FROM x JOIN vx USING (a)", "SELECT x FROM x ORDER BY x LIMIT 2"]
    found = _differences(tables, statements)
    assert not found, "\n".join(map(str, found))
