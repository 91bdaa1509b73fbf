"""ON CONFLICT: which row is in the way of a proposed one.

The keys of the arbiter indexes are locked before they are looked at, so what is found stays so: a row that is there
stays in the way, and a key that is free stays free until the insertion.
"""

from __future__ import annotations

from collections.abc import Sequence

from catalog.errors import SqlError
from engine.execute.code import NotOnRowPath
from engine.execute.writer import IndexWriter, Row, TableWriter
from engine.storage.keys import storage_prefix
from engine.txn.interface import READ_COMMITTED, UPDATE, Transaction


class ConflictFinder:
    """Looks for conflicts over the given indexes (OIDs), or over every unique one for ()."""

    def __init__(self, writer: TableWriter, indexes: Sequence[int]) -> None:
        self._writer = writer
        primary = {oid for oid in writer.table.indexes if writer.catalog.index(oid).primary}
        if writer.primary is not None and writer.primary.index is not None:
            primary.add(writer.primary.index)
        self._by_key = bool(writer.table.key_columns) and (not indexes or bool(primary & set(indexes)))
        self._indexes: list[IndexWriter] = [
            index for index in writer.indexes if index.unique and (not indexes or index.index.oid in indexes)
        ]
        self._exclusions = [item for item in writer.exclusions if not indexes or item.index.oid in indexes]
        if len(set(indexes) - primary) > len(self._indexes) + len(self._exclusions):
            raise NotOnRowPath("an arbiter index that is not unique")
        self._prefix = storage_prefix(writer.table.storage_id)

    def find(self, transaction: Transaction, values: Row) -> bytes | None:
        """The key of the row in the way, None if the way is free. Raises LockWait, 40001 (REPEATABLE READ)."""
        key = self._find(transaction, values)
        if key is not None and transaction.isolation != READ_COMMITTED and transaction.get(key) is None:
            raise SqlError("40001", "could not serialize access due to concurrent update")
        return key

    def _find(self, transaction: Transaction, values: Row) -> bytes | None:
        if self._by_key:
            key = self._writer.key_of(values)
            assert key is not None
            transaction.lock(key, UPDATE)
            if transaction.newest(key) is not None:
                return key
        for index in self._indexes:
            if not index.guards(values):
                continue
            entry = index.entry(values, b"")
            if entry is None:
                continue
            transaction.lock(entry, UPDATE)
            place = transaction.newest(entry)
            if place is not None:
                return self._prefix + place
        for exclusion in self._exclusions:
            if (found := exclusion.in_the_way(transaction, values)) is not None:
                return found
        return None


def affected_twice() -> SqlError:
    """21000: a second proposed row of one command meets the same row."""
    return SqlError(
        "21000",
        "ON CONFLICT DO UPDATE command cannot affect row a second time",
        hint="Ensure that no rows proposed for insertion within the same command have duplicate constrained values.",
    )
