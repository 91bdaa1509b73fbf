"""A cluster of real processes: reads on every node, fail-over, nodes that come and go, what it stands on going away.

What happens under load, at every step of a commit: tests/torture.
"""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import orjson
import psycopg
import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NotEmptyError

from tests.cluster import NotStartedError, ShoalCluster
from tests.end_to_end.full_store import flag
from tests.samples import some
from tests.server import ShoalServer
from tests.zookeeper_server import ZooKeeper

SESSION = 2.0  # seconds, of the harness's settings
LEVELS = ("strong", "bounded", "session", "eventual")
GOES_ON = 20.0  # seconds within which a cluster works again by itself, on a loaded machine


def rows(connection: psycopg.Connection[Any], sql: str) -> list[tuple[Any, ...]]:
    return connection.execute(sql.encode()).fetchall()


def rows_in_the_end(cluster: ShoalCluster, name: str, sql: str, timeout: float = GOES_ON) -> list[tuple[Any, ...]]:
    """What a node reads, also when the leadership goes over meanwhile (on a machine that stood still)."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            with cluster.connect(name) as connection:
                return rows(connection, sql)
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise


def insert_until_taken(cluster: ShoalCluster, sql: str, timeout: float = GOES_ON) -> float:
    """Repeats a statement on the leader of the moment until it is committed; seconds that this took."""
    began = time.monotonic()
    while True:
        try:
            with cluster.connect() as connection:
                connection.execute(sql.encode())
                return time.monotonic() - began
        except psycopg.OperationalError:
            if time.monotonic() - began > timeout:
                raise


@pytest.fixture(scope="module")
def cluster(zookeeper_server: ZooKeeper) -> Iterator[ShoalCluster]:
    """Three nodes on a local store, which every test leaves running."""
    with ShoalCluster(3, zookeeper=zookeeper_server) as cluster:
        yield cluster


@pytest.fixture
def table(cluster: ShoalCluster, request: pytest.FixtureRequest) -> str:
    """An empty table of the test's own, known on every node."""
    name: str = "t_" + request.node.name.partition("[")[0].removeprefix("test_")[:40]
    insert_until_taken(cluster, f"CREATE TABLE {name} (id int PRIMARY KEY, v text)")
    cluster.wait_for_applied()
    return name


# --- reads and writes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
def test_followers_answer_reads(cluster: ShoalCluster, table: str, level: str) -> None:
    with cluster.connect() as leader:
        leader.execute(f"INSERT INTO {table} SELECT g, 'v' || g FROM generate_series(1, 50) g".encode())
        ((token,),) = rows(leader, "SELECT shoal_last_commit()")
    for name in cluster.followers():
        with cluster.connect(name) as follower:
            follower.execute(f"SET read_consistency = '{level}'".encode())
            if level != "strong":
                follower.execute(f"SET read_after = '{token}'".encode())
            assert rows(follower, f"SELECT v FROM {table} WHERE id = 7") == [("v7",)]
            assert rows(follower, f"SELECT count(*), max(id) FROM {table}") == [(50, 50)]
    with cluster.connect() as leader:
        leader.execute(f"DROP TABLE {table}".encode())


def test_writes_on_any_node(cluster: ShoalCluster, table: str) -> None:
    for number, name in enumerate(cluster.nodes):
        with cluster.connect(name) as connection:
            connection.execute(f"INSERT INTO {table} VALUES ({number}, '{name}')".encode())
            with connection.transaction():
                connection.execute(f"UPDATE {table} SET v = v || '!' WHERE id = {number}".encode())
            assert rows(connection, f"SELECT v FROM {table} WHERE id = {number}") == [(f"{name}!",)]
    for name in cluster.nodes:
        with cluster.connect(name) as connection:
            assert rows(connection, f"SELECT count(*) FROM {table}") == [(len(cluster.nodes),)]


