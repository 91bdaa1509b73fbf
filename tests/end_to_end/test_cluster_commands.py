"""The commands and views of a real cluster: what an operator sees of it, and whether its replicas are equal."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from tests import forks
from tests.cluster import ShoalCluster

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ShoalCluster]:
    with ShoalCluster(2) as found:
        with found.connect() as connection:
            connection.execute("CREATE TABLE words (a int PRIMARY KEY, b text)")
            connection.execute("CREATE INDEX words_b ON words (b)")
            connection.execute("INSERT INTO words SELECT g, 'word ' || g FROM generate_series(1, 500) g")
        found.wait_for_applied()
        yield found


def shoal(*arguments: str) -> tuple[int, str, str]:
    """(exit status, standard output, standard error) of a command."""
    done = forks.run(*arguments)
    return done.returncode, done.stdout, done.stderr


def test_status_shows_a_cluster_that_is_well(cluster: ShoalCluster) -> None:
    status, shown, _ = shoal("status", "--cluster", cluster.url, "--json")
    value = json.loads(shown)
    assert {node["node"] for node in value["nodes"]} == set(cluster.nodes)
    (tablespace,) = value["tablespaces"]
    assert tablespace["leader"] == cluster.leader() and tablespace["live_replicas"] == 2
    assert (status, value["problems"]) == (0, [])


@pytest.mark.parametrize("leading", [True, False])
def test_the_views_show_the_cluster_on_every_node(cluster: ShoalCluster, leading: bool) -> None:
    leader = cluster.leader()
    name = leader if leading else cluster.followers()[0]
    with cluster.connect(name) as connection:
        nodes = connection.execute("SELECT node, port, alive, this_node FROM shoal_nodes ORDER BY 1").fetchall()
        assert nodes == [(item, node.port, True, item == name) for item, node in sorted(cluster.nodes.items())]
        query = "SELECT leader, live_replicas, under_replicated, store FROM shoal_tablespaces"
        assert connection.execute(query).fetchall() == [(leader, 2, False, cluster.store_url)]
        roles = dict(connection.execute("SELECT node, role FROM shoal_replicas").fetchall())
        assert roles == {item: "leader" if item == leader else "follower" for item in cluster.nodes}
        state = connection.execute("SELECT role, node, cluster_stale, head_lsn >= durable_lsn FROM shoal_log_status")
        assert state.fetchall() == [("leader" if leading else "follower", name, False, True)]
        assert connection.execute("SELECT count(*) FROM shoal_ledgers WHERE state = 'open'").fetchone() == (1,)


def test_replicas_are_equal_at_one_lsn_under_load(cluster: ShoalCluster) -> None:
    stop = threading.Event()

    def write() -> None:
        with cluster.connect() as connection:
            number = 1000
            while not stop.is_set():
                number += 1
                connection.execute("INSERT INTO words VALUES (%s, 'more')", (number,))
                connection.execute("UPDATE words SET b = b || '.' WHERE a = %s", (number - 7,))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        status, shown, error = shoal("check", "--cluster", cluster.url, "--json", "--timeout", "60")
    finally:
        stop.set()
        writer.join()
    value = json.loads(shown)
    assert (status, value["equal"], error) == (0, True, "")
    (first,) = value["tablespaces"]
    assert first["tablespace"] == "pg_default"
    assert len({item["hash"] for item in first["replicas"]}) == 1
    assert len({item["lsn"] for item in first["replicas"]}) == 1 and len(first["replicas"]) == 2


def test_a_checkpoint_is_written_when_it_is_asked_for(cluster: ShoalCluster) -> None:
    head = cluster.head().lsn
    status, shown, _ = shoal("checkpoint", "--cluster", cluster.url, "--json")
    assert status == 0
    lsn = json.loads(shown)["lsn"]
    assert lsn >= head
    with cluster.connect() as connection:
        query = "SELECT lsn, bytes > 0 FROM shoal_checkpoints ORDER BY lsn DESC LIMIT 1"
        cluster.wait_until(lambda: connection.execute(query).fetchone() == (lsn, True), "the view shows the checkpoint")
        asked = connection.execute("SELECT shoal_checkpoint(), shoal_checkpoint()").fetchone()
        assert asked is not None and asked[0] == asked[1] >= lsn
        connection.execute("PREPARE one (int8) AS SELECT $1")
        assert (connection.execute("EXECUTE one (shoal_checkpoint())").fetchone() or (0,))[0] >= lsn


def test_another_node_leads_when_it_is_asked_to(cluster: ShoalCluster) -> None:
    before = cluster.leader()
    other = next(name for name in cluster.nodes if name != before)
    for expected in ({"leader": other, "before": before}, {"leader": other, "before": other, "seconds": 0.0}):
        status, shown, told = shoal("lead", other, "--cluster", cluster.url, "--json")
        assert status == 0, told
        assert json.loads(shown).items() >= {"tablespace": "pg_default", **expected}.items()
    assert cluster.leader() == other


def test_the_log_is_read_from_the_store(cluster: ShoalCluster) -> None:
    status, shown, _ = shoal("ledger", "read", "--cluster", cluster.url, "--json")
    entries = [json.loads(line) for line in shown.splitlines()]
    assert status == 0
    assert [entry["lsn"] for entry in entries[:5]] == [1, 2, 3, 4, 5]
    names = {edit["name"] for entry in entries for edit in entry["edits"]}
    assert {"public.words", "public.words_b", "catalog: Table", "checks"} <= names
    status, shown, _ = shoal("ledger", "list", "--cluster", cluster.url)
    assert status == 0 and "open" in shown and cluster.store_url in shown


def test_a_replica_that_differs_and_one_that_is_away_are_found() -> None:
    with ShoalCluster(2) as cluster:
        with cluster.connect() as connection:
            connection.execute("CREATE TABLE words (a int PRIMARY KEY, b text)")
            connection.execute("INSERT INTO words VALUES (1, 'right')")
        cluster.wait_for_applied()
        follower = cluster.followers()[0]
        cluster.stop_politely(follower)
        _falsify(cluster.nodes[follower].data, b"right", b"wrong")
        status, shown, _ = shoal("check", "--cluster", cluster.url, "--timeout", "5")
        assert status == 1 and "did not answer" in shown
        assert shoal("status", "--cluster", cluster.url)[0] == 1
        cluster.start(follower)
        cluster.wait_for_applied()
        status, shown, _ = shoal("check", "--cluster", cluster.url)
        assert status == 1
        assert f"{follower}: words differs (1 keys, 1 on the leader)" in shown


def _falsify(data: pathlib.Path, old: bytes, new: bytes) -> None:
    """Changes a value in a stopped node's tables behind its back."""
    code = (
        "import sys; from engine.storage.checkpoint import Checkpoint; tables = Checkpoint(sys.argv[1])\n"
        "old, new = sys.argv[2].encode(), sys.argv[3].encode()\n"
        "with tables.environment.begin(db=tables.rows, write=True) as transaction:\n"
        "    found = [(key, value) for key, value in transaction.cursor() if old in value]\n"
        "    assert len(found) == 1\n"
        "    transaction.put(found[0][0], found[0][1].replace(old, new))\n"
        "tables.close()\n"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(data / "rows"), old.decode(), new.decode()], cwd=ROOT, check=True, timeout=60
    )
