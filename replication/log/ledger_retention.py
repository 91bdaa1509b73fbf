"""Ledger retention: a leader closes ledgers whose entries are all committed, drops ledgers that nothing needs, and
deletes the objects that a crash left of dropped ledgers (replication/log/ledgers.py).

For `lost_replica_grace` a lost replica keeps the log from its last flushed LSN on. A replica that this leader has never
seen keeps the whole log for the same time from the beginning of the term.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from catalog.errors import SqlError
from replication.interface import Coordination, CoordinationUnavailableError, Ledger, StoreUnavailableError
from replication.log.layout import decode_checkpoints, decode_replica, decode_spec, ledger_folder, paths
from replication.log.leader import LeaderLog
from replication.log.ledger_list import DeposedError
from replication.log.ledgers import Ledgers, Needs, close_committed, delete_dropped_ledgers, droppable_ledgers
from replication.log.settings import Clock, LogSettings, StoreOf

log = logging.getLogger("shoal.log")


class LedgerRetention:
    """The retention of one term's leader."""

    def __init__(self, leader: LeaderLog, stores: StoreOf, *, settings: LogSettings, clock: Clock) -> None:
        self._leader = leader
        self._stores = stores
        self._settings = settings
        self._clock = clock
        self._began = clock.monotonic()
        self._last_seen: dict[str, tuple[int, float]] = {}  # node -> flushed LSN, clock time
        self._swept = False

    async def run(self) -> None:
        """Runs until it is cancelled, or the term is over."""
        with contextlib.suppress(DeposedError):
            while True:
                await asyncio.sleep(self._settings.housekeeping)
                try:
                    await self.run_once()
                except (CoordinationUnavailableError, StoreUnavailableError) as error:
                    log.info("cannot drop old ledgers now: %s", error)
                except SqlError as error:
                    log.warning("cannot drop old ledgers now: %s", error.message)

    async def run_once(self) -> Ledgers:
        """Returns the ledgers that it has dropped. Raises DeposedError, and what store and coordination raise."""
        leader = self._leader
        needs = await self._needs(leader.coordination)
        now = self._clock.wall()
        await leader.edit_ledgers(
            lambda ledgers: close_committed(ledgers, leader.committed_lsn, leader.ledger_sizes, now)
        )
        gone: list[Ledger] = []
        while part := await leader.list.drop(lambda ledgers: droppable_ledgers(ledgers, needs, now)):
            for ledger in part:
                await self._stores(ledger.store).delete_folder(ledger_folder(leader.tablespace, ledger.ledger))
            gone += part
        if gone or not self._swept:
            for url in dict.fromkeys(ledger.store for ledger in (*gone, *leader.ledgers)):
                await delete_dropped_ledgers(self._stores(url), leader.tablespace, leader.list.listed.first_ledger)
            self._swept = True
        return tuple(gone)

    async def _needs(self, coordination: Coordination) -> Needs:
        where = paths(self._leader.tablespace)
        checkpoints = await coordination.get(where.checkpoints)
        flushed = await self._flushed_lsns(coordination)
        kept = () if checkpoints is None else decode_checkpoints(checkpoints.data)
        return Needs(kept, flushed, self._settings.time_to_live)

    async def _flushed_lsns(self, coordination: Coordination) -> dict[str, int]:
        """The flushed LSN of every replica that still keeps the log, by node."""
        where = paths(self._leader.tablespace)
        now = self._clock.monotonic()
        spec = await coordination.get(where.spec)
        wanted = () if spec is None else decode_spec(spec.data).replicas
        for name in await coordination.children(where.replicas):
            found = await coordination.get(where.replica(name))
            if found is not None:
                self._last_seen[name] = (decode_replica(found.data).flushed, now)
        needs = {}
        for name in dict.fromkeys((*wanted, *self._last_seen)):
            flushed, seen = self._last_seen.get(name, (0, self._began))
            if now - seen < self._settings.lost_replica_grace:
                needs[name] = flushed
        return needs
