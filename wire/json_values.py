"""PostgreSQL's values as JSON and back, for SQL over HTTP.

wire/http.py defines the forms: numbers if JSON keeps them exactly, PostgreSQL's text otherwise. Values have their text
format on PostgreSQL's side.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import orjson

from catalog.errors import SqlError
from catalog.types import type_row
from catalog.types.oids import BOOL, FLOATS, INT2, INT4, INT8, JSON_TYPES, OID
from wire.client_core import Column

EXACT = 2**53 - 1

Encoder = Callable[[bytes], bytes]

_NUMBERS = frozenset((INT2, INT4, OID))
_STATUS = {
    "28": 403, "42501": 403, "3D": 404, "23": 409, "40": 409, "55P03": 409, "54": 413, "XX": 500, "58": 500, "0A": 501,
    "08P01": 400, "08": 503, "53": 503, "57": 503, "57014": 504,
}  # fmt: skip


def status_of(error: SqlError) -> int:
    """The HTTP status for an error."""
    return _STATUS.get(error.sqlstate) or _STATUS.get(error.sqlstate[:2], 400)


def protocol_text(text: str) -> bytes:
    """Raises 22021 for texts that PostgreSQL refuses: zero bytes, halves of surrogate pairs."""
    if "\0" in text:
        raise SqlError("22021", 'invalid byte sequence for encoding "UTF8": 0x00')
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise SqlError("22021", f"a string in the request is not Unicode text: {error.reason}") from None


def parameter_text(value: object, oid: int) -> bytes | None:
    """A JSON value in the text form of a parameter's type."""
    if value is None:
        return None
    if isinstance(value, str):
        return protocol_text(value)
    if isinstance(value, list) and _is_array(oid):
        return protocol_text(_array(value))
    return _json(value).encode()


def _json(value: object) -> str:
    """JSON with unchanged numbers."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{_json(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json, value)) + "]"
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


def _is_array(oid: int) -> bool:
    row = type_row(oid)
    return row is not None and row.category == "A"


def _array(value: object) -> str:
    """PostgreSQL's text of an array (8.15.2), every element quoted."""
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return "{" + ",".join(map(_array, value)) + "}"
    plain = value if isinstance(value, str) else _json(value)
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'


def column_of(column: Column) -> dict[str, str]:
    """Name and type of a result's column."""
    row = type_row(column.type_oid)
    return {"name": column.name, "type": str(column.type_oid) if row is None else row.name}


def encoder_of(oid: int) -> Encoder:
    """The function from a type's text form to JSON."""
    if oid == BOOL:
        return lambda value: b"true" if value == b"t" else b"false"
    if oid in _NUMBERS or oid in JSON_TYPES:
        return lambda value: value
    if oid == INT8:
        return lambda value: value if len(value) < 16 or abs(int(value)) <= EXACT else b'"' + value + b'"'
    if oid in FLOATS:
        return lambda value: value if value[-1:].isdigit() else b'"' + value + b'"'
    return lambda value: orjson.dumps(value.decode())


def report_of(error: SqlError) -> dict[str, Any]:
    """An error's fields; those that it lacks are None."""
    return {
        "severity": error.severity,
        "sqlstate": error.sqlstate,
        "message": error.message,
        "detail": error.detail,
        "hint": error.hint,
        "position": error.client_position,
    }
