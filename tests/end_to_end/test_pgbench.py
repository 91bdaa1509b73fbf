"""pgbench as it comes: the balances agree whatever happens, and analytic queries see committed states only."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.samples import some
from tests.server import ShoalServer

SUMS = """SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(tbalance) FROM pgbench_tellers),
                 (SELECT sum(bbalance) FROM pgbench_branches), (SELECT coalesce(sum(delta), 0) FROM pgbench_history)"""
SUMS_JOINED = """SELECT a.s, t.s, b.s, h.s
    FROM (SELECT sum(abalance) AS s FROM pgbench_accounts) a, (SELECT sum(tbalance) AS s FROM pgbench_tellers) t,
         (SELECT sum(bbalance) AS s FROM pgbench_branches) b,
         (SELECT coalesce(sum(delta), 0) AS s FROM pgbench_history) h"""


def environment(server: ShoalServer) -> dict[str, str]:
    settings = {"PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGUSER": "postgres", "PGDATABASE": "postgres"}
    return {**os.environ, **settings}


def pgbench(server: ShoalServer, *options: str) -> str:
    """Runs pgbench to its end; what it printed."""
    done = subprocess.run(
        ["pgbench", "-n", *options], env=environment(server), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr, done.stderr
    return done.stdout


def transactions(output: str) -> int:
    assert re.search(r"number of failed transactions: 0 ", output), output
    found = re.search(r"number of transactions actually processed: (\d+)", output)
    assert found
    return int(found[1])


def sums(server: ShoalServer, query: str = SUMS) -> list[int]:
    with psycopg.connect(server.dsn) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return [int(value) for value in row]


def agree(found: list[int]) -> bool:
    return len(set(found)) == 1


@pytest.fixture(scope="module")
def loaded() -> Iterator[ShoalServer]:
    """A server with pgbench's tables at scale 1."""
    with ShoalServer() as server:
        pgbench(server, "-i", "-q", "-s", "1")
        yield server


def test_the_load_is_complete(loaded: ShoalServer) -> None:
    with psycopg.connect(loaded.dsn) as connection:
        for table, rows in (("accounts", 100_000), ("tellers", 10), ("branches", 1), ("history", 0)):
            assert connection.execute(f"SELECT count(*) FROM pgbench_{table}".encode()).fetchone() == (rows,)
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("INSERT INTO pgbench_accounts VALUES (77, 1, 0, '')")


@pytest.mark.parametrize("mode", some(["extended", "simple", "prepared"], 2))
def test_tpc_b_keeps_the_balances(loaded: ShoalServer, mode: str) -> None:
    with psycopg.connect(loaded.dsn) as connection:
        before = connection.execute("SELECT count(*) FROM pgbench_history").fetchone()
    assert before is not None
    done = transactions(pgbench(loaded, "-c", "8", "-j", "2", "-T", "3", "-M", mode))
    assert done > 0
    assert agree(sums(loaded)) and agree(sums(loaded, SUMS_JOINED))
    with psycopg.connect(loaded.dsn) as connection:
        assert connection.execute("SELECT count(*) FROM pgbench_history").fetchone() == (before[0] + done,)


@pytest.mark.parametrize("mode", some(["simple", "extended", "prepared"], 2))
def test_select_only(loaded: ShoalServer, mode: str) -> None:
    assert transactions(pgbench(loaded, "-S", "-c", "8", "-j", "2", "-T", "2", "-M", mode)) > 1000


def test_simple_update_and_foreign_keys() -> None:
    with ShoalServer() as server:
        pgbench(server, "-i", "-q", "-s", "1", "--foreign-keys", "-I", "dtgvpf")
        transactions(pgbench(server, "-N", "-c", "4", "-T", "2"))
        transactions(pgbench(server, "-c", "4", "-T", "2"))
        found = sums(server)
        assert found[0] == found[3]  # -N leaves tellers and branches alone
        with psycopg.connect(server.dsn) as connection, pytest.raises(psycopg.errors.ForeignKeyViolation):
            connection.execute("DELETE FROM pgbench_branches")


class Writers:
    """pgbench in the background, until `stop`."""

    def __init__(self, server: ShoalServer, *options: str) -> None:
        command = ["pgbench", "-n", "-c", "4", "-j", "2", "-T", "600", *options]
        self.process = subprocess.Popen(
            command, env=environment(server), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Writers:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=30)


