"""What a cluster promises of nodes that come and go, of leaders that fall silent, and of damage in its store."""

from __future__ import annotations

import pathlib
import select
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import errors

from tests import forks
from tests.cluster import PATIENCE, NotStartedError, ShoalCluster
from tests.zookeeper_server import ZooKeeper

RETRYABLE = ("40001", "57P01", "57P03", "08006", "08007")  # with them the whole transaction may be tried again
AFTER_EACH = 15  # commits of every client that follow each change


@contextmanager
def routed(cluster: ShoalCluster) -> Iterator[str]:
    """The connection string of a router in front of the cluster."""
    command = [sys.executable, "-m", "shoal", "router", "--cluster", cluster.url, "--listen", "127.0.0.1:0"]
    with (cluster.directory / "router.log").open("a") as log:
        process = forks.start(command, stderr=log)
    assert process.stdout is not None
    try:
        assert select.select([process.stdout], [], [], PATIENCE)[0], "the router does not start"
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.wait(PATIENCE)
        process.stdout.close()


class Load:
    """Clients that move amounts between accounts, and note what they were told."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.told: dict[int, list[int]] = {}  # acknowledged numbers, by client
        self.unknown: set[int] = set()
        self.refused: Counter[str] = Counter()
        self.wrong: list[BaseException] = []
        self._threads: list[threading.Thread] = []

    def client(self, dsn: str) -> None:
        number = len(self._threads)
        self.told[number] = []
        thread = threading.Thread(target=self._run, args=(dsn, number), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self, dsn: str, client: int) -> None:
        connection: psycopg.Connection[tuple[object, ...]] | None = None
        number = client * 1_000_000
        while not self.over.is_set():
            number += 1
            try:
                if connection is None or connection.closed:
                    connection = psycopg.connect(dsn, connect_timeout=5)
                self._transfer(connection, number)
                self.told[client].append(number)
            except psycopg.OperationalError as error:
                state = error.sqlstate or ("08006" if connection is None or connection.closed else "")
                self.refused[state] += 1
                self.unknown.add(number)
                if state not in RETRYABLE:
                    self.wrong.append(error)
                if connection is not None and not connection.closed:
                    connection.rollback()
                time.sleep(0.02)
            except BaseException as error:
                self.wrong.append(error)
                return
        if connection is not None:
            connection.close()

    @staticmethod
    def _transfer(connection: psycopg.Connection[tuple[object, ...]], number: int) -> None:
        account = number % 19
        with connection.transaction():
            connection.execute("UPDATE accounts SET v = v - 1 WHERE id = %s", (account,))
            connection.execute("UPDATE accounts SET v = v + 1 WHERE id = %s", (account + 1,))
            connection.execute("INSERT INTO done VALUES (%s)", (number,))

    def goes_on(self, cluster: ShoalCluster) -> None:
        """Waits for commits of every client."""
        before = {client: len(told) for client, told in self.told.items()}
        cluster.wait_until(
            lambda: (
                bool(self.wrong)
                or all(len(self.told[client]) >= count + AFTER_EACH for client, count in before.items())
            ),
            "every client commits",
            60.0,
        )

    def end(self) -> None:
        self.over.set()
        for thread in self._threads:
            thread.join(PATIENCE)


def test_nodes_come_and_go_and_clients_see_clean_errors_only(zookeeper_server: ZooKeeper) -> None:
    """Through psycopg's list of hosts and through a router."""
    with ShoalCluster(3, zookeeper=zookeeper_server) as cluster, routed(cluster) as router:
        with cluster.connect() as connection:
            connection.execute("CREATE TABLE accounts (id int PRIMARY KEY, v int)")
            connection.execute("INSERT INTO accounts SELECT g, 100 FROM generate_series(0, 19) g")
            connection.execute("CREATE TABLE done (n int PRIMARY KEY)")
        cluster.wait_for_applied()
        load = Load()
        for dsn in (cluster.multi_host_dsn(), cluster.multi_host_dsn(), router, router):
            load.client(dsn)
        try:
            load.goes_on(cluster)
            added = cluster.add()
            load.goes_on(cluster)
            assert cluster.remove(next(name for name in cluster.followers() if name != added)) == 0
            load.goes_on(cluster)
            handed = cluster.leader()
            assert cluster.stop_politely(handed) == 0
            load.goes_on(cluster)
            cluster.start(handed)
            killed = cluster.leader()
            cluster.kill(killed)
            load.goes_on(cluster)
            cluster.start(killed)
        finally:
            load.end()
        print(f"{sum(map(len, load.told.values()))} transactions, errors: {dict(load.refused)}")
        assert load.wrong == []
        cluster.wait_for_applied()
        told = {number for numbers in load.told.values() for number in numbers}
        for name in cluster.nodes:
            with cluster.connect(name) as connection:
                assert connection.execute("SELECT sum(v) FROM accounts").fetchone() == (2000,)
                there = {row[0] for row in connection.execute("SELECT n FROM done").fetchall()}
            assert told <= there <= told | load.unknown
        found = forks.run("check", "--cluster", cluster.url)
        assert found.stdout.count(" equal ") == len(cluster.nodes), found.stdout  # who was removed does not answer


