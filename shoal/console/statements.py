"""A database connection of the console's page. It runs one statement at a time, and limits the size of the answer.

    answer      {"columns": [{"name", "type"}], "rows": [[...]], "command": "SELECT 2", "truncated": false,
                 "notices": ["NOTICE: ..."], "milliseconds": 1.2, "transaction": "idle"}

Values have the form of wire/http.py. `truncated` is true if there are more rows than the limit, or more than
ANSWER_LIMIT bytes; `command` may be empty then. A query runs until it has returned the requested number of rows. A
statement that changes data always runs to its end.

When the browser disconnects while a statement runs, the statement is cancelled and the connection closed, because no
client would read the result.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Self

import orjson

from catalog.errors import SqlError
from wire import client_core
from wire.client import ClientConnection, ConnectionLostError
from wire.client_core import Column, Frame, RowReader
from wire.json_values import Encoder, column_of, encoder_of, parameter_text, protocol_text
from wire.server import Server

ANSWER_LIMIT = 8 << 20  # maximum bytes of rows
NOTICES = 100  # maximum number of notices that are kept for one statement
_TRANSACTION = {0x49: "idle", 0x54: "open", 0x45: "failed"}  # by the status byte of ReadyForQuery


class StatementConnection:
    """Created by `open`. `transaction` is idle, open or failed. `used` is the time of the last statement
    (monotonic)."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._turn = asyncio.Lock()
        self.transaction = "idle"
        self.used = time.monotonic()

    @classmethod
    async def open(cls, server: Server, user: str, database: str, settings: Mapping[str, str]) -> Self:
        """Opens a session of a role that has been authenticated. Raises SqlError for the server's errors, and 57P03."""
        parameters = {"user": user, "database": database, **settings}
        try:
            return cls(await ClientConnection.within(server.accept, server.address, parameters))
        except ConnectionLostError as error:
            raise SqlError("57P03", str(error)) from error

    @property
    def is_lost(self) -> bool:
        return self._connection.lost

    @property
    def is_busy(self) -> bool:
        return self._turn.locked()

    def close(self) -> None:
        """Ends the session and its running statement. Its transaction is rolled back."""
        if self.is_busy:
            self._connection.abort()
        else:
            self._connection.close()

    async def cancel(self) -> None:
        """Asks the server to cancel the running statement, if there is one."""
        if self.is_busy:
            await self._connection.cancel()

    async def run(self, sql: str, parameters: Sequence[object] = (), limit: int = 0) -> bytes:
        """Runs one statement, and returns its answer as JSON, with at most `limit` rows (0: no limit). Raises SqlError:
        08007 if the connection is lost meanwhile."""
        async with self._turn:
            run = _Run(self._connection, limit)
            try:
                await run.take(sql, parameters)
            except ConnectionLostError as error:
                if run.error is not None:  # the server's last messages
                    raise run.error from error
                message = "the connection to the node broke, and the outcome of the statement is unknown"
                raise SqlError("08007", message, detail=str(error)) from error
            finally:
                self.used = time.monotonic()
                if not run.ended and not self._connection.lost:
                    await asyncio.shield(self._connection.cancel())
                    self._connection.abort()
            self.transaction = run.transaction
            if run.error is not None:
                raise run.error
            return run.answer()


