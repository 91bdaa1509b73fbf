"""Schema changes that are undone leave nothing in columns: every change, rolled back, then every change, kept."""

from __future__ import annotations

import itertools

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.samples import some
from tests.server import ShoalServer

_CHANGES = {
    "a default": "ALTER TABLE undone ADD COLUMN x text DEFAULT 'a'",
    "another default": "ALTER TABLE undone ADD COLUMN x text DEFAULT 'b'",
    "no default": "ALTER TABLE undone ADD COLUMN x text",
    "another type": "ALTER TABLE undone ADD COLUMN x int DEFAULT 7",
    "two columns": "ALTER TABLE undone ADD COLUMN w int DEFAULT 1, ADD COLUMN x text DEFAULT 'c'",
    "a column less": "ALTER TABLE undone DROP COLUMN k",
    "other values": "UPDATE undone SET k = k + 1",
}
_ROWS = 3000
_LOOK = "SELECT count(*), md5(string_agg(undone::text, ',' ORDER BY id)) FROM undone"
_WRITE = "INSERT INTO undone (id) SELECT max(id) + 1 FROM undone"


@pytest.mark.parametrize(("first", "second"), some(itertools.product(_CHANGES, repeat=2), 3))
def test_what_was_undone_is_not_seen(
    shoal: ShoalServer, postgres_server: PostgresServer, first: str, second: str
) -> None:
    found = []
    for server in (shoal, postgres_server):
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("DROP TABLE IF EXISTS undone; CREATE TABLE undone (id int PRIMARY KEY, k int)")
            connection.execute(f"INSERT INTO undone SELECT n, n FROM generate_series(1, {_ROWS}) n")
            seen = [connection.execute(_LOOK).fetchone()]
            connection.execute("BEGIN")
            for statement in (_CHANGES[first], _WRITE):
                connection.execute(statement)
            seen.append(connection.execute(_LOOK).fetchone())
            connection.execute("ROLLBACK")
            seen.append(connection.execute(_LOOK).fetchone())
            for statement in (_CHANGES[second], _WRITE):
                connection.execute(statement)
            seen.append(connection.execute(_LOOK).fetchone())
            found.append(seen)
    assert found[0] == found[1]
