"""Several tablespaces in a cluster of real processes: made, used together, taken over, restored, dropped."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from psycopg import errors

from replication.log.layout import decode_epoch, decode_spec
from tests import forks
from tests.cluster import ShoalCluster
from tests.end_to_end.dying_leader import flag
from tests.replication.stores.log_process import LogProcess
from tests.samples import some
from tests.zookeeper_server import ZooKeeper

GOES_ON = 30.0


def until_taken(cluster: ShoalCluster, sql: str, timeout: float = GOES_ON) -> None:
    """Repeats a statement on the leader of the moment until it is committed."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            with cluster.connect() as connection:
                connection.execute(sql.encode())
                return
        except (psycopg.OperationalError, errors.UniqueViolation):
            if time.monotonic() > deadline:
                raise


def others(cluster: ShoalCluster) -> dict[str, str]:
    """The ids of the tablespaces beside pg_default, by name."""
    found = {}
    for identity in cluster.watcher.children("tablespaces"):
        spec = cluster.watcher.get(f"tablespaces/{identity}/spec")
        if spec is not None and decode_spec(spec).name != "pg_default":
            found[decode_spec(spec).name] = identity
    return found


def sum_of_ids(folder: Path, name: str) -> int:
    """Of a table in the newest checkpoint below a tablespace's folder, as DuckDB reads its files."""
    manifest = json.loads(max(folder.glob("checkpoint-*/manifest.json")).read_text())
    table = next(table for table in manifest["tables"] if table["name"] == name)
    paths = [str(folder / item["file"]["name"]) for item in table["files"]]
    found = duckdb.execute("SELECT sum(id)::bigint FROM read_parquet($1)", [paths]).fetchone()
    assert found is not None
    return int(found[0])


def rows(cluster: ShoalCluster, name: str, sql: str, consistency: str = "strong") -> list[tuple[Any, ...]]:
    with cluster.connect(name) as connection:
        connection.execute(f"SET read_consistency = '{consistency}'".encode())
        return connection.execute(sql.encode()).fetchall()


def until_shown(cluster: ShoalCluster, name: str, sql: str, wanted: list[tuple[Any, ...]]) -> None:
    """Returns when a node by itself answers so: one that has come back gets a new tablespace in a while, and says 57P03
    until then."""

    def shown() -> bool:
        with contextlib.suppress(psycopg.OperationalError, errors.UndefinedTable):
            return rows(cluster, name, sql, "eventual") == wanted
        return False

    cluster.wait_until(shown, f"{name} answers {wanted} to {sql}", GOES_ON)


def until_one_dies(cluster: ShoalCluster, sql: str) -> str:
    """Repeats a statement on the leader of the moment until a node has died of the flag; its name."""
    place = flag(cluster.directory)
    place.touch()
    deadline = time.monotonic() + GOES_ON
    while place.exists():
        assert time.monotonic() < deadline, f"nobody dies of {sql}\n{cluster.logs()}"
        with contextlib.suppress(psycopg.Error), cluster.connect() as connection:  # one may be done, and death yet come
            connection.execute(sql.encode())

    def gone() -> list[str]:
        return [name for name, node in cluster.nodes.items() if not node.running]

    cluster.wait_until(gone, "a node has died")
    (name,) = gone()
    assert cluster.wait_for_exit(name) == -9
    return name


@pytest.fixture(scope="module")
def cluster(zookeeper_server: ZooKeeper) -> Iterator[ShoalCluster]:
    with ShoalCluster(3, zookeeper=zookeeper_server) as cluster:
        yield cluster


