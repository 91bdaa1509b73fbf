"""`shoal pipeline compact`: fewer and larger objects in a store of backups, which are as whole as before."""

from __future__ import annotations

import argparse
import asyncio
import json
import pathlib

import psycopg
import pytest

from catalog.errors import SqlError
from replication.stores import open_store
from shoal.archive import compaction
from shoal.archive.contents import ArchivedTablespace, read_contents
from shoal.archive.layout import PieceName
from shoal.commands import compact
from tests import forks
from tests.server import ShoalServer

BACKUPS = 5


@pytest.fixture
def backups(private_shoal: ShoalServer, tmp_path: pathlib.Path) -> pathlib.Path:
    """A directory with backups between which rows came one by one, and at once."""
    place = tmp_path / "backups"
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept (id int PRIMARY KEY, t text)")
        for number in range(BACKUPS):
            for item in range(20):
                connection.execute("INSERT INTO kept VALUES (%s, 'one')", (number * 10_000 + item,))
            connection.execute(
                "INSERT INTO kept SELECT %s + i, 'bulk' FROM generate_series(100, 9000) i", (number * 10_000,)
            )
            connection.execute("DELETE FROM kept WHERE id %% 3 = 1 AND id < %s", (number * 10_000,))
            connection.execute("SELECT shoal_backup(%s)", (f"file://{place}",))
    return place


def _run(place: pathlib.Path, *, keep: int | None = None, master: str | None = None) -> int:
    options = argparse.Namespace(store=str(place), keep=keep, master=master, conf=[], verbose=False, json=False)
    return compact.run(options)


def _shoal(*arguments: str) -> str:
    done = forks.run(*arguments, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _look(place: pathlib.Path) -> tuple[list[PieceName], list[int], int]:
    """Pieces of pg_default's changelog, its checkpoints, backups."""

    async def run() -> tuple[list[PieceName], list[int], int]:
        store = open_store(f"file://{place}")
        try:
            found = await read_contents(store)
            space = ArchivedTablespace(store, found.records[-1].spaces[0].tablespace)
            return await space.pieces(), await space.checkpoints(), len(found.records)
        finally:
            await store.close()

    return asyncio.run(run())


def _rows_at(place: pathlib.Path, lsn: int, data: pathlib.Path) -> str:
    _shoal("restore", str(place), "--data", str(data), "--to-lsn", str(lsn))
    return _shoal("sql", "--data", str(data), "--json", "SELECT count(*) AS n, sum(id) AS s FROM kept")


def test_pieces_become_one_and_every_lsn_is_what_it_was(backups: pathlib.Path, tmp_path: pathlib.Path) -> None:
    pieces, checkpoints, _ = _look(backups)
    assert len(pieces) >= BACKUPS - 1
    middle = (checkpoints[1] + checkpoints[2]) // 2
    before = _rows_at(backups, middle, tmp_path / "before")
    assert _run(backups) == 0
    merged, same, number = _look(backups)
    assert (merged, same, number) == ([PieceName(pieces[0].first, pieces[-1].last)], checkpoints, BACKUPS)
    _shoal("verify", str(backups))
    assert _rows_at(backups, middle, tmp_path / "after") == before
    assert _run(backups) == 0  # nothing to do
    assert _look(backups)[0] == merged


def test_retired_backups_take_what_only_they_need(
    backups: pathlib.Path, private_shoal: ShoalServer, tmp_path: pathlib.Path
) -> None:
    """And the next backup goes on from what stays."""
    _, checkpoints, _ = _look(backups)
    middle = checkpoints[-2] + 1
    before = _rows_at(backups, middle, tmp_path / "before")
    size = sum(file.stat().st_size for file in backups.rglob("*") if file.is_file())
    assert _run(backups, keep=2) == 0
    pieces, left, number = _look(backups)
    assert (left, number) == (checkpoints[-2:], 2) and pieces[-1].last >= checkpoints[-1]
    assert sum(file.stat().st_size for file in backups.rglob("*") if file.is_file()) < size
    assert json.loads(_shoal("verify", str(backups), "--json"))["whole"]
    assert _rows_at(backups, middle, tmp_path / "after") == before
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        connection.execute("DELETE FROM kept WHERE id < 100")
        connection.execute("SELECT shoal_backup(%s)", (f"file://{backups}",))
    assert json.loads(_shoal("verify", str(backups), "--json"))["whole"]


def test_an_interrupted_merge_loses_nothing(backups: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces, _, _ = _look(backups)

    async def broken(*_: object) -> None:
        raise SqlError("58000", "broken off")

    with monkeypatch.context() as patch:
        patch.setattr(compaction, "drop_originals", broken)
        with pytest.raises(SqlError, match="broken off"):
            _run(backups)
    assert len(_look(backups)[0]) == len(pieces) + 1
    _shoal("verify", str(backups))
    assert _run(backups) == 0
    assert len(_look(backups)[0]) == 1
    _shoal("verify", str(backups))


def test_damage_is_found_before_anything_goes(backups: pathlib.Path) -> None:
    log = sorted(backups.glob("*/log/*"))
    data = bytearray(log[1].read_bytes())
    data[len(data) // 2] ^= 1
    log[1].write_bytes(data)
    with pytest.raises(SqlError, match="damaged"):
        _run(backups)
    assert sorted(backups.glob("*/log/*")) == log


@pytest.mark.long
def test_on_spark(backups: pathlib.Path) -> None:
    text = _shoal("pipeline", "compact", str(backups), "--master", "local[2]", "--json")
    found = json.loads(text)
    assert found["pieces_merged"] >= BACKUPS - 1 and found["into"] == 1
    _shoal("verify", str(backups))
