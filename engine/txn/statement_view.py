"""A transaction as the parts of one statement see it, if several parts write (WITH ... AS (UPDATE ...) ...).

    reads    the state at the start of the statement: its snapshot, under the earlier writes of the transaction. Writes
             of other parts are invisible (PostgreSQL 16 manual, 7.8.4)
    locks    are the transaction's. A row that another part has written counts as deleted: of two changes of one row by
             one statement only one takes place, as in PostgreSQL
    writes   go directly into the transaction

When all parts are done (`close`), the actions of foreign keys run, and they see all writes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

from engine.txn.interface import READ_COMMITTED
from engine.txn.overlay import MISSING, overlay
from engine.txn.transaction import Transaction

if TYPE_CHECKING:
    from engine.storage.moments import Lsn
    from engine.txn.deferred import Deferred


_UNCHANGED = object()


class StatementView:
    """An engine.txn.interface.Transaction. Made when the statement begins; `close` releases its snapshot."""

    def __init__(self, transaction: Transaction) -> None:
        transaction.begin_statement()
        self.transaction = transaction
        self.start = transaction.mark()
        self.isolation = transaction.isolation
        self.read_only = transaction.read_only
        self.is_replica = transaction.is_replica
        self.runs = list(transaction.runs)
        self._snapshot = transaction.store.snapshot() if transaction.isolation == READ_COMMITTED else None
        self._base = transaction.base if self._snapshot is None else self._snapshot
        self.snapshot_lsn: Lsn = transaction.snapshot_lsn if self._snapshot is None else self._snapshot.lsn
        self.touched: set[bytes] = set()  # keys that other parts have written
        self._before: dict[bytes, object] = {}  # of keys written since: their values at the start, or MISSING
        self._noted = self.start  # up to this mark
        transaction.views = (*transaction.views, self)

    @property
    def lsn(self) -> Lsn:
        return self.snapshot_lsn

    def begin_part(self, shared: bool) -> None:
        """The next part writes now. `shared`: other parts write its table too."""
        self.touched = set(self.transaction.written_since(self.start)) if shared else set()

    def end_parts(self) -> None:
        """All parts have written: the view shows all writes from now on."""
        self.touched = set()

    def close(self) -> None:
        """Releases the snapshot."""
        self.transaction.views = tuple(view for view in self.transaction.views if view is not self)
        if self._snapshot is not None:
            self._snapshot.close()
            self._snapshot = None

    def undo(self) -> None:
        """Undoes the writes of the statement."""
        transaction = self.transaction
        transaction.rollback_to(self.start)
        for run in transaction.runs[len(self.runs) :]:
            run.discard()
        del transaction.runs[len(self.runs) :]

    # ---- what was there when the statement began --------------------------------------------------------------------

    def note_writes(self) -> None:
        """Remembers what the writes since the last call have replaced."""
        for key, value in self.transaction.replaced_since(self._noted):
            self._before.setdefault(key, value)
        self._noted = self.transaction.mark()

    def note_rollback(self, mark: int) -> None:
        """The transaction is about to undo what it has written after the mark."""
        if mark >= self.start:
            self.note_writes()
            self._noted = mark

    def value_at_start(self, key: bytes) -> object:
        """What the transaction had written under a key when the statement began: None is deleted, MISSING is
        nothing."""
        if not self.start:
            return MISSING
        if self._noted < self.transaction.mark():
            self.note_writes()
        found = self._before.get(key, _UNCHANGED)
        return self.transaction.writes.get(key, MISSING) if found is _UNCHANGED else found

    def own_value(self, key: bytes) -> object:
        return self.transaction.own_value(key)

    def written_items(self) -> Iterator[tuple[bytes, bytes | None]]:
        """The keys and values that the transaction had written when the statement began."""
        for key in list(self.transaction.writes) if self.start else ():
            value = self.value_at_start(key)
            if value is not MISSING:
                yield key, value  # type: ignore[misc]

    def get(self, key: bytes) -> bytes | None:
        own = self.value_at_start(key)
        if own is not MISSING:
            return own  # type: ignore[return-value]
        for run in reversed(self.runs):
            found = run.get(key)
            if found is not None:
                return found.value
        return self._base.get(key)

    def scan(self, low: bytes, high: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        base = self._base.scan(low, high, reverse)
        for run in self.runs:
            base = overlay(base, run.scan(low, high, reverse), reverse)
        return overlay(base, self._own(low, high, reverse), reverse) if self.start else base

    def _own(self, low: bytes, high: bytes, reverse: bool) -> Iterator[tuple[bytes, bytes | None]]:
        for key in self.transaction.keys_written(low, high, reverse):
            value = self.value_at_start(key)
            if value is not MISSING:
                yield key, value  # type: ignore[misc]

    # ---- the transaction's own --------------------------------------------------------------------------------------

    def deferral(self) -> Deferred | None:
        return self.transaction.deferral()

    def get_locked(
        self,
        key: bytes,
        strength: int,
        wait: str = "block",
        same_key: Callable[[bytes, bytes], bool] | None = None,
        current: bool = False,
    ) -> bytes | None:
        value = self.transaction.get_locked(key, strength, wait, same_key, current)
        return None if key in self.touched else value

    def lock_unchanged(self, keys: Sequence[bytes], strength: int) -> bool:
        if not self.touched.isdisjoint(keys):
            return False
        return self.transaction.lock_unchanged(keys, strength, self.snapshot_lsn)

    def get_moved(self, key: bytes, strength: int, wait: str = "block") -> tuple[bytes, bytes | None]:
        new_key, value = self.transaction.get_moved(key, strength, wait)
        return new_key, None if key in self.touched or new_key in self.touched else value

    def get_to_change(self, key: bytes, current: bool = False) -> bytes | None:
        value = self.transaction.get_to_change(key, current)
        return None if key in self.touched else value

    def strengthen(self, key: bytes) -> None:
        self.transaction.strengthen(key)

    def refuse_lost(self) -> None:
        self.transaction.refuse_lost()

    def has_written(self, key: bytes) -> bool:
        return self.transaction.has_written(key)

    def lock(self, key: bytes, strength: int, wait: str = "block") -> bool:
        return self.transaction.lock(key, strength, wait)

    def take_key(self, key: bytes, to_have: bool = True) -> bytes | None:
        return self.transaction.take_key(key, to_have)

    def wait_for_writer(self, key: bytes) -> None:
        self.transaction.wait_for_writer(key)

    def lock_table(self, oid: Hashable, mode: int, wait: str = "block") -> None:
        self.transaction.lock_table(oid, mode, wait)

    def newest(self, key: bytes) -> bytes | None:
        return self.transaction.newest(key)

    def scan_newest(self, low: bytes, high: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        return self.transaction.scan_newest(low, high, reverse)

    def put(self, key: bytes, value: bytes) -> None:
        self.transaction.put(key, value)

    def move(self, key: bytes, new_key: bytes, value: bytes) -> None:
        self.transaction.move(key, new_key, value)

    def note_key_change(self, old_key: bytes | None, key: bytes) -> None:
        self.transaction.note_key_change(old_key, key)

    def delete(self, key: bytes) -> None:
        self.transaction.delete(key)

    def mark(self) -> int:
        return self.transaction.mark()

    def rollback_to(self, mark: int) -> None:
        self.transaction.rollback_to(mark)
