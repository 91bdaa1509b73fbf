"""Tablespaces with leaders of their own: where transactions run, what brings leaderships together, fail-over."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from replication.log.layout import decode_epoch
from tests.cluster import ShoalCluster
from tests.end_to_end.test_cluster_commands import shoal
from tests.end_to_end.test_cluster_tablespaces import GOES_ON, checked, others, rows, until_taken
from tests.samples import some
from tests.zookeeper_server import ZooKeeper


def leader_of(cluster: ShoalCluster, tablespace: str) -> str:
    identity = others(cluster)[tablespace]
    return decode_epoch(cluster.watcher.get(f"tablespaces/{identity}/epoch") or b"").leader


def lead(cluster: ShoalCluster, tablespace: str, node: str) -> None:
    """Returns when the node leads it."""
    deadline = time.monotonic() + GOES_ON
    while leader_of(cluster, tablespace) != node:
        status, shown, error = shoal("lead", "--cluster", cluster.url, "--tablespace", tablespace, node)
        assert status == 0 or time.monotonic() < deadline, shown + error


@pytest.fixture
def cluster(zookeeper_server: ZooKeeper) -> Iterator[ShoalCluster]:
    with ShoalCluster(3, zookeeper=zookeeper_server) as cluster:
        for statement in (
            "CREATE TABLESPACE own",
            "CREATE TABLE near (id int PRIMARY KEY, v int)",
            "CREATE TABLE far (id int PRIMARY KEY, v int) TABLESPACE own",
            "CREATE TABLE counted (id serial PRIMARY KEY, v int) TABLESPACE own",
            "INSERT INTO near SELECT g, 100 FROM generate_series(1, 10) g",
            "INSERT INTO far SELECT g, 100 FROM generate_series(1, 10) g",
        ):
            until_taken(cluster, statement)
        yield cluster


def test_transactions_run_where_their_tablespace_is_led(cluster: ShoalCluster) -> None:
    home, (second, third) = cluster.leader(), cluster.followers()
    lead(cluster, "own", third)
    assert cluster.leader() == home
    epoch = cluster.epoch().epoch
    for n, name in enumerate(cluster.nodes):
        with cluster.connect(name) as connection:
            connection.execute("UPDATE far SET v = v + 1 WHERE id = 1")
            assert connection.execute("SELECT v FROM far WHERE id = 1").fetchone() == (101 + 2 * n,)
            with connection.transaction():
                assert connection.execute("SELECT v FROM far WHERE id = 1 FOR UPDATE").fetchone() == (101 + 2 * n,)
                connection.execute("UPDATE far SET v = v + %s WHERE id = 1", (1,))
                connection.execute("SAVEPOINT s")
                connection.execute("DELETE FROM far")
                connection.execute("ROLLBACK TO s")
            connection.execute("UPDATE near SET v = v + 1 WHERE id = 1")
            with pytest.raises(errors.UniqueViolation):
                connection.execute("INSERT INTO far VALUES (1, 1)")
            query = "SELECT n.v, f.v FROM near n JOIN far f USING (id) WHERE id = 1"
            assert connection.execute(query).fetchone() == (101 + n, 102 + 2 * n)
            assert rows(cluster, second, "SELECT v FROM far WHERE id = 1") == [(102 + 2 * n,)]
    assert (leader_of(cluster, "own"), cluster.leader(), cluster.epoch().epoch) == (third, home, epoch)
    for name in cluster.nodes:
        with cluster.connect(name) as connection:
            shown = dict(connection.execute("SELECT tablespace, leader FROM shoal_tablespaces").fetchall())
            assert shown == {"pg_default": home, "own": third}


def test_a_snapshot_that_may_lack_commits_of_another_leader_is_given_up(cluster: ShoalCluster) -> None:
    home, (_, third) = cluster.leader(), cluster.followers()
    lead(cluster, "own", third)
    with cluster.connect(home) as old, cluster.connect(third) as other:
        old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        assert old.execute("SELECT v FROM near WHERE id = 1").fetchone() == (100,)
        other.execute("UPDATE far SET v = 7 WHERE id = 1")
        other.execute("WITH w AS (UPDATE near SET v = 7 WHERE id = 1) UPDATE far SET v = 8 WHERE id = 2")
        assert leader_of(cluster, "own") == home
        with pytest.raises(errors.SerializationFailure):
            old.execute("SELECT v FROM far WHERE id = 1")
        old.execute("ROLLBACK")
        old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        query = "SELECT (SELECT v FROM near WHERE id = 1), (SELECT v FROM far WHERE id = 1)"
        assert old.execute(query).fetchone() == (7, 7)


def test_rows_without_a_key_are_kept_apart_while_leaderships_come_together(cluster: ShoalCluster) -> None:
    home, (_, third) = cluster.leader(), cluster.followers()
    until_taken(cluster, "CREATE TABLE loose (v int)")
    lead(cluster, "own", third)
    with cluster.connect(home) as early, cluster.connect(home) as late:
        early.execute("BEGIN")
        early.execute("INSERT INTO loose VALUES (1)")
        late.execute("WITH w AS (UPDATE near SET v = 7 WHERE id = 1) UPDATE far SET v = 8 WHERE id = 2")
        late.execute("INSERT INTO loose VALUES (2)")
        lead(cluster, "own", third)
        late.execute("INSERT INTO loose VALUES (3)")
        early.execute("COMMIT")
        assert late.execute("SELECT v FROM loose ORDER BY v").fetchall() == [(1,), (2,), (3,)]


@pytest.mark.parametrize("what", some(["joint", "late", "schema", "serial", "check"], 2))
def test_what_needs_more_brings_the_leaderships_together(cluster: ShoalCluster, what: str) -> None:
    home, (second, third) = cluster.leader(), cluster.followers()
    lead(cluster, "own", third)
    for name in (second, home, third):
        lead(cluster, "own", third)
        with cluster.connect(name) as connection:
            if what == "joint":
                with connection.transaction():
                    connection.execute("UPDATE near SET v = v - 1 WHERE id = 1")
                    connection.execute("UPDATE far SET v = v + 1 WHERE id = 1")
            elif what == "late":
                with pytest.raises(errors.SerializationFailure), connection.transaction():
                    connection.execute("UPDATE far SET v = v + 1 WHERE id = 1")
                    connection.execute("UPDATE near SET v = v - 1 WHERE id = 1")
                cluster.wait_until(lambda: leader_of(cluster, "own") == home, "it has gone home")
                with connection.transaction():
                    connection.execute("UPDATE far SET v = v + 1 WHERE id = 1")
                    connection.execute("UPDATE near SET v = v - 1 WHERE id = 1")
            elif what == "schema":
                connection.execute(f"ALTER TABLE far ADD COLUMN c_{name} int DEFAULT 7".encode())
                assert connection.execute(f"SELECT sum(c_{name}) FROM far".encode()).fetchone() == (70,)
            elif what == "serial":
                connection.execute("INSERT INTO counted (v) VALUES (1)")
            else:
                assert checked(cluster) == (0, {"pg_default": set(cluster.nodes), "own": set(cluster.nodes)})
        assert cluster.leader() == home
    if what in ("joint", "late"):
        for name in cluster.nodes:
            query = "SELECT (SELECT v FROM near WHERE id = 1), (SELECT v FROM far WHERE id = 1)"
            assert rows(cluster, name, query) == [(97, 103)]


class Load:
    """Clients of one tablespace, of two at once, changes of the schema, and readers that add up."""

    TOTAL = 20 * 100

    def __init__(self, cluster: ShoalCluster, seed: int) -> None:
        self.cluster = cluster
        self.over = threading.Event()
        self.random = random.Random(seed)
        self.acknowledged: dict[str, set[int]] = {"near": set(), "far": set()}
        self.unknown: dict[str, set[int]] = {"near": set(), "far": set()}
        self.columns = 0
        self.reads = 0
        self.joint = 0
        self.wrong: list[object] = []
        self.failures: list[BaseException] = []
        for table, place in (("near", "pg_default"), ("far", "own")):
            until_taken(cluster, f"CREATE TABLE told_{table} (n int PRIMARY KEY) TABLESPACE {place}")

    def _name(self) -> str:
        return self.random.choice([name for name, node in self.cluster.nodes.items() if node.running])

    def insert(self, table: str) -> None:
        n = 0
        while not self.over.is_set():
            try:
                with self.cluster.connect(self._name()) as connection:
                    for _ in range(20):
                        if self.over.is_set():
                            return
                        n += 1
                        self.unknown[table].add(n)
                        with connection.transaction():
                            connection.execute(f"INSERT INTO told_{table} VALUES ({n})".encode())
                            connection.execute(f"UPDATE {table} SET v = v + 0 WHERE id = {n % 10 + 1}".encode())
                        self.acknowledged[table].add(n)
            except psycopg.OperationalError:
                time.sleep(0.02)
            except BaseException as error:
                self.failures.append(error)
                return

    def move(self) -> None:
        n = 0
        while not self.over.wait(0.5):
            try:
                with self.cluster.connect(self._name()) as connection:
                    tables = self.random.sample(["near", "far"], 2)
                    n += 1
                    with connection.transaction():
                        connection.execute(f"UPDATE {tables[0]} SET v = v - 1 WHERE id = {n % 10 + 1}".encode())
                        connection.execute(f"UPDATE {tables[1]} SET v = v + 1 WHERE id = {n % 7 + 1}".encode())
                    self.joint += 1
            except psycopg.OperationalError:
                time.sleep(0.02)
            except BaseException as error:
                self.failures.append(error)
                return

    def alter(self) -> None:
        while not self.over.wait(1.3):
            try:
                with self.cluster.connect(self._name()) as connection:
                    connection.execute(
                        f"ALTER TABLE far ADD COLUMN c{self.columns} int DEFAULT {self.columns}".encode()
                    )
                    self.columns += 1
            except errors.DuplicateColumn:
                self.columns += 1
            except psycopg.OperationalError:
                time.sleep(0.02)
            except BaseException as error:
                self.failures.append(error)
                return

    def read(self, name: str, consistency: str) -> None:
        query = "SELECT (SELECT sum(v) FROM near) + (SELECT sum(v) FROM far)"
        while not self.over.is_set():
            try:
                with self.cluster.connect(name) as connection:
                    connection.execute(f"SET read_consistency = '{consistency}'".encode())
                    while not self.over.is_set():
                        found = connection.execute(query).fetchone()
                        self.reads += 1
                        if found is None or found[0] != self.TOTAL:
                            self.wrong.append((name, consistency, found))
            except psycopg.OperationalError:
                time.sleep(0.05)
            except BaseException as error:
                self.failures.append(error)
                return

    def start(self) -> list[threading.Thread]:
        works = [(self.insert, ("near",)), (self.insert, ("far",)), (self.move, ()), (self.alter, ())]
        works += [(self.read, (name, level)) for name in self.cluster.nodes for level in ("strong", "eventual")]
        threads = [threading.Thread(target=work, args=arguments, daemon=True) for work, arguments in works]  # type: ignore[arg-type]
        for thread in threads:
            thread.start()
        return threads

    def goes_on(self, commits: int, joint: int = 0, columns: int = 0) -> None:
        """Returns after so many more commits in each tablespace, and over both, and changes of the schema."""
        wanted = {table: len(known) + commits for table, known in self.acknowledged.items()}
        joint, columns = joint + self.joint, columns + self.columns

        def done() -> bool:
            each = all(len(self.acknowledged[table]) >= count for table, count in wanted.items())
            return each and self.joint >= joint and self.columns >= columns

        self.cluster.wait_until(done, "commits go on", 60.0)

    def check(self) -> None:
        assert self.failures == []
        assert self.wrong == []
        for name in self.cluster.nodes:
            for table in ("near", "far"):
                there = {row[0] for row in rows(self.cluster, name, f"SELECT n FROM told_{table}")}
                assert self.acknowledged[table] <= there, "a row is lost"
                assert there <= self.unknown[table]
            query = "SELECT (SELECT sum(v) FROM near) + (SELECT sum(v) FROM far)"
            assert rows(self.cluster, name, query) == [(self.TOTAL,)]
            for number in range(self.columns):
                found = rows(self.cluster, name, f"SELECT count(*) FROM far WHERE c{number} IS DISTINCT FROM {number}")
                assert found == [(0,)]
        assert checked(self.cluster)[0] == 0


@pytest.mark.parametrize("how", some(["own killed", "nothing", "own stopped", "home killed", "home stopped"], 5))
def test_nothing_is_lost_or_torn_while_leaderships_part_and_come_together(cluster: ShoalCluster, how: str) -> None:
    home, (_, third) = cluster.leader(), cluster.followers()
    load = Load(cluster, 7)
    lead(cluster, "own", third)
    threads = load.start()
    try:
        load.goes_on(100, joint=4, columns=1)
        victim = third if how.startswith("own") else home
        if how.endswith("killed"):
            cluster.kill(victim)
            load.goes_on(40)
            cluster.start(victim)
        elif how.endswith("stopped"):
            cluster.stop(victim)
            cluster.wait_until(lambda: victim not in leaders(cluster), "others lead what it has led")
            cluster.cont(victim)
        load.goes_on(40, joint=3, columns=1)
    finally:
        load.over.set()
        for thread in threads:
            thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    print(how, {table: len(done) for table, done in load.acknowledged.items()}, load.joint, load.columns, load.reads)
    load.check()
    assert load.reads > 10


def leaders(cluster: ShoalCluster) -> set[str]:
    """Of pg_default and of `own`, while they are led."""
    return {cluster.leader(), leader_of(cluster, "own")}


def rows_past_a_constraint(cluster: ShoalCluster, rounds: int) -> int:
    """How many rows are seen that a constraint forbids which has just been made, while a client of the tablespace's
    leader inserts and deletes such rows. Ends with the first round that has some."""
    home, (_, third) = cluster.leader(), cluster.followers()
    over = threading.Event()
    pauses = random.Random(3)

    def insert() -> None:
        while not over.is_set():
            with contextlib.suppress(psycopg.Error), cluster.connect(third) as connection:
                while not over.is_set():
                    time.sleep(pauses.uniform(0.0, 0.03))
                    connection.execute("INSERT INTO far VALUES (1000, 1000)")
                    time.sleep(0.2)
                    connection.execute("DELETE FROM far WHERE id = 1000")
            over.wait(0.02)

    thread = threading.Thread(target=insert, daemon=True)
    thread.start()
    try:
        for _ in range(rounds):
            lead(cluster, "own", third)
            until_constrained(cluster, home)
            seen = rows(cluster, third, "SELECT count(*) FROM far WHERE v >= 500")[0][0]
            if seen:
                return int(seen)
            until_taken(cluster, "ALTER TABLE far DROP CONSTRAINT IF EXISTS small")
        return 0
    finally:
        over.set()
        thread.join(GOES_ON)


def until_constrained(cluster: ShoalCluster, home: str) -> None:
    deadline = time.monotonic() + GOES_ON
    with cluster.connect(home) as connection:
        while True:
            try:
                connection.execute("ALTER TABLE far ADD CONSTRAINT small CHECK (v < 500)")
                return
            except (errors.CheckViolation, errors.SerializationFailure):
                assert time.monotonic() < deadline


def test_no_row_is_committed_under_a_schema_that_was_changed_before(cluster: ShoalCluster) -> None:
    assert rows_past_a_constraint(cluster, 4) == 0


def test_a_schema_change_that_leaves_the_others_alone_is_found(zookeeper_server: ZooKeeper) -> None:
    hooks = ["tests.end_to_end.schema_alone.install"]
    with ShoalCluster(3, zookeeper=zookeeper_server, hooks=hooks) as cluster:
        until_taken(cluster, "CREATE TABLESPACE own")
        until_taken(cluster, "CREATE TABLE far (id int PRIMARY KEY, v int) TABLESPACE own")
        assert rows_past_a_constraint(cluster, 60) > 0


def test_leaderships_spread_by_themselves_and_come_together_where_they_are_needed(zookeeper_server: ZooKeeper) -> None:
    hooks = ["tests.end_to_end.quick_placement.install"]
    with ShoalCluster(3, zookeeper=zookeeper_server, hooks=hooks) as cluster:
        for statement in (
            "CREATE TABLESPACE one",
            "CREATE TABLESPACE two",
            "CREATE TABLE a (id int PRIMARY KEY, v int) TABLESPACE one",
            "CREATE TABLE b (id int PRIMARY KEY, v int) TABLESPACE two",
        ):
            until_taken(cluster, statement)

        def leaders() -> set[str]:
            return {cluster.epoch().leader, leader_of(cluster, "one"), leader_of(cluster, "two")}

        cluster.wait_until(lambda: leaders() == set(cluster.nodes), "each leads one", 60.0)
        until_taken(cluster, "WITH w AS (INSERT INTO a VALUES (1, 1)) INSERT INTO b VALUES (1, 1)")
        assert len(leaders()) == 1
        with cluster.connect() as connection:
            query = "SELECT tablespace FROM shoal_tablespaces WHERE needed_together > now() - interval '1 minute'"
            shown = {"one", "two"}
            cluster.wait_until(lambda: {row[0] for row in connection.execute(query)} >= shown, "it is shown")
        cluster.wait_until(lambda: leaders() == set(cluster.nodes), "and again", 60.0)
        until_taken(cluster, f"ALTER TABLESPACE one SET (leader = '{cluster.leader()}')")
        cluster.wait_until(lambda: leader_of(cluster, "one") == cluster.epoch().leader, "as it was asked for", 60.0)


def test_a_prepared_transaction_keeps_its_locks_wherever_its_tablespace_is_led(cluster: ShoalCluster) -> None:
    home, (_, third) = cluster.leader(), cluster.followers()
    with cluster.connect(home) as connection:
        for ends in ("COMMIT PREPARED", "ROLLBACK PREPARED"):
            connection.execute("BEGIN")
            connection.execute("UPDATE near SET v = v - 1 WHERE id = 1")
            connection.execute("UPDATE far SET v = v + 1 WHERE id = 1")
            connection.execute("PREPARE TRANSACTION 'both'")
            lead(cluster, "own", third)
            with cluster.connect(third) as other:
                other.execute("SET lock_timeout = '50ms'")
                with pytest.raises(errors.LockNotAvailable):
                    other.execute("UPDATE far SET v = 0 WHERE id = 1")
                other.execute("UPDATE far SET v = v + 1 WHERE id = 2")
                connection.execute(f"{ends} 'both'".encode())
                assert leader_of(cluster, "own") == home
                lead(cluster, "own", third)
                other.execute("UPDATE far SET v = v + 10 WHERE id = 1")
    for name in cluster.nodes:
        query = "SELECT (SELECT v FROM near WHERE id = 1), (SELECT v FROM far WHERE id = 1)"
        assert rows(cluster, name, query) == [(99, 121)]
