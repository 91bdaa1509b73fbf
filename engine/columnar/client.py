"""The engine's side of the columnar worker: starts it, updates its tables, sends queries, streams results.

The steps of a query, all on the event loop:

    start the worker if it is not running; load the tables that it lacks        (waits)
    send each table's delta, then the query with its overlays                   (one turn of the loop, no waiting)
    receive chunks of the result as the reader takes them                       (credit, see worker/query.py)

The worker executes frames in order and pins a query to DuckDB's state of that moment. So the query sees exactly the
changes that were sent before it.

The worker starts on first use, so that a server without analytic queries does not pay for it, and starts again after it
has died. A query that was running then is repeated once if no part of its result had arrived; otherwise, or the second
time, it ends with 57P02. A worker that ends by itself, because its memory has grown and it has no work, does not count:
it had not begun the query. The worker has only copies, so no data is lost. A file keeps most of them after the process
has ended (worker/columns_file.py): a table in the file is updated with the changes made since.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import asdict, astuple
from functools import partial
from typing import TYPE_CHECKING, Any

from catalog.clock import now
from catalog.errors import SqlError
from catalog.functions.duckdb_errors import sql_error_call
from catalog.memory import UNLIMITED
from catalog.schema import Table, VirtualTable
from engine.columnar import frames
from engine.columnar.ahead import BackgroundBuild, columnar_of
from engine.columnar.descriptions import describe_table
from engine.columnar.drafts import Drafts
from engine.columnar.feed import PUSH_LSNS, PUSH_SECONDS, FedTable, Feed
from engine.columnar.frames import Buffer, Header
from engine.columnar.interface import ColumnarEngine, ColumnarQuery, RowEncoding, VirtualContent
from engine.columnar.literals import fill
from engine.columnar.request import Request
from engine.columnar.reshape import reshape_commands
from engine.columnar.result_streams import (
    ALONE_PATIENCE,
    OPENING_PAUSE,
    BatchStream,
    RowStream,
    Stream,
    WorkerLoss,
)
from engine.columnar.watch import Watch
from engine.columnar.worker.calls import LOST
from engine.columnar.worker.keys import KeyPlan
from engine.columnar.worker_answers import Hearing
from engine.columnar.worker_process import WorkerProcess
from engine.columnar.worker_report import REASONS, WAITING, ColumnsWork, CopyStatus, WorkerReport, WorkerStatus
from engine.storage.columns import ShapedArray
from engine.storage.stores import Stores, not_here

if TYPE_CHECKING:
    from engine.storage.stores import AnyStore
    from engine.storage.tablespace import Tablespace

log = logging.getLogger("shoal.columnar")

UNSENT_LIMIT = 64 << 20  # bytes of unapplied deltas from which on background pushes wait
LOADING_PATIENCE = 20.0  # seconds for which a load without memory waits for the running queries to end
SAVE_AT_END_SECONDS = 20.0
ASKED = 1  # the id of a save that the engine has requested
VERSIONS_KEPT = 4  # contents of one virtual table that the worker keeps


class WorkerClient(ColumnarEngine):
    """`directory` belongs to the worker. It contains the file with the tables, which is kept after the process has
    ended if `keep` is set, and the spill directory for DuckDB's temporary files, which is emptied at the start.
    `memory_limit` and `spill` are in bytes; `spill` limits the temporary files (0: nine tenths of the free space).

    `virtual_content` provides the content of virtual tables for queries without a provider of their own.
    """

    def __init__(
        self,
        store: AnyStore,
        directory: str,
        *,
        memory_limit: int = 1 << 30,
        threads: int | None = None,
        spill: int = 0,
        virtual_content: VirtualContent | None = None,
        keep: bool = True,
    ) -> None:
        self.directory = directory
        threads = threads or os.cpu_count() or 1
        self._process = WorkerProcess(
            directory,
            memory_limit,
            threads,
            spill,
            keep,
            receive=self._receive,
            on_start=self._take_up,
            on_loss=self._note_loss,
            on_exit=self._forget_readers,
        )
        self.spill_directory = self._process.spill_directory
        self.in_file: set[int] = set()
        """Storage ids of the tables that the file had when the worker started and that were not loaded since."""
        self.stored_tables: Callable[[], Iterable[Table]] | None = None
        """Returns all stored tables."""
        self.background = BackgroundBuild(self)
        self.report = WorkerReport(self.columns_path, self.spill_directory)
        self.virtual_content = virtual_content
        self.drafts = Drafts(self.spill_directory, self._write, lambda: self.running, self.start)
        self._feed = self.drafts.feed = Feed(store, self.drafts)
        self._settling: Generator[None, None, None] | None = None  # a run of Feed.settle that has not ended
        self._loads: dict[int, asyncio.Future[None]] = {}
        self._streams: dict[int, Stream] = {}
        self._hearing = Hearing(self._ask, partial(self._replace, "does not answer"))
        self._sent: set[int] = set()  # storage ids of tables whose load was sent and is not answered
        self._blocked = 0  # tasks that wait for the worker to read
        self._watch = Watch(self._is_under_way, self._is_due, partial(self._replace, "does nothing"))
        self._identifiers = itertools.count(1)
        self._versions: dict[int, dict[object, str]] = {}
        self._version_names = itertools.count(1)
        self._unapplied = 0
        self._push_timer: asyncio.TimerHandle | None = None
        self._saved: asyncio.Future[None] | None = None
        store.on_durable(self._durable)

    @property
    def status(self) -> WorkerStatus:
        pid = self._process.pid
        feed = self._feed
        return WorkerStatus(pid, len(feed.tables), len(self._streams), feed.behind, feed.late_since, self._unapplied)

    def copies(self) -> dict[int, CopyStatus]:
        """The status of the worker's tables, by storage id."""
        found = {storage_id: CopyStatus("saved") for storage_id in self.in_file}
        for storage_id, fed in self._feed.tables.items():
            if fed.ready:
                lag = fed.store.durable_lsn - fed.reached if fed.pending or fed.runs else 0
                saved_lsn, rows, size = fed.saved or (None, None, None)
                source = "rows" if fed.built else "file"
                found[storage_id] = CopyStatus("ready", fed.reached, lag, saved_lsn, rows, size, fed.loaded, source)
            else:
                found[storage_id] = CopyStatus("loading")
        return found

    def work(self) -> list[ColumnsWork]:
        """The running and waiting tasks with columns."""
        known = self.report.work
        return [*known.values(), *(ColumnsWork(number, WAITING) for number in self._loads if number not in known)]

    @property
    def running(self) -> bool:
        """Whether the worker is ready for requests."""
        return self._process.running

    @property
    def starting(self) -> bool:
        """Whether the worker is being started."""
        return self._process.starting

    # ---- several tablespaces --------------------------------------------------------------------------------------

    def use(self, stores: Stores) -> None:
        """From now on, tables are stored in any of these tablespaces; pg_default is the previous store."""
        self._feed.store = stores

    def add_tablespace(self, space: Tablespace) -> None:
        """Called when a tablespace was added to the stores."""
        assert isinstance(self._feed.store, Stores)
        self._feed.store.on_durable(self._durable, space.slot)

    def remove_tablespace(self, space: Tablespace) -> None:
        """Called when a tablespace was dropped: forgets its loaded tables."""
        for storage_id in [number for number, fed in self._feed.tables.items() if fed.store is space]:
            self.forget(storage_id)

    # ---- queries --------------------------------------------------------------------------------------------------

    async def rows(
        self,
        query: ColumnarQuery,
        parameters: Sequence[object],
        reader: object,
        encoding: RowEncoding,
        virtual: VirtualContent | None = None,
        memory: int = UNLIMITED,
    ) -> RowStream:
        """Starts the query in the reader's snapshot, and returns a stream of encoded rows. `parameters` are the values
        of `query.parameters` in internal form, in that order. The stream raises the query's errors. Raises 57P02 if no
        worker can be started, 72000 if the reader is too old."""
        return RowStream(await self._begin(query, parameters, reader, encoding, virtual, memory))

    async def batches(
        self,
        query: ColumnarQuery,
        parameters: Sequence[object],
        reader: object,
        virtual: VirtualContent | None = None,
        memory: int = UNLIMITED,
        rows: Sequence[Buffer] | None = None,
    ) -> BatchStream:
        """Like `rows`, but streams pyarrow record batches in DuckDB's types. The caller closes a stream that it does
        not read to its end. The query reads `rows` (frames.encode_pairs) in place of the rows of its only table."""
        return BatchStream(await self._begin(query, parameters, reader, None, virtual, memory, rows))

    async def _begin(
        self,
        query: ColumnarQuery,
        parameters: Sequence[object],
        reader: object,
        encoding: RowEncoding | None,
        virtual: VirtualContent | None,
        memory: int,
        rows: Sequence[Buffer] | None = None,
    ) -> Stream:
        request = Request(query, parameters, (), reader, encoding, virtual or self.virtual_content, memory, rows)
        try:
            request.write_parameters()
        except ShapedArray as error:
            if not request.turn(error):
                raise
        stream = Stream(self, request)
        await self.send(stream)
        return stream

    async def send(self, stream: Stream) -> None:
        """Brings the tables up to date and sends the query."""
        query = stream.request.query
        attempts = 0
        while True:
            attempts += 1
            try:
                await self.start()
                await self._load_all(query.tables)
                break
            except asyncio.CancelledError:
                if self.running:  # a starting worker cannot answer yet
                    self._hearing.ask(self.process_id or 0)
                raise
            except WorkerLoss as loss:
                if attempts > 1:
                    raise loss.error("loaded a table") from None
            except SqlError as error:
                if error.sqlstate != "53200" or attempts > 1 or not self._streams:
                    raise
                await self._others_end()
        self._send_query(stream)

    async def _others_end(self) -> None:
        """Waits up to LOADING_PATIENCE seconds until no query is running, because a load found no memory."""
        loop = asyncio.get_running_loop()
        until = loop.time() + LOADING_PATIENCE
        while self._streams and loop.time() < until:
            await asyncio.sleep(OPENING_PAUSE)

    def _send_query(self, stream: Stream) -> None:
        """Sends deltas, overlays and the query in one turn of the loop. It must not wait: otherwise two tables could
        have the states of two LSNs."""
        request = stream.request
        query, reader = request.query, request.reader
        relations: dict[str, str] = {}
        buffers: list[Buffer] = []
        overlays: list[list[object]] = []
        if len(query.tables) > 1:
            self._feed.collect(*(self._feed.tables[table.storage_id] for table in query.tables))
        for table in query.tables:
            fed = self._feed.tables[table.storage_id]
            whole = query.whole and table.storage_id in query.arrays
            name = f"{'w' if whole else 't'}{table.storage_id}"
            held = name if whole else f"columns.{name}"
            if request.rows is not None:
                relations[name] = f"o{table.storage_id}"
                overlays.append([table.storage_id, []])
                buffers.extend(request.rows)
                continue
            self._push(fed)
            runs, overlay = self._feed.overlay(table, reader)
            relations[name] = held
            if overlay or runs:
                overlays.append([table.storage_id, runs])
                buffers.extend(frames.encode_pairs(overlay.items()))
                relations[name] = self._merge(table, held)
        own: list[str] = []
        for relation in query.virtual_tables:
            relations[f"v{relation.oid}"] = self._virtual_name(relation, request, own, buffers)
        for place, listed in enumerate(query.lists):
            relations[f"l{place}"] = name = f"l{place}"
            own.append(name)
            buffers.append(listed)
        stream.lsn = self._feed.read_lsn(reader)
        stream.identifier = next(self._identifiers)
        self._streams[stream.identifier] = stream
        header: Header = {
            "op": "query",
            "id": stream.identifier,
            "sql": _guard(fill(query.sql, relations, request.parameters), query),
            "tables": [table.storage_id for table in query.tables],
            "functions": [asdict(signature) for signature in query.functions],
            "types": query.types,
            "lexicon": query.lexicon,
            "whole": query.whole,
            "arrays": query.arrays,
            "overlays": overlays,
            "virtual": own,
            "memory": request.memory,
        }
        if stream.alone:
            header["patience"] = ALONE_PATIENCE[stream.alone - 1]
        if stream.plainly:
            header["plainly"] = True
        if request.encoding is not None:
            header["encoding"] = _encoding_header(query, request.encoding)
        self._write(header, buffers)
        self._watch.begin(self.process_id or 0, self._process.watchers)

    def _merge(self, table: Table, name: str) -> str:
        """SQL for the plain table without the overlay's keys, plus the overlay's rows."""
        storage_id = table.storage_id
        fed = self._feed.tables[storage_id].table
        keys = key_columns(fed)
        columns = [f"c{column.number}" for column in fed.columns]
        columns += [key for key in keys if key not in columns]
        names = ", ".join(columns)
        same = " AND ".join(f"p.{key} = x.{key}" for key in keys)
        return (
            f"(SELECT {names} FROM {name} AS p WHERE NOT EXISTS (SELECT 1 FROM x{storage_id} AS x WHERE {same})"
            f" UNION ALL SELECT {names} FROM o{storage_id})"
        )

    def _virtual_name(self, relation: VirtualTable, request: Request, own: list[str], buffers: list[Buffer]) -> str:
        """Returns the name of a virtual table's content in the worker, and sends the content if the worker does not
        have it."""
        if request.virtual is None:
            raise SqlError("XX000", f"nothing provides the content of {relation.name}")
        version, batch = request.virtual(relation, request.reader)
        if version is None:
            name = f"s{relation.oid}"
            own.append(name)
            buffers.append(frames.ipc_stream(batch))
            return name
        kept = self._versions.setdefault(relation.oid, {})
        known = kept.pop(version, None)
        if known is None:
            known = f"v{relation.oid}_{next(self._version_names)}"
            self._write({"op": "virtual", "name": known}, [frames.ipc_stream(batch)])
        kept[version] = known  # the newest is last
        if len(kept) > VERSIONS_KEPT:
            self._write({"op": "forget", "name": kept.pop(next(iter(kept)))})
        return known

    def give_credit(self, stream: Stream, size: int) -> None:
        if stream.identifier in self._streams:
            self._write({"op": "credit", "id": stream.identifier, "bytes": size})

    def cancel(self, stream: Stream) -> None:
        """Cancels a query in the worker, and discards the rest of its result. A worker that does not read the
        cancellation, because a single call blocks it, is replaced (engine/columnar/worker_answers.py)."""
        if self._streams.pop(stream.identifier, None) is not None:
            self._write({"op": "cancel", "id": stream.identifier})
            self._hearing.note_cancel(stream.identifier, self.process_id or 0)

    def _is_under_way(self) -> bool:
        return bool(self._streams or self._sent or self._blocked)

    def _is_due(self) -> bool:
        return bool(self._sent or self._blocked) or any(stream.waits for stream in self._streams.values())

    def _ask(self, number: int) -> None:
        self._write({"op": "hear", "id": number})

    def _replace(self, why: str) -> None:
        log.warning("the analytic worker %s: another one is started", why)
        self._process.abort()

    # ---- tables ---------------------------------------------------------------------------------------------------

    async def start_if_wanted(self) -> None:
        """Starts the worker if its file exists or a table has columnar = on. Raises 57P02 if it cannot be started."""
        saved = self._process.keep and os.path.exists(self.columns_path)
        if saved or any(columnar_of(table) == "on" for table in (self.stored_tables or tuple)()):
            await self.start()

    @contextlib.asynccontextmanager
    async def started_if_wanted(self) -> AsyncIterator[None]:
        """Runs `start_if_wanted` in the background within the context, and ignores its errors: the next query starts
        the worker again."""
        task = asyncio.create_task(self.start_if_wanted())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def load(self, table: Table) -> None:
        """Starts the worker if needed, and waits until it has loaded the table. Raises the errors of the load."""
        try:
            await self.start()
            await self._load_all((table,))
        except WorkerLoss as loss:
            raise loss.error("loaded a table") from None

    async def _load_all(self, tables: Sequence[Table]) -> None:
        """Waits until the worker has all these tables with all their columns."""
        while True:
            missing = [table for table in tables if not self._has(table)]
            if not missing:
                return
            for table in missing:
                waiting = self._loads.get(table.storage_id)
                await asyncio.shield(waiting if waiting is not None else self._load(table))

    def _has(self, table: Table) -> bool:
        fed = self._feed.tables.get(table.storage_id)
        if fed is None or not fed.ready:
            return False
        if len(table.layouts) <= len(fed.table.layouts):
            return fed.serves(table)
        description = describe_table(table)
        if reshape_commands(describe_table(fed.table), description) is None:
            return False
        fed.table = table
        self._write({"op": "describe", "table": description})
        return True

    def has_copy(self, table: Table) -> bool:
        """Whether the worker has the table with all its columns. Sends the worker added and dropped columns first."""
        return self.running and self._has(table)

    def build_ahead(self, table: Table) -> None:
        """Loads an empty table that a commit is about to fill in bulk (engine/columnar/ahead.py). Does not start the
        worker for this; if the worker is being started, it loads the table afterwards."""
        if table.storage_id in self._feed.tables or columnar_of(table) == "off":
            return
        if self.running:
            self._load(table)
        elif self.starting:
            self.background.add((table,))

    def _load(self, table: Table) -> asyncio.Future[None]:
        """Begins to load a table. Raises 57P03, and begins nothing, if its tablespace is not on this node."""
        fed = self._feed.begin_load(table)
        bases = fed.store.leaning.chain(table.storage_id)
        empty = not bases and not fed.store.has_flushed_rows(table.storage_id)
        load: frames.Header = {
            "op": "load",
            "table": describe_table(table, bases),
            "path": fed.store.checkpoint_path,
            "token": fed.store.note_keys(table.storage_id) if self._is_kept(table, bases) else "",
            "empty_at": fed.store.flushed_lsn if empty else None,
            "durable": fed.store.durable_lsn,
        }
        future = self._loads[table.storage_id] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_retrieve)
        # The worker reads LMDB, which must contain the versions kept for a branch, and bulk runs completely. If LMDB
        # has no rows of the table, the worker does not read it.
        if bases or (not empty and fed.store.has_unflushed_runs(table.storage_id)):
            fed.store.flush(partial(self._load_flushed, future, load), partial(self._load_failed, table.storage_id))
        else:
            self._load_flushed(future, load)
        return future

    def _is_kept(self, table: Table, bases: Sequence[int]) -> bool:
        """Whether the worker saves the table in its file. It does not save a table that depends on others (a branch),
        because it changes with them."""
        return self._process.keep and not bases and columnar_of(table) != "off"

    def _load_flushed(self, future: asyncio.Future[None], load: frames.Header) -> None:
        """Sends the load, unless the worker has ended meanwhile: then the future has its error already."""
        if not future.done() and self._process.frames is not None:
            self._write(load)
            self._sent.add(load["table"]["storage_id"])
            self._watch.begin(self.process_id or 0, self._process.watchers)

    def _load_failed(self, storage_id: int, error: SqlError) -> None:
        self._feed.forget(storage_id)
        waiting = self._loads.pop(storage_id, None)
        if waiting is not None and not waiting.done():
            waiting.set_exception(error)

    def forget(self, storage_id: int) -> None:
        """Drops the worker's copy of a table that was dropped, truncated or moved. A copy that is being loaded is
        dropped when the load has ended."""
        self.background.forget(storage_id)
        fed = self._feed.tables.get(storage_id)
        if fed is None:
            with contextlib.suppress(SqlError):  # its tablespace is not here
                self._feed.store.of(storage_id).forget_keys(storage_id)
            if storage_id in self.in_file and self._process.frames is not None:
                self.in_file.discard(storage_id)
                self._write({"op": "drop", "storage_id": storage_id})
            return
        fed.store.forget_keys(storage_id)
        if storage_id in self._loads:
            fed.unwanted = True
        else:
            self._feed.forget(storage_id)
            self._write({"op": "drop", "storage_id": storage_id})

    def _push(self, fed: FedTable, whole: bool = True) -> None:
        """Sends the changes that the worker's table lacks. The last message contains the LSN that the table then has.
        With `whole` false, for pushes in the background, some changes may be left for later."""
        runs, changes = self._feed.delta(fed, whole)
        storage_id = fed.table.storage_id
        messages: list[tuple[Header, list[Buffer]]] = [
            ({"op": "run", "storage_id": storage_id, "path": kept.path, "draft": kept.draft}, []) for kept in runs
        ]
        for part in frames.portions(changes):
            buffers = frames.encode_pairs(part)
            self._unapplied += sum(memoryview(buffer).nbytes for buffer in buffers)
            messages.append(({"op": "apply", "storage_id": storage_id}, buffers))
        if messages and not fed.pending:
            messages[-1][0]["reached"] = fed.reached
        for header, buffers in messages:
            self._write(header, buffers)

    def _durable(self, lsn: int) -> None:
        """Called when commits are durable: pushes changes without a query, so that the feed's snapshot stays recent. It
        pushes at once after PUSH_LSNS commits, otherwise after PUSH_SECONDS."""
        if self._process.frames is None or not self._feed.tables:
            return
        if self._feed.behind >= PUSH_LSNS:
            self._push_all()
        else:
            self._push_soon()

    def _push_soon(self) -> None:
        if self._push_timer is None:
            self._push_timer = asyncio.get_running_loop().call_later(PUSH_SECONDS, self._push_late)

    def _push_late(self) -> None:
        self._push_timer = None
        if self._process.frames is not None:
            self._push_all()

    def _push_all(self) -> None:
        if self._settling is None:
            self._settling = self._feed.settle()
            self._settle_next()

    def _settle_next(self) -> None:
        """Collects a few thousand changed keys per turn of the loop, then sends the changes."""
        if self._settling is None:
            return
        settling, self._settling = self._settling, None
        if next(settling, self) is None:
            self._settling = settling
            asyncio.get_running_loop().call_soon(self._settle_next)
            return
        self.drafts.discard_overdue()
        self._push_next(deque(self._feed.due))

    def _push_next(self, due: deque[FedTable]) -> None:
        """Sends the changes of one table per turn of the loop, so that other tasks can run in between."""
        if due and self._process.frames is not None and self._unapplied < UNSENT_LIMIT:
            fed = due.popleft()
            if self._feed.tables.get(fed.table.storage_id) is fed:
                self._push(fed, whole=False)
                if fed.pending:
                    due.append(fed)
            if due:
                asyncio.get_running_loop().call_soon(self._push_next, due)

    # ---- the process ----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Starts the worker if it is not running. Raises 57P02 if it cannot be started."""
        process = self._process
        process.check_open()
        if process.running and process.frames is not None and not process.frames.writable.is_set():
            await self._writable(process.frames.writable)
        await process.start()

    async def _writable(self, writable: asyncio.Event) -> None:
        """Waits until the worker has read most of what it was sent."""
        self._blocked += 1
        self._watch.begin(self.process_id or 0, self._process.watchers)
        try:
            await writable.wait()
        finally:
            self._blocked -= 1

    def _take_up(self) -> None:
        """Called when the worker has started."""
        if self.stored_tables is not None:
            self.background.take_up(self.stored_tables(), sorted(self.in_file))

    @property
    def columns_path(self) -> str:
        """The path of the file with the saved tables."""
        return self._process.columns_path

    @property
    def process_id(self) -> int | None:
        """The worker's process id; None if it is not running."""
        return self._process.process_id

    def _write(self, header: Header, buffers: Sequence[Buffer] = ()) -> None:
        self._process.write(header, buffers)

    def _receive(self, header: Header, buffers: list[memoryview]) -> None:
        operation: Any = header["op"]
        if operation in ("rows", "batch"):
            stream = self._streams.get(header["id"])
            if stream is not None:
                stream.add(buffers[0], header["rows"])
        elif operation in ("end", "error"):
            self._hearing.note_end(header["id"])
            self._process.useless = 0
            stream = self._streams.pop(header["id"], None)
            if stream is not None:
                error: Exception | None = _error_of(header) if operation == "error" else None
                if isinstance(error, SqlError) and error.sqlstate == LOST:
                    error = WorkerLoss()
                crowded, opened, fatal = (
                    bool(header.get(key, key == "opened")) for key in ("crowded", "opened", "fatal")
                )
                if fatal:
                    self._process.abort()  # the worker ends: nothing more is sent to it
                stream.finish(error, crowded, opened, fatal)
        elif operation == "alive":
            self._hearing.note_answer(header["id"], self.process_id or 0)
        elif operation == "applied":
            self._unapplied -= header["bytes"]
        elif operation in ("draft_grown", "draft_lost"):
            self.drafts.on_answer(header)
        elif operation in ("loaded", "lost"):
            self._process.useless = 0
            self._table_answer(header)
        elif operation == "saved":
            for storage_id, lsn, rows, size in header["tables"]:
                fed = self._feed.tables.get(storage_id)
                if fed is not None and fed.ready:  # otherwise the message is about an earlier copy
                    fed.saved = lsn, rows, size
                    fed.store.note_saved(storage_id, lsn)
            self._process.note_saved()
            self.report.note_saved(header)
            self._note_save(header["id"])
        elif operation == "unsaved":
            self.report.note_unsaved(header["message"])
            self._note_save(header["id"])
        elif operation == "progress":
            self.report.note_progress(header)
        elif operation in REASONS:
            self._process.note_reason(operation)
            self.report.note_leave(operation, header)
        elif operation == "ready" and self._process.note_ready(header["watchers"]):
            self.in_file = set(header["tables"])

    def _table_answer(self, header: Mapping[str, object]) -> None:
        storage_id: Any = header["storage_id"]
        self._sent.discard(storage_id)
        waiting = self._loads.pop(storage_id, None)
        fed = self._feed.tables.get(storage_id)
        if fed is not None and fed.unwanted:
            if header["op"] == "loaded":
                self.forget(storage_id)
            else:
                fed.store.forget_keys(storage_id)
                self._feed.forget(storage_id)
            if waiting is not None and not waiting.done():
                waiting.set_exception(not_here())
            return
        self.in_file.discard(storage_id)
        if header["op"] == "loaded":
            lsn: Any = header["lsn"]
            self._feed.tables[storage_id].built = bool(header["built"])
            self._feed.tables[storage_id].loaded = now()
            self.report.note_loaded(header)
            self._feed.note_loaded(storage_id, lsn)
            self._push_soon()
            if waiting is not None and not waiting.done():
                waiting.set_result(None)
            return
        if fed is not None:
            fed.store.forget_keys(storage_id)
        self._feed.forget(storage_id)
        if waiting is None and fed is not None:
            self.report.note_lost(fed.table.name, _error_of(header))
        if waiting is not None and not waiting.done():
            error = _error_of(header)
            if error.sqlstate == "53200" and fed is not None:
                error.detail = f'The analytic worker has no memory left for its copy of "{fed.table.name}".'
            waiting.set_exception(error)

    def _note_loss(self, reason: str) -> None:
        """Called when the worker has ended: all loads and streams fail with WorkerLoss."""
        if self._push_timer is not None:
            self._push_timer.cancel()
            self._push_timer = None
        self.background.clear()
        self.report.clear()
        self.in_file.clear()
        self._hearing.clear()
        self._watch.clear()
        self._sent.clear()
        if self._settling is not None:
            self._settling.close()
            self._settling = None
        self.drafts.clear()
        self._feed.clear()
        self._versions.clear()
        self._unapplied = 0
        loads, self._loads = self._loads, {}
        for waiting in loads.values():
            if not waiting.done():
                waiting.set_exception(WorkerLoss(reason))
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            stream.finish(WorkerLoss(reason))
        self._note_save()

    def _forget_readers(self) -> None:
        """Removes the reader slots of an ended worker from LMDB."""
        store = self._feed.store
        for space in store.open_spaces() if isinstance(store, Stores) else (store,):
            space.forget_dead_readers()

    def _note_save(self, identifier: object = ASKED) -> None:
        """Called when the worker has saved its file, or failed to. Only the save that the engine has requested is
        awaited."""
        if identifier == ASKED and self._saved is not None and not self._saved.done():
            self._saved.set_result(None)

    async def _save(self) -> None:
        """Lets the worker save its tables, so that the next worker has less to load. Failures are ignored."""
        self._saved = asyncio.get_running_loop().create_future()
        with contextlib.suppress(WorkerLoss, TimeoutError):
            for fed in self._feed.tables.values():
                if fed.ready:
                    self._push(fed)
            self._write({"op": "save", "id": ASKED})
            async with asyncio.timeout(SAVE_AT_END_SECONDS):
                await self._saved

    async def close(self) -> None:
        """Ends the worker, which saves its tables first. Running queries end with 57P02."""
        await self._process.stop_starts()
        if self._process.keep and self._process.frames is not None and self._feed.tables:
            await self._save()
        await self._process.end()


