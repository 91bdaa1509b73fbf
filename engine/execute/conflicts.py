"""ON CONFLICT: finds the row that conflicts with a proposed one.

A transaction that is about to insert a key of an arbiter index is waited for. A free key is not locked: the insertion
does that in the same turn of the event loop. An existing row is not locked either: DO NOTHING ignores it, and DO UPDATE
locks it as any UPDATE does. But a transaction that has changed it is waited for, because it may delete the row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter

from catalog.errors import SqlError
from engine.execute.code import NotOnRowPath
from engine.execute.exclusions import Exclusion
from engine.execute.writer import IndexWriter, Row, TableWriter
from engine.storage.keys import storage_prefix
from engine.txn.interface import READ_COMMITTED, Transaction

Look = Callable[[Transaction, Row], bytes | None]
"""Looks for a row that is in the way by one index."""


class ConflictFinder:
    """Finds conflicts in the given indexes (OIDs), or in every unique one for ()."""

    def __init__(self, writer: TableWriter, indexes: Sequence[int]) -> None:
        self._writer = writer
        primary = {oid for oid in writer.table.indexes if writer.catalog.index(oid).primary}
        if writer.primary is not None and writer.primary.index is not None:
            primary.add(writer.primary.index)
        by_key = bool(writer.table.key_columns) and (not indexes or bool(primary & set(indexes)))
        found = [index for index in writer.indexes if index.unique and (not indexes or index.index.oid in indexes)]
        exclusions = [item for item in writer.exclusions if not indexes or item.index.oid in indexes]
        if len(set(indexes) - primary) > len(found) + len(exclusions):
            raise NotOnRowPath("an arbiter index that is not unique")
        self._prefix = storage_prefix(writer.table.storage_id)
        looks: list[tuple[int, Look]] = [(min(primary, default=0), self._by_key)] if by_key else []
        looks += [(index.index.oid, partial(self._by_index, index)) for index in found]
        looks += [
            (item.index.oid, partial(self._refuse, item) if item.constraint.deferrable else item.in_the_way)
            for item in exclusions
        ]
        self._looks = [look for _, look in sorted(looks, key=itemgetter(0))]  # as ExecCheckIndexConstraints does

    def find(self, transaction: Transaction, values: Row) -> bytes | None:
        """The key of the conflicting row, None if there is none. Raises LockWait, 40001 (REPEATABLE READ), 55000 for a
        deferrable constraint."""
        key = next((key for look in self._looks if (key := look(transaction, values)) is not None), None)
        if transaction.isolation == READ_COMMITTED:
            return key
        if key is None:
            transaction.refuse_lost()
            return None
        if transaction.has_written(key):
            return key
        if transaction.get(key) != transaction.newest(key):  # ExecCheckTIDVisible
            raise SqlError("40001", "could not serialize access due to concurrent update")
        return key

    def _by_key(self, transaction: Transaction, values: Row) -> bytes | None:
        key = self._writer.key_of(values)
        assert key is not None
        return None if transaction.take_key(key, False) is None else key

    def _by_index(self, index: IndexWriter, transaction: Transaction, values: Row) -> bytes | None:
        entry = index.entry(values, b"") if index.guards(values) else None
        place = None if entry is None else transaction.take_key(entry, False)
        if place is None:
            return None
        transaction.wait_for_writer(self._prefix + place)
        return self._prefix + place

    def _refuse(self, exclusion: Exclusion, transaction: Transaction, values: Row) -> bytes | None:
        table = self._writer.table
        raise SqlError(
            "55000",
            "ON CONFLICT does not support deferrable unique constraints/exclusion constraints as arbiters",
            schema=self._writer.catalog.schema_name(table.schema),
            table=table.name,
            constraint=exclusion.constraint.name,
        )


def affected_twice() -> SqlError:
    """21000: a second proposed row of one command conflicts with the same row."""
    return SqlError(
        "21000",
        "ON CONFLICT DO UPDATE command cannot affect row a second time",
        hint="Ensure that no rows proposed for insertion within the same command have duplicate constrained values.",
    )
