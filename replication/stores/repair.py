"""Repairs a quorum store: copies objects that fewer than W members hold, completes deletions, empties a member.

    summary = await Repairer(store).repair(["<ts>/ledger-0000000007/"], ["cluster"])
    await store.replace_members(["log://a:1", "log://b:1", "log://d:1", "-log://c:1"])     # in every process first
    summary = await Repairer(store).empty("log://c:1")         # then, when nothing failed:
    await store.replace_members(["log://a:1", "log://b:1", "log://d:1"])

The caller, who knows the ledgers, names the folders; a folder may have objects that were never acknowledged, which are
copied too. Writers need not stop: an object that a put writes at the same time is the same. A store does not know the
content of an object, so `verify` may check a copy before it is stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field

from replication.interface import ObjectExistsError, ObjectInfo, ObjectMissingError, StoreUnavailableError
from replication.stores.names import check_name
from replication.stores.quorum import Member, QuorumStore, has_content_of

BYTES_PER_SECOND = 50 << 20
COPIES_AT_ONCE = 4
MAX_PROBLEMS = 20


@dataclass(slots=True)
class RepairSummary:
    """The summary of a repair."""

    checked: int = 0  # objects
    copied: int = 0  # copies made
    failed: int = 0  # objects that fewer than W members hold, or of which members hold different contents
    bytes: int = 0  # of the copies made
    deleted: int = 0  # objects and folders that a member had kept while it could not be reached
    problems: list[str] = field(default_factory=list)  # the first few failures, a line each


Progress = Callable[[RepairSummary], None]
Verify = Callable[[str, str], bool]
"""(name, path of a local copy) -> whether the copy is whole. Called in a thread."""


class Repairer:
    """Repairs one quorum store, at a bounded rate. Calls `progress` after every object."""

    def __init__(
        self,
        store: QuorumStore,
        *,
        bytes_per_second: float = BYTES_PER_SECOND,
        progress: Progress | None = None,
        verify: Verify | None = None,
    ) -> None:
        self._store = store
        self._rate = bytes_per_second
        self._progress = progress
        self._verify = verify
        self._free_at = 0.0  # time of the event loop at which the next copy may start
        self._summary = RepairSummary()
        self._copies = 0

    async def repair(self, folders: Iterable[str], names: Iterable[str] = ()) -> RepairSummary:
        """Makes W members hold every object of the folders (ending in '/'; '' is everything), and of these names.
        Raises StoreUnavailableError if too few members answer."""
        self._summary = RepairSummary()
        await self._delete_missed()
        with tempfile.TemporaryDirectory(prefix="shoal-repair-") as scratch:
            running: set[asyncio.Task[None]] = set()
            try:
                async for info, holders in self._objects_to_check(folders, names):
                    running.add(asyncio.ensure_future(self._repair(info, holders, scratch)))
                    if len(running) >= COPIES_AT_ONCE:
                        done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                        for task in done:
                            task.result()
                await asyncio.gather(*running)
            finally:
                for task in running:
                    task.cancel()
                await asyncio.gather(*running, return_exceptions=True)
        return self._summary

    async def empty(self, url: str) -> RepairSummary:
        """Copies all objects of a leaving member, or those that it held if it is dead, until W others hold them. If
        nothing failed, the member may be removed. Raises ValueError if it is not leaving."""
        if not any(member.leaving and member.url == url for member in self._store.members):
            raise ValueError(f"{url} is not a leaving member of {self._store.url}")
        return await self.repair([""])

    async def _objects_to_check(
        self, folders: Iterable[str], names: Iterable[str]
    ) -> AsyncIterator[tuple[ObjectInfo, list[Member]]]:
        for folder in folders:
            async for info, holders in self._store.holders(folder):
                yield info, holders
        for name in names:
            found = await self._find(name)
            if found is None:
                self._summary.checked += 1
                self._fail(name, "no member has it")
            else:
                yield found

    async def _find(self, name: str) -> tuple[ObjectInfo, list[Member]] | None:
        """An object and its holders, from a listing that begins just before it."""
        folder = check_name(name)[: name.rfind("/") + 1]
        listing = self._store.holders(folder, name[:-1])
        async with contextlib.aclosing(listing):
            async for info, holders in listing:
                if info.name == name:
                    return info, holders
                if info.name > name:
                    break
        return None

    async def _repair(self, info: ObjectInfo, holders: list[Member], scratch: str) -> None:
        have = sum(not member.leaving for member in holders)
        if have < self._store.write:
            self._copies += 1
            path = os.path.join(scratch, str(self._copies))
            try:
                await self._copy(info, holders, have, path)
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
        self._summary.checked += 1
        if self._progress is not None:
            self._progress(self._summary)

    async def _copy(self, info: ObjectInfo, holders: list[Member], have: int, path: str) -> None:
        """Copies to the members that come next in the object's order, until W have it."""
        await self._wait_turn(info.size)
        source = await self._fetch(info, holders, path)
        if source is None:
            return
        why = "no other member is left"
        made: list[Member] = []
        for member in self._store.order(info.name):
            if have >= self._store.write:
                break
            if member in holders:
                continue
            try:
                await member.store.put_file(info.name, path)
                made.append(member)
                have += 1
            except ObjectExistsError:
                why = f"{member.store.url} has different content"
                with contextlib.suppress(ObjectMissingError, StoreUnavailableError):
                    have += await has_content_of(member.store, info.name, path)
            except StoreUnavailableError as error:
                why = str(error)
        self._summary.copied += len(made)
        self._summary.bytes += len(made) * info.size
        if have < self._store.write:
            self._fail(info.name, why)
        if made:
            await self._take_back_if_deleted(source, info.name, made)

    async def _fetch(self, info: ObjectInfo, holders: list[Member], path: str) -> Member | None:
        """A whole copy in a local file, and its source; None if there is none, or it has been deleted meanwhile."""
        why = ""
        for member in holders:
            try:
                await member.store.get_file(info.name, path)
                if self._verify is None or await asyncio.to_thread(self._verify, info.name, path):
                    return member
                why = f"the copy of {member.store.url} is damaged"
            except ObjectMissingError:
                continue
            except StoreUnavailableError as error:
                why = str(error)
        if why:
            self._fail(info.name, why)
        return None

    async def _take_back_if_deleted(self, source: Member, name: str, made: list[Member]) -> None:
        """A folder that is deleted during its repair must not come back."""
        with contextlib.suppress(StoreUnavailableError):
            folder = name[: name.rfind("/") + 1]
            async for info in source.store.list(folder, name[:-1]):
                if info.name == name:
                    return
                if info.name > name:
                    break
            for member in made:
                await member.store.delete(name)

    async def _delete_missed(self) -> None:
        """Deletes the objects that members kept while they could not be reached."""
        for member in self._store.members:
            for name in list(member.missed_deletes):
                try:
                    if name.endswith("/") or not name:
                        await member.store.delete_folder(name)
                    else:
                        await member.store.delete(name)
                except StoreUnavailableError:
                    break
                member.missed_deletes.pop(name, None)
                self._summary.deleted += 1

    async def _wait_turn(self, size: int) -> None:
        """Keeps to the rate."""
        now = asyncio.get_running_loop().time()
        start = max(now, self._free_at)
        self._free_at = start + size / self._rate
        if start > now:
            await asyncio.sleep(start - now)

    def _fail(self, name: str, why: str) -> None:
        self._summary.failed += 1
        if len(self._summary.problems) < MAX_PROBLEMS:
            self._summary.problems.append(f"{name}: {why}")
