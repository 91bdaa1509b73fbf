"""Advisory locks of a session (PostgreSQL 16 manual, 13.3.5 and 9.27.10).

The name of a lock is (database, first number, second number, 1 for one bigint or 2 for two integers). Its mode is
EXCLUSIVE or TABLE_SHARE of engine/txn/locks.py. All sessions share the space `Node.advisory_locks`, whose owner is the
session, so locks of one session never conflict with each other:

    session locks       counted; each unlock subtracts one; kept over ROLLBACK, until the connection ends
    transaction locks   released at the end of the transaction, or by ROLLBACK TO an older savepoint

A call that must wait raises LockWait, and its statement runs again when the lock is granted. `restart` first subtracts
the locks that the first run has counted; the next run finds them held and counts them again. Locks that were granted to
a run that never came are released at the end of the transaction (`_sweep`).

A wait belongs to the transaction (`waiting`), so a deadlock with row and table locks is detected too.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from engine.node.advisory_space import MODE_NAMES, AdvisorySpace, LockName
from engine.txn.interface import LockWait
from engine.txn.locks import Ticket

if TYPE_CHECKING:
    from engine.session.interface import SessionCore
    from engine.storage.moments import Lsn
    from engine.txn.transaction import Savepoint


class AdvisoryLocks:
    """The advisory locks of one session. Implements engine.txn.locks.Owner; `table_locks` are the modes by name."""

    def __init__(self, session: SessionCore, space: AdvisorySpace) -> None:
        self._session = session
        self._space = space
        self.process_id = session.process_id
        self.row_locks: dict[Hashable, int] = {}
        self.table_locks: dict[Hashable, int] = {}
        self._counts: dict[tuple[LockName, int], int] = {}  # the session's own
        self._taken: list[tuple[LockName, int]] = []  # the transaction's, in order
        self._saved: dict[int, int] = {}  # by id of a savepoint: how many of `_taken` are older
        self._run: object = None
        self._run_counted: list[tuple[LockName, int]] = []
        self._run_taken = 0  # how many of `_taken` the run found
        self._granted_late = False

    @property
    def waiting(self) -> Ticket | None:
        transaction = self._session.transaction
        return None if transaction is None else transaction.waiting

    @waiting.setter
    def waiting(self, ticket: Ticket | None) -> None:
        if self._session.transaction is not None:
            self._session.transaction.waiting = ticket

    def meet(self, lsn: Lsn) -> None:
        """See engine.txn.locks.Owner."""
        if self._session.transaction is not None:
            self._session.transaction.meet(lsn)

    @property
    def of_session(self) -> bool:
        """Whether the session holds locks beyond its transaction."""
        return bool(self._counts)

    @property
    def of_transaction(self) -> bool:
        """Whether its transaction holds locks."""
        return bool(self._taken)

    def lock(self, run: object, name: LockName, mode: int, of_session: bool, wait: bool) -> bool:
        """Takes a lock for the session or its transaction. `run` is one object for one run of a statement. Returns
        False if the lock is not free and `wait` is false. Raises LockWait, 40P01."""
        if self._session.transaction is None:
            self._session.begin_implicit()
        if run is not self._run:
            self._run, self._run_counted, self._run_taken = run, [], len(self._taken)
        if not wait and self._space.would_block(self, name, mode):
            return False
        ticket = self._space.acquire(self, self.table_locks, name, mode)
        if ticket is not None:
            self.restart()
            self._granted_late = True
            raise LockWait(ticket)
        if of_session:
            self._counts[name, mode] = self._counts.get((name, mode), 0) + 1
            self._run_counted.append((name, mode))
        else:
            self._taken.append((name, mode))
        return True

    def restart(self) -> None:
        """The statement runs again from its beginning."""
        for key in self._run_counted:
            self._uncount(key)
        del self._taken[self._run_taken :]
        self._run, self._run_counted = None, []
        self._granted_late = True

    def unlock(self, name: LockName, mode: int) -> bool:
        """Subtracts one of the session's counts. Returns False, with a warning, if there is none."""
        if (name, mode) not in self._counts:
            self._session.warn("01000", f"you don't own a lock of type {MODE_NAMES[mode]}")
            return False
        self._uncount((name, mode))
        self._trim(name)
        return True

    def unlock_all(self) -> None:
        """Releases all session locks; transaction locks stay."""
        names = {name for name, _ in self._counts}
        self._counts.clear()
        for name in names:
            self._trim(name)

    def save(self, savepoint: Savepoint) -> None:
        """SAVEPOINT."""
        self._saved[id(savepoint)] = len(self._taken)

    def roll_back_to(self, savepoint: Savepoint) -> None:
        """ROLLBACK TO, or an error after the savepoint."""
        kept = self._saved.get(id(savepoint), 0)
        gone = {name for name, _ in self._taken[kept:]}
        del self._taken[kept:]
        for name in gone:
            self._trim(name)

    def end_transaction(self) -> None:
        """COMMIT or ROLLBACK."""
        self._run = None
        self._saved.clear()
        if self._taken or self._granted_late:
            self._taken.clear()
            self._sweep()

    def close(self) -> None:
        """The connection has ended."""
        self._counts.clear()
        self._taken.clear()
        self._sweep()

    def _sweep(self) -> None:
        self._granted_late = False
        for name in list(self.table_locks):
            assert isinstance(name, tuple)
            self._trim(name)

    def _uncount(self, key: tuple[LockName, int]) -> None:
        left = self._counts.pop(key) - 1
        if left:
            self._counts[key] = left

    def _trim(self, name: LockName) -> None:
        """Releases the modes that have no count left."""
        modes = 0
        for mode in MODE_NAMES:
            if (name, mode) in self._counts or (name, mode) in self._taken:
                modes |= mode
        if self.table_locks.get(name, 0) != modes:
            session = self._session
            self._space.note_commit([name], session.last_commit, session.node.store.durable_lsn)
            self._space.weaken(self, name, modes)
