"""Snapshots that several sessions read with: pg_export_snapshot(), shoal_hold_snapshot() and SET TRANSACTION SNAPSHOT
(PostgreSQL 16 manual, 9.27.5 and SET TRANSACTION).

    exported    by a transaction, which holds it until it ends; it can be imported only during this time: pg_dump --jobs
    held        by the node, for programs without a permanent session: until it is released, or unused for its lifetime

An importer has a hold of its own. Other sessions do not see the exporter's own writes. A snapshot belongs to one node:
exporter and importers are sessions of the same node (in a cluster, of the leader of the tables).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog.errors import SqlError, not_supported
from engine.node.lease import Lease
from engine.node.schema_of_snapshots import see, unseen_indexes
from engine.txn.interface import READ_COMMITTED, REPEATABLE_READ, SERIALIZABLE

if TYPE_CHECKING:
    from engine.node.interface import NodeSession
    from engine.storage.stores import StoresSnapshot
    from engine.storage.views import Snapshot
    from engine.txn.transaction import Transaction

MOST_HELD = 1024  # of a node


@dataclass(frozen=True, slots=True)
class _Export:
    session: NodeSession
    transaction: Transaction

    @property
    def holds(self) -> bool:
        """Whether the transaction still runs."""
        return self.session.transaction is self.transaction and self.transaction.has_snapshot

    @property
    def database(self) -> int:
        return self.session.database_oid

    @property
    def isolation(self) -> str:
        return self.transaction.isolation

    def share_with(self, transaction: Transaction) -> None:
        snapshot = self.transaction.snapshot
        assert snapshot is not None
        transaction.share_snapshot(snapshot)
        for index in unseen_indexes(self.transaction):
            see(transaction, index)


class _Hold:
    holds = True
    isolation = REPEATABLE_READ

    def __init__(
        self,
        session: NodeSession,
        snapshot: Snapshot | StoresSnapshot,
        seconds: int,
        at_end: Callable[[], None],
    ) -> None:
        self.database = session.database_oid
        self.user = session.user_name
        self._lease = Lease(seconds, at_end)
        self._snapshot = snapshot

    def share_with(self, transaction: Transaction) -> None:
        with self._lease.in_use():
            transaction.share_snapshot(self._snapshot)

    def end(self) -> None:
        self._lease.end()
        self._snapshot.close()


class ExportedSnapshots:
    """The exported and held snapshots of a node, by identifier."""

    def __init__(self) -> None:
        self._exported: dict[str, _Export] = {}
        self._held: dict[str, _Hold] = {}
        self._numbers = itertools.count(1)

    def _name(self, session: NodeSession) -> str:
        return f"{session.process_id:08X}-{next(self._numbers):08X}-1"

    def export(self, session: NodeSession) -> str:
        """The identifier of the snapshot of the session's transaction. Raises 25001, 0A000."""
        transaction = session.transaction or session.begin_implicit()
        if transaction.savepoints:
            raise SqlError("25001", "cannot export a snapshot from a subtransaction")
        self._exported = {name: known for name, known in self._exported.items() if known.holds}
        if transaction.isolation == READ_COMMITTED and transaction.has_snapshot:
            not_supported("exporting several snapshots of one READ COMMITTED transaction")
        transaction.hold_snapshot()
        name = self._name(session)
        self._exported[name] = _Export(session, transaction)
        return name

    def any_of(self, transaction: Transaction) -> bool:
        """Whether a transaction has exported a snapshot."""
        return any(known.transaction is transaction for known in self._exported.values())

    def hold(self, session: NodeSession, seconds: int) -> str:
        """The identifier of a snapshot of the present committed state. Raises 22023, 53400."""
        if len(self._held) >= MOST_HELD:
            raise SqlError("53400", f"a node holds {MOST_HELD} snapshots at most")
        name = self._name(session)
        snapshot = session.node.store.snapshot()
        try:
            self._held[name] = _Hold(session, snapshot, seconds, lambda: self._held.pop(name).end())
        except SqlError:
            snapshot.close()
            raise
        return name

    def release(self, session: NodeSession, name: str) -> bool:
        """Releases a snapshot. Returns whether the session's role has held it."""
        held = self._held.get(name)
        if held is None or held.user != session.user_name:
            return False
        self._held.pop(name).end()
        return True

    def close(self) -> None:
        """The node stops."""
        while self._held:
            self._held.popitem()[1].end()

    def import_into(self, session: NodeSession, name: str) -> None:
        """SET TRANSACTION SNAPSHOT. Raises 25001, 0A000, 22023."""
        transaction = session.transaction
        assert transaction is not None
        if transaction.queried or transaction.savepoints:
            raise SqlError("25001", "SET TRANSACTION SNAPSHOT must be called before any query")
        if transaction.isolation == READ_COMMITTED:
            message = "a snapshot-importing transaction must have isolation level SERIALIZABLE or REPEATABLE READ"
            raise SqlError("0A000", message)
        known = self._exported.get(name) or self._held.get(name)
        if known is None or not known.holds:
            raise SqlError("22023", f'invalid snapshot identifier: "{name}"')
        if known.database != session.database_oid:
            raise SqlError("0A000", "cannot import a snapshot from a different database")
        if transaction.isolation == SERIALIZABLE:
            if known.isolation != SERIALIZABLE:
                message = "a serializable transaction cannot import a snapshot from a non-serializable transaction"
                raise SqlError("0A000", message)
            not_supported("SET TRANSACTION SNAPSHOT of a SERIALIZABLE transaction")
        known.share_with(transaction)
