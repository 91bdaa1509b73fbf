"""What lies on disk is for the user whose process it is: directories 0700, files 0600, whatever the umask."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.server import ShoalServer


def open_to_others(top: Path) -> list[str]:
    """What others may read, enter or write below a directory, itself included."""
    return [str(path) for path in (top, *top.rglob("*")) if path.stat().st_mode & 0o077]


@pytest.fixture(autouse=True)
def wide() -> object:
    """As most users have it."""
    before = os.umask(0o022)
    yield
    os.umask(before)


class OpenServer(ShoalServer):
    """With the umask of most users, wherever the tests run."""

    def command(self) -> list[str]:
        return ["sh", "-c", 'umask 022; exec "$@"', "sh", *super().command(), "--history-retention", "3600"]


def test_what_a_server_makes_is_its_own(tmp_path: Path) -> None:
    backup, restored = tmp_path / "backup", tmp_path / "restored"
    with OpenServer(tmp_path / "data") as server, psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, n int)")
        connection.execute("INSERT INTO t SELECT n, n FROM generate_series(1, 20000) n")
        connection.execute("CHECKPOINT")
        connection.execute("SELECT sum(n) FROM t")
        connection.execute("CREATE TABLESPACE other LOCATION ''")
        connection.execute("SELECT shoal_backup(%s)", (f"file://{backup}",))
        assert open_to_others(tmp_path / "data") == []
        assert open_to_others(backup) == []
    command = ["sh", "-c", 'umask 022; exec "$@"', "sh", sys.executable, "-m", "shoal", "restore", f"file://{backup}"]
    subprocess.run([*command, "--data", str(restored)], check=True, timeout=120, capture_output=True)
    assert restored.stat().st_mode & 0o777 == 0o700


def test_what_a_program_opens_is_its_user_s(tmp_path: Path) -> None:
    code = f"import os, shoal\nos.umask(0o022)\nshoal.open({str(tmp_path / 'd')!r}).close()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    assert (tmp_path / "d").stat().st_mode & 0o777 == 0o700
