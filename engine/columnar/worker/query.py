"""One query in the worker: a pinned cursor, a thread that runs it, and result chunks, which wait for the reader.

A query runs while it has one of a few *slots*, so that not all queries run at the same time. It gives up its slot while
it waits for credit, so that open portals do not block other queries.

Running queries share memory. If a query ran out of memory, the engine sends it again, to run alone: then no other query
gets a slot, and the query begins when all running ones have ended, or beside them after its patience (seconds). Such
queries run one after the other. So a query ends with 53200 because of its own size, not that of others. The error says
whether the query had company (`crowded`): another query that had begun and not ended, or a table that was loaded. A
query without company is not repeated, because it would fail again. Memory may also run out earlier, when the cursor is
opened; the error says that too (`opened`).

Flow control is by credit: at most `WINDOW` bytes of a result are sent and not yet taken by the engine's reader. The
engine returns credit when the reader has taken a chunk. A query without credit waits with its DuckDB result open, which
holds a few batches at most.

Cancelling sets a flag, and interrupts DuckDB and calls of Python functions (calls.py) every 50 ms until the query has
ended, because an interrupt just before DuckDB starts is lost.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from catalog.errors import SqlError
from catalog.functions.duckdb_errors import memory_error, translate
from catalog.memory import UNLIMITED
from catalog.text_search.description import lexicon_of
from catalog.types.base import FormatSettings
from engine.columnar import arrow_stream
from engine.columnar.datarow import RowEncoder
from engine.columnar.frames import Buffer, Header, ipc_stream
from engine.columnar.worker import calls
from engine.columnar.worker.columns_file import is_damage
from engine.columnar.worker.database import careful_planning, is_fatal

WINDOW = 1 << 20
ROWS_PER_BATCH = 8192
INTERRUPT_AGAIN = 0.05  # seconds

Send = Callable[[Header, Sequence[Buffer]], None]


def canceled_error() -> SqlError:
    return SqlError("57014", "canceling statement due to user request")


def as_sql_error(error: BaseException) -> SqlError:
    """Translates an error of DuckDB. An unknown one becomes XX000."""
    if isinstance(error, SqlError):
        return error
    if isinstance(error, MemoryError):  # also Arrow's, which names the failed malloc
        return memory_error()
    return translate(str(error))


def error_header(identifier: int, error: BaseException) -> Header:
    """Returns the header of an error frame."""
    known = as_sql_error(error)
    return {
        "op": "error",
        "id": identifier,
        "sqlstate": known.sqlstate,
        "message": known.message,
        "detail": known.detail,
        "hint": known.hint,
    }


class Slots:
    """The limit of running queries. Queries wait here for a slot and for credit."""

    def __init__(self, count: int) -> None:
        self._count = self._free = count
        self._alone: deque[Query] = deque()  # the first one runs alone, or will do so next
        self._begun: set[Query] = set()  # not ended yet; queries that wait for credit hold memory too
        self._changed = threading.Condition()

    def wait_for(self, query: Query, size: int) -> None:
        """Waits for a slot, and until `size` bytes may be sent. Any positive credit suffices for a whole chunk.

        A query without credit gives up its slot. Raises 57014 if the query is cancelled; it has no slot then.
        """
        with self._changed:
            if query.has_slot and query.left > 0 and not query.stopped:
                query.left -= size
                return
            self._give_up(query)
            if query.alone:
                self._alone.append(query)
            while not query.stopped and not (self._may_run(query) and query.left > 0):
                self._changed.wait(self._patience_of(query))
            if query.stopped:
                self._release(query)
                raise canceled_error()
            self._free -= 1
            query.has_slot = True
            query.left -= size
            self._begun.add(query)
            if len(self._begun) > 1:
                self._note_company()

    def _may_run(self, query: Query) -> bool:
        if not query.alone:
            return self._free > 0 and not self._alone
        if self._alone[0] is not query:
            return False
        if self._free == self._count:
            return True
        if self._patience_of(query):
            return False
        self._release(query)
        return self._free > 0

    def _patience_of(self, query: Query) -> float | None:
        """Returns for how many more seconds the query waits until it is alone; None without a limit. The time begins
        when the query is the first in `_alone`."""
        if not query.alone or self._alone[0] is not query:
            return None
        now = time.monotonic()
        if query.deadline is None:
            query.deadline = now + query.patience
        return max(query.deadline - now, 0.0)

    def _release(self, query: Query) -> None:
        """Lets other queries run beside this one."""
        if query.alone:
            query.alone = False
            if query in self._alone:
                self._alone.remove(query)
                self._changed.notify_all()

    def _give_up(self, query: Query) -> None:
        if query.has_slot:
            self._release(query)
            query.has_slot = False
            self._free += 1
            self._changed.notify_all()

    def join(self) -> None:
        """Called when other work begins that needs as much memory as a query."""
        with self._changed:
            self._note_company()

    def _note_company(self) -> None:
        for query in self._begun:
            query.company = True

    def leave(self, query: Query) -> None:
        """Called when the query has ended."""
        with self._changed:
            self._give_up(query)
            self._begun.discard(query)

    def give(self, query: Query, size: int) -> None:
        """Adds credit: the reader has taken `size` bytes."""
        with self._changed:
            query.left += size
            self._changed.notify_all()

    def stop(self, query: Query) -> None:
        with self._changed:
            query.stopped = True
            self._changed.notify_all()


class Interrupter:
    """Ends cancelled queries: a thread interrupts each repeatedly until it has ended. The thread runs from the start,
    because the cancelled query may have used up the memory for a new thread."""

    def __init__(self) -> None:
        self._queries: set[Query] = set()
        self._changed = threading.Condition()
        thread = threading.Thread(target=self._run, name="interrupter", daemon=True)
        thread.start()
        self.thread = thread.native_id or 0  # its id

    def cancel(self, query: Query) -> None:
        query.stop()
        with self._changed:
            self._queries.add(query)
            self._changed.notify()

    def _run(self) -> None:
        with self._changed:
            while True:
                while not self._queries:
                    self._changed.wait()
                self._queries = {query for query in self._queries if query.interrupt()}
                self._changed.wait(INTERRUPT_AGAIN)


class Query:
    """`header` is the query frame's; `cursor` is in a transaction with the query's snapshot. `on_damage` is called if
    the data that the query reads is damaged."""

    def __init__(
        self, header: Header, cursor: Any, send: Send, slots: Slots, on_damage: Callable[[], None] = lambda: None
    ) -> None:
        self.identifier: int = header["id"]
        self._header = header
        self._cursor = cursor
        self._send = send
        self._slots = slots
        self._on_damage = on_damage
        self._ended = False
        self._stopped_at = 0.0  # on the monotonic clock
        # Guarded by the lock of `slots`:
        self.alone = "patience" in header
        self.patience: float = header.get("patience", 0.0)  # seconds
        self.deadline: float | None = None
        self.has_slot = False
        self.company = False
        self.left = WINDOW
        self.stopped = False
        self.memory: int = header.get("memory", UNLIMITED)
        self.found_no_memory = False  # the query was stopped because memory was short

    def give_credit(self, size: int) -> None:
        self._slots.give(self, size)

    def stop(self) -> None:
        """Ends the query's waits. Called by any thread."""
        self._slots.stop(self)

    def interrupt(self) -> bool:
        """Interrupts DuckDB and the calls of Python functions. False if the query has ended."""
        if self._ended:
            return False
        if not self._stopped_at:
            self._stopped_at = time.monotonic()
        calls.leave(self.identifier, self._stopped_at)
        with contextlib.suppress(Exception):  # the cursor may have just been closed
            self._cursor.interrupt()
        return True

    def run(self) -> None:
        """Runs the query on the calling thread, and sends the engine its end or its error. A fatal error ends the
        process."""
        fatal = False
        try:
            self._slots.wait_for(self, 0)
            with calls.of_query(self.identifier, self.memory, lambda: self.stopped):
                count = self._stream()
            last: Header = {"op": "end", "id": self.identifier, "rows": count}
        except BaseException as error:
            fatal = is_fatal(error)
            if is_damage(error):
                self._on_damage()
                fatal = True
            if self.stopped:
                error = memory_error() if self.found_no_memory else canceled_error()
            last = error_header(self.identifier, error)
            last["crowded"] = self.company and not self.alone
            last["fatal"] = fatal and not self.stopped
        self._ended = True
        close_cursor(self._cursor)
        self._slots.leave(self)
        self._send(last, ())
        if fatal:
            os._exit(1)  # the engine starts a new worker, and repeats the other running queries there

    def _stream(self) -> int:
        encoding: Any = self._header.get("encoding")
        sql: Any = self._header["sql"]
        with careful_planning(self._cursor, sql, bool(self._header.get("plainly"))):
            relation = self._cursor.sql(sql)
            reader = relation.to_arrow_reader(_rows_per_batch(encoding))
        try:
            if encoding and encoding["kind"] == "copy_arrow":
                return self._send_arrow(reader, encoding)
            batches = until_its_end(reader, _rows_per_batch(encoding))
            with lexicon_of(self._header["lexicon"]):
                return self._send_rows(batches, encoding) if encoding else self._send_batches(batches)
        finally:
            reader.close()

    def _send_rows(self, batches: Iterator[Any], encoding: Any) -> int:
        encoder = RowEncoder(
            encoding["kind"],
            encoding["types"],
            encoding["formats"],
            FormatSettings(*encoding["settings"]),
            options=[(name, value) for name, value in encoding["options"]],
            names=encoding["names"],
            records=encoding["fields"],
        )
        total = 0
        for batch in batches:
            for chunk, rows in encoder.encode(batch):
                self._send_chunk(chunk, rows)
                total += rows
        return total

    def _send_arrow(self, reader: Any, encoding: Any) -> int:
        encoder = arrow_stream.ArrowEncoder(encoding["types"], encoding["names"], FormatSettings(*encoding["settings"]))
        self._send_chunk(encoder.start(reader.schema), 0)
        total = 0
        for batch in reader:
            for chunk, rows in encoder.encode(batch):
                self._send_chunk(chunk, rows)
                total += rows
        self._send_chunk(encoder.end(), 0)
        return total

    def _send_chunk(self, chunk: memoryview, rows: int) -> None:
        self._slots.wait_for(self, chunk.nbytes)
        self._send({"op": "rows", "id": self.identifier, "rows": rows}, (chunk,))

    def _send_batches(self, batches: Iterator[Any]) -> int:
        total = 0
        for batch in batches:
            if batch.num_rows == 0:
                continue
            buffer = ipc_stream(batch)
            self._slots.wait_for(self, buffer.nbytes)
            self._send({"op": "batch", "id": self.identifier, "rows": batch.num_rows}, (buffer,))
            total += batch.num_rows
        return total


def until_its_end(reader: Iterator[Any], rows: int) -> Iterator[Any]:
    """Yields the batches of a reader whose batches have `rows` rows, except for the last. Yields the last one only
    after the reader's end has been read: memory may run out there too, and a query can be repeated only if none of its
    result has been sent."""
    batches = iter(reader)
    batch = next(batches, None)
    while batch is not None:
        last = batch.num_rows < rows
        following = next(batches, None) if last else None
        yield batch
        batch = following if last else next(batches, None)


def _rows_per_batch(encoding: Any) -> int:
    if not encoding:
        return ROWS_PER_BATCH * 4
    return arrow_stream.ROWS_PER_BATCH if encoding["kind"] == "copy_arrow" else ROWS_PER_BATCH


def close_cursor(cursor: Any) -> None:
    """Ends the cursor's transaction and closes it. A late interrupt may end the ROLLBACK; then closing rolls back."""
    with contextlib.suppress(Exception):
        cursor.execute("ROLLBACK")
    with contextlib.suppress(Exception):
        cursor.close()
