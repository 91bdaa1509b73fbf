"""Bulk statements in what branches share: what they overwrite is kept for the branches
(engine/storage/branch_storage.py). `add_differences` does that for a branch of long ago.

Single writes are looked at when they are sequenced; a run is a file, so it brings another one with what was under its
keys. The table locks that bulk statements hold keep both as they are until the transaction is over, and CREATE DATABASE
... FROM waits for them.
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
    """Adds runs to the transaction for what its `runs` overwrite. Raises what reading and writing files raises."""
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
    """A run for `kept` with what was under the keys of `base` that the runs write; None if all of it is known there.

    `newest`: everything under `base` without the runs; `own`: what is under `kept` itself, without what it leans on.
    In a thread, under a table lock.
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
    """Adds to a run for `kept` what was under the keys of a storage id then, where it is another value now, or none;
    and that there was nothing under those that came since. Both are all of it, in key order. In a thread."""
    for (old_keys, old), (keys, new) in side_by_side(then, now):
        if old_keys.equals(keys) and old.equals(new):
            continue
        same = pc.equal(old, new.take(pc.index_in(old_keys, value_set=keys)))
        other = pc.invert(pc.fill_null(same, False))
        writer.add(moved_keys(old_keys.filter(other), kept), one_array(old.filter(other)))
        added = keys.filter(pc.invert(pc.is_in(keys, value_set=old_keys)))
        writer.add(moved_keys(added, kept), pa.nulls(len(added), pa.binary()))