def test_bulk_loads_and_schema_changes_reach_followers(cluster: ShoalCluster, table: str) -> None:
    with cluster.connect() as leader:
        with leader.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy:
            for number in range(8000):
                copy.write_row((number, f"row {number}"))
        leader.execute(f"CREATE INDEX ON {table} (v)".encode())
        leader.execute(f"ALTER TABLE {table} ADD COLUMN w int DEFAULT 5".encode())
        leader.execute(f"UPDATE {table} SET w = id % 10 WHERE id >= 0".encode())
    cluster.wait_for_applied()
    for name in cluster.nodes:
        with cluster.connect(name) as connection:
            assert rows(connection, f"SELECT id, w FROM {table} WHERE v = 'row 4711'") == [(4711, 1)]
            assert rows(connection, f"SELECT count(*), sum(w) FROM {table}") == [(8000, 36000)]


# --- fail-over -------------------------------------------------------------------------------------------------------


def test_a_killed_leader(cluster: ShoalCluster, table: str) -> None:
    old = cluster.leader()
    with cluster.connect(old) as leader:
        for number in range(20):
            leader.execute(f"INSERT INTO {table} VALUES ({number}, 'before')".encode())
        killed = time.monotonic()
        cluster.kill(old)
    insert_until_taken(cluster, f"INSERT INTO {table} VALUES (100, 'after')")
    assert time.monotonic() - killed <= SESSION + 1.0
    assert cluster.leader() != old
    with cluster.connect() as leader:
        assert rows(leader, f"SELECT count(*) FROM {table}") == [(21,)]
    cluster.start(old)
    cluster.wait_for_applied()
    with cluster.connect(old) as back:
        assert rows(back, f"SELECT count(*) FROM {table}") == [(21,)]
    assert cluster.leader() != old, "a node that comes back takes nothing away from the one that leads"


def test_a_leader_that_is_frozen_past_its_session(cluster: ShoalCluster, table: str) -> None:
    """Its clients are told that it leads no more, and nothing of theirs is there."""
    old = cluster.leader()
    with cluster.connect(old) as leader:
        leader.execute(b"BEGIN")
        leader.execute(f"INSERT INTO {table} VALUES (1, 'never')".encode())
        cluster.stop(old)
        cluster.leader(not_this=old)
        insert_until_taken(cluster, f"INSERT INTO {table} VALUES (1, 'new')")
        cluster.cont(old)
        with pytest.raises(psycopg.errors.SerializationFailure):
            leader.execute(b"COMMIT")
    with cluster.connect(old) as follower:  # a strong read, which waits for nothing but what it needs
        assert rows(follower, f"SELECT v FROM {table}") == [("new",)]


def test_a_leader_that_is_stopped_in_good_order(cluster: ShoalCluster, table: str) -> None:
    """It hands over: nobody waits for its session to end."""
    old = cluster.leader()
    began = time.monotonic()
    assert cluster.stop_politely(old) == 0
    new = cluster.leader(old)
    insert_until_taken(cluster, f"INSERT INTO {table} VALUES (1, 'x')")
    print(f"handed over to {new} within {time.monotonic() - began:.2f} s")
    assert "leads" in cluster.nodes[new].text()
    cluster.start(old)


def test_a_multi_host_connection_string(cluster: ShoalCluster, table: str) -> None:
    dead = next(iter(cluster.nodes))
    cluster.kill(dead)
    with psycopg.connect(cluster.multi_host_dsn(), autocommit=True) as connection:
        assert connection.info.port != cluster.nodes[dead].port
        assert rows(connection, f"SELECT count(*) FROM {table}") == [(0,)]
    cluster.start(dead)


# --- what it stands on goes away -------------------------------------------------------------------------------------


@pytest.fixture
def log_cluster() -> Iterator[ShoalCluster]:
    """Two nodes with a ZooKeeper and a log store of their own, both of which can be taken away."""
    with ShoalCluster(2, store="log", settings={"commit_timeout": 1.5}) as cluster:
        yield cluster


