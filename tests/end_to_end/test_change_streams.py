"""Change streams over kill -9, fail-over and several tablespaces, and the command that prints them.

A reader resumes at the last LSN that it has; in the end its tables are those of the database (tests/engine/changes/
replay.py). That the checker finds what is wrong is shown with servers that have a fault planted.

SHOAL_CRASH_ROUNDS sets how many times the server is killed; SHOAL_CRASH_SEED repeats the choices of a run.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.cluster import ShoalCluster
from tests.end_to_end.test_cluster_leaders import lead, leader_of
from tests.end_to_end.test_cluster_tablespaces import until_taken
from tests.end_to_end.test_crash import SmallServer
from tests.engine.changes.replay import Broken, Replay
from tests.server import ROOT, ShoalServer
from tests.zookeeper_server import ZooKeeper

ROUNDS = int(os.environ.get("SHOAL_CRASH_ROUNDS", "3"))
SEED = int(os.environ.get("SHOAL_CRASH_SEED", str(random.SystemRandom().randrange(1 << 32))))
ROWS = 200
SCHEMA = (
    "CREATE TABLE a (id int PRIMARY KEY, v bigint, pad text)",
    "CREATE TABLE b (id int PRIMARY KEY, v bigint)",
    "CREATE INDEX ON a (v)",
    "CREATE CHANGE STREAM s FOR TABLE a, b",
)


def choose(chosen: random.Random) -> list[str]:
    """A transaction."""
    low = chosen.randrange(ROWS)
    high = low + chosen.choice((0, 0, 3, 30))
    ranged = f"id BETWEEN {low} AND {high}"
    return chosen.choices(
        (
            f"INSERT INTO a SELECT g, 0, repeat('x', {low}) FROM generate_series({low}, {high}) g "
            "ON CONFLICT (id) DO UPDATE SET v = a.v + 1",
            f"UPDATE a SET v = v + 1 WHERE {ranged}",
            f"DELETE FROM a WHERE {ranged}",
            f"INSERT INTO b VALUES ({low}, 1) ON CONFLICT (id) DO UPDATE SET v = b.v + 1",
            f"DELETE FROM b WHERE {ranged}",
            "TRUNCATE b",
        ),
        (6, 6, 2, 4, 1, 0.1),
        k=chosen.randrange(1, 4),
    )


class Writer(threading.Thread):
    """Runs transactions until `over`, or until the server goes away; `done` counts what was acknowledged."""

    def __init__(self, dsn: str, seed: str) -> None:
        super().__init__(daemon=True)
        self._dsn = dsn
        self._random = random.Random(seed)
        self.over = threading.Event()
        self.some = threading.Event()
        self.done = 0

    def run(self) -> None:
        while not self.over.is_set():
            try:
                with psycopg.connect(self._dsn, autocommit=True, connect_timeout=5) as connection:
                    while not self.over.is_set():
                        with connection.transaction():
                            for statement in choose(self._random):
                                connection.execute(statement.encode())
                        self.done += 1
                        if self.done >= 30:
                            self.some.set()
            except psycopg.OperationalError:
                self.over.wait(0.05)


def compared(replay: Replay, connection: psycopg.Connection[Any]) -> None:
    """Reads the rest, and compares both tables."""
    replay.read_all(connection, 500)
    for table in ("a", "b"):
        replay.tables[table] = replay.tables.pop(f"public.{table}", {})
        replay.compare(connection, table, "id")
        replay.tables[f"public.{table}"] = replay.tables.pop(table)


def set_up(connection: psycopg.Connection[Any]) -> None:
    for statement in SCHEMA:
        connection.execute(statement.encode())


# ---- kill -9 --------------------------------------------------------------------------------------------------------


def test_a_reader_that_resumes_misses_and_repeats_nothing_over_kills(tmp_path: Any) -> None:
    print(f"seed {SEED}")
    chosen = random.Random(SEED)
    replay = Replay("s")
    with SmallServer(tmp_path / "data") as server:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            set_up(connection)
        for turn in range(ROUNDS):
            writers = [Writer(server.dsn, f"{SEED} {turn} {number}") for number in range(3)]
            for writer in writers:
                writer.start()
            with psycopg.connect(server.dsn, autocommit=True) as connection:
                assert writers[0].some.wait(60)
                for _ in range(chosen.randrange(1, 8)):
                    replay.read(connection, chosen.randrange(1, 200))
                if turn:
                    connection.execute("SELECT shoal_change_stream_advance('s', %s)", (replay.lsn,))
            server.kill()
            for writer in writers:
                writer.over.set()
                writer.join()
            server.start()
            with psycopg.connect(server.dsn, autocommit=True) as connection:
                compared(replay, connection)
    assert replay.count > 100


# ---- faults that the checker finds ----------------------------------------------------------------------------------

FAULTS = {
    "a commit is forgotten": """
