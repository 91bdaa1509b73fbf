"""COPY and large DML in tables of streams: their changes in whole columns, in the statement's thread.

For each key in the statement's runs of the table, the present value (NewestRows) and the new value are written to
another run, as rows of the table of changes. Each is one change, under an unused number (record.BULK and up).

That run belongs to the transaction like the statement's own. COMMIT refers to it by its number (capture.py), and a
rollback, also to a savepoint, discards it with the others.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.schema import Table
from catalog.types import oids
from catalog.types.base import TypeRef
from engine.bulk.branch_preservation import keep_for_branches
from engine.changes import record
from engine.storage.columns import Column, Numbers, one_array
from engine.storage.keys import PREFIX_BYTES, encode_keys, storage_prefix, without_prefix
from engine.storage.newest import NewestRows
from engine.storage.row_batches import column_name
from engine.storage.rows import codec_of
from engine.storage.runs import BulkRun

if TYPE_CHECKING:
    from engine.bulk.session import BulkSession
    from engine.bulk.thread import BulkThread
    from engine.changes.capture import Captured
    from engine.execute.written import Written
    from engine.txn.transaction import Transaction

_CHANGE = np.dtype([("operation", "u1"), ("shape", "<i8"), ("key", "<u4"), ("before", "<u4"), ("after", "<u4")])
_KEY_TYPES = (TypeRef(oids.INT8), TypeRef(oids.INT4))


@dataclass(frozen=True, slots=True)
class Recorded:
    """A run of changes, for COMMIT. `prefix`: of the keys of the table; `size`: bytes."""

    prefix: bytes
    number: int
    size: int
    shape: int
    encoded: bytes
    streams: tuple[int, ...]


class Bulk(Protocol):
    """A bulk statement that has all of its rows."""

    def finish(self) -> None: ...
    @property
    def table_runs(self) -> list[tuple[Table, list[BulkRun]]]: ...
    async def claim(self, session: BulkSession, transaction: Transaction, thread: BulkThread) -> None: ...
    def merge_into(self, transaction: Transaction, written: Written) -> None: ...


async def finish_recorded(session: BulkSession, transaction: Transaction, thread: BulkThread, bulk: Bulk) -> None:
    """Finishes a bulk statement in its thread, and adds its runs to the transaction, with the changes for change
    streams."""
    await thread.run(bulk.finish)
    captured = session.node.changes.captured_tables()
    made: list[BulkRun] = []
    thread.at_end(partial(_discard, made))
    for table, runs in bulk.table_runs if captured else ():
        item = captured.get(storage_prefix(table.storage_id))
        if item is not None and runs:
            newest = await NewestRows.of(transaction, table.storage_id)
            thread.at_end(newest.end)
            run = await thread.run(_record, item, runs, newest)
            if run is not None:
                made.append(run)
    await bulk.claim(session, transaction, thread)
    before = len(transaction.runs)
    bulk.merge_into(transaction, session.written)
    await keep_for_branches(transaction, thread, transaction.runs[before:])
    transaction.runs.extend(made)
    made.clear()


def _discard(runs: list[BulkRun]) -> None:
    for run in runs:
        run.discard()


def _record(item: Captured, runs: list[BulkRun], newest: NewestRows) -> BulkRun | None:
    """Writes the run of changes. Runs in the statement's thread."""
    log = item.log
    number = record.BULK + secrets.randbits(60)
    writer = log.space.new_run()
    codec, part = codec_of(log.table), 0
    for place, run in enumerate(runs):
        for batch in run.batches():
            keys, after = one_array(batch.column(0)), one_array(batch.column(1))
            keys, after = _without(keys, after, runs[place + 1 :])
            if not len(keys):
                continue
            changes = _changes(item.shape, keys, newest.values(keys), after)
            if not len(changes):
                continue
            numbers = pa.array(np.full(len(changes), number, np.int64))
            places = pa.array(np.arange(part, part + len(changes), dtype=np.int32))
            part += len(changes)
            columns = [numbers, places, changes]
            rows = pa.RecordBatch.from_arrays(columns, names=[column_name(item.number) for item in log.table.columns])
            writer.add(encode_keys(log.table.storage_id, _KEY_TYPES, columns[:2]), codec.batches.encode(rows))
    for run in runs:
        run.recorded = True
    if not part:
        writer.discard()
        return None
    made = writer.finish()
    size = os.path.getsize(made.path)
    made.recorded = Recorded(
        storage_prefix(item.table.storage_id), number, size, item.shape, item.encoded, item.streams
    )
    return made


def _without(keys: Column, values: Column, later: Sequence[BulkRun]) -> tuple[Column, Column]:
    """The pairs without keys of a later run, whose values are the valid ones."""
    if not len(keys):
        return keys, values
    first, last = keys[0].as_py(), keys[len(keys) - 1].as_py() + b"\0"
    for run in later:
        for part in run.between(first, last):
            kept = pc.invert(pc.is_in(keys, value_set=part.column(0)))
            keys, values = keys.filter(kept), values.filter(kept)
    return keys, values


def _changes(shape: int, keys: Column, before: Column, after: Column) -> Column:
    """One change for each key, in the form of engine/changes/record.py."""
    there = pc.or_(before.is_valid(), after.is_valid())
    if not pc.all(there).as_py():
        keys, before, after = keys.filter(there), before.filter(there), after.filter(there)
    was: Numbers = before.is_valid().to_numpy(zero_copy_only=False)
    becomes: Numbers = after.is_valid().to_numpy(zero_copy_only=False)
    heads = np.zeros(len(keys), _CHANGE)
    heads["operation"] = np.where(was, np.where(becomes, record.UPDATE, record.DELETE), record.CREATE)
    heads["shape"] = shape
    heads["key"] = _lengths(keys) - PREFIX_BYTES
    heads["before"] = np.where(was, _lengths(before), record.NONE)
    heads["after"] = np.where(becomes, _lengths(after), record.NONE)
    places = without_prefix(keys)
    size = _CHANGE.itemsize
    data = heads.tobytes()
    made: Any = pa.FixedSizeBinaryArray.from_buffers(pa.binary(size), len(keys), [None, pa.py_buffer(data)])
    empty = pa.scalar(b"", pa.binary())
    joined = pc.binary_join_element_wise(
        made.cast(pa.binary()), places, before, after, empty, null_handling="replace", null_replacement=""
    )
    return one_array(joined)


def _lengths(column: Column) -> Numbers:
    found: Numbers = pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return found