def test_zookeeper_and_store_go_away_and_come_back(log_cluster: ShoalCluster) -> None:
    cluster = log_cluster
    leader = cluster.leader()
    with cluster.connect(leader) as connection:
        connection.execute(b"CREATE TABLE t (id int PRIMARY KEY)")
        connection.execute(b"INSERT INTO t VALUES (1)")
    cluster.wait_for_applied()
    (follower,) = cluster.followers()
    for what, take_away, bring_back in (
        ("zookeeper", cluster.zookeeper.stop, cluster.zookeeper.start),
        ("store", cluster.log_stores[0].kill, cluster.log_stores[0].start),
    ):
        take_away()
        with cluster.connect(leader) as writer, cluster.connect(follower) as reader:
            reader.execute(b"SET read_consistency = 'eventual'")
            began = time.monotonic()
            with pytest.raises(psycopg.Error) as refused:
                writer.execute(b"INSERT INTO t VALUES (2)")
            waited = time.monotonic() - began
            assert refused.value.sqlstate in ("40001", "08007", "57P03"), refused.value
            assert waited < 4 * 1.5, f"a write waits {waited:.1f} s for a {what} that is away"
            assert rows(reader, "SELECT id FROM t WHERE id = 1") == [(1,)]
            assert rows(reader, "SELECT count(*) FROM t WHERE id = 1") == [(1,)]
            if what == "zookeeper":  # nobody can say how old this is
                for level, state in (("strong", "57P03"), ("bounded", "55000")):
                    reader.execute(f"SET read_consistency = '{level}'; SET max_staleness = '500ms'".encode())
                    with pytest.raises(psycopg.Error) as stale:
                        reader.execute(b"SELECT id FROM t WHERE id = 1")
                    assert stale.value.sqlstate == state, stale.value
        bring_back()
        insert_until_taken(cluster, "INSERT INTO t VALUES (2) ON CONFLICT DO NOTHING")
        with cluster.connect() as connection:
            assert rows(connection, "SELECT id FROM t ORDER BY id") == [(1,), (2,)]
            connection.execute(b"DELETE FROM t WHERE id = 2")
        leader = cluster.leader()
        (follower,) = cluster.followers()
        assert all(node.running for node in cluster.nodes.values())


def test_a_store_that_is_full(zookeeper_server: ZooKeeper) -> None:
    hooks = ["tests.end_to_end.full_store.install"]
    with ShoalCluster(1, zookeeper=zookeeper_server, hooks=hooks, settings={"commit_timeout": 1.5}) as cluster:
        with cluster.connect() as connection:
            connection.execute(b"CREATE TABLE t (id int PRIMARY KEY)")
            flag(cluster.directory).touch()
            with pytest.raises(psycopg.Error) as refused:
                connection.execute(b"INSERT INTO t VALUES (1)")
            assert refused.value.sqlstate in ("40001", "53100")
        assert "No space left on device" in cluster.nodes["n1"].text()
        with cluster.connect("n1") as connection:
            connection.execute(b"SET read_consistency = 'eventual'")
            assert rows(connection, "SELECT * FROM t") == []
        flag(cluster.directory).unlink()
        insert_until_taken(cluster, "INSERT INTO t VALUES (2)")
        with cluster.connect() as connection:
            assert rows(connection, "SELECT * FROM t") == [(2,)]


# --- nodes that come and go ------------------------------------------------------------------------------------------


def test_a_node_alone_founds_a_cluster_with_its_data(zookeeper_server: ZooKeeper) -> None:
    with ShoalCluster(0, zookeeper=zookeeper_server) as cluster:
        data = cluster.node("n1").data
        with ShoalServer(data) as alone, psycopg.connect(alone.dsn, autocommit=True) as connection:
            connection.execute(b"CREATE TABLE t (id serial PRIMARY KEY, v text)")
            connection.execute(b"INSERT INTO t (v) SELECT 'alone' FROM generate_series(1, 3000)")
            connection.execute(b"INSERT INTO t (v) VALUES ('last')")
            connection.execute(b"CREATE INDEX ON t (v)")
        cluster.start("n1")
        with cluster.connect() as connection:
            assert rows(connection, "SELECT count(*), max(v) FROM t") == [(3001, "last")]
            connection.execute(b"INSERT INTO t (v) VALUES ('together')")
        cluster.add("n2")  # waits for the first checkpoint: the log does not go back to the beginning
        cluster.wait_for_applied()
        with cluster.connect("n2") as connection:
            found = rows(connection, "SELECT id FROM t WHERE v IN ('last', 'together') ORDER BY id")
            assert found == [(3001,), (3002,)]
        refused = ShoalServer(cluster.node("n1").data)
        cluster.kill("n1")
        with pytest.raises(RuntimeError):
            refused.start()  # the data are the cluster's now: alone the node would make another history
        refused.log.unlink()