def test_a_tablespace_is_made_used_and_dropped_on_every_node(cluster: ShoalCluster) -> None:
    with cluster.connect(cluster.followers()[0]) as connection:
        connection.execute("CREATE TABLESPACE plain")
        connection.execute("CREATE TABLE plain (id int PRIMARY KEY, v text) TABLESPACE plain")
        connection.execute("INSERT INTO plain SELECT g, 'x' FROM generate_series(1, 100) g")
    identity = others(cluster)["plain"]
    assert decode_epoch(cluster.watcher.get(f"tablespaces/{identity}/epoch") or b"").leader == cluster.leader()
    for name in cluster.nodes:
        assert rows(cluster, name, "SELECT count(*), min(v) FROM plain") == [(100, "x")]
        assert (cluster.nodes[name].data / "tablespaces" / identity).is_dir()
    with cluster.connect() as connection:
        assert ("plain", cluster.leader()) in connection.execute(
            "SELECT tablespace, leader FROM shoal_tablespaces"
        ).fetchall()
        with pytest.raises(errors.ObjectNotInPrerequisiteState):
            connection.execute("DROP TABLESPACE plain")
        connection.execute("DROP TABLE plain")
        connection.execute("DROP TABLESPACE plain")
    cluster.wait_until(lambda: "plain" not in others(cluster), "the znodes are gone")
    for node in cluster.nodes.values():
        gone = node.data / "tablespaces" / identity
        cluster.wait_until(lambda gone=gone: not gone.exists(), f"{gone} is gone")
    store = cluster.directory / "store" / identity
    cluster.wait_until(lambda: not [item for item in store.rglob("*") if item.is_file()], "its log is gone")


def test_what_a_cluster_cannot_do_with_tablespaces_is_refused_by_name(cluster: ShoalCluster) -> None:
    with cluster.connect() as connection:
        with pytest.raises(errors.UndefinedObject, match='node "n9" is not in the cluster'):
            connection.execute("CREATE TABLESPACE refused WITH (leader = 'n9')")
        with pytest.raises(errors.UndefinedObject, match='node "n9" is not in the cluster'):
            connection.execute("ALTER TABLESPACE pg_default SET (leader = 'n9')")
        for option in ("replicas = 'n1,n2'", "expected_replicas = 2"):
            with pytest.raises(errors.FeatureNotSupported, match="pg_default"):
                connection.execute(f"ALTER TABLESPACE pg_default SET ({option})".encode())
        with pytest.raises(errors.UndefinedObject, match='node "n9" is not in the cluster'):
            connection.execute("CREATE TABLESPACE refused WITH (replicas = 'n1,n9')")
        connection.execute("CREATE TABLESPACE silent WITH (max_leader_inactivity = '7s')")
        identity = others(cluster)["silent"]

        def inactivity() -> float:
            return decode_spec(cluster.watcher.get(f"tablespaces/{identity}/spec") or b"").max_leader_inactivity

        assert inactivity() == 7.0
        connection.execute("ALTER TABLESPACE silent SET (max_leader_inactivity = '500ms')")
        cluster.wait_until(lambda: inactivity() == 0.5, "the spec says so")
        connection.execute("DROP TABLESPACE silent")


