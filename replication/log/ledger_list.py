"""The ledger list in the coordination service, of any length: its newest part in one znode, the rest in segments.

    ledgers      the newest ledgers, including all open ones; the beginning of the log; the list of segments
    ledgers/7    a segment: the next few hundred closed ledgers, oldest first
    ledgers/8    ...

A new ledger rewrites the first znode only. When that has become long, its oldest closed ledgers move to a new segment,
in the same multi. Segments are numbered in the order of their ledgers. They are rewritten only if ledgers move to
another store; the oldest one is deleted when all of its ledgers have been dropped. So a roll costs the same for any
number of ledgers, and a search for an LSN reads a few segments (`LedgerListReader`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from catalog.errors import SqlError
from replication.interface import (
    Check,
    ConflictError,
    Coordination,
    CoordinationUnavailableError,
    Create,
    Delete,
    Ledger,
    LedgerList,
    Operation,
    OutcomeUnknownError,
    Set,
)
from replication.log.layout import decode_ledgers, decode_segment, encode_ledgers, encode_segment, paths
from replication.log.ledgers import Ledgers, last_of_epoch
from replication.log.settings import LogGoneError, LogSettings

LISTED = 256
"""Ledgers in the first znode from which on the oldest move to a segment: at most SEGMENT of them."""

SEGMENT = 200

LISTED_BYTES = 48 << 10
"""The same in bytes, which the URLs of stores decide; a segment has no more either."""


class DeposedError(Exception):
    """Another epoch has begun."""


def split_off_segment(listed: LedgerList) -> tuple[LedgerList, Ledgers]:
    """Moves the oldest closed ledgers of a long list to the next segment. Returns the shorter list and the moved
    ledgers, () if the list is short enough."""
    ledgers = listed.ledgers
    if len(ledgers) <= LISTED and len(encode_ledgers(listed)) <= LISTED_BYTES:
        return listed, ()
    closed = next((index for index, ledger in enumerate(ledgers) if ledger.last is None), len(ledgers))
    count = min(closed, SEGMENT, len(ledgers) - 1)
    while count > 1 and len(encode_segment(ledgers[:count])) > LISTED_BYTES:
        count //= 2
    if count < 1:
        return listed, ()
    moved = ledgers[:count]
    shorter = LedgerList(
        ledgers[count:],
        listed.first_segment,
        listed.next_segment + 1,
        listed.oldest or moved[0].ledger,
        listed.oldest_lsn if listed.oldest else moved[0].first,
        listed.count + count,
        listed.bytes + sum(ledger.bytes for ledger in moved),
    )
    return shorter, moved


def list_write(tablespace: bytes, listed: LedgerList, version: int) -> tuple[LedgerList, list[Operation]]:
    """The operations that write a list over a version of its znode, and the new list."""
    where = paths(tablespace)
    shorter, moved = split_off_segment(listed)
    operations: list[Operation] = [Set(where.ledgers, encode_ledgers(shorter), version)]
    if moved:
        operations.append(Create(where.segment(listed.next_segment), encode_segment(moved)))
    return shorter, operations


def drop_oldest(listed: LedgerList, gone: Sequence[Ledger], *, segment: bool) -> LedgerList:
    """The list without some of its oldest ledgers, all of the first segment. `segment`: the segment is dropped too."""
    kept = replace(
        listed,
        first_segment=listed.first_segment + segment,
        oldest=gone[-1].ledger + 1,
        oldest_lsn=(gone[-1].last or 0) + 1,
        count=listed.count - len(gone),
        bytes=listed.bytes - sum(ledger.bytes for ledger in gone),
    )
    if kept.first_segment == kept.next_segment:
        return replace(kept, oldest=0, oldest_lsn=0, count=0, bytes=0)
    return kept


class LedgerListReader:
    """Reads the list of a tablespace; caches its newest part, which changes rarely, and the last segment read."""

    def __init__(self, tablespace: bytes) -> None:
        self.listed = LedgerList()
        self._tablespace = tablespace
        self._last: tuple[int, Ledgers] = (-1, ())

    async def refresh(self, coordination: Coordination) -> LedgerList:
        found = await coordination.get(paths(self._tablespace).ledgers)
        self.listed = LedgerList() if found is None else decode_ledgers(found.data)
        return self.listed

    async def pages_from_lsn(self, coordination: Coordination, lsn: int) -> AsyncIterator[Ledgers]:
        """The ledgers that have the LSN or later ones, page by page, oldest first; earlier ledgers may come before
        them. Raises LogGoneError if they have been dropped meanwhile."""
        following = self.listed.next_segment
        if not self.listed.ledgers or self.listed.ledgers[0].first > lsn:
            following = await self._search(coordination, lambda page: (page[-1].last or 0) >= lsn, lsn)
        for number in range(following, self.listed.next_segment):
            yield await self._page(coordination, number, lsn)
        yield self.listed.ledgers

    async def all_pages(self, coordination: Coordination) -> AsyncIterator[Ledgers]:
        """Every ledger as of a moment. Raises LogGoneError."""
        async for page in self.pages_from_lsn(coordination, (await self.refresh(coordination)).first_lsn or 0):
            yield page

    async def find_ledger(self, coordination: Coordination, number: int) -> tuple[Ledgers, int] | None:
        """A page with the ledger, and its place in it; None if it is not listed. Raises LogGoneError."""
        listed = await self.refresh(coordination)
        found = listed.next_segment
        if not listed.ledgers or listed.ledgers[0].ledger > number:
            found = await self._search(coordination, lambda page: page[-1].ledger >= number, 0)
        page = await self._page(coordination, found, 0) if found < listed.next_segment else listed.ledgers
        index = next((index for index, item in enumerate(page) if item.ledger == number), None)
        return None if index is None else (page, index)

    async def end_of_epoch(self, coordination: Coordination, epoch: int) -> int | None:
        """The last LSN committed up to the end of an epoch that another one has followed; None if it is no longer
        known."""
        listed = await self.refresh(coordination)
        if not listed.oldest or listed.ledgers[0].epoch <= epoch:
            return last_of_epoch(listed.ledgers, epoch)
        try:
            found = await self._search(coordination, lambda page: page[-1].epoch > epoch, 0)
            numbers = range(max(found - 1, listed.first_segment), min(found + 1, listed.next_segment))
            pages = [await self._page(coordination, number, 0) for number in numbers]
        except LogGoneError:
            return None
        return last_of_epoch((*(ledger for page in pages for ledger in page), *listed.ledgers), epoch)

    async def _search(self, coordination: Coordination, holds: Callable[[Ledgers], bool], lsn: int) -> int:
        """The first segment with a property that all later ones have too; the next number if none has it."""
        low, high = self.listed.first_segment, self.listed.next_segment
        if low <= self._last[0] < high:  # a reader in order needs this one or the next
            low, high = (low, self._last[0]) if holds(self._last[1]) else (self._last[0] + 1, high)
            near = high - 1 if high == self._last[0] else low
            if low <= near < high:
                low, high = (low, near) if holds(await self._page(coordination, near, lsn)) else (near + 1, high)
        while low < high:
            middle = (low + high) // 2
            if holds(await self._page(coordination, middle, lsn)):
                high = middle
            else:
                low = middle + 1
        return low

    async def _page(self, coordination: Coordination, number: int, lsn: int) -> Ledgers:
        if number != self._last[0]:
            found = await coordination.get(paths(self._tablespace).segment(number))
            if found is None:
                await coordination.sync()
                listed = await self.refresh(coordination)
                if listed.first_segment > number or not listed.ledgers:
                    raise LogGoneError(max(lsn - 1, 0))
                raise SqlError("XX001", f"segment {number} of the ledger list of {self._tablespace.hex()} is missing")
            self._last = number, decode_segment(found.data)
        oldest = self.listed.oldest
        return tuple(ledger for ledger in self._last[1] if ledger.ledger >= oldest) or self._last[1][-1:]


class OwnedList:
    """The ledger list of a term's leader, the only writer: every change checks the term's epoch.

    Raises DeposedError when the term is over; waits while there is no connection. `over`: whether to stop waiting.
    """

    def __init__(
        self,
        tablespace: bytes,
        epoch_version: int,
        listed: LedgerList,
        version: int,
        coordination: Coordination,
        settings: LogSettings,
        over: Callable[[], bool],
    ) -> None:
        self.listed = listed
        self._version = version
        self._where = paths(tablespace)
        self._tablespace = tablespace
        self._check = Check(self._where.epoch, epoch_version)
        self._coordination = coordination
        self._settings = settings
        self._over = over
        self._editing = asyncio.Lock()

    @property
    def ledgers(self) -> Ledgers:
        """The newest part, in which all open ledgers are."""
        return self.listed.ledgers

    async def edit(self, change: Callable[[Ledgers], Ledgers]) -> Ledgers:
        """Changes the newest part."""
        async with self._editing:
            wanted = replace(self.listed, ledgers=change(self.listed.ledgers))
            while (
                wanted != self.listed or split_off_segment(wanted)[1]
            ):  # the list of a release without segments needs many steps
                await self._write(*list_write(self._tablespace, wanted, self._version))
                wanted = self.listed
            return self.listed.ledgers

    async def edit_segments(self, change: Callable[[Ledgers], Ledgers]) -> None:
        """Changes the records of the older ledgers, in their segments. A record may be changed twice."""
        number = self.listed.first_segment
        while number < self.listed.next_segment:
            async with self._editing:
                number = max(number, self.listed.first_segment)
                if number < self.listed.next_segment:
                    await self._retry_while_connected(partial(self._rewrite, number, change))
            number += 1

    async def _rewrite(self, number: int, change: Callable[[Ledgers], Ledgers]) -> None:
        path = self._where.segment(number)
        found = await self._coordination.get(path)
        if found is None:
            raise DeposedError
        before = decode_segment(found.data)
        after = change(before)
        if after != before:
            try:
                await self._coordination.multi((self._check, Set(path, encode_segment(after), found.version)))
            except ConflictError as conflict:
                if conflict.index == 0:
                    raise
                raise OutcomeUnknownError(str(conflict)) from None  # an earlier try came after all: it is read again

    async def drop(self, chosen: Callable[[Ledgers], list[Ledger]]) -> list[Ledger]:
        """Removes the oldest ledgers from the list: `chosen` selects them from the ones it gets, never the last of
        these; they are in one segment, or in the newest part. Returns them."""
        async with self._editing:
            listed = self.listed
            if not listed.oldest:
                gone = chosen(listed.ledgers)
                if gone:
                    kept = tuple(ledger for ledger in listed.ledgers if ledger not in gone)
                    await self._write(*list_write(self._tablespace, replace(listed, ledgers=kept), self._version))
                return gone
            path = self._where.segment(listed.first_segment)
            found = await self._coordination.get(path)
            if found is None:
                raise DeposedError
            page = tuple(ledger for ledger in decode_segment(found.data) if ledger.ledger >= listed.oldest)
            gone = chosen((*page, listed.ledgers[0]))
            if gone:
                whole = len(gone) == len(page)
                shorter = drop_oldest(listed, gone, segment=whole)
                operations: list[Operation] = [Set(self._where.ledgers, encode_ledgers(shorter), self._version)]
                await self._write(shorter, [*operations, *([Delete(path)] if whole else [])])
            return gone

    async def _write(self, wanted: LedgerList, operations: Iterable[Operation]) -> None:
        """`operations`: the list's own first."""
        doubtful = False

        async def write() -> None:
            nonlocal doubtful
            try:
                self._version = (await self._coordination.multi((self._check, *operations)))[1]
            except OutcomeUnknownError:
                doubtful = True
                raise
            except ConflictError:
                version = await self._version_if_written(wanted) if doubtful else None
                if version is None:
                    raise DeposedError from None
                self._version = version

        await self._retry_while_connected(write)
        self.listed = wanted

    async def _version_if_written(self, wanted: LedgerList) -> int | None:
        """The version of the list, if it is the wanted one: only this term writes it while its epoch stands."""
        await self._coordination.sync()
        epoch = await self._coordination.get(self._where.epoch)
        found = await self._coordination.get(self._where.ledgers)
        if epoch is None or epoch.version != self._check.version or found is None:
            return None
        return found.version if decode_ledgers(found.data) == wanted else None

    async def _retry_while_connected(self, work: Callable[[], Awaitable[None]]) -> None:
        """Retries the work until it succeeds. Raises DeposedError when the session or the term is over."""
        while True:
            try:
                await work()
                return
            except ConflictError:
                raise DeposedError from None
            except CoordinationUnavailableError:
                if self._coordination.state == "lost" or self._over():
                    raise DeposedError from None
                await asyncio.sleep(self._settings.retry_pause)
