"""A transaction for statements that fire triggers: it waits for locks at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from engine.execute.triggers import modified_error
from engine.statements.plpgsql import suspend
from engine.txn.interface import LockWait
from engine.txn.overlay import MISSING
from engine.txn.statement_view import StatementView

if TYPE_CHECKING:
    from engine.session.session import Session
    from engine.txn.transaction import Transaction


class PatientTransaction:
    """A transaction (or the view of one) that waits for locks at once: an engine.txn.interface.Transaction for code in
    a greenlet. Raises 27000 for a row that one of the statement's triggers has changed."""

    def __init__(self, session: Session, within: Transaction | StatementView) -> None:
        assert session.transaction is not None
        self._session = session
        self._within = within
        self._whole: Transaction = session.transaction
        self._view = within if isinstance(within, StatementView) else None
        self._own: set[bytes] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._within, name)

    def _wait(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        while True:
            try:
                return function(*args, **kwargs)
            except LockWait as lock:
                if not suspend.is_running():
                    raise
                suspend.wait(self._session.wait_for(lock))

    def is_modified(self, key: bytes) -> bool:
        """Whether a trigger's statement has written a row since this statement began."""
        written = self._whole.own_value(key)
        return self._view is not None and written is not MISSING and written is not self._view.value_at_start(key)

    def _refuse_modified(self, key: bytes) -> None:
        if key not in self._own and self.is_modified(key):
            raise modified_error("updated")

    def get_locked(self, key: bytes, strength: int, *args: Any, **kwargs: Any) -> Any:
        if not kwargs.get("current"):
            self._refuse_modified(key)
        return self._wait(self._within.get_locked, key, strength, *args, **kwargs)

    def get_moved(self, *args: Any, **kwargs: Any) -> Any:
        return self._wait(self._within.get_moved, *args, **kwargs)

    def get_to_change(self, key: bytes, *args: Any, **kwargs: Any) -> Any:
        if not kwargs.get("current"):
            self._refuse_modified(key)
        return self._wait(self._within.get_to_change, key, *args, **kwargs)

    def strengthen(self, key: bytes) -> None:
        self._wait(self._within.strengthen, key)

    def lock(self, *args: Any, **kwargs: Any) -> Any:
        return self._wait(self._within.lock, *args, **kwargs)

    def take_key(self, *args: Any, **kwargs: Any) -> Any:
        return self._wait(self._within.take_key, *args, **kwargs)

    def wait_for_writer(self, key: bytes) -> None:
        self._wait(self._within.wait_for_writer, key)

    def lock_table(self, *args: Any, **kwargs: Any) -> None:
        self._wait(self._within.lock_table, *args, **kwargs)

    def put(self, key: bytes, value: bytes) -> None:
        self._own.add(key)
        self._within.put(key, value)

    def move(self, key: bytes, new_key: bytes, value: bytes) -> None:
        self._own.add(key)
        self._own.add(new_key)
        self._within.move(key, new_key, value)

    def delete(self, key: bytes) -> None:
        self._own.add(key)
        self._within.delete(key)


def patient(session: Session, within: Transaction | StatementView) -> Transaction:
    """The transaction for code in a greenlet."""
    return cast("Transaction", PatientTransaction(session, within))
