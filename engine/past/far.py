"""Moments that memory no longer has: directories that are filled with the state at an LSN, and nodes over them.

    PAST/<lsn>-<n>/         pg_default's directory: a checkpoint, and the log after it (engine/past/replay.py)
    PAST/<lsn>-<n>/<ts>/    another tablespace's, by id, at its LSN of the same moment

A directory is made at the first request, and shared by all readers of the same moment. LIMIT of them are kept, and the
least recently used one is removed. Those in use are always kept. Each has a worker of its own once a query needs
columns.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Protocol

from catalog.errors import SqlError
from catalog.schema import DEFAULT_TABLESPACE_OID, Index, Table
from catalog.schema import Tablespace as Place
from engine.checkpoint import CheckpointFiles, Manifest, read_checkpoint
from engine.columnar.client import WorkerClient
from engine.past.nodes import PastNode
from engine.past.replay import PastEntry, open_still, replay
from engine.storage.joints import whole
from engine.storage.moments import LSN_MASK, Lsn, Moment, lsn_in
from engine.storage.stores import AnyStore, Stores

if TYPE_CHECKING:
    from engine.node.node import Node
    from engine.storage.tablespace import Tablespace

LIMIT = 3
WORKER_MEMORY = 512 << 20  # bytes


JOINT_REACH = 60_000_000
"""Microseconds around a time in which the parts of transactions over several tablespaces are looked for: clocks may
have been set back meanwhile."""


class Source(Protocol):
    """The place where the past of a tablespace is kept."""

    @property
    def files(self) -> CheckpointFiles:
        """The files of checkpoints."""

    @property
    def root(self) -> str:
        """Their root directory."""

    async def checkpoints(self) -> Sequence[Manifest]:
        """The checkpoints from which every later LSN can be read, oldest first."""

    async def oldest_entry(self) -> int | None:
        """The first LSN of the kept log; None if it has no entry yet."""

    def hold(self, holder: str, after: int | None) -> None:
        """Keeps the log above an LSN until the same holder passes None."""

    def entries(self, after: int, upto: int) -> AsyncIterator[PastEntry]:
        """The verified entries above `after`, up to a durable one. Raises XX001."""

    async def fetch_bulk(self, name: str, path: str) -> None:
        """The bulk segment of an entry as a file. Raises XX001."""

    async def lsn_at(self, time: int) -> int | None:
        """The last LSN before the first commit later than a time; None if that is not kept."""


@dataclass(frozen=True, slots=True)
class Gone:
    """A dropped tablespace whose past is kept."""

    tablespace: bytes
    lsn: int  # of pg_default, at which the tablespace was dropped
    last: int  # its own last LSN


@dataclass(frozen=True, slots=True)
class _Kept:
    """A tablespace whose past is kept."""

    tablespace: bytes
    slot: int
    last: int  # the last LSN that can be read


@dataclass(slots=True)
class _Made:
    """An open directory. `spaces`: pg_default first."""

    path: str
    store: AnyStore
    spaces: list[Tablespace]
    columnar: WorkerClient
    node: PastNode
    users: int = 0


class FarPast:
    """An engine.past.manager.History over the sources of tablespaces, by id. `gone` returns the dropped ones. Existing
    files in `directory` are removed."""

    def __init__(
        self,
        present: Node,
        source_of: Callable[[bytes], Source],
        directory: str,
        gone: Callable[[], Sequence[Gone]] = tuple,
    ) -> None:
        self._present = present
        self._source_of = source_of
        self._gone = gone
        self._directory = directory
        self._made: dict[Lsn, _Made] = {}  # the longest unused first
        self._making: dict[Lsn, asyncio.Future[_Made]] = {}
        self._numbers = count(1)
        self._closing: set[asyncio.Task[None]] = set()
        shutil.rmtree(directory, ignore_errors=True)

    @property
    def _source(self) -> Source:
        """The source of pg_default."""
        return self._source_of(self._present.store.of(0).tablespace_id)

    def node_ready(self, at: Lsn) -> PastNode | None:
        """The node at a moment, if its directory exists."""
        made = self._made.pop(at, None)
        if made is None:
            return None
        self._made[at] = made
        made.users += 1
        node = PastNode(made.store, made.columnar, self._present, at, partial(self._leave, made))
        node.catalogs = made.node.catalogs
        node.share_plans(made.node)
        node.system = made.node.system
        return node

    async def node_at(self, at: Lsn) -> PastNode | None:
        """The node at a moment, or None if the moment is too old. Raises XX001, 58030."""
        if at not in self._made:
            parts = await self._parts(at)
            if parts is None:
                return None
            while at not in self._made:
                await self._once(at, partial(self._make, at, parts))
        return self.node_ready(at)

    async def _parts(self, at: Lsn) -> list[_Part] | None:
        """The parts of a moment, pg_default first; None if it is no longer kept."""
        found = []
        for kept in self._get_kept(lsn_in(0, at)):
            lsn = lsn_in(kept.slot, at)
            if kept.slot and lsn in (0, LSN_MASK):
                continue  # it is younger
            source = self._source_of(kept.tablespace)
            below = [manifest for manifest in await source.checkpoints() if manifest.lsn <= lsn]
            if not below and await source.oldest_entry() != 1:
                return None
            found.append(_Part(source, kept.tablespace, lsn, below[-1] if below else None))
        return found

    def _get_kept(self, first: int) -> list[_Kept]:
        """The tablespaces that may have existed at an LSN of pg_default, which comes first."""
        store = self._present.store
        if not isinstance(store, Stores):
            return [_Kept(store.tablespace_id, 0, store.durable_lsn)]
        found = [_Kept(space.tablespace_id, space.slot, space.durable_lsn) for space in store.open_spaces()]
        there = [item for item in self._gone() if item.lsn > first and item.tablespace in store.gone]
        return [*found, *(_Kept(item.tablespace, store.gone[item.tablespace], item.last) for item in there)]

    def had_others(self, lsn: int) -> bool:
        """Whether a tablespace that may have existed at an LSN of pg_default has been dropped since."""
        return any(item.lsn > lsn for item in self._gone())

    async def _once(self, at: Lsn, make: Callable[[], Awaitable[_Made]]) -> None:
        """Makes the directory, or waits until another reader has made it."""
        waiting = self._making.get(at)
        if waiting is not None:
            await asyncio.wait([waiting])
            return
        self._making[at] = future = asyncio.get_running_loop().create_future()
        try:
            self._made[at] = await make()
        finally:
            del self._making[at]
            future.cancel()
        self._forget()

    async def _make(self, at: Lsn, parts: Sequence[_Part]) -> _Made:
        path = os.path.join(self._directory, f"{lsn_in(0, at)}-{next(self._numbers)}")
        holder = f"past {path}"
        try:
            for part in parts:
                part.source.hold(holder, 0 if part.base is None else part.base.lsn)
            for number, part in enumerate(parts):
                await part.fill(os.path.join(path, part.tablespace.hex()) if number else path)
            return await self._open(at, path, parts)
        except BaseException:
            await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)
            raise
        finally:
            for part in parts:
                part.source.hold(holder, None)

    async def _open(self, at: Lsn, path: str, parts: Sequence[_Part]) -> _Made:
        loop = asyncio.get_running_loop()
        spaces: list[Tablespace] = []
        try:
            for number, part in enumerate(parts):
                place = os.path.join(path, part.tablespace.hex()) if number else path
                spaces.append(await asyncio.to_thread(open_still, place, loop))
            directory = os.path.join(path, "columnar")
            columnar = WorkerClient(spaces[0], directory, memory_limit=WORKER_MEMORY, threads=1, keep=False)
            store = spaces[0] if isinstance(at, int) else join_spaces(spaces)
            if isinstance(store, Stores):
                columnar.use(store)
                for space in spaces[1:]:
                    columnar.add_tablespace(space)
            node = PastNode(store, columnar, self._present, at)
            node.read_catalogs()
            route(node, {part.tablespace: space for part, space in zip(parts, spaces, strict=True)})
        except BaseException:
            for space in spaces:
                space.close()
            raise
        return _Made(path, store, spaces, columnar, node)

    # ---- letting go -------------------------------------------------------------------------------------------------

    def _leave(self, made: _Made) -> None:
        made.users -= 1
        self._forget()

    def _forget(self) -> None:
        """Closes the surplus directories."""
        for at, made in list(self._made.items()):
            if len(self._made) <= LIMIT:
                return
            if made.users == 0:
                del self._made[at]
                task = asyncio.get_running_loop().create_task(_close(made))
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Closes everything."""
        made, self._made = list(self._made.values()), {}
        await asyncio.gather(*map(_close, made), *self._closing)

    # ---- LSNs and times ---------------------------------------------------------------------------------------------

    async def lsn_at(self, time: int) -> int | None:
        """The last LSN before the first commit later than a time; None if the time is too old."""
        found = await self._source.lsn_at(time)
        if found is None:  # a checkpoint may have the state just before the log's beginning
            oldest = (await self._source.oldest_entry()) or 0
            for manifest in await self._source.checkpoints():
                if manifest.lsn + 1 == oldest and manifest.commit_time <= time:
                    return manifest.lsn
        return found

    async def whole(self, lsn: int, time: int) -> Moment | None:
        """An engine.past.manager.History.whole."""
        store = self._present.store
        assert isinstance(store, Stores)
        first, *others = self._get_kept(lsn)
        ends: dict[bytes, int] = {first.tablespace: lsn}
        for kept in others:
            found = await self._lsn_in(kept.tablespace, time)
            if found is None:
                return None
            ends[kept.tablespace] = found
        seen: dict[tuple[tuple[bytes, int], ...], None] = {}
        for kept in others:
            async for parts in self._joints_around(kept, time):
                seen[parts] = None
        ends = whole(ends, first.tablespace, [dict(parts) for parts in seen])
        slots = {kept.slot: ends[kept.tablespace] for kept in (first, *others)}
        return Moment(tuple(slots.get(slot, LSN_MASK) for slot in range(len(store.spaces))))

    async def _lsn_in(self, tablespace: bytes, time: int) -> int | None:
        """The last LSN of a tablespace before the first commit later than a time; None if the time is too old."""
        source = self._source_of(tablespace)
        found = await source.lsn_at(time)
        if found is None:
            for manifest in await source.checkpoints():
                if manifest.commit_time <= time and manifest.lsn + 1 == (await source.oldest_entry() or 0):
                    return manifest.lsn
            return 0 if await source.oldest_entry() in (None, 1) else None
        return found

    async def _joints_around(self, kept: _Kept, time: int) -> AsyncIterator[tuple[tuple[bytes, int], ...]]:
        """The parts of the transactions over several tablespaces that were committed in a tablespace around a time."""
        source = self._source_of(kept.tablespace)
        oldest = await source.oldest_entry()
        if oldest is None:
            return
        first = max(await source.lsn_at(time - JOINT_REACH) or 0, oldest - 1)
        async for entry in source.entries(first, kept.last):
            if entry.parts:
                yield entry.parts
            if entry.commit_time > time + JOINT_REACH:
                return

    async def time_of(self, lsn: int) -> int | None:
        """The commit time of an LSN; None if it is too old."""
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


