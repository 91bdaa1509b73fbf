"""The follower of a log: fetches, verifies and applies entries in LSN order, never past the head.

    watch on head -> read it -> objects after it (replication/log/objects.py) -> fetched in runs, some ahead, in order
        -> every entry verified (replication/log/ledger_object.py) -> its bulk files fetched -> applied

The follower reads the head when the watch fires, and in any case every `poll` seconds after a `sync`: that proves how
fresh this replica is (`caught_up_at`) even if a watch is lost. It retries requests without a limit: without store or
coordination a follower stops, and reports its lag.

Two errors end it, and its owner handles them: the log after its position has been dropped (LogGoneError: start from a
checkpoint), and damage (SqlError XX001).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from catalog.errors import SqlError
from replication.interface import (
    Coordination,
    CoordinationUnavailableError,
    Head,
    LogEntry,
    ObjectDamagedError,
    ObjectMissingError,
    StoreUnavailableError,
)
from replication.log.bulk import BulkFiles
from replication.log.layout import bulk_name, decode_head, object_name, paths
from replication.log.ledger_object import Position, decode_object
from replication.log.lsn_waiters import FreshReads, LsnWaiters
from replication.log.objects import LocatedObject, ObjectMap, fetch_runs
from replication.log.settings import Clock, LogGoneError, LogSettings, StoreOf, SystemClock
from replication.stores.call_deadlines import get_each

log = logging.getLogger("shoal.log")

MISSING_TRIES = 3
"""How often an object that is listed and cannot be found is asked for before it counts as lost."""


@dataclass(frozen=True, slots=True)
class Lag:
    """The lag of a replica: by `lsn` known entries; `seconds` since it certainly had everything committed."""

    lsn: int
    seconds: float


class Follower:
    """Applies the log of one tablespace after `position`. Everything on the loop's thread.

    `apply` is called for every entry; its errors end `run`. `ready`, if given, is awaited before every object: an
    engine whose flush is late delays it. `admit`, if given, is called before every entry, and may return an awaitable
    to wait for. `stores`: see StoreOf.
    """

    def __init__(
        self,
        coordination: Coordination,
        tablespace: bytes,
        stores: StoreOf,
        apply: Callable[[LogEntry], None],
        bulk: BulkFiles,
        position: Position,
        *,
        settings: LogSettings | None = None,
        clock: Clock | None = None,
        ready: Callable[[], Awaitable[None]] | None = None,
        waiters: LsnWaiters | None = None,
        admit: Callable[[LogEntry], Awaitable[None] | None] | None = None,
    ) -> None:
        self.position = position
        self.head: Head | None = None  # the newest head that was read
        self.caught_up_at = float("-inf")  # clock time at which everything committed was applied here, at least
        self.commit_time = 0  # of the entry that was applied last, microseconds since 2000-01-01 UTC
        self._coordination = coordination
        self._tablespace = tablespace
        self._stores = stores
        self._apply = apply
        self._bulk = bulk
        self._settings = settings or LogSettings()
        self._clock = clock or SystemClock()
        self._ready = ready
        self._admit = admit
        self._waiters = waiters or LsnWaiters()
        self._waiters.advance(position.lsn)
        self._map = ObjectMap(tablespace, stores)
        self._at_end = False
        self._wake = asyncio.Event()
        self._proof: tuple[float, int] | None = None  # (clock time, head's LSN then) of a read after a sync
        self._asked = float("-inf")
        self._fresh = FreshReads(self._read_fresh)

    # --- interface -----------------------------------------------------------------------------------------------

    @property
    def applied_lsn(self) -> int:
        return self.position.lsn

    @property
    def lag(self) -> Lag:
        behind = 0 if self.head is None else max(self.head.lsn - self.position.lsn, 0)
        return Lag(behind, self._clock.monotonic() - self.caught_up_at)

    async def wait_for(self, lsn: int) -> None:
        """Returns when the entry at the LSN is applied. Raises the error that has ended `run` meanwhile."""
        await self._waiters.wait_for(lsn)

    async def read_head(self) -> Head:
        """The head as of now or later: a strong read waits for its LSN. Raises CoordinationUnavailableError."""
        return await self._fresh()

    def use(self, coordination: Coordination) -> None:
        """Uses a new session, when the old one is over."""
        self._coordination = coordination
        self._wake.set()

    # --- following -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follows until it is cancelled. Raises LogGoneError, SqlError XX001, and errors of `apply`."""
        pause = self._settings.retry_pause
        try:
            while True:
                self._wake.clear()
                try:
                    await self._follow_once()
                    pause = self._settings.retry_pause
                except (CoordinationUnavailableError, StoreUnavailableError) as error:
                    log.warning("the log cannot be followed at LSN %d: %s", self.position.lsn, error)
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, self._settings.max_retry_pause)
        except Exception as error:
            self._waiters.fail(error)
            raise

    async def _follow_once(self) -> None:
        """Reads the head once and applies everything up to it; waits for the next change if there is nothing new."""
        coordination = self._coordination
        if coordination.state == "lost":
            await self._wait_for_head()
            return
        if self._clock.monotonic() - self._asked >= self._settings.poll:
            await self._read_fresh(watch=True)
        else:
            await self._read_head(coordination, watch=True)
        assert self.head is not None
        while self.position.lsn < self.head.lsn:
            await self._catch_up(coordination, self.head)
        self._verify_head_hash(self.head)
        await self._wait_for_head()

    async def _wait_for_head(self) -> None:
        """Waits until the head has moved or a poll is due, and then for a moment more.

        A follower that read after every single commit would compete with the next commit for the coordination service,
        and for the processors where they share a machine. A few commits at a time cost a fraction of that.
        """
        try:
            async with asyncio.timeout(self._settings.poll):
                await self._wake.wait()
            async with asyncio.timeout(self._settings.gather):
                await self._waiters.wait_for_waiter()
        except TimeoutError:
            pass

    async def _read_fresh(self, watch: bool = False) -> Head:
        asked = self._clock.monotonic()
        coordination = self._coordination
        # Requests of a session are carried out in their order: the read need not wait for the answer to the sync. That
        # is sent first, since gather begins the first one first.
        _, head = await asyncio.gather(coordination.sync(), self._read_head(coordination, watch))
        self._asked = max(self._asked, asked)
        if self.position.lsn >= head.lsn:
            self.caught_up_at = max(self.caught_up_at, asked)
        elif self._proof is None:
            self._proof = (asked, head.lsn)
        return head

    async def _read_head(self, coordination: Coordination, watch: bool) -> Head:
        found = await coordination.get(paths(self._tablespace).head, self._wake.set if watch else None)
        if found is None:
            raise SqlError("42704", f"the cluster has no tablespace {self._tablespace.hex()}")
        head = decode_head(found.data)
        if self.head is None or head.lsn > self.head.lsn:
            self.head = head
            if not watch:
                self._wake.set()
        return head

    # --- applying ------------------------------------------------------------------------------------------------

    async def _catch_up(self, coordination: Coordination, head: Head) -> None:
        """Applies the objects of one search."""
        found = await self._map.find(coordination, head, self.position.lsn, at_end=self._at_end)
        rest = deque(fetch_runs(found, self._settings.run_objects, self._settings.run_bytes))
        fetching: deque[tuple[list[LocatedObject], asyncio.Task[dict[str, bytes]]]] = deque()
        try:
            while rest or fetching:
                while rest and len(fetching) < self._settings.fetch_ahead:
                    following = rest.popleft()
                    fetching.append((following, asyncio.ensure_future(self._fetch_run(coordination, following))))
                run, task = fetching[0]
                fetched = await task
                fetching.popleft()
                for current in run:
                    data = fetched.pop(object_name(self._tablespace, current.item), None)
                    if data is None:
                        data = await self._fetch(coordination, current)
                    if self._ready is not None:
                        await self._ready()
                    await self._apply_object(coordination, current, data)
        finally:
            for _, task in fetching:
                task.cancel()

    async def _fetch_run(self, coordination: Coordination, run: list[LocatedObject]) -> dict[str, bytes]:
        """Fetches the objects of a run by their names. Objects that the store does not return together are fetched one
        by one. Failed ones are fetched again at their turn, after everything before them has been applied.
        """
        names = [object_name(self._tablespace, found.item) for found in run]
        if len(run) == 1:
            return {names[0]: await self._fetch(coordination, run[0])}
        store = self._stores(run[0].ledger.store)
        fetched: dict[str, bytes] = {}
        with contextlib.suppress(StoreUnavailableError):
            while names and (more := await store.get_many(names)):
                fetched.update(more)
                names = [name for name in names if name not in fetched]
        with contextlib.suppress(StoreUnavailableError):
            await get_each(store.get, names, fetched)
        return fetched

    async def _fetch(self, coordination: Coordination, found: LocatedObject) -> bytes:
        store = self._stores(found.ledger.store)
        name = object_name(self._tablespace, found.item)
        for _ in range(MISSING_TRIES):
            try:
                return await store.get(name)
            except ObjectDamagedError as error:
                raise SqlError("XX001", f"object {name} is damaged in {store.url}") from error
            except ObjectMissingError:
                await self._handle_missing_object(coordination, found)
        raise SqlError("XX001", f"object {name} is missing in {store.url}")

    async def _handle_missing_object(self, coordination: Coordination, found: LocatedObject) -> None:
        """Raises LogGoneError if the ledger of the object was dropped, else pauses before the next try."""
        if not await self._map.is_listed(coordination, found.ledger.ledger):
            raise LogGoneError(self.position.lsn)
        await asyncio.sleep(self._settings.retry_pause)

    async def _apply_object(self, coordination: Coordination, found: LocatedObject, data: bytes) -> None:
        began, count = self._clock.monotonic(), 0
        for read in decode_object(data, found.item, self._tablespace, found.ledger.epoch, self.position):
            for name in read.entry.files:
                await self._fetch_file(coordination, found, name)
            if self._admit is not None and (waiting := self._admit(read.entry)) is not None:
                await waiting
            self._apply(read.entry)
            self.position = Position(read.entry.lsn, read.hash)
            self.commit_time = read.entry.commit_time
            self._at_end = read.entry.lsn == found.item.last
            self._advance(read.entry.lsn)
            count += 1
            if count >= self._settings.turn_entries or self._clock.monotonic() - began > self._settings.turn_seconds:
                await asyncio.sleep(0)
                began, count = self._clock.monotonic(), 0

    async def _fetch_file(self, coordination: Coordination, found: LocatedObject, name: str) -> None:
        store = self._stores(found.ledger.store)
        object_ = bulk_name(self._tablespace, found.ledger.ledger, name)
        for _ in range(MISSING_TRIES):
            try:
                await self._bulk.fetch(store, object_, name)
                return
            except ObjectMissingError:
                await self._handle_missing_object(coordination, found)
        raise SqlError("XX001", f"object {object_} is missing in {store.url}")

    def _advance(self, lsn: int) -> None:
        if self._proof is not None and self._proof[1] <= lsn:
            self.caught_up_at = max(self.caught_up_at, self._proof[0])
            self._proof = None
        self._waiters.advance(lsn)

    def _verify_head_hash(self, head: Head) -> None:
        """Compares the hash in the head with the last entry's: a replica with another history at this LSN must not
        continue."""
        position = self.position
        if position.lsn > head.lsn:
            raise SqlError(
                "XX001", f"this replica has LSN {position.lsn}, the log of its tablespace ends at LSN {head.lsn}"
            )
        if position.lsn == head.lsn and position.hash is not None and position.hash.hex() != head.hash:
            raise SqlError("XX001", f"this replica has another entry at LSN {head.lsn} than the log")
