"""The settings of a tablespace's log, its clock and threads, and LogGoneError."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from catalog.clock import now
from replication.interface import ChangelogStore

StoreOf = Callable[[str], ChangelogStore]
"""The store at a URL, opened once and kept; '' is the cluster's. Raises SqlError for a URL that is none."""


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Times in seconds, sizes in bytes."""

    commit_timeout: float = 10.0  # how long a commit may wait for store and coordination
    group_bytes: int = 1 << 20  # an object is cut at this size
    eager_bytes: int = 128 << 10  # with this much pending, an object is sent while others are still being stored
    max_puts: int = 4  # objects being stored at a time
    max_put_bytes: int = 16 << 20  # the same in bytes; one larger object is sent alone
    ledger_bytes: int = 64 << 20  # a ledger is rolled at this size
    time_to_live: float = 24 * 3600.0  # of a closed ledger that is not needed otherwise
    lost_replica_grace: float = 3600.0  # how long the log is kept for a lost replica
    lease_margin: float = 0.5  # strong reads end this long before the session can have expired
    poll: float = 0.5  # a follower reads the head at least this often, with or without a watch
    retry_pause: float = 0.1  # before a request without an answer is repeated; doubles up to the next one
    max_retry_pause: float = 2.0
    gather: float = (
        0.015  # time for which a follower collects commits before it reads the head, unless a session waits for them
    )
    fetch_ahead: int = 16  # runs of objects that a follower fetches at a time
    run_objects: int = 500  # of a run: small objects that are requested together
    run_bytes: int = 1 << 20
    turn_entries: int = 64  # entries that a follower applies before others get their turn
    turn_seconds: float = 0.002
    presence: float = 1.0  # how often a replica reports its state
    rank_pause: float = 0.15  # time for which a candidate waits for each better one
    takeover_timeout: float = 30.0  # to catch up with the log before the leadership is given up
    housekeeping: float = 30.0  # how often the leader searches ledgers to drop


class Clock(Protocol):
    """`monotonic` in seconds, on the scale of `Coordination.alive_until`; `wall` in microseconds since 2000-01-01."""

    def monotonic(self) -> float: ...

    def wall(self) -> int: ...


class SystemClock:
    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> int:
        return now()


class InThread(Protocol):
    """Runs a function that may block (a file system) and returns its result: asyncio.to_thread, or a simulated one in
    tests."""

    def __call__(self, work: Callable[..., Any], /, *arguments: Any) -> Awaitable[Any]: ...


in_thread: InThread = asyncio.to_thread


class LogGoneError(Exception):
    """The log no longer has the entries after the LSN: this replica must start from a checkpoint."""

    def __init__(self, lsn: int) -> None:
        super().__init__(f"the log after LSN {lsn} has been dropped")
        self.lsn = lsn
