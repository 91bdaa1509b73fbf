"""Applies changelog entries to a tablespace's directory without other users, after a checkpoint was restored.

The tablespace is opened over a read-only changelog, applies the entries as a follower does, and is closed. Then its
LMDB is the exact state at the last entry. If this is interrupted, the state is that of an earlier entry, and a later
call continues from there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Protocol

from catalog.errors import SqlError
from engine.storage.edits import runs_of
from engine.storage.tablespace import Tablespace
from engine.storage.unwritable import UnwritableLog

TURN = 200  # entries that are applied before others have the thread
PAUSE = 0.005  # seconds between two looks whether the flush has caught up
BULK = "replayed"


class PastEntry(Protocol):
    """A verified, committed entry of the changelog."""

    @property
    def lsn(self) -> int: ...

    @property
    def commit_time(self) -> int:
        """Microseconds since 2000-01-01 UTC."""

    @property
    def body(self) -> bytes: ...

    @property
    def parts(self) -> tuple[tuple[bytes, int], ...]:
        """The ids of the tablespaces of a transaction over several, with its LSN in each."""


FetchBulk = Callable[[str, str], Awaitable[None]]
"""(name of a bulk segment, path) -> the segment is a file there."""


class NoChangelog(UnwritableLog):
    """The changelog of a tablespace without commits (25006). `directory` holds replayed bulk segments until they are
    flushed."""

    def __init__(self, directory: str) -> None:
        super().__init__(lambda: SqlError("25006", "the past cannot be changed"))
        self._directory = directory

    def bulk_path(self, name: str) -> str:
        return os.path.join(self._directory, name)

    def bulk_names(self) -> list[str]:
        """Empty: segments of an interrupted replay are fetched again."""
        return os.listdir(self._directory) if os.path.isdir(self._directory) else []

    def drop_bulk(self, name: str, lsn: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.bulk_path(name))


def open_still(
    path: str, loop: asyncio.AbstractEventLoop, failed: Callable[[BaseException], None] | None = None
) -> Tablespace:
    """Opens the tablespace of a directory without a changelog. `failed` is called once when a write has failed. Raises
    the errors of Tablespace.open."""
    log = NoChangelog(os.path.join(path, BULK))
    return Tablespace.open(path, lambda *_: log, partial(_in_loop, loop), on_fatal=failed)


def _in_loop(loop: asyncio.AbstractEventLoop, work: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: the process is ending
        loop.call_soon_threadsafe(work)


async def replay(
    path: str,
    entries: Callable[[int], AsyncIterator[PastEntry]],
    fetch: FetchBulk,
    progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Applies `entries(after)`, the entries after the directory's state, in order and without a gap. When it returns,
    everything is in LMDB and nothing is open. Returns the LSN. `progress` is called with LSNs.

    Raises XX001 for damage, 58030 when the disk fails, and errors of `entries` and `fetch`.
    """
    loop = asyncio.get_running_loop()
    failures: list[BaseException] = []
    space = await asyncio.to_thread(open_still, path, loop, failures.append)
    try:
        os.makedirs(os.path.join(path, BULK), 0o700, exist_ok=True)
        applied = 0
        async for entry in entries(space.durable_lsn):
            for run in runs_of(entry.body):
                await fetch(run.name, os.path.join(path, BULK, run.name))
            space.apply(entry.lsn, entry.body, entry.commit_time)
            applied += 1
            if applied % TURN == 0:
                progress(entry.lsn)
                await asyncio.sleep(0)
            while space.pressure and not failures:
                await asyncio.sleep(PAUSE)
            _raise(failures)
        flushed = asyncio.Event()
        space.flush(flushed.set)
        while not flushed.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(flushed.wait(), 1.0)
            _raise(failures)
        reached = space.durable_lsn
        progress(reached)
        return reached
    finally:
        space.close()
        with contextlib.suppress(OSError):
            os.rmdir(os.path.join(path, BULK))


def _raise(failures: list[BaseException]) -> None:
    if failures:
        raise SqlError("58030", f"could not write: {failures[0]}") from failures[0]