class Transfers:
    """Moves money between tables of three tablespaces while readers on every node add it up."""

    TOTAL = 3 * 10 * 100

    def __init__(self, cluster: ShoalCluster) -> None:
        self.cluster = cluster
        self.over = threading.Event()
        self.acknowledged: list[int] = []
        self.unknown: set[int] = set()
        self.reads: dict[str, int] = {}
        self.wrong: list[object] = []
        self.failures: list[BaseException] = []
        with cluster.connect() as connection:
            connection.execute("CREATE TABLESPACE one")
            connection.execute("CREATE TABLESPACE two")
            for table, place in (("a", "pg_default"), ("b", "one"), ("c", "two")):
                connection.execute(
                    f"CREATE TABLE {table} (id int PRIMARY KEY, v int) TABLESPACE {place};"
                    f"INSERT INTO {table} SELECT g, 100 FROM generate_series(1, 10) g".encode()
                )
            connection.execute("CREATE TABLE told (n int PRIMARY KEY) TABLESPACE one")
        cluster.wait_for_applied()

    def write(self) -> None:
        n = 0
        while not self.over.is_set():
            try:
                with psycopg.connect(self.cluster.multi_host_dsn(), autocommit=True) as connection:
                    while not self.over.is_set():
                        n += 1
                        source, target = (("a", "b"), ("b", "c"), ("c", "a"))[n % 3]
                        with connection.transaction():
                            connection.execute(f"UPDATE {source} SET v = v - 1 WHERE id = {n % 10 + 1}".encode())
                            connection.execute(f"UPDATE {target} SET v = v + 1 WHERE id = {n % 7 + 1}".encode())
                            connection.execute("INSERT INTO told VALUES (%s)", (n,))
                        self.acknowledged.append(n)
            except psycopg.OperationalError:
                self.unknown.add(n)
                time.sleep(0.05)
            except BaseException as error:
                self.failures.append(error)
                return

    def read(self, name: str, consistency: str) -> None:
        while not self.over.is_set():
            try:
                with self.cluster.connect(name) as connection:
                    connection.execute(f"SET read_consistency = '{consistency}'".encode())
                    while not self.over.is_set():
                        found = connection.execute(
                            "SELECT (SELECT sum(v) FROM a) + (SELECT sum(v) FROM b) + (SELECT sum(v) FROM c)"
                        ).fetchone()
                        self.reads[consistency] = self.reads.get(consistency, 0) + 1
                        if found is None or found[0] != self.TOTAL:
                            self.wrong.append((name, consistency, found))
            except psycopg.OperationalError:
                time.sleep(0.05)
            except BaseException as error:
                self.failures.append(error)
                return

    def check(self) -> None:
        assert self.failures == []
        assert self.wrong == []
        for name in self.cluster.nodes:
            query = "SELECT (SELECT sum(v) FROM a) + (SELECT sum(v) FROM b) + (SELECT sum(v) FROM c)"
            assert rows(self.cluster, name, query) == [(self.TOTAL,)]
            there = {row[0] for row in rows(self.cluster, name, "SELECT n FROM told")}
            assert set(self.acknowledged) <= there
            assert there <= set(self.acknowledged) | self.unknown


@pytest.mark.parametrize("how", some(["killed", "stopped for a while", "ended"], 3))
def test_transactions_over_tablespaces_are_whole_everywhere_through_a_fail_over(
    zookeeper_server: ZooKeeper, how: str
) -> None:
    with ShoalCluster(3, zookeeper=zookeeper_server) as cluster:
        load = Transfers(cluster)
        threads = [threading.Thread(target=load.write, daemon=True)]
        for name in cluster.nodes:
            for consistency in ("strong", "eventual"):
                threads.append(threading.Thread(target=load.read, args=(name, consistency), daemon=True))
        for thread in threads:
            thread.start()
        try:
            cluster.wait_until(lambda: len(load.acknowledged) > 50, "commits are made")
            cluster.wait_until(lambda: min(load.reads.values()) > 10 and len(load.reads) == 2, "they are read")
            leader, before = cluster.leader(), len(load.acknowledged)
            if how == "killed":
                cluster.kill(leader)
            elif how == "ended":
                assert cluster.stop_politely(leader) == 0
            else:
                cluster.stop(leader)
                cluster.leader(not_this=leader)
                cluster.cont(leader)
            cluster.wait_until(lambda: len(load.acknowledged) > before + 20, "commits go on", 60.0)
            if not cluster.nodes[leader].running:
                cluster.start(leader)
            seen = len(load.acknowledged)
            cluster.wait_until(lambda: len(load.acknowledged) > seen + 20, "commits go on", 60.0)
        finally:
            load.over.set()
            for thread in threads:
                thread.join(30)
        load.check()
        assert load.reads["strong"] > 10
        assert load.reads["eventual"] > 10


