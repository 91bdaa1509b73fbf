"""Connections whose client uses another encoding than UTF8 (PostgreSQL 16 manual, 24.3.3).

The rest of the server does not depend on it: input is converted to UTF-8 when it leaves the protocol core, and output
is converted when it is added to the buffer. Such a connection has a `ClientEncoding`, so others have no extra cost; it
processes messages one by one, without the steps that process several at once.

    from the client      the texts of Query, Parse and FunctionCall; of Bind, text parameters, and in binary those of
                         text types; data of COPY
    to the client        names in RowDescription; of DataRow, text values, and in binary those of text types; errors and
                         notices, notifications, settings, data of COPY

A character that the client's encoding lacks is an error of its row (22P05), and ends the statement. A statement that
changes rows outside a transaction block and returns such a character has been committed by then. Binary values that
contain texts (arrays, composite values) are sent only if they are ASCII. Binary COPY is converted value by value where
it is made and read (engine/statements/copy.py), so its data are not converted here.
"""

from __future__ import annotations

import codecs
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from catalog.binary_texts import Turn, binary_turn
from catalog.encodings import Encoding
from catalog.errors import SqlError, not_supported
from engine.session.prepared import Prepared
from engine.session.session import Session
from engine.statements import extended
from wire import core, messages
from wire.copy_feed import CopyFeed, Pausable

_HEAD = struct.Struct(">cI")
_COUNT = struct.Struct(">H")
_LENGTH = struct.Struct(">i")
_COLUMN = struct.Struct(">IHIhih")  # the rest of a column in RowDescription after its name


class EncodedConnection(Pausable, Protocol):
    """The interface of the connection that is needed here. Its handlers get messages in UTF-8."""

    session: Session | None

    @property
    def extended(self) -> bool:
        """Whether it is in the extended protocol."""

    def take_query(self, event: core.Query) -> None: ...
    def take_parse(self, event: core.Parse) -> None: ...
    def take_bind(self, event: core.Bind) -> None:
        """Bind alone, without what follows it."""

    def take_large_bind(self, event: core.LargeBind) -> None: ...
    def take_execute(self, event: core.Execute) -> None: ...
    def take_function_call(self, event: core.FunctionCall) -> None: ...


class TurnedQuery(core.Query):
    """A query in UTF-8, which may run again after a lock is granted."""

    __slots__ = ()


class EncodedOut(list[bytes]):
    """The output buffer; bytes are encoded when they are appended."""

    def __init__(self, encoding: ClientEncoding) -> None:
        super().__init__()
        self._encoding = encoding

    def append(self, data: bytes) -> None:
        """Raises 22P05; earlier rows are kept."""
        for kind, body in _split(data):
            super().append(messages.message(kind, self._encoding.encode_body(kind, body)))


class EncodedFeed(CopyFeed):
    """COPY data in another encoding; the end of a message may split a character."""

    def __init__(self, connection: Pausable, encoding: Encoding) -> None:
        super().__init__(connection)
        self._encoding = encoding
        self._find_end = codecs.getincrementaldecoder(encoding.codec)
        self._rest = b""

    def put(self, data: bytes) -> None:
        data = self._rest + data
        decoder = self._find_end("replace")
        decoder.decode(data)
        self._rest = decoder.getstate()[0]
        whole = data[: len(data) - len(self._rest)]
        if whole:
            try:
                super().put(self._encoding.decode(whole).encode())
            except SqlError as error:
                super().end(error)

    def end(self, error: SqlError | None = None) -> None:
        if error is None and self._rest:
            try:
                super().put(self._encoding.decode(self._rest).encode())
            except SqlError as wrong:
                error = wrong
        super().end(error)


