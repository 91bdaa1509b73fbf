"""Bulk statements on storage that branches share: the old values are saved for the branches
(engine/storage/branch_storage.py). `add_differences` saves them for a branch of an old moment.

Single writes are checked when they are sequenced. A bulk run is a file, so the statement adds another run with the old
values under its keys. The table locks of bulk statements keep both valid until the transaction ends, and CREATE
DATABASE ... FROM waits for these locks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from engine.storage.branch_storage import moved_keys
from engine.storage.columns import one_array
from engine.storage.keys import PREFIX_BYTES, prefix_range
from engine.storage.merging import Pair, side_by_side
from engine.storage.newest import NewestRows

if TYPE_CHECKING:
    from engine.bulk.thread import BulkThread
    from engine.storage.runs import BulkRun, BulkRunWriter
    from engine.txn.transaction import Transaction


async def keep_for_branches(transaction: Transaction, thread: BulkThread, runs: Sequence[BulkRun]) -> None:
    """Adds runs with the old values under the keys of the transaction's `runs`. Raises errors of reading and writing
    files."""
    by_prefix: dict[bytes, list[BulkRun]] = {}
    for run in runs:
        if run.first_key is not None:
            by_prefix.setdefault(run.first_key[:PREFIX_BYTES], []).append(run)
    for prefix, written in by_prefix.items():
        storage_id = int.from_bytes(prefix, "big")
        space = transaction.tablespace(storage_id)
        for kept in space.leaning.heirs.get(prefix, ()):
            newest = await NewestRows.open(space, storage_id)
            thread.at_end(newest.end)
            own = await NewestRows.open(space, int.from_bytes(kept, "big"), alone=True)
            thread.at_end(own.end)
            writer = space.new_run()
            try:
                made = await thread.run(_kept_run, written, prefix, kept, newest, own, writer)
            except BaseException:
                thread.at_end(writer.discard)
                raise
            if made is not None:
                transaction.runs.append(made)


def _kept_run(
    runs: Sequence[BulkRun], base: bytes, kept: bytes, newest: NewestRows, own: NewestRows, writer: BulkRunWriter
) -> BulkRun | None:
    """A run for `kept` with the values of `base` under the keys of the runs, or None if they are all saved already.

    `newest`: everything under `base` without the runs; `own`: the values under `kept` itself, without those of its
    base. Runs in a thread, under a table lock.
    """
    low, high = prefix_range(base)
    rows = 0
    for place, run in enumerate(runs):
        for batch in run.between(low, high):
            keys = one_array(batch.column(0))
            first, last = keys[0].as_py(), keys[len(keys) - 1].as_py() + b"\0"
            for earlier in runs[:place]:
                for part in earlier.between(first, last):
                    keys = keys.filter(pc.invert(pc.is_in(keys, value_set=part.column(0))))
            if not len(keys):
                continue
            places = moved_keys(keys, kept)
            fresh = pa.array(~own.find_known(places))
            keys, places = keys.filter(fresh), places.filter(fresh)
            writer.add(places, newest.values(keys))
            rows += len(keys)
    if rows:
        return writer.finish()
    writer.discard()
    return None


def add_differences(then: Iterator[Pair], now: Iterator[Pair], kept: bytes, writer: BulkRunWriter) -> None:
    """Adds to a run for `kept` the earlier values of a storage id's keys that have another value or none now, and marks
    the keys that are new. Both inputs are complete and in key order. Runs in a thread."""
    for (old_keys, old), (keys, new) in side_by_side(then, now):
        if old_keys.equals(keys) and old.equals(new):
            continue
        same = pc.equal(old, new.take(pc.index_in(old_keys, value_set=keys)))
        other = pc.invert(pc.fill_null(same, False))
        writer.add(moved_keys(old_keys.filter(other), kept), one_array(old.filter(other)))
        added = keys.filter(pc.invert(pc.is_in(keys, value_set=old_keys)))
        writer.add(moved_keys(added, kept), pa.nulls(len(added), pa.binary()))
