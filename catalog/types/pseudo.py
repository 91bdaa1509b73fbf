"""void, record and pg_ddl_command, the pseudo-types of results, and two small types: pg_lsn and tid."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any, cast

from catalog.errors import SqlError, not_supported
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, Columns, FormatSettings, Layout, SqlType, Storage
from catalog.types.texts import WHITESPACE, bad_syntax, wrong_length

_LSN = re.compile(r"([0-9a-fA-F]{1,8})/([0-9a-fA-F]{1,8})\Z")


class Void(SqlType):
    """The result of a function without a result. Internal form: the empty string."""

    oid = oids.VOID
    array_oid = 0
    name = "void"
    sql_name = "void"
    category = "P"
    preferred = False
    length = 4
    storage = Storage(None, to_storage=lambda value: b"", from_storage=lambda data: "")

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        return lambda text: ""

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[object], bytes]:
        return lambda value: b""

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        return lambda data: ""

    def binary_encoder(self) -> Callable[[object], bytes]:
        return lambda value: b""

    def duckdb_type(self, typmod: int = -1) -> str:
        return "VARCHAR"


class DdlCommand(Void):
    """A part of a command for an event trigger, for code in C only. Internal form: the empty string."""

    oid = oids.PG_DDL_COMMAND
    name = "pg_ddl_command"
    sql_name = "pg_ddl_command"
    length = 8

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        return _refuse("accept")

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[object], bytes]:
        return _refuse("display")

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        return _refuse("accept")

    def binary_encoder(self) -> Callable[[object], bytes]:
        return _refuse("display")


def _refuse(verb: str) -> Callable[[object], Any]:
    def refuse(value: object) -> object:
        raise SqlError("0A000", f"cannot {verb} a value of type pg_ddl_command")

    return refuse


class PgLsn(SqlType):
    """A position in the log: 64 bits, shown as two hexadecimal halves. Internal form `int`."""

    oid = oids.PG_LSN
    array_oid = oids.PG_LSN_ARRAY
    name = "pg_lsn"
    sql_name = "pg_lsn"
    category = "U"
    preferred = False
    length = 8
    storage = Storage("Q")
    columns = Columns(layout=Layout.NUMBERS, arrow="uint64", digits=False)

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        def decode(text: str) -> object:
            match = _LSN.match(text)
            if match is None:
                raise bad_syntax("pg_lsn", text)
            return int(match[1], 16) << 32 | int(match[2], 16)

        return decode

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[Any], bytes]:
        return lambda value: b"%X/%X" % (value >> 32, value & 0xFFFFFFFF)

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        def decode(data: bytes) -> object:
            if len(data) != 8:
                raise wrong_length(data, 8)
            return int.from_bytes(data, "big")

        return decode

    def binary_encoder(self) -> Callable[[object], bytes]:
        return struct.Struct(">Q").pack

    def key_encoder(self) -> Callable[[object], bytes]:
        return struct.Struct(">Q").pack

    def duckdb_type(self, typmod: int = -1) -> str:
        return "UBIGINT"


_C_NUMBER = rf"((?:[{WHITESPACE}]*[+-]?[0-9]+)?)"  # strtoul() returns 0 for an empty text
_TID = re.compile(rf"[^(,)]*[(,]{_C_NUMBER},{_C_NUMBER}\)")  # the rest is ignored
_TID_LAYOUT = struct.Struct(">IH")
_BLOCK_BYTES, _LONGEST_BLOCK = 14, 34  # bytes; digits
_BEYOND = b"\xff" * 6  # before a tid whose block has more than 32 bits


def _c_number(text: str) -> int:
    """Returns the result of strtoul(), with its sign, for up to 112 bits; a number out of range for longer ones."""
    text = text.strip(WHITESPACE)
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > _LONGEST_BLOCK:
        return -(1 << 63)
    return -int(digits or 0) if text[:1] == "-" else int(digits or 0)


def tid_of(block: int, offset: int) -> bytes:
    """The internal form of a tid."""
    if block < 1 << 32:
        return _TID_LAYOUT.pack(block, offset)
    return _BEYOND + block.to_bytes(_BLOCK_BYTES, "big") + offset.to_bytes(2, "big")


def parts_of_tid(tid: bytes) -> tuple[int, int]:
    """(block, offset)"""
    start = 0 if len(tid) == _TID_LAYOUT.size else len(_BEYOND)
    return int.from_bytes(tid[start:-2], "big"), int.from_bytes(tid[-2:], "big")


def _send_tid(value: Any) -> bytes:
    if len(value) > _TID_LAYOUT.size:
        not_supported("the binary form of a ctid that is a hash")
    return bytes(value)


class Tid(SqlType):
    """The block and the offset of a row. Internal form: `bytes` that have the order of tids. Blocks have up to 112
    bits, since the ctid of a row may be a hash of its key (catalog/functions/system_columns.py)."""

    oid = oids.TID
    array_oid = oids.TID_ARRAY
    name = "tid"
    sql_name = "tid"
    category = "U"
    preferred = False
    length = 6
    storage = Storage(None, from_storage=lambda data: bytes(cast(bytes, data)))
    columns = Columns(layout=Layout.BYTES)

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        def decode(text: str) -> object:
            match = _TID.match(text)
            block, offset = (-1, -1) if match is None else map(_c_number, match.groups())
            if not -(1 << 31) <= block < 1 << 8 * _BLOCK_BYTES or not 0 <= offset < 1 << 16:
                raise bad_syntax("tid", text)
            return tid_of(block & 0xFFFFFFFF if block < 0 else block, offset)

        return decode

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[Any], bytes]:
        return lambda value: b"(%d,%d)" % parts_of_tid(value)

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        def decode(data: bytes) -> object:
            if len(data) != _TID_LAYOUT.size:
                raise wrong_length(data, _TID_LAYOUT.size)
            return bytes(data)

        return decode

    def binary_encoder(self) -> Callable[[Any], bytes]:
        return _send_tid

    def key_encoder(self) -> Callable[[Any], bytes]:
        return cast(Callable[[Any], bytes], bytes)

    def duckdb_type(self, typmod: int = -1) -> str:
        return "BLOB"


_ROW_QUOTED = re.compile(r'[\s"\\(),]', re.ASCII)


def quote_field(text: str) -> str:
    """Returns a field of a row's text: in double quotes if necessary, with inner quotes doubled."""
    if not text or _ROW_QUOTED.search(text):
        return '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'
    return text


