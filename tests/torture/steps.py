"""Stops a node at a named step of a commit or a takeover: called in the node's process (tests/cluster.py, `hooks`).

A test writes `<step>:<count>` into the node's control file (`arm`). When the node comes to that step for the count'th
time from then on, it renames the file and stops itself by SIGSTOP, all threads at once, as a machine that freezes. The
test then kills it, or lets it go on when others have taken its place. The product knows nothing of this: what is
wrapped are the store and the ZooKeeper session that the node's composition root opens.

    before put, after put            of a changelog object
    before multi                     the commit is about to be asked for
    multi sent                       ZooKeeper has been asked, and may have done it; the node knows of no answer
    before acknowledging             the answer has been read, and nobody was told
    reply lost                       ZooKeeper has done it, and the node never gets the answer
    epoch bumped                     a takeover: the old leader is fenced, the head not read
    ledger closed                    a takeover, or the roll of a ledger: the list is written
"""

from __future__ import annotations

import asyncio
import os
import pathlib
import random
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from replication.interface import ChangelogStore, Operation, OutcomeUnknownError, Set
from replication.log.layout import decode_epoch
from replication.zookeeper.session import ZooKeeperCoordination

COMMIT_STEPS = ("before put", "after put", "before multi", "multi sent", "before acknowledging", "reply lost")
TAKEOVER_STEPS = ("epoch bumped", "ledger closed")
SENDING = 0.004  # seconds in which kazoo's thread writes a request, and ZooKeeper does it

T = TypeVar("T")
_control = ""
_counts: dict[str, int] = {}
_armed = ("", 0)
_seen = (0, 0)


def control_file(node: pathlib.Path) -> pathlib.Path:
    """`node`: what the node has in SHOAL_TEST_NODE."""
    return node.with_suffix(".pause")


def arm(node: pathlib.Path, step: str, count: int = 1) -> None:
    """From now on the node stops at the step."""
    fresh = node.with_suffix(".arming")
    fresh.write_text(f"{step}:{count}")
    fresh.rename(control_file(node))


def disarm(node: pathlib.Path) -> bool:
    """Whether the node had not stopped yet."""
    node.with_suffix(".paused").unlink(missing_ok=True)
    try:
        control_file(node).unlink()
    except FileNotFoundError:
        return False
    return True


def paused(node: pathlib.Path) -> bool:
    """Whether the node has come to the step."""
    return node.with_suffix(".paused").exists()


def install() -> None:
    """Called once in the node's process, before it starts."""
    global _control
    from shoal.cluster.member import ClusterMember

    _control = str(control_file(pathlib.Path(os.environ["SHOAL_TEST_NODE"])))
    store_at = ClusterMember._store_at
    ClusterMember._store_at = lambda self, url: _store(store_at(self, url))  # type: ignore[method-assign]
    ZooKeeperCoordination.multi = _multi(ZooKeeperCoordination.multi)  # type: ignore[method-assign]
    ZooKeeperCoordination.set = _set(ZooKeeperCoordination.set)  # type: ignore[method-assign]


def _reached(step: str) -> bool:
    """Whether this is where to stop. Cheap as long as nothing is armed: one failing system call."""
    global _armed, _seen
    try:
        found = os.stat(_control)
        if _seen != (found.st_ino, found.st_mtime_ns):  # armed anew
            name, _, count = pathlib.Path(_control).read_text().partition(":")
            _seen, _armed = (found.st_ino, found.st_mtime_ns), (name, int(count))
            _counts.clear()
    except FileNotFoundError:
        return False
    _counts[step] = _counts.get(step, 0) + 1
    return step == _armed[0] and _counts[step] >= _armed[1]


def _stop() -> None:
    try:
        os.rename(_control, _control.removesuffix(".pause") + ".paused")
    except FileNotFoundError:
        return  # disarmed at the last moment
    os.kill(os.getpid(), signal.SIGSTOP)


def _pause(step: str) -> None:
    if _reached(step):
        _stop()


class _Store:
    """A changelog store with steps around `put`."""

    def __init__(self, inner: ChangelogStore) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def put(self, name: str, data: bytes) -> None:
        _pause("before put")
        await self._inner.put(name, data)
        _pause("after put")


_stores: dict[int, _Store] = {}


def _store(inner: ChangelogStore) -> Any:
    found = _stores.get(id(inner))
    if found is None:
        found = _stores[id(inner)] = _Store(inner)
    return found


Multi = Callable[[ZooKeeperCoordination, Sequence[Operation]], Awaitable[list[int]]]


def _multi(original: Any) -> Any:
    async def multi(self: ZooKeeperCoordination, operations: Sequence[Operation]) -> list[int]:
        written = {item.path.rpartition("/")[2] for item in operations if isinstance(item, Set)}
        if "ledgers" in written:
            answer: list[int] = await original(self, operations)
            _pause("ledger closed")
            return answer
        if "epoch" in written:
            return await _claimed(original(self, operations), operations)
        if "head" not in written:
            return list(await original(self, operations))
        _pause("before multi")
        asked = asyncio.ensure_future(original(self, operations))
        await asyncio.sleep(0)
        if _reached("multi sent"):
            time.sleep(random.uniform(0.0, SENDING))
            _stop()
        answer = await asked
        if _reached("reply lost"):
            _stop()
            raise OutcomeUnknownError("the reply was lost")
        _pause("before acknowledging")
        return answer

    return multi


def _set(original: Any) -> Any:
    async def set_(self: ZooKeeperCoordination, path: str, data: bytes, version: int = -1) -> Any:
        return await _claimed(original(self, path, data, version), [Set(path, data, version)])

    return set_


async def _claimed(asked: Awaitable[T], operations: Sequence[Operation]) -> T:
    answer = await asked
    for item in operations:
        if isinstance(item, Set) and item.path.endswith("/epoch") and decode_epoch(item.data).leader:
            _pause("epoch bumped")
    return answer
