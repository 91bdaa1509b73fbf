"""The commit queue: a write set gets an LSN and is applied; its client gets an answer, in LSN order, when it is
durable.

    commit(transaction)  -> Edits -> Tablespace.sequence: LSN, memtable, changelog
                         -> locks are released (sequenced is enough: LSNs become durable in order),
                            but those of a schema change when it is durable: then the committed catalog is replaced,
                            so that no session plans with tables and indexes whose rows cannot be read yet
                         -> wait(LSN, callback)
    on_durable(LSN)      -> callbacks of every LSN up to it, in order
    give_up(LSN)         -> `lost` of every LSN above it: the node lost its leadership before they were committed

An acknowledgement waits for a *position*. So other answers that need a durable LSN (a SELECT nextval, a read of a newer
commit) wait in the same queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING

from catalog.durations import durations
from catalog.errors import SqlError
from engine.storage.edits import Edits
from engine.txn.transaction import Transaction

if TYPE_CHECKING:
    from engine.storage.moments import Lsn
    from engine.storage.tablespace import Tablespace

Acknowledge = Callable[[], None]
Lost = Callable[[SqlError], None]
Capture = Callable[[Transaction, int], None]


class CommitQueue:
    def __init__(self, store: Tablespace, clock: Callable[[], int]) -> None:
        self._store = store
        self._clock = clock
        self._waiting: deque[tuple[int, Acknowledge, Lost]] = deque()
        self._measured: tuple[int, int] | None = None  # one waiting LSN, and the time since it waits
        self._durations = durations("shoal_commit_seconds")
        self.schema_version = 0
        self.capture: Capture | None = None
        """Adds the changes for change streams to the writes of a transaction, which is sequenced directly afterwards
        with a commit time."""

    def commit(self, transaction: Transaction, touched: Iterable[bytes] = ()) -> int:
        """Sequences the write set. Returns the LSN to wait for (0: no writes); the transaction's owner then releases
        its locks as described above. `touched`: further keys. With several tablespaces, the commit has a part in each
        of theirs."""
        lsn = 0
        if transaction.has_writes:
            now = self._clock()
            if self.capture is not None:
                self.capture(transaction, now)
            edits = Edits(transaction.writes, [run.reference for run in transaction.runs], transaction.drops)
            lsn = self._store.sequence(edits, now, self.schema_version)
        return lsn

    def sequence(self, writes: dict[bytes, bytes | None], drops: Sequence[int] = ()) -> int:
        """Sequences writes that belong to no transaction (sequence ranges). Returns the LSN."""
        return self._store.sequence(Edits(writes, [], list(drops)), self._clock(), self.schema_version)

    def both(self, first: int, second: int) -> int:
        """An LSN that is durable when both are; 0 is none."""
        return max(first, second)

    def late(self, met: Lsn) -> int:
        """The position to wait for until everything up to this one is durable; 0 if it is."""
        assert isinstance(met, int)
        return met if met > self._store.durable_lsn else 0

    def wait(self, lsn: int, acknowledge: Acknowledge, lost: Lost) -> None:
        """Calls back on the engine's thread when `lsn` is durable; at once if it is. Calls `lost` if it never will be
        (40001), or if that is unknown (08007)."""
        if lsn <= self._store.durable_lsn:
            acknowledge()
            return
        if self._measured is None:
            self._measured = lsn, perf_counter_ns()
        waiting = self._waiting
        if waiting and waiting[-1][0] > lsn:
            # A position before the newest commit (an old sequence range) takes its place, because order matters.
            later = []
            while waiting and waiting[-1][0] > lsn:
                later.append(waiting.pop())
            waiting.append((lsn, acknowledge, lost))
            waiting.extend(reversed(later))
            return
        waiting.append((lsn, acknowledge, lost))

    def on_durable(self, lsn: int) -> None:
        """Ends all waits for LSNs up to this one, in order."""
        measured = self._measured
        if measured is not None and measured[0] <= lsn:
            self._durations.add(perf_counter_ns() - measured[1])
            self._measured = None
        waiting = self._waiting
        while waiting and waiting[0][0] <= lsn:
            waiting.popleft()[1]()

    def give_up(self, lsn: int, error: SqlError) -> None:
        """Fails all waits for LSNs above this one."""
        self._measured = None
        waiting = self._waiting
        while waiting and waiting[-1][0] > lsn:
            waiting.pop()[2](error)
