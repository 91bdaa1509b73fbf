"""Drafts: columns of a bulk load's rows, made while the load runs.

A bulk run's file (engine/storage/runs.py) grows by whole batches. The worker reads the existing part into a table of
its own, the draft, step by step. No query reads a draft. When the run is committed, the worker receives it as any other
run (feed.py), and uses the draft in place of the file: as the table, or as rows to add to it. So columns never show a
row before its commit. A draft may be lost (the worker ends or has no memory, or the rows do not come in key order, so
that the file is rewritten). The worker then reads the file, which only takes longer. When the worker starts, it drops
drafts in the file of the columns (worker/columns_file.py).

    start     with FIRST_ROWS rows, if the table has no committed rows, or the worker has its columns already. A load
              of START_ROWS rows starts the worker
    growth    by PART_ROWS rows at a time. The worker gets the next part after it has finished the one before. So other
              queries wait for one part at most, and a worker without processor time only falls behind. The rest is
              done when the run is applied, and the first query of the table waits for that
    end       with the run, which is committed or discarded
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from catalog.errors import SqlError
from catalog.schema import Table
from engine.columnar.ahead import columnar_of
from engine.columnar.descriptions import describe_table
from engine.columnar.frames import Header
from engine.storage.branch_storage import leans
from engine.storage.keys import prefix_range, storage_prefix

if TYPE_CHECKING:
    from engine.columnar.feed import Feed
    from engine.storage.runs import BulkRun, BulkRunWriter

log = logging.getLogger("shoal.columnar")

FIRST_ROWS = 100_000
START_ROWS = 500_000
PART_ROWS = 2 * 122_880  # DuckDB's row groups have 122,880 rows
TRIES = 2  # drafts of one load: the worker may end


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A bulk run that the worker has not applied yet: its file under a name of its own, and the number of its draft, or
    0."""

    path: str
    draft: int = 0


class Draft:
    """One draft, on the engine's side."""

    __slots__ = ("asked", "committing_after", "finished", "kept", "lost", "path", "rows", "storage_id", "written")

    def __init__(self, kept: KeptRun, storage_id: int) -> None:
        self.kept = kept
        self.storage_id = storage_id
        self.path: str | None = None  # of the run, once it is finished
        self.written = 0, 0  # rows and bytes that its file has
        self.rows = 0  # that the draft has
        self.asked = False  # the worker has been given a part, and has not answered
        self.finished = False  # the file does not grow any more
        self.lost = False  # the worker does not have it any more
        self.committing_after: int | None = None  # the LSN after which its run is committed, when that has begun


