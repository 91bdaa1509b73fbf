"""Copies stored content of another moment, or of a backup, under storage ids of this node, without decoding rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.bulk.thread import BulkThread
from engine.ddl.context import CopyStorage
from engine.storage.branch_storage import moved_keys
from engine.storage.columns import Column
from engine.storage.keys import storage_prefix
from engine.storage.runs import BulkRunWriter

if TYPE_CHECKING:
    from engine.bulk.session import BulkSession
    from engine.storage.tablespace import Tablespace
    from engine.txn.transaction import Transaction

RUN_BYTES = 1 << 30  # of a run, about


@dataclass(slots=True)
class _Begun:
    """A run that is being written."""

    writer: BulkRunWriter
    bytes: int = 0


class _Runs:
    """The runs of one copy, for each tablespace. There are as few as possible, because a read searches all runs that
    are not flushed."""

    def __init__(self, transaction: Transaction, thread: BulkThread) -> None:
        self._transaction = transaction
        self._thread = thread
        self._writers: dict[Tablespace, _Begun] = {}

    async def add(self, new: int, keys: Column, values: Column) -> None:
        """Adds keys and values of another storage id."""
        space = self._transaction.tablespace(new)
        begun = self._writers.get(space)
        if begun is not None and begun.bytes >= RUN_BYTES:
            await self._finish(space)
            begun = None
        if begun is None:
            begun = self._writers[space] = _Begun(space.new_run())
        begun.bytes += keys.nbytes + values.nbytes
        await self._thread.run(_add, begun.writer, storage_prefix(new), keys, values)

    async def finish(self) -> None:
        for space in list(self._writers):
            await self._finish(space)

    async def _finish(self, space: Tablespace) -> None:
        self._transaction.runs.append(await self._thread.run(self._writers[space].writer.finish))
        del self._writers[space]

    def discard(self) -> None:
        """Discards the unfinished runs."""
        for begun in self._writers.values():
            self._thread.at_end(begun.writer.discard)


async def copy_storage(session: BulkSession, job: CopyStorage, thread: BulkThread) -> None:
    """Copies the storage ids. Raises errors of reading and writing files."""
    assert session.transaction is not None
    runs = _Runs(session.transaction, thread)
    try:
        for old, new in job.storage_ids:
            async for keys, values in job.then.batches(old):
                if len(keys):
                    await runs.add(new, keys, values)
        await runs.finish()
    except BaseException:
        runs.discard()
        raise


def _add(writer: BulkRunWriter, prefix: bytes, keys: Column, values: Column) -> None:
    writer.add(moved_keys(keys, prefix), values)
