"""What fails while a statement fails: the client is never left to think that it was done."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest

import shoal
from engine.session.session import Session
from engine.storage import directories
from engine.tablespaces import NodeTablespaces


def _full(*_: Any) -> None:
    raise OSError(28, "No space left on device")


def test_a_tablespace_whose_directory_cannot_be_marked_is_not_dropped(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shoal.open(tmp_path / "data") as db:
        db.execute("CREATE TABLESPACE other LOCATION ''")
        with monkeypatch.context() as patched:
            patched.setattr(directories, "sync_directory", _full)
            with pytest.raises(shoal.OperationalError, match=r"could not mark directory .* No space left on device"):
                db.execute("DROP TABLESPACE other")
        db.execute("CREATE TABLE t (a int) TABLESPACE other")
        db.execute("INSERT INTO t VALUES (1)")
    with shoal.open(tmp_path / "data") as db:
        assert db.execute("SELECT a FROM t").fetchall() == [(1,)]
        db.execute("DROP TABLE t")
        db.execute("DROP TABLESPACE other")


@pytest.mark.parametrize("failing", ["rename", "sync_directory"])
def test_a_tablespace_whose_directory_stays_is_dropped_all_the_same(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    with shoal.open(tmp_path / "data") as db:
        db.execute("CREATE TABLESPACE other LOCATION ''")
        with monkeypatch.context() as patched:
            if failing == "rename":
                patched.setattr(directories.os, "rename", _full)
            else:
                marked = directories.sync_directory
                patched.setattr(
                    directories,
                    "sync_directory",
                    lambda path: _full() if path.endswith("tablespaces") else marked(path),
                )
            db.execute("DROP TABLESPACE other")
        assert db.execute("SELECT count(*) FROM pg_tablespace").fetchone() == (2,)
    with shoal.open(tmp_path / "data") as db:
        assert db.execute("SELECT count(*) FROM pg_tablespace").fetchone() == (2,)
    assert not list((tmp_path / "data" / "tablespaces").iterdir())


@pytest.mark.parametrize("failing", [NodeTablespaces.abandoned, Session.fail])
def test_a_rollback_that_fails_is_told(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, failing: Callable[..., None]
) -> None:
    """Without a word the statement would count as done: it is followed by ReadyForQuery all the same."""
    with shoal.open(tmp_path / "data") as db:
        db.execute("CREATE TABLESPACE other LOCATION ''")
        connection = db.connect(autocommit=True)
        with monkeypatch.context() as patched:
            patched.setattr(directories, "sync_directory", _full)
            patched.setattr(Session if failing is Session.fail else NodeTablespaces, failing.__name__, _full)
            with pytest.raises(shoal.Error):
                connection.execute("DROP TABLESPACE other")
        if failing is Session.fail:
            with pytest.raises(shoal.Error):
                connection.execute("SELECT 1")
        assert db.execute("SELECT count(*) FROM pg_tablespace").fetchone() == (3,)
