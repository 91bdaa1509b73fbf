"""Starting and stopping: one clear line for what is wrong, nothing lost by any way of ending."""

from __future__ import annotations

import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

import lmdb
import psycopg
import pytest

from engine.storage.checkpoint import FORMAT
from tests.oracle import free_port
from tests.server import ROOT, ShoalServer, gone


def serve(*arguments: str, within: float = 30.0) -> subprocess.CompletedProcess[str]:
    """Runs `shoal serve` that is expected to end by itself."""
    command = [sys.executable, "-m", "shoal", "serve", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=within, check=False)


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    """The one line on standard error of a start that failed."""
    assert done.returncode != 0
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("shoal: ")
    return lines[0]


def meta(data: pathlib.Path, name: bytes, value: bytes) -> bytes:
    """Changes a field of the directory's own record; what it was."""
    with lmdb.open(str(data / "rows"), max_dbs=8) as environment:
        table = environment.open_db(b"meta")
        with environment.begin(write=True, db=table) as transaction:
            before = transaction.get(name)
            assert before is not None
            transaction.put(name, value)
            return before


def test_a_directory_serves_one_server(shoal: ShoalServer) -> None:
    line = complaint(serve("--data", str(shoal.data), "--listen", f"127.0.0.1:{free_port()}"))
    assert line.startswith(f'shoal: directory "{shoal.data}" is in use by another process. Stop process {shoal.pid}, ')
    with psycopg.connect(shoal.dsn) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_busy_port(tmp_path: pathlib.Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = complaint(serve("--data", str(tmp_path / "data"), "--listen", f"127.0.0.1:{port}"))
    assert line == (f"shoal: cannot listen on 127.0.0.1:{port}: Address already in use; choose another with --listen")


def test_addresses_that_would_need_a_password_rule(tmp_path: pathlib.Path) -> None:
    line = complaint(serve("--data", str(tmp_path / "data"), "--listen", f"0.0.0.0:{free_port()}"))
    assert line.startswith("shoal: refusing to listen on 0.0.0.0")
    assert "HOST:PORT" in complaint(serve("--data", str(tmp_path / "data"), "--listen", "5432"))


def test_a_directory_of_a_newer_release_is_left_alone(tmp_path: pathlib.Path) -> None:
    with ShoalServer(tmp_path / "data"):
        pass
    newer = (FORMAT + 98).to_bytes(4, "little")
    assert meta(tmp_path / "data", b"format", newer) == FORMAT.to_bytes(4, "little")
    line = complaint(serve("--data", str(tmp_path / "data"), "--listen", f"127.0.0.1:{free_port()}"))
    assert line.endswith(f"has format {FORMAT + 98}, this release reads up to {FORMAT}")
    assert meta(tmp_path / "data", b"format", newer) == newer


def test_a_directory_that_cannot_be_made(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    line = complaint(serve("--data", str(tmp_path / "file" / "data"), "--listen", f"127.0.0.1:{free_port()}"))
    assert "file" in line


def test_bad_configuration_files(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "shoal.toml"
    assert "cannot read" in complaint(serve("--config", str(path)))
    path.write_text("listen = 5432\n")
    assert "listen must be of type str" in complaint(serve("--config", str(path)))
    path.write_text('listens = "127.0.0.1:1"\n')
    assert 'unknown setting "listens"' in complaint(serve("--config", str(path)))
    path.write_text("listen = \n")
    assert str(path) in complaint(serve("--config", str(path)))


def test_help_and_version() -> None:
    done = serve("--help")
    assert done.returncode == 0 and "--listen HOST:PORT" in done.stdout
    command = [sys.executable, "-m", "shoal", "--version"]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.startswith("shoal ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_flushes_and_ends_everything(private_shoal: ShoalServer, number: signal.Signals) -> None:
    server = private_shoal
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (a int PRIMARY KEY, s serial)")
        connection.execute("INSERT INTO t SELECT g FROM generate_series(1, 5000) g")
        connection.execute("SELECT a, count(*) FROM t GROUP BY ROLLUP (a)").fetchall()
        worker = server.workers()
        assert worker
        os.kill(server.pid, number)
        assert server.process is not None
        assert server.process.wait(30) == 0
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    assert all(gone(pid) for pid in worker)
    with lmdb.open(str(server.data / "rows"), max_dbs=8) as environment, environment.begin() as transaction:
        assert transaction.stat(environment.open_db(b"rows", transaction))["entries"] > 5000
    server.start()
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        assert connection.execute("SELECT count(*), max(s) FROM t").fetchone() == (5000, 5000)
        assert connection.execute("INSERT INTO t VALUES (6000) RETURNING s").fetchone() == (5001,)


def test_a_stop_lets_a_running_statement_finish(private_shoal: ShoalServer) -> None:
    server = private_shoal
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (a int)")
        running = threading.Thread(
            target=connection.execute, args=("INSERT INTO t SELECT g FROM generate_series(1, 300000) g",)
        )
        running.start()
        time.sleep(0.1)
        assert server.stop() == 0
        running.join()
    server.start()
    with psycopg.connect(server.dsn) as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (300_000,)


def test_a_kill_loses_nothing_and_ends_the_worker(private_shoal: ShoalServer) -> None:
    server = private_shoal
    for round_ in range(3):
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS t (a int PRIMARY KEY, b text)")
            with connection.cursor() as cursor:
                cursor.executemany(
                    "INSERT INTO t VALUES (%s, %s)", [(round_ * 100 + number, "x") for number in range(100)]
                )
            connection.execute("UPDATE t SET b = 'y' WHERE a = %s", (round_ * 100,))
            connection.execute("DELETE FROM t WHERE a = %s", (round_ * 100 + 1,))
            connection.execute(f"CREATE INDEX i{round_} ON t (b)".encode())
            connection.execute("SELECT b, count(*) FROM t GROUP BY ROLLUP (b)").fetchall()
            worker = server.workers()
            server.kill()
        assert all(gone(pid) for pid in worker)
        server.start()
        with psycopg.connect(server.dsn) as connection:
            assert connection.execute("SELECT count(*) FROM t").fetchone() == (99 * (round_ + 1),)
            assert connection.execute("SELECT count(*) FROM t WHERE b = 'y'").fetchone() == (round_ + 1,)


def test_the_worker_may_die(private_shoal: ShoalServer) -> None:
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (a int PRIMARY KEY)")
        connection.execute("INSERT INTO t VALUES (1), (2), (3)")
        query = "SELECT a, count(*) FROM t GROUP BY ROLLUP (a) ORDER BY a"
        expected = connection.execute(query).fetchall()
        for pid in private_shoal.workers():
            os.kill(pid, signal.SIGKILL)
            assert gone(pid)
        assert connection.execute("SELECT a FROM t WHERE a = 2").fetchone() == (2,)
        deadline = time.monotonic() + 20
        while True:
            try:
                assert connection.execute(query).fetchall() == expected
                break
            except psycopg.OperationalError:
                assert time.monotonic() < deadline
                assert not connection.broken


def test_a_relative_data_directory(tmp_path: pathlib.Path) -> None:
    """As `make serve` has it. The analytic worker works elsewhere, and reads the flushed tables all the same."""
    with ShoalServer(pathlib.Path(os.path.relpath(tmp_path / "data", ROOT))) as server:
        with psycopg.connect(server.dsn, autocommit=True) as client:
            client.execute("CREATE TABLE t AS SELECT n, n % 7 AS m FROM generate_series(1, 20000) AS n")
            client.execute("CHECKPOINT")
        server.restart()
        with psycopg.connect(server.dsn) as client:
            assert client.execute("SELECT sum(n), count(DISTINCT m) FROM t").fetchone() == (200010000, 7)
            assert client.execute("SELECT count(*) FROM t AS a JOIN t AS b ON a.n = b.n + 1").fetchone() == (19999,)