from engine.changes.log import Log
write, calls = Log.write, [0]
def forgetful(self, writes, found, now, version):
    calls[0] += 1
    return 0 if calls[0] % 9 == 0 else write(self, writes, found, now, version)
Log.write = forgetful
""",
    "the row before is not looked up": """
from engine.changes.capture import _Found
add = _Found.add
_Found.add = lambda self, item, key, before, after: add(self, item, key, None, after)
""",
    "the last change of a part is dropped": """
from engine.changes import record, stream_reader
decode = record.decode_changes
def short(body, place):
    found = list(decode(body, place))
    return iter(found[:-1] if len(found) > 2 else found)
record.decode_changes = short
""",
    "reading begins a commit too early": """
from engine.changes.log import Log
parts = Log.parts
Log.parts = lambda self, reader, after: parts(self, reader, after - 1)
""",
    "a limit cuts a transaction": """
from engine.changes import stream_reader
from itertools import islice
read = stream_reader.read
stream_reader.read = lambda changes, reader, stream, wanted, cut: islice(
    read(changes, reader, stream, wanted, cut), wanted.limit)
""",
}


class FaultyServer(ShoalServer):
    """With a fault planted."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self._fault = fault

    def command(self) -> list[str]:
        text = f"{self._fault}\nimport sys\nfrom shoal.cli import main\nsys.exit(main(sys.argv[1:]))"
        return [sys.executable, "-c", text, *super().command()[3:]]


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str) -> None:
    with FaultyServer(FAULTS[fault]) as server, psycopg.connect(server.dsn, autocommit=True) as connection:
        set_up(connection)
        chosen = random.Random(7)
        replay = Replay("s")
        with pytest.raises(Broken):
            for _ in range(60):
                with connection.transaction():
                    for statement in choose(chosen):
                        connection.execute(statement.encode())
                replay.read(connection, 5)
            compared(replay, connection)


# ---- a cluster ------------------------------------------------------------------------------------------------------


@pytest.fixture
def cluster(zookeeper_server: ZooKeeper) -> Iterator[ShoalCluster]:
    with ShoalCluster(3, zookeeper=zookeeper_server) as cluster:
        yield cluster


def test_a_reader_goes_on_over_a_fail_over_wherever_it_reads(cluster: ShoalCluster) -> None:
    with cluster.connect() as connection:
        set_up(connection)
    cluster.wait_for_applied()
    first = cluster.leader()
    writer = Writer(cluster.multi_host_dsn(), f"{SEED} cluster")
    writer.start()
    assert writer.some.wait(60)
    on_leader, elsewhere = Replay("s"), Replay("s")
    follower = cluster.followers()[0]
    with cluster.connect(first) as connection:
        on_leader.read(connection, 50)
    with cluster.connect(follower) as connection:
        connection.execute("SET read_consistency = 'eventual'")
        elsewhere.read(connection, 20)
        connection.execute('LISTEN "shoal.s"')
        told = next(connection.notifies(timeout=20, stop_after=1))
        assert told.channel == "shoal.s"
    cluster.kill(first)
    cluster.leader(not_this=first)
    done = writer.done
    cluster.wait_until(lambda: writer.done > done + 20, "writers go on")
    writer.over.set()
    writer.join()
    cluster.wait_for_applied(names=[follower])
    with cluster.connect(follower) as connection:
        connection.execute("SET read_consistency = 'eventual'")
        compared(elsewhere, connection)
    with cluster.connect(cluster.leader(not_this=first)) as connection:
        compared(on_leader, connection)
        assert elsewhere.tables == on_leader.tables
        ((lsn,),) = connection.execute("SELECT shoal_change_stream_advance('s', %s)", (on_leader.lsn,)).fetchall()
        assert lsn == on_leader.lsn
        ((state, lag),) = connection.execute("SELECT state, lag_bytes FROM shoal_change_streams").fetchall()
        assert (state, lag) == ("ready", 0)
    with cluster.connect(follower) as connection:
        connection.execute("SET read_consistency = 'strong'")
        found = connection.execute("SELECT shoal_change_stream_snapshot('s')").fetchone()
        assert found is not None and found[0] >= on_leader.lsn


