"""Results of analytic queries from the worker, and retries of queries.

A query runs again if none of its result has arrived and one of these happens: the worker was lost, it had no memory
beside other queries, it met an array that is not a LIST, or its own plan failed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from catalog.errors import SqlError
from catalog.functions.duckdb_errors import memory_error
from engine.columnar.request import Request

if TYPE_CHECKING:
    from engine.storage.moments import Lsn

ALONE_PATIENCE = (5.0, 20.0)  # seconds for which the second and third try of a query without memory wait to run alone
OPENING_PATIENCE = 20.0  # seconds for which a query is sent again if other queries leave no memory to open it
MOST_LOSSES = 8  # per query, of workers that ended because they had grown or were broken: the query is not the cause
OPENING_PAUSE = 0.1  # seconds between two tries to open a query
CREDIT_BYTES = 256 << 10
"""Credit is sent in steps of this size: small enough to keep the window open, and large enough to cost little."""


class StreamSource(Protocol):
    """The source of streams: WorkerClient."""

    async def send(self, stream: Stream) -> None: ...

    def give_credit(self, stream: Stream, size: int) -> None: ...

    def cancel(self, stream: Stream) -> None: ...


class WorkerUnavailable(SqlError):  # noqa: N818 - named for what is the matter
    """No worker can run a query (57P02): it cannot be started, or has ended during the query."""

    def __init__(self, message: str, detail: str | None = None) -> None:
        super().__init__("57P02", message, detail=detail)


class WorkerLoss(Exception):  # noqa: N818 - not an error of the statement's yet
    """The worker has ended. `reason`: "full" for too much memory; "grown" for too much memory while it was idle, before
    it had read the query; "" for any other."""

    def __init__(self, reason: str = "") -> None:
        super().__init__()
        self.reason = reason

    def error(self, what: str) -> SqlError:
        """The error for the client when the query is not retried."""
        if self.reason == "full":
            return memory_error("The analytic worker reached its memory limit and has been restarted.")
        return WorkerUnavailable(f"the analytic worker process has ended while it {what}")


class Stream:
    """One result. At most the worker's window of chunks waits here.

    `lsn` is the LSN of the query's state. It is final when the first chunk has arrived.
    """

    def __init__(self, client: StreamSource, request: Request) -> None:
        self._client = client
        self.request = request
        self.identifier = 0
        self.lsn: Lsn = 0
        self._chunks: deque[tuple[memoryview, int]] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        self._error: BaseException | None = None
        self._begun = False
        self._losses = 0
        self.alone = 0  # how many times it was sent to run alone
        self._crowded = False  # it did not run alone when it failed
        self._fatal = False  # a defect of DuckDB has ended the query and the worker
        self.plainly = False  # the retry after that is planned with the indispensable optimizers only
        self._opened = True  # it had been opened, and waited to run, when it failed
        self._closed = False
        self._opening_until: float | None = None  # of the loop's clock
        self._taken = 0

    def add(self, chunk: memoryview, rows: int) -> None:
        self._begun = True
        self._chunks.append((chunk, rows))
        self._wake()

    @property
    def waits(self) -> bool:
        """Whether a reader waits for the next chunk."""
        return self._waiter is not None

    def finish(
        self, error: BaseException | None, crowded: bool = False, opened: bool = True, fatal: bool = False
    ) -> None:
        self._ended = True
        self._error = error
        self._crowded, self._opened, self._fatal = crowded, opened, fatal
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def take(self) -> tuple[memoryview, int] | None:
        """The next chunk, or None at the end. Raises the query's error."""
        while not self._chunks:
            if self._taken:
                self._client.give_credit(self, self._taken)
                self._taken = 0
            if self._ended:
                if self._error is None:
                    return None
                await self._again(self._error)
                continue
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        chunk = self._chunks.popleft()
        self._taken += chunk[0].nbytes
        if self._taken >= CREDIT_BYTES:
            self._client.give_credit(self, self._taken)
            self._taken = 0
        return chunk

    async def _again(self, error: BaseException) -> None:
        """Runs the query again if nothing has arrived and a retry can help (see the module's text). Raises all other
        errors."""
        if self._fatal and not self._begun and not self.plainly:
            self.plainly = True
            await self._send_again()
            return
        if isinstance(error, SqlError) and error.sqlstate == "53200" and not self._begun and self._may_run_alone():
            if self._opened or not self.alone:
                self.alone += 1
            if not self._opened:
                await asyncio.sleep(OPENING_PAUSE)
            if self._closed:
                raise error
            await self._send_again()
            return
        if isinstance(error, SqlError) and error.sqlstate == "0A000" and not self._begun:
            if not self.request.turn(error):
                raise error
            await self._send_again()
            return
        if not isinstance(error, WorkerLoss):
            raise error
        if self._begun or self._losses >= MOST_LOSSES:
            raise error.error("ran this query")
        self._losses += 1 if error.reason in ("grown", "broken") else MOST_LOSSES
        await self._send_again()

    async def _send_again(self) -> None:
        self._ended = False
        self._error = None
        await self._client.send(self)

    def _may_run_alone(self) -> bool:
        if self._opened:  # a query that ran alone needs too much memory itself, and would fail again
            return self._crowded and self.alone < len(ALONE_PATIENCE)
        if not self._crowded:
            return not self.alone
        now = asyncio.get_running_loop().time()
        if self._opening_until is None:
            self._opening_until = now + OPENING_PATIENCE
        return now < self._opening_until

    async def close(self) -> None:
        """Stops a running query. Chunks that were not read are dropped."""
        if not self._ended:
            self._client.cancel(self)
        self._ended = self._closed = True
        self._error = None
        self._chunks.clear()


class _Result:
    """The common part of the result streams."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    @property
    def lsn(self) -> Lsn:
        """The LSN of the query's state."""
        return self._stream.lsn

    async def close(self) -> None:
        """Stops a running query in the worker."""
        await self._stream.close()


class RowStream(_Result):
    """engine.columnar.interface.ResultStream: chunks of encoded rows."""

    def __aiter__(self) -> RowStream:
        return self

    async def __anext__(self) -> tuple[bytes, int]:
        chunk = await self._stream.take()
        if chunk is None:
            raise StopAsyncIteration
        return bytes(chunk[0]), chunk[1]


class BatchStream(_Result):
    """The result as pyarrow record batches: an asynchronous iterator."""

    def __aiter__(self) -> BatchStream:
        return self

    async def __anext__(self) -> object:
        chunk = await self._stream.take()
        if chunk is None:
            raise StopAsyncIteration
        return pa.ipc.open_stream(pa.py_buffer(chunk[0])).read_next_batch()
