"""Spark in processes of its own: a driver that is killed leaves nothing, and nobody is shown a password."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import psycopg
import pytest

from tests.server import ROOT, ShoalServer
from tests.spark.session_apart import PAGES, PASSWORD

pytestmark = pytest.mark.long

PATIENCE = 240.0  # seconds; a Java machine starts beside others


def begin(what: str, server: ShoalServer, folder: pathlib.Path) -> subprocess.Popen[bytes]:
    """Python, Java and Python's workers are a process group of their own."""
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "tests.spark.session_apart", what, str(server.port), str(folder)]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(words, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True)


def staged(server: ShoalServer) -> int:
    """How many files without a name, with rows in them, the server keeps open."""
    found = 0
    for link in pathlib.Path(f"/proc/{server.pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            place = os.readlink(link)
            if place.startswith(str(server.data)) and place.endswith("(deleted)"):
                found += os.stat(link).st_size > 0
    return found


def test_a_driver_that_is_killed_leaves_neither_rows_nor_a_stage(
    private_shoal: ShoalServer, tmp_path: pathlib.Path
) -> None:
    before = staged(private_shoal)
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE killed (id bigint)")
        connection.execute("INSERT INTO killed VALUES (-1)")
        job = begin("write", private_shoal, tmp_path)
        try:
            deadline = time.monotonic() + PATIENCE
            while staged(private_shoal) == before:
                assert job.poll() is None and time.monotonic() < deadline, (tmp_path / "log").read_text()
                time.sleep(0.05)
        finally:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
        while staged(private_shoal) > before:  # stageTimeout is two seconds
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert connection.execute("SELECT * FROM killed").fetchall() == [(-1,)]
        tokens = [connection.execute("SELECT shoal_stage()").fetchone() for _ in range(64)]
        assert all(tokens), "as many stages as a role may have: the job's is gone"
        for token in tokens:
            assert token is not None
            connection.execute("SELECT shoal_drop_stage(%s)", token)


def test_passwords_are_neither_in_the_ui_nor_in_logs(private_shoal: ShoalServer, tmp_path: pathlib.Path) -> None:
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        for statement in (
            "CREATE TABLE shown (id bigint PRIMARY KEY)",
            "CREATE CHANGE STREAM s FOR TABLE shown",
            "INSERT INTO shown SELECT g FROM generate_series(1, 10) g",
            "CREATE TABLE by_shoal (id bigint)",
            "CREATE TABLE by_jdbc (id bigint)",
            "CREATE TABLE streamed (lsn bigint)",
        ):
            connection.execute(statement)
        job = begin("show", private_shoal, tmp_path)
        try:
            job.wait(PATIENCE)
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()
        log = (tmp_path / "log").read_text()
        assert job.returncode == 0, log
        assert connection.execute("SELECT count(*) FROM streamed").fetchone() == (10,)
    told = json.loads((tmp_path / "told.json").read_text())
    assert set(PAGES) < set(told)
    assert "BatchScan shoal" in told["sql?details=true&planDescription=true"]
    assert "Scan JDBC" in told["sql?details=true&planDescription=true"]
    for page, text in told.items():
        assert PASSWORD not in text, f"{page}: {text[max(text.index(PASSWORD) - 300, 0) :][:600]}"
    lines = [line for line in log.splitlines() if PASSWORD in line]
    assert not lines, lines[0][:600]
    assert PASSWORD not in private_shoal.log.read_text()
