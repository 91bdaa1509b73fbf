"""A changelog store made of several: quorum(E,W,A):url,url,...

E consecutive members are a folder's ensemble, W of them should hold an object, and a put returns when A have it durably
(replication/stores/member_order.py computes which). There are M members; those with a '-' before their URL are leaving:
they are read and listed, but not written.

**Writes.** A put starts on W members; if one fails, or does not answer for a moment, the next one replaces it. So
writes continue while any A members can be reached. After A answers, the rest continues in the background. A slow member
is not used until it answers again, so that few puts wait for it. A member that holds the same content counts as
written. Of two writers with different contents at most one succeeds if 2A > M; the other one removes its copies, as far
as members can be reached.

**Reads** ask the members that should have the object, then the others, and do not wait for a slow one before they ask
the next. Many small objects are requested together from each member. An object is missing when so many members lack it
that it cannot have been acknowledged: M - A + 1. **Listings** are the union of all members that answer, at least that
many, so that they show every acknowledged object. They may also show objects that were never acknowledged: ZooKeeper
decides what is committed.

**Deletions** go to all members. One that cannot be reached keeps the object; `missed_deletes` has the names until the
repairer has deleted it (replication/stores/repair.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import os
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from catalog.errors import SqlError
from replication.interface import (
    ChangelogStore,
    ObjectExistsError,
    ObjectInfo,
    ObjectMissingError,
    StoreFullError,
    StoreUnavailableError,
)
from replication.stores.call_deadlines import Calls
from replication.stores.member_order import member_order
from replication.stores.members import LEAVING
from replication.stores.names import check_folder, check_name

MAX_MEMBERS = 100
PATIENCE = 0.25  # seconds without an answer after which another member is asked too
PATIENCE_MANY = 4  # factor for many objects at once
SHUNNED = 2.0  # seconds for which a failed member is asked last
MAX_BEHIND = 64  # pending puts of a member after which it is not used
MAX_BEHIND_BYTES = 64 << 20
MAX_MISSED = 10_000  # deletions that are kept for each member; objects of forgotten ones only take space

log = logging.getLogger("shoal.store")

T = TypeVar("T")
Members = list["Member"]  # in the class `list` is the method
Names = list[str]
Put = Callable[["Member"], Coroutine[None, None, bool]]


@dataclass(eq=False, slots=True)
class Member:
    """One of the stores, with its recent failures and pending puts."""

    url: str
    store: ChangelogStore
    leaving: bool = False
    avoided_until: float = 0.0  # time of the event loop
    pending_puts: int = 0  # pending puts
    pending_put_bytes: int = 0
    missed_deletes: dict[str, None] = field(default_factory=dict)  # names, and folders with their '/', in order

    def is_overloaded(self) -> bool:
        """Whether it has the maximum number of pending puts."""
        return self.pending_puts >= MAX_BEHIND or self.pending_put_bytes >= MAX_BEHIND_BYTES

    def is_avoided(self, now: float) -> bool:
        """Whether other members should be asked first."""
        return now < self.avoided_until or self.is_overloaded()


class QuorumStore:
    """A ChangelogStore. `urls` are the members, a '-' before those that are leaving; `opener` opens one."""

    def __init__(
        self,
        urls: Sequence[str],
        ensemble: int,
        write: int,
        ack: int,
        *,
        opener: Callable[[str], ChangelogStore],
        timeout: float = 10.0,
    ) -> None:
        self.ensemble = ensemble
        self.write = write
        self.ack = ack
        self.members: Members = []
        self._opener = opener
        self._background: set[asyncio.Task[bool]] = set()
        self._patience = min(PATIENCE, timeout / 4)
        self._set_members(urls)
        self._calls = Calls("quorum store", timeout)

    @property
    def url(self) -> str:
        members = ",".join((LEAVING if member.leaving else "") + member.store.url for member in self.members)
        return f"quorum({self.ensemble},{self.write},{self.ack}):{members}"

    @property
    def active(self) -> Members:
        """The members that are written."""
        return [member for member in self.members if not member.leaving]

    @property
    def needed_to_list(self) -> int:
        """The number of members that must answer so that everything acknowledged is seen: M - A + 1."""
        return len(self.members) - self.ack + 1

    def member_stores(self) -> Sequence[ChangelogStore]:
        """The stores of all members."""
        return [member.store for member in self.members]

    def order(self, name: str) -> Members:
        """The active members in the order of their preference for the object: the first W should hold it."""
        return member_order(name, self.active, self.ensemble, self.write)

    @property
    def missed_deletes(self) -> dict[str, Sequence[str]]:
        """The names and folders (with their '/') that were deleted while a member could not be reached, by its URL."""
        return {member.url: list(member.missed_deletes) for member in self.members if member.missed_deletes}

    async def replace_members(self, urls: Sequence[str]) -> None:
        """Uses other members, while calls are running; members that stay keep their connections.

        A removed member should first leave ('-' before its URL), in every process, then be emptied (`Repairer.empty`),
        and only then be removed: it may hold objects that fewer than W others hold. Running calls on a removed member
        may end as unavailable. Raises SqlError 22023 like the constructor.
        """
        gone = self._set_members(urls)
        await asyncio.gather(*(member.store.close() for member in gone))

    def _set_members(self, urls: Sequence[str]) -> Members:
        """Returns the members that were removed."""
        plain = [url.removeprefix(LEAVING) for url in urls]
        active = sum(not url.startswith(LEAVING) for url in urls)
        if len(set(plain)) != len(plain):
            raise SqlError("22023", "a quorum store names the same member twice")
        if not 1 <= self.ack <= self.write <= self.ensemble <= active <= MAX_MEMBERS:
            raise SqlError(
                "22023",
                f"quorum({self.ensemble},{self.write},{self.ack}) with {active} members cannot be",
                hint="Expected quorum(E,W,A) with 1 <= A <= W <= E <= the number of members, which is at most "
                f"{MAX_MEMBERS}.",
            )
        known = {member.url: member for member in self.members}
        members: Members = []
        for url, place in zip(urls, plain, strict=True):
            member = known.pop(place, None) or Member(place, self._opener(place))
            member.leaving = url.startswith(LEAVING)
            members.append(member)
        self.members = members
        return list(known.values())

    # --- writing -------------------------------------------------------------------------------------------------

    async def put(self, name: str, data: bytes) -> None:
        await self._put_bytes(name, data, lambda store: store.put(name, data))

    async def append(self, name: str, data: bytes) -> None:
        await self._put_bytes(name, data, lambda store: store.append(name, data))

    async def _put_bytes(self, name: str, data: bytes, write: Callable[[ChangelogStore], Awaitable[None]]) -> None:
        check_name(name)

        async def put_one(member: Member) -> bool:
            try:
                await write(member.store)
                return True
            except ObjectExistsError:
                if await member.store.get(name) != data:
                    raise
                return False

        await self._put(name, len(data), put_one)

    async def put_file(self, name: str, path: str) -> None:
        check_name(name)

        async def put_one(member: Member) -> bool:
            try:
                await member.store.put_file(name, path)
                return True
            except ObjectExistsError:
                if not await has_content_of(member.store, name, path):
                    raise
                return False

        # The caller may remove the file when this returns, and some members may still be reading it.
        source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        path = f"/proc/self/fd/{source}"
        await self._put(name, os.fstat(source).st_size, put_one, finish=lambda: os.close(source))

    async def _put(self, name: str, size: int, put_one: Put, finish: Callable[[], None] | None = None) -> None:
        """`put_one` returns whether it made the object (or found the same content); `finish` is called after the last
        one."""
        attempt = _PutAttempt(self, name, size, put_one)
        try:
            if self._calls.closed:
                raise self._calls.unavailable("closed")
            await attempt.run()
        finally:
            if finish is not None:
                attempt.call_when_done(finish)
        if attempt.is_lost:
            await attempt.undo()
            raise ObjectExistsError(name)
        attempt.check()

    def start(self, work: Coroutine[None, None, bool]) -> asyncio.Task[bool]:
        """A task that ends when this store is closed."""
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._on_put_end)
        return task

    def _on_put_end(self, task: asyncio.Task[bool]) -> None:
        self._background.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, StoreUnavailableError | ObjectExistsError | ObjectMissingError):
            log.error("a put failed", exc_info=error)

    def avoid(self, member: Member, error: BaseException | str) -> None:
        """Asks a member last for a while."""
        now = asyncio.get_running_loop().time()
        if now >= member.avoided_until:
            log.warning("store %s is not used for a while: %s", member.store.url, error)
        member.avoided_until = now + SHUNNED

    # --- reading -------------------------------------------------------------------------------------------------

    async def get(self, name: str) -> bytes:
        check_name(name)
        return await self._ask_until_found(name, lambda member: member.store.get(name))

    async def get_many(self, names: Sequence[str]) -> dict[str, bytes]:
        """Each member is asked for all objects for which it is the first, then the next one for those that are
        missing."""
        groups: dict[tuple[int, ...], tuple[Members, list[str]]] = {}
        for name in names:
            order = self._reading_order(check_name(name))
            groups.setdefault(tuple(map(id, order)), (order, []))[1].append(name)
        if self._calls.closed:
            raise self._calls.unavailable("closed")
        found: dict[str, bytes] = {}
        asking = [
            asyncio.ensure_future(self._gather_objects(order, wanted, found)) for order, wanted in groups.values()
        ]
        try:
            await asyncio.gather(*asking)
        finally:
            for task in asking:
                task.cancel()
        return found

    async def _gather_objects(self, left: Members, wanted: Names, found: dict[str, bytes]) -> None:
        """Adds the objects of the members to `found`; asks the next one if a member does not answer, or not
        completely."""
        asked: dict[asyncio.Task[dict[str, bytes]], Member] = {}
        try:
            while wanted and (left or asked):
                if left:
                    member = left.pop(0)
                    asked[asyncio.ensure_future(member.store.get_many(wanted))] = member
                patience = PATIENCE_MANY * self._patience if left else None
                done, _ = await asyncio.wait(asked, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    member = asked.pop(task)
                    try:
                        found.update(task.result())
                    except StoreUnavailableError as error:
                        self.avoid(member, error)
                wanted = [name for name in wanted if name not in found]
            for member in asked.values():
                self.avoid(member, "slow")
        finally:
            _cancel_tasks(asked)

    async def get_file(self, name: str, path: str) -> None:
        check_name(name)
        missing = 0
        for member in self._reading_order(name):  # one after the other: they write the same file
            try:
                await member.store.get_file(name, path)
                return
            except ObjectMissingError:
                missing += 1
            except StoreUnavailableError as error:
                self.avoid(member, error)
        raise self._missing_error(name, missing)

    def _reading_order(self, name: str) -> Members:
        now = asyncio.get_running_loop().time()
        order = self.order(name) + [member for member in self.members if member.leaving]
        return sorted(order, key=lambda member: member.is_avoided(now))

    async def _ask_until_found(self, name: str, ask: Callable[[Member], Coroutine[None, None, T]]) -> T:
        """The answer of the first member that has the object."""
        left = self._reading_order(name)
        asked: dict[asyncio.Task[T], Member] = {}
        missing = 0
        try:
            while left or asked:
                if left:
                    member = left.pop(0)
                    asked[asyncio.ensure_future(ask(member))] = member
                patience = self._patience if left else None
                done, _ = await asyncio.wait(asked, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    member = asked.pop(task)
                    try:
                        return task.result()
                    except ObjectMissingError:
                        missing += 1
                    except StoreUnavailableError as error:
                        self.avoid(member, error)
        finally:
            _cancel_tasks(asked)
        raise self._missing_error(name, missing)

    def _missing_error(self, name: str, missing: int) -> Exception:
        if missing >= self.needed_to_list:
            return ObjectMissingError(name)
        return self._too_few_answers_error(missing)

    def _too_few_answers_error(self, answered: int) -> StoreUnavailableError:
        return self._calls.unavailable(
            f"{answered} of {len(self.members)} members answered, {self.needed_to_list} are needed"
        )

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[ObjectInfo]:
        check_folder(prefix)
        listing = _Listing(self, prefix, after)
        try:
            await listing.begin()
            while True:
                if listing.answering < self.needed_to_list:
                    raise self._too_few_answers_error(listing.answering)
                found = await listing.next()
                if listing.answering < self.needed_to_list:
                    raise self._too_few_answers_error(listing.answering)
                if found is None:
                    return
                yield found[0]
        finally:
            await listing.end()

    async def holders(self, prefix: str, after: str = "") -> AsyncGenerator[tuple[ObjectInfo, Members], None]:
        """Lists objects as `list` does, with the members that hold the object with this size; waits for slow
        members."""
        check_folder(prefix)
        listing = _Listing(self, prefix, after)
        try:
            await listing.begin(patient=True)
            while True:
                found = await listing.next() if listing.answering >= self.needed_to_list else None
                if listing.answering < self.needed_to_list:
                    raise self._too_few_answers_error(listing.answering)
                if found is None:
                    return
                yield found
        finally:
            await listing.end()

    # --- deleting ------------------------------------------------------------------------------------------------

    async def delete(self, name: str) -> None:
        check_name(name)
        await self._delete(name, lambda member: member.store.delete(name))

    async def delete_folder(self, prefix: str) -> None:
        check_folder(prefix)
        await self._delete(prefix, lambda member: member.store.delete_folder(prefix))

    async def _delete(self, name: str, delete: Callable[[Member], Awaitable[None]]) -> None:
        if self._calls.closed:
            raise self._calls.unavailable("closed")
        members = list(self.members)
        results = await asyncio.gather(*(delete(member) for member in members), return_exceptions=True)
        for member, result in zip(members, results, strict=True):
            if result is None:
                member.missed_deletes.pop(name, None)
            elif isinstance(result, StoreUnavailableError):
                self.avoid(member, result)
                if len(member.missed_deletes) < MAX_MISSED:
                    member.missed_deletes[name] = None
            else:
                raise result
        if all(result is not None for result in results):
            raise self._too_few_answers_error(0)

    async def close(self) -> None:
        self._calls.close()
        for member in self.members:
            await member.store.close()
        tasks = list(self._background)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _PutAttempt:
    """One put to A members."""

    def __init__(self, store: QuorumStore, name: str, size: int, put_one: Put) -> None:
        now = asyncio.get_running_loop().time()
        self._store = store
        self._name = name
        self._size = size
        self._put_one = put_one
        order = store.order(name)
        able = [member for member in order if not member.is_overloaded()]
        if len(able) < store.ack:
            able = order  # a caller that needs one of them waits for it
        self._left = sorted(able, key=lambda member: now < member.avoided_until)
        self._majority = 2 * store.ack > len(store.members)
        self._running: dict[asyncio.Task[bool], Member] = {}
        self._made: list[Member] = []
        self._acked = 0
        self._conflicts = 0
        self._errors: list[StoreUnavailableError] = []

    @property
    def is_lost(self) -> bool:
        """Whether another writer has the name."""
        return self._conflicts > 0 and (self._acked < self._store.ack or not self._majority)

    async def run(self) -> None:
        """Returns when enough members have it, or no more can."""
        for _ in range(self._store.write):
            self._start_next()
        while self._running and not self._is_decided():
            done, _ = await asyncio.wait(
                self._running,
                timeout=self._store._patience if self._left else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not done:  # the members asked may be dead, so another one starts
                for member in self._running.values():
                    self._store.avoid(member, "slow")
                self._start_next()
            for task in done:
                self._take(task)

    def _is_decided(self) -> bool:
        return self._acked >= self._store.ack or (self._conflicts > 0 and not self._majority)

    def _start_next(self) -> None:
        if self._left:
            member = self._left.pop(0)
            member.pending_puts += 1
            member.pending_put_bytes += self._size
            self._running[self._store.start(self._put_to_member(member))] = member

    async def _put_to_member(self, member: Member) -> bool:
        try:
            made = await self._put_one(member)
            member.avoided_until = 0.0
            return made
        except StoreUnavailableError as error:
            self._store.avoid(member, error)
            raise
        finally:
            member.pending_puts -= 1
            member.pending_put_bytes -= self._size

    def _take(self, task: asyncio.Task[bool]) -> None:
        member = self._running.pop(task)
        if task.cancelled():
            self._errors.append(StoreUnavailableError("closed"))
            return
        try:
            if task.result():
                self._made.append(member)
            self._acked += 1
        except ObjectExistsError:
            self._conflicts += 1
            self._start_next()
        except ObjectMissingError:  # it existed, and was deleted when its content was requested
            self._errors.append(StoreUnavailableError("deleted meanwhile"))
            self._start_next()
        except StoreUnavailableError as error:
            self._errors.append(error)
            self._start_next()

    async def finalize(self) -> None:
        """Waits for the rest."""
        if self._running:
            await asyncio.wait(self._running)
            for task in list(self._running):
                self._left.clear()
                self._take(task)

    def call_when_done(self, finish: Callable[[], None]) -> None:
        """Calls it when nothing is running any more."""
        left = {task for task in self._running if not task.done()}

        def done(task: asyncio.Task[bool]) -> None:
            left.discard(task)
            if not left:
                finish()

        for task in list(left):
            task.add_done_callback(done)
        if not left:
            finish()

    async def undo(self) -> None:
        """Another writer has the name: removes the copies of this put, so that readers find the other's content."""
        await self.finalize()
        for member in self._made:
            with contextlib.suppress(StoreUnavailableError):
                await member.store.delete(self._name)

    def check(self) -> None:
        """Raises StoreUnavailableError, StoreFullError unless enough members have it."""
        store = self._store
        if self._acked >= store.ack:
            return
        first = str(self._errors[0]) if self._errors else "closed"
        text = f"{self._acked} members have the object, {store.ack} must; {first}"
        if not self._acked and self._errors and all(isinstance(error, StoreFullError) for error in self._errors):
            raise StoreFullError(f"quorum store: {text}")
        raise store._calls.unavailable(text)


