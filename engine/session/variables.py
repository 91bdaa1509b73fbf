"""SET and SHOW: settings, and the modes of the transaction, which are settings too (transaction_isolation and
similar)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.encodings import encoding_named
from catalog.errors import SqlError, not_supported
from catalog.privileges import may_set
from catalog.text_search.configurations import qualified_name
from engine.session import safe_snapshots
from engine.session.server_settings import server_settings, show_checked
from engine.session.setting_definitions import (
    DEFINITIONS,
    IDENTITIES,
    MEMORY_LIMITS,
    OF_TRANSACTION,
    SERVER_DEFINITIONS,
    byte_count,
)
from engine.session.settings import is_for_superusers, not_permitted
from engine.txn.interface import READ_COMMITTED
from engine.txn.transaction import Savepoint, Transaction

if TYPE_CHECKING:
    from engine.session.identity import Identity
    from engine.session.interface import SessionCore


class SessionVariables:
    """The variables of one session. `given_limits` are the memory limits that the server, its database or its role give
    it."""

    def __init__(self, session: SessionCore, identity: Identity) -> None:
        self._session = session
        self._identity = identity
        self.given_limits: dict[str, str] = {}
        # The transaction's own limits.
        self._asked_isolation: tuple[Transaction | None, str] = (None, "")
        self._deferrable: tuple[Transaction | None, bool] = (None, False)
        self._modes_before: list[tuple[Savepoint, bool]] = []  # READ ONLY at savepoints, if it has changed

    def get(self, name: str) -> str:
        """The value for SHOW and current_setting: the transaction's own value, if it has one. Raises 42704."""
        session = self._session
        key = name.lower()
        if key not in OF_TRANSACTION:
            return show_checked(session, key) if key in SERVER_DEFINITIONS else session.settings.get(name)
        transaction = session.transaction if session.has_block else None
        if key == "transaction_isolation":
            default = session.settings.get("default_transaction_isolation")
            if transaction is None:
                return default
            asked = self._asked_isolation[1] if self._asked_isolation[0] is transaction else default
            return asked if asked == "read uncommitted" else transaction.isolation
        if key == "transaction_deferrable":
            if transaction is not None and self._deferrable[0] is transaction:
                return "on" if self._deferrable[1] else "off"
            return session.settings.get("default_transaction_deferrable")
        read_only = session.default_read_only if transaction is None else transaction.read_only
        return "on" if read_only else "off"

    def list_shown(self) -> list[tuple[str, str]]:
        """(name, value) of every setting, as SHOW prints it."""
        session = self._session
        found = [
            (name, self.get(name) if name in OF_TRANSACTION else value) for name, value in session.settings.items()
        ]
        return sorted(found + server_settings(session), key=lambda item: item[0].lower())

    def set(self, name: str, value: str, local: bool) -> None:
        """set_config(). Raises what SET raises."""
        session = self._session
        if name.lower() in IDENTITIES:
            self._identity.set(name.lower(), value, local)
        else:
            self.set_mode(name, value)
            self.check(name, value)
            session.settings.set(name, value, local=local, in_transaction=True)

    # ---- the modes of the transaction -------------------------------------------------------------------------------

    def set_mode(self, name: str, value: str) -> None:
        """SET transaction_read_only and similar act like SET TRANSACTION. Other settings are ignored here. Raises
        25001, 22023."""
        key, transaction = name.lower(), self._session.transaction
        if key not in OF_TRANSACTION or transaction is None:
            return
        wanted = DEFINITIONS[key].check(name, value)
        if key == "transaction_isolation":
            self.set_isolation(transaction, wanted)
        elif key == "transaction_read_only":
            self.set_read_only(transaction, wanted == "on")
        else:
            self.set_deferrable(transaction, wanted == "on")

    def set_isolation(self, transaction: Transaction, isolation: str) -> None:
        """SET TRANSACTION ISOLATION LEVEL. Raises 25001 for another level after the first query, or in a savepoint."""
        session = self._session
        if isolation != self.get("transaction_isolation"):
            if transaction.queried:
                raise SqlError("25001", "SET TRANSACTION ISOLATION LEVEL must be called before any query")
            if transaction.savepoints:
                raise SqlError("25001", "SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction")
        self._asked_isolation = transaction, isolation
        if session.node is session.present:  # a transaction in the past reads one moment in any case
            transaction.isolation = READ_COMMITTED if isolation == "read uncommitted" else isolation
            safe_snapshots.look_before(session, transaction)

    def set_read_only(self, transaction: Transaction, read_only: bool) -> None:
        """READ ONLY and READ WRITE. Raises 25001 for a READ WRITE that comes too late, 25006 for the past."""
        session = self._session
        if not read_only and session.node is not session.present:
            raise SqlError("25006", "a transaction that reads the past is read-only", hint="RESET as_of first.")
        if not read_only and transaction.read_only:
            if transaction.savepoints:
                raise SqlError("25001", "cannot set transaction read-write mode inside a read-only transaction")
            if transaction.queried:
                raise SqlError("25001", "transaction read-write mode must be set before any query")
        known = {id(point): (point, was) for point, was in self._modes_before}
        self._modes_before = [known.get(id(item), (item, transaction.read_only)) for item in transaction.savepoints]
        transaction.read_only = read_only

    def set_deferrable(self, transaction: Transaction, deferrable: bool) -> None:
        """DEFERRABLE: a SERIALIZABLE READ ONLY transaction waits for a safe snapshot (safe_snapshots.py). Raises 25001
        after the first query, or in a savepoint."""
        if transaction.savepoints:
            raise SqlError("25001", "SET TRANSACTION [NOT] DEFERRABLE cannot be called within a subtransaction")
        if transaction.queried:
            raise SqlError("25001", "SET TRANSACTION [NOT] DEFERRABLE must be called before any query")
        self._deferrable = transaction, deferrable

    def continue_modes(self, before: Transaction, transaction: Transaction) -> None:
        """AND CHAIN: the new transaction has the modes of the previous one."""
        transaction.isolation, transaction.read_only = before.isolation, before.read_only
        if self._asked_isolation[0] is before:
            self._asked_isolation = transaction, self._asked_isolation[1]
        if self._deferrable[0] is before:
            self._deferrable = transaction, self._deferrable[1]

    def back_to(self, transaction: Transaction, savepoint: Savepoint | None) -> None:
        """Restores READ ONLY as of the savepoint, which is released or rolled back to."""
        for point, was in self._modes_before:
            if point is savepoint:
                transaction.read_only = was

    # ---- checks -----------------------------------------------------------------------------------------------------

    def check(self, name: str, value: str | None) -> None:
        """Checks that need the session. Raises 22023 for a `default_tablespace` or `default_text_search_config` that
        does not exist, 0A000 for an encoding that a cluster does not support, 42501 for a setting of superusers."""
        session = self._session
        if value is not None and name.lower() not in DEFINITIONS and len(value) > session.memory.get_left():
            raise session.memory.refusal()
        if not may_set(session.catalog, self._identity.user, name):
            if is_for_superusers(name):
                raise not_permitted(name)
            self.check_limit(name, value)
        self.check_encoding(name, value)
        if name.lower() == "default_text_search_config" and value is not None:
            session.environment.make_current()
            if qualified_name(value) is None:
                raise SqlError("22023", f'invalid value for parameter "{name}": "{value}"')
        if name.lower() == "default_tablespace" and value and value not in session.catalog.tablespaces:
            message = f'invalid value for parameter "{name}": "{value}"'
            raise SqlError("22023", message, detail=f'Tablespace "{value}" does not exist.')

    def check_limit(self, name: str, value: str | None) -> None:
        """Raises 42501 for a memory limit above the one that the server, the database or the role has given to the
        session."""
        key, memory = name.lower(), self._session.memory
        if key in MEMORY_LIMITS and value is not None:
            wanted, given = byte_count(DEFINITIONS[key].check(name, value)), byte_count(self.given_limits[key])
            if key == "connection_memory_limit" and not given and wanted > memory.share:
                hint = f"It is half of the server's memory here, {memory.share >> 10}kB: only superusers raise it."
                raise SqlError("42501", f'permission denied to set parameter "{name}" to "{value}"', hint=hint)
            if given and (not wanted or wanted > given):
                hint = f"It is {self.given_limits[key]} here: only superusers raise it."
                raise SqlError("42501", f'permission denied to set parameter "{name}" to "{value}"', hint=hint)

    def check_encoding(self, name: str, value: str | None) -> None:
        if name.lower() == "client_encoding" and value and self._session.node.cluster_view is not None:
            found = encoding_named(value)
            if found is not None and not found.is_utf8:
                not_supported(f"client_encoding {found.name} in a cluster")