def test_a_node_alone_brings_all_its_tablespaces_along(zookeeper_server: ZooKeeper) -> None:
    with ShoalCluster(0, zookeeper=zookeeper_server) as cluster:
        data = cluster.node("n1").data
        with ShoalServer(data) as alone, psycopg.connect(alone.dsn, autocommit=True) as connection:
            connection.execute(b"CREATE TABLESPACE one")
            connection.execute(b"CREATE TABLESPACE two WITH (max_leader_inactivity = '7s')")
            connection.execute(b"CREATE TABLESPACE gone")
            for name, place in (("a", "pg_default"), ("b", "one"), ("c", "two")):
                connection.execute(f"CREATE TABLE {name} (id serial PRIMARY KEY, v text) TABLESPACE {place}".encode())
                connection.execute(f"CREATE INDEX ON {name} (v)".encode())
            with connection.transaction():
                for name in ("a", "b", "c"):
                    connection.execute(f"INSERT INTO {name} (v) SELECT 'v' FROM generate_series(1, 500)".encode())
            connection.execute(b"DROP TABLESPACE gone")
            alone.kill()  # the changelogs hold what the tables do not
        query = "SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b), (SELECT count(*) FROM c)"
        cluster.start("n1")
        with cluster.connect() as connection:
            led = "SELECT count(*) = 3 AND count(leader) = 3 FROM shoal_tablespaces"
            cluster.wait_until(lambda: rows(connection, led) == [(True,)], "all tablespaces are led")
            assert rows(connection, query) == [(500, 500, 500)]
            with connection.transaction():
                for name in ("a", "b", "c"):
                    connection.execute(f"INSERT INTO {name} (v) VALUES ('together')".encode())
            shown = rows(connection, "SELECT tablespace, max_leader_inactivity::text FROM shoal_tablespaces ORDER BY 1")
            assert shown == [("one", None), ("pg_default", None), ("two", "00:00:07")]
        cluster.add("n2")
        cluster.wait_for_applied()
        cluster.kill("n1")
        with cluster.connect(cluster.leader(not_this="n1")) as connection:
            cluster.wait_until(lambda: "n1" not in str(rows(connection, "SELECT leader FROM shoal_tablespaces")), "led")
            assert rows(connection, query) == [(501, 501, 501)]
            connection.execute(b"INSERT INTO b (v) VALUES ('goes on')")
        cluster.start("n1")
        with cluster.connect("n1") as connection:
            assert rows(connection, "SELECT id FROM b WHERE v = 'goes on'")[0][0] > 501


def test_a_directory_with_data_of_its_own_is_refused_and_left_as_it_is(zookeeper_server: ZooKeeper) -> None:
    with ShoalCluster(1, zookeeper=zookeeper_server) as cluster:
        with ShoalServer(cluster.node("n2").data) as alone, psycopg.connect(alone.dsn, autocommit=True) as connection:
            connection.execute(b"CREATE TABLE mine AS SELECT 1 AS id")
        with pytest.raises(NotStartedError) as refused:
            cluster.start("n2")
        assert "holds data of its own" in refused.value.line
        with ShoalServer(cluster.node("n2").data) as alone, psycopg.connect(alone.dsn) as connection:
            assert rows(connection, "SELECT id FROM mine") == [(1,)]


SMALL_LEDGERS: dict[str, dict[str, float]] = {
    "log": {"ledger_bytes": 10_000, "housekeeping": 0.3, "time_to_live": 0.3, "lost_replica_grace": 0.3},
    "storage": {"flush_bytes": 50_000, "flush_versions": 200},
}