class _Listing:
    """The listings of all members, merged."""

    def __init__(self, store: QuorumStore, prefix: str, after: str) -> None:
        self._store = store
        self._members = list(store.members)
        self._streams = [member.store.list(prefix, after) for member in self._members]
        self._heads: list[tuple[str, int, ObjectInfo]] = []  # a heap: name, index of the member
        self.answering = 0

    async def begin(self, patient: bool = False) -> None:
        """The first object of each; members that do not answer are left out, without a long wait unless `patient`."""
        needed = self._store.needed_to_list
        firsts = {asyncio.ensure_future(self._advance(index)): index for index in range(len(self._streams))}
        pending = set(firsts)
        try:
            while pending:
                enough = self.answering >= needed and not patient
                done, pending = await asyncio.wait(
                    pending,
                    timeout=self._store._patience if enough else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for task in done:
                    task.result()
                if enough and not done:
                    return
        finally:
            for task in pending:
                self._store.avoid(self._members[firsts[task]], "slow")
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    async def _advance(self, index: int, first: bool = True) -> None:
        """The next object of one member. `answering` counts the members that have answered throughout."""
        try:
            found = await anext(self._streams[index], None)
        except StoreUnavailableError as error:
            self._store.avoid(self._members[index], error)
            if not first:
                self.answering -= 1
            return
        if first:
            self.answering += 1
        if found is not None:
            heapq.heappush(self._heads, (found.name, index, found))

    async def next(self) -> tuple[ObjectInfo, list[Member]] | None:
        """The next object by name, and its holders; None at the end."""
        if not self._heads:
            return None
        name, size = self._heads[0][0], self._heads[0][2].size
        found = self._heads[0][2]
        holders: list[Member] = []
        while self._heads and self._heads[0][0] == name:
            _, index, info = heapq.heappop(self._heads)
            if info.size == size:
                holders.append(self._members[index])
            await self._advance(index, first=False)
        return found, holders

    async def end(self) -> None:
        """Closes the listings."""
        for stream in self._streams:
            close = getattr(stream, "aclose", None)
            if close is not None:
                with contextlib.suppress(StoreUnavailableError, RuntimeError):
                    await close()


def _cancel_tasks(asked: Iterable[asyncio.Task[T]]) -> None:
    """Cancels tasks without a waiter."""
    for task in asked:
        task.cancel()
        task.add_done_callback(lambda task: task.cancelled() or task.exception())  # no other caller takes its error


async def has_content_of(store: ChangelogStore, name: str, path: str) -> bool:
    """Whether the object has the content of the file."""
    with tempfile.TemporaryDirectory(prefix="shoal-compare-") as folder:
        other = os.path.join(folder, "object")
        await store.get_file(name, other)
        return await asyncio.to_thread(_are_equal_files, path, other)


def _are_equal_files(path: str, other: str) -> bool:
    with open(path, "rb") as first, open(other, "rb") as second:
        while True:
            piece = first.read(1 << 20)
            if piece != second.read(1 << 20):
                return False
            if not piece:
                return True
