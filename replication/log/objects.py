"""Finds the objects of the store that hold the log after an LSN.

Close to the head, the head itself names them. Further back, the ledger list has the ledgers, and the listing of a
ledger's folder the objects: those that end at or before the ledger's end, and the head. Other objects in the folder
were uploaded by a dead leader and never committed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from catalog.errors import SqlError
from replication.interface import Coordination, Head, HeadObject, Ledger, LedgerList
from replication.log.layout import first_name_from, ledger_folder, parse_object_name
from replication.log.ledger_list import LedgerListReader
from replication.log.ledgers import Ledgers, last_lsn
from replication.log.settings import LogGoneError, StoreOf

MAX_LISTED = 1000
"""The maximum number of objects in one listing. A follower far behind lists again."""


@dataclass(frozen=True, slots=True)
class LocatedObject:
    item: HeadObject
    ledger: Ledger
    size: int | None = None  # bytes; None: unknown


class ObjectMap:
    """Finds objects; caches the ledger list, which changes rarely."""

    def __init__(self, tablespace: bytes, stores: StoreOf) -> None:
        self._tablespace = tablespace
        self._stores = stores
        self._pages = LedgerListReader(tablespace)

    async def find(self, coordination: Coordination, head: Head, after: int, *, at_end: bool) -> list[LocatedObject]:
        """Objects that hold the log from `after` + 1 on without a gap, up to head or fewer.

        `at_end`: an object ends at `after`; otherwise one may span it. Raises LogGoneError, SqlError XX001 for a gap in
        the store, and errors of store and coordination.
        """
        recent = [item for item in head.recent if item.last > after]
        if not recent or recent[0].first > after + 1:
            await self._refresh(coordination)
            return await self._list(coordination, head, after, at_end)
        known = {ledger.ledger: ledger for ledger in self._pages.listed.ledgers}
        if any(item.ledger not in known for item in recent):
            known = {ledger.ledger: ledger for ledger in (await self._refresh(coordination)).ledgers}
            if any(item.ledger not in known for item in recent):  # dropped since, or far behind
                return await self._list(coordination, head, after, at_end)
        return [LocatedObject(item, known[item.ledger]) for item in recent]

    async def is_listed(self, coordination: Coordination, ledger: int) -> bool:
        """Whether the ledger has not been dropped, as of now."""
        await coordination.sync()
        listed = await self._refresh(coordination)
        return bool(listed.ledgers) and listed.first_ledger <= ledger <= listed.ledgers[-1].ledger

    async def _refresh(self, coordination: Coordination) -> LedgerList:
        return await self._pages.refresh(coordination)

    async def _list(self, coordination: Coordination, head: Head, after: int, at_end: bool) -> list[LocatedObject]:
        begin = self._pages.listed.first_lsn
        if begin is None or begin > after + 1:
            raise LogGoneError(after)
        result: list[LocatedObject] = []
        reached = after
        async for ledgers, index, ledger in self._ledgers(coordination, after + 1):
            last = min(last_lsn(ledgers, index, head.lsn), head.lsn)  # the list may be newer than the head
            if last <= reached or last < ledger.first:
                continue
            start = first_name_from(self._tablespace, ledger.ledger, reached + 1) if at_end or reached > after else ""
            folder = ledger_folder(self._tablespace, ledger.ledger)
            async for info in self._stores(ledger.store).list(folder, start):
                item = parse_object_name(info.name, ledger.ledger)
                if item is None or item.first > last:
                    break
                if item.last <= reached or item.last > last:
                    continue
                if item.first > reached + 1:
                    break
                result.append(LocatedObject(item, ledger, info.size))
                reached = item.last
                if len(result) >= MAX_LISTED:
                    return result
            if reached < last:
                if result:
                    return result  # the rest is searched when these are applied
                if not await self.is_listed(coordination, ledger.ledger):
                    raise LogGoneError(after)  # dropped since the list was read
                raise SqlError("XX001", f"LSN {reached + 1} is missing in ledger {ledger.ledger} of the store")
        return result

    async def _ledgers(self, coordination: Coordination, lsn: int) -> AsyncIterator[tuple[Ledgers, int, Ledger]]:
        async for page in self._pages.pages_from_lsn(coordination, lsn):
            for index, ledger in enumerate(page):
                yield page, index, ledger


def fetch_runs(found: Sequence[LocatedObject], most: int, size: int) -> list[list[LocatedObject]]:
    """Splits objects into runs that are fetched together: consecutive objects of one ledger, at most `most`, and at
    most `size` bytes. An object of unknown size is a run of its own: close to the head the log is read object by
    object."""
    result: list[list[LocatedObject]] = []
    room = 0
    for item in found:
        room -= size if item.size is None else item.size
        if result and room >= 0 and len(result[-1]) < most and result[-1][-1].ledger.ledger == item.ledger.ledger:
            result[-1].append(item)
        else:
            result.append([item])
            room = size - (size if item.size is None else item.size)
    return result
