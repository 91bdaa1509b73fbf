"""Which objects of the store hold the log behind an LSN.

Close to the head, the head itself names them. Further behind, the ledger list says which ledgers there are, and the
listing of a ledger's folder which objects: those that end at or before the ledger's end, and the head. What lies there
beyond is what a dead leader uploaded and never committed.
"""

from __future__ import annotations

from dataclasses import dataclass

from catalog.errors import SqlError
from replication.interface import Coordination, Head, HeadObject, Ledger
from replication.log.layout import decode_ledgers, first_name_from, ledger_folder, parse_object_name, paths
from replication.log.ledgers import Ledgers, last_lsn
from replication.log.settings import LogGoneError, StoreOf

MAX_LISTED = 500
"""Objects found at a time: a far follower comes back for more."""


@dataclass(frozen=True, slots=True)
class Found:
    item: HeadObject
    ledger: Ledger


class ObjectMap:
    """Finds objects; remembers the ledger list, which changes rarely."""

    def __init__(self, tablespace: bytes, stores: StoreOf) -> None:
        self._tablespace = tablespace
        self._stores = stores
        self._ledgers: Ledgers = ()

    async def find(self, coordination: Coordination, head: Head, after: int, *, at_end: bool) -> list[Found]:
        """Objects that hold the log from `after` + 1 on without a gap, up to head or fewer.

        `at_end`: an object ends at `after`, else one may go on across it. Raises LogGoneError, SqlError XX001 for a gap
        in the store, and what store and coordination raise.
        """
        recent = [item for item in head.recent if item.last > after]
        if not recent or recent[0].first > after + 1:
            await self._refresh(coordination)
            return await self._list(coordination, head, after, at_end)
        known = {ledger.ledger: ledger for ledger in self._ledgers}
        if any(item.ledger not in known for item in recent):
            known = {ledger.ledger: ledger for ledger in await self._refresh(coordination)}
            if any(item.ledger not in known for item in recent):  # dropped since
                return await self._list(coordination, head, after, at_end)
        return [Found(item, known[item.ledger]) for item in recent]

    async def still_listed(self, coordination: Coordination, ledger: int) -> bool:
        """Whether the ledger has not been dropped, as of now."""
        await coordination.sync()
        return any(known.ledger == ledger for known in await self._refresh(coordination))

    async def _refresh(self, coordination: Coordination) -> Ledgers:
        found = await coordination.get(paths(self._tablespace).ledgers)
        self._ledgers = () if found is None else decode_ledgers(found.data)
        return self._ledgers

    async def _list(self, coordination: Coordination, head: Head, after: int, at_end: bool) -> list[Found]:
        ledgers = self._ledgers
        if not ledgers or ledgers[0].first > after + 1:
            raise LogGoneError(after)
        result: list[Found] = []
        reached = after
        for index, ledger in enumerate(ledgers):
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
                result.append(Found(item, ledger))
                reached = item.last
                if len(result) >= MAX_LISTED:
                    return result
            if reached < last:
                if result:
                    return result  # the rest is looked for when these are applied
                if not await self.still_listed(coordination, ledger.ledger):
                    raise LogGoneError(after)  # dropped since the list was read
                raise SqlError("XX001", f"LSN {reached + 1} is missing in ledger {ledger.ledger} of the store")
        return result
