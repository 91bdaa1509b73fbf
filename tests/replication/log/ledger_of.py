"""A tablespace whose log is one ledger of small objects, and who follows it from its beginning."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

from replication.entry import NO_HASH
from replication.interface import ChangelogStore, Coordination, Head, HeadObject, Ledger, LedgerList, LogEntry, Spec
from replication.log import BulkFiles, LogSettings, Position, create_tablespace
from replication.log.follower import Follower
from replication.log.layout import encode_head, encode_ledgers, object_name, paths
from replication.log.ledger_object import encode_log_entry
from tests.replication.memory_coordination import MemoryCoordination

TABLESPACE = b"T" * 16
EPOCH = 1
SIZE = 300  # bytes of a body


def body_of(lsn: int) -> bytes:
    return f"{lsn:010d}".encode() * (SIZE // 10)


class Written:
    """`count` entries, an object each: `objects` by name in their order, `head` behind them."""

    def __init__(self, count: int) -> None:
        self.objects: dict[str, bytes] = {}
        hash_ = NO_HASH
        for lsn in range(1, count + 1):
            entry, hash_ = encode_log_entry(lsn, body_of(lsn), lsn, 1, (), lsn - 1, EPOCH, TABLESPACE, hash_)
            self.objects[object_name(TABLESPACE, HeadObject(1, lsn, lsn, f"{lsn:032x}"))] = entry
        self.head = Head(count, EPOCH, hash_.hex(), count, sum(map(len, self.objects.values())))

    @property
    def names(self) -> list[str]:
        return list(self.objects)

    async def register(self) -> Coordination:
        """The session of somebody who finds the log."""
        session: Coordination = MemoryCoordination().session("a")
        where = paths(TABLESPACE)
        await create_tablespace(session, TABLESPACE, Spec("main", ("a",)))
        await session.set(where.ledgers, encode_ledgers(LedgerList((Ledger(1, EPOCH, 1),))))
        await session.set(where.head, encode_head(self.head))
        return session

    async def put(self, store: ChangelogStore, at_once: int = 64) -> None:
        """Into the store, as a leader puts them."""
        left: Iterator[tuple[str, bytes]] = iter(self.objects.items())

        async def work() -> None:
            for name, data in left:
                await store.append(name, data)

        await asyncio.gather(*(work() for _ in range(at_once)))

    async def follow(
        self, store: ChangelogStore, directory: Path, settings: LogSettings | None = None, seconds: float = 60.0
    ) -> list[bytes]:
        """Follows to the end: what was applied. Raises what the follower ends with."""
        applied: list[bytes] = []

        def apply(entry: LogEntry) -> None:
            assert entry.lsn == len(applied) + 1
            applied.append(entry.body)

        bulk = BulkFiles(str(directory))
        session = await self.register()
        follower = Follower(
            session, TABLESPACE, lambda url: store, apply, bulk, Position(0, NO_HASH), settings=settings
        )
        running = asyncio.ensure_future(follower.run())
        try:
            async with asyncio.timeout(seconds):
                await follower.wait_for(self.head.lsn)
            assert applied == [body_of(lsn) for lsn in range(1, self.head.lsn + 1)]
        finally:
            self.applied = applied
            running.cancel()
            await asyncio.wait([running])
        return applied