def test_a_new_node_gets_every_tablespace_from_checkpoints(zookeeper_server: ZooKeeper) -> None:
    with ShoalCluster(2, zookeeper=zookeeper_server) as cluster:
        with cluster.connect() as connection:
            connection.execute("CREATE TABLESPACE far")
            connection.execute("CREATE TABLE far (id int PRIMARY KEY, v text) TABLESPACE far")
            connection.execute("INSERT INTO far SELECT g, 'v' || g FROM generate_series(1, 1000) g")
            connection.execute("CREATE TYPE mood AS ENUM ('glad', 'sad')")
            for table, place in (("near_moods", "pg_default"), ("far_moods", "far")):
                connection.execute(f"CREATE TABLE {table} (mood mood PRIMARY KEY) TABLESPACE {place}".encode())
                connection.execute(f"INSERT INTO {table} VALUES ('sad')".encode())
            connection.execute("SELECT shoal_checkpoint()")
            connection.execute("ALTER TABLE far ADD COLUMN w int DEFAULT 5")
            connection.execute("INSERT INTO far VALUES (1001, 'new', 6)")
        identity = others(cluster)["far"]
        assert b'"lsn"' in (cluster.watcher.get(f"tablespaces/{identity}/checkpoints") or b"")
        assert sum_of_ids(cluster.directory / "store" / identity, "far") == 500500
        name = cluster.add()
        assert rows(cluster, name, "SELECT count(*), sum(w) FROM far", "eventual") == [(1001, 5006)]
        query = "SELECT * FROM near_moods JOIN far_moods USING (mood)"
        assert rows(cluster, name, query, "eventual") == [("sad",)]
        leader = cluster.leader()
        cluster.kill(leader)
        until_taken(cluster, "INSERT INTO far VALUES (1002, 'newer', 7)")
        assert rows(cluster, name, "SELECT count(*) FROM far") == [(1002,)]
        cluster.start(leader)
        assert rows(cluster, leader, "SELECT sum(w) FROM far", "eventual") in ([(5006,)], [(5013,)])


def test_the_next_leader_finishes_what_a_leader_that_died_has_begun(zookeeper_server: ZooKeeper) -> None:
    with ShoalCluster(3, zookeeper=zookeeper_server, hooks=["tests.end_to_end.dying_leader.install"]) as cluster:
        first = until_one_dies(cluster, "CREATE TABLESPACE left_over")
        until_taken(cluster, "CREATE TABLE left_over (id int PRIMARY KEY) TABLESPACE left_over")
        until_taken(cluster, "INSERT INTO left_over SELECT generate_series(1, 10)")
        identity = others(cluster)["left_over"]
        cluster.start(first)
        until_shown(cluster, first, "SELECT count(*) FROM left_over", [(10,)])
        until_taken(cluster, "DROP TABLE left_over")
        second = until_one_dies(cluster, "DROP TABLESPACE left_over")
        cluster.wait_until(lambda: others(cluster) == {}, "the znodes are gone")
        cluster.start(second)
        for node in cluster.nodes.values():
            gone = node.data / "tablespaces" / identity
            cluster.wait_until(lambda gone=gone: not gone.exists(), f"{gone} is gone")


