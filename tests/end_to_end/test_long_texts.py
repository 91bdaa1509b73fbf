"""What a server keeps of long statements when the sessions that sent them have ended: next to nothing.

Plans, statistics and whatever else goes by a statement's text are for everybody and stay: any user could fill the
memory by texts of a megabyte that differ.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.samples import some
from tests.server import ShoalServer

LENGTH = 1_000_000  # characters of a statement
TIMES = 60
KEPT = 30  # MB at most, of 60; a plan that fits is a few of them

KINDS = {
    "setting": "SET my.own = '{}'",
    "settings": "SET my.a{number} = '{}'",
    "set_config": "SELECT set_config('my.own', '{}', false)",
    "constant": "SELECT length('{}')",
    "comment": "SELECT /* {} */ 1",
    "name": 'SELECT 1 AS "{}"',
    "values": "VALUES ('{}'), ('a')",
    "columnar": "SELECT count(*) FROM t WHERE v LIKE '{}'",
    "insert": "BEGIN; INSERT INTO t VALUES ('{}'); ROLLBACK",
    "update": "UPDATE t SET v = '{}' WHERE false",
    "default": "CREATE TEMP TABLE d (a text DEFAULT '{}'); DROP TABLE d",
    "check": "CREATE TEMP TABLE d (a text CHECK (a <> '{}')); DROP TABLE d",
    "function": "CREATE FUNCTION f() RETURNS text LANGUAGE sql AS $$ SELECT '{}' $$; DROP FUNCTION f()",
    "view": "CREATE TEMP VIEW w AS SELECT '{}' AS a; DROP VIEW w",
    "prepare": "PREPARE p AS SELECT '{}'; DEALLOCATE p",
    "cursor": "BEGIN; DECLARE c CURSOR FOR SELECT '{}'; FETCH c; COMMIT",
    "explain": "EXPLAIN SELECT '{}'",
    "object comment": "COMMENT ON TABLE t IS '{}'; COMMENT ON TABLE t IS NULL",
    "error": "SELECT 1/0 /* {} */",
    "syntax error": "SELEKT '{}'",
    "unknown table": 'SELECT * FROM "{}"',
    "like": "SELECT 'a' LIKE '{}%'",
    "replacement": r"SELECT regexp_replace('a', '(a)', '{}\1')",
    "tsquery": "SELECT 'a'::tsvector @@ repeat('{} & ', 1)::text::tsquery",
    "time zone": "SET TimeZone = '{}'",
    "unknown setting": 'SET "{}" = 1',
}


@pytest.fixture(scope="module")
def server() -> Iterator[ShoalServer]:
    with ShoalServer() as server:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE t (v text)")
            connection.execute("SELECT count(*) FROM t")
        yield server


def resident(server: ShoalServer) -> int:
    """MB of the server's own memory."""
    lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) >> 10


def send(server: ShoalServer, statement: str, mark: str, times: int) -> None:
    """The statement with so many texts, none like another."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for number in range(times):
            text = f"{mark} {number} ".ljust(LENGTH, "x")
            with contextlib.suppress(psycopg.Error):
                connection.execute(statement.replace("{}", text).replace("{number}", str(number)).encode())


@pytest.mark.parametrize("kind", some(KINDS, 6))
def test_long_statements_are_not_kept(server: ShoalServer, kind: str) -> None:
    send(server, KINDS[kind], "first", 4)  # what the work itself takes, and leaves to the allocator
    before = resident(server)
    send(server, KINDS[kind], "later", TIMES)
    assert resident(server) - before < KEPT
