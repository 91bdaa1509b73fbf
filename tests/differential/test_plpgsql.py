"""Generated programs in PL/pgSQL give what they give in PostgreSQL."""

from __future__ import annotations

import psycopg
import pytest

from tests.differential.plpgsql import SETUP, run_programs, statements_of
from tests.oracle import PostgresServer
from tests.outcome import full_outcome
from tests.server import ShoalServer

SECONDS, MOST = 12, 130
LONG_SECONDS, FIRST_OF_LONG = 600, 100_000


def run(shoal: ShoalServer, postgres: PostgresServer, first: int, seconds: float, most: int) -> None:
    connect = psycopg.connect
    with connect(postgres.dsn, autocommit=True) as theirs, connect(shoal.dsn, autocommit=True) as ours:
        tally = run_programs(first, seconds, theirs, ours, most)
    assert not tally.failures, "\n".join(tally.failures[:20])
    assert tally.compared > 20
    assert tally.refused.total() < tally.compared / 20, tally.refused


def test_programs_agree(shoal: ShoalServer, postgres_server: PostgresServer) -> None:
    run(shoal, postgres_server, 1, SECONDS, MOST)


@pytest.mark.long
@pytest.mark.timeout(LONG_SECONDS + 60)
def test_many_programs_agree(shoal: ShoalServer, postgres_server: PostgresServer) -> None:
    run(shoal, postgres_server, FIRST_OF_LONG, LONG_SECONDS, 1_000_000)


def test_programs_end_in_many_ways(postgres_server: PostgresServer) -> None:
    """Else they would compare little: a share of them ends without an error, and errors differ."""
    with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA ways; SET search_path = ways")
        connection.execute(SETUP.encode())
        ends = []
        for seed in range(1, 200, 2):
            connection.execute("BEGIN")
            ends.append(full_outcome(connection, statements_of(seed)[0])[1])
            connection.execute("ROLLBACK")
        connection.execute("DROP SCHEMA ways CASCADE")
    assert 20 < ends.count("DO") < 90
    assert len(set(ends)) > 5