@dataclass(frozen=True, slots=True)
class _Part:
    """A tablespace of a moment: its source, its LSN, and an earlier checkpoint. None: from the first entry."""

    source: Source
    tablespace: bytes
    lsn: int
    base: Manifest | None

    async def fill(self, path: str) -> None:
        """Makes the directory. Raises XX001, 58030."""
        source = self.source
        os.makedirs(path, 0o700)
        if self.base is not None:
            await read_checkpoint(source.files, source.root, self.base, path)
        reached = await replay(path, lambda after: source.entries(after, self.lsn), source.fetch_bulk)
        if reached != self.lsn:
            raise SqlError("XX001", f"the changelog ends at LSN {reached}, before {self.lsn}")


def join_spaces(spaces: Sequence[Tablespace]) -> Stores:
    """Joins tablespaces without writers, pg_default first, to the store of a node."""
    stores = Stores(spaces[0])
    for space in spaces[1:]:
        stores.add(space)
    return stores


def route(node: PastNode, spaces: Mapping[bytes, Tablespace]) -> None:
    """Sets the tablespaces of the tables in a node's store, after its catalogs were read; `spaces` by id. Raises 72000
    for tables in a tablespace that has been dropped since."""
    catalog, stores = node.shared_catalog, node.store
    if not isinstance(stores, Stores):
        return
    for item in catalog.objects.values():
        if isinstance(item, Table | Index) and item.tablespace != DEFAULT_TABLESPACE_OID:
            place = catalog.get(item.tablespace)
            space = spaces.get(bytes.fromhex(place.identity)) if isinstance(place, Place) else None
            if space is None:
                raise SqlError("72000", f'"{item.name}" was in a tablespace that has been dropped since LSN {node.lsn}')
            stores.route(item.storage_id, space)


async def _close(made: _Made) -> None:
    await made.columnar.close()
    for space in made.spaces:
        space.close()
    await asyncio.to_thread(shutil.rmtree, made.path, ignore_errors=True)
