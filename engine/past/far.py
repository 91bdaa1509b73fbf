"""Moments behind what memory keeps: directories that are filled with the state at an LSN, and nodes over them.

    PAST/<lsn>/         a tablespace's directory: a checkpoint, and the log behind it (engine/past/replay.py)

One is made when it is first asked for, and shared by whoever reads the same moment. LIMIT of them stay, the longest
unused goes first; those in use stay in any case. Each has a worker of its own once a query needs columns.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Protocol

from catalog.errors import SqlError
from engine.checkpoint import CheckpointFiles, Manifest, read_checkpoint
from engine.columnar.client import WorkerClient
from engine.past.nodes import PastNode
from engine.past.replay import PastEntry, open_still, replay
from engine.storage.moments import Lsn

if TYPE_CHECKING:
    from engine.node import Node
    from engine.storage.tablespace import Tablespace

LIMIT = 3
WORKER_MEMORY = 512 << 20  # bytes


class Source(Protocol):
    """Where the past of pg_default is kept."""

    @property
    def files(self) -> CheckpointFiles:
        """The checkpoints'."""

    @property
    def root(self) -> str:
        """Their root among them."""

    async def checkpoints(self) -> Sequence[Manifest]:
        """Those from which every later LSN can be reached, in order."""

    async def oldest_entry(self) -> int | None:
        """The first LSN of the log; None if there is no entry yet."""

    def hold(self, holder: str, after: int | None) -> None:
        """Keeps the log above an LSN until the same holder says None."""

    def entries(self, after: int, upto: int) -> AsyncIterator[PastEntry]:
        """The entries above `after` up to one that is durable, verified. Raises XX001."""

    async def fetch_bulk(self, name: str, path: str) -> None:
        """The bulk segment of an entry as a file. Raises XX001."""

    async def lsn_at(self, time: int) -> int | None:
        """The last LSN before the first commit that was later than a time; None if that is not kept."""


@dataclass(slots=True)
class _Made:
    """A directory, open."""

    path: str
    store: Tablespace
    columnar: WorkerClient
    node: PastNode
    users: int = 0


class FarPast:
    """engine.past.manager.History over a source. `directory` is emptied."""

    def __init__(self, present: Node, source: Source, directory: str) -> None:
        self._present = present
        self._source = source
        self._directory = directory
        self._made: dict[int, _Made] = {}  # by LSN, the longest unused first
        self._making: dict[int, asyncio.Future[_Made]] = {}
        self._numbers = count(1)
        self._closing: set[asyncio.Task[None]] = set()
        shutil.rmtree(directory, ignore_errors=True)

    def node_ready(self, at: Lsn) -> PastNode | None:
        """The node at an LSN, if it is made."""
        if not isinstance(at, int):
            return None
        lsn = at
        made = self._made.pop(lsn, None)
        if made is None:
            return None
        self._made[lsn] = made
        made.users += 1
        node = PastNode(made.store, made.columnar, self._present, lsn, partial(self._left, made))
        node.catalogs = made.node.catalogs
        node.share_plans(made.node)
        node.system = made.node.system
        return node

    async def node_at(self, at: Lsn) -> PastNode | None:
        """The node at an LSN; None for one that is too old. Raises XX001, 58030."""
        if not isinstance(at, int):
            return None
        lsn = at
        if lsn not in self._made:
            base = await self._checkpoint_below(lsn)
            if base is None and await self._source.oldest_entry() != 1:
                return None
            while lsn not in self._made:
                await self._once(lsn, partial(self._make, lsn, base))
        return self.node_ready(lsn)

    async def whole(self, lsn: int, time: int) -> Lsn | None:
        """See engine.past.manager.History."""
        return None

    async def _checkpoint_below(self, lsn: int) -> Manifest | None:
        below = [manifest for manifest in await self._source.checkpoints() if manifest.lsn <= lsn]
        return below[-1] if below else None

    async def _once(self, lsn: int, make: Callable[[], Awaitable[_Made]]) -> None:
        """Makes it (from a checkpoint, or from the first entry on), or waits for whoever does."""
        waiting = self._making.get(lsn)
        if waiting is not None:
            await asyncio.wait([waiting])
            return
        self._making[lsn] = future = asyncio.get_running_loop().create_future()
        try:
            self._made[lsn] = await make()
        finally:
            del self._making[lsn]
            future.cancel()
        self._forget()

    async def _make(self, lsn: int, base: Manifest | None) -> _Made:
        source = self._source
        path = os.path.join(self._directory, f"{lsn}-{next(self._numbers)}")
        holder = f"past {path}"
        source.hold(holder, 0 if base is None else base.lsn)
        try:
            os.makedirs(path)
            if base is not None:
                await read_checkpoint(source.files, source.root, base, path)
            reached = await replay(path, lambda after: source.entries(after, lsn), source.fetch_bulk)
            if reached != lsn:
                raise SqlError("XX001", f"the changelog ends at LSN {reached}, before {lsn}")
            return await self._open(lsn, path)
        except BaseException:
            await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)
            raise
        finally:
            source.hold(holder, None)

    async def _open(self, lsn: int, path: str) -> _Made:
        store = await asyncio.to_thread(open_still, path, asyncio.get_running_loop(), _ignore)
        columnar = WorkerClient(store, os.path.join(path, "columnar"), memory_limit=WORKER_MEMORY, threads=1)
        node = PastNode(store, columnar, self._present, lsn, _nothing)
        node.read_catalogs()
        return _Made(path, store, columnar, node)

    # ---- letting go -------------------------------------------------------------------------------------------------

    def _left(self, made: _Made) -> None:
        made.users -= 1
        self._forget()

    def _forget(self) -> None:
        """Closes those that are too many."""
        for lsn, made in list(self._made.items()):
            if len(self._made) <= LIMIT:
                return
            if made.users == 0:
                del self._made[lsn]
                task = asyncio.get_running_loop().create_task(_close(made))
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Lets go of everything."""
        made, self._made = list(self._made.values()), {}
        await asyncio.gather(*map(_close, made), *self._closing)

    # ---- LSNs and times ---------------------------------------------------------------------------------------------

    async def lsn_at(self, time: int) -> int | None:
        """The last LSN before the first commit that was later than a time; None for one that is too old."""
        found = await self._source.lsn_at(time)
        if found is None:  # before the log begins there may be what it goes on from
            oldest = (await self._source.oldest_entry()) or 0
            for manifest in await self._source.checkpoints():
                if manifest.lsn + 1 == oldest and manifest.commit_time <= time:
                    return manifest.lsn
        return found

    async def time_of(self, lsn: int) -> int | None:
        """The commit time of an LSN; None for one that is too old."""
        for manifest in await self._source.checkpoints():
            if manifest.lsn == lsn and manifest.commit_time:
                return manifest.commit_time
        oldest = await self._source.oldest_entry()
        if oldest is None or lsn < oldest:
            return None
        async for entry in self._source.entries(lsn - 1, lsn):
            return entry.commit_time
        return None

    async def oldest(self) -> tuple[int, int] | None:
        """The oldest LSN that can be read, and its commit time (0: not known)."""
        if await self._source.oldest_entry() == 1:
            return 1, await self.time_of(1) or 0
        found = await self._source.checkpoints()
        return (found[0].lsn, found[0].commit_time) if found else None


async def _close(made: _Made) -> None:
    await made.columnar.close()
    made.store.close()
    await asyncio.to_thread(shutil.rmtree, made.path, ignore_errors=True)


def _ignore(_: BaseException) -> None:
    return


def _nothing() -> None:
    return
