"""A row whose key has been changed since the snapshot was updated, not deleted; as in PostgreSQL."""

from __future__ import annotations

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

MOVE, DELETE = "UPDATE moved SET id = 2 WHERE id = 1", "DELETE FROM moved WHERE id = 1"


@pytest.mark.parametrize(
    ("change", "then", "what"),
    [
        (MOVE, "SELECT * FROM moved FOR UPDATE", "update"),
        (MOVE, "UPDATE moved SET v = 1", "update"),
        (MOVE, "DELETE FROM moved", "update"),
        (DELETE, "SELECT * FROM moved FOR SHARE", "update"),
        (DELETE, "UPDATE moved SET v = 1", "delete"),
    ],
)
def test_what_has_become_of_a_row(
    shoal: ShoalServer, postgres_server: PostgresServer, change: str, then: str, what: str
) -> None:
    for server in (shoal, postgres_server):
        with (
            psycopg.connect(server.dsn, autocommit=True) as other,
            psycopg.connect(server.dsn, autocommit=True) as connection,
        ):
            other.execute("CREATE TABLE moved (id int PRIMARY KEY, v int)")
            try:
                other.execute("INSERT INTO moved VALUES (1)")
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
                connection.execute("SELECT * FROM moved")
                other.execute(change.encode())
                with pytest.raises(psycopg.errors.SerializationFailure, match=f"due to concurrent {what}"):
                    connection.execute(then.encode())
                connection.execute("ROLLBACK")
            finally:
                other.execute("DROP TABLE moved")
