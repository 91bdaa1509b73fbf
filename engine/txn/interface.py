"""Transactions as the executors see them. engine/txn/transaction.py implements `Transaction`.

Everything here runs on the engine's thread and never blocks. If a lock is not free, `LockWait` is raised: the session
rolls the statement back to its mark, waits for the ticket, and runs the statement again. In READ COMMITTED it runs on
its old snapshot if it finds rows by it, otherwise on a new one; locks already taken are kept. So executors are plain
synchronous code.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from engine.storage.moments import Lsn

if TYPE_CHECKING:
    from engine.txn.deferred import Deferred

# Row lock strengths, PostgreSQL 16 manual, 13.3.2. Bits, so that conflicts are one AND.
KEY_SHARE = 1
SHARE = 2
NO_KEY_UPDATE = 4
UPDATE = 8

READ_COMMITTED = "read committed"
REPEATABLE_READ = "repeatable read"
SERIALIZABLE = "serializable"


class SettingsState(NamedTuple):
    """The settings of a session for a savepoint: all values, and those that stay after COMMIT, which are the same
    (None) before the first SET LOCAL."""

    values: Mapping[str, str]
    lasting: Mapping[str, str] | None


class EmptiedStorage(int):
    """A storage id that is dropped because TRUNCATE has emptied the table, which continues with another one."""


class WaitTicket(Protocol):
    def add_done_callback(self, callback: Callable[[], None]) -> None:
        """Called on the engine's thread when the lock is granted, or when the wait ends (then `error` is set)."""

    @property
    def error(self) -> Exception | None: ...

    def cancel(self, error: Exception) -> None:
        """Ends the wait with this error (statement timeout, cancel request, lock timeout)."""


class LockWait(BaseException):
    """The statement needs a lock that another transaction holds. BaseException: no executor may swallow it."""

    def __init__(self, ticket: WaitTicket) -> None:
        super().__init__("waiting for a lock")
        self.ticket = ticket
        self.then: Callable[[], None] | None = None
        """Called when the lock was granted, before the statement runs again. May raise SqlError."""


class Transaction(Protocol):
    """One transaction's private view. Also a storage Reader: `get` and `scan` see own writes over the snapshot."""

    isolation: str
    read_only: bool
    is_replica: bool  # session_replication_role: foreign keys are neither checked nor act
    snapshot_lsn: Lsn

    def own_value(self, key: bytes) -> object:
        """The value that it has written under a key (None: deleted), always the same object until it writes it again;
        another object if it has not written it."""

    def deferral(self) -> Deferred | None:
        """The deferred checks; None for a transaction of a single statement, which defers nothing."""

    def get(self, key: bytes) -> bytes | None: ...

    def scan(self, low: bytes, high: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]: ...

    def lock(self, key: bytes, strength: int, wait: str = "block") -> bool:
        """Locks the key, and returns True. Raises LockWait; 40P01 if the wait would close a cycle; 55P03 with
        wait='nowait'. Returns False with 'skip locked' if it is not free. A lock never becomes weaker."""

    def take_key(self, key: bytes, to_have: bool = True) -> bytes | None:
        """The value under a unique key, if no other running transaction has written it; None if there is none, and then
        locks the key if `to_have`. Raises LockWait, 40P01."""

    def wait_for_writer(self, key: bytes) -> None:
        """Raises LockWait if another running transaction has written the key."""

    def lock_table(self, oid: Hashable, mode: int, wait: str = "block") -> None:
        """Locks a table in a mode of engine/txn/locks.py, as `lock` does a key."""

    def get_locked(
        self,
        key: bytes,
        strength: int,
        wait: str = "block",
        same_key: Callable[[bytes, bytes], bool] | None = None,
        current: bool = False,
    ) -> bytes | None:
        """Locks the key, then returns its newest sequenced value (own write first). The value may be newer than the
        snapshot, so the caller evaluates its condition again (READ COMMITTED). Under REPEATABLE READ a newer version
        raises 40001. None: the row is deleted. `same_key`, for KEY SHARE: whether two versions agree in all unique
        columns, if the table has other ones than its primary key. `current`: the row was found in the newest state, not
        in the snapshot; otherwise a row that was deleted and inserted again since then counts as deleted."""

    def lock_unchanged(self, keys: Sequence[bytes], strength: int) -> bool:
        """Locks rows that the statement has found in its snapshot, if nobody has a lock of one and nobody has changed
        one since. False: that is not so, and nothing has happened; `get_locked` locks each of them."""

    def get_moved(self, key: bytes, strength: int, wait: str = "block") -> tuple[bytes, bytes | None]:
        """The row of a scan that `get_locked` has not found under its key: its new key, which is locked, and its newest
        version; None if it was deleted. Raises the errors of `get_locked`."""

    def get_to_change(self, key: bytes, current: bool = False) -> bytes | None:
        """`get_locked` with NO KEY UPDATE, for a row whose unique columns may change (`strengthen`)."""

    def strengthen(self, key: bytes) -> None:
        """Raises the lock of `get_to_change` to UPDATE. A transaction that has to wait for that holds nothing
        meanwhile."""

    def refuse_lost(self) -> None:
        """Raises 40001 if the row that the statement waited for is gone. For REPEATABLE READ."""

    def has_written(self, key: bytes) -> bool:
        """Whether this transaction has written the key."""

    def newest(self, key: bytes) -> bytes | None:
        """The newest sequenced value of a key, own write first, without a lock: for uniqueness checks of a key that the
        caller has locked."""

    def scan_newest(self, low: bytes, high: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """As `newest`, over a range: for foreign keys, whose referencing rows may be newer than the snapshot."""

    def put(self, key: bytes, value: bytes) -> None:
        """Writes. The key must be locked by this transaction. Raises 25006 in a read-only transaction."""

    def delete(self, key: bytes) -> None: ...

    def move(self, key: bytes, new_key: bytes, value: bytes) -> None:
        """Writes a new version of a row under a new key."""

    def note_key_change(self, old_key: bytes | None, key: bytes) -> None:
        """A row that has been deleted was inserted into another partition. Who waits for it ends with 40001."""

    def mark(self) -> int:
        """A position to roll back to: before each statement, and at SAVEPOINT."""

    def rollback_to(self, mark: int) -> None:
        """Undoes every write after the mark (locks taken since stay until the end for a statement restart)."""


class BatchTransaction(Transaction, Protocol):
    """A transaction that takes many rows at once."""

    def take_new(self, keys: Sequence[bytes]) -> bool:
        """Locks keys without duplicates that are free and have no version, all of them or none (False)."""

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """`put` of pairs with distinct keys."""
