"""The numbers of transactions (pg_current_xact_id), and what has become of them: pg_xact_status, pg_current_snapshot.

A transaction gets its number when it asks for it. The outcomes of the last ones are in the memory of the node that
leads: after a restart or a fail-over the status of an older number is NULL, as of one that PostgreSQL has forgotten.
Numbers begin with the time in microseconds, so they never repeat.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from catalog.errors import SqlError

if TYPE_CHECKING:
    from engine.storage.moments import Lsn
    from engine.txn.transaction import Transaction

OUTCOMES_KEPT = 65536
Snapshot = tuple[int, int, tuple[int, ...]]
"""xmin, xmax, and the numbers between them that are in progress."""


class TransactionNumbers:
    def __init__(self) -> None:
        self._next = time.time_ns() // 1000
        self.running: dict[int, tuple[Transaction, int]] = {}  # by id(); prepared ones too
        self._ended: OrderedDict[int, int | None] = OrderedDict()
        """The LSN of the commit: 0 without writes, None for a transaction that was rolled back."""

    def assign(self, transaction: Transaction | None) -> int:
        """The number of a transaction; a new one at the first call. None is a statement that writes nothing."""
        if transaction is not None and (known := self.find(transaction)) is not None:
            return known
        number = self._next
        self._next += 1
        if transaction is None:
            self._note_end(number, 0)
        else:
            self.running[id(transaction)] = transaction, number
        return number

    def find(self, transaction: Transaction) -> int | None:
        """The number that a transaction has."""
        known = self.running.get(id(transaction))
        return None if known is None else known[1]

    def end(self, transaction: Transaction, lsn: int | None) -> None:
        """The transaction has committed with this LSN, or is rolled back (None)."""
        known = self.running.pop(id(transaction), None)
        if known is not None:
            self._note_end(known[1], lsn)

    def forget(self, transaction: Transaction) -> None:
        """Another node decides about a prepared transaction."""
        self.running.pop(id(transaction), None)

    def _note_end(self, number: int, lsn: int | None) -> None:
        self._ended[number] = lsn
        if len(self._ended) > OUTCOMES_KEPT:
            self._ended.popitem(last=False)

    def status(self, number: int, durable: Lsn) -> str | None:
        """pg_xact_status; None for a number that is not known (any more). Raises 22023 for one of the future."""
        if number >= self._next:
            raise SqlError("22023", f"transaction ID {number} is in the future")
        if number in self._ended:
            lsn = self._ended[number]
            if lsn is None:
                return "aborted"
            return "committed" if not lsn or durable >= lsn else "in progress"
        return "in progress" if any(found == number for _, found in self.running.values()) else None

    def snapshot(self, visible: Lsn) -> Snapshot:
        """The numbers whose commits a reader of this state does not see."""
        found = {number for _, number in self.running.values()}
        for number, lsn in reversed(self._ended.items()):
            if lsn and not visible >= lsn:
                found.add(number)
            elif lsn and isinstance(visible, int):
                break  # commits have ended in the order of their LSNs
        return min(found, default=self._next), self._next, tuple(sorted(found))
