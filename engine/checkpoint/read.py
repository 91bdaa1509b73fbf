"""Restores a checkpoint into an empty tablespace directory, and verifies one.

LMDB is filled in `<path>/restoring`, which is renamed to `<path>/rows` when everything in it is durable. So `rows`
never contains a partial restore. A directory with `restoring` is recognized as incomplete, and the next restore wipes
it. A tablespace that is opened on the result is at the checkpoint's LSN, with the same id and an empty changelog.

Rows are appended in the order of storage ids. Index entries are made from the rows of each table, sorted in bulk runs,
and appended in the order of their storage ids. The next file is fetched while one is loaded.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow.parquet as pq

from catalog.errors import SqlError
from catalog.schema import Table
from engine.bulk.encode import TableEncoder
from engine.bulk.rows import RowSet
from engine.bulk.thread import BulkThread
from engine.checkpoint import manifest as manifests
from engine.checkpoint import system
from engine.checkpoint.exact import OpenTable
from engine.checkpoint.interface import CheckpointFiles, OnProgress, Progress
from engine.checkpoint.manifest import Manifest, RangeFile, StoredFile, TableEntry, damage_error
from engine.checkpoint.range_files import file_crc
from engine.storage.checkpoint import Checkpoint, sync_directory
from engine.storage.columns import Column
from engine.storage.directory_lock import lock_directory
from engine.storage.keys import PREFIX_BYTES
from engine.storage.lmdb_writer import COMMIT_BYTES, ENTRY_BYTES
from engine.storage.rows import RowCodec
from engine.storage.runs import BulkRun, BulkRunWriter, DuplicateKey

RESTORING = "restoring"
ROWS = "rows"
PUT_ROWS = 2048


async def checkpoint_lsns(files: CheckpointFiles, root: str) -> list[int]:
    """The LSNs of the complete checkpoints (folders with a manifest) below a root, in order."""
    prefix = root + "/" if root else ""
    found = []
    async for info in files.list(prefix):
        name = info.name[len(prefix) :]
        lsn = manifests.folder_lsn(name)
        if lsn is not None and name == manifests.manifest_name(manifests.folder_name(lsn)):
            found.append(lsn)
    return sorted(found)


async def read_manifest(files: CheckpointFiles, root: str, lsn: int) -> Manifest:
    """The manifest of the checkpoint at an LSN. Raises XX001 if it is damaged; errors of `files` pass through."""
    prefix = root + "/" if root else ""
    return manifests.decode(await files.get(prefix + manifests.manifest_name(manifests.folder_name(lsn))))


def half_restored(path: str) -> bool:
    """Whether the directory contains an incomplete restore."""
    return os.path.exists(os.path.join(path, RESTORING))


async def read_checkpoint(
    files: CheckpointFiles, root: str, manifest: Manifest, path: str, *, progress: OnProgress | None = None
) -> None:
    """Makes `path` the directory of a tablespace in the checkpoint's state, which Tablespace.open can open.

    The directory may exist if it is empty or contains an incomplete restore. Raises 55000 if it contains a tablespace,
    55006 if it is open elsewhere, XX001 if the checkpoint is damaged; errors of `files` pass through.
    """
    lock = lock_directory(path)
    locked = True
    thread = BulkThread("restore")
    directory = os.path.join(path, RESTORING)
    try:
        if os.path.exists(os.path.join(path, ROWS)):
            raise SqlError("55000", f'directory "{path}" already holds a tablespace')
        await thread.run(_fresh, directory)
        reader = _Reader(files, root, manifest, os.path.join(directory, "files"), thread, progress)
        loader = await thread.run(_Loader, directory)
        thread.at_end(loader.close)
        await thread.run(loader.put_pairs, await reader.catalog())
        async for table, opened, parts in reader.tables():
            await thread.run(loader.begin, table, opened, reader.system)
            async for item, part in parts:
                await thread.run(loader.load, part)
                reader.note_loaded(item)
            await thread.run(loader.end)
        await thread.run(loader.finish_tables)
        await reader.others(loader)
        await thread.run(loader.adopt, bytes.fromhex(manifest.tablespace), manifest.lsn)
        await thread.run(_publish, directory, os.path.join(path, ROWS))
        await thread.run(os.close, lock)
        locked = False
        reader.report_end()
    finally:
        if locked:
            thread.at_end(partial(os.close, lock))
        thread.close()


async def verify_checkpoint(
    files: CheckpointFiles, root: str, manifest: Manifest, scratch: str, *, progress: OnProgress | None = None
) -> list[str]:
    """Reads all of a checkpoint, converts it back to stored rows, and returns a list of the problems.

    `scratch`: a local directory that does not exist yet. Errors of `files` pass through, but a missing or damaged file
    is a problem in the list.
    """
    thread = BulkThread("verify")
    thread.at_end(lambda: shutil.rmtree(scratch, ignore_errors=True))
    findings: list[str] = []
    os.makedirs(scratch, 0o700)
    try:
        reader = _Reader(files, root, manifest, scratch, thread, progress)
        try:
            await reader.catalog()
        except SqlError as error:
            return [error.message]
        for entry in manifest.tables:
            try:
                opened = reader.open_table(entry)
            except SqlError as error:
                findings.append(error.message)
                continue
            previous = ""
            for item in entry.files:
                if item.low < previous or not item.low <= item.first <= item.last:
                    findings.append(f"{item.file.name}: its range of keys is not behind the one before it")
                previous = item.last
                try:
                    local = await reader.fetch_range(item)
                    await thread.run(_check_range, opened, item, local)
                except SqlError as error:
                    findings.append(f"{item.file.name}: {error.message}")
                reader.note_loaded(item)
        if manifest.other is not None:
            try:
                await reader.fetch(manifest.other)
            except SqlError as error:
                findings.append(error.message)
        reader.report_end()
    finally:
        thread.close()
    return findings


@dataclass(frozen=True, slots=True)
class _Local:
    """The files of a range, fetched and checked."""

    path: str
    exact_path: str | None
    entry: RangeFile

    def remove(self) -> None:
        os.unlink(self.path)
        if self.exact_path is not None:
            os.unlink(self.exact_path)


def _check_range(table: OpenTable, item: RangeFile, local: _Local) -> None:
    try:
        prefix = PREFIX_BYTES
        rows = 0
        first, last = b"", b""
        for keys, stored in table.read_range(local.path, local.exact_path, item.content):
            first = first or keys[0].as_py()
            last = keys[len(keys) - 1].as_py()
            rows += len(stored)
        if (rows, first[prefix:].hex(), last[prefix:].hex()) != (item.rows, item.first, item.last):
            raise damage_error("it has other rows than the manifest says")
    finally:
        local.remove()


class _Reader:
    """Fetches the files of a checkpoint and checks them."""

    def __init__(
        self,
        files: CheckpointFiles,
        root: str,
        manifest: Manifest,
        directory: str,
        thread: BulkThread,
        progress: OnProgress | None,
    ) -> None:
        self._files = files
        self._prefix = root + "/" if root else ""
        self._manifest = manifest
        self._directory = directory
        self._thread = thread
        self._progress = progress
        self._number = 0
        self._done = self._rows = self._bytes = 0
        self._table = ""
        self.system = system.System(())
        os.makedirs(directory, 0o700, exist_ok=True)

    async def fetch(self, file: StoredFile) -> str:
        """The local copy of a file. Raises XX001 if it differs from the manifest."""
        self._number += 1
        path = os.path.join(self._directory, str(self._number))
        try:
            await self._files.get_file(self._prefix + file.name, path)
        except Exception as error:
            if await self._is_there(file):
                raise
            raise damage_error(f'file "{file.name}" is missing') from error
        await self._thread.run(_check_file, path, file)
        return path

    async def _is_there(self, file: StoredFile) -> bool:
        name = self._prefix + file.name
        async for info in self._files.list(name.rpartition("/")[0] + "/"):
            if info.name == name:
                return True
        return False

    async def fetch_range(self, item: RangeFile) -> _Local:
        path = await self.fetch(item.file)
        return _Local(path, None if item.exact is None else await self.fetch(item.exact), item)

    async def catalog(self) -> system.Pairs:
        """The content of the catalog's file: the keys of the system's storage ids in this tablespace. Sets `system`."""
        path = await self.fetch(self._manifest.catalog)
        with open(path, "rb") as file:
            data = file.read()
        self.system, pairs = await self._thread.run(system.decode, data)
        return pairs

    def open_table(self, entry: TableEntry) -> OpenTable:
        table = self.system.tables.get(entry.storage_id)
        if table is None:
            raise damage_error(f'its catalog has no table "{entry.schema}.{entry.name}"')
        opened = self.system.open_table(table)
        if opened.shape != entry.shape:
            raise damage_error(f'table "{entry.schema}.{entry.name}" is another in its catalog')
        return opened

    async def tables(self) -> AsyncIterator[tuple[Table, OpenTable, AsyncIterator[tuple[RangeFile, Iterator[Any]]]]]:
        """Every table in the order of storage ids, with its ranges' rows."""
        for entry in sorted(self._manifest.tables, key=lambda table: table.storage_id):
            self._table = f"{entry.schema}.{entry.name}"
            opened = self.open_table(entry)
            yield opened.table, opened, self._ranges(opened, entry.files)
            self._done += 1

    async def _ranges(
        self, table: OpenTable, items: Sequence[RangeFile]
    ) -> AsyncIterator[tuple[RangeFile, Iterator[Any]]]:
        coming = [asyncio.ensure_future(self.fetch_range(item)) for item in items[:1]]
        try:
            for place, item in enumerate(items):
                local = await coming.pop()
                if place + 1 < len(items):
                    coming.append(asyncio.ensure_future(self.fetch_range(items[place + 1])))
                yield item, _rows_of(table, local)
        finally:
            for task in coming:
                task.cancel()
                with suppress(Exception, asyncio.CancelledError):
                    await task

    async def others(self, loader: _Loader) -> None:
        if self._manifest.other is not None:
            path = await self.fetch(self._manifest.other)
            await self._thread.run(loader.put_file, path)

    def note_loaded(self, item: RangeFile) -> None:
        self._rows += item.rows
        self._bytes += item.stored_bytes
        self._report(self._done)

    def report_end(self) -> None:
        self._table = ""
        self._report(len(self._manifest.tables))

    def _report(self, done: int) -> None:
        if self._progress is not None:
            self._progress(Progress(done, len(self._manifest.tables), self._rows, self._bytes, self._table))


