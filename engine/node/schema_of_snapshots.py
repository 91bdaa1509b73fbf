"""Schema changes beside transactions that have taken the one snapshot of all their statements, which is older.

    DETACH PARTITION CONCURRENTLY   they still find the partition through its parent (find_inheritance_children_extended
                                    in PostgreSQL's pg_inherits.c)
    CREATE INDEX, REINDEX           the new tree has entries from its commit on, so they do not read it; they write its
                                    entries

Each transaction has its own version of such a partition or index in its catalog, until it ends or the partition is
detached.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from catalog.schema import PENDING_BUT_SEEN, Index, SchemaObject, Table
from engine.txn.interface import READ_COMMITTED

if TYPE_CHECKING:
    from engine.txn.transaction import Transaction


def note_changes(
    transactions: Sequence[Transaction | None],
    before: Mapping[int, SchemaObject],
    changes: Mapping[int, SchemaObject | None],
) -> None:
    """Called when changes of the schema are about to be published."""
    for oid, item in changes.items():
        if isinstance(item, Index):
            if _is_new(before.get(oid), item):
                for transaction in _with_snapshot(transactions):
                    see(transaction, replace(item, unseen=True))
            continue
        begun = _is_pending(before.get(oid))
        if _is_pending(item) == begun:
            continue
        for transaction in _with_snapshot(transactions):
            if begun:
                see_committed(transaction, oid)
            elif isinstance(item, Table):
                see(transaction, replace(item, detaching=PENDING_BUT_SEEN))


def _with_snapshot(transactions: Sequence[Transaction | None]) -> Iterator[Transaction]:
    for transaction in transactions:
        if transaction is not None and transaction.isolation != READ_COMMITTED and transaction.has_snapshot:
            yield transaction


def _is_new(before: SchemaObject | None, index: Index) -> bool:
    """Whether the index has a tree that it did not have before."""
    had = isinstance(before, Index) and before.ready and before.storage_id == index.storage_id
    return index.ready and not had


def _is_pending(item: SchemaObject | None) -> bool:
    return isinstance(item, Table) and bool(item.detaching)


def see(transaction: Transaction, item: Table | Index) -> None:
    """The transaction's statements use this version of a partition or an index, which is not the committed one."""
    for objects in _changed_objects(transaction):
        objects.setdefault(item.oid, item)
    transaction.catalog = None


def unseen_indexes(transaction: Transaction) -> list[Index]:
    """The indexes that the transaction does not read."""
    return [item for item in transaction.changed_objects.values() if isinstance(item, Index) and item.unseen]


def see_committed(transaction: Transaction, oid: int | None = None) -> None:
    """The transaction's statements use the committed version of a partition again, or of all objects."""
    for objects in _changed_objects(transaction):
        for seen in [oid] if oid is not None else list(objects):
            item = objects.get(seen)
            if (isinstance(item, Table) and item.detaching == PENDING_BUT_SEEN) or (
                isinstance(item, Index) and item.unseen
            ):
                del objects[seen]
    transaction.catalog = None


def _is_own_version(item: SchemaObject | None) -> bool:
    if isinstance(item, Table):
        return item.detaching == PENDING_BUT_SEEN
    return isinstance(item, Index) and item.unseen


def _changed_objects(transaction: Transaction) -> Iterator[dict[int, SchemaObject | None]]:
    """The objects that it has changed, now and at its savepoints."""
    yield transaction.changed_objects
    for point in transaction.savepoints:
        yield point.changed_objects
