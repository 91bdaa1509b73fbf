"""Waits until the other replicas have applied a commit, for sessions with `synchronous_commit` = remote_apply.

    leader      awaited/<ts> := LSN         the highest LSN that a session waits for
    replica     its watch on that           -> applies up to it at once -> writes its applied LSN to replicas/<node>
    leader      its watches on replicas/*   -> every live replica has applied it

Without such sessions the cost is one watch: a replica then reports its applied LSN once a second. The znode is
ephemeral, so that the next leader begins without it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from replication.background import run_in_background
from replication.interface import ConflictError, Coordination, CoordinationUnavailableError, Replica
from replication.log.layout import decode_replica, paths
from replication.log.lsn_waiters import LsnWaiters
from replication.log.settings import LogSettings

AWAITED = "awaited"
LOOK = 0.5  # seconds after which a leader reads the replicas again, because a watch may be lost with its connection


def awaited_path(tablespace: bytes) -> str:
    return f"{AWAITED}/{tablespace.hex()}"


async def answer_remote_apply(
    tablespace: bytes,
    coordination: Callable[[], Coordination],
    waiters: LsnWaiters,
    tell: Callable[[], None],
    settings: LogSettings,
) -> None:
    """The replica's side, until it is cancelled: calls `tell` whenever an awaited LSN is applied."""
    wake = asyncio.Event()
    told = 0
    while True:
        wake.clear()
        try:
            found = await coordination().get(awaited_path(tablespace), wake.set)
        except CoordinationUnavailableError:
            await asyncio.sleep(settings.retry_pause)
            continue
        wanted = 0 if found is None else int(found.data)
        if wanted > told and await _wait_for_lsn_or_event(waiters, wanted, wake):
            told = wanted
            tell()
        else:
            if not wanted:
                told = 0  # the next leader may wait for an LSN that a former one has lost
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(settings.max_retry_pause):
                    await wake.wait()


async def _wait_for_lsn_or_event(waiters: LsnWaiters, lsn: int, wake: asyncio.Event) -> bool:
    """Whether the LSN was applied before the event came."""
    reached, woken = asyncio.ensure_future(waiters.wait_for(lsn)), asyncio.ensure_future(wake.wait())
    try:
        await asyncio.wait((reached, woken), return_when=asyncio.FIRST_COMPLETED)
        return reached.done()
    finally:
        reached.cancel()
        woken.cancel()


class RemoteApply:
    """The leader's side for one tablespace: waits until the other replicas have applied an LSN. `node` is the leader's
    own name."""

    def __init__(self, tablespace: bytes, node: str, coordination: Callable[[], Coordination]) -> None:
        self._tablespace = tablespace
        self._node = node
        self._coordination = coordination
        self._session: Coordination | None = None
        self._waiters = LsnWaiters()
        self._wanted = 0
        self._seen: dict[str, Replica | None] = {}  # the meaning of a watch
        self._names: list[str] | None = None
        self._wake = asyncio.Event()
        self._waiting = 0
        self._task: asyncio.Task[None] | None = None

    async def wait_for(self, lsn: int, timeout: float) -> bool:
        """Whether every live replica, except bootstrapping ones, has applied the LSN within `timeout` seconds."""
        # Without waiters the last awaited LSN may be one that this node lost with its leadership.
        self._wanted = max(self._wanted, lsn) if self._waiting else lsn
        self._wake.set()
        self._waiting += 1
        if self._task is None or self._task.done():
            self._task = run_in_background(self._run())
        try:
            async with asyncio.timeout(timeout):
                await self._waiters.wait_for(lsn)
        except TimeoutError:
            return False
        finally:
            self._waiting -= 1
        return True

    async def _run(self) -> None:
        announced = 0
        while self._waiting:
            self._wake.clear()
            with contextlib.suppress(CoordinationUnavailableError):
                coordination = self._coordination()
                if coordination is not self._session:
                    self._session, announced = coordination, 0
                    self._seen.clear()
                    self._names = None
                if self._wanted > max(announced, self._waiters.lsn):
                    announced = self._wanted
                    await self._announce(coordination, announced)
                self._waiters.advance(await self._min_applied_lsn(coordination))
                if self._waiters.lsn >= self._wanted:
                    await asyncio.sleep(0)  # lets the tasks that have waited end first
                    continue
            try:
                async with asyncio.timeout(LOOK):
                    await self._wake.wait()
            except TimeoutError:
                announced = 0

    async def _announce(self, coordination: Coordination, lsn: int) -> None:
        path, data = awaited_path(self._tablespace), str(lsn).encode()
        while True:
            try:
                await coordination.set(path, data)
                return
            except ConflictError:
                with contextlib.suppress(ConflictError):
                    await coordination.create(path, data, ephemeral=True)
                    return

    async def _min_applied_lsn(self, coordination: Coordination) -> int:
        """The LSN that every live replica has applied; the awaited LSN if there is no other replica."""
        folder = paths(self._tablespace).replicas
        names = self._names
        if names is None:
            watched = PendingWatch(self._wake)
            names = await coordination.children(folder, watched.fire)
            if not watched.has_fired:  # otherwise it changed before the answer arrived
                self._names = names
                watched.forget = self._forget_names
        others = [await self._replica(coordination, folder, name) for name in names if name != self._node]
        return min(
            (replica.applied for replica in others if replica is not None and replica.role != "bootstrapping"),
            default=self._wanted,
        )

    async def _replica(self, coordination: Coordination, folder: str, name: str) -> Replica | None:
        if name in self._seen:
            return self._seen[name]
        watched = PendingWatch(self._wake)
        found = await coordination.get(f"{folder}/{name}", watched.fire)
        replica = None if found is None else decode_replica(found.data)
        if not watched.has_fired:
            self._seen[name] = replica
            watched.forget = lambda: self._seen.pop(name, None)
        return replica

    def _forget_names(self) -> None:
        self._names = None


class PendingWatch:
    """A watch that was set with a read. It may fire before the read's answer arrives; then the answer is not cached."""

    def __init__(self, wake: asyncio.Event) -> None:
        self.has_fired = False
        self.forget: Callable[[], object] = lambda: None
        self._wake = wake

    def fire(self) -> None:
        self.has_fired = True
        self.forget()
        self._wake.set()
