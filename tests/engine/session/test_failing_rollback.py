"""What fails while a statement fails: the client is never left to think that it was done."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

import shoal
from engine.node.node import Node
from engine.node.tablespaces import NodeTablespaces
from engine.session.transactions import TransactionControl
from engine.storage import directories
from engine.txn.transaction import Transaction


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


def test_an_error_that_cannot_be_told_ends_the_connection(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a word the statement would count as done: it is followed by ReadyForQuery all the same."""
    with shoal.open(tmp_path / "data") as db:
        db.execute("CREATE TABLESPACE other LOCATION ''")
        connection = db.connect(autocommit=True)
        with monkeypatch.context() as patched:
            patched.setattr(directories, "sync_directory", _full)
            patched.setattr(TransactionControl, "fail", _full)
            with pytest.raises(shoal.Error):
                connection.execute("DROP TABLESPACE other")
        with pytest.raises(shoal.Error):
            connection.execute("SELECT 1")
        assert db.execute("SELECT count(*) FROM pg_tablespace").fetchone() == (3,)


@pytest.mark.parametrize(
    ("part", "name"),
    [(NodeTablespaces, "on_abandoned"), (Transaction, "abort"), (Transaction, "rollback_to_savepoint")],
)
def test_a_rollback_that_fails_stops_the_node(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, part: type, name: str
) -> None:
    """What is half undone may hold locks for nobody. The next start knows only what was committed."""
    db = shoal.open(tmp_path / "data")
    db.execute("CREATE TABLE t (a int PRIMARY KEY)")
    connection = db.connect(autocommit=True)
    connection.execute("BEGIN")
    connection.execute("CREATE TABLE u (a int)")
    connection.execute("INSERT INTO t VALUES (1)")
    if name == "rollback_to_savepoint":
        connection.execute("SAVEPOINT s")
    with monkeypatch.context() as patched:
        patched.setattr(part, name, _full)
        with pytest.raises(shoal.Error):
            connection.execute("SELECT 1 / 0")
        with pytest.raises(shoal.Error):
            db.execute("SELECT 1")
    db.close()
    with shoal.open(tmp_path / "data") as db:
        assert db.execute("SELECT count(*) FROM t").fetchone() == (0,)


@pytest.mark.parametrize(("part", "name"), [(Transaction, "release"), (Node, "publish_when_durable")])
def test_nothing_that_is_sequenced_is_called_failed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, part: type, name: str
) -> None:
    """What fails behind the sequencing of a commit stops the node: its end tells nobody anything, or an error that
    leaves the outcome open."""
    db = shoal.open(tmp_path / "data")
    db.execute("CREATE TABLE t (a int PRIMARY KEY)")
    change = "INSERT INTO t VALUES (1)" if name == "release" else "CREATE TABLE u (a int)"
    with monkeypatch.context() as patched:
        patched.setattr(part, name, _full)
        with pytest.raises(shoal.Error):
            db.execute(change)
        with pytest.raises(shoal.Error):
            db.execute("SELECT 1")
    db.close()
    with shoal.open(tmp_path / "data") as db:
        found = db.execute("SELECT count(*) FROM pg_class WHERE relname = 'u'").fetchone()
        assert (db.execute("SELECT count(*) FROM t").fetchone(), found) in (((1,), (0,)), ((0,), (1,)))