class Record(SqlType):
    """A row of an undeclared type, for output only. Its text needs the types of its fields: see
    `record_text_encoder`."""

    oid = oids.RECORD
    array_oid = oids.RECORD_ARRAY
    name = "record"
    sql_name = "record"
    category = "P"
    preferred = False
    length = -1
    storage = Storage(None)

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        def refuse(text: str) -> object:
            not_supported("input of anonymous composite types")

        return refuse

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[object], bytes]:
        not_supported("output of a record without its field types")

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        def refuse(data: bytes) -> object:
            not_supported("input of anonymous composite types")

        return refuse

    def binary_encoder(self) -> Callable[[object], bytes]:
        not_supported("output of a record without its field types")

    def duckdb_type(self, typmod: int = -1) -> str:
        raise SqlError("0A000", "record as a column's type is not supported")


def record_text_encoder(
    fields: tuple[SqlType, ...], settings: FormatSettings = DEFAULT_FORMAT
) -> Callable[[Any], bytes]:
    """Returns the output function of a row with fields of these types: '(1,"a b",)'."""
    encoders = tuple(field.text_encoder(settings) for field in fields)

    def encode(value: Any) -> bytes:
        parts = [
            "" if item is None else quote_field(encode_item(item).decode())
            for encode_item, item in zip(encoders, value, strict=True)
        ]
        return ("(" + ",".join(parts) + ")").encode()

    return encode


def record_binary_encoder(fields: tuple[SqlType, ...], declared: tuple[int, ...] = ()) -> Callable[[Any], bytes]:
    """record_send: sends the number of fields, then each field's type, length (-1 for NULL) and bytes.

    `declared` are the types that are sent, if some are domains.
    """
    told = declared or tuple(field.oid for field in fields)
    encoders = tuple((oid, field.binary_encoder()) for oid, field in zip(told, fields, strict=True))

    def encode(value: Any) -> bytes:
        parts = [struct.pack(">i", len(encoders))]
        for (oid, encode_item), item in zip(encoders, value, strict=True):
            if item is None:
                parts.append(struct.pack(">Ii", oid, -1))
            else:
                data = encode_item(item)
                parts.append(struct.pack(">Ii", oid, len(data)) + data)
        return b"".join(parts)

    return encode
