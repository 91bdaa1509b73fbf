"""Sessions that meet: generated scenarios on both servers, and servers that are told something else, which the
comparison notices. `python -m tests.torture.isolation.test_meetings SEED SECONDS` goes on from a seed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer
from tests.torture.isolation.meetings import (
    FAULTS,
    Place,
    Scenario,
    Tally,
    compare,
    make,
    noticed,
    planted,
    run_meetings,
)
from tests.torture.isolation.themes import THEMES

SEEDS = range(1, 221)


@pytest.fixture(scope="module")
def theirs(postgres_server: PostgresServer) -> Iterator[Place]:
    place = Place(postgres_server.dsn)
    yield place
    place.close()


def test_sessions_meet_as_in_postgresql(theirs: Place, shoal: ShoalServer) -> None:
    ours, tally = Place(shoal.dsn), Tally()
    for seed in SEEDS:
        assert compare(make(seed), theirs, ours, tally) == "", f"seed {seed}"
    ours.close()
    assert tally.scenarios == len(SEEDS) and tally.waits > 50
    assert {"23505", "23503", "40001"} <= tally.errors.keys()


@pytest.mark.parametrize("name", FAULTS)
def test_a_server_with_a_fault_is_noticed(theirs: Place, postgres_server: PostgresServer, name: str) -> None:
    database = f"faulty_{sorted(FAULTS).index(name)}"
    with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {database}".encode())
    faulty = Place(postgres_server.dsn.replace("dbname=postgres", f"dbname={database}"), planted(FAULTS[name]))
    assert noticed(FAULTS[name], theirs, faulty)
    faulty.close()


@pytest.mark.parametrize("role", ["pg_monitor", "pg_read_all_data"])
def test_no_grant_is_lost_beside_another_one(server: ShoalServer | PostgresServer, role: str) -> None:
    """The later one of two changes of an object is made of the earlier one, or fails (PostgreSQL: XX000)."""
    with psycopg.connect(server.dsn, autocommit=True) as first, psycopg.connect(server.dsn, autocommit=True) as second:
        first.execute("DROP TABLE IF EXISTS granted; CREATE TABLE granted (a int)")
        first.execute("BEGIN; GRANT SELECT ON granted TO PUBLIC")
        second.execute("SET lock_timeout = 300")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            second.execute(f"GRANT UPDATE ON granted TO {role}".encode())
        first.execute("COMMIT")
        second.execute(f"GRANT UPDATE ON granted TO {role}".encode())
        found = first.execute("SELECT relacl::text FROM pg_class WHERE oid = 'granted'::regclass").fetchone()
        assert found is not None and "=r/" in found[0] and f"{role}=w/" in found[0]
        first.execute("DROP TABLE granted")


def test_drop_index_holds_nothing_while_it_waits_for_the_table(theirs: Place, shoal: ShoalServer) -> None:
    script = ("BEGIN ISOLATION LEVEL READ COMMITTED", "LOCK TABLE a IN ROW SHARE MODE", "DROP INDEX av", "ROLLBACK")
    scenario = Scenario(THEMES["definitions"], (("DROP INDEX av",), script), (1, 1, 0, 1, 1))
    ours = Place(shoal.dsn)
    assert compare(scenario, theirs, ours) == ""
    ours.close()


if __name__ == "__main__":
    with ShoalServer() as here, PostgresServer() as there:
        found = run_meetings(int(sys.argv[1]), float(sys.argv[2]), Place(there.dsn), Place(here.dsn))
        print(f"{found.scenarios} scenarios, {found.waits} waits, {len(found.failures)} differences")
        print("\n".join(found.failures))
