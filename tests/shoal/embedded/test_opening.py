"""What a path may be, a second opening of it in one process, and what the objects say of themselves."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import shoal


def test_memory_is_a_database_that_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with shoal.open(":memory:") as one, shoal.open(":memory:") as other:
        one.execute("CREATE TABLE t (a int)")
        other.execute("CREATE TABLE t (b int)")  # another one
        place = one.path
        assert place.is_dir() and repr(one) == "<shoal.Database ':memory:'>"
    assert not place.exists() and os.listdir(tmp_path) == []


def test_a_connection_to_memory_ends_its_database() -> None:
    connection = shoal.connect(":memory:")
    assert connection.execute("SELECT 1").fetchone() == (1,)
    (database,) = [item for item in shoal.embedded.database._open if item._temporary]
    connection.close()
    assert not database.path.exists()


@pytest.mark.parametrize("way", ["the same", "relative", "a link", "Path"])
def test_a_directory_is_open_once_in_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "d")
    path: str | Path = {"the same": str(tmp_path / "d"), "relative": "./d", "a link": "link", "Path": tmp_path / "d"}[
        way
    ]
    with shoal.open(tmp_path / "d") as db:
        with pytest.raises(shoal.OperationalError, match="is already open in this process"):
            shoal.open(path)
        with shoal.connect(path) as connection:
            connection.execute("CREATE TABLE t (a int)")
        assert db.execute("SELECT count(*) FROM t").fetchone() == (0,)
    with shoal.open(path) as again:
        assert again.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_objects_say_what_they_are(tmp_path: Path) -> None:
    with shoal.open(tmp_path / "d") as db:
        assert repr(db) == f"<shoal.Database '{tmp_path / 'd'}'>"
        connection = db.connect()
        cursor = connection.cursor()
        assert repr(cursor) == "<shoal.Cursor, nothing executed>"
        assert repr(cursor.execute("CREATE TABLE t (a int, t text)")) == "<shoal.Cursor, CREATE TABLE>"
        assert repr(connection) == "<shoal.Connection to 'postgres' as 'postgres', in transaction>"
        cursor.execute("SELECT 1 AS a, NULL AS nothing, E'two\\nlines' AS t UNION ALL SELECT 20, 'x', repeat('y', 100)")
        assert repr(cursor) == (
            "a  | nothing | t\n"
            "---+---------+-----------------------------------------\n"
            "1  | NULL    | two\\nlines\n"
            f"20 | x       | {'y' * 39}…\n"
            "(2 rows)"
        )
        assert len(cursor.fetchall()) == 2  # to look at it has taken nothing
        assert repr(cursor.execute("SELECT n FROM generate_series(1, 100) n")).splitlines()[-2:] == [
            "20", "(100 rows, 20 of them shown)"
        ]  # fmt: skip
        cursor.close()
        connection.close()
        assert repr(cursor) == "<shoal.Cursor, closed>"
        assert repr(connection) == "<shoal.Connection to 'postgres' as 'postgres', closed>"
    assert repr(db) == f"<shoal.Database '{tmp_path / 'd'}', closed>"