def _check_file(path: str, file: StoredFile) -> None:
    if os.path.getsize(path) != file.bytes or file_crc(path) != file.crc32c:
        raise damage_error(f'file "{file.name}" has other bytes than it was written with')


def _rows_of(table: OpenTable, local: _Local) -> Iterator[tuple[Column, Column]]:
    yield from table.read_range(local.path, local.exact_path, local.entry.content)
    local.remove()


def _fresh(directory: str) -> None:
    """An empty directory whose name is durable. From now on the restore counts as incomplete."""
    if os.path.exists(directory):
        shutil.rmtree(directory)
    os.makedirs(directory, 0o700)
    sync_directory(os.path.dirname(directory))


def _publish(directory: str, target: str) -> None:
    os.rename(directory, target)
    sync_directory(os.path.dirname(directory))


class _Loader:
    """Fills an LMDB environment. Used in one thread."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._checkpoint: Checkpoint | None = Checkpoint(directory)
        self._transaction: Any = None
        self._cursor: Any = None
        self._size = 0
        self._last = b""  # the highest key so far: higher keys are appended
        self._codec: RowCodec
        self._encoder: TableEncoder
        self._writers: list[BulkRunWriter] = []
        self._runs: dict[int, BulkRun] = {}  # sorted entries of indexes that are not yet written
        self._loading: Table

    # --- tables and their indexes --------------------------------------------------------------------------------

    def begin(self, table: Table, opened: OpenTable, objects: system.System) -> None:
        """Starts the next table, after the entries of indexes with lower storage ids."""
        self._load_runs(table.storage_id)
        self._loading = table
        self._codec = opened.codec
        self._encoder = TableEncoder(objects.catalog_of(table), table)
        self._writers = [
            BulkRunWriter(os.path.join(self._directory, f"entries-{index.index.storage_id}"))
            for index in self._encoder.indexes
        ]

    def load(self, parts: Iterator[tuple[Column, Column]]) -> None:
        """Adds a range's rows, and makes their index entries. Raises XX001."""
        for keys, rows in parts:
            self._put(keys, rows)
            if not self._writers:
                continue
            found = self._row_set(rows)
            for index, writer in zip(self._encoder.indexes, self._writers, strict=True):
                entries, values, _ = self._encoder.entries(index, found, keys)
                try:
                    writer.add(entries, values)
                except DuplicateKey as error:
                    raise self._twice(index.index.name) from error

    def _row_set(self, rows: Column) -> RowSet:
        """The rows for index entries: columns, or values that columns cannot hold."""
        table, indexes = self._loading, self._encoder.indexes
        numbers = sorted(set[int]().union(*(index.columns for index in indexes)))
        if any(index.on_expressions for index in indexes):
            numbers = [column.number for column in table.columns]
        try:
            batch = self._codec.batches.decode(rows, numbers)
        except (SqlError, OverflowError):
            return RowSet(table, len(rows), None, list(map(self._codec.decode, rows.to_pylist())))
        return RowSet(table, len(rows), dict(zip(numbers, batch.columns, strict=True)))

    def end(self) -> None:
        """Ends the table."""
        for index, writer in zip(self._encoder.indexes, self._writers, strict=True):
            try:
                self._runs[index.index.storage_id] = writer.finish()
            except DuplicateKey as error:
                raise self._twice(index.index.name) from error
        self._writers = []

    def _twice(self, index: str) -> SqlError:
        return damage_error(f'two rows have the same key in unique index "{index}"')

    def finish_tables(self) -> None:
        self._load_runs(2**32)

    def _load_runs(self, below: int) -> None:
        """Adds the entries of indexes with storage ids below one."""
        for storage_id in sorted(self._runs):
            if storage_id < below:
                run = self._runs.pop(storage_id)
                for batch in run.batches():
                    self._put(batch.column(0), batch.column(1))
                os.unlink(run.path)

    # --- LMDB ----------------------------------------------------------------------------------------------------

    def put_pairs(self, pairs: system.Pairs) -> None:
        self._put_items(sorted(pairs))

    def put_file(self, path: str) -> None:
        """Adds the keys that the catalog does not have."""
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches():
                self._put(batch.column(0), batch.column(1))
        os.unlink(path)

    def _put(self, keys: Column, values: Column) -> None:
        for start in range(0, len(keys), PUT_ROWS):
            part = values.slice(start, PUT_ROWS)
            self._put_items(list(zip(keys.slice(start, PUT_ROWS).to_pylist(), part.to_pylist(), strict=True)))

    def _put_items(self, items: list[tuple[bytes, bytes]]) -> None:
        """Adds pairs in key order."""
        if not items:
            return
        assert self._checkpoint is not None
        append = items[0][0] > self._last
        with self._checkpoint.writing():
            if self._transaction is None:
                self._transaction = self._checkpoint.environment.begin(db=self._checkpoint.rows, write=True)
                self._cursor = self._transaction.cursor()
            _, added = self._cursor.putmulti(items, overwrite=False, append=append)
        if added != len(items):
            raise damage_error("its keys are not in order, or one is there twice")
        self._last = max(self._last, items[-1][0])
        self._size += sum(len(value) for _, value in items) + len(items) * ENTRY_BYTES
        if self._size > COMMIT_BYTES:
            self._commit()

    def _commit(self) -> None:
        if self._transaction is not None:
            assert self._checkpoint is not None
            transaction, self._transaction = self._transaction, None
            self._cursor.close()
            with self._checkpoint.writing():
                transaction.commit()
            self._size = 0

    def adopt(self, tablespace: bytes, lsn: int) -> None:
        """Makes everything durable, as the state of a tablespace at an LSN."""
        assert self._checkpoint is not None
        self._commit()
        self._checkpoint.adopt(tablespace, lsn, whole=True)
        self.close()
        for name in os.listdir(self._directory):
            if not name.endswith(".mdb"):
                shutil.rmtree(os.path.join(self._directory, name))

    def close(self) -> None:
        """Closes LMDB and drops uncommitted content. A second call does nothing."""
        for writer in self._writers:
            writer.discard()
        self._writers = []
        if self._transaction is not None:
            self._transaction.abort()
            self._transaction = None
        if self._checkpoint is not None:
            self._checkpoint.close()
            self._checkpoint = None
