"""What nests deeply, or is long: the answer is PostgreSQL's, or 54001 where Shoal's limit is lower, within seconds, and
never an internal error. The server goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.samples import some
from tests.server import ShoalServer

_LIMIT = "54001"
_SLOW = ("sub-queries in FROM", "UNION", "IN", "EXISTS")  # on either server
_SHAPES: dict[str, Callable[[int], str]] = {
    "parentheses": lambda n: f"SELECT {'(' * n}1{')' * n}",
    "json, open": lambda n: f"SELECT repeat('[', {n})::json",
    "jsonb, open": lambda n: f"SELECT repeat('[', {n})::jsonb",
    "json arrays": lambda n: f"SELECT length((repeat('[', {n}) || repeat(']', {n}))::json::text)",
    "jsonb arrays": lambda n: f"SELECT length((repeat('[', {n}) || repeat(']', {n}))::jsonb::text)",
    "json objects": lambda n: f"""SELECT length((repeat('{{"a":', {n}) || '1' || repeat('}}', {n}))::json::text)""",
    "jsonb objects": lambda n: f"""SELECT (repeat('{{"a":', {n}) || '1' || repeat('}}', {n}))::jsonb IS NULL""",
    "json functions": lambda n: f"SELECT json_typeof(json_strip_nulls((repeat('[', {n}) || repeat(']', {n}))::json))",
    "jsonb functions": lambda n: f"SELECT length(jsonb_pretty((repeat('[', {n}) || repeat(']', {n}))::jsonb)) > 0",
    "jsonb @>": lambda n: f"SELECT j @> j, j = j FROM (SELECT (repeat('[', {n}) || repeat(']', {n}))::jsonb AS j) v",
    "array, open": lambda n: f"SELECT repeat('{{', {n})::int[]",
    "arrays": lambda n: f"SELECT {'ARRAY[' * n}1{']' * n}",
    "tsquery": lambda n: f"SELECT length((repeat('(', {n}) || 'a' || repeat(')', {n}))::tsquery::text)",
    "pattern": lambda n: f"SELECT 'a' ~ (repeat('(', {n}) || 'a' || repeat(')', {n}))",
    "AND": lambda n: "SELECT " + " AND ".join(["true"] * n),
    "OR": lambda n: f"SELECT {' OR '.join(['g = 1'] * n)} FROM generate_series(1, 1) g",
    "||": lambda n: f"SELECT length({' || '.join(['$$a$$'] * n)})",
    "+": lambda n: "SELECT " + " + ".join(["1"] * n),
    "+ over a column": lambda n: f"SELECT g {'+ 1 ' * n} FROM generate_series(1, 1) g",
    "UNION": lambda n: " UNION ".join(["SELECT 1"] * n),
    "UNION ALL": lambda n: f"SELECT count(*) FROM ({' UNION ALL '.join(['SELECT 1'] * n)}) v",
    "NOT": lambda n: f"SELECT {'NOT ' * n}true",
    "signs": lambda n: f"SELECT {'- ' * n}1",
    "casts": lambda n: f"SELECT 1{'::text::int' * (n // 2)}",
    "calls": lambda n: f"SELECT {'abs(' * n}1{')' * n}",
    "calls over a column": lambda n: f"SELECT {'abs(' * n}g{')' * n} FROM generate_series(1, 1) g",
    "sub-queries in FROM": lambda n: f"SELECT count(*) FROM {'(SELECT * FROM ' * n}(VALUES (1)) q{') q' * n}",
    "sub-queries": lambda n: f"SELECT {'(SELECT ' * n}1{')' * n}",
    "EXISTS": lambda n: f"SELECT 1 WHERE {'EXISTS (SELECT 1 WHERE ' * n}true{')' * n}",
    "IN": lambda n: f"SELECT 1 WHERE {'1 IN (SELECT 1 WHERE ' * n}true{')' * n}",
    "CASE": lambda n: f"SELECT {'CASE WHEN true THEN ' * n}1{' END' * n}",
    "ELSE": lambda n: f"SELECT {'CASE WHEN false THEN 1 ELSE ' * n}1{' END' * n}",
    "coalesce": lambda n: f"SELECT {'coalesce(' * n}1{')' * n}",
    "list": lambda n: f"SELECT 1 IN ({', '.join(map(str, range(n)))})",
    "comments": lambda n: f"SELECT {'/*' * n}{'*/' * n}1",
    "queries in parentheses": lambda n: f"{'(' * n}SELECT 1{')' * n}",
    "CHECK": lambda n: f"CREATE TEMPORARY TABLE nested (a int CHECK ({'(' * n}a > 0{')' * n}))",
    "PREPARE": lambda n: f"PREPARE nested AS SELECT {'(' * n}$1::int{')' * n}",
}  # fmt: skip


@pytest.fixture(scope="module")
def servers(shoal: ShoalServer, postgres_server: PostgresServer) -> tuple[str, str]:
    return shoal.dsn, postgres_server.dsn


def _answer(dsn: str, statement: str) -> object:
    with psycopg.connect(dsn, autocommit=True, options="-c statement_timeout=60s") as connection:
        try:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else cursor.statusmessage
        except psycopg.Error as error:
            return f"{error.sqlstate} {error.diag.message_primary}"


def _fits(got: object, wanted: object) -> bool:
    """Whether Shoal's answer stands beside PostgreSQL's. Where that one meets its own limit, any answer does; where
    it fails otherwise, another error does."""
    failed = isinstance(got, str) and got[0].isdigit()
    if got == wanted or got == f"{_LIMIT} stack depth limit exceeded":
        return True
    if not isinstance(wanted, str) or not wanted[0].isdigit() or str(got).startswith(("XX000", "57014")):
        return False
    return failed or wanted.startswith((_LIMIT, "42601 memory exhausted"))


@pytest.mark.parametrize(("shape", "depth"), some(product(_SHAPES, (2, 30, 150, 2000, 10000)), 3))
def test_depths(servers: tuple[str, str], shape: str, depth: int) -> None:
    if depth == 10000 and shape in _SLOW:
        pytest.skip("takes long on PostgreSQL, too")
    statement = _SHAPES[shape](depth)
    got, wanted = (_answer(dsn, statement) for dsn in servers)
    if depth <= 30 and isinstance(wanted, list):
        assert got == wanted
    assert _fits(got, wanted), (str(got)[:200], str(wanted)[:200])


def test_internal_errors_do_not_fit() -> None:
    assert not _fits("XX000 internal error: RecursionError", "54001 stack depth limit exceeded")
    assert not _fits("XX000 internal error: RecursionError", [(1,)])
    assert not _fits([(2,)], [(1,)])
    assert not _fits("57014 canceling statement due to statement timeout", "54001 stack depth limit exceeded")
