"""The content of pg_catalog for a session (catalog/system), kept as Arrow batches while it is valid.

The columnar client calls `virtual_content(session)` for the content of a virtual table. A version identifies everything
that the content depends on (catalog/system/content.py, scopes), so the worker receives it once. The version is None,
for this query only, in a transaction with schema changes of its own, and for live content.

Batches are kept by part and slice. When one table changes, only the slice with its rows is made again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from catalog import types
from catalog.schema import (
    FIRST_USER_OID,
    VirtualTable,
)
from catalog.schema import Sequence as SequenceObject
from catalog.system import content
from catalog.system.content import Item, Part
from engine.columnar.virtual import batch_of
from engine.columnar.worker.values import to_arrow
from engine.system_views.surroundings import SessionSurroundings

if TYPE_CHECKING:
    from engine.session.session import Session

SLICE_BITS = 8  # a slice holds the objects of 256 consecutive OIDs
WHOLES_KEPT = 256  # joined batches


def virtual_content(session: Session) -> Callable[[VirtualTable, object], tuple[object, object]]:
    """Makes the function that returns the content of virtual tables for this session."""

    def provide(relation: VirtualTable, reader: object) -> tuple[object, object]:
        return _content(session, relation)

    return provide


def _content(session: Session, relation: VirtualTable) -> tuple[object, object]:
    """(version, batch) of a relation. Equal versions have equal content; None: for this query only."""
    surroundings = SessionSurroundings(session)
    if relation.oid in session.local_rows:
        rows = session.local_rows[relation.oid]
        return None, batch_of(relation, list(zip(*rows, strict=True)) if rows else [[] for _ in relation.columns])
    if relation.oid >= FIRST_USER_OID:
        return None, _sequence_row(session, relation)
    parts = content.parts.get(relation.oid, [])
    scopes = {part.scope for part in parts}
    if scopes <= {"fixed"}:
        return "fixed", _join(relation, parts, surroundings)
    catalog = surroundings.catalog
    key: tuple[object, ...] = (catalog.database, catalog.version)
    if "session" in scopes:
        key = (*key, surroundings.path, surroundings.user)
    if "live" in scopes:
        return None, _join(relation, parts, surroundings)
    wholes = surroundings.cache.wholes
    kept = wholes.get((relation.oid, id(catalog), key))
    if kept is None:
        kept = wholes[relation.oid, id(catalog), key] = (catalog, _join(relation, parts, surroundings))
        if len(wholes) > WHOLES_KEPT:
            wholes.popitem(last=False)
    own = session.transaction is not None and bool(session.transaction.changed_objects)
    return None if own else key, kept[1]


def _join(relation: VirtualTable, parts: list[Part], surroundings: SessionSurroundings) -> Any:
    batches = [batch for part in parts for batch in _batches(part, surroundings) if batch.num_rows]
    if not batches:
        return _batch(relation, {}, 0)
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _batches(part: Part, surroundings: SessionSurroundings) -> list[Any]:
    cache = surroundings.cache
    if part.scope == "fixed":
        if id(part) not in cache.fixed:
            cache.fixed[id(part)] = _make(part, [], surroundings)
        return [cache.fixed[id(part)]]
    if part.items is None:
        return [_make(part, [], surroundings)]
    sliced: dict[int, list[Item]] = {}
    for item in part.items(surroundings.catalog):
        number = 0 if item[0] is None else item[0].oid >> SLICE_BITS  # an extension that could be there has no object
        sliced.setdefault(number, []).append(item)
    key = (id(part), surroundings.catalog.database, *surroundings.session_key(part.scope))
    old = cache.slices.pop(key, {})
    new: dict[int, tuple[list[Item], Any]] = {}
    for number, items in sliced.items():
        kept = old.get(number)
        # Unchanged items are the same objects, which lists compare at once.
        new[number] = kept if kept is not None and kept[0] == items else (items, _make(part, items, surroundings))
    cache.slices[key] = new
    if len(cache.slices) > WHOLES_KEPT:
        cache.slices.popitem(last=False)
    return [batch for _, batch in new.values()]


def _make(part: Part, items: list[Item], surroundings: SessionSurroundings) -> Any:
    columns = part.columns(items, surroundings)
    count = content.row_count(columns) if not items else _rows(columns, items)
    return _batch(part.relation, columns, count)


def _rows(columns: content.Columns, items: list[Item]) -> int:
    return next((len(value) for value in columns.values() if isinstance(value, list)), len(items))


def _batch(relation: VirtualTable, columns: content.Columns, count: int) -> Any:
    """Columns as a record batch in DuckDB's types; constants are converted once."""
    arrays = []
    for column, values in zip(relation.columns, content.complete(relation, columns, count), strict=True):
        oid = column.type.oid
        form = types.lookup(oid).duckdb_type(column.type.typmod)
        if isinstance(values, list):
            arrays.append(to_arrow(values, oid, form))
        elif count == 0:
            arrays.append(to_arrow([], oid, form))
        else:
            one = to_arrow([values], oid, form)
            arrays.append(one if count == 1 else one.take(pa.array([0] * count, pa.int32())))
    return pa.RecordBatch.from_arrays(arrays, names=[f"c{column.number}" for column in relation.columns])


def _sequence_row(session: Session, relation: VirtualTable) -> Any:
    """The row of SELECT ... FROM a sequence."""
    sequence = session.catalog.get(relation.oid)
    assert isinstance(sequence, SequenceObject)
    last, is_called = session.node.sequences.current(sequence)
    ahead = session.node.sequences.logged_ahead(sequence)
    return _batch(relation, {"last_value": [last], "log_cnt": [ahead], "is_called": [is_called]}, 1)
