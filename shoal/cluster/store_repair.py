"""Repairs a tablespace's quorum store. The leader's node runs a repair at intervals, and when a member leaves.

A member leaves when `shoal store replace` or `shoal store drain` has put '-' before its URL in the tablespace's spec:

    1  The leader opens a ledger in the store without that member, so the member gets no new objects.
    2  Everything of the tablespace is copied until W of the other members hold it.
    3  The ledgers, including the open one, are listed under the URL without the member. Then the spec is changed, and
       the member may be switched off.

Every `interval`, objects that fewer than W members hold are copied, and deletes that a member has missed are repeated.

Only entries whose checksums match are copied. No commit waits for a repair, and every step may be repeated, so after a
change of leadership the next leader starts from the beginning.
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import dataclasses
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from catalog.errors import SqlError
from replication.background import BackgroundTask
from replication.interface import (
    ConflictError,
    Coordination,
    CoordinationUnavailableError,
    Ledger,
    StoreUnavailableError,
)
from replication.log.layout import (
    decode_spec,
    encode,
    parse_ledger,
    parse_object_name,
    paths,
    tablespace_folder,
)
from replication.log.leader import LeaderLog
from replication.log.ledger_list import DeposedError, LedgerListReader
from replication.log.ledger_object import Position, decode_object
from replication.log.ledgers import Ledgers, close_committed
from replication.log.settings import Clock, LogGoneError, StoreOf
from replication.stores.claim import CLUSTER
from replication.stores.members import QuorumUrl, parse_quorum
from replication.stores.quorum import QuorumStore
from replication.stores.repair import Repairer, RepairSummary

log = logging.getLogger("shoal.cluster")


@dataclass(frozen=True, slots=True)
class StoreRepairSettings:
    """Times in seconds."""

    interval: float = 900.0  # between two complete repairs
    watch: float = 2.0  # between two checks whether a member is leaving
    bytes_per_second: float = 20 << 20


class StoreRepairer(BackgroundTask):
    """The repairs of one tablespace. `leader` returns this node's term as leader, or None if it does not lead.
    `coordination` returns the present session."""

    def __init__(
        self,
        tablespace: bytes,
        leader: Callable[[], LeaderLog | None],
        stores: StoreOf,
        coordination: Callable[[], Coordination],
        clock: Clock,
        settings: StoreRepairSettings | None = None,
    ) -> None:
        self._tablespace = tablespace
        self._leader = leader
        self._stores = stores
        self._coordination = coordination
        self._clock = clock
        self._settings = settings or StoreRepairSettings()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + self._settings.interval
        while True:
            await asyncio.sleep(self._settings.watch)
            leader = self._leader()
            quorum = parse_quorum(leader.store_url) if leader is not None else None
            if leader is None or quorum is None:
                continue
            if not (quorum.leaving or _has_left_members(quorum, leader.ledgers) or loop.time() >= due):
                continue
            try:
                await self.run_once(leader)
                due = loop.time() + self._settings.interval
            except (CoordinationUnavailableError, StoreUnavailableError, ConflictError, DeposedError) as error:
                log.info("cannot repair the changelog store now: %s", error)
            except SqlError as error:
                log.warning("the changelog store cannot be repaired: %s", error.message)

    async def run_once(self, leader: LeaderLog) -> RepairSummary | None:
        """Repairs once, and returns a summary. None if the store is not a quorum store, or a ledger must be closed
        first.

        Raises errors of the store and of the coordination, and DeposedError.
        """
        url = leader.store_url
        quorum, store = parse_quorum(url), self._stores(url)
        if quorum is None or not isinstance(store, QuorumStore):
            return None
        if quorum.leaving:
            now = self._clock.wall()
            await leader.edit_ledgers(
                lambda all_: close_committed(all_, leader.committed_lsn, leader.ledger_sizes, now)
            )
        covered = max((ledger.ledger for ledger in leader.ledgers if ledger.last is not None), default=0)
        covered = max(covered, leader.ledgers[0].ledger - 1)
        if quorum.leaving and any(ledger.store != url and ledger.last is None for ledger in leader.ledgers):
            return None  # objects may still be written to the member that leaves
        summary = await self._repair(store, leader)
        if (quorum.leaving and summary.failed) or leader.store_url != url:
            return summary
        leader.store_url = str(quorum.without_leaving())  # so the next ledger does not name the member
        await leader.list.edit_segments(lambda ledgers: _relist_ledgers(quorum, covered, ledgers))
        await leader.edit_ledgers(lambda ledgers: _relist_ledgers(quorum, covered, ledgers))
        if quorum.leaving:
            await self._remove_left_members(quorum)
        return summary

    async def _repair(self, store: QuorumStore, leader: LeaderLog) -> RepairSummary:
        epochs = await LedgerEpochs.read(self._tablespace, leader.coordination)
        repairer = Repairer(
            store,
            bytes_per_second=self._settings.bytes_per_second,
            verify=lambda name, path: self._is_whole(name, path, epochs),
        )
        summary = await repairer.repair([tablespace_folder(self._tablespace)], [CLUSTER])
        if summary.copied or summary.failed or summary.deleted:
            log.info(
                "changelog store: %d objects checked, %d copies (%d bytes) made, %d late deletes, %d failures",
                summary.checked,
                summary.copied,
                summary.bytes,
                summary.deleted,
                summary.failed,
            )
        for problem in summary.problems:
            log.warning("changelog store: %s", problem)
        return summary

    def _is_whole(self, name: str, path: str, epochs: LedgerEpochs) -> bool:
        """Whether a copy of an object of entries can be read. Other objects have checksums that their readers
        verify."""
        ledger = parse_ledger(self._tablespace, name)
        item = parse_object_name(name, ledger) if ledger is not None and "/bulk/" not in name else None
        epoch = epochs.epoch_of(item.ledger) if item is not None else None
        if item is None or epoch is None:
            return True
        with contextlib.suppress(SqlError):
            data = Path(path).read_bytes()
            for _ in decode_object(data, item, self._tablespace, epoch, Position(item.first - 1, None)):
                pass
            return True
        return False

    async def _remove_left_members(self, quorum: QuorumUrl) -> None:
        """Removes the members that have left from the spec. Raises ConflictError if the spec was changed meanwhile."""
        path = paths(self._tablespace).spec
        coordination = self._coordination()
        found = await coordination.get(path)
        if found is None or decode_spec(found.data).store != str(quorum):
            return
        spec = dataclasses.replace(decode_spec(found.data), store=str(quorum.without_leaving()))
        await coordination.set(path, encode(spec), found.version)
        log.info("%s is no longer needed by tablespace %s", ", ".join(quorum.leaving), spec.name)


class LedgerEpochs:
    """The epoch of each ledger. Consecutive ledgers may share one."""

    def __init__(self) -> None:
        self._first: list[int] = []  # the ledgers that start a new epoch
        self._epochs: list[int] = []
        self._behind = 0

    @classmethod
    async def read(cls, tablespace: bytes, coordination: Coordination) -> LedgerEpochs:
        """Reads the epochs of all listed ledgers. Raises StoreUnavailableError if some are dropped meanwhile."""
        made = cls()
        try:
            async for page in LedgerListReader(tablespace).all_pages(coordination):
                for ledger in page:
                    if not made._epochs or made._epochs[-1] != ledger.epoch:
                        made._first.append(ledger.ledger)
                        made._epochs.append(ledger.epoch)
                    made._behind = ledger.ledger + 1
        except LogGoneError as error:
            raise StoreUnavailableError(str(error)) from error
        return made

    def epoch_of(self, ledger: int) -> int | None:
        """The epoch of a ledger, or None for one that is not listed."""
        if not self._first or not self._first[0] <= ledger < self._behind:
            return None
        return self._epochs[bisect.bisect_right(self._first, ledger) - 1]


def _has_left_members(quorum: QuorumUrl, ledgers: Ledgers) -> bool:
    """Whether a ledger is still listed with a member that has left."""
    found = (parse_quorum(store) for store in dict.fromkeys(ledger.store for ledger in ledgers))
    return any(
        lies is not None and lies.leaving and lies.without_leaving() == quorum.without_leaving() for lies in found
    )


def _relist_ledgers(quorum: QuorumUrl, covered: int, ledgers: Ledgers) -> Ledgers:
    """The list of ledgers, with ledgers moved to the store without the leaving members. A ledger moves if it is at most
    the covered one and its members belong or belonged to this store, or if it was always written to the same
    members."""
    members = {*quorum.active, *quorum.leaving}
    settled = str(quorum.without_leaving())

    @cache
    def moves(store: str) -> tuple[bool, bool]:
        """Whether the ledgers of a store URL move once they are covered, and whether they move in any case."""
        lies = parse_quorum(store)
        if lies is None:
            return False, False
        return members.issuperset(
            lies.active
        ) and lies.ack >= quorum.ack, lies.without_leaving() == quorum.without_leaving()

    def change(ledger: Ledger) -> Ledger:
        copied, same = moves(ledger.store)
        if same or (copied and ledger.ledger <= covered):
            return dataclasses.replace(ledger, store=settled)
        return ledger

    return tuple(map(change, ledgers))
