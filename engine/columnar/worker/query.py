"""One query in the worker: a pinned cursor, a pool thread that runs it, and chunks sent as fast as they are taken.

Flow control is by credit: the engine lets `WINDOW` bytes of a result be under way, and gives credit back when its
reader has taken a chunk. A query without credit waits with its DuckDB result open, which holds a few batches at most.

Cancelling sets a flag and interrupts DuckDB, again every 50 ms until the query has ended: an interrupt that arrives
just before DuckDB starts would be lost.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from catalog.errors import SqlError
from catalog.functions.duckdb_errors import translate
from catalog.types.base import FormatSettings
from engine.columnar.datarow import RowEncoder
from engine.columnar.frames import Buffer, Header

WINDOW = 1 << 20
ROWS_PER_BATCH = 8192
INTERRUPT_AGAIN = 0.05  # seconds

Send = Callable[[Header, Sequence[Buffer]], None]


def cancelled() -> SqlError:
    return SqlError("57014", "canceling statement due to user request")


def error_header(identifier: int, error: BaseException) -> Header:
    """An error as it crosses the socket. DuckDB's errors are translated; what is unknown becomes XX000."""
    known = error if isinstance(error, SqlError) else None
    if isinstance(error, MemoryError):
        known = SqlError("53200", "out of memory")
    if known is None:
        known = translate(str(error))
    return {
        "op": "error",
        "id": identifier,
        "sqlstate": known.sqlstate,
        "message": known.message,
        "detail": known.detail,
        "hint": known.hint,
    }


class Credit:
    """How many bytes of a result may still be sent."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._left = WINDOW
        self._ended = False

    def take(self, size: int) -> None:
        """Waits until anything may be sent; a chunk larger than what is left goes as a whole. Raises 57014."""
        with self._condition:
            while self._left <= 0 and not self._ended:
                self._condition.wait()
            if self._ended:
                raise cancelled()
            self._left -= size

    def give(self, size: int) -> None:
        with self._condition:
            self._left += size
            self._condition.notify()

    def end(self) -> None:
        with self._condition:
            self._ended = True
            self._condition.notify()


class Query:
    """`header` is the query frame's; `cursor` is in a transaction that is pinned to the query's moment."""

    def __init__(self, header: Header, cursor: Any, send: Send) -> None:
        self.identifier: int = header["id"]
        self._header = header
        self._cursor = cursor
        self._send = send
        self.credit = Credit()
        self._stop = threading.Event()
        self._ended = threading.Event()

    def cancel(self) -> None:
        """Ends the query as soon as it can be; from the reading thread."""
        if self._stop.is_set():
            return
        self._stop.set()
        self.credit.end()
        threading.Thread(target=self._interrupt, name="interrupt", daemon=True).start()

    def _interrupt(self) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(Exception):  # closed in this very moment
                self._cursor.interrupt()
            self._ended.wait(INTERRUPT_AGAIN)

    def run(self) -> None:
        """Runs it to its end on a pool thread, whatever that end is, and tells the engine."""
        try:
            count = self._stream()
            last: Header = {"op": "end", "id": self.identifier, "rows": count}
        except BaseException as error:
            last = error_header(self.identifier, cancelled() if self._stop.is_set() else error)
        self._ended.set()
        close_cursor(self._cursor)
        self._send(last, ())

    def _stream(self) -> int:
        if self._stop.is_set():
            raise cancelled()
        encoding: Any = self._header.get("encoding")
        relation = self._cursor.sql(self._header["sql"])
        reader = relation.to_arrow_reader(ROWS_PER_BATCH if encoding else ROWS_PER_BATCH * 4)
        try:
            return self._send_rows(reader, encoding) if encoding else self._send_batches(reader)
        finally:
            reader.close()

    def _send_rows(self, reader: Any, encoding: Any) -> int:
        encoder = RowEncoder(
            encoding["kind"],
            encoding["types"],
            encoding["formats"],
            FormatSettings(*encoding["settings"]),
            options=[(name, value) for name, value in encoding["options"]],
            names=encoding["names"],
        )
        total = 0
        for batch in reader:
            for chunk, rows in encoder.encode(batch):
                self.credit.take(chunk.nbytes)
                self._send({"op": "rows", "id": self.identifier, "rows": rows}, (chunk,))
                total += rows
        return total

    def _send_batches(self, reader: Any) -> int:
        total = 0
        for batch in reader:
            if batch.num_rows == 0:
                continue
            buffer = ipc_bytes(batch)
            self.credit.take(buffer.nbytes)
            self._send({"op": "batch", "id": self.identifier, "rows": batch.num_rows}, (buffer,))
            total += batch.num_rows
        return total


def ipc_bytes(batch: pa.RecordBatch) -> memoryview:
    """A record batch as an Arrow IPC stream of its own."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return memoryview(sink.getvalue())


def close_cursor(cursor: Any) -> None:
    """Ends the cursor's transaction and lets it go; a late interrupt may end the ROLLBACK, which closing does too."""
    with contextlib.suppress(Exception):
        cursor.execute("ROLLBACK")
    with contextlib.suppress(Exception):
        cursor.close()