def test_bulk_loads_moved_tables_and_tokens_of_other_tablespaces(cluster: ShoalCluster) -> None:
    follower = cluster.followers()[0]
    with cluster.connect(follower) as connection:
        connection.execute("CREATE TABLESPACE bulky")
        connection.execute("CREATE TABLE near (id int PRIMARY KEY, v text)")
        connection.execute("CREATE TABLE bulky (id int PRIMARY KEY, v text) TABLESPACE bulky")
        with connection.transaction():
            connection.execute("INSERT INTO near SELECT g, 'n' || g FROM generate_series(1, 50000) g")
            connection.execute("INSERT INTO bulky SELECT g, 'b' || g FROM generate_series(1, 50000) g")
        query = "SELECT count(*), count(*) FILTER (WHERE n.v <> b.v) FROM near n JOIN bulky b USING (id)"
        for name in cluster.nodes:
            assert rows(cluster, name, query) == [(50000, 50000)]
        connection.execute("ALTER TABLE near SET TABLESPACE bulky")
        connection.execute("INSERT INTO bulky VALUES (50001, 'last')")
        connection.execute("SET read_consistency = 'session'")
        found = connection.execute("SELECT (SELECT count(*) FROM near), (SELECT count(*) FROM bulky)").fetchone()
        assert found == (50000, 50001)
        token = (connection.execute("SELECT shoal_last_commit()").fetchone() or ("",))[0]
    for name in cluster.nodes:
        with cluster.connect(name) as connection:
            connection.execute("SET read_consistency = 'eventual'")
            connection.execute(f"SET read_after = '{token}'".encode())
            assert connection.execute("SELECT v FROM bulky WHERE id = 50001").fetchall() == [("last",)]
    with cluster.connect() as connection:
        connection.execute("DROP TABLE near, bulky")
        connection.execute("DROP TABLESPACE bulky")


def test_the_checks_notice_followers_that_show_parts_of_transactions(zookeeper_server: ZooKeeper) -> None:
    hooks = ["tests.end_to_end.torn_transactions.install"]
    with ShoalCluster(3, zookeeper=zookeeper_server, hooks=hooks) as cluster:
        load = Transfers(cluster)
        threads = [threading.Thread(target=load.write, daemon=True)]
        threads += [threading.Thread(target=load.read, args=(name, "eventual"), daemon=True) for name in cluster.nodes]
        for thread in threads:
            thread.start()
        try:
            cluster.wait_until(lambda: load.wrong, "a reader has seen a part of a transaction")
        finally:
            load.over.set()
            for thread in threads:
                thread.join(30)


# --- on some nodes only ----------------------------------------------------------------------------------------------

JOIN = "SELECT count(*), sum(n.v), sum(p.v) FROM near n JOIN part p USING (id)"
BY_VIEW = "SELECT count(*) FROM both_of_them"


def holders(cluster: ShoalCluster, tablespace: str) -> dict[str, str]:
    """The nodes that hold it and those that should, with their roles, as any node's view has them."""
    query = f"SELECT node, role FROM shoal_replicas WHERE tablespace = '{tablespace}'"
    return dict(rows(cluster, cluster.leader(), query))


def told(command: str, cluster: ShoalCluster) -> tuple[int, str]:
    """The exit status of a command of `shoal`, and its JSON."""
    found = forks.run(command, "--cluster", cluster.url, "--json")
    return found.returncode, found.stdout


def checked(cluster: ShoalCluster) -> tuple[int, dict[str, set[str]]]:
    """The exit status of `shoal check`, and which nodes have the same, by tablespace."""
    status, shown = told("check", cluster)
    return status, {
        item["tablespace"]: {line["node"] for line in item["replicas"] if line["equal"]}
        for item in json.loads(shown)["tablespaces"]
    }


def make_part(cluster: ShoalCluster, options: str) -> str:
    """A tablespace `part` and a table in it, beside one in pg_default; the tablespace's id."""
    until_taken(cluster, f"CREATE TABLESPACE part WITH ({options})")
    with cluster.connect() as connection:
        connection.execute(
            "CREATE TABLE near (id int PRIMARY KEY, v int);"
            "CREATE TABLE part (id int PRIMARY KEY, v int) TABLESPACE part;"
            "CREATE VIEW both_of_them AS SELECT n.v + p.v AS v FROM near n JOIN part p USING (id);"
            "INSERT INTO near SELECT g, g FROM generate_series(1, 100) g;"
            "INSERT INTO part SELECT g, 2 * g FROM generate_series(1, 100) g"
        )
    return others(cluster)["part"]