def test_nodes_join_and_come_back_by_checkpoint_under_pgbench(zookeeper_server: ZooKeeper) -> None:
    """Ledgers are rolled and dropped meanwhile, so a new node, and one that was away for too long, start from a
    checkpoint."""
    settings = {"checkpoint_interval": 0.5, "session_timeout": 4.0}  # nobody is to lose its session under this load
    with ShoalCluster(3, zookeeper=zookeeper_server, settings=settings, limits=SMALL_LEDGERS) as cluster:
        leader = cluster.leader()
        away = cluster.followers()[0]
        options = ["-h", "127.0.0.1", "-p", str(cluster.nodes[leader].port), "-U", "postgres", "postgres"]
        subprocess.run(["pgbench", "-i", "-q", *options], check=True, capture_output=True, timeout=60)
        cluster.kill(away)
        load = subprocess.Popen(
            ["pgbench", "-n", "-c", "4", "-T", "8", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        cluster.wait_for_line(leader, "checkpoint at LSN")
        added = cluster.add()
        cluster.wait_for_line(added, "restored")
        applied = cluster.head().lsn
        with cluster.connect(leader) as connection:

            def dropped() -> bool:
                connection.execute(b"UPDATE pgbench_branches SET filler = 'on a slow machine the load ends too early'")
                return cluster.ledgers()[0].first > applied

            cluster.wait_until(dropped, "the old ledgers are dropped")
        cluster.start(away)
        cluster.wait_for_line(away, "starting from a checkpoint")
        out, err = load.communicate(timeout=60)
        assert load.returncode == 0 and "number of failed transactions: 0 " in out, err
        cluster.wait_for_applied()
        balances = "SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(delta) FROM pgbench_history)"
        found = {rows_in_the_end(cluster, name, balances)[0] for name in cluster.nodes}
        assert len(found) == 1 and len(set(found.pop())) == 1
        assert cluster.remove(added) == 0


# --- stores ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", some(["quorum", "s3"], 2))
def test_stores(zookeeper_server: ZooKeeper, kind: str) -> None:
    with ShoalCluster(2, zookeeper=zookeeper_server, store=kind) as cluster:
        with cluster.connect() as connection:
            connection.execute(b"CREATE TABLE t (id int PRIMARY KEY, v text)")
            connection.execute(b"INSERT INTO t SELECT g, repeat('x', 50) FROM generate_series(1, 5000) g")
            if kind == "quorum":
                cluster.log_stores[1].kill()
            for number in range(6000, 6020):
                connection.execute(f"INSERT INTO t VALUES ({number}, 'one')".encode())
        old = cluster.leader()
        cluster.kill(old)
        insert_until_taken(cluster, "INSERT INTO t VALUES (7000, 'after')")
        with cluster.connect() as connection:
            assert rows(connection, "SELECT count(*) FROM t") == [(5021,)]
        cluster.start(old)
        cluster.wait_for_applied()
        with cluster.connect(old) as connection:
            assert rows(connection, "SELECT count(*) FROM t") == [(5021,)]


# --- what keeps a node from joining ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def one(zookeeper_server: ZooKeeper) -> Iterator[ShoalCluster]:
    """One node that runs, and others that try to join it."""
    with ShoalCluster(1, zookeeper=zookeeper_server) as cluster:
        yield cluster


def refusal(of: ShoalCluster, name: str, **changes: str) -> str:
    """The one line with which a node ends that cannot start."""
    with pytest.raises(NotStartedError) as refused:
        of.launch(name, **changes)
        of.ready(name)
    assert refused.value.status == 1, refused.value.text
    assert refused.value.line and "Traceback" not in refused.value.text
    return refused.value.line


def test_a_name_in_use(one: ShoalCluster) -> None:
    line = refusal(one, "n2", node="n1")
    assert line == 'shoal: node "n1" is already running in this cluster: choose another name with --node'


def test_a_directory_of_another_cluster(one: ShoalCluster, zookeeper_server: ZooKeeper, tmp_path: pathlib.Path) -> None:
    """A wrong chroot, and a chroot with another cluster, for a node that has data."""
    one.add("n3")
    one.kill("n3")
    line = refusal(one, "n3", cluster=zookeeper_server.url("nobody-lives-here"))
    assert "does not hold the cluster" in line and "Nothing was changed" in line
    assert not one.watcher.client.exists("/nobody-lives-here")
    with ShoalCluster(1, zookeeper=zookeeper_server) as other:
        line = refusal(one, "n3", cluster=other.url)
        assert "holds the cluster" in line and "the data of this node belong to the cluster" in line
    one.start("n3")
    assert one.remove("n3") == 0


def test_a_store_of_another_cluster(one: ShoalCluster, zookeeper_server: ZooKeeper) -> None:
    line = refusal(one, "n4", store=f"file://{one.directory}/somewhere-else")
    assert "the cluster keeps its changelog in" in line
    line = refusal(one, "n5", cluster=zookeeper_server.url(f"{one.directory.name}-second"))
    assert "holds the data of cluster" in line


def test_a_newer_format(one: ShoalCluster, zookeeper_server: ZooKeeper) -> None:
    name = f"{one.directory.name}-newer"
    with ShoalCluster(0, zookeeper=zookeeper_server) as other:
        other.url = zookeeper_server.url(name)
        client = one.watcher.client
        client.chroot, chroot = "", client.chroot
        client.create(f"/{name}/format", orjson.dumps({"format": 99}), makepath=True)
        client.chroot = chroot
        assert "was written by a newer version (format 99" in refusal(other, "n1")


def test_a_new_cluster_without_a_store(one: ShoalCluster, zookeeper_server: ZooKeeper) -> None:
    line = refusal(one, "n6", cluster=zookeeper_server.url(f"{one.directory.name}-third"), store="")
    assert "a new cluster needs a changelog store" in line


def test_nobody_at_the_address(one: ShoalCluster, tmp_path: pathlib.Path) -> None:
    impatient = tmp_path / "shoal.toml"
    impatient.write_text("commit_timeout = 1.0\n")
    line = refusal(one, "n7", cluster="zk://127.0.0.1:1,localhost:2/x", config=str(impatient))
    tried = "127.0.0.1:1 (nothing listens there), localhost:2 (nothing listens there)"
    assert f"no session with ZooKeeper at {tried}. Start it, or correct zk://127.0.0.1:1,localhost:2/x" in line


def test_zookeeper_that_has_lost_its_data() -> None:
    """Nodes refuse to run on, and nothing is dropped."""
    with ShoalCluster(1) as cluster:
        with cluster.connect() as connection:
            connection.execute(b"CREATE TABLE t (id int PRIMARY KEY)")
            connection.execute(b"INSERT INTO t VALUES (1)")
        store = cluster.directory / "store"
        before = sorted(path.relative_to(store) for path in store.rglob("*"))
        cluster.zookeeper.stop()
        kept = cluster.directory / "zookeeper"
        shutil.copytree(cluster.zookeeper.servers[0].directory / "data", kept)
        cluster.zookeeper.forget()
        cluster.zookeeper.start()
        assert cluster.wait_for_exit("n1") != 0
        assert "ZooKeeper has lost its data" in cluster.nodes["n1"].text()
        assert "ZooKeeper has lost its data" in refusal(cluster, "n1")
        assert before == sorted(path.relative_to(store) for path in store.rglob("*"))
        cluster.zookeeper.stop()
        cluster.zookeeper.forget()
        shutil.copytree(kept, cluster.zookeeper.servers[0].directory / "data", dirs_exist_ok=True)
        cluster.zookeeper.start()
        cluster.start("n1")
        with cluster.connect() as connection:
            assert rows(connection, "SELECT * FROM t") == [(1,)]


def test_everything_that_the_nodes_make_in_zookeeper_is_their_users_alone(zookeeper_server: ZooKeeper) -> None:
    user = {"SHOAL_ZK_AUTH": "shoal:secret"}
    with ShoalCluster(2, zookeeper=zookeeper_server, environment=user) as cluster:
        with cluster.connect("n2") as connection:
            connection.execute(b"CREATE TABLESPACE far")
            connection.execute(b"CREATE TABLE t (id int PRIMARY KEY) TABLESPACE far")
            connection.execute(b"INSERT INTO t VALUES (1)")
            connection.execute(b"SELECT shoal_checkpoint()")
        stranger, owner = (
            KazooClient(zookeeper_server.hosts, auth_data=known) for known in ([], [("digest", "shoal:secret")])
        )
        stranger.start()
        owner.start()
        try:
            found = ["/" + cluster.directory.name]
            for path in found:
                found += [f"{path}/{name}" for name in owner.get_children(path)]
                for attempt in (stranger.get, stranger.get_children, partial(stranger.set, value=b""), stranger.delete):
                    with pytest.raises((NoAuthError, NotEmptyError)):  # the root's own parent is everybody's
                        attempt(path)
            assert {path.rpartition("/")[2] for path in found} >= {"format", "cluster", "head", "epoch", "n1", "n2"}
        finally:
            for client in (stranger, owner):
                client.stop()
                client.close()
