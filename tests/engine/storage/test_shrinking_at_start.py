"""A start that puts a smaller copy in the place of the tables' file has what the file had, whoever has it open."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import lmdb
import pytest

from catalog.errors import SqlError
from engine.storage import checkpoint
from engine.storage.checkpoint import Checkpoint

_HOLDER = """
import lmdb, sys
environment = lmdb.open(sys.argv[1], map_size=1 << 30, max_dbs=4)
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def tables(tmp_path: pathlib.Path) -> tuple[str, bytes]:
    """A file of which most pages are free; the tablespace's id."""
    made = Checkpoint(str(tmp_path))
    with made.environment.begin(db=made.rows, write=True) as transaction:
        for number in range(3000):
            transaction.put(b"%08d" % number, b"x" * 1000)
    with made.environment.begin(db=made.rows, write=True) as transaction:
        for number in range(2, 3000):
            transaction.delete(b"%08d" % number)
    made.close()
    return str(tmp_path), made.tablespace


@pytest.mark.parametrize("commits", [0, 1])  # which of the two roots is the newer one
def test_a_smaller_copy_is_read_beside_others(
    tables: tuple[str, bytes], commits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, identity = tables
    for _ in range(commits):
        opened = Checkpoint(path)
        opened.part_from_readers()
        opened.close()
    before = os.path.getsize(f"{path}/data.mdb")
    monkeypatch.setattr(checkpoint, "SHRINK_BYTES", 100_000)
    command = [sys.executable, "-c", _HOLDER, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        found = Checkpoint(path, lock=os.open(path, os.O_RDONLY))
        try:
            assert os.path.getsize(f"{path}/data.mdb") < before // 2
            assert found.tablespace == identity
            with found.environment.begin(db=found.rows) as transaction:
                assert [key for key, _ in transaction.cursor()] == [b"00000000", b"00000001"]
        finally:
            found.close()
            holder.communicate()


def test_a_file_without_its_tables_is_not_created_again(tmp_path: pathlib.Path) -> None:
    with lmdb.open(str(tmp_path), map_size=1 << 30, max_dbs=4):
        pass
    before = (tmp_path / "data.mdb").read_bytes()
    with pytest.raises(SqlError) as refused:
        Checkpoint(str(tmp_path))
    assert refused.value.sqlstate == "58030"
    assert (tmp_path / "data.mdb").read_bytes() == before