class _Run:
    """One running statement. `ended`: the server is ready for the next one."""

    def __init__(self, connection: ClientConnection, limit: int) -> None:
        self._connection = connection
        self._limit = limit
        self._columns: list[Column] = []
        self._encoders: list[Encoder] = []
        self._reader = RowReader(ANSWER_LIMIT)
        self._rows: list[bytes] = []
        self._bytes = 0
        self._truncated = False
        self._command = ""
        self._notices: list[str] = []
        self._started = time.monotonic()
        self.ended = False
        self.error: SqlError | None = None
        self.transaction = "idle"

    async def take(self, sql: str, parameters: Sequence[object]) -> None:
        """Reads all messages up to ReadyForQuery. Raises ConnectionLostError, and 54000 for a row that is too long."""
        connection = self._connection
        text = protocol_text(sql)
        connection.send(client_core.parse(b"", text) + client_core.describe("S", b"") + client_core.FLUSH)
        types = await self._describe()
        if self.error is None:
            self._bind(types, parameters)
        connection.send(client_core.SYNC)
        while not self.ended:
            await self._take_frame(await connection.receive())

    async def _describe(self) -> tuple[int, ...]:
        """The types of the parameters. The columns are stored in place. `error` is the reason if there are none."""
        types: tuple[int, ...] = ()
        while True:
            frame = await self._connection.receive()
            if frame.kind == 0x74:  # ParameterDescription
                types = client_core.parameter_types(frame.body)
            elif frame.kind == 0x54:  # RowDescription
                self._columns = client_core.row_description(frame.body)
                self._encoders = [encoder_of(column.type_oid) for column in self._columns]
                return types
            else:
                await self._take_frame(frame)
                if frame.kind in b"nE":  # NoData, ErrorResponse
                    return types

    def _bind(self, types: tuple[int, ...], parameters: Sequence[object]) -> None:
        if len(types) != len(parameters):
            message = f"the statement has {len(types)} parameters but got {len(parameters)} values"
            self.error = SqlError("08P01", message)
            return
        try:
            values = [parameter_text(value, oid) for value, oid in zip(parameters, types, strict=True)]
        except SqlError as error:
            self.error = error
            return
        limit = self._limit + 1 if self._limit else 0  # one more row, to learn whether there are more
        self._connection.send(client_core.bind(b"", b"", values) + client_core.execute(b"", limit))

    async def _take_frame(self, frame: Frame) -> None:
        kind = frame.kind
        if kind == 0x44:  # DataRow
            self._add_row(frame.data)
        elif kind == 0x43:  # CommandComplete
            self._command = client_core.strings(frame.body)[0]
        elif kind == 0x73:  # PortalSuspended
            self._command = ""  # because the statement was not run to its end
        elif kind == 0x45:  # ErrorResponse
            self.error = self.error or client_core.report_error(frame.body)
        elif kind == 0x5A:  # ReadyForQuery
            self.transaction = _TRANSACTION[frame.body[0]]
            self.ended = True
        elif kind == 0x47:  # CopyInResponse: the Sync before it does not count
            self._connection.send(client_core.copy_fail("the console has no data to send") + client_core.SYNC)
        elif kind == 0x48:  # CopyOutResponse
            self.error = SqlError("0A000", "COPY TO is not supported in the console", hint="Use SELECT, or psql.")
            await self._connection.cancel()
        elif kind == 0x4E and len(self._notices) < NOTICES:  # NoticeResponse
            fields = client_core.report_fields(frame.body)
            self._notices.append(f"{fields.get('V', 'NOTICE')}: {fields.get('M', '')}")
        elif kind == 0x41 and len(self._notices) < NOTICES:  # NotificationResponse
            channel, payload = client_core.strings(frame.body[4:])
            self._notices.append(f"NOTIFY {channel}: {payload}" if payload else f"NOTIFY {channel}")

    def _add_row(self, data: bytes) -> None:
        for row in self._reader.rows(data):
            if self._bytes > ANSWER_LIMIT or (self._limit and len(self._rows) == self._limit):
                self._truncated = True
                continue
            pairs = zip(row, self._encoders, strict=True)
            text = b",".join(b"null" if value is None else encode(value) for value, encode in pairs)
            self._rows.append(text)
            self._bytes += len(text)

    def answer(self) -> bytes:
        """The answer as JSON."""
        head = orjson.dumps({"columns": [column_of(column) for column in self._columns]})
        tail = orjson.dumps(
            {
                "command": self._command,
                "truncated": self._truncated,
                "notices": self._notices,
                "milliseconds": round((time.monotonic() - self._started) * 1000, 3),
                "transaction": self.transaction,
            }
        )
        rows = b"],[".join(self._rows)
        return head[:-1] + b',"rows":[' + (b"[" + rows + b"]" if self._rows else b"") + b"]," + tail[1:]
