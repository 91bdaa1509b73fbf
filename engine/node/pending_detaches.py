"""DETACH PARTITION CONCURRENTLY beside transactions that have taken the one snapshot of all their statements: these
still find the partition through its parent, since their snapshot is older (find_inheritance_children_extended in
PostgreSQL's pg_inherits.c). Each has its own version of the partition in its catalog, until it ends or the partition is
detached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from catalog.schema import PENDING_BUT_SEEN, SchemaObject, Table
from engine.txn.interface import READ_COMMITTED

if TYPE_CHECKING:
    from engine.txn.transaction import Transaction


def note_detaches(
    transactions: Sequence[Transaction | None],
    before: Mapping[int, SchemaObject],
    changes: Mapping[int, SchemaObject | None],
) -> None:
    """Called when changes of the schema are about to be published."""
    for oid, item in changes.items():
        begun = _is_pending(before.get(oid))
        if _is_pending(item) == begun:
            continue
        for transaction in transactions:
            if transaction is None or transaction.isolation == READ_COMMITTED or not transaction.has_snapshot:
                continue
            if begun:
                see_committed(transaction, oid)
            elif isinstance(item, Table):
                _see(transaction, replace(item, detaching=PENDING_BUT_SEEN))


def _is_pending(item: SchemaObject | None) -> bool:
    return isinstance(item, Table) and bool(item.detaching)


def _see(transaction: Transaction, partition: Table) -> None:
    """The transaction's statements use this version of a partition, which is not the committed one."""
    for objects in _changed_objects(transaction):
        objects.setdefault(partition.oid, partition)
    transaction.catalog = None


def see_committed(transaction: Transaction, oid: int | None = None) -> None:
    """The transaction's statements use the committed version of a partition again, or of all."""
    for objects in _changed_objects(transaction):
        for seen in [oid] if oid is not None else list(objects):
            item = objects.get(seen)
            if isinstance(item, Table) and item.detaching == PENDING_BUT_SEEN:
                del objects[seen]
    transaction.catalog = None


def _changed_objects(transaction: Transaction) -> Iterator[dict[int, SchemaObject | None]]:
    """The objects that it has changed, now and at its savepoints."""
    yield transaction.changed_objects
    for point in transaction.savepoints:
        yield point.changed_objects
