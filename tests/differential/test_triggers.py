"""Generated sets of triggers give what they give in PostgreSQL."""

from __future__ import annotations

import pytest

from tests.differential.triggers import SETUP, Generator, connect, run_sets
from tests.oracle import PostgresServer
from tests.outcome import full_outcome
from tests.server import ShoalServer

SECONDS, MOST = 15, 40
LONG_SECONDS, FIRST_OF_LONG = 600, 100_000


def run(shoal: ShoalServer, postgres: PostgresServer, first: int, seconds: float, most: int) -> None:
    with connect(postgres.dsn) as theirs, connect(shoal.dsn) as ours:
        tally = run_sets(first, seconds, theirs, ours, most)
    assert not tally.failures, "\n".join(tally.failures[:5])
    assert tally.compared > 5
    assert tally.refused.total() <= tally.compared / 10, tally.refused


def test_sets_of_triggers_agree(shoal: ShoalServer, postgres_server: PostgresServer) -> None:
    run(shoal, postgres_server, 1, SECONDS, MOST)


@pytest.mark.long
@pytest.mark.timeout(LONG_SECONDS + 60)
def test_many_sets_of_triggers_agree(shoal: ShoalServer, postgres_server: PostgresServer) -> None:
    run(shoal, postgres_server, FIRST_OF_LONG, LONG_SECONDS, 1_000_000)


def test_sets_do_much(postgres_server: PostgresServer) -> None:
    """Else they would compare little: most triggers are made and fire, and some statements fail."""
    made = notices = errors = statements = 0
    with connect(postgres_server.dsn) as connection:
        connection.execute("CREATE SCHEMA much; SET search_path = much")
        connection.execute(SETUP.encode())
        for seed in range(1, 60):
            connection.execute("BEGIN")
            for sql in Generator(seed).statements():
                connection.execute("SAVEPOINT s")
                found = full_outcome(connection, sql)
                failed = len(found) > 3
                made += not failed and sql.startswith(("CREATE TRIGGER", "CREATE CONSTRAINT"))
                notices += bool(found[0])
                errors += failed
                statements += 1
                if failed:
                    connection.execute("ROLLBACK TO s")
            connection.execute("ROLLBACK")
        connection.execute("DROP SCHEMA much CASCADE")
    assert made > 4 * 59
    assert notices > statements / 20
    assert statements / 50 < errors < statements / 4
