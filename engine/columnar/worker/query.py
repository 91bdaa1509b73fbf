"""One query in the worker: a pinned cursor, a thread that runs it, and chunks sent as fast as they are taken.

A query runs while it has one of a few *slots*, so that many queries do not run all at once, and gives the slot up while
it waits for credit: portals that are left open keep nobody from running.

Memory is shared by the queries that run at one time. One that found none left is sent again by the engine, to run
alone: then nobody else gets a slot, and it begins when those who have one are done, or, when its patience is at an end,
beside them. Those that are to run alone do so one after the other. So a query ends with 53200 because of its own size,
not of its neighbours'. Whether it did have neighbours (`company`: another query that had begun and not ended, a table
that was loaded) the error says (`crowded`): one that had none is not tried again, which would only take as long once
more. Memory may be short before a query gets that far, when its cursor is opened: that the error says too (`opened`).

Flow control is by credit: the engine lets `WINDOW` bytes of a result be under way, and gives credit back when its
reader has taken a chunk. A query without credit waits with its DuckDB result open, which holds a few batches at most.

Cancelling sets a flag and interrupts DuckDB and calls of Python functions (calls.py), again every 50 ms until the query
has ended: an interrupt that arrives just before DuckDB starts would be lost.
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
    """DuckDB's errors are translated; what is unknown becomes XX000."""
    if isinstance(error, SqlError):
        return error
    if isinstance(error, MemoryError):  # Arrow's too, which says which malloc failed
        return memory_error()
    return translate(str(error))


def error_header(identifier: int, error: BaseException) -> Header:
    """An error as it crosses the socket."""
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
    """How many queries run at once, and what wakes those that wait for a slot or for credit."""

    def __init__(self, count: int) -> None:
        self._count = self._free = count
        self._alone: deque[Query] = deque()  # the first one runs alone, or is the next that does
        self._begun: set[Query] = set()  # and not ended: those that wait for credit have memory too
        self._changed = threading.Condition()

    def wait_for(self, query: Query, size: int) -> None:
        """Waits for a slot, and until `size` bytes may be sent; a chunk larger than what is left goes as a whole.

        A slot that the query has is given up while there is no credit. Raises 57014 when it is cancelled; it has no
        slot then.
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
        """For how many more seconds it waits for others to end; None without a limit. It begins with its turn."""
        if not query.alone or self._alone[0] is not query:
            return None
        now = time.monotonic()
        if query.deadline is None:
            query.deadline = now + query.patience
        return max(query.deadline - now, 0.0)

    def _release(self, query: Query) -> None:
        """It does not run alone any more, or never did."""
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
        """Something else begins that takes memory as queries do."""
        with self._changed:
            self._note_company()

    def _note_company(self) -> None:
        for query in self._begun:
            query.company = True

    def leave(self, query: Query) -> None:
        """The query has ended."""
        with self._changed:
            self._give_up(query)
            self._begun.discard(query)

    def give(self, query: Query, size: int) -> None:
        """Credit: the reader has taken this many bytes."""
        with self._changed:
            query.left += size
            self._changed.notify_all()

    def stop(self, query: Query) -> None:
        with self._changed:
            query.stopped = True
            self._changed.notify_all()


class Interrupter:
    """Ends queries as soon as they can be: a thread interrupts each again and again until it has ended. It is there
    from the start, since what is cancelled may be what has used up the memory that a new thread would take."""

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
    """`header` is the query frame's; `cursor` is in a transaction that is pinned to the query's moment. `on_damage` is
    called where what it reads is damaged."""

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
        # Under the lock of `slots`:
        self.alone = "patience" in header
        self.patience: float = header.get("patience", 0.0)  # seconds
        self.deadline: float | None = None
        self.has_slot = False
        self.company = False
        self.left = WINDOW
        self.stopped = False
        self.memory: int = header.get("memory", UNLIMITED)
        self.found_no_memory = False  # it was stopped for that

    def give_credit(self, size: int) -> None:
        self._slots.give(self, size)

    def stop(self) -> None:
        """It waits for nothing any more; from the reading thread."""
        self._slots.stop(self)

    def interrupt(self) -> bool:
        """Interrupts what DuckDB does for it, and calls of its functions. False when it has ended."""
        if self._ended:
            return False
        if not self._stopped_at:
            self._stopped_at = time.monotonic()
        calls.leave(self.identifier, self._stopped_at)
        with contextlib.suppress(Exception):  # closed in this very moment
            self._cursor.interrupt()
        return True

    def run(self) -> None:
        """Runs it to its end on a thread of its own, whatever that end is, and tells the engine."""
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
            os._exit(1)  # the engine starts a new worker, and runs there what else was under way

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
    """The batches of a reader that gives so many rows in each; one with fewer is the last, and comes when the end has
    been seen. Memory may be short there too, and whoever has got nothing yet can be sent all of it again."""
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
    """Ends the cursor's transaction and lets it go; a late interrupt may end the ROLLBACK, which closing does too."""
    with contextlib.suppress(Exception):
        cursor.execute("ROLLBACK")
    with contextlib.suppress(Exception):
        cursor.close()
