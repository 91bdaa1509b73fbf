"""Writes a checkpoint while writers continue.

    engine's thread     Capture.take in one turn; uploads; the manifest, last
    one other thread    reads rows and makes files (engine/checkpoint/range_files.py)

A file is uploaded while the next one is made. Files are local until then, in a folder of their own below `scratch`. A
checkpoint that fails or is cancelled leaves no manifest, and removes its uploaded files as far as the store allows.
`manifest.leftovers` finds the rest.

A *resumable* checkpoint keeps its uploaded files, and writes a partial manifest of them after every PARTIAL_BYTES. The
next one treats that as a previous checkpoint, so ranges that have not changed since are not written again. A complete
checkpoint removes the partial manifests.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from catalog.clock import now
from catalog.errors import SqlError
from engine.bulk.thread import BulkThread
from engine.checkpoint import manifest as manifests
from engine.checkpoint.capture import Capture
from engine.checkpoint.exact import OpenTable
from engine.checkpoint.interface import CheckpointFiles, Described, EntryMark, OnProgress, Progress
from engine.checkpoint.manifest import Manifest, RangeFile, StoredFile, TableEntry
from engine.checkpoint.range_files import COMPRESSION, Made, file_crc, look_at, write_range
from engine.checkpoint.ranges import TARGET_BYTES, TARGET_ROWS, Rewrite, plan, whole_table
from engine.checkpoint.system import Pairs, System, TableName
from engine.priority import REST, Pace

if TYPE_CHECKING:
    from engine.storage.tablespace import Tablespace

CLEAN_UP_SECONDS = 10.0
PARTIAL_BYTES = 128 << 20  # of stored rows
OTHER_SCHEMA: Any = pa.schema([("key", pa.binary()), ("value", pa.binary())])


@dataclass(frozen=True, slots=True)
class Options:
    """`rest`: see engine.priority.Pace. `resumable`: see the module's text."""

    target_rows: int = TARGET_ROWS
    target_bytes: int = TARGET_BYTES
    rest: float = REST
    resumable: bool = False


class _Stopped(Exception):  # noqa: N818 - not an error: the caller no longer waits
    """Stops the work in the thread."""


async def write_checkpoint(
    store: Tablespace,
    files: CheckpointFiles,
    root: str,
    scratch: str,
    mark: Callable[[int], EntryMark],
    *,
    described: Described | None = None,
    previous: Manifest | None = None,
    progress: OnProgress | None = None,
    options: Options | None = None,
) -> Manifest:
    """Writes the present durable state as `<root>/checkpoint-<lsn>/...`, and returns its manifest.

    `root` is '' or a name without '/' at its end. `scratch`: an existing local directory with room for two files.
    `mark(lsn)` returns the changelog's data on the entry at the durable LSN, and is called at once. `described`: for a
    tablespace whose catalog is in another tablespace, its OID and the present schema objects. `previous`: the newest
    checkpoint of the same history. It must be kept as long as the new one, which reuses its files for unchanged ranges.
    If a checkpoint at this LSN exists, it is returned.

    Raises 55000 if one of another history exists. Errors of `files` pass through. The call may be cancelled at any
    time: then there is no manifest or (at the very end) a complete checkpoint.
    """
    return await _Writer(store, files, root, scratch, described, previous, progress, options or Options()).run(mark)


