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
    EARLIER,
    FAULTS,
    LATER,
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
FOUND = (56332, 304486, 700612, 702304, 706104, 707125, 719217, 720276, 900883, 901285, 905114, 920083)
"""Seeds of scenarios that have differed once."""


@pytest.fixture(scope="module")
def theirs(postgres_server: PostgresServer) -> Iterator[Place]:
    place = Place(postgres_server.dsn)
    yield place
    place.close()


def differs(scenario: Scenario, theirs: Place, ours: Place, tally: Tally | None = None) -> str:
    """Twice: a process of PostgreSQL that gets no processor looks for deadlocks too late."""
    return compare(scenario, theirs, ours, tally) and compare(scenario, theirs, ours)


def test_what_has_differed_does_not_differ_again(theirs: Place, shoal: ShoalServer) -> None:
    ours = Place(shoal.dsn)
    for seed in FOUND:
        assert differs(make(seed, EARLIER), theirs, ours) == "", f"seed {seed}"
    ours.close()


@pytest.mark.parametrize("seeds", [SEEDS[::2], pytest.param(SEEDS, marks=pytest.mark.long)], ids=str)
def test_sessions_meet_as_in_postgresql(theirs: Place, shoal: ShoalServer, seeds: range) -> None:
    ours, tally = Place(shoal.dsn), Tally()
    for seed in seeds:
        assert differs(make(seed, EARLIER), theirs, ours, tally) == "", f"seed {seed}"
    ours.close()
    assert tally.scenarios == len(seeds) and tally.waits > len(seeds) / 5
    assert {"23505", "23503", "40001"} <= tally.errors.keys()


def test_changes_with_concurrently_meet_others_as_in_postgresql(theirs: Place, shoal: ShoalServer) -> None:
    ours, tally = Place(shoal.dsn), Tally()
    for seed in range(1, 61):
        assert differs(make(seed, LATER), theirs, ours, tally) == "", f"seed {seed}"
    ours.close()
    assert tally.waits


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


BLOCK = "BEGIN ISOLATION LEVEL READ COMMITTED"
AT_ONE_MOMENT = "BEGIN ISOLATION LEVEL REPEATABLE READ"
ADD = "INSERT INTO t VALUES (1, 9, 1) ON CONFLICT (id) DO UPDATE SET v = t.v + 1 WHERE t.v < 15 RETURNING *"
MERGE = (
    "MERGE INTO t USING (VALUES (1, 5), (2, 6)) s (id, w) ON t.id = s.id AND t.v < 20 + s.w WHEN MATCHED AND t.v = 10 "
    "THEN DELETE WHEN MATCHED THEN UPDATE SET v = t.v + s.w WHEN NOT MATCHED THEN INSERT VALUES (s.id + 10, s.w, 0)"
)
GONE, MOVED = "DELETE FROM t WHERE id = 1", "UPDATE t SET id = 3 WHERE id = 1"
MEETINGS = {  # theme, order, the first session's steps, the second one's
    "a row inserted anew is another one": (
        "conflicts", "00010", (BLOCK, GONE, ADD, "COMMIT"), ("UPDATE t SET v = v + 10 WHERE id = 1 RETURNING *",)
    ),
    "so is one under the key of one that has moved": (
        "conflicts", "00010", (BLOCK, MOVED, ADD, "COMMIT"), ("UPDATE t SET v = v + 10",)
    ),
    "and in partitions": (
        "partitions", "00010",
        (BLOCK, "UPDATE pt SET id = 3 WHERE id = 1", "UPDATE pt SET id = 1 WHERE id = 11", "COMMIT"),
        ("UPDATE pt SET id = 3 WHERE id = 1",),
    ),
    "what was rolled back was not inserted anew": (
        "conflicts", "000001", (BLOCK, GONE, "SAVEPOINT s", ADD, "ROLLBACK TO s", "ROLLBACK"), (GONE,)
    ),
    "ON CONFLICT finds one's own new row": (
        "conflicts", "1001011", (BLOCK, GONE, "COMMIT"), (AT_ONE_MOMENT, ADD, ADD, "COMMIT")
    ),
    "ON CONFLICT waits for who is about to change the row": (
        "conflicts", "00100",
        (AT_ONE_MOMENT, "INSERT INTO t VALUES (3, 3, 31)", "INSERT INTO t VALUES (1, 3, 31) ON CONFLICT DO NOTHING",
         "ROLLBACK"), ("INSERT INTO t VALUES (3, 1, 1) ON CONFLICT (u) DO UPDATE SET id = excluded.id",)
    ),
    "a key is given up by a row that is deleted beside": (
        "references", "100101", (AT_ONE_MOMENT, "DELETE FROM c", "COMMIT"),
        (AT_ONE_MOMENT, "DELETE FROM p WHERE id = 1", "COMMIT"),
    ),
    "MERGE changes one's own new row": (
        "merges", "0101101", (AT_ONE_MOMENT, GONE, "COMMIT"),
        (AT_ONE_MOMENT, ADD, "MERGE INTO t USING m ON t.id = m.id WHEN MATCHED THEN UPDATE SET v = m.v", "COMMIT"),
    ),
    "MERGE judges a changed row": ("merges", "0010", (BLOCK, "UPDATE t SET v = 15 WHERE id = 1", "COMMIT"), (MERGE,)),
    "MERGE finds a row that matches no more": ("merges", "0010", (BLOCK, "UPDATE t SET v = 90", "COMMIT"), (MERGE,)),
    "MERGE follows a row that moves": (
        "merges", "0010", (BLOCK, MOVED, "COMMIT"), (MERGE.replace("t.id = s.id AND", "t.u = s.id AND"),)
    ),
    "MERGE inserts for a row that is gone": ("merges", "0010", (BLOCK, GONE, "COMMIT"), (MERGE,)),
    "MERGE keeps what it has written while it waits": (
        "merges", "0011001",
        (BLOCK, "UPDATE t SET v = 9 WHERE id = 2", "SELECT * FROM t WHERE id = 1 FOR UPDATE", "COMMIT"),
        (BLOCK, MERGE, "COMMIT"),
    ),
    "DROP INDEX holds nothing while it waits": (
        "definitions", "00100",
        (BLOCK, "LOCK TABLE a IN ROW SHARE MODE", "DROP INDEX av", "ROLLBACK"), ("DROP INDEX av",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MEETINGS)
def test_a_meeting(theirs: Place, shoal: ShoalServer, name: str) -> None:
    theme, order, first, second = MEETINGS[name]
    scenario = Scenario(THEMES[theme], (first, second), tuple(map(int, order)))
    ours = Place(shoal.dsn)
    assert differs(scenario, theirs, ours) == ""
    ours.close()


if __name__ == "__main__":
    with ShoalServer() as here, PostgresServer() as there:
        found = run_meetings(int(sys.argv[1]), float(sys.argv[2]), Place(there.dsn), Place(here.dsn))
        print(f"{found.scenarios} scenarios, {found.waits} waits, {len(found.failures)} differences")
        print("\n".join(found.failures))