def test_a_tablespace_on_some_nodes_is_read_on_every_node(zookeeper_server: ZooKeeper) -> None:
    with ShoalCluster(3, zookeeper=zookeeper_server) as cluster:
        leader, (second, third) = cluster.leader(), cluster.followers()
        identity = make_part(cluster, f"replicas = '{leader}, {second}'")
        cluster.wait_until(lambda: holders(cluster, "part") == {leader: "leader", second: "follower"}, "two have it")
        assert checked(cluster) == (0, {"pg_default": {leader, second, third}, "part": {leader, second}})
        status, shown = told("status", cluster)
        part = next(item for item in json.loads(shown)["tablespaces"] if item["tablespace"] == "part")
        assert (status, part["live_replicas"], part["expected_replicas"]) == (0, 2, 2)
        assert rows(cluster, third, "SELECT expected_replicas FROM shoal_tablespaces ORDER BY 1") == [(2,), (3,)]
        assert not (cluster.nodes[third].data / "tablespaces" / identity).exists()
        for consistency in ("strong", "bounded", "session", "eventual"):
            cluster.wait_for_applied()
            for name in cluster.nodes:
                assert rows(cluster, name, JOIN, consistency) == [(100, 5050, 10100)]
                assert rows(cluster, name, BY_VIEW, consistency) == [(100,)]
        long = f"SELECT count(*) FROM part WHERE id NOT IN ({', '.join(map(str, range(50, 9000)))})"
        assert rows(cluster, third, long) == [(49,)]
        with cluster.connect(third) as connection:
            connection.execute("PREPARE p AS SELECT v FROM part WHERE id = $1")
            assert connection.execute("EXECUTE p(7)").fetchone() == (14,)
            with connection.transaction():
                connection.execute("UPDATE part SET v = v + 1 WHERE id = 7")
                connection.execute("UPDATE near SET v = v - 1 WHERE id = 7")
        with cluster.connect(third) as connection:
            connection.execute("BEGIN READ ONLY")
            assert connection.execute("SELECT v FROM part WHERE id = 7").fetchone() == (15,)
            connection.execute("COMMIT")
            connection.execute("BEGIN READ ONLY")
            assert connection.execute("SELECT v FROM near WHERE id = 7").fetchone() == (6,)
            with pytest.raises(errors.ReadOnlySqlTransaction):
                connection.execute("SELECT v FROM part WHERE id = 7")
            connection.execute("ROLLBACK")
            assert connection.execute("SELECT v FROM part WHERE id = 7").fetchone() == (15,)
            served = connection.execute("SELECT tablespace, node FROM shoal_log_status").fetchall()
            assert served == [("pg_default", third)]