def test_a_tablespace_that_another_node_leads_has_its_streams_there(cluster: ShoalCluster) -> None:
    for statement in (
        "CREATE TABLESPACE own",
        "CREATE TABLE near (id int PRIMARY KEY)",
        "CREATE TABLE far (id int PRIMARY KEY, v int) TABLESPACE own",
        "CREATE CHANGE STREAM f FOR TABLE far",
        "INSERT INTO far SELECT g, 0 FROM generate_series(1, 20) g",
    ):
        until_taken(cluster, statement)
    home, (second, third) = cluster.leader(), cluster.followers()
    lead(cluster, "own", second)
    for name in (home, second, third):
        with cluster.connect(name) as connection:
            connection.execute("UPDATE far SET v = v + 1 WHERE id = 1")
            connection.execute("INSERT INTO far SELECT g, 0 FROM generate_series(1000, 7000) g")
            connection.execute("DELETE FROM far WHERE id >= 1000")
    assert leader_of(cluster, "own") == second
    until_taken(cluster, "BEGIN; INSERT INTO near VALUES (1); UPDATE far SET v = 100 WHERE id = 2; COMMIT")
    lead(cluster, "own", third)
    cluster.kill(third)
    until_taken(cluster, "UPDATE far SET v = 200 WHERE id = 3")
    replay = Replay("f")
    with cluster.connect(home) as connection:
        replay.read_all(connection, 3000)
        replay.tables["far"] = replay.tables.pop("public.far")
        replay.compare(connection, "far", "id")
        connection.execute("SELECT shoal_change_stream_advance('f', %s)", (replay.lsn,))
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            connection.execute("CREATE CHANGE STREAM two FOR TABLE near, far")


# ---- several tablespaces --------------------------------------------------------------------------------------------


def test_each_tablespace_has_streams_of_its_own(private_shoal: ShoalServer) -> None:
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        for statement in (
            "CREATE TABLESPACE far",
            "CREATE TABLE near (id int PRIMARY KEY)",
            "CREATE TABLE away (id int PRIMARY KEY, v int) TABLESPACE far",
            "CREATE CHANGE STREAM n FOR TABLE near",
            "CREATE CHANGE STREAM f FOR ALL TABLES IN TABLESPACE far",
            "INSERT INTO away SELECT g, 0 FROM generate_series(1, 6000) g",
        ):
            connection.execute(statement.encode())
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="several tablespaces"):
            connection.execute("CREATE CHANGE STREAM two FOR TABLE near, away")
        with connection.transaction():
            connection.execute("INSERT INTO near VALUES (1)")
            connection.execute("UPDATE away SET v = 1 WHERE id = 5")
        read = 'SELECT op, "table", key FROM shoal_changes(%s, 0, 100000)'
        assert connection.execute(read, ("n",)).fetchall() == [("c", "public.near", {"id": 1})]
        found = connection.execute(read, ("f",)).fetchall()
        assert len(found) == 6001 and found[-1] == ("u", "public.away", {"id": 5})
        connection.execute('LISTEN "shoal.f"')
        connection.execute("INSERT INTO away VALUES (7000, 0)")
        assert next(connection.notifies(timeout=10, stop_after=1)).channel == "shoal.f"
    private_shoal.kill()
    private_shoal.start()
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        assert len(connection.execute(read, ("f",)).fetchall()) == 6002
        connection.execute(
            "SELECT shoal_change_stream_advance('f', (SELECT max(lsn) FROM shoal_changes('f', 0, 100000)))"
        )
        assert connection.execute("SELECT count(*) FROM shoal_changes('f')").fetchone() == (0,)
        connection.execute("INSERT INTO away VALUES (8000, 0)")
        assert connection.execute("SELECT count(*) FROM shoal_changes('f')").fetchone() == (1,)
        for statement in ("DROP CHANGE STREAM f", "DROP TABLE away", "DROP TABLESPACE far"):
            connection.execute(statement.encode())


