"""The client side of protocol 3 without I/O: frontend messages as bytes, backend bytes as frames.

    stream.receive_data(data)       appends bytes
    stream.next_frame()             the next Frame, None if it is incomplete

A frame keeps its original bytes, including the header: a proxy passes them on, and reads only the few that matter to
it. DataRow and CopyData, which may be millions and large, are *bulk*: one frame is then a run of whole messages and
pieces of messages, so that memory does not grow with them. `at_boundary` says whether the returned bytes end at the end
of a message. PostgreSQL 16 manual, 55.7.

    kind          the message's first byte; `D` and `d` for runs of them
    data          one whole message; of a run: any number of bytes

Limits: a message that is not bulk has at most CONTROL_LIMIT bytes; a length below 4 is a violation (08P01).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from catalog.errors import SqlError
from wire import core

CONTROL_LIMIT = 16 << 20  # bytes; enough for a ParameterDescription of 65535 types and a long notice
BACKEND_BULK = frozenset(b"Dd")
FRONTEND_BULK = frozenset(b"d")
_LENGTH = struct.Struct(">i").unpack_from


class Frame(NamedTuple):
    kind: int
    data: bytes

    @property
    def body(self) -> bytes:
        """The bytes after the header; not for bulk frames."""
        return self.data[5:]


class FrameStream:
    """The output of one side, divided into frames. Raises SqlError (08P01, FATAL) for invalid messages.

    `bulk` are the kinds that come in runs, `limit` is the size in bytes of the others.
    """

    __slots__ = ("_buffer", "_bulk_kinds", "_kind", "_limit", "_position", "_rest")

    def __init__(self, bulk: frozenset[int] = BACKEND_BULK, limit: int = CONTROL_LIMIT) -> None:
        self._bulk_kinds = bulk
        self._limit = limit
        self._buffer = b""
        self._position = 0
        self._kind = 0  # of the bulk message that is incomplete
        self._rest = 0  # remaining bytes of it

    def receive_data(self, data: bytes) -> None:
        """Appends bytes."""
        if self._position >= len(self._buffer):
            self._buffer = data
        else:
            self._buffer = self._buffer[self._position :] + data
        self._position = 0

    @property
    def buffered_bytes(self) -> int:
        """Bytes received and not yet returned."""
        return len(self._buffer) - self._position

    @property
    def at_boundary(self) -> bool:
        """Whether no message has been returned in part."""
        return self._rest == 0

    def take_rest(self) -> bytes:
        """Everything that is buffered, unchanged."""
        data, self._buffer, self._position = self._buffer[self._position :], b"", 0
        return data

    def next_frame(self) -> Frame | None:
        """The next message, or run of bulk messages of one kind."""
        buffer, start = self._buffer, self._position
        size = len(buffer)
        if start >= size:
            return None
        kind = self._kind if self._rest else buffer[start]
        if kind in self._bulk_kinds:
            return self._bulk(kind, start)
        if size - start < 5:
            return None
        length = _LENGTH(buffer, start + 1)[0]
        if not 4 <= length <= self._limit:
            raise protocol_error(f"invalid length {length} of message type 0x{kind:02X}")
        end = start + 1 + length
        if end > size:
            return None
        self._position = end
        return Frame(kind, buffer[start:end])

    def _bulk(self, kind: int, start: int) -> Frame | None:
        """A run: the rest of the current message, further messages of the same kind, and the beginning of the last."""
        buffer, size = self._buffer, len(self._buffer)
        position = start + self._rest
        while position + 5 <= size and buffer[position] == kind:
            length = _LENGTH(buffer, position + 1)[0]
            if length < 4:
                raise protocol_error(f"invalid length {length} of message type 0x{kind:02X}")
            position += 1 + length
        self._kind = kind
        end = min(position, size)
        self._rest = position - end
        self._position = end
        return Frame(kind, buffer[start:end]) if end > start else None


def protocol_error(message: str) -> SqlError:
    """The error (08P01, FATAL) for another side that violates the protocol."""
    return SqlError("08P01", message, severity="FATAL")


# --- frontend messages -----------------------------------------------------------------------------------------------

SYNC = b"S\0\0\0\x04"
FLUSH = b"H\0\0\0\x04"
TERMINATE = b"X\0\0\0\x04"
COPY_DONE = b"c\0\0\0\x04"
SSL_REQUEST = struct.pack(">ii", 8, core.SSL_REQUEST)


def message(kind: bytes, body: bytes) -> bytes:
    return kind + (len(body) + 4).to_bytes(4, "big") + body


def startup(parameters: Mapping[str, str], minor: int = 0) -> bytes:
    """StartupMessage; `minor` is the protocol's minor version."""
    body = b"".join(name.encode() + b"\0" + value.encode() + b"\0" for name, value in parameters.items()) + b"\0"
    return struct.pack(">ii", len(body) + 8, core.PROTOCOL_3_0 | minor) + body


def cancel_request(process_id: int, secret: bytes) -> bytes:
    return struct.pack(">iii", 12 + len(secret), core.CANCEL_REQUEST, process_id) + secret


def query(sql: bytes) -> bytes:
    return message(b"Q", sql + b"\0")


def parse(name: bytes, sql: bytes, types: Sequence[int] = ()) -> bytes:
    return message(b"P", name + b"\0" + sql + b"\0" + struct.pack(f">H{len(types)}I", len(types), *types))


