"""SQL over HTTP: `POST /sql`, one statement a request, the answer as JSON.

    request     {"sql": "SELECT ...", "parameters": [...], "database": "...", "user": "..."}   (application/json)
                or the statement itself (text/plain); database and user default to postgres
    answer      {"columns": [{"name": "a", "type": "int4"}], "rows": [[1]], "command": "SELECT 1", "rowcount": 1}
    error       {"error": {"severity", "sqlstate", "message", "detail", "hint", "position"}}, null for missing fields

A statement is a transaction of its own. `columns` and `rows` are empty for one that returns no rows.

Values: bool is true or false; int2, int4, oid are numbers; int8 is a number up to 2^53 - 1 in size and a string beyond;
float4 and float8 are numbers, and the strings "NaN", "Infinity", "-Infinity"; json and jsonb are embedded unchanged.
All other types are strings in PostgreSQL's text form, including numeric (JSON's numbers keep neither its digits nor its
scale). NULL is null.

Parameters: null, numbers, booleans and strings are read by the parameter's type (a string for json is JSON's text). A
list is an array for a parameter of an array type; other lists and objects are JSON. Numbers keep all digits.

Status: 200; 400 for errors of the statement or the request, 403 (28..., 42501, and see below), 404 (3D000), 409 (23...,
40..., 55P03), 413 (too large), 500 (XX..., and all others), 501 (0A000), 503 (08..., 53..., 57...), 504 (57014).

Large results are streamed at the client's speed; at most HELD bytes are in memory. The status is sent with the first
bytes. So an error after HELD bytes of rows is at the end of the answer, as the last member "error" of the object, after
"rows", with status 200.

Limits: a request has at most REQUEST_LIMIT bytes, a row ROW_LIMIT, `concurrency` requests run at a time (503, 53300
beyond). If a client disconnects, its statement is cancelled.

It takes no passwords, so it accepts only this machine. Web pages in a browser on this machine are refused too: a
request with an Origin, or for another host name than this machine's, gets 403.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from typing import NoReturn

import orjson
from aiohttp import web

from catalog.errors import SqlError
from wire import client_core
from wire.client import ClientConnection, ConnectionLostError
from wire.client_core import Frame, RowReader
from wire.json_values import Encoder, column_of, encoder_of, parameter_text, protocol_text, report_of, status_of
from wire.roster import Roster
from wire.server import is_loopback

REQUEST_LIMIT = 16 << 20
ROW_LIMIT = 64 << 20
HELD = 256 << 10
PIECE = 64 << 10  # bytes of rows that are sent together
CONCURRENCY = 100

OpenConnection = Callable[[str, str], Awaitable[ClientConnection]]


class SqlOverHttp:
    """The handler of `POST /sql`. `open_connection` returns a connection for a user and a database."""

    def __init__(self, open_connection: OpenConnection, *, concurrency: int = CONCURRENCY) -> None:
        self._open_connection = open_connection
        self._free = concurrency

    def application(self) -> web.Application:
        """The application with the one route; a host may add its own."""
        application = web.Application(client_max_size=REQUEST_LIMIT, middlewares=[_own_machine_only])
        application.router.add_post("/sql", self.answer)
        return application

    async def answer(self, request: web.Request) -> web.StreamResponse:
        try:
            sql, parameters, user, database = await _read_request(request)
        except SqlError as error:
            return _refusal(error)
        except web.HTTPRequestEntityTooLarge:
            return _refusal(SqlError("54000", f"the request has more than {REQUEST_LIMIT} bytes"))
        if self._free == 0:
            return _refusal(SqlError("53300", "sorry, too many requests already"))
        self._free -= 1
        try:
            return await self._run(request, sql, parameters, user, database)
        finally:
            self._free += 1

    async def _run(
        self, request: web.Request, sql: str, parameters: Sequence[object], user: str, database: str
    ) -> web.StreamResponse:
        try:
            connection = await self._open_connection(user, database)
        except SqlError as error:
            return _refusal(error)
        except ConnectionLostError as error:
            return _refusal(SqlError("57P03", str(error)))
        execution = _Execution(connection, request)
        ended = False
        try:
            response = await execution.run(sql, parameters)
            ended = True
            return response
        finally:
            if ended:
                connection.close()
            else:  # the client has disconnected: its result is not needed
                await asyncio.shield(connection.cancel())
                connection.abort()


def health_of(roster: Roster) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """The handler of `GET /health`: the nodes that a router knows; 503 if none of them answers."""

    async def answer(request: web.Request) -> web.StreamResponse:
        nodes = [
            {"node": node.node, "host": node.host, "port": node.port, "load": node.load, "answers": health.answers}
            | {"connections": health.connections, "reason": "" if health.answers else health.why}
            for node in roster.directory.nodes.values()
            for health in (roster.health(node.node),)
        ]
        status = 200 if any(node["answers"] for node in nodes) else 503
        body = orjson.dumps({"stale": roster.directory.stale, "nodes": nodes})
        return web.Response(body=body, status=status, content_type="application/json")

    return answer


class _Execution:
    """One statement on its connection, and its answer."""

    def __init__(self, connection: ClientConnection, request: web.Request) -> None:
        self._connection = connection
        self._request = request
        self._response: web.StreamResponse | None = None
        self._out = bytearray()
        self._rows = 0

    async def run(self, sql: str, parameters: Sequence[object]) -> web.StreamResponse:
        try:
            command = await self._execute(sql, parameters)
        except SqlError as error:
            return await self._send_error(error)
        except ConnectionLostError as error:
            message = "the connection to the node broke, and the outcome of the statement is unknown"
            return await self._send_error(SqlError("08007", message, detail=str(error)))
        rowcount = command.rpartition(" ")[2]
        tail = {"command": command, "rowcount": int(rowcount) if rowcount.isdigit() else self._rows}
        self._out += b"]," + orjson.dumps(tail)[1:]
        return await self._end()

    async def _execute(self, sql: str, parameters: Sequence[object]) -> str:
        """Runs it; its rows are in `_out`, or sent. Returns the command tag ('' for an empty statement)."""
        connection = self._connection
        connection.send(client_core.parse(b"", protocol_text(sql)) + client_core.describe("S", b"") + client_core.FLUSH)
        types = client_core.parameter_types((await self._until(b"t")).body)
        described = await self._until(b"Tn")
        columns = client_core.row_description(described.body) if described.kind == 0x54 else []
        if len(types) != len(parameters):
            raise SqlError("08P01", f"the statement has {len(types)} parameters, the request {len(parameters)}")
        values = [parameter_text(value, oid) for value, oid in zip(parameters, types, strict=True)]
        connection.send(client_core.bind(b"", b"", values) + client_core.execute(b"") + client_core.SYNC)
        self._out += b'{"columns":' + orjson.dumps([column_of(column) for column in columns]) + b',"rows":['
        return await self._take_rows([encoder_of(column.type_oid) for column in columns])

    async def _until(self, kinds: bytes) -> Frame:
        while True:
            frame = await self._connection.receive()
            if frame.kind == 0x45:
                raise client_core.report_error(frame.body)
            if frame.kind in kinds:
                return frame

    async def _take_rows(self, encoders: Sequence[Encoder]) -> str:
        reader = RowReader(ROW_LIMIT)
        command = ""
        while True:
            frame = await self._connection.receive()
            kind = frame.kind
            if kind == 0x44:
                await self._add_rows(reader, frame.data, encoders)
            elif kind == 0x43:
                command = client_core.strings(frame.body)[0]
            elif kind == 0x45:
                raise client_core.report_error(frame.body)
            elif kind in b"GH":
                raise SqlError("0A000", "COPY over HTTP is not supported")
            elif kind == 0x5A:
                return command

    async def _add_rows(self, reader: RowReader, data: bytes, encoders: Sequence[Encoder]) -> None:
        out = self._out
        for row in reader.rows(data):
            out += b",[" if self._rows else b"["
            out += b",".join(
                b"null" if value is None else encode(value) for value, encode in zip(row, encoders, strict=True)
            )
            out += b"]"
            self._rows += 1
        if len(out) >= (HELD if self._response is None else PIECE):
            await self._send()

    async def _send(self) -> None:
        if self._response is None:
            self._response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await self._response.prepare(self._request)
        await self._response.write(bytes(self._out))
        self._out.clear()

    async def _end(self) -> web.StreamResponse:
        if self._response is None:
            return web.Response(body=bytes(self._out), content_type="application/json")
        await self._send()
        await self._response.write_eof()
        return self._response

    async def _send_error(self, error: SqlError) -> web.StreamResponse:
        if self._response is None:
            return _refusal(error)
        self._out += b'],"error":' + orjson.dumps(report_of(error)) + b"}"
        return await self._end()


# --- requests --------------------------------------------------------------------------------------------------------


@web.middleware
async def _own_machine_only(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Prevents web pages in a browser on this machine from reading the database (cross-site requests, and foreign names
    that resolve to this machine)."""
    if "Origin" in request.headers or not asks_this_machine(request):
        return _refusal(SqlError("28000", "requests from web pages, or for another host, are refused"))
    return await handler(request)