@pytest.mark.long
def test_who_holds_a_tablespace_is_changed_while_it_is_used(zookeeper_server: ZooKeeper) -> None:
    with ShoalCluster(3, zookeeper=zookeeper_server) as cluster:
        leader, (second, third) = cluster.leader(), cluster.followers()
        identity = make_part(cluster, f"replicas = '{leader}, {second}'")
        folder = {name: cluster.nodes[name].data / "tablespaces" / identity for name in cluster.nodes}
        over = threading.Event()
        seen: list[tuple[str, object]] = []
        written: list[int] = []
        reads: dict[str, int] = {}

        def write() -> None:
            with cluster.connect(third) as connection:
                n = 1000
                while not over.is_set():
                    n += 1
                    with connection.transaction():
                        connection.execute("INSERT INTO near VALUES (%s, 1)", (n,))
                        connection.execute("INSERT INTO part VALUES (%s, 1)", (n,))
                    written.append(n)

        def read(name: str) -> None:
            with cluster.connect(name) as connection:
                connection.execute("SET read_consistency = 'eventual'")
                while not over.is_set():
                    query = "SELECT (SELECT count(*) FROM near) - (SELECT count(*) FROM part)"
                    with contextlib.suppress(errors.CannotConnectNow):  # it has just gone
                        found = connection.execute(query).fetchone()
                        reads[name] = reads.get(name, 0) + 1
                        if found != (0,):
                            seen.append((name, found))

        threads = [threading.Thread(target=write, daemon=True)]
        threads += [threading.Thread(target=read, args=(name,), daemon=True) for name in cluster.nodes]
        for thread in threads:
            thread.start()
        try:
            until_taken(cluster, f"ALTER TABLESPACE part SET (replicas = '{leader}, {third}')")
            cluster.wait_until(
                lambda: holders(cluster, "part") == {leader: "leader", third: "follower"}, "the third has it", 60.0
            )
            cluster.wait_until(lambda: not folder[second].exists(), "the second has wiped it")
            count = len(written)
            cluster.wait_until(lambda: len(written) > count + 10, "commits go on")
            until_taken(cluster, "ALTER TABLESPACE part RESET (replicas)")
            cluster.wait_until(lambda: set(holders(cluster, "part").values()) == {"leader", "follower"}, "everybody")
            cluster.wait_until(lambda: len(holders(cluster, "part")) == 3, "every node has it")
        finally:
            over.set()
            for thread in threads:
                thread.join(30)
        assert seen == []
        assert all(not thread.is_alive() for thread in threads)
        assert len(written) > 20
        assert min(reads[name] for name in cluster.nodes) > 10
        everybody = set(cluster.nodes)
        assert checked(cluster) == (0, {"pg_default": everybody, "part": everybody})
        for name in cluster.nodes:
            assert rows(cluster, name, "SELECT count(*) FROM part") == [(100 + len(written),)]


def test_a_tablespace_gets_as_many_replicas_as_are_expected(zookeeper_server: ZooKeeper) -> None:
    with ShoalCluster(3, zookeeper=zookeeper_server) as cluster:
        leader = cluster.leader()
        make_part(cluster, "expected_replicas = 2")
        cluster.wait_until(lambda: sorted(holders(cluster, "part").values()) == ["follower", "leader"], "two replicas")
        view = "SELECT live_replicas, expected_replicas, under_replicated FROM shoal_tablespaces WHERE leader = '{}'"
        assert (2, 2, False) in rows(cluster, leader, view.format(leader))
        (second,) = holders(cluster, "part").keys() - {leader}
        (third,) = cluster.nodes.keys() - {leader, second}
        cluster.kill(leader)
        assert cluster.leader(not_this=leader) == second, "who holds everything goes first"
        until_taken(cluster, "INSERT INTO part VALUES (101, 1)")
        cluster.kill(second)
        cluster.leader(not_this=second)
        until_taken(cluster, "INSERT INTO part VALUES (102, 1)", 60.0)
        assert rows(cluster, third, "SELECT count(*) FROM part", "eventual") == [(102,)]
        cluster.start(leader, second)
        cluster.wait_until(lambda: len(holders(cluster, "part")) == 2, "what is more than expected goes", 60.0)
        for name in cluster.nodes:
            assert rows(cluster, name, "SELECT count(*), sum(v) FROM part") == [(102, 10102)]


