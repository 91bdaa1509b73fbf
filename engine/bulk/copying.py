"""What was stored at another moment, or in a backup, copied under storage ids of this node: no row is looked into."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.bulk.thread import BulkThread
from engine.ddl.context import CopyStorage
from engine.storage.columns import Column
from engine.storage.keys import storage_prefix
from engine.storage.leaning import moved_keys
from engine.storage.runs import BulkRunWriter

if TYPE_CHECKING:
    from engine.session.session import Session
    from engine.txn.transaction import Transaction

RUN_BYTES = 1 << 30  # of a run, about


class _Runs:
    """The runs of one copy: as few as may be, because a read looks through all that are not flushed."""

    def __init__(self, transaction: Transaction, thread: BulkThread) -> None:
        self._transaction = transaction
        self._thread = thread
        self._writer: BulkRunWriter | None = None
        self._bytes = 0

    async def add(self, new: int, keys: Column, values: Column) -> None:
        """Keys and values of another storage id."""
        if self._writer is not None and self._bytes >= RUN_BYTES:
            await self.finish()
        if self._writer is None:
            self._writer = self._transaction.tablespace(new).new_run()
        self._bytes += keys.nbytes + values.nbytes
        await self._thread.run(_add, self._writer, storage_prefix(new), keys, values)

    async def finish(self) -> None:
        if self._writer is not None:
            self._transaction.runs.append(await self._thread.run(self._writer.finish))
            self._writer, self._bytes = None, 0

    def discard(self) -> None:
        """What has not become a run."""
        if self._writer is not None:
            self._thread.at_end(self._writer.discard)


async def copy_storage(session: Session, job: CopyStorage, thread: BulkThread) -> None:
    """Raises what reading and writing files raises."""
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
