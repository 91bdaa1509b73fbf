"""The tables of a new tablespace are there whole or not at all, whenever their making ends."""

from __future__ import annotations

import pathlib
from contextlib import closing

import pytest

from catalog.errors import SqlError
from engine.storage.checkpoint import Checkpoint

IDENTITY = b"i" * 16


@pytest.mark.parametrize("size", [0, 1, 4096, 5000])
def test_half_a_file_is_written_again(tmp_path: pathlib.Path, size: int) -> None:
    """LMDB writes the first two pages at once, and refuses to open one of them."""
    apart = tmp_path / "rows" / "making"
    apart.mkdir(parents=True)
    (apart / "data.mdb").write_bytes(bytes(size))
    with closing(Checkpoint(str(tmp_path / "rows"), IDENTITY).environment) as environment:
        assert environment.info()["last_txnid"]
    assert not apart.exists()
    apart.mkdir()  # the process ended right behind the renaming
    again = Checkpoint(str(tmp_path / "rows"))
    assert again.tablespace == IDENTITY
    assert not apart.exists()
    again.environment.close()


def test_what_fails_while_it_is_made_leaves_nothing_to_open(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Checkpoint, identity: bytes | None) -> None:
        self.environment.close()
        raise SqlError("58030", "the disk is full")

    with monkeypatch.context() as patched, pytest.raises(SqlError, match="the disk is full"):
        patched.setattr(Checkpoint, "_open_databases", fails)
        Checkpoint(str(tmp_path), IDENTITY)
    assert not (tmp_path / "data.mdb").exists()
    made = Checkpoint(str(tmp_path), IDENTITY)
    assert made.tablespace == IDENTITY
    made.environment.close()
