"""CREATE DATABASE ... FROM ... AS OF, or IN BACKUP: the parent at that moment, for engine/ddl/branches.py."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa

from catalog.catalog import Catalog
from catalog.errors import SqlError, not_supported
from engine.bulk.branch_preservation import add_differences
from engine.bulk.thread import BulkThread
from engine.checkpoint.capture import Capture
from engine.ddl import branches
from engine.ddl.objects import parent_of
from engine.node.backups import Restoring
from engine.past.far import join_spaces, route
from engine.past.nodes import PastNode
from engine.past.replay import open_still
from engine.sql import ast
from engine.statements import as_of as past
from engine.storage.branch_storage import kept_id
from engine.storage.columns import Column, binary_array
from engine.storage.keys import prefix_range, storage_prefix
from engine.storage.moments import Lsn, lsn_in
from engine.storage.newest import NewestRows
from engine.storage.stores import AnyStore, Stores
from engine.storage.tablespace import Tablespace

if TYPE_CHECKING:
    from engine.session.session import Session
    from engine.storage.runs import BulkRun

COPY_SLICE = 4096  # rows that one turn of the event loop reads


class Recent:
    """engine.ddl.branches.Then of a moment in memory. Close it."""

    prepared: Mapping[int, int] = {}

    def __init__(self, node: PastNode, present: AnyStore, catalog: Catalog, stored_here: bool) -> None:
        self._node = node
        self._present = present
        self.catalog = catalog
        self.stored_here = stored_here

    def get(self, key: bytes) -> bytes | None:
        return self._node.store.current.get(key)

    def get_changed(self, storage_id: int) -> Iterable[bytes]:
        return _get_changed(self._present.of(storage_id), storage_id, self._node.at)

    async def batches(self, storage_id: int) -> AsyncIterator[tuple[Column, Column]]:
        rows = self._node.store.current.scan(*prefix_range(storage_prefix(storage_id)))
        while part := list(islice(rows, COPY_SLICE)):
            keys, values = zip(*part, strict=True)
            yield binary_array(keys), pa.array(values, pa.binary())
            await asyncio.sleep(0)

    def take_runs(self) -> list[BulkRun]:
        return []

    def close(self) -> None:
        self._node.close()


class Far:
    """engine.ddl.branches.Then of a moment that memory does not keep, from a directory with its state
    (engine/past/far.py).

    It finds the changes since the moment by comparing that state with the present one, in columns, while writers go on.
    It holds a snapshot of the beginning, so that memory keeps later changes. The differences are in a run in each
    tablespace, which the statement commits: the former rows that the parent keeps for the branch."""

    def __init__(self, node: PastNode, still: AnyStore, present: AnyStore, catalog: Catalog, stored_here: bool) -> None:
        self._node = node
        self._still = still
        self._present = present
        self._hold = present.snapshot()
        self._runs: list[BulkRun] = []
        self.catalog = catalog
        self.stored_here = stored_here
        self.prepared: dict[int, int] = {}

    async def compare(self, storage_ids: Mapping[int, int]) -> None:
        """Prepares storage ids (by those that they lean on). Raises errors of reading and writing files."""
        by_space: dict[Tablespace, list[tuple[int, int]]] = {}
        for old, new in storage_ids.items():
            by_space.setdefault(self._present.of(old), []).append((new, old))
        thread = BulkThread("branch")
        try:
            for space, pairs in by_space.items():
                await self._compare_in(space, sorted(pairs), thread)
        finally:
            thread.close()
        self.prepared = dict(storage_ids)

    async def _compare_in(self, space: Tablespace, pairs: Sequence[tuple[int, int]], thread: BulkThread) -> None:
        """For one tablespace: (leaning storage id, its base)."""
        then, now = Capture.take(self._still.of(pairs[0][1])), Capture.take(space)
        for capture in (then, now):
            thread.at_end(capture.close)
        writer = space.new_run()
        try:
            for capture in (then, now):
                await thread.run(capture.resolve)
                capture.release()
            for new, old in pairs:
                kept = storage_prefix(kept_id(new))
                await thread.run(add_differences, then.batches(old), now.batches(old), kept, writer)
            if writer.rows:
                self._runs.append(await thread.run(writer.finish))
            else:
                thread.at_end(writer.discard)
        except BaseException:
            for capture in (then, now):
                capture.release()
            thread.at_end(writer.discard)
            raise

    def get(self, key: bytes) -> bytes | None:
        return self._still.current.get(key)

    def get_changed(self, storage_id: int) -> Iterable[bytes]:
        return _get_changed(self._present.of(storage_id), storage_id, self._hold.lsn)

    async def batches(self, storage_id: int) -> AsyncIterator[tuple[Column, Column]]:
        async for part in still_batches(self._still, storage_id):
            yield part

    def take_runs(self) -> list[BulkRun]:
        """The runs that the statement commits."""
        runs, self._runs = self._runs, []
        return runs

    def close(self) -> None:
        for run in self._runs:
            run.discard()
        self._hold.close()
        self._node.close()


def _get_changed(space: Tablespace, storage_id: int, since: Lsn) -> set[bytes]:
    """The keys that were written under a storage id after a moment, as of the sequenced state."""
    return {key for _, key in space.changed_since(storage_id, lsn_in(space.slot, since), space.sequenced_lsn)}


async def branch_moment(session: Session, statement: ast.CreateDatabaseStmt) -> Recent | Far:
    """The moment of the statement. Raises the errors of AS OF, 3D000 for a parent that did not exist."""
    assert statement.as_of is not None
    name = parent_of(statement)
    assert name is not None
    node = await past.node_of(session, statement.as_of)
    try:
        databases = node.shared_catalog.databases
        if name not in databases:
            raise SqlError("3D000", f'database "{name}" did not exist at LSN {node.lsn}')
        catalog, present = node.catalogs[databases[name]], session.present.store
        now = session.present.catalogs.get(databases[name])
        if not isinstance(node.store, Tablespace | Stores):
            return Recent(node, present, catalog, now is not None)
        far = Far(node, node.store, present, catalog, now is not None)
    except BaseException:
        node.close()
        raise
    try:
        if now is not None:
            await far.compare(_leaning_ids(session, catalog, now))
    except BaseException:
        far.close()
        raise
    return far


def _leaning_ids(session: Session, then: Catalog, now: Catalog) -> dict[int, int]:
    """New storage ids for a branch, by those of the parent that they lean on."""
    node = session.present
    alive, newest = branches.storage_of(now, now.database), node.store.of(0).newest
    found = {}
    for old, place in branches.storage_of(then, then.database).items():
        orphan = newest(branches.orphan_key(old))
        if old in alive or (orphan is not None and orphan[1] is not None):
            found[old] = node.new_leaning_id(place)
    return found


# ---- from a backup --------------------------------------------------------------------------------------------------


class InBackup:
    """engine.ddl.branches.Then of a database in a backup, over a directory that is filled with its state. Close it."""

    stored_here = False
    prepared: Mapping[int, int] = {}

    def __init__(self, node: PastNode, database: str, status: Restoring, ending: ExitStack) -> None:
        """Takes over the work at the end. Raises 3D000."""
        self._store: AnyStore = node.store
        self._status = status
        databases = node.shared_catalog.databases
        if database not in databases:
            there = ", ".join(sorted(databases))
            message = f'the backup has no database "{database}" at LSN {node.lsn}'
            raise SqlError("3D000", message, hint=f"It has {there}.")
        self.catalog = node.catalogs[databases[database]]
        self._copied = 0
        self._ending = ending.pop_all()

    def get(self, key: bytes) -> bytes | None:
        return self._store.current.get(key)

    def get_changed(self, storage_id: int) -> Iterable[bytes]:
        """Nothing leans on rows that are not stored here."""
        return ()

    async def batches(self, storage_id: int) -> AsyncIterator[tuple[Column, Column]]:
        async for keys, values in still_batches(self._store, storage_id):
            yield keys, values
            self._copied += len(keys)
            self._status.report("rows", self._copied, 0)

    def take_runs(self) -> list[BulkRun]:
        return []

    def close(self) -> None:
        self._ending.close()


async def still_batches(store: AnyStore, storage_id: int) -> AsyncIterator[tuple[Column, Column]]:
    """All rows of a storage id without writers, as columns of keys and values."""
    rows = await NewestRows.open(store.of(storage_id), storage_id)
    try:
        found = rows.batches()
        while (part := await asyncio.to_thread(next, found, None)) is not None:
            yield part
    finally:
        rows.close()


async def in_backup(session: Session, statement: ast.CreateDatabaseStmt) -> InBackup:
    """The parent in the backup of the statement, at its moment. All data are verified. Continues an interrupted
    statement for the same name. Raises 55006, 0A000, 3D000, and errors of reading a backup."""
    node, name = session.node, statement.name
    backups, database = node.backups, parent_of(statement)
    if backups is None:
        not_supported("restoring a database out of a backup on this server")
    assert statement.backup is not None and database is not None
    moment = past.Moment() if statement.as_of is None else await past.moment_of(session, statement.as_of)
    if name in node.restores:
        raise SqlError("55006", f'database "{name}" is being restored already', hint="Wait until that is done.")
    with ExitStack() as ending:
        status = node.restores[name] = Restoring()
        ending.callback(node.restores.pop, name)
        for known in backups.get_filled():
            if known in node.shared_catalog.databases:  # the server was stopped before it removed it
                await asyncio.to_thread(backups.let_go, known)
        paths = await backups.fill(statement.backup, moment.lsn, moment.time, name, status.report)
        spaces = []
        for path in paths:
            spaces.append(await asyncio.to_thread(open_still, path, asyncio.get_running_loop()))
            ending.callback(spaces[-1].close)
        store = spaces[0] if len(spaces) == 1 else join_spaces(spaces)
        found = PastNode(store, node.columnar, node, store.durable_lsn)
        found.read_catalogs()
        route(found, {space.tablespace_id: space for space in spaces})
        text = f'database "{name}" is "{database}" as of LSN {found.lsn}'
        session.notices.append(SqlError("00000", text, severity="NOTICE"))
        return InBackup(found, database, status, ending)