class _Writer:
    def __init__(
        self,
        store: Tablespace,
        files: CheckpointFiles,
        root: str,
        scratch: str,
        described: Described | None,
        previous: Manifest | None,
        progress: OnProgress | None,
        options: Options,
    ) -> None:
        self._capture = Capture.take(store)
        self._files = files
        self._root = root + "/" if root else ""
        self._folder = manifests.folder_name(self._capture.lsn)
        self._attempt = secrets.token_hex(4)
        self._scratch = scratch
        self._described = described
        self._progress = progress
        self._options = options
        self._previous: dict[int, tuple[TableEntry, int]] = {}  # by OID, with the LSN as of which it is
        self._previous_lsn = 0
        if previous is not None and self._continues(previous):
            self._take_over(previous)
            self._previous_lsn = previous.lsn
        self._thread = BulkThread("checkpoint")
        self._stopped = False
        self._uploaded: list[str] = []
        self._upload: asyncio.Task[None] | None = None
        self._sizes: dict[str, dict[str, int]] = {}  # of older folders, by folder
        self._rows = self._bytes = 0
        self._pace = Pace(self._options.rest, self._check_stopped)
        self._tables: list[TableEntry] = []  # the tables that were written
        self._partials: list[str] = []
        self._partial_bytes = 0  # the part of `_bytes` in the last partial manifest

    def _take_over(self, previous: Manifest) -> None:
        self._previous.update({table.oid: (table, previous.lsn) for table in previous.tables})

    def _continues(self, previous: Manifest) -> bool:
        return previous.tablespace == self._capture.tablespace.hex() and previous.lsn <= self._capture.lsn

    async def run(self, mark: Callable[[int], EntryMark]) -> Manifest:
        local = ""
        try:
            entry = mark(self._capture.lsn)
            await self._thread.run(self._capture.resolve, self._pace.pause)
            self._capture.release()
            existing = await self._existing(entry)
            if existing is not None:
                return existing
            if self._options.resumable:
                await self._take_over_partials()
            local = tempfile.mkdtemp(prefix="checkpoint-", dir=self._scratch)
            made = await self._publish(await self._write_all(local, entry))
            with suppress(Exception):  # left manifests do no harm
                for name in self._partials:
                    await self._files.delete(self._root + name)
            return made
        except BaseException:
            self._stopped = True
            self._capture.release()
            if not self._options.resumable:
                await self._clean_up()
            raise
        finally:
            self._thread.at_end(self._capture.close)
            if local:
                self._thread.at_end(lambda: shutil.rmtree(local, ignore_errors=True))
            self._thread.close()

    async def _existing(self, entry: EntryMark) -> Manifest | None:
        """The checkpoint at this LSN, or None."""
        name = self._root + manifests.manifest_name(self._folder)
        async for info in self._files.list(f"{self._root}{self._folder}/"):
            if info.name == name:
                found = manifests.decode(await self._files.get(name))
                self._check_history(found, entry.hash)
                return found
        return None

    # --- the parts -----------------------------------------------------------------------------------------------

    async def _write_all(self, local: str, entry: EntryMark) -> Manifest:
        system, pairs, others = await self._thread.run(self._read_system)
        catalog = await self._put_catalog(local, system, pairs)
        tables = self._tables
        ordered = sorted(system.tables.values(), key=lambda table: table.storage_id)
        for done, table in enumerate(ordered):
            name = system.name_of(table)
            opened = await self._thread.run(system.open_table, table)
            tables.append(await self._write_table(local, opened, name, Progress(done, len(ordered), 0, 0, str(name))))
        other, other_rows = await self._write_others(local, others)
        await self._wait_for_upload()
        self._report(Progress(len(ordered), len(ordered), 0, 0))
        return self._manifest(entry, catalog, other, other_rows, tables)

    def _manifest(
        self,
        entry: EntryMark,
        catalog: StoredFile,
        other: StoredFile | None,
        other_rows: int,
        tables: Sequence[TableEntry],
    ) -> Manifest:
        return Manifest(
            manifests.FORMAT,
            self._capture.tablespace.hex(),
            self._capture.lsn,
            entry.hash,
            entry.commit_time,
            now(),
            self._folder,
            self._previous_lsn,
            catalog,
            other,
            other_rows,
            tuple(tables),
        )

    # --- continuing interrupted attempts -------------------------------------------------------------------------

    async def _take_over_partials(self) -> None:
        """The manifests of interrupted attempts, newest last."""
        found = []
        async for info in self._files.list(self._root):
            name = info.name.removeprefix(self._root)
            if manifests.is_partial(name):
                found.append(name)
        for name in sorted(found):
            with suppress(SqlError):  # a store may contain partly written objects
                partial = manifests.decode(await self._files.get(self._root + name))
                if self._continues(partial):
                    self._take_over(partial)
        self._partials += found

    async def _remember(self, entry: TableEntry) -> None:
        """Writes a partial manifest now and then. `entry`: of the table in progress."""
        if not self._options.resumable or self._bytes - self._partial_bytes < PARTIAL_BYTES:
            return
        self._partial_bytes = self._bytes
        await self._wait_for_upload()
        name = manifests.partial_name(self._folder, self._bytes, self._attempt)
        made = self._manifest(EntryMark(), StoredFile("", 0, ""), None, 0, [*self._tables, entry])
        self._partials.append(name)
        await self._files.put(self._root + name, manifests.encode(made))

    def _read_system(self) -> tuple[System, Pairs, list[int]]:
        """The schema objects, every pair for the catalog's file, and the storage ids without an owner."""
        capture = self._capture
        ids = capture.storage_ids()
        reserved = System(())
        pairs = [pair for storage_id in ids if reserved.holds(storage_id) for pair in capture.pairs(storage_id)]
        described = self._described
        system = System.of_rows(pairs) if described is None else System(described.objects, described.tablespace)
        pairs += [pair for storage_id in sorted(system.sequences) for pair in capture.pairs(storage_id)]
        owned = system.tables.keys() | system.indexes
        others = [storage_id for storage_id in ids if storage_id not in owned and not system.holds(storage_id)]
        return system, pairs, others

    async def _put_catalog(self, local: str, system: System, pairs: Pairs) -> StoredFile:
        path = os.path.join(local, "catalog")

        def write() -> StoredFile:
            with open(path, "wb") as file:
                file.write(system.encode(pairs))
            return self._store(path, f"{self._folder}/catalog-{self._attempt}.json")

        stored = await self._thread.run(write)
        await self._put(stored, path)
        return stored

    async def _write_table(self, local: str, opened: OpenTable, name: TableName, progress: Progress) -> TableEntry:
        table = opened.table
        folder = f"{self._folder}/{manifests.table_folder(name.database, name.schema, name.table, table.oid)}"
        entries: list[RangeFile] = []
        for step in await self._plan(opened):
            if isinstance(step, RangeFile):
                entries.append(step)
                continue
            parts = write_range(self._capture, opened, step, local, f"{table.oid}-{len(entries)}", self._pace.pause)
            while (made := await self._thread.run(_next, parts)) is not None:
                entries.append(await self._put_range(made, f"{folder}/{len(entries):05}-{self._attempt}"))
                self._rows += made.entry.rows
                self._bytes += made.entry.stored_bytes
                self._report(progress)
                await self._remember(_table_entry(opened, name, entries))
        return _table_entry(opened, name, entries)

    async def _plan(self, table: OpenTable) -> list[Rewrite | RangeFile]:
        """The ranges to write, and those to reuse from the previous checkpoint."""
        options = self._options
        old, lsn = self._previous.get(table.table.oid, (None, 0))
        if old is None or not old.files or old.shape != table.shape or not await self._all_there(old):
            return whole_table(options.target_rows, options.target_bytes)
        looking = look_at(self._capture, table.table.storage_id, old.files, lsn, self._pace.pause)
        found = []
        while (item := await self._thread.run(_next, looking)) is not None:
            found.append(item)
        return plan(found, options.target_rows, options.target_bytes)

    async def _all_there(self, table: TableEntry) -> bool:
        """Whether all files of the previous checkpoint are in the store, with their sizes."""
        for item in table.files:
            for file in (item.file, item.exact):
                if file is not None:
                    folder = file.name.rpartition("/")[0]
                    if folder not in self._sizes:
                        prefix = f"{self._root}{folder}/"
                        self._sizes[folder] = {info.name: info.size async for info in self._files.list(prefix)}
                    if self._sizes[folder].get(self._root + file.name) != file.bytes:
                        return False
        return True

    async def _write_others(self, local: str, others: list[int]) -> tuple[StoredFile | None, int]:
        """Writes the keys of storage ids that the catalog does not have, unchanged."""
        if not others:
            return None, 0
        path = os.path.join(local, "other")

        def write() -> tuple[StoredFile, int]:
            rows = 0
            with pq.ParquetWriter(path, OTHER_SCHEMA, compression=COMPRESSION) as file:
                for storage_id in others:
                    for keys, values in self._capture.batches(storage_id, pause=self._pace.pause):
                        self._pace.pause()
                        file.write_batch(pa.RecordBatch.from_arrays([keys, values], schema=OTHER_SCHEMA))
                        rows += len(keys)
            return self._store(path, f"{self._folder}/other-{self._attempt}.parquet"), rows

        stored, rows = await self._thread.run(write)
        if not rows:
            return None, 0
        await self._put(stored, path)
        return stored, rows

    def _store(self, path: str, name: str) -> StoredFile:
        return StoredFile(name, os.path.getsize(path), file_crc(path))

    def _check_stopped(self) -> None:
        if self._stopped:
            raise _Stopped

    def _report(self, progress: Progress) -> None:
        if self._progress is not None:
            self._progress(replace(progress, rows=self._rows, bytes=self._bytes))

    # --- the store -----------------------------------------------------------------------------------------------

    async def _put_range(self, made: Made, name: str) -> RangeFile:
        """Uploads a range in the background, after the previous upload has ended."""
        entry = made.entry
        file = replace(entry.file, name=f"{name}.parquet")
        exact = None if entry.exact is None else replace(entry.exact, name=f"{name}.exact")
        await self._wait_for_upload()
        self._upload = asyncio.create_task(self._put_files(made, file, exact))
        return replace(entry, file=file, exact=exact)

    async def _put_files(self, made: Made, file: StoredFile, exact: StoredFile | None) -> None:
        await self._put(file, made.path)
        if exact is not None:
            assert made.exact_path is not None
            await self._put(exact, made.exact_path)

    async def _put(self, file: StoredFile, path: str) -> None:
        self._uploaded.append(file.name)
        await self._files.put_file(self._root + file.name, path)
        os.unlink(path)

    async def _wait_for_upload(self) -> None:
        upload, self._upload = self._upload, None
        if upload is not None:
            try:
                await upload
            finally:
                upload.cancel()

    async def _publish(self, made: Manifest) -> Manifest:
        """Puts the manifest. After that has started, nothing is removed unless it has surely failed, because a
        checkpoint without its files must not be found."""
        name, data = self._root + made.name(), manifests.encode(made)
        uploaded, self._uploaded = self._uploaded, []
        try:
            await self._files.put(name, data)
        except Exception as error:
            try:
                found = manifests.decode(await self._files.get(name))
            except Exception:
                raise error from None
            if found == made:
                return made
            self._uploaded = uploaded
            self._check_history(found, made.entry_hash)
            await self._clean_up()  # another node was faster: the same state in other files
            return found
        return made

    def _check_history(self, found: Manifest, entry_hash: str) -> None:
        """Raises 55000 if the checkpoint at this LSN belongs to another tablespace or another history."""
        if found.tablespace != self._capture.tablespace.hex() or found.entry_hash != entry_hash:
            raise SqlError("55000", f"there is a checkpoint of another history at LSN {found.lsn}")

    async def _clean_up(self) -> None:
        """Removes the uploaded files, as far as the store allows."""
        if self._upload is not None:
            self._upload.cancel()
            await asyncio.wait([self._upload])
            self._upload = None
        names, self._uploaded = self._uploaded, []
        with suppress(Exception):
            async with asyncio.timeout(CLEAN_UP_SECONDS):
                for name in names:
                    await self._files.delete(self._root + name)


def _next(items: Iterator[Any]) -> Any:
    return next(items, None)


def _table_entry(opened: OpenTable, name: TableName, entries: Sequence[RangeFile]) -> TableEntry:
    """A table's entry in the manifest, with these ranges."""
    table = opened.table
    files = tuple(replace(entry, low="") if place == 0 else entry for place, entry in enumerate(entries))
    return TableEntry(
        table.oid,
        name.database,
        name.schema,
        name.table,
        table.storage_id,
        opened.layout,
        opened.shape,
        opened.columns,
        tuple(table.column_by_number(number).name for number in table.key_columns),
        opened.row_number,
        table.persistence,
        files,
    )
