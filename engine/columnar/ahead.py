"""Columns of tables before a query asks for them: of those that have just been filled, and after a start of those that
the worker has saved.

The first analytic query of a table waits until the worker has built it, half a second for a million rows, and whoever
fills a table mostly reads it next. So a table that a commit fills in bulk (COPY and large INSERTs into one that was
empty) is announced to the worker just before: empty it costs nothing, and the bulk run's file comes to it as any other
change does, within a second and behind everybody else's back (feed.py). That is half the work of reading it from LMDB,
and of a large run the worker has the columns by then (drafts.py).

Only where the worker runs already, because somebody asks analytic queries, or because a large load has started it. A
load may commit before that start is complete: its table is then built as soon as the worker is ready.

What the worker finds in its file when it starts is brought up to now at once, and so are tables whose storage parameter
`columnar` is `on`: a table after another, so that what a query asks for comes between them. A table with `off` is built
when a query needs it, and not kept.
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

AGAIN_SECONDS = 30.0  # after a build that found no room on the disk


def columnar_of(table: Table) -> str:
    """Its storage parameter: on, off or auto."""
    return dict(table.options).get(COLUMNAR, "auto").lower()


def is_empty(store: AnyStore, storage_id: int) -> bool:
    """Whether no row of the table is committed. Raises SqlError if its tablespace is gone."""
    low, high = prefix_range(storage_prefix(storage_id))
    return next(store.of(storage_id).current.scan(low, high), None) is None


class BackgroundBuild:
    """Tables that are built, or brought up, one after another. In the event loop."""

    def __init__(self, worker: WorkerClient) -> None:
        self._worker = worker
        self._tables: deque[Table] = deque()
        self._task: asyncio.Task[None] | None = None

    def add(self, tables: Iterable[Table]) -> None:
        self._tables.extend(tables)
        if self._tables and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def take_up(self, tables: Iterable[Table], in_file: Iterable[int]) -> None:
        """The worker has started, and has found some tables in its file: those that are still there are brought up,
        the others go."""
        wanted = {table.storage_id: table for table in tables if columnar_of(table) != "off"}
        found = list(in_file)
        for storage_id in found:
            if storage_id not in wanted:
                self._worker.forget(storage_id)
        on = [storage_id for storage_id, table in wanted.items() if columnar_of(table) == "on"]
        self.add(wanted[storage_id] for storage_id in dict.fromkeys([*found, *on]) if storage_id in wanted)

    def on_published(self, changes: Mapping[int, SchemaObject | None]) -> None:
        """Tables have changed, or are new."""
        for item in changes.values():
            if isinstance(item, Table):
                self._worker.has_copy(item)  # columns that have come or gone do so in the worker
                if columnar_of(item) == "on":
                    self.add((item,))
                elif columnar_of(item) == "off":
                    self._worker.forget(item.storage_id)

    def forget(self, storage_id: int) -> None:
        """The table is gone."""
        if self._tables:
            self._tables = deque(table for table in self._tables if table.storage_id != storage_id)

    def _add_again(self, storage_id: int) -> None:
        """A table that is to have columns, for which the disk had no room."""
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
    """Tells the worker of the tables that these runs, which are about to be committed, are the first rows of.
    `catalog`: as the commit leaves it."""
    if not (worker.running or worker.starting):
        return
    filled = {int.from_bytes(run.first_key[:PREFIX_BYTES], "big") for run in runs if run.first_key is not None}
    for table in catalog.tables():
        if table.storage_id in filled and not leans(table.storage_id) and is_empty(store, table.storage_id):
            worker.build_ahead(table)
    worker.drafts.expect(runs)
