"""Builds columns before a query needs them: of tables that were just filled, and after a start of saved tables.

The first analytic query of a table waits until the worker has built the table, half a second for a million rows, and a
table that was just filled is mostly read next. So when a commit fills an empty table in bulk (by COPY or a large
INSERT), the engine announces the table to the worker just before the commit. An empty table costs nothing, and the bulk
run's file is then sent like any other change, within a second and in the background (feed.py). That is half the work of
reading the table from LMDB, and for a large run the worker has the columns already (drafts.py).

This requires that the worker runs already, because of analytic queries or because a large load has started it. If a
load commits before that start is complete, its table is built as soon as the worker is ready.

When the worker starts, it updates the tables in its file at once, and builds tables whose storage parameter `columnar`
is `on`. It does so one table after another, so that the tables of queries can be built between them. A table with `off`
is built when a query needs it, and not kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.schema import COLUMNAR, SchemaObject, Table
from engine.storage.branch_storage import leans
from engine.storage.keys import PREFIX_BYTES, prefix_range, storage_prefix

if TYPE_CHECKING:
    from engine.columnar.client import WorkerClient
    from engine.storage.runs import BulkRun
    from engine.storage.stores import AnyStore

log = logging.getLogger("shoal.columnar")

AGAIN_SECONDS = 30.0  # until a build that found no room on the disk is repeated


def columnar_of(table: Table) -> str:
    """Returns a table's storage parameter `columnar`: on, off or auto."""
    return dict(table.options).get(COLUMNAR, "auto").lower()


def is_empty(store: AnyStore, storage_id: int) -> bool:
    """Whether no row of the table is committed. Raises SqlError if its tablespace is gone."""
    low, high = prefix_range(storage_prefix(storage_id))
    return next(store.of(storage_id).current.scan(low, high), None) is None


class BackgroundBuild:
    """Builds or updates tables, one after another, in a task of the event loop."""

    def __init__(self, worker: WorkerClient) -> None:
        self._worker = worker
        self._tables: deque[Table] = deque()
        self._task: asyncio.Task[None] | None = None

    def add(self, tables: Iterable[Table]) -> None:
        self._tables.extend(tables)
        if self._tables and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def take_up(self, tables: Iterable[Table], in_file: Iterable[int]) -> None:
        """Called when the worker has started. Updates the tables in its file that still exist, drops the others, and
        builds tables with columnar = on."""
        wanted = {table.storage_id: table for table in tables if columnar_of(table) != "off"}
        found = list(in_file)
        for storage_id in found:
            if storage_id not in wanted:
                self._worker.forget(storage_id)
        on = [storage_id for storage_id, table in wanted.items() if columnar_of(table) == "on"]
        self.add(wanted[storage_id] for storage_id in dict.fromkeys([*found, *on]) if storage_id in wanted)

    def on_published(self, changes: Mapping[int, SchemaObject | None]) -> None:
        """Called when tables have changed or are new."""
        for item in changes.values():
            if isinstance(item, Table):
                self._worker.has_copy(item)  # sends the worker added and dropped columns
                if columnar_of(item) == "on":
                    self.add((item,))
                elif columnar_of(item) == "off":
                    self._worker.forget(item.storage_id)

    def forget(self, storage_id: int) -> None:
        """Called when the table was dropped."""
        if self._tables:
            self._tables = deque(table for table in self._tables if table.storage_id != storage_id)

    def _add_again(self, storage_id: int) -> None:
        """Repeats the build of a table with columnar = on, for which the disk had no room."""
        tables = self._worker.stored_tables
        if self._worker.running and tables is not None:
            self.add(item for item in tables() if item.storage_id == storage_id and columnar_of(item) == "on")

    def clear(self) -> None:
        self._tables.clear()
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        while self._tables:
            table = self._tables.popleft()
            try:
                await self._worker.load(table)
            except SqlError as error:
                log.warning('the columns of "%s" are not ready: %s. %s', table.name, error.message, error.hint or "")
                if error.sqlstate == "53100":
                    asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._add_again, table.storage_id)
            except Exception:  # of one table: the others are built
                log.exception('the columns of "%s" are not ready', table.name)
        self._task = None


def announce(worker: WorkerClient, store: AnyStore, catalog: Catalog, runs: Sequence[BulkRun]) -> None:
    """Announces to the worker the empty tables that these runs fill, just before their commit. `catalog` is the catalog
    after the commit."""
    if not (worker.running or worker.starting):
        return
    filled = {int.from_bytes(run.first_key[:PREFIX_BYTES], "big") for run in runs if run.first_key is not None}
    for table in catalog.tables():
        if table.storage_id in filled and not leans(table.storage_id) and is_empty(store, table.storage_id):
            worker.build_ahead(table)
    worker.drafts.expect(runs)
