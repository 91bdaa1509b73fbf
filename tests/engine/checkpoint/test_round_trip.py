"""What is restored is the same in every bit, and a server goes on with it."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from engine.checkpoint import (
    Manifest,
    checkpoint_lsns,
    half_restored,
    read_checkpoint,
    read_manifest,
    verify_checkpoint,
)
from engine.storage.tablespace import Tablespace
from tests.engine.checkpoint.harness import FolderFiles, checkpoint, contents, flush, opened
from tests.server import ShoalServer


async def restored(files: FolderFiles, manifest: Manifest, path: Path, like: Tablespace) -> None:
    """Restores and compares every key: rows, index entries, catalog, counters, sequences."""
    await read_checkpoint(files, "", manifest, str(path))
    assert not half_restored(str(path))
    async with opened(path) as again:
        assert again.tablespace_id == like.tablespace_id
        assert again.flushed_lsn == again.durable_lsn == manifest.lsn
        found, expected = contents(again), contents(like)
        assert found.keys() == expected.keys()
        assert found == expected


async def test_everything_comes_back_bit_by_bit(samples: Path, tmp_path: Path) -> None:
    files = FolderFiles(tmp_path / "store")
    async with opened(samples) as store:
        manifest = await checkpoint(store, files, tmp_path / "scratch")
        assert await checkpoint_lsns(files, "") == [store.durable_lsn]
        assert await read_manifest(files, "", manifest.lsn) == manifest
        assert await verify_checkpoint(files, "", manifest, str(tmp_path / "verify")) == []
        await restored(files, manifest, tmp_path / "again", store)
    assert not list((tmp_path / "scratch").iterdir())


async def test_small_files_and_unflushed_rows_come_back_too(samples: Path, tmp_path: Path) -> None:
    files = FolderFiles(tmp_path / "store")
    async with opened(samples) as store:
        await flush(store)
        manifest = await checkpoint(store, files, tmp_path / "scratch", target_rows=37)
        heap = next(entry for entry in manifest.tables if entry.name == "heap")
        assert [item.rows for item in heap.files] == [37] * 24 + [12]
        await restored(files, manifest, tmp_path / "again", store)


async def test_only_rows_that_columns_cannot_hold_are_kept_twice(samples: Path, tmp_path: Path) -> None:
    files = FolderFiles(tmp_path / "store")
    async with opened(samples) as store:
        manifest = await checkpoint(store, files, tmp_path / "scratch")
    exact = {entry.name: sum(item.exact_rows for item in entry.files) for entry in manifest.tables}
    assert exact["heap"] == exact["Odd name/É"] == exact["serials"] == exact["here"] == 0
    assert exact["keyed"] == 2  # two infinite dates; a long key is made from its columns
    assert exact["plain_layouts"] == 300 and exact["layouts"] == 392  # the rows of older layouts
    types = next(entry for entry in manifest.tables if entry.name == "types")
    nulled = {"n102": 1, "d": 2, "ti": 1, "ts": 2, "tstz": 3, "ia": 1, "ta": 1, "na": 1}
    assert dict(types.files[0].nulled) == nulled
    layouts = [item for entry in manifest.tables if entry.name == "plain_layouts" for item in entry.files]
    assert sum(item.exact.bytes for item in layouts if item.exact) < 4000  # layout numbers, no rows


def all_rows(server: ShoalServer) -> dict[str, list[tuple[bytes | None, ...]]]:
    """Every table, view and sequence of both databases, as text."""
    found: dict[str, list[tuple[bytes | None, ...]]] = {}
    for database in ("postgres", "second"):
        with psycopg.connect(
            server.dsn.replace("dbname=postgres", f"dbname={database}"), autocommit=True
        ) as connection:
            names = connection.execute(
                "SELECT format('%I.%I', nspname, relname) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
                " WHERE relkind IN ('r', 'v', 'S') AND nspname IN ('public', 'other') ORDER BY 1"
            ).fetchall()
            for (name,) in names:
                rows = connection.execute(f"SELECT * FROM {name}".encode()).pgresult
                assert rows is not None
                cells = [[rows.get_value(row, place) for place in range(rows.nfields)] for row in range(rows.ntuples)]
                found[f"{database}.{name}"] = sorted(map(tuple, cells), key=repr)
    return found


async def test_a_server_works_on_restored_data(samples: Path, tmp_path: Path) -> None:
    files = FolderFiles(tmp_path / "store")
    async with opened(samples) as store:
        manifest = await checkpoint(store, files, tmp_path / "scratch")
    await read_checkpoint(files, "", manifest, str(tmp_path / "again"))
    with ShoalServer(samples) as before, ShoalServer(tmp_path / "again") as after:
        expected = all_rows(before)
        assert len(expected) == 16
        assert all_rows(after) == expected
        with psycopg.connect(after.dsn, autocommit=True) as connection:
            inserted = connection.execute("INSERT INTO other.serials (x) VALUES ('new') RETURNING id").fetchone()
            assert inserted == (5,)
            assert connection.execute("SELECT nextval('counter')").fetchone() == (105,)
            assert connection.execute("SELECT id FROM types WHERE t = 'plain'").fetchall() == [(1,)]
            assert connection.execute("SELECT id FROM types WHERE lower(t) = 'z'").fetchall() == [(5,)]
            with pytest.raises(psycopg.errors.UniqueViolation):
                connection.execute("INSERT INTO other.serials (x) VALUES ('a')")
            assert connection.execute("INSERT INTO heap VALUES (5000, 'y')").rowcount == 1
            assert connection.execute("SELECT b FROM heap WHERE a = 5000").fetchall() == [("y",)]
        after.kill()
        after.start()
        with psycopg.connect(after.dsn, autocommit=True) as connection:
            assert connection.execute("SELECT count(*) FROM heap").fetchone() == (901,)