# ---- the command ----------------------------------------------------------------------------------------------------


def command(server: ShoalServer, *arguments: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "shoal", "changes", *arguments, "--dsn", server.dsn]
    return subprocess.Popen(words, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_the_command_prints_follows_and_goes_on(private_shoal: ShoalServer) -> None:
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        set_up(connection)
        connection.execute("INSERT INTO b VALUES (1, 10)")
        first, error = command(private_shoal, "s").communicate(timeout=60)
        (line,) = map(json.loads, first.splitlines())
        source = line["source"]
        assert (line["op"], line["before"], line["after"], line["key"]) == ("c", None, {"id": 1, "v": 10}, {"id": 1})
        assert (source["schema"], source["table"], source["db"], source["ordinal"]) == ("public", "b", "postgres", 1)
        assert source["txId"] == source["lsn"] and abs(source["ts_ms"] / 1000 - time.time()) < 60 and not error
        following = command(private_shoal, "s", "--follow", "--advance", "--after", str(source["lsn"]))
        assert following.stdout is not None
        connection.execute("UPDATE b SET v = 11")
        updated = json.loads(following.stdout.readline())
        assert (updated["op"], updated["before"]["v"], updated["after"]["v"]) == ("u", 10, 11)
        private_shoal.kill()
        private_shoal.start()
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        connection.execute("DELETE FROM b")
        deleted = json.loads(following.stdout.readline())
        assert (deleted["op"], deleted["before"]["v"], deleted["after"]) == ("d", 11, None)
        lsn = deleted["source"]["lsn"]
        position = "SELECT position FROM shoal_change_streams"
        deadline = time.monotonic() + 10
        while connection.execute(position).fetchone() != (lsn,) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert connection.execute(position).fetchone() == (lsn,)
        following.send_signal(signal.SIGINT)
        rest, error = following.communicate(timeout=30)
        assert (rest, following.returncode) == ("", 0), error
        assert error.splitlines()[-1] == f"stopped; continue with --after {lsn}"


def test_the_command_prints_whole_transactions_and_large_ones_in_pieces(private_shoal: ShoalServer) -> None:
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        set_up(connection)
        for number in range(3):
            connection.execute(f"INSERT INTO b SELECT g, 0 FROM generate_series({number}0, {number}9) g".encode())
        connection.execute("INSERT INTO a SELECT g, 0 FROM generate_series(1, 6500) g")
        lsns = [row[0] for row in connection.execute("SELECT DISTINCT lsn FROM shoal_changes('s') ORDER BY 1")]
    for words, expected in (
        (("--limit", "1"), 10),
        (("--limit", "10"), 10),
        (("--limit", "11"), 20),
        (("--limit", "31"), 6530),
        (("--after", str(lsns[1])), 6510),
        ((), 6530),
    ):
        out, error = command(private_shoal, "s", *words).communicate(timeout=60)
        found = [json.loads(line)["source"] for line in out.splitlines()]
        places = [(source["lsn"], source["ordinal"]) for source in found]
        assert (len(places), len(set(places)), places, error) == (expected, expected, sorted(places), ""), words


def test_the_command_says_what_is_wrong_in_one_line(private_shoal: ShoalServer) -> None:
    nothing, error = command(private_shoal, "nothere").communicate(timeout=60)
    assert (nothing, error) == ("", 'shoal: change stream "nothere" does not exist.\n')
