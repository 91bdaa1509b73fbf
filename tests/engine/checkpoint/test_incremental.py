"""Only ranges that have changed are written again, and old checkpoints go without taking newer ones' files."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psycopg
import pytest

from catalog import rows as system_rows
from catalog.schema import Table
from engine.checkpoint import (
    Manifest,
    leftovers,
    read_checkpoint,
    read_manifest,
    removable,
    verify_checkpoint,
)
from engine.checkpoint.manifest import RangeFile
from engine.storage.keys import prefix_range, row_number_key, storage_prefix
from engine.storage.rows import RowCodec
from engine.storage.tablespace import Tablespace
from tests.engine.checkpoint.harness import FolderFiles, checkpoint, commit, contents, flush, opened
from tests.server import ShoalServer

TARGET = 100


def table_of(store: Tablespace, name: str) -> Table:
    for place, value in store.current.scan(*prefix_range(storage_prefix(system_rows.SYSTEM_TABLES[Table]))):
        found = system_rows.decode(place, value)
        if found.name == name:
            assert isinstance(found, Table)
            return found
    raise KeyError(name)


def heap_rows(table: Table, numbers: range, text: str) -> dict[bytes, bytes | None]:
    encode = RowCodec(table).encode
    return {row_number_key(table.storage_id, number): encode((number, text)) for number in numbers}


def ranges(manifest: Manifest, name: str = "heap") -> tuple[RangeFile, ...]:
    return next(entry for entry in manifest.tables if entry.name == name).files


def fresh(manifest: Manifest) -> dict[str, list[int]]:
    """By table, the places of files that this checkpoint has written itself."""
    return {
        entry.name: [place for place, item in enumerate(entry.files) if item.file.name.startswith(manifest.folder)]
        for entry in manifest.tables
        if any(item.file.name.startswith(manifest.folder) for item in entry.files)
    }


async def same(files: FolderFiles, manifest: Manifest, store: Tablespace, path: Path) -> None:
    assert await verify_checkpoint(files, "", manifest, str(path) + "-verify") == []
    await read_checkpoint(files, "", manifest, str(path))
    async with opened(path) as again:
        # Index entries of rows that a test has written by itself are not in the store.
        ids = range(1, 400)
        found, expected = contents(again, ids), contents(store, ids)
        kept = set(expected) & set(found)
        assert {name: found[name] for name in kept} == {name: expected[name] for name in kept}
        tables = {storage_prefix(entry.storage_id) for entry in manifest.tables}
        assert {name for name in found if name[:4] in tables} == {name for name in expected if name[:4] in tables}


@pytest.mark.parametrize("flushed", [False, True], ids=["by known changes", "by hashes"])
async def test_only_changed_ranges_are_written(samples: Path, tmp_path: Path, flushed: bool) -> None:
    files = FolderFiles(tmp_path / "store")
    async with opened(samples) as store:
        heap = table_of(store, "heap")
        first = await checkpoint(store, files, tmp_path / "scratch", target_rows=TARGET)
        assert [item.rows for item in ranges(first)] == [100] * 9
        await commit(store, heap_rows(heap, range(500, 501), "changed"))
        if flushed:
            await flush(store)
        second = await checkpoint(store, files, tmp_path / "scratch", first, target_rows=TARGET)
        assert fresh(second) == {"heap": [4]}
        assert second.previous == first.lsn
        assert [item.low for item in ranges(second)] == [item.low for item in ranges(first)]
        await same(files, second, store, tmp_path / "again")
        third = await checkpoint(store, files, tmp_path / "scratch", second, target_rows=TARGET)
        assert third == second  # nothing was committed: it is the same checkpoint


@pytest.mark.parametrize("flushed", [False, True], ids=["by known changes", "by hashes"])
async def test_rows_before_between_and_behind_come_into_their_range(
    samples: Path, tmp_path: Path, flushed: bool
) -> None:
    files = FolderFiles(tmp_path / "store")
    async with opened(samples) as store:
        heap = table_of(store, "heap")
        manifest = await checkpoint(store, files, tmp_path / "scratch", target_rows=TARGET)
        for number, place in ((-5, 0), (3, 0), (2000, 8)):
            await commit(store, heap_rows(heap, range(number, number + 1), "new"))
            if flushed:
                await flush(store)
            manifest = await checkpoint(store, files, tmp_path / "scratch", manifest, target_rows=TARGET)
            assert fresh(manifest) == {"heap": [place]}
        assert sum(item.rows for item in ranges(manifest)) == 903
        await same(files, manifest, store, tmp_path / "again")


async def test_ranges_are_split_when_they_grow_and_joined_when_they_shrink(samples: Path, tmp_path: Path) -> None:
    files = FolderFiles(tmp_path / "store")
    async with opened(samples) as store:
        heap = table_of(store, "heap")
        manifest = await checkpoint(store, files, tmp_path / "scratch", target_rows=TARGET)
        await commit(store, heap_rows(heap, range(5000, 5250), "tail"))
        await flush(store)
        manifest = await checkpoint(store, files, tmp_path / "scratch", manifest, target_rows=TARGET)
        assert [item.rows for item in ranges(manifest)] == [100] * 8 + [88, 88, 88, 86]
        gone = dict.fromkeys(heap_rows(heap, range(445), "gone"))
        await commit(store, gone)
        await flush(store)
        manifest = await checkpoint(store, files, tmp_path / "scratch", manifest, target_rows=TARGET)
        counts = [item.rows for item in ranges(manifest)]
        assert sum(counts) == 1150 - 399 and min(counts) >= 86 and len(counts) < 10
        await same(files, manifest, store, tmp_path / "again")
        await commit(store, dict.fromkeys(heap_rows(heap, range(6000), "gone")))
        manifest = await checkpoint(store, files, tmp_path / "scratch", manifest, target_rows=TARGET)
        assert ranges(manifest) == ()


async def test_a_chain_of_checkpoints_loses_its_old_ones_and_stays_whole(samples: Path, tmp_path: Path) -> None:
    files = FolderFiles(tmp_path / "store")
    made: list[Manifest] = []
    async with opened(samples) as store:
        heap = table_of(store, "heap")
        for step in range(5):
            await commit(store, heap_rows(heap, range(step * 200, step * 200 + 50), f"step {step}"))
            previous = made[-1] if made else None
            made.append(await checkpoint(store, files, tmp_path / "scratch", previous, target_rows=TARGET))
            while len(made) > 2:
                for name in removable(made[:1], made[1:]):
                    await files.delete(name)
                made.pop(0)
        assert leftovers(files.names(), made, made[-1].lsn + 1) == []
        needed = {file.name for manifest in made for file in manifest.files()} | {item.name() for item in made}
        assert set(files.names()) == needed
        await same(files, made[-1], store, tmp_path / "again")
    await read_checkpoint(files, "", made[0], str(tmp_path / "older"))


async def test_schema_changes_between_checkpoints(samples: Path, tmp_path: Path) -> None:
    files = FolderFiles(tmp_path / "store")
    async with opened(samples) as store:
        first = await checkpoint(store, files, tmp_path / "scratch", target_rows=TARGET)
    with ShoalServer(samples) as server, psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("DROP VIEW summary")
        connection.execute("ALTER TABLE heap RENAME TO renamed")
        connection.execute("ALTER TABLE plain_layouts RENAME COLUMN a TO words")
        connection.execute("ALTER TABLE other.serials ADD COLUMN more int DEFAULT 5")
        connection.execute("DROP TABLE emptied")
        connection.execute("TRUNCATE hidden_name")
        connection.execute("INSERT INTO hidden_name VALUES ('x')")
        connection.execute("CREATE TABLE emptied AS SELECT generate_series(1, 10) AS other")
        connection.execute("CREATE INDEX ON keyed (x)")
    async with opened(samples) as store:
        second = await checkpoint(store, files, tmp_path / "scratch", first, target_rows=TARGET)
        written = fresh(second)
        # A new name of a table or an index costs nothing; a column's does, as readers know columns by name.
        assert set(written) == {"plain_layouts", "serials", "emptied", "hidden_name"}
        assert [column.name for column in next(t for t in second.tables if t.name == "plain_layouts").columns] == [
            "id", "words", "b",
        ]  # fmt: skip
        assert ranges(second, "renamed") == ranges(first, "heap")
        await read_checkpoint(files, "", second, str(tmp_path / "again"))
        async with opened(tmp_path / "again") as again:
            assert contents(again) == contents(store)


async def test_a_checkpoint_whose_files_are_gone_is_not_built_upon(samples: Path, tmp_path: Path) -> None:
    files = FolderFiles(tmp_path / "store")
    async with opened(samples) as store:
        first = await checkpoint(store, files, tmp_path / "scratch", target_rows=TARGET)
        await files.delete(ranges(first)[3].file.name)
        await commit(store, {b"\0\0\0\x0b": b"a change"})
        second = await checkpoint(store, files, tmp_path / "scratch", first, target_rows=TARGET)
        assert fresh(second) == {"heap": list(range(9))}
        assert await verify_checkpoint(files, "", second, str(tmp_path / "verify")) == []


async def test_another_tablespaces_checkpoint_is_not_built_upon(samples: Path, tmp_path: Path) -> None:
    files = FolderFiles(tmp_path / "store")
    async with opened(samples) as store:
        first = await checkpoint(store, files, tmp_path / "scratch")
    other = FolderFiles(tmp_path / "other")
    async with opened(tmp_path / "elsewhere") as store:
        await commit(store, {b"\0\0\0\x0b": b"a change"})
        for _ in range(first.lsn):
            await commit(store, {b"\0\0\0\x0b": b"a change"})
        made = await checkpoint(store, other, tmp_path / "scratch", first)
        assert made.previous == 0 and made.tables == ()


async def test_writers_go_on_beside_it_and_are_not_in_it(samples: Path, tmp_path: Path) -> None:
    """Every commit writes two rows; a checkpoint has both or none, and exactly those up to its LSN."""
    files = FolderFiles(tmp_path / "store")
    manifests: list[Manifest] = []
    async with opened(samples) as store:
        heap = table_of(store, "heap")
        stop = False
        lsns: dict[int, int] = {}

        async def writer() -> None:
            number = 0
            while not stop:
                number += 1
                pair = heap_rows(heap, range(1, 2), f"{number}") | heap_rows(heap, range(900, 901), f"{number}")
                lsns[await commit(store, pair)] = number
                if number % 40 == 0:
                    await flush(store)

        task = asyncio.create_task(writer())
        previous = None
        for _ in range(4):
            previous = await checkpoint(store, files, tmp_path / "scratch", previous, target_rows=TARGET)
            manifests.append(previous)
            reached = store.durable_lsn
            while store.durable_lsn < reached + 5:
                await asyncio.sleep(0)
        stop = True
        await task
    codec = RowCodec(heap)
    for place, manifest in enumerate(manifests):
        assert await read_manifest(files, "", manifest.lsn) == manifest
        await read_checkpoint(files, "", manifest, str(tmp_path / f"again{place}"))
        async with opened(tmp_path / f"again{place}") as again:
            seen = [again.current.get(row_number_key(heap.storage_id, number)) for number in (1, 900)]
            values = [codec.decode(value)[1] for value in seen if value is not None]
            expected = [str(lsns[manifest.lsn])] * 2 if manifest.lsn in lsns else values
            assert values == expected and len(values) == 2 and (place == 0 or manifest.lsn in lsns)