class ClientEncoding:
    """The encoding of one connection. `copies_texts`: outgoing COPY data is text."""

    def __init__(self, connection: EncodedConnection, encoding: Encoding) -> None:
        self._connection = connection
        self.encoding = encoding
        self.copies_texts = True
        self._columns: Sequence[Turn | None] | None = None  # of the next rows; None: all of them are text

    def handlers(self) -> dict[type, Callable[[Any], None]]:
        """Handlers of messages whose texts must be converted."""
        return {
            core.Query: self._on_query,
            TurnedQuery: self._connection.take_query,
            core.Parse: self._on_parse,
            core.Bind: self._on_bind,
            core.LargeBind: self._on_large_bind,
            core.Execute: self._on_execute,
            core.FunctionCall: self._on_function_call,
        }

    # ---- from the client --------------------------------------------------------------------------------------------

    def _to_server(self, data: bytes) -> bytes:
        return data if data.isascii() and self.encoding.width == 1 else self.encoding.decode(data).encode()

    def _on_query(self, event: core.Query) -> None:
        self._columns = None
        self._connection.take_query(TurnedQuery(self._to_server(event.sql)))

    def _on_parse(self, event: core.Parse) -> None:
        self._connection.take_parse(core.Parse(event.name, self._to_server(event.sql), event.types))

    def _on_bind(self, event: core.Bind) -> None:
        self._turn(event)
        self._connection.take_bind(event)

    def _on_large_bind(self, event: core.LargeBind) -> None:
        self._turn(event)
        self._connection.take_large_bind(event)

    def _turn(self, event: core.Bind) -> None:
        session = self._connection.session
        assert session is not None
        types = extended.get_prepared(session, event.statement).parameters.types
        if len(types) == len(event.parameters):
            formats = _each(event.parameter_formats, len(types))
            event.parameters = [
                None if value is None else self._parameter(value, oid, code)
                for value, oid, code in zip(event.parameters, types, formats, strict=True)
            ]

    def _parameter(self, value: bytes, oid: int, code: int) -> bytes:
        turn = self._to_server if code == 0 else binary_turn(oid, self._to_server)
        return value if turn is None else turn(value)

    def _on_function_call(self, event: core.FunctionCall) -> None:
        if any(value is not None and not value.isascii() for value in event.arguments) or event.result_format == 0:
            not_supported("function calls by OID with another client encoding than UTF8")
        self._connection.take_function_call(event)

    def feed(self, binary: bool) -> CopyFeed:
        """The feed of COPY data from the client."""
        return CopyFeed(self._connection) if binary else EncodedFeed(self._connection, self.encoding)

    # ---- to the client ----------------------------------------------------------------------------------------------

    def _on_execute(self, event: core.Execute) -> None:
        assert self._connection.session is not None
        portal = self._connection.session.portals.get_portal(event.portal)
        self._columns = self._turns(portal.prepared, portal.formats)
        self._connection.take_execute(event)

    def _turns(self, prepared: Prepared, formats: Sequence[int]) -> Sequence[Turn | None] | None:
        if prepared.fields is None or not any(formats):
            return None
        return [
            self._to_client if code == 0 else binary_turn(item.type.oid, self._to_client)
            for item, code in zip(prepared.fields, _each(formats, len(prepared.fields)), strict=True)
        ]

    def _to_client(self, data: bytes) -> bytes:
        return data if data.isascii() and self.encoding.width == 1 else self.encoding.encode(data.decode())

    def _encode_answer(self, data: bytes) -> bytes:
        return self.encoding.encode_for_showing(data.decode())

    def encode_body(self, kind: bytes, body: bytes) -> bytes:
        """The body of one message. Raises 22P05."""
        if kind == b"D":
            return self._row(body)
        if kind == b"d":
            return self._to_client(body) if self.copies_texts else body
        if kind == b"T":
            return self._description(body)
        if kind in b"ENS":
            return b"\0".join(map(self._encode_answer, body.split(b"\0")))
        if kind == b"A":
            return body[:4] + self._encode_answer(body[4:])
        return body

    def _row(self, body: bytes) -> bytes:
        (count,) = _COUNT.unpack_from(body)
        turns = self._columns
        parts, position = [body[:2]], 2
        for number in range(count):
            (length,) = _LENGTH.unpack_from(body, position)
            position += 4
            if length < 0:
                parts.append(b"\xff\xff\xff\xff")
                continue
            value = body[position : position + length]
            position += length
            turn = self._to_client if turns is None else turns[number]
            if turn is not None:
                value = turn(value)
            parts += (_LENGTH.pack(len(value)), value)
        return b"".join(parts)

    def _description(self, body: bytes) -> bytes:
        """RowDescription; for a simple query it determines the formats of the rows."""
        (count,) = _COUNT.unpack_from(body)
        parts, position = [body[:2]], 2
        turns: list[Turn | None] = []
        for _ in range(count):
            end = body.index(b"\0", position)
            parts += (self._encode_answer(body[position:end]), body[end : end + 1 + _COLUMN.size])
            _, _, oid, _, _, code = _COLUMN.unpack_from(body, end + 1)
            turns.append(self._to_client if code == 0 else binary_turn(oid, self._to_client))
            position = end + 1 + _COLUMN.size
        if not self._connection.extended:
            self._columns = turns
        return b"".join(parts)


def _each(formats: Sequence[int], count: int) -> Sequence[int]:
    """Format codes as sent, one for each value."""
    if not formats:
        return (0,) * count
    return (formats[0],) * count if len(formats) == 1 else formats


def _split(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    position = 0
    while position < len(data):
        kind, length = _HEAD.unpack_from(data, position)
        yield kind, data[position + 5 : position + 1 + length]
        position += 1 + length