@pytest.mark.parametrize("query", some([SUMS_JOINED, SUMS], 2))
def test_an_analytic_query_beside_writers_sees_a_committed_state(loaded: ShoalServer, query: str) -> None:
    seen = set()
    with Writers(loaded, "-M", "prepared") as writers, psycopg.connect(loaded.dsn, autocommit=True) as connection:
        deadline = time.monotonic() + 60
        for _ in range(40):
            row = connection.execute(query.encode()).fetchone()
            assert row is not None and len(set(row)) == 1, row
            seen.add(row)
            if time.monotonic() > deadline:
                break
        assert writers.process.poll() is None, writers.process.communicate()
    assert len(seen) > 10


def test_repeatable_read_sees_one_state_on_both_paths(loaded: ShoalServer) -> None:
    with Writers(loaded), psycopg.connect(loaded.dsn) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        for _ in range(10):
            total = connection.execute("SELECT sum(tbalance) FROM pgbench_tellers").fetchone()
            assert connection.execute("SELECT sum(abalance) FROM pgbench_accounts").fetchone() == total
            one = [connection.execute(f"SELECT tbalance FROM pgbench_tellers WHERE tid = {tid}".encode()).fetchone()
                   for tid in range(1, 11)]  # fmt: skip
            assert sum(row[0] for row in one if row is not None) == (total or (None,))[0]
            connection.commit()


def acknowledged(server: ShoalServer, stop: threading.Event, sink: list[int], base: int) -> Callable[[], None]:
    """A client that inserts and notes what was acknowledged, until the server is gone."""

    def run() -> None:
        try:
            with psycopg.connect(server.dsn, autocommit=True) as connection:
                for number in range(base, base + 1_000_000):
                    if stop.is_set():
                        return
                    connection.execute("INSERT INTO acknowledged VALUES (%s)", (number,))
                    sink.append(number)
        except psycopg.OperationalError:
            return

    return run


def test_kill_in_the_middle_of_a_run_loses_nothing_acknowledged() -> None:
    with ShoalServer() as server:
        pgbench(server, "-i", "-q", "-s", "1")
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE acknowledged (n int PRIMARY KEY)")
        for round_ in range(3):
            stop = threading.Event()
            noted: list[int] = []
            client = threading.Thread(target=acknowledged(server, stop, noted, round_ * 1_000_000))
            with Writers(server):
                client.start()
                time.sleep(1.0)
                server.kill()
            stop.set()
            client.join(30)
            server.start()
            assert agree(sums(server)), round_
            assert agree(sums(server, SUMS_JOINED)), round_
            with psycopg.connect(server.dsn) as connection:
                rows = connection.execute("SELECT n FROM acknowledged WHERE n >= %s", (round_ * 1_000_000,)).fetchall()
            assert noted
            assert set(noted) <= {row[0] for row in rows}
            assert len(rows) <= len(noted) + 1  # the one under way may have been made durable
            transactions(pgbench(server, "-c", "2", "-t", "20"))
        assert agree(sums(server))


def run_script(server: ShoalServer, path: Any, *options: str) -> str:
    return pgbench(server, "-f", str(path), *options)


def test_contended_counters_lose_no_update(shoal: ShoalServer, tmp_path: Any) -> None:
    """Eight clients on one row: READ COMMITTED re-evaluates after each wait, so every increment counts."""
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE counters (id int PRIMARY KEY, n int)")
        connection.execute("INSERT INTO counters VALUES (1, 0)")
        script = tmp_path / "increment.sql"
        script.write_text("UPDATE counters SET n = n + 1 WHERE id = 1;\n")
        done = transactions(run_script(shoal, script, "-c", "8", "-j", "2", "-t", "100", "-M", "prepared"))
        assert connection.execute("SELECT n FROM counters").fetchone() == (done,) == (800,)
        script.write_text("BEGIN;\nUPDATE counters SET n = n + 1 WHERE id = 1;\nSELECT 1;\nCOMMIT;\n")
        done += transactions(run_script(shoal, script, "-c", "8", "-j", "2", "-t", "50"))
        assert connection.execute("SELECT n FROM counters").fetchone() == (done,)
        connection.execute("DROP TABLE counters")
