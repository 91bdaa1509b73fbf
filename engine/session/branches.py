"""CREATE DATABASE ... FROM ... AS OF, or IN BACKUP: the parent at that moment, for engine/ddl/branches.py."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa

from catalog.errors import SqlError, not_supported
from catalog.schema import Catalog
from engine.ddl.objects import parent_of
from engine.past.nodes import PastNode
from engine.past.replay import open_still
from engine.session import past
from engine.sql import ast
from engine.storage.columns import Column, binary_array
from engine.storage.keys import prefix_range, storage_prefix
from engine.storage.newest import NewestRows

if TYPE_CHECKING:
    from engine.session.session import Session
    from engine.storage.tablespace import Tablespace

COPY_SLICE = 4096  # rows that are read in one turn of the event loop


class Recent:
    """engine.ddl.branches.Then of a moment that memory keeps. Close it."""

    stored_here = True

    def __init__(self, node: PastNode, space: Tablespace, catalog: Catalog) -> None:
        self._node = node
        self._space = space
        self.catalog = catalog

    def get(self, key: bytes) -> bytes | None:
        return self._node.store.current.get(key)

    def changed(self, storage_id: int) -> Iterable[bytes]:
        space = self._space
        if self._node.lsn < space.readable_from:
            raise SqlError(
                "72000",
                f"what has changed since LSN {self._node.lsn} is no longer in memory, and a branch needs it",
                hint=f"The oldest that can be branched is LSN {space.readable_from}; past_window says how long that "
                "is. shoal restore makes a database of any moment.",
            )
        return {key for _, key in space.changed_since(storage_id, self._node.lsn, space.sequenced_lsn)}

    async def batches(self, storage_id: int) -> AsyncIterator[tuple[Column, Column]]:
        rows = self._node.store.current.scan(*prefix_range(storage_prefix(storage_id)))
        while part := list(islice(rows, COPY_SLICE)):
            keys, values = zip(*part, strict=True)
            yield binary_array(keys), pa.array(values, pa.binary())
            await asyncio.sleep(0)

    def close(self) -> None:
        self._node.close()


async def branch_moment(session: Session, statement: ast.CreateDatabaseStmt) -> Recent:
    """The moment of the statement. Raises what AS OF raises, 3D000 for a parent that was not there."""
    assert statement.as_of is not None
    name = parent_of(statement)
    assert name is not None
    node = await past.node_of(session, statement.as_of)
    try:
        databases = node.shared_catalog.databases
        if name not in databases:
            raise SqlError("3D000", f'database "{name}" did not exist at LSN {node.lsn}')
        return Recent(node, session.present.store.of(0), node.catalogs[databases[name]])
    except BaseException:
        node.close()
        raise


# ---- out of a backup ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Restoring:
    """How far the database is that is being copied out of a backup."""

    step: str = "looking at the backup"
    done: int = 0
    total: int = 0

    def report(self, step: str, done: int, total: int) -> None:
        self.step, self.done, self.total = step, done, total


class InBackup:
    """engine.ddl.branches.Then of a database in a backup, over a directory that is filled with its state. Close it."""

    stored_here = False

    def __init__(
        self, space: Tablespace, node: PastNode, database: str, status: Restoring, ended: Callable[[], object]
    ) -> None:
        """`ended` is called when it is closed. Raises 3D000."""
        self._space = space
        self._node = node
        self._status = status
        self._ended = ended
        databases = node.shared_catalog.databases
        if database not in databases:
            there = ", ".join(sorted(databases))
            message = f'the backup has no database "{database}" at LSN {node.lsn}'
            raise SqlError("3D000", message, hint=f"It has {there}.")
        self.catalog = node.catalogs[databases[database]]
        self._copied = 0

    def get(self, key: bytes) -> bytes | None:
        return self._space.current.get(key)

    def changed(self, storage_id: int) -> Iterable[bytes]:
        """Nothing leans on what is not stored here."""
        return ()

    async def batches(self, storage_id: int) -> AsyncIterator[tuple[Column, Column]]:
        async for keys, values in still_batches(self._space, storage_id):
            yield keys, values
            self._copied += len(keys)
            self._status.report("rows", self._copied, 0)

    def close(self) -> None:
        self._space.close()
        self._ended()


async def still_batches(space: Tablespace, storage_id: int) -> AsyncIterator[tuple[Column, Column]]:
    """Everything under a storage id of a tablespace in which nothing is written, as columns of keys and values."""
    rows = await NewestRows.open(space, storage_id)
    try:
        found = rows.batches()
        while (part := await asyncio.to_thread(next, found, None)) is not None:
            yield part
    finally:
        rows.close()


async def in_backup(session: Session, statement: ast.CreateDatabaseStmt) -> InBackup:
    """The parent in the backup that the statement names, at its moment. Everything is verified on the way; a statement
    for the same name that was broken off is gone on from. Raises 55006, 0A000, 3D000, and what reading one does."""
    node, name = session.node, statement.name
    backups, database = node.backups, parent_of(statement)
    if backups is None:
        not_supported("restoring a database out of a backup on this server")
    assert statement.backup is not None and database is not None
    moment = past.Moment() if statement.as_of is None else past.moment_of(session, statement.as_of)
    if name in node.restores:
        raise SqlError("55006", f'database "{name}" is being restored already', hint="Wait until that is done.")
    status = node.restores[name] = Restoring()
    try:
        for known in backups.filled():
            if known in node.shared_catalog.databases:  # the server had no time to remove it
                await asyncio.to_thread(backups.let_go, known)
        path = await backups.fill(statement.backup, moment.lsn, moment.time, name, status.report)
        space = await asyncio.to_thread(open_still, path, asyncio.get_running_loop(), _ignore)
        try:
            found = PastNode(space, node.columnar, node, space.durable_lsn, _nothing)
            found.read_catalogs()
            text = f'database "{name}" is "{database}" as of LSN {found.lsn}'
            session.notices.append(SqlError("00000", text, severity="NOTICE"))
            return InBackup(space, found, database, status, partial(node.restores.pop, name, None))
        except BaseException:
            space.close()
            raise
    except BaseException:
        del node.restores[name]
        raise


def _ignore(_: BaseException) -> None:
    return


def _nothing() -> None:
    return
