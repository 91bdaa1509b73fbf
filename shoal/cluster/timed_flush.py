"""Flushes memtables at intervals, in addition to flushes of full memtables.

At a start, a node reads entries that were not flushed from the changelog, one object at a time. With few clients, a
full memtable corresponds to tens of thousands of objects, and after a crash of all nodes no node could serve clients
until they are applied. In addition, a ledger is dropped only when every replica has flushed its entries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from engine.storage.tablespace import Tablespace
from replication.background import BackgroundTask

ENTRIES = 8000
"""From so many on that are not in the tables. Below that nothing is flushed: a checkpoint finds what has changed since
the one before in memory, and need not read all rows."""

INTERVAL = 10.0  # seconds between two checks: many small commits fill a memtable in about this time


class TimedFlush(BackgroundTask):
    def __init__(self, tablespaces: Callable[[], Iterable[Tablespace]], interval: float = INTERVAL) -> None:
        self._tablespaces = tablespaces
        self._interval = interval

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            for tablespace in list(self._tablespaces()):
                left = tablespace.durable_lsn - tablespace.flushed_lsn
                if left >= ENTRIES and tablespace.flushes_freely:
                    tablespace.flush()