def test_a_replica_begins_with_a_checkpoint_while_its_node_serves(zookeeper_server: ZooKeeper) -> None:
    limits = {"log": {"ledger_bytes": 2000, "time_to_live": 0.2, "housekeeping": 0.2}}
    with ShoalCluster(2, zookeeper=zookeeper_server, limits=limits) as cluster:
        leader, (second,) = cluster.leader(), cluster.followers()
        identity = make_part(cluster, f"replicas = '{leader}'")
        with cluster.connect() as connection:
            for start in range(101, 2101, 100):
                connection.execute(
                    f"INSERT INTO part SELECT g, 1 FROM generate_series({start}, {start + 99}) g".encode()
                )
            connection.execute("CHECKPOINT")
            for _ in range(2):
                connection.execute("SELECT shoal_checkpoint()")
                connection.execute("INSERT INTO part VALUES ((SELECT max(id) + 1 FROM part), 1)")
            cluster.wait_until(lambda: cluster.ledgers(identity)[0].first > 1, "the log begins later")
            connection.execute(f"ALTER TABLESPACE part SET (replicas = '{leader},{second}')".encode())
        cluster.wait_until(lambda: holders(cluster, "part").get(second) == "follower", "the second has it")
        assert rows(cluster, second, "SELECT count(*) FROM part", "eventual") == [(2102,)]
        with cluster.connect(second) as connection:
            connection.execute("SET read_consistency = 'eventual'")
            assert connection.execute("SELECT DISTINCT node, role FROM shoal_log_status").fetchall() == [
                (second, "follower")
            ]
        cluster.kill(leader)
        until_taken(cluster, "INSERT INTO part VALUES (9999, 1)")
        assert rows(cluster, second, "SELECT count(*) FROM part") == [(2103,)]


# --- stores of their own, and who leads ------------------------------------------------------------------------------


def test_a_tablespace_has_a_store_of_its_own(zookeeper_server: ZooKeeper) -> None:
    with ShoalCluster(3, zookeeper=zookeeper_server) as cluster, contextlib.ExitStack() as undo:
        members = [undo.enter_context(LogProcess()) for _ in range(3)]
        url = "quorum(3,2,2):" + ",".join(member.url for member in members)
        foreign = cluster.directory / "foreign"
        foreign.mkdir()
        (foreign / "cluster").write_bytes(b"another")
        with cluster.connect(cluster.followers()[0]) as connection:
            with pytest.raises(errors.ObjectNotInPrerequisiteState, match="another"):
                connection.execute(f"CREATE TABLESPACE taken WITH (store = 'file://{foreign}')".encode())
            assert others(cluster) == {}
        identity = make_part(cluster, f"store = '{url}'")
        with cluster.connect() as connection:
            shown = connection.execute("SELECT store FROM shoal_tablespaces WHERE tablespace = 'part'").fetchone()
            assert shown == (url,)
            for change in ("SET (store = 'file:///x')", "RESET (store)"):
                with pytest.raises(errors.FeatureNotSupported, match="store"):
                    connection.execute(f"ALTER TABLESPACE part {change}".encode())
            with connection.transaction():
                connection.execute("INSERT INTO near VALUES (101, 101)")
                connection.execute("INSERT INTO part VALUES (101, 202)")
            connection.execute("SELECT shoal_checkpoint()")
        assert {ledger.store for ledger in cluster.ledgers(identity)} == {url}
        assert not (cluster.directory / "store" / identity).exists()
        for name in cluster.nodes:
            assert rows(cluster, name, JOIN) == [(101, 5151, 10302)]
        leader = cluster.leader()
        members[0].kill()
        cluster.kill(leader)
        until_taken(cluster, "INSERT INTO part VALUES (102, 0)")
        added = cluster.add("n4")
        assert rows(cluster, added, "SELECT count(*), sum(v) FROM part", "eventual") == [(102, 10302)]


def test_the_leader_of_pg_default_is_chosen(zookeeper_server: ZooKeeper) -> None:
    with ShoalCluster(3, zookeeper=zookeeper_server) as cluster:
        first, (_, third) = cluster.leader(), cluster.followers()
        make_part(cluster, f"replicas = '{first},{third}'")
        cluster.wait_for_applied()
        until_taken(cluster, f"ALTER TABLESPACE pg_default SET (leader = '{third}')")
        assert cluster.leader(not_this=first) == third
        until_taken(cluster, "INSERT INTO part VALUES (101, 0)")
        until_taken(cluster, "WITH w AS (INSERT INTO near VALUES (101, 0)) UPDATE part SET v = v WHERE id = 1")
        assert dict(rows(cluster, third, "SELECT tablespace, leader FROM shoal_tablespaces")) == {
            "pg_default": third,
            "part": third,
        }
