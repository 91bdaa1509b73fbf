"""/metrics of real nodes, read as Prometheus reads it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import psycopg
import pytest

from shoal.admin.metrics import DURATIONS, FIRST, LAST, STEP, cumulative
from tests.cluster import ShoalCluster
from tests.oracle import free_port
from tests.shoal.admin.scrape import MonitoredServer, Scrape
from tests.shoal.admin.shipped import named_metrics
from tests.zookeeper_server import ZooKeeper

PATIENCE = 20.0  # seconds


@pytest.fixture(scope="module")
def server() -> Iterator[MonitoredServer]:
    with MonitoredServer() as running:
        yield running


@pytest.fixture
def shoal(server: MonitoredServer) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        yield connection


def _moved(before: Scrape, after: Scrape, sample: str, **labels: str) -> float:
    return after.value(sample, **labels) - before.value(sample, **labels)


def test_statements_are_counted_by_command_and_path(server: MonitoredServer, shoal: psycopg.Connection) -> None:
    shoal.execute("CREATE TABLE a (n int PRIMARY KEY, b text)")
    before = Scrape(server.admin)
    assert before.content_type.startswith("text/plain")
    for number in range(5):
        shoal.execute("INSERT INTO a VALUES (%s, 'x')", (number,))
    for number in range(7):
        shoal.execute("SELECT b FROM a WHERE n = %s", (number,))
    shoal.execute("SELECT b, count(*) FROM a GROUP BY b")
    shoal.execute("UPDATE a SET b = 'y' WHERE n < 3")
    with shoal.transaction():
        shoal.execute("DELETE FROM a WHERE n = 4")
    with shoal.cursor().copy("COPY a FROM STDIN") as copy:
        copy.write_row((100, "z"))
    shoal.execute("SET application_name = 'x'")
    after = Scrape(server.admin)
    count = "shoal_statement_seconds_count"
    assert _moved(before, after, count, command="INSERT", path="row") == 5
    assert _moved(before, after, count, command="SELECT") == 8
    assert _moved(before, after, count, command="UPDATE", path="row") == 1
    assert [_moved(before, after, count, command=name) for name in ("BEGIN", "DELETE", "COMMIT")] == [1, 1, 1]
    assert [_moved(before, after, count, command=name) for name in ("COPY", "UTILITY")] == [1, 1]
    assert _moved(before, after, "shoal_statement_seconds_bucket", command="INSERT", le="+Inf") == 5
    assert 0 < _moved(before, after, "shoal_statement_seconds_sum", command="INSERT") < 5
    changes = [_moved(before, after, "shoal_rows_total", operation=name) for name in ("insert", "update", "delete")]
    assert changes == [6, 3, 1] and _moved(before, after, "shoal_rows_total", operation="fetch") == 6
    commits = _moved(before, after, "shoal_transactions_total", database="postgres", outcome="commit")
    assert commits == 5 + 7 + 1 + 1 + 1 + 1 + 1
    assert _moved(before, after, "shoal_tablespace_lsn", tablespace="pg_default", stage="durable") == 8
    assert 1 <= _moved(before, after, "shoal_commit_seconds_count") <= 8
    assert _moved(before, after, "shoal_changelog_sync_seconds_count") >= 1


def test_errors_are_counted_by_class(server: MonitoredServer, shoal: psycopg.Connection) -> None:
    before = Scrape(server.admin)
    for sql in ("SELECT 1 / 0", "SELECT * FROM nowhere", "SELEC 1"):
        with pytest.raises(psycopg.Error):
            shoal.execute(sql)
    after = Scrape(server.admin)
    errors = {kind: _moved(before, after, "shoal_statement_errors_total", **{"class": kind}) for kind in ("22", "42")}
    assert errors == {"22": 1, "42": 2}
    assert _moved(before, after, "shoal_transactions_total", outcome="rollback") == 3


def test_sessions_locks_and_waits_are_seen(server: MonitoredServer, shoal: psycopg.Connection) -> None:
    shoal.execute("CREATE TABLE locked (n int PRIMARY KEY)")
    shoal.execute("INSERT INTO locked VALUES (1)")
    before = Scrape(server.admin)
    with psycopg.connect(server.dsn) as holder, psycopg.connect(server.dsn) as waiter:
        holder.execute("DELETE FROM locked")
        thread = threading.Thread(target=waiter.execute, args=("DELETE FROM locked",))
        thread.start()
        deadline = time.monotonic() + PATIENCE
        while not (seen := Scrape(server.admin)).value("shoal_sessions_waiting") and time.monotonic() < deadline:
            time.sleep(0.02)
        holder.commit()
        thread.join(PATIENCE)
        assert seen.value("shoal_sessions", state="idle in transaction") == 1
        assert seen.value("shoal_sessions", state="active") == 1
        assert seen.value("shoal_connections") == 3
        assert seen.value("shoal_locks", kind="row") >= 1 and seen.value("shoal_locks", kind="table") >= 1
    after = Scrape(server.admin)
    assert _moved(before, after, "shoal_lock_wait_seconds_count") >= 1
    assert _moved(before, after, "shoal_lock_wait_seconds_sum") > 0
    assert _moved(before, after, "shoal_sessions_opened_total") == 2


def test_columns_memory_and_files_are_seen(server: MonitoredServer, shoal: psycopg.Connection) -> None:
    shoal.execute("CREATE TABLE wide AS SELECT n, repeat('x', 100) b FROM generate_series(1, 2000) n")
    shoal.execute("SELECT b, count(*), sum(n) FROM wide GROUP BY b")
    shoal.execute("CHECKPOINT")
    seen = Scrape(server.admin)
    assert seen.value("shoal_columns_tables") >= 1 and seen.value("shoal_columns_worker_memory_bytes") > 1 << 20
    assert seen.value("shoal_tables_file_bytes") >= seen.value("shoal_tables_used_bytes") > 0
    assert seen.value("shoal_changelog_bytes") > 0 and seen.value("process_resident_memory_bytes") > 1 << 20
    assert seen.value("shoal_flush_seconds_count") >= 1
    assert seen.value("shoal_ready") == 1 and seen.value("shoal_info", node="local") == 1


def test_plans_memory_and_the_lag_of_columns_move(server: MonitoredServer, shoal: psycopg.Connection) -> None:
    shoal.execute("CREATE TABLE moving (n int PRIMARY KEY, b text)")
    shoal.execute("INSERT INTO moving VALUES (0, 'x')")
    shoal.execute("SELECT b, count(*) FROM moving GROUP BY b")  # the columns have the table from now on
    before = Scrape(server.admin)
    with shoal.transaction():
        for number in range(1, 201):
            shoal.execute("INSERT INTO moving VALUES (%s, repeat('y', 100))", (number,))
    after = Scrape(server.admin)
    assert _moved(before, after, "shoal_statement_seconds_count", command="INSERT", path="row") == 200
    planned = _moved(before, after, "shoal_statements_planned_total")  # what comes often is planned a few times
    assert 1 <= planned <= 10 and after.value("shoal_plan_cache_plans") >= 1
    assert _moved(before, after, "shoal_memtable_bytes", tablespace="pg_default") > 200 * 100
    lag, late = (after.value(f"shoal_columns_lag_{unit}") for unit in ("lsn", "seconds"))
    assert (lag > 0) == (late > 0)  # the worker may have been told already
    shoal.execute("SELECT b, count(*) FROM moving GROUP BY b")
    shoal.execute("CHECKPOINT")
    _until(server.admin, "shoal_columns_lag_lsn", 0)
    last = Scrape(server.admin)
    assert last.value("shoal_columns_lag_seconds") == 0
    assert last.value("shoal_memtable_bytes", tablespace="pg_default") < after.value("shoal_memtable_bytes")
    assert _moved(after, last, "shoal_flush_seconds_count") >= 1
    stages = [last.value("shoal_tablespace_lsn", stage=stage) for stage in ("sequenced", "durable", "flushed")]
    assert stages[0] >= stages[1] >= stages[2] > after.value("shoal_tablespace_lsn", stage="flushed")


def test_loads_and_saves_of_columns_are_counted(server: MonitoredServer, shoal: psycopg.Connection) -> None:
    before = Scrape(server.admin)
    shoal.execute("CREATE TABLE counted AS SELECT n, 'x' || n b FROM generate_series(1, 2000) n")
    shoal.execute("SELECT b, count(*) FROM counted GROUP BY b")
    after = Scrape(server.admin)
    assert _moved(before, after, "shoal_columns_loads_total", kind="build") == 1
    assert _moved(before, after, "shoal_columns_load_seconds_total", kind="build") > 0
    assert _moved(before, after, "shoal_columns_loads_total", kind="catch_up") == 0
    assert after.value("shoal_columns_memory_bytes") > 2000 and after.value("shoal_columns_spill_bytes") == 0
    deadline = time.monotonic() + PATIENCE
    while not _moved(after, saved := Scrape(server.admin), "shoal_columns_saves_total"):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert _moved(after, saved, "shoal_columns_save_seconds_total") > 0
    assert _moved(after, saved, "shoal_columns_save_failures_total") == 0
    assert saved.value("shoal_columns_saved_tables") >= 1 and saved.value("shoal_columns_file_bytes") > 4096


def test_every_family_says_what_it_is(server: MonitoredServer) -> None:
    seen = Scrape(server.admin)
    assert all(family.documentation and family.type != "unknown" for family in seen.families.values())


def test_buckets_are_cumulative_and_complete() -> None:
    buckets = [0] * 64
    for nanoseconds in (1, 4096, 4097, 10**6, 10**9, 2**40):
        buckets[nanoseconds.bit_length()] += 1
        buckets[0] += nanoseconds
    shown, total = cumulative(buckets)
    counts = dict(shown)
    assert len(shown) == (LAST - FIRST) // STEP + 2 and counts["+Inf"] == 6
    assert [count for _, count in shown] == sorted(count for _, count in shown)
    assert counts[repr(2**12 / 1e9)] == 1  # 4096 ns is not less than 2^12
    assert counts[repr(2**14 / 1e9)] == 3 and counts[repr(2**20 / 1e9)] == 4 and counts[repr(2**30 / 1e9)] == 5
    assert total == pytest.approx((1 + 4096 + 4097 + 10**6 + 10**9 + 2**40) / 1e9)


def test_a_follower_that_stands_still_is_seen_by_the_leader(
    zookeeper_server: ZooKeeper, server: MonitoredServer
) -> None:
    with ShoalCluster(0, zookeeper=zookeeper_server, settings={"session_timeout": 6.0}) as cluster:
        ports = {name: free_port() for name in ("n1", "n2")}
        for name, port in ports.items():
            cluster.launch(name, admin=f"127.0.0.1:{port}")
            cluster.ready(name)
        with psycopg.connect(cluster.dsn("n1"), autocommit=True) as connection:
            connection.execute("CREATE TABLE t (a int PRIMARY KEY)")
            _until(ports["n2"], "shoal_replica_lag_lsn", 0.0, replica="n2", role="follower")
            follower = Scrape(ports["n2"])
            assert follower.value("shoal_tablespace_leads", tablespace="pg_default") == 0
            assert 0 <= follower.value("shoal_replica_lag_seconds") < PATIENCE
            assert follower.value("shoal_nodes") == 2 and follower.value("shoal_zookeeper_connected") == 1
            cluster.stop("n2")
            try:
                for number in range(10):
                    connection.execute("INSERT INTO t VALUES (%s)", (number,))
                leader = Scrape(ports["n1"])
                assert leader.value("shoal_replica_lag_lsn", replica="n2", tablespace="pg_default") >= 10
            finally:
                cluster.cont("n2")
        assert leader.value("shoal_tablespace_leads", tablespace="pg_default") == 1
        assert leader.value("shoal_tablespace_replicas_expected", tablespace="pg_default") == 2
        assert leader.value("shoal_ledgers", tablespace="pg_default") >= 1
        stores = (
            "shoal_store_seconds_count",
            "shoal_changelog_put_seconds_count",
            "shoal_changelog_multi_seconds_count",
        )
        assert all(leader.value(name) > 0 for name in (*stores, "shoal_zookeeper_seconds_count"))
        _until(ports["n2"], "shoal_replica_lag_lsn", 0.0, replica="n2", role="follower")
        last = Scrape(ports["n1"])
        names = {family for family in last.families if family.startswith("shoal_")}
        assert names >= set(DURATIONS) - {"shoal_changelog_sync_seconds"}  # of a node alone
        exported = last.exported() | Scrape(ports["n2"]).exported() | Scrape(server.admin).exported()
        assert named_metrics() <= exported


def _until(port: int, sample: str, value: float, **labels: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        seen = Scrape(port)
        if seen.value(sample, **labels) == value and any(
            labels.items() <= found.labels.items() for found in seen.families[sample].samples
        ):
            return
        assert time.monotonic() < deadline, seen.text
        time.sleep(0.1)
