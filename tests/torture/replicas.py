"""Stopped nodes' directories, brought to the end of the log in this process and compared; and the log itself, read from
its beginning by a replica that begins with nothing."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Callable
from dataclasses import dataclass, field

from engine.checkpoint.digest import Digest, digest
from engine.storage.tablespace import Tablespace
from replication.interface import LogEntry
from replication.log.bulk import BulkFiles
from replication.log.follower import Follower
from replication.log.ledger_object import Position
from replication.stores import open_store
from replication.zookeeper import open_coordination
from shoal.cluster.adapter import FollowerLog


@dataclass
class Replayed:
    """`entries`: (LSN, epoch) of those that were applied."""

    digest: Digest
    entries: list[tuple[int, int]] = field(default_factory=list)


async def replay(url: str, store_url: str, tablespace: bytes, data: pathlib.Path) -> Replayed:
    """Opens a stopped node's directory (or an empty one), follows the log to its head, and digests what is there.

    Raises whatever a node would have met: XX001 for damage, and for a replica that is not of this log.
    """
    coordination = await open_coordination(url, timeout=20.0)
    store = open_store(store_url, timeout=20.0)
    bulk = BulkFiles(str(data / "bulk"))
    log = FollowerLog(bulk)
    loop = asyncio.get_running_loop()
    failed: list[BaseException] = []

    def thread(work: Callable[[], None]) -> None:
        loop.call_soon_threadsafe(work)

    tables = Tablespace.open(str(data), lambda *_: log, thread, on_fatal=failed.append, identity=tablespace)
    entries: list[tuple[int, int]] = []

    def apply(entry: LogEntry) -> None:
        tables.apply(entry.lsn, entry.body)
        entries.append((entry.lsn, entry.epoch))

    async def ready() -> None:
        while tables.pressure:
            await asyncio.sleep(0.01)

    follower = Follower(
        coordination, tablespace, lambda _: store, apply, bulk, Position(tables.flushed_lsn, None), ready=ready
    )
    running = asyncio.ensure_future(follower.run())
    try:
        head = await follower.read_head()
        reached = asyncio.ensure_future(follower.wait_for(head.lsn))
        await asyncio.wait((reached, running), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            await running
        await reached
        found = await digest(tables)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        tables.close()
        await store.close()
        await coordination.close()
    assert not failed, failed
    return Replayed(found, entries)
