"""Constants that mean the time at which they are read: 'now' and its kin, in plans that are kept."""

from __future__ import annotations

import datetime
import time

import psycopg

from tests.oracle import PostgresServer
from tests.server import ShoalServer


def test_now_is_read_again_each_time(server: ShoalServer | PostgresServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        values: list[datetime.datetime] = []
        for _ in range(3):
            row = connection.cursor().execute("SELECT 'now'::timestamptz").fetchone()
            assert row is not None
            values.append(row[0])
            time.sleep(0.002)
        assert values[0] < values[1] < values[2]


def test_now_is_when_the_transaction_began(server: ShoalServer | PostgresServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("BEGIN")
        for _ in range(2):
            query = "SELECT 'now'::timestamptz = now(), 'today'::date = current_date, %s::int"
            assert connection.execute(query, (1,)).fetchone() == (True, True, 1)
            time.sleep(0.002)
        connection.execute("COMMIT")
