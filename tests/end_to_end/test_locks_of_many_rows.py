"""FOR UPDATE of many rows, of which another transaction holds or has changed one: beside PostgreSQL."""

from __future__ import annotations

from typing import Protocol

import psycopg
import pytest


class Server(Protocol):
    @property
    def dsn(self) -> str: ...


SETUP = """
DROP TABLE IF EXISTS many, few; CREATE TABLE many (id int PRIMARY KEY, v int);
INSERT INTO many SELECT i, 0 FROM generate_series(1, 3000) i;
CREATE TABLE few (id int PRIMARY KEY); INSERT INTO few VALUES (5), (6)
"""
QUERIES = {
    "in a row": ("SELECT id, v FROM many WHERE id <= 400 ORDER BY id", 400, "many"),
    "as one": ("SELECT id, v FROM many ORDER BY v, id", 3000, "many"),
    "joined": ("SELECT m.id, m.v FROM many m JOIN few f ON m.id = f.id", 2, "m"),
    "by a query": ("SELECT id, v FROM (SELECT * FROM many ORDER BY id LIMIT 2500) m", 2500, ""),
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_row_of_many_that_is_held_or_changed(server: Server, name: str) -> None:
    query, count, locked = QUERIES[name]
    lock = f"{query} FOR UPDATE" + (f" OF {locked}" if locked else "")
    with (
        psycopg.connect(server.dsn) as first,
        psycopg.connect(server.dsn) as second,
        psycopg.connect(server.dsn) as third,
    ):
        first.execute(SETUP.encode())
        first.commit()
        second.execute("SET default_transaction_isolation = 'repeatable read'")
        second.commit()
        first.execute("UPDATE many SET v = 7 WHERE id = 5")
        second.execute("SELECT count(*) FROM many")  # its snapshot
        with pytest.raises(psycopg.errors.LockNotAvailable):
            third.execute(f"{lock} NOWAIT".encode())
        third.rollback()
        if locked:
            assert len(third.execute(f"{lock} SKIP LOCKED".encode()).fetchall()) == count - 1
        third.rollback()
        first.commit()
        rows = third.execute(lock.encode()).fetchall()
        assert len(rows) == count
        assert (5, 7) in rows
        with pytest.raises(psycopg.errors.LockNotAvailable):  # all of them are locked
            first.execute("SELECT FROM many WHERE id = 6 FOR NO KEY UPDATE NOWAIT")
        third.rollback()
        with pytest.raises(psycopg.errors.SerializationFailure):
            second.execute(lock.encode())
        second.rollback()
