"""Backend messages: functions that return the bytes of each (PostgreSQL 16 manual, 55.7).

DataRow and CopyData are not here: results arrive from the engine in whole batches, already framed
(engine/execute/encode.py, engine/columnar/datarow.py).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from catalog.errors import SqlError
from catalog.types import type_row
from catalog.types.user import sent_oid
from engine.execute.context import Field

_I32 = struct.Struct(">i")
_HEAD = struct.Struct(">ci")
_FIELD = struct.Struct(">IhIhih")
_KEY = struct.Struct(">ii")

AUTHENTICATION_OK = b"R\0\0\0\x08\0\0\0\0"
PARSE_COMPLETE = b"1\0\0\0\x04"
BIND_COMPLETE = b"2\0\0\0\x04"
CLOSE_COMPLETE = b"3\0\0\0\x04"
NO_DATA = b"n\0\0\0\x04"
PORTAL_SUSPENDED = b"s\0\0\0\x04"
EMPTY_QUERY = b"I\0\0\0\x04"
COPY_DONE = b"c\0\0\0\x04"
SASL_FINAL, SASL_CONTINUE = 12, 11
READY = {status: b"Z\0\0\0\x05" + status.encode() for status in "ITE"}
SSL_REFUSED = b"N"
SSL_ACCEPTED = b"S"


def message(kind: bytes, body: bytes) -> bytes:
    """A message: type, length (which counts itself), body."""
    return _HEAD.pack(kind, len(body) + 4) + body


def text(value: str) -> bytes:
    """A protocol string: UTF-8, ended by a zero byte."""
    return value.encode() + b"\0"


def authentication_sasl(mechanism: str) -> bytes:
    """AuthenticationSASL with one mechanism."""
    return message(b"R", _I32.pack(10) + text(mechanism) + b"\0")


def authentication_step(code: int, data: bytes) -> bytes:
    """AuthenticationSASLContinue or AuthenticationSASLFinal."""
    return message(b"R", _I32.pack(code) + data)


def parameter_status(name: str, value: str) -> bytes:
    return message(b"S", text(name) + text(value))


def negotiate_version(newest_minor: int, unknown_options: Sequence[str]) -> bytes:
    """NegotiateProtocolVersion: the supported version, and the unknown _pq_. options. The manual calls the first field
    a minor version; servers send the whole version, and clients expect that."""
    body = _KEY.pack(3 << 16 | newest_minor, len(unknown_options)) + b"".join(map(text, unknown_options))
    return message(b"v", body)


def command_complete(tag: str) -> bytes:
    return message(b"C", text(tag))


def row_description(fields: Sequence[Field], formats: Sequence[int]) -> bytes:
    """RowDescription; `formats` has one code per field."""
    parts = [struct.pack(">h", len(fields))]
    for field, code in zip(fields, formats, strict=True):
        oid = sent_oid(field.type)
        row = type_row(oid)
        size = row.length if row is not None else -1
        parts.append(text(field.name))
        parts.append(_FIELD.pack(field.table, field.column, oid, size, field.type.typmod, code))
    return message(b"T", b"".join(parts))


def parameter_description(types: Sequence[int]) -> bytes:
    return message(b"t", struct.pack(f">H{len(types)}I", len(types), *types))


def copy_response(direction: str, columns: int, binary: bool) -> bytes:
    """CopyInResponse ('in') or CopyOutResponse ('out'); every column has the format of the whole."""
    kind = b"G" if direction == "in" else b"H"
    return message(kind, struct.pack(f">bh{columns}h", binary, columns, *([int(binary)] * columns)))


def function_result(value: bytes | None) -> bytes:
    """FunctionCallResponse."""
    return message(b"V", b"\xff\xff\xff\xff" if value is None else _I32.pack(len(value)) + value)


def _report(kind: bytes, fields: Mapping[str, str | None]) -> bytes:
    parts = [code.encode() + text(value) for code, value in fields.items() if value is not None]
    return message(kind, b"".join(parts) + b"\0")


def error_response(error: SqlError, severity: str | None = None) -> bytes:
    """ErrorResponse with every field that the error has (PostgreSQL 16 manual, 55.8)."""
    level = severity or error.severity
    return _report(b"E", _error_fields(error, level))


def notice_response(notice: SqlError) -> bytes:
    return _report(b"N", _error_fields(notice, notice.severity))


def _error_fields(error: SqlError, level: str) -> dict[str, str | None]:
    return {
        "S": level,
        "V": level,
        "C": error.sqlstate,
        "M": error.message,
        "D": error.detail,
        "H": error.hint,
        "P": None if error.client_position is None else str(error.client_position),
        "p": None if error.position is None or error.internal_query is None else str(error.position),
        "q": error.internal_query,
        "W": error.context,
        "s": error.schema,
        "t": error.table,
        "c": error.column,
        "d": error.data_type,
        "n": error.constraint,
        "R": error.routine,
    }


def notification(process_id: int, channel: str, payload: str) -> bytes:
    return message(b"A", _I32.pack(process_id) + text(channel) + text(payload))
