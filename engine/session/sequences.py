"""nextval(), currval(), lastval() and setval() of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.schema import Schema, Sequence, Table
from engine.txn.locks import ROW_EXCLUSIVE

if TYPE_CHECKING:
    from engine.session.identity import Identity
    from engine.session.interface import SessionCore


class SessionSequences:
    """The sequence values that the session has drawn, by the sequences' OIDs."""

    def __init__(self, session: SessionCore, identity: Identity) -> None:
        self._session = session
        self._identity = identity
        self._values: dict[int, int] = {}
        self._last: int | None = None
        self._allowed: object = None  # the last sequence whose privileges were checked, and the role

    def next_value(self, oid: int) -> int:
        self._lock(oid)
        item = self._sequence(oid, "Uw")
        self._refuse_if_read_only(item, "nextval()")
        value = self._session.node.sequences.next_value(item)
        self.note_drawn(oid, value)
        return value

    def note_drawn(self, oid: int, value: int) -> None:
        """The session has been given a value."""
        self._values[oid] = value
        self._last = oid

    def current_value(self, oid: int) -> int:
        item = self._sequence(oid, "Ur")
        if oid not in self._values:
            raise SqlError("55000", f'currval of sequence "{item.name}" is not yet defined in this session')
        return self._values[oid]

    def last_value(self) -> int:
        if self._last is None or not isinstance(self._session.catalog.get(self._last), Sequence):
            raise SqlError("55000", "lastval is not yet defined in this session")
        self._sequence(self._last, "Ur")
        return self._values[self._last]

    def set_value(self, oid: int, value: int, is_called: bool) -> None:
        self._lock(oid)
        item = self._sequence(oid, "w")
        self._refuse_if_read_only(item, "setval()")
        self._session.node.sequences.set_value(item, value, is_called)
        if is_called:
            self.note_drawn(oid, value)

    def forget(self) -> None:
        """DISCARD SEQUENCES."""
        self._values.clear()
        self._last = None

    def _refuse_if_read_only(self, item: Sequence, command: str) -> None:
        transaction = self._session.transaction
        if transaction is not None and item.schema != self._session.temporary_schema:
            transaction.refuse_if_read_only(command)

    def _lock(self, oid: int) -> None:
        """Prevents changes of the definition of a sequence that the transaction has drawn from, and waits for a
        transaction that has changed it. Raises LockWait."""
        if self._session.transaction is not None:
            self._session.transaction.lock_table(oid, ROW_EXCLUSIVE)

    def _sequence(self, oid: int, letters: str) -> Sequence:
        """The sequence, if the user holds one of the privileges; for an identity column, those of its table."""
        session = self._session
        item = session.catalog.get(oid)
        if isinstance(item, Sequence):
            if item.owned_kind != "i":
                key = (session.catalog.version, session.user_name, oid, letters)
                if key != self._allowed:
                    self._identity.check_letters(item, letters)
                    self._allowed = key
            return item
        if isinstance(item, Table | Schema):
            raise SqlError("42809", f'"{item.name}" is not a sequence')
        raise SqlError("42P01", f"relation with OID {oid} does not exist")
