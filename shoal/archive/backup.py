"""Writes backups of a running node into a store of objects, and restores databases from backups.

    1. the log after the last backup is held
    2. a checkpoint of every tablespace, which shares files with the newest existing one
    3. the log after the archived part, or after the checkpoints, up to the end of all checkpoints
    4. the record of the backup, which makes it exist

So a backup is never older than its end. An interrupted one leaves no record; the next one continues its archived log
and reuses its checkpoint files (engine/checkpoint/write.py).
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

import orjson

from catalog.errors import SqlError
from catalog.functions.system import RELEASE
from catalog.schema import Table
from engine.checkpoint import Described, EntryMark, Manifest, Options, Progress, write_checkpoint
from engine.cluster_view import spaces_of
from engine.storage.edits import runs_of
from replication.interface import (
    ChangelogStore,
    ObjectDamagedError,
    ObjectExistsError,
    StoreFullError,
    StoreUnavailableError,
)
from replication.stores import open_store
from shoal.archive.archived_log import bodies_of, entries_of
from shoal.archive.contents import ArchivedTablespace, BackupContents, read_contents
from shoal.archive.layout import (
    FORMAT,
    OWNER,
    BackupOwner,
    BackupRecord,
    PieceName,
    TablespaceRecord,
    bulk_name,
    encode,
    piece_name,
    record_name,
)
from shoal.archive.log_source import LogSource
from shoal.archive.restore import RestoreProgress, RestoreTarget, fill, plan_restore

if TYPE_CHECKING:
    from engine.node.node import Node
    from engine.storage.tablespace import Tablespace
    from replication.local import EntryRun

TIMEOUT = 60.0  # seconds for a call of the store


@dataclass(slots=True)
class BackupStatus:
    """The progress of the running backup, for shoal_backup_progress()."""

    step: str = "looking"  # looking, checkpoint, changelog
    tablespace: str = ""
    done: int = 0  # bytes
    total: int = 0

    def text(self) -> str:
        return orjson.dumps(
            {"step": self.step, "tablespace": self.tablespace, "done": self.done, "total": max(self.total, self.done)}
        ).decode()


@dataclass(slots=True)
class _BackupTablespace:
    """A tablespace that is being written into the store."""

    name: str
    space: Tablespace
    source: LogSource
    archived: ArchivedTablespace
    pieces: list[PieceName]
    newest: Manifest | None  # the checkpoint that is there
    manifest: Manifest | None = None

    @property
    def identity(self) -> str:
        return self.archived.tablespace

    @property
    def end(self) -> int:
        """The LSN up to which the store has everything, 0 for nothing."""
        last = max((piece.last for piece in self.pieces), default=0)
        return max(last, 0 if self.newest is None else self.newest.lsn)


class NodeBackups:
    """The backups that a node makes, one at a time, and those from which it restores databases. `source` returns the
    changelog of a tablespace, by id; `scratch` and `restores` are local directories that are created when they are
    needed."""

    def __init__(self, node: Node, source: Callable[[bytes], LogSource], scratch: str, restores: str) -> None:
        self._node = node
        self._source = source
        self._scratch = scratch
        self._restores = restores
        self._status: BackupStatus | None = None

    def progress(self) -> str | None:
        """The progress of the running backup, as JSON; None without one."""
        return None if self._status is None else self._status.text()

    async def write(self, url: str) -> int:
        """Makes a backup; returns pg_default's LSN up to which everything can be restored from it.

        Raises 22023 for an unusable destination, 55006 while another one is made, 55000 for a store with backups of
        another database, 58030 when the store cannot be written, 53100 when it is full.
        """
        if self._status is not None:
            raise SqlError("55006", "another backup is being made", hint="Wait until it is done.")
        self._status = BackupStatus()
        try:
            store = open_store(url, timeout=TIMEOUT)
            try:
                return await _Backup(self._node, store, self._source, self._scratch, self._status).run()
            finally:
                await store.close()
        except StoreFullError as error:
            raise SqlError("53100", f"the backup's store is full: {error}") from error
        except (StoreUnavailableError, ObjectDamagedError) as error:
            raise SqlError("58030", f"the backup could not be written: {error}") from error
        finally:
            self._status = None

    # --- databases out of a backup -------------------------------------------------------------------------------

    async def fill(self, url: str, lsn: int | None, time: int | None, name: str, report: RestoreProgress) -> list[str]:
        """Directories with the tablespaces in the backups at a URL, pg_default first, as of an LSN or a time
        (microseconds since 2000-01-01 UTC), or without either of the newest backup. They stay until `let_go` of the
        same name, so that an interrupted call can continue.

        Raises 22023 if there is no backup or none reaches the moment, XX001 for damage, 58030 when the store cannot be
        read or the directory not be written.
        """
        directory = self._place_of(name)
        try:
            store = open_store(url, timeout=TIMEOUT)
            try:
                return await fill(
                    await plan_restore(await read_contents(store), RestoreTarget(lsn, time)), directory, report
                )
            finally:
                await store.close()
        except ObjectDamagedError as error:
            raise SqlError("XX001", f"the backup is damaged: {error}") from error
        except (StoreUnavailableError, OSError) as error:
            raise SqlError("58030", f"the backup could not be restored: {error}") from error

    def let_go(self, name: str) -> None:
        """Removes the directories of `fill` for a name."""
        shutil.rmtree(self._place_of(name), ignore_errors=True)

    def get_filled(self) -> list[str]:
        """The names for which there are directories."""
        with suppress(FileNotFoundError):
            return [unquote(folder) for folder in os.listdir(self._restores)]
        return []

    def _place_of(self, name: str) -> str:
        return os.path.join(self._restores, quote(name, safe=""))


class _Backup:
    """One backup."""

    def __init__(
        self,
        node: Node,
        store: ChangelogStore,
        source: Callable[[bytes], LogSource],
        scratch: str,
        status: BackupStatus,
    ) -> None:
        self._node = node
        self._store = store
        self._source = source
        self._scratch = scratch
        self._status = status
        self._holder = f"backup {secrets.token_hex(4)}"
        self._written = 0

    async def run(self) -> int:
        found = await read_contents(self._store)
        spaces = [await self._read_tablespace(name, space) for name, space in spaces_of(self._node).items()]
        await self._claim_store(found, spaces[0])
        try:
            for item in spaces:
                archived = self._archived_upto(item)
                item.source.hold(self._holder, item.space.durable_lsn if archived is None else archived)
            for item in spaces:
                item.manifest = await self._write_checkpoint(item)
            ends = [
                (item.space.durable_lsn, item.source.entry_mark(item.space.durable_lsn)) for item in spaces
            ]  # one moment
            records = [await self._archive_log(item, lsn, mark) for item, (lsn, mark) in zip(spaces, ends, strict=True)]
        finally:
            for item in spaces:
                item.source.hold(self._holder, None)
        created = max(self._node.clock(), found.records[-1].created + 1 if found.records else 0)
        await self._store.put(
            record_name(created), encode(BackupRecord(FORMAT, created, RELEASE, self._written, tuple(records)))
        )
        return records[0].lsn

    async def _read_tablespace(self, name: str, space: Tablespace) -> _BackupTablespace:
        archived = ArchivedTablespace(self._store, space.tablespace_id.hex())
        lsns = await archived.checkpoints()
        newest = await archived.manifest(lsns[-1]) if lsns else None
        return _BackupTablespace(
            name, space, self._source(space.tablespace_id), archived, await archived.pieces(), newest
        )

    async def _claim_store(self, found: BackupContents, first: _BackupTablespace) -> None:
        """Records the owner of these backups, or finds that they belong to another database."""
        if found.owner is None:
            owner = BackupOwner(FORMAT, first.identity, self._node.clock())
            await self._store.put(OWNER, encode(owner))
        elif found.owner.tablespace != first.identity:
            raise SqlError(
                "55000",
                f"{self._store.url} holds the backups of another database",
                hint="Choose another place. A restored database is not the database that was backed up.",
            )
        if first.end > first.space.durable_lsn:
            raise SqlError("55000", f"{self._store.url} holds LSN {first.end}, this database {first.space.durable_lsn}")

    def _archived_upto(self, item: _BackupTablespace) -> int | None:
        """The LSN up to which the log is archived, if the node's log still continues from there."""
        oldest = item.source.oldest()
        if (item.pieces or item.newest is not None) and oldest is not None and oldest <= item.end + 1:
            return item.end
        return None

    # --- checkpoints ---------------------------------------------------------------------------------------------

    async def _write_checkpoint(self, item: _BackupTablespace) -> Manifest:
        status = self._status
        status.step, status.tablespace, status.done = "checkpoint", item.name, 0
        status.total = sum(item.space.sizes_of(table.storage_id for table in self._tables(item)).values())

        def report(progress: Progress) -> None:
            status.done = progress.bytes

        os.makedirs(self._scratch, 0o700, exist_ok=True)
        manifest = await write_checkpoint(
            item.space,
            self._store,
            item.identity,
            self._scratch,
            item.source.entry_mark,
            described=self._describe(item),
            previous=item.newest,
            progress=report,
            options=Options(resumable=True),
        )
        if item.newest is None or manifest.folder != item.newest.folder:  # else it is the one that is there
            self._written += sum(file.bytes for file in manifest.files() if file.name.startswith(manifest.folder))
        return manifest

    def _describe(self, item: _BackupTablespace) -> Described | None:
        """The catalog's description of a tablespace other than pg_default."""
        catalog = self._node.shared_catalog
        if item.name == "pg_default":
            return None
        return Described(catalog.tablespaces[item.name], catalog.objects.values())

    def _tables(self, item: _BackupTablespace) -> list[Table]:
        catalog = self._node.shared_catalog
        place = catalog.tablespaces[item.name]
        return [found for found in catalog.objects.values() if isinstance(found, Table) and found.tablespace == place]

    # --- the changelog -------------------------------------------------------------------------------------------

    async def _archive_log(self, item: _BackupTablespace, upto: int, mark: EntryMark) -> TablespaceRecord:
        """Archives the log up to an LSN; `mark` is the entry there."""
        assert item.manifest is not None
        lsn = item.manifest.lsn
        archived = self._archived_upto(item)
        after = lsn if archived is None else archived
        self._status.step, self._status.tablespace, self._status.done = "changelog", item.name, 0
        known = b"" if archived is None else await self._last_hash(item)
        async for piece in item.source.entry_runs(after, upto):
            if known and piece.previous != known:
                raise SqlError(
                    "55000", f"{self._store.url} holds another history of this database: choose another place"
                )
            await self._put_piece(item, piece)
            known = piece.hash
        return TablespaceRecord(item.name, item.identity, lsn, after, upto, mark.commit_time, mark.hash)

    async def _last_hash(self, item: _BackupTablespace) -> bytes:
        """The hash of the last entry in the store, or of the state in the store; b"" if unknown."""
        if item.newest is not None and item.newest.lsn == item.end:
            return bytes.fromhex(item.newest.entry_hash)
        last = max(item.pieces, key=lambda piece: piece.last)
        name = piece_name(item.identity, last.first, last.last)
        data = await self._store.get(name)
        *_, entry = await asyncio.to_thread(
            lambda: list(entries_of(data, name, last.first, last.last, bytes.fromhex(item.identity)))
        )
        return entry.hash

    async def _put_piece(self, item: _BackupTablespace, piece: EntryRun) -> None:
        name = piece_name(item.identity, piece.first, piece.last)
        bodies = bodies_of(piece.data)
        runs = await asyncio.to_thread(lambda: [run for body in bodies for run in runs_of(body)])
        for run in runs:
            with suppress(ObjectExistsError):  # of a backup that was broken off
                await item.source.put_bulk(run.name, self._store, bulk_name(item.identity, run.name))
        await self._store.put(name, piece.data)
        self._written += len(piece.data)
        self._status.done += len(piece.data)