def bind(
    portal: bytes,
    statement: bytes,
    parameters: Sequence[bytes | None],
    parameter_formats: Sequence[int] = (),
    result_formats: Sequence[int] = (),
) -> bytes:
    parts = [portal, b"\0", statement, b"\0", _codes(parameter_formats), len(parameters).to_bytes(2, "big")]
    for value in parameters:
        if value is None:
            parts.append(b"\xff\xff\xff\xff")
        else:
            parts.append(len(value).to_bytes(4, "big"))
            parts.append(value)
    parts.append(_codes(result_formats))
    return message(b"B", b"".join(parts))


def _codes(formats: Sequence[int]) -> bytes:
    return struct.pack(f">H{len(formats)}H", len(formats), *formats)


def describe(kind: str, name: bytes) -> bytes:
    return message(b"D", kind.encode() + name + b"\0")


def execute(portal: bytes, limit: int = 0) -> bytes:
    return message(b"E", portal + b"\0" + struct.pack(">i", limit))


def close(kind: str, name: bytes) -> bytes:
    return message(b"C", kind.encode() + name + b"\0")


def copy_data(data: bytes) -> bytes:
    return message(b"d", data)


def copy_fail(reason: str) -> bytes:
    return message(b"f", reason.encode() + b"\0")


def encode_event(event: core.Event) -> bytes:
    """Encodes an event of the protocol core as its message. ValueError for an event of the start-up."""
    match event:
        case core.Query(sql=sql):
            return query(sql)
        case core.Parse(name=name, sql=sql, types=types):
            return parse(name, sql, types)
        case core.Bind():
            return bind(event.portal, event.statement, event.parameters, event.parameter_formats, event.result_formats)
        case core.Describe(kind=kind, name=name):
            return describe(kind, name)
        case core.Execute(portal=portal, limit=limit):
            return execute(portal, limit)
        case core.Close(kind=kind, name=name):
            return close(kind, name)
        case core.Sync():
            return SYNC
        case core.Flush():
            return FLUSH
        case core.CopyData(data=data):
            return copy_data(data)
        case core.CopyDone():
            return COPY_DONE
        case core.CopyFail(reason=reason):
            return copy_fail(reason)
    raise ValueError(f"{type(event).__name__} is not carried")


# --- content of backend messages --------------------------------------------------------------------------------------


def report_fields(body: bytes) -> dict[str, str]:
    """The fields of an ErrorResponse or NoticeResponse by their codes (55.8)."""
    return {part[:1].decode(): part[1:].decode(errors="replace") for part in body.split(b"\0") if part}


def report_error(body: bytes) -> SqlError:
    """An ErrorResponse as the error that it reports."""
    found = report_fields(body)
    position = found.get("P") or found.get("p", "")
    return SqlError(
        found.get("C", "XX000"),
        found.get("M", ""),
        detail=found.get("D"),
        hint=found.get("H"),
        position=int(position) if position.isdigit() else None,
        context=found.get("W"),
        schema=found.get("s"),
        table=found.get("t"),
        column=found.get("c"),
        data_type=found.get("d"),
        constraint=found.get("n"),
        severity=found.get("V", found.get("S", "ERROR")),
        routine=found.get("R"),
        internal_query=found.get("q"),
    )


def strings(body: bytes) -> list[str]:
    """The zero-ended strings of which a message consists: ParameterStatus, CommandComplete."""
    return [part.decode(errors="replace") for part in body.split(b"\0")[:-1]]


class Column(NamedTuple):
    """A field of a RowDescription."""

    name: str
    type_oid: int
    typmod: int
    format: int


_FIELD = struct.Struct(">IhIhih")


def row_description(body: bytes) -> list[Column]:
    columns = []
    position = 2
    for _ in range(int.from_bytes(body[:2], "big")):
        end = body.index(b"\0", position)
        _, _, oid, _, typmod, code = _FIELD.unpack_from(body, end + 1)
        columns.append(Column(body[position:end].decode(), oid, typmod, code))
        position = end + 1 + _FIELD.size
    return columns


def parameter_types(body: bytes) -> tuple[int, ...]:
    """Type OIDs of a ParameterDescription."""
    return struct.unpack_from(f">{int.from_bytes(body[:2], 'big')}I", body, 2)


class RowReader:
    """Values of the DataRow messages in bulk frames; a message may be cut anywhere between two frames.

    Raises SqlError (54000) for a row of more than `limit` bytes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left = b""

    def rows(self, data: bytes) -> Iterable[list[bytes | None]]:
        """The rows that end in this piece."""
        buffer = self._left + data
        position = 0
        while len(buffer) - position >= 5:
            length = _LENGTH(buffer, position + 1)[0]
            if length > self._limit:
                raise SqlError("54000", f"a row has {length} bytes, more than the limit of {self._limit}")
            end = position + 1 + length
            if end > len(buffer):
                break
            yield _values(buffer, position + 5)
            position = end
        self._left = buffer[position:]


def _values(buffer: bytes, position: int) -> list[bytes | None]:
    count = int.from_bytes(buffer[position : position + 2], "big")
    position += 2
    values: list[bytes | None] = []
    for _ in range(count):
        length = _LENGTH(buffer, position)[0]
        position += 4
        if length < 0:
            values.append(None)
        else:
            values.append(buffer[position : position + length])
            position += length
    return values
