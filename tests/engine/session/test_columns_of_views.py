"""Rights on columns of views that are changed, as in PostgreSQL: of a view, and of one over another's view."""

from __future__ import annotations

from itertools import product

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

SCHEMA = """
CREATE ROLE view_owner; CREATE ROLE view_other; CREATE ROLE view_user;
GRANT CREATE, USAGE ON SCHEMA public TO view_owner, view_other, view_user;
SET ROLE view_owner;
CREATE TABLE base (id int PRIMARY KEY, pub int, secret int);
INSERT INTO base VALUES (1, 10, 100), (2, 20, 200);
CREATE VIEW v1 AS SELECT id, secret AS s, pub AS p, pub + 1 AS more FROM base WHERE id > 0;
SET ROLE view_other;
CREATE VIEW v2 AS SELECT p AS q, id AS i FROM v1 WHERE s IS NOT NULL;
RESET ROLE;
"""
STATEMENTS = (
    "UPDATE {v} SET {p} = 1",
    "UPDATE {v} SET {p} = 1 WHERE {i} = 1",
    "UPDATE {v} SET {p} = {p} + 1",
    "UPDATE {v} SET {i} = 7 WHERE {p} = 10",
    "UPDATE {v} SET {p} = 1 RETURNING {i}",
    "UPDATE {v} SET {p} = 1 RETURNING *",
    "UPDATE {v} AS x SET {p} = 1 RETURNING x",
    "UPDATE {v} SET ({i}, {p}) = (9, 9) WHERE {i} = 1",
    "DELETE FROM {v}",
    "DELETE FROM {v} WHERE {i} = 1",
    "DELETE FROM {v} RETURNING {p}",
    "INSERT INTO {v} ({i}) VALUES (5)",
    "INSERT INTO {v} ({i}, {p}) VALUES (5, 6)",
    "INSERT INTO {v} ({i}, {p}) SELECT 5, 6 RETURNING {i}",
    "INSERT INTO {v} ({i}, {p}) VALUES (1, 6) ON CONFLICT ({i}) DO NOTHING",
    "INSERT INTO {v} ({i}, {p}) VALUES (1, 6) ON CONFLICT ({i}) DO UPDATE SET {p} = excluded.{p}",
    "INSERT INTO {v} ({i}, {p}) VALUES (1, 6) ON CONFLICT DO NOTHING",
    "SELECT {p} FROM {v}",
    "SELECT count(*) FROM {v}",
)
NAMES = {"v1": {"v": "v1", "i": "id", "p": "p"}, "v2": {"v": "v2", "i": "i", "p": "q"}}
GRANTS = (
    "",
    "SELECT",
    "UPDATE",
    "UPDATE ({p})",
    "SELECT ({i}), UPDATE ({p})",
    "SELECT ({i}, {p}), UPDATE ({p})",
    "SELECT ({p}), UPDATE ({i}, {p})",
    "INSERT ({i})",
    "INSERT ({i}, {p})",
    "INSERT, SELECT ({i}), UPDATE ({p})",
    "DELETE",
    "DELETE, SELECT ({i})",
)
BELOW = ("ALL", "SELECT", "SELECT (id, p), INSERT, UPDATE, DELETE", "SELECT (id, p, s), UPDATE (p), INSERT (id, p)")


END = """
RESET ROLE;
DROP VIEW v2; DROP VIEW v1; DROP TABLE base;
REVOKE CREATE, USAGE ON SCHEMA public FROM view_owner, view_other, view_user;
DROP ROLE view_owner, view_other, view_user;
"""


def outcomes(dsn: str, view: str) -> dict[tuple[str, ...], str]:
    """By what the owner of the outer view may do to the inner one, what the user may do to the view, and statement:
    what comes of it."""
    found = {}
    names = NAMES[view]
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(SCHEMA.encode())
        try:
            for below, granted in product(BELOW if view == "v2" else ("",), GRANTS):
                connection.execute("BEGIN")
                if below:
                    connection.execute(f"SET LOCAL ROLE view_owner; GRANT {below} ON v1 TO view_other".encode())
                    connection.execute("RESET ROLE")
                if granted:
                    connection.execute(f"GRANT {granted.format(**names)} ON {view} TO view_user".encode())
                connection.execute("SET LOCAL ROLE view_user")
                for statement in STATEMENTS:
                    connection.execute("SAVEPOINT one")
                    try:
                        came = connection.execute(statement.format(**names).encode()).statusmessage or ""
                    except psycopg.Error as error:
                        # Which view is named first, where several are refused, is left open.
                        came = error.sqlstate or ""
                    connection.execute("ROLLBACK TO one")
                    found[below, granted, statement] = came
                connection.execute("ROLLBACK")
        finally:
            connection.execute(END.encode())
    return found


@pytest.mark.parametrize("view", NAMES)
def test_column_privileges_are_those_of_postgresql(
    shoal: ShoalServer, postgres_server: PostgresServer, view: str
) -> None:
    here, there = outcomes(shoal.dsn, view), outcomes(postgres_server.dsn, view)
    assert {key: (here[key], there[key]) for key in there if here[key] != there[key]} == {}
    assert len(set(there.values())) > 4  # successes of several kinds, and refusals
