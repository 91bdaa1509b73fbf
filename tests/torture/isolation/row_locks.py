"""Which row locks stand beside each other: holder by holder, request by request, as PostgreSQL answers.

A request is made with NOWAIT and with SKIP LOCKED, so nobody waits; an INSERT that refers to the row asks for its lock
under a lock_timeout.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg

STRENGTHS = ("KEY SHARE", "SHARE", "NO KEY UPDATE", "UPDATE")
HOLDERS = {
    **{f"FOR {strength}": f"SELECT * FROM held WHERE id = 1 FOR {strength}" for strength in STRENGTHS},
    "UPDATE of another column": "UPDATE held SET v = v + 1 WHERE id = 1",
    "UPDATE of the key": "UPDATE held SET id = 5 WHERE id = 1",
    "DELETE": "DELETE FROM held WHERE id = 1",
    "a row that refers to it": "INSERT INTO refers VALUES (1)",
}
REQUESTS = {
    **{
        f"FOR {strength} {wait}": f"SELECT id FROM held WHERE id = 1 FOR {strength} {wait}"
        for strength in STRENGTHS
        for wait in ("NOWAIT", "SKIP LOCKED")
    },
    "a row that refers to it": "INSERT INTO refers VALUES (1) RETURNING 1",
    "all rows, SKIP LOCKED": "SELECT id FROM held ORDER BY id FOR UPDATE SKIP LOCKED",
}
SCHEMA = """
DROP TABLE IF EXISTS refers, held;
CREATE TABLE held (id int PRIMARY KEY, v int);
CREATE TABLE refers (id int REFERENCES held);
INSERT INTO held VALUES (1, 0), (2, 0);
"""


def conflicts(dsn: str, held_as: Callable[[str], str] = str) -> dict[tuple[str, str], str]:
    """(holder, request) -> the rows that the request gives, or its SQLSTATE. `held_as`: what is run in place of what
    takes a lock, for a planted fault."""
    found: dict[tuple[str, str], str] = {}
    with psycopg.connect(dsn, autocommit=True) as holder, psycopg.connect(dsn, autocommit=True) as asking:
        holder.execute(SCHEMA.encode())
        asking.execute(b"SET lock_timeout = '30ms'")
        for held, take in HOLDERS.items():
            holder.execute(b"BEGIN")
            holder.execute(held_as(take).encode())
            for request, sql in REQUESTS.items():
                found[held, request] = _ask(asking, sql)
            holder.execute(b"ROLLBACK")
    return found


def _ask(connection: psycopg.Connection[Any], sql: str) -> str:
    connection.execute(b"BEGIN")
    try:
        return str(connection.execute(sql.encode()).fetchall())
    except psycopg.Error as error:
        return str(error.sqlstate)
    finally:
        connection.execute(b"ROLLBACK")
