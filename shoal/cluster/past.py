"""The past of a cluster's tablespace, read from checkpoints and ledgers in the store."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

from engine.checkpoint import Manifest, read_manifest
from replication.interface import ChangelogStore, Coordination, LogEntry, ObjectMissingError
from replication.log.layout import decode_checkpoints, decode_ledgers, paths, tablespace_folder
from shoal.archive.ledger_log import LedgerLog


class ClusterPast:
    """An engine.past.far.Source over a cluster's store. `log` reads the ledgers, `store` returns the present store, and
    `durable` the LSN that this node has applied."""

    def __init__(
        self,
        tablespace: bytes,
        log: LedgerLog,
        store: Callable[[], ChangelogStore],
        coordination: Callable[[], Coordination],
        durable: Callable[[], int],
    ) -> None:
        self._tablespace = tablespace
        self._log = log
        self._store = store
        self._coordination = coordination
        self._durable = durable
        self._manifests: dict[int, Manifest] = {}

    @property
    def files(self) -> ChangelogStore:
        return self._store()

    @property
    def root(self) -> str:
        return tablespace_folder(self._tablespace).rstrip("/")

    async def checkpoints(self) -> Sequence[Manifest]:
        """The checkpoints that are listed in the present store, and from which the log continues."""
        found = await self._coordination().get(paths(self._tablespace).checkpoints)
        listed = sorted(item.lsn for item in decode_checkpoints(found.data)) if found is not None else []
        for lsn in listed:
            if lsn not in self._manifests:
                with contextlib.suppress(ObjectMissingError):
                    self._manifests[lsn] = await read_manifest(self._store(), self.root, lsn)
        self._manifests = {lsn: item for lsn, item in self._manifests.items() if lsn in listed}
        oldest = await self.oldest_entry()
        return [self._manifests[lsn] for lsn in sorted(self._manifests) if oldest is None or oldest <= lsn + 1]

    async def oldest_entry(self) -> int | None:
        found = await self._coordination().get(paths(self._tablespace).ledgers)
        return decode_ledgers(found.data).first_lsn if found is not None else None

    def hold(self, holder: str, after: int | None) -> None:
        """Does nothing, because ledgers are kept by rules of their own."""

    def entries(self, after: int, upto: int) -> AsyncIterator[LogEntry]:
        return self._log.entries(after, upto)

    async def fetch_bulk(self, name: str, path: str) -> None:
        await self._log.fetch_bulk(name, path)

    async def lsn_at(self, time: int) -> int | None:
        """The last LSN before the first commit later than a time, or None if that entry is not kept."""
        below = [item for item in await self.checkpoints() if item.commit_time <= time]
        if below:
            lsn = below[-1].lsn
        elif await self.oldest_entry() == 1:
            lsn = 0
        else:
            return None
        async for entry in self._log.entries(lsn, self._durable()):
            if entry.commit_time > time:
                break
            lsn = entry.lsn
            if lsn % 1000 == 0:
                await asyncio.sleep(0)
        return lsn or None
