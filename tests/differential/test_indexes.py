"""Random indexes change how rows are found, never which rows."""

from __future__ import annotations

import itertools
import time

import psycopg
import pytest

from tests.differential.indexes import Compared, compare
from tests.oracle import PostgresServer
from tests.server import ShoalServer

LONG_SECONDS, FIRST_OF_LONG = 300, 1000


def run(shoal: ShoalServer, postgres: PostgresServer, seeds: range, number: int, seconds: float = 3600) -> Compared:
    made, end = Compared(), time.monotonic() + seconds
    with (
        psycopg.connect(shoal.dsn, autocommit=True) as indexed,
        psycopg.connect(shoal.dsn, autocommit=True) as plain,
        psycopg.connect(postgres.dsn, autocommit=True) as oracle,
    ):
        for seed in itertools.takewhile(lambda _: time.monotonic() < end, seeds):
            compare(seed, number, indexed, plain, oracle, made)
        for place, connection in enumerate((indexed, plain, oracle)):
            connection.execute(f"drop schema indexes{place} cascade".encode())
    assert not made.differences, "\n".join(made.differences[:3])
    return made


def test_indexes_change_no_answer(shoal: ShoalServer, postgres_server: PostgresServer) -> None:
    made = run(shoal, postgres_server, range(2), 40)
    assert sum(made.used.values()) > made.queries / 5, made.used
    assert made.used["partial"] > 3
    assert made.used["whole"] > 3


@pytest.mark.long
@pytest.mark.timeout(LONG_SECONDS + 60)
def test_many_indexes_change_no_answer(shoal: ShoalServer, postgres_server: PostgresServer) -> None:
    run(shoal, postgres_server, range(FIRST_OF_LONG, 10**6), 100, LONG_SECONDS)
