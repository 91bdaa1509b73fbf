"""Columns of tables that have just been filled, before a query asks for them.

The first analytic query of a table waits until the worker has built it, half a second for a million rows, and whoever
fills a table mostly reads it next. So a table that a commit fills in bulk (COPY and large INSERTs into one that was
empty) is announced to the worker just before: empty it costs nothing, and the bulk run's file comes to it as any other
change does, within a second and behind everybody else's back (feed.py). That is half the work of reading it from LMDB.

Only where the worker runs already, because somebody asks analytic queries, and only while what nobody has asked for
yet is a small part of its memory (`WorkerClient.build_ahead`).
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from catalog.catalog import Catalog
from engine.storage.branch_storage import leans
from engine.storage.keys import PREFIX_BYTES, prefix_range, storage_prefix

if TYPE_CHECKING:
    from engine.columnar.client import WorkerClient
    from engine.storage.runs import BulkRun
    from engine.storage.stores import AnyStore


def announce(worker: WorkerClient, store: AnyStore, catalog: Catalog, runs: Sequence[BulkRun]) -> None:
    """Tells the worker of the tables that these runs, which are about to be committed, are the first rows of.
    `catalog`: as the commit leaves it."""
    if not worker.running:
        return
    sizes: dict[int, int] = defaultdict(int)
    for run in runs:
        if run.first_key is not None:
            sizes[int.from_bytes(run.first_key[:PREFIX_BYTES], "big")] += os.path.getsize(run.path)
    for table in catalog.tables():
        if table.storage_id in sizes and not leans(table.storage_id):
            low, high = prefix_range(storage_prefix(table.storage_id))
            if next(store.of(table.storage_id).current.scan(low, high), None) is None:
                worker.build_ahead(table, sizes[table.storage_id])