class Drafts:
    """The drafts of one worker, and the files of bulk runs that are kept for it. Used in the event loop."""

    def __init__(
        self,
        directory: str,
        write: Callable[[Header], None],
        is_running: Callable[[], bool],
        start: Callable[[], Awaitable[None]],
    ) -> None:
        """`directory`: the worker's directory, for links to files. It is emptied when the worker starts."""
        self._directory = directory
        self._write = write
        self._is_running = is_running
        self._start = start
        self.feed: Feed
        self._numbers = itertools.count(1)
        self._drafts: dict[int, Draft] = {}
        self._of_runs: dict[str, Draft] = {}  # by the path of a run that is finished, and not applied
        self._starting: asyncio.Task[None] | None = None

    # ---- bulk runs that are committed (feed.RunKeeper) ---------------------------------------------------------------

    def keep(self, path: str) -> KeptRun | None:
        draft = self._of_runs.pop(path, None)
        if draft is not None:
            del self._drafts[draft.kept.draft]
            return draft.kept
        linked = self._link(path)
        return None if linked is None else KeptRun(linked)

    def release(self, kept: KeptRun) -> None:
        if kept.draft:
            self._tell_discard(kept)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(kept.path)

    def _link(self, path: str) -> str | None:
        """A second name for a file, in the worker's directory. The worker removes it."""
        linked = os.path.join(self._directory, f"run-{next(self._numbers)}")
        try:
            os.link(path, linked)
        except OSError:  # merged and removed meanwhile, or another file system: its keys go one by one
            return None
        return linked

    @property
    def is_worker_ready(self) -> bool:
        return self._is_running()

    # ---- loads -------------------------------------------------------------------------------------------------------

    def of_load(self, table: Table) -> LoadColumns | None:
        """The columns for a bulk load into the table, or None if they are not wanted."""
        fit = table.persistence == "p" and table.partitioning is None and not leans(table.storage_id)
        return LoadColumns(self, table) if fit else None

    def is_wanted(self, table: Table) -> bool:
        """Whether the worker needs new rows of the table soon after their commit."""
        if table.storage_id in self.feed.tables:
            return True
        if columnar_of(table) == "off":
            return False
        try:
            store = self.feed.store.of(table.storage_id)
            low, high = prefix_range(storage_prefix(table.storage_id))
            return next(store.current.scan(low, high), None) is None
        except SqlError:  # its tablespace is not here any more
            return False

    def start_worker(self) -> None:
        """Starts the worker. A failure is ignored, because only a query needs the worker."""
        if self._starting is None and not self._is_running():
            self._starting = asyncio.get_running_loop().create_task(self._start_quietly())

    async def _start_quietly(self) -> None:
        try:
            await self._start()
        except Exception as error:  # another load, or a query, tries again
            log.info("no columns are made of a bulk load: %s", error)
        finally:
            self._starting = None

    def begin(self, table: Table, writer: BulkRunWriter) -> Draft | None:
        """Starts a draft of the writer's rows, or returns None if that is not possible."""
        linked = self._link(writer.path)
        if linked is None:
            return None
        number = next(self._numbers)
        draft = self._drafts[number] = Draft(KeptRun(linked, number), table.storage_id)
        self._write({"op": "draft", "draft": number, "table": describe_table(table), "path": linked})
        return draft

    def grow(self, draft: Draft, written: tuple[int, int]) -> None:
        """Called when the writer has written more rows."""
        draft.written = written
        self._give_part(draft)

    def _give_part(self, draft: Draft) -> None:
        rows, upto = draft.written
        left = rows - draft.rows
        enough = left >= PART_ROWS or (left > 0 and draft.finished)
        if draft.asked or draft.lost or not enough or not self._is_running():
            return
        draft.asked = True
        self._write({"op": "draft_rows", "draft": draft.kept.draft, "upto": upto, "rows": PART_ROWS})

    def on_answer(self, header: Mapping[str, Any]) -> None:
        """Called when the worker has added a part to a draft, or has dropped the draft."""
        draft = self._drafts.get(header["draft"])
        if draft is None:
            return
        draft.asked = False
        if header["op"] == "draft_lost":
            log.info("the columns of a bulk load are made after it: %s", header["message"])
            self.discard(draft)
        else:
            more, draft.rows = header["rows"] > draft.rows, header["rows"]
            if more:
                self._give_part(draft)

    def finish(self, draft: Draft, run: BulkRun) -> None:
        """Called when the run is complete and belongs to the transaction."""
        draft.path = run.path
        draft.finished = True
        draft.written = run.rows, draft.written[1]
        self._of_runs[run.path] = draft
        run.on_discard = partial(self.discard, draft)
        self._give_part(draft)

    def discard(self, draft: Draft) -> None:
        """Discards a draft that is no longer needed."""
        if self._drafts.pop(draft.kept.draft, None) is not None:
            draft.lost = True
            if draft.path is not None:
                self._of_runs.pop(draft.path, None)
            self._tell_discard(draft.kept)

    def _tell_discard(self, kept: KeptRun) -> None:
        if self._is_running():
            self._write({"op": "draft_discard", "draft": kept.draft, "path": kept.path})

    # ---- commits -----------------------------------------------------------------------------------------------------

    def expect(self, runs: Sequence[BulkRun]) -> None:
        """Called when these runs are about to be committed. Discards drafts of tables that the worker should not
        have."""
        for run in runs:
            draft = self._of_runs.get(run.path)
            if draft is not None:
                fed = self.feed.tables.get(draft.storage_id)
                if fed is None:
                    self.discard(draft)
                else:
                    draft.committing_after = fed.store.sequenced_lsn

    def discard_overdue(self) -> None:
        """Discards the drafts of runs that were sequenced but never committed, because the leader was deposed."""
        for draft in list(self._of_runs.values()):
            fed = self.feed.tables.get(draft.storage_id)
            after = draft.committing_after
            if after is not None and (fed is None or fed.reached > after):
                self.discard(draft)

    def clear(self) -> None:
        """Called when the worker has ended, with all of its drafts."""
        for draft in self._drafts.values():
            draft.lost = True
        self._drafts.clear()
        self._of_runs.clear()


class LoadColumns:
    """The columns of one bulk load into one table. The engine's thread calls `look` before each batch, `keep` when the
    transaction has the run, and `end` at every end of the statement."""

    def __init__(self, drafts: Drafts, table: Table) -> None:
        self._drafts = drafts
        self._table = table
        self._draft: Draft | None = None
        self._tries = TRIES
        self._kept = False

    def look(self, writer: BulkRunWriter) -> None:
        """Sends the written rows to the worker."""
        rows, upto = writer.written
        if rows < FIRST_ROWS:
            return
        if not writer.in_order:
            self._tries = 0
            self.end()
            return
        if self._draft is not None and self._draft.lost:
            self._draft = None
        if self._draft is None and self._tries:
            self._begin(writer, rows)
        if self._draft is not None:
            self._drafts.grow(self._draft, (rows, upto))

    def _begin(self, writer: BulkRunWriter, rows: int) -> None:
        drafts = self._drafts
        if not drafts.is_wanted(self._table):
            self._tries = 0
        elif drafts.is_worker_ready:
            self._tries -= 1
            self._draft = drafts.begin(self._table, writer)
        elif rows >= START_ROWS:
            drafts.start_worker()

    def keep(self, writer: BulkRunWriter, run: BulkRun) -> None:
        """Called when the run is finished and belongs to the transaction."""
        self.look(writer)
        if self._draft is not None and not self._draft.lost:
            self._kept = True
            self._drafts.finish(self._draft, run)

    def end(self) -> None:
        """Discards everything that was not kept."""
        if self._draft is not None and not self._kept:
            self._drafts.discard(self._draft)
            self._draft = None