def test_another_leads_when_the_leader_is_silent_for_longer_than_is_allowed(zookeeper_server: ZooKeeper) -> None:
    """The session of the silent one is far from its end."""
    with ShoalCluster(2, zookeeper=zookeeper_server, settings={"session_timeout": 20.0}) as cluster:
        with cluster.connect() as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
            connection.execute("ALTER TABLESPACE pg_default SET (max_leader_inactivity = '1s')")
        cluster.wait_for_applied()
        old = cluster.leader()
        time.sleep(2.0)  # longer than allowed: a leader that is not silent keeps its place
        assert cluster.leader() == old
        began = time.monotonic()
        cluster.stop(old)
        new = cluster.leader(not_this=old)
        assert time.monotonic() - began < 10.0
        with cluster.connect(new) as connection:
            connection.execute("INSERT INTO t VALUES (1)")
        cluster.cont(old)
        with cluster.connect(old) as connection:
            connection.execute("INSERT INTO t VALUES (2)")
            assert connection.execute("SELECT count(*) FROM t").fetchone() == (2,)
        assert cluster.leader() == new


def test_a_restore_that_was_broken_off_is_begun_anew(zookeeper_server: ZooKeeper) -> None:
    with ShoalCluster(1, zookeeper=zookeeper_server) as cluster:
        with cluster.connect() as connection:
            connection.execute("CREATE TABLE t AS SELECT g AS id FROM generate_series(1, 5000) g")
            connection.execute("SELECT shoal_checkpoint()")
        half = cluster.node("n2").data / "restoring"
        half.mkdir(parents=True)
        (half / "data.mdb").write_bytes(b"half of a restore" * 1000)
        (half / "left over").mkdir()
        cluster.start("n2")
        assert "was interrupted" in cluster.nodes["n2"].text()
        assert not half.exists()
        with cluster.connect("n2") as connection:
            assert connection.execute("SELECT count(*) FROM t").fetchone() == (5000,)


def test_a_node_that_is_frozen_while_it_starts_past_its_session_starts_all_the_same(
    zookeeper_server: ZooKeeper,
) -> None:
    with ShoalCluster(1, zookeeper=zookeeper_server) as cluster:
        cluster.launch("n2")
        cluster.wait_for_line("n2", "connected")
        cluster.stop("n2")
        frozen = cluster.nodes["n2"].log.stat().st_size
        time.sleep(2.5)  # its session lasts for a second
        cluster.cont("n2")
        cluster.ready("n2")
        cluster.wait_for_line("n2", "connected", since=frozen)  # wherever it was: a session after that one
        with cluster.connect("n2") as connection:
            connection.execute("CREATE TABLE of_n2 (a int)")


def flip(folder: pathlib.Path, needle: bytes) -> None:
    """Changes one byte right behind what only one file below the folder holds."""
    (path,) = (path for path in folder.rglob("*") if path.is_file() and needle in path.read_bytes())
    content = bytearray(path.read_bytes())
    content[content.index(needle) + len(needle)] ^= 1
    path.write_bytes(content)


def test_damage_in_the_store_is_never_applied(zookeeper_server: ZooKeeper) -> None:
    with ShoalCluster(1, zookeeper=zookeeper_server) as cluster:
        store = cluster.directory / "store"
        with cluster.connect() as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
            connection.execute("SELECT shoal_checkpoint()")
            connection.execute("INSERT INTO t VALUES (1, 'a needle in the log')")
            connection.execute("INSERT INTO t VALUES (2, '')")  # what is damaged at the end of a file is missing there
        flip(store, b"a needle in the lo")
        with pytest.raises(NotStartedError) as refused:
            cluster.start("n2")
        assert "damage" in refused.value.text
        found = forks.run("ledger", "read", "--cluster", cluster.url)
        assert found.returncode == 1 and "damage" in found.stderr, found
        with cluster.connect() as connection:  # who has applied it before goes on, and a checkpoint makes up for it
            connection.execute("INSERT INTO t VALUES (3, 'b')")
            connection.execute("SELECT shoal_checkpoint()")
        shutil.rmtree(cluster.nodes["n2"].data)
        cluster.start("n2")
        with cluster.connect("n2") as connection:
            assert connection.execute("SELECT * FROM t ORDER BY id").fetchall() == [
                (1, "a needle in the log"),
                (2, ""),
                (3, "b"),
            ]
        newest = max(store.glob("*/checkpoint-*"))
        flip(newest, b'"crc32c": "')
        with pytest.raises(NotStartedError) as refused:
            cluster.start("n3")
        assert "checkpoint is damaged" in refused.value.line
        with cluster.connect("n2") as connection, pytest.raises(errors.UniqueViolation):
            connection.execute("INSERT INTO t VALUES (2, 'again')")
