"""`shoal store`: a member of a quorum of log stores is replaced and switched off under a client that writes."""

from __future__ import annotations

import json
import pathlib
import threading
from collections.abc import Iterator

import pytest

from tests import forks
from tests.cluster import ShoalCluster
from tests.replication.stores.log_process import LogProcess

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ShoalCluster]:
    with ShoalCluster(2, store="quorum") as found:
        with found.connect() as connection:
            connection.execute("CREATE TABLE written (a int PRIMARY KEY)")
        yield found


def shoal(*arguments: str) -> tuple[int, str, str]:
    """(exit status, standard output, standard error) of a command."""
    done = forks.run(*arguments)
    return done.returncode, done.stdout, done.stderr


def test_a_member_is_replaced_and_switched_off_while_a_client_writes(cluster: ShoalCluster) -> None:
    stop, count = threading.Event(), 0

    def write() -> None:
        nonlocal count
        with cluster.connect() as connection:
            while not stop.is_set():
                connection.execute("INSERT INTO written VALUES (%s)", (count,))
                count += 1

    writer = threading.Thread(target=write)
    writer.start()
    old = cluster.log_stores[0]
    with LogProcess() as new:
        try:
            status, told, wrong = shoal("store", "replace", "--cluster", cluster.url, "--json", old.url, new.url)
            assert status == 0, wrong
            changed = json.loads(told)
            assert (changed["left"], changed["waited"]) == (old.url, True)
            assert all(new.url in url and old.url not in url for url in changed["stores"].values())
            assert changed["ledgers"] == 0
            assert not [ledger for ledger in cluster.ledgers() if old.url in ledger.store]
            old.kill()
            before = count
            cluster.wait_until(lambda: count > before + 20 or not writer.is_alive(), "writes without the old member")
        finally:
            stop.set()
            writer.join()
        name = cluster.add()  # one that has nothing reads everything without the old member
        with cluster.connect(name) as connection:
            assert connection.execute("SELECT count(*) FROM written").fetchone() == (count,)
            store = connection.execute("SELECT store FROM shoal_tablespaces").fetchone()
            assert store is not None and old.url not in store[0] and new.url in store[0]
        cluster.log_stores[1].kill()  # a live one: reads survive A - 1 losses
        status, told, wrong = shoal("ledger", "read", "--cluster", cluster.url)
        assert status == 0 and "all intact" in told, (told, wrong)
        name = cluster.add()
        with cluster.connect(name) as connection:
            assert connection.execute("SELECT count(*) FROM written").fetchone() == (count,)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("drain", "log://127.0.0.1:1"), "no tablespace has a store with the member log://127.0.0.1:1"),
        (("replace", "log://127.0.0.1:1", "nonsense"), '"nonsense" is not the URL of a changelog store'),
        (("drain", "--tablespace", "pg_default", "log://127.0.0.1:1"), "is not a member of"),
        (("drain", "--tablespace", "other", "log://127.0.0.1:1"), 'there is no tablespace "other"'),
    ],
)
def test_what_cannot_be_is_one_line(cluster: ShoalCluster, arguments: tuple[str, ...], told: str) -> None:
    status, _, wrong = shoal("store", arguments[0], "--cluster", cluster.url, *arguments[1:])
    assert status == 1 and told in wrong and wrong.count("\n") == 1


def test_a_quorum_with_no_member_to_spare_is_not_drained(cluster: ShoalCluster) -> None:
    status, _, wrong = shoal("store", "drain", "--cluster", cluster.url, cluster.log_stores[1].url)
    assert status == 1 and "needs 3 members" in wrong