def asks_this_machine(request: web.Request) -> bool:
    """Whether a request is for one of this machine's own names, not for a foreign name that resolves to it."""
    host = request.host
    name = host if host.endswith("]") or ":" not in host else host.rpartition(":")[0]
    return is_loopback(name.strip("[]"))


async def _read_request(request: web.Request) -> tuple[str, list[object], str, str]:
    """Statement, parameters, user, database. Raises 22023, 22P02."""
    body = await request.read()
    if request.content_type == "text/plain":
        return _text(body), [], "postgres", "postgres"
    if request.content_type != "application/json":
        raise SqlError("22023", f"the content type {request.content_type} is neither application/json nor text/plain")
    try:
        found = json.loads(body, parse_float=Decimal, parse_constant=_no_constant)  # every digit counts
    except (ValueError, RecursionError) as error:
        raise SqlError("22P02", f"the request is not JSON: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get("sql"), str):
        raise SqlError("22023", 'the request is not an object with the string "sql"')
    unknown = found.keys() - {"sql", "parameters", "database", "user"}
    if unknown:
        raise SqlError("22023", f'the request has an unknown member "{min(unknown)}"')
    parameters = found.get("parameters", [])
    user, database = found.get("user", "postgres"), found.get("database", "postgres")
    if not isinstance(parameters, list) or not isinstance(user, str) or not isinstance(database, str):
        raise SqlError("22023", '"parameters" must be a list, "user" and "database" strings')
    if "\0" in user + database:
        raise SqlError("22021", 'invalid byte sequence for encoding "UTF8": 0x00')
    return found["sql"], parameters, user, database


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise SqlError("22021", "the request is not UTF-8") from None


# --- answers ---------------------------------------------------------------------------------------------------------


def _refusal(error: SqlError) -> web.Response:
    return web.Response(
        body=orjson.dumps({"error": report_of(error)}), status=status_of(error), content_type="application/json"
    )
