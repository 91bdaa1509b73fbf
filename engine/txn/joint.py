"""The commit queue of a node with several tablespaces: one queue for each, and commits with parts in several.

    commit(transaction)  -> its writes, by tablespace -> Stores.sequence: one entry, or one in each that are one Joint
    wait(LSN, callback)  -> in the queue of the LSN's tablespace: the parts of a commit become durable together
                            a Moment waits in every queue, `both` makes one of two positions

The clients of each tablespace get their answers in the order of its LSNs, and wait for no other tablespace. A value
drawn from a sequence is logged in pg_default: a commit elsewhere that may have used a value that is not durable yet
depends on pg_default (engine/storage/stores.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from catalog.errors import SqlError
from catalog.schema import SchemaObject
from engine.storage.edits import Edits
from engine.storage.moments import LSN_MASK, SEVERAL, SLOT_SHIFT, Lsn, position
from engine.storage.stores import ObservedStores, Stores
from engine.storage.tablespace import Tablespace
from engine.txn.commit import Acknowledge, Capture, CommitQueue, Lost
from engine.txn.transaction import Transaction


class JointCommits:
    """CommitQueue for `stores`. `first` is pg_default's queue, in which sessions may be waiting already; `last_logged`
    returns the LSN of the last record of a sequence, `concerned` the slots of the tablespaces that schema changes
    concern."""

    def __init__(
        self,
        stores: Stores,
        first: CommitQueue,
        clock: Callable[[], int],
        last_logged: Callable[[], int],
        concerned: Callable[[Mapping[int, SchemaObject | None]], Collection[int]],
    ) -> None:
        self._stores = stores
        self._first = first
        self._clock = clock
        self._last_logged = last_logged
        self._concerned = concerned
        self._queues: dict[int, CommitQueue] = {0: first}
        self._pairs: dict[int, tuple[int, int]] = {}
        self._numbers = itertools.count(1)

    def add(self, space: Tablespace) -> None:
        """Adds a tablespace of `stores`."""
        queue = self._queues[space.slot] = CommitQueue(space, self._clock)
        self._stores.on_durable(queue.on_durable, space.slot)

    def queue(self, slot: int) -> CommitQueue:
        """The queue of one tablespace."""
        return self._queues[slot]

    @property
    def capture(self) -> Capture | None:
        """As CommitQueue.capture."""
        return self._first.capture

    @capture.setter
    def capture(self, capture: Capture) -> None:
        self._first.capture = capture

    @property
    def schema_version(self) -> int:
        return self._first.schema_version

    @schema_version.setter
    def schema_version(self, version: int) -> None:
        self._first.schema_version = version

    def commit(self, transaction: Transaction, touched: Iterable[bytes] = ()) -> int:
        """As CommitQueue.commit; the position to wait for."""
        at = 0
        if transaction.has_writes:
            store = transaction.store
            observed = store.observed if isinstance(store, ObservedStores) else set()
            if self._last_logged() > self._stores.durable_lsn:
                observed.add(0)
            now = self._clock()
            if self.capture is not None:
                self.capture(transaction, now)
            edits = Edits(transaction.writes, [], transaction.drops)
            changed = transaction.changed_objects
            kept = store.concerned if isinstance(store, ObservedStores) else ()
            concerned = self._concerned(changed) if changed else {*kept, *self._stores.slots_of(touched)}
            at = self._stores.sequence(edits, now, self.schema_version, transaction.runs, observed, concerned=concerned)
        return at

    def sequence(self, writes: dict[bytes, bytes | None], drops: Sequence[int] = ()) -> int:
        """As CommitQueue.sequence; the position."""
        return self._stores.sequence(Edits(writes, [], list(drops)), self._clock(), self.schema_version)

    def sequence_everywhere(self, writes: dict[bytes, bytes | None]) -> int:
        """Sequences writes with a part in every writable tablespace; the position."""
        edits = Edits(writes, [], [])
        return self._stores.sequence(edits, self._clock(), self.schema_version, everywhere=True)

    # ---- waiting ------------------------------------------------------------------------------------------------

    def both(self, first: int, second: int) -> int:
        """A position that is durable when both are; 0 is none."""
        if first >> SLOT_SHIFT == second >> SLOT_SHIFT != SEVERAL:
            return max(first, second)
        if not first or not second:
            return first or second
        number = next(self._numbers)
        self._pairs[number] = first, second
        return position(SEVERAL, number)

    def late(self, met: Lsn) -> int:
        """As CommitQueue.late."""
        durable = self._stores.durable_lsn
        at = 0
        for slot, lsn in enumerate((met,) if isinstance(met, int) else met.lsns):
            if lsn > durable.of(slot):
                at = self.both(at, position(slot, lsn))
        return at

    def wait(self, lsn: Lsn, acknowledge: Acknowledge, lost: Lost) -> None:
        """As CommitQueue.wait. A position of `both` may be waited for once."""
        if isinstance(lsn, int):
            slot, number = lsn >> SLOT_SHIFT, lsn & LSN_MASK
            if slot == SEVERAL:
                self._wait_for_all(self._pairs.pop(number), acknowledge, lost)
            elif lsn <= self._stores.durable_lsn:
                acknowledge()
            else:
                self._queues[slot].wait(number, acknowledge, lost)
            return
        durable = self._stores.durable_lsn
        late = [position(slot, at) for slot, at in enumerate(lsn.lsns) if at > durable.of(slot)]
        self._wait_for_all(late, acknowledge, lost)

    def _wait_for_all(self, positions: Sequence[int], acknowledge: Acknowledge, lost: Lost) -> None:
        left = len(positions)
        over = False

        def note_durable() -> None:
            nonlocal left
            left -= 1
            if left <= 0 and not over:
                acknowledge()

        def note_failure(error: SqlError) -> None:
            nonlocal over
            if not over:
                over = True
                lost(error)

        if not positions:
            acknowledge()
        for at in positions:
            self.wait(at, note_durable, note_failure)

    def give_up(self, lsn: int, error: SqlError) -> None:
        """As CommitQueue.give_up, of pg_default."""
        self._first.give_up(lsn, error)


def wait_for(commits: CommitQueue | JointCommits, lsn: Lsn, acknowledge: Acknowledge, lost: Lost) -> None:
    """`wait` of either queue, for either kind of LSN."""
    if isinstance(commits, CommitQueue):
        assert isinstance(lsn, int)
        commits.wait(lsn, acknowledge, lost)
    else:
        commits.wait(lsn, acknowledge, lost)
