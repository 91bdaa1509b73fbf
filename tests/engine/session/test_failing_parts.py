"""What PostgreSQL computes fails where it fails, also where its value would not matter; what it leaves out does not.

So the row path answers. The columnar path has DuckDB's order of conditions, and DuckDB leaves out what it knows the
result of: there either may be an error where the other one is not, but two answers are equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.samples import Part, parts, some
from tests.server import ShoalServer

# Of columns that are never NULL (`id`, `z` is 0), of one that may be (`n`), and of none.
FAILING = {
    "integer": ("1 / z", "(~id) / greatest(z, z)", "n / z", "(t || 'x')::int", "id + 2147483647", "id % z"),
    "boolean": ("1 / z = 1", "t::int = 1", "(t || 'x')::bool", "n / z > 0", "id / z IS NULL", "sqrt(-id) > 0"),
    "text": ("chr(-id)", "substr(t, 1, -id)", "lpad(t, 3, chr(-id))", "(1 / z)::text", "t || (n / z)"),
}
PLACES = {
    "integer": (
        "{e} IS NULL", "{e} IS NOT NULL", "ROW({e}, 1) IS NULL", "ROW(1, {e}) IS NOT NULL", "ROW({e}, {e}) IS NULL",
        "{e} IS DISTINCT FROM 1", "{e} IS NOT DISTINCT FROM NULL", "NULL IS DISTINCT FROM {e}", "coalesce(id, {e})",
        "coalesce({e}, 1)", "coalesce(n, {e})", "coalesce(NULL, {e})", "nullif({e}, 1)", "nullif(1, {e})",
        "nullif(n, {e})", "greatest(1, {e})", "least(NULL, {e})", "CASE WHEN id > 0 THEN 1 ELSE {e} END",
        "CASE {e} WHEN 1 THEN 2 END", "CASE id WHEN {e} THEN 2 END", "CASE WHEN {e} IS NULL THEN 1 END",
        "{e} = ANY (ARRAY[1, 2])", "{e} <> ALL (ARRAY[1, NULL])", "1 = ANY (ARRAY[1, {e}])", "id IN (1, {e})",
        "{e} IN (1, 2)", "n = ANY (ARRAY[n, {e}])", "{e} = ANY ('{{}}'::int[])", "{e} BETWEEN 1 AND 2",
        "id BETWEEN 5 AND {e}", "id BETWEEN {e} AND 5", "(ARRAY[1, {e}])[1]", "(ARRAY[1, 2])[{e}]",
        "cardinality(ARRAY[{e}])", "ARRAY[{e}] IS NULL", "(ROW({e}, 1)).f2", "ROW(1, {e}) = ROW(2, 1)",
        "ROW(id, {e}) < ROW(5, 1)", "({e})::text IS NULL", "({e})::int8 IS NOT NULL", "NULL::int + {e}",
        "{e} * NULL::int", "0 * {e}", "abs({e}) IS NULL", "concat({e}, 'a')", "num_nulls(1, {e})",
        "({e}, 1) IN ((1, 1))",
        "EXISTS (SELECT {e})", "EXISTS (SELECT 1 WHERE {e} = 1)", "(SELECT {e})", "(SELECT 1 WHERE {e} IS NULL)",
        "ARRAY(SELECT {e})", "id IN (SELECT {e})", "{e} IN (SELECT id FROM none)", "(SELECT count({e}))",
    ),
    "boolean": (
        "{e} IS TRUE", "{e} IS NOT TRUE", "{e} IS UNKNOWN", "{e} IS NOT UNKNOWN", "NOT {e}", "id > 0 OR {e}",
        "id < 0 AND {e}", "{e} OR id > 0", "n > 0 AND {e}", "n > 0 OR {e}", "NULL AND {e}", "NULL OR {e}",
        "({e}) IS NULL", "({e}) = true", "bool({e})", "CASE WHEN id < 0 AND {e} THEN 1 END", "coalesce(true, {e})",
    ),
    "text": (
        "({e}) IS NULL", "({e}) IS NOT NULL", "length({e}) IS NULL", "({e}) LIKE '%'", "({e}) ~ ''", "concat({e})",
        "concat_ws(NULL, {e})", "({e}) || NULL", "coalesce(t, {e})", "({e}) IN ('a', NULL)",
        "quote_nullable({e}) IS NULL",
        "format('%s', {e}) IS NULL", "({e}) COLLATE \"C\" IS NULL", "starts_with({e}, '')", "nullif(t, {e})",
    ),
}  # fmt: skip
STATEMENTS = (
    "SELECT {p} FROM t", "SELECT id FROM t WHERE ({p}) IS NULL",
    "SELECT id FROM t WHERE CASE id WHEN 1 THEN ({p}) IS NOT NULL END",
    "SELECT id FROM t ORDER BY {p}, id", "SELECT count({p}) FROM t",
    "SELECT count(*) FILTER (WHERE ({p}) IS NULL) FROM t",
    "SELECT id FROM (SELECT id, {p} AS x FROM t) s", "SELECT x IS NULL FROM (SELECT id, {p} AS x FROM t OFFSET 0) s",
    "UPDATE t SET b = ({p}) IS NULL RETURNING b",
)  # fmt: skip


def answer(connection: psycopg.Connection, statement: str) -> object:
    """The rows of a statement, or its SQLSTATE."""
    try:
        return sorted(connection.execute(statement.encode()).fetchall(), key=repr)
    except psycopg.Error as error:
        return error.sqlstate


PATHS = ("auto", "columnar")


def is_columnar(shoal: psycopg.Connection, statement: str) -> bool:
    return "Columnar" in str(shoal.execute(f"EXPLAIN {statement}".encode()).fetchall())


@pytest.fixture(scope="module")
def both(
    postgres_server: PostgresServer, shoal: ShoalServer
) -> Iterator[tuple[psycopg.Connection, psycopg.Connection]]:
    """A connection to each, in a schema of its own with the same table."""
    connections = [psycopg.connect(found.dsn, autocommit=True) for found in (postgres_server, shoal)]
    for connection in connections:
        connection.execute("CREATE SCHEMA failing")
        connection.execute("SET search_path TO failing")
        connection.execute("CREATE TABLE none (id int PRIMARY KEY)")
        connection.execute(
            "CREATE TABLE t (id int PRIMARY KEY, z int NOT NULL, n int, t text NOT NULL DEFAULT 'a', b bool)"
        )
        connection.execute("INSERT INTO t VALUES (1, 0, 5), (2, 0, NULL)")
    yield connections[0], connections[1]
    for connection in connections:
        connection.execute("DROP SCHEMA failing CASCADE")
        connection.close()


@pytest.mark.parametrize(
    ("kind", "number", "path"),
    some([(kind, n, path) for kind, each in FAILING.items() for n in range(len(each)) for path in PATHS], 11),
)
@pytest.mark.parametrize("part", parts(2))
def test_errors_are_postgresqls(
    both: tuple[psycopg.Connection, psycopg.Connection], kind: str, number: int, path: str, part: Part
) -> None:
    postgres, shoal = both
    shoal.execute(f"SET shoal.path = {path}".encode())
    different, answers = [], 0
    chosen = part.of(product(PLACES[kind], STATEMENTS))
    for place, statement in chosen:
        sql = statement.format(p=place.format(e=f"({FAILING[kind][number]})"))
        ours, theirs = answer(shoal, sql), answer(postgres, sql)
        answers += ours == theirs
        if ours != theirs and not (str in (type(ours), type(theirs)) and is_columnar(shoal, sql)):
            different.append((sql, ours, theirs))
    assert different == []
    assert answers > 0.6 * len(chosen)
