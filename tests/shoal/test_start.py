"""What a server has in memory before anybody asks it for anything, and what it says when it is ready."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import psutil  # type: ignore[import-untyped]
import psycopg

from tests import forks
from tests.server import ShoalServer

WAIT = 60  # seconds; a loaded machine


@contextmanager
def started(log: pathlib.Path, *arguments: str, **environment: str) -> Iterator[dict[str, str]]:
    """`shoal ...`, until the block ends; what its first line says."""
    with log.open("w") as stderr:
        process = forks.start(
            [sys.executable, "-m", "shoal", *arguments], stderr=stderr, environment={**os.environ, **environment}
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, log.read_text()
        yield json.loads(line)
        process.terminate()
        assert process.wait(WAIT) == 0
        assert process.stdout.read() == ""
    finally:
        process.kill()


def test_a_server_begins_without_libraries_that_it_may_never_need() -> None:
    """pandas comes with the first array that Arrow makes of Python's objects, where it is installed: 37 MB."""
    code = "import sys, shoal.serve\nprint([name for name in ('pandas', 'duckdb', 'pyspark') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_neither_a_server_nor_its_worker_imports_pandas() -> None:
    """pyarrow would, with the first array that it makes of Python's objects."""
    assert importlib.util.find_spec("pandas")
    with ShoalServer() as server, psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE loaded (id int PRIMARY KEY, t text)")
        with connection.cursor().copy("COPY loaded FROM STDIN") as copy:
            for number in range(20000):
                copy.write_row((number, "text"))
        connection.execute("SET shoal.path = columnar")
        assert connection.execute("SELECT max(upper(t) || 'a') FROM loaded WHERE t ~ 'e'").fetchone() == ("TEXTa",)
        processes = [server.pid, *(child.pid for child in psutil.Process(server.pid).children(recursive=True))]
        maps = [pathlib.Path(f"/proc/{pid}/maps").read_text() for pid in processes]
    assert len(maps) > 1 and not any("/pandas/" in lines for lines in maps)


def test_a_server_tells_programs_where_it_is(tmp_path: pathlib.Path) -> None:
    place = ["--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    with started(tmp_path / "log", "serve", *place, "--json") as told:
        assert set(told) == {"ready", "administration"}
        with psycopg.connect(told["ready"]) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        with urllib.request.urlopen(f"{told['administration']}/readyz", timeout=WAIT) as answer:
            assert json.loads(answer.read())["ready"] is True
    with started(tmp_path / "log", "serve", *place[:4], "--json") as told:
        assert told["administration"] is None


def test_a_log_store_tells_programs_where_it_is_and_logs_in_json(tmp_path: pathlib.Path) -> None:
    place = ["--data", str(tmp_path / "data"), "--listen", "0.0.0.0:0", "--json", "--log-format", "json"]
    secret = {"SHOAL_STORE_SECRET": "s" * 40, "SHOAL_STORE_PLAINTEXT": "allow"}
    with started(tmp_path / "log", "logstore", *place, **secret) as told:
        assert told["ready"].startswith("log://0.0.0.0:")
    (line,) = (tmp_path / "log").read_text().splitlines()
    logged = json.loads(line)
    assert (logged["logger"], logged["level"]) == ("shoal.logstore", "warning")