def _guard(sql: str, query: ColumnarQuery) -> str:
    """Returns the query with a check of its intervals (0A000). Arrow's intervals are in nanoseconds, and DuckDB's
    conversion overflows without an error for more than 292 years of microseconds."""
    if all(column.duckdb_type != "INTERVAL" for column in query.columns):
        return sql
    error = sql_error_call("0A000", "an interval of more than 2500000 hours in an analytic query is not supported")
    names = [f"o{position}" for position in range(len(query.columns))]
    outputs = ", ".join(
        f"CASE WHEN abs(hour({name})) > 2500000 THEN {error} ELSE {name} END AS {name}"
        if column.duckdb_type == "INTERVAL"
        else name
        for name, column in zip(names, query.columns, strict=True)
    )
    return f"SELECT {outputs} FROM ({sql}) AS q ({', '.join(names)})"


def _retrieve(future: asyncio.Future[None]) -> None:
    """Retrieves the exception, so that asyncio does not log it if no task awaits the future any more."""
    if not future.cancelled():
        future.exception()


def key_columns(table: Table) -> tuple[str, ...]:
    """The columns of the worker's table that identify a row (engine/columnar/worker/keys.py)."""
    return KeyPlan(table).columns


def _encoding_header(query: ColumnarQuery, encoding: RowEncoding) -> Header:
    return {
        "kind": encoding.kind,
        "types": [column.type.oid for column in query.columns],
        "fields": [[[field.oid, field.declared] for field in column.fields] for column in query.columns],
        "names": [column.name for column in query.columns],
        "formats": list(encoding.formats),
        "settings": list(astuple(encoding.settings)),
        "options": [list(option) for option in encoding.options],
    }


def _error_of(header: Mapping[str, Any]) -> SqlError:
    return SqlError(header["sqlstate"], header["message"], detail=header["detail"], hint=header["hint"])
