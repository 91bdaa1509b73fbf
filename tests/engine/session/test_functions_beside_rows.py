"""Functions in SQL over the columns of what stands beside them: every kind of result, strict or not, in every place."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.samples import some
from tests.server import ShoalServer

_RESULTS = {  # what is declared, and the body: over the rows of f_t with a = $1, and with a <= $1
    "row": ("(a int, OUT b text, OUT c int)", "", "SELECT x.b, x.a FROM f_t x WHERE x.a = $1"),
    "one": ("(a int, OUT b text, OUT c int)", "", "SELECT x.b, x.a FROM f_t x WHERE x.a <= $1 ORDER BY 2 DESC"),
    "rows": ("(a int)", "RETURNS SETOF f_t", "SELECT * FROM f_t x WHERE x.a <= $1"),
    "listed": ("(a int)", "RETURNS TABLE (b text, c int)", "SELECT x.b, x.a FROM f_t x WHERE x.a <= $1"),
    "value": ("(a int)", "RETURNS text", "SELECT x.b FROM f_t x WHERE x.a = $1"),
    "values": ("(a int)", "RETURNS SETOF int", "SELECT x.a FROM f_t x WHERE x.a <= $1"),
    "whole": ("(a int)", "RETURNS f_t", "SELECT * FROM f_t x WHERE x.a = $1"),
    "plain": ("(a int, OUT b int, OUT c int)", "", "SELECT $1 + 1, $1 * 2"),
    "nested": ("(a int, OUT b text, OUT c int)", "", "SELECT y.b, z.c FROM f_row($1) y, f_row(y.c) z"),
}
_PLACES = {
    "beside": "SELECT t.*, x.* FROM f_u t, {f}(t.r) x",
    "lateral": "SELECT t.*, x.* FROM f_u t LEFT JOIN LATERAL {f}(t.r) x ON true",
    "computed": "SELECT t.*, x.* FROM f_u t LEFT JOIN {f}(nullif(t.r, 2) + 0) x ON true",
    "further in": "SELECT t.*, (SELECT count(*) FROM {f}(t.r) x) FROM f_u t",
    "asked": "SELECT t.* FROM f_u t WHERE EXISTS (SELECT FROM {f}(t.r) x WHERE x IS NOT NULL)",
    "two": "SELECT t.*, x.*, y.* FROM f_u t, {f}(t.r) x, {f}(t.k / 10) y",
    "two levels": "SELECT t.*, z.* FROM f_u t, LATERAL (SELECT x.* FROM generate_series(1, 2) n, {f}(t.r - 1 + n) x) z",
    "target": "SELECT k, f::text FROM (SELECT t.k, {f}(t.r) AS f FROM f_u t) x",
}


@pytest.fixture(scope="module")
def pair(shoal: ShoalServer, postgres_server: PostgresServer) -> Iterator[tuple[psycopg.Connection, ...]]:
    with (
        psycopg.connect(shoal.dsn, autocommit=True) as ours,
        psycopg.connect(postgres_server.dsn, autocommit=True) as theirs,
    ):
        for connection in (ours, theirs):
            connection.execute("CREATE SCHEMA beside; SET search_path = beside")
            connection.execute(
                "CREATE TABLE f_t (a int PRIMARY KEY, b text); INSERT INTO f_t VALUES (1, 'x'), (2, 'y')"
            )
            connection.execute("CREATE TABLE f_u (k int PRIMARY KEY, r int)")
            connection.execute("INSERT INTO f_u VALUES (10, 1), (20, 2), (30, 3), (40, NULL)")
            for name, (arguments, result, body) in _RESULTS.items():
                for strict in ("", "STRICT"):
                    made = f"f_{name}{strict.lower()}{arguments} {result} LANGUAGE sql STABLE {strict}"
                    connection.execute(f"CREATE FUNCTION {made} AS $$ {body} $$".encode())
        yield ours, theirs
        for connection in (ours, theirs):
            connection.execute("DROP SCHEMA beside CASCADE")


def _rows(connection: psycopg.Connection, query: str) -> list[str]:
    return sorted(map(repr, connection.execute(query.encode()).fetchall()))


@pytest.mark.parametrize(
    ("name", "place", "path"),
    some(
        product([f"f_{name}{strict}" for name in _RESULTS for strict in ("", "strict")], _PLACES, ["auto", "columnar"]),
        5,
    ),
)
def test_rows_are_postgresqls(pair, name: str, place: str, path: str) -> None:
    ours, theirs = pair
    ours.execute(f"SET shoal.path = {path}")
    query = _PLACES[place].format(f=name)
    try:
        found = _rows(ours, query)
    except psycopg.errors.FeatureNotSupported:
        assert place == "target", "only rows among the values of a query are refused"
        return
    assert found == _rows(theirs, query)
