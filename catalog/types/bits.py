"""bit(n) and varbit(n). Internal form `str`: the bits as 0 and 1, which has the order of bit strings."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any, cast

from catalog.errors import SqlError
from catalog.long_numbers import int_of
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, Columns, FormatSettings, Layout, SqlType, Storage

_LENGTH = struct.Struct(">i")
_MOST = 83886080  # bits: 8 * MaxAttrSize
_ENCODE = cast(Callable[[object], object], str.encode)
_NOT_BINARY, _NOT_HEXADECIMAL = re.compile("[^01]"), re.compile("[^0-9a-fA-F]")


def read_bits(text: str) -> str:
    """Reads '101', 'b101' or 'x5'. Raises 22P02 for another digit."""
    body = text[1:] if text[:1] in ("b", "B", "x", "X") and text else text
    if text[:1] in ("x", "X"):
        wrong = _NOT_HEXADECIMAL.search(body)
        if wrong is not None:
            raise SqlError("22P02", f'"{wrong[0]}" is not a valid hexadecimal digit')
        return "".join(f"{int(digit, 16):04b}" for digit in body)
    wrong = _NOT_BINARY.search(body)
    if wrong is not None:
        raise SqlError("22P02", f'"{wrong[0]}" is not a valid binary digit')
    return body


def pack_bits(bits: str) -> bytes:
    """Packs eight bits into each byte, the first bit highest, with zeros at the end."""
    size = -(-len(bits) // 8)
    return int(bits.ljust(size * 8, "0"), 2).to_bytes(size, "big") if bits else b""


def unpack_bits(data: bytes, length: int) -> str:
    return f"{int.from_bytes(data, 'big'):0{8 * len(data)}b}"[:length] if length else ""


class BitType(SqlType):
    """Both types; `varying` is varbit."""

    category = "V"
    preferred = False
    length = -1
    storage = Storage(None, _ENCODE, lambda data: bytes(cast(bytes, data)).decode())
    columns = Columns(layout=Layout.TEXT, printed=True)

    def __init__(self, oid: int, array_oid: int, name: str, sql_name: str, varying: bool) -> None:
        self.oid = oid
        self.array_oid = array_oid
        self.name = name
        self.sql_name = sql_name
        self.varying = varying
        self.preferred = varying

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        fit = self.length_coercion(typmod, False)
        return read_bits if fit is None else lambda text: fit(read_bits(text))

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[object], bytes]:
        return cast(Callable[[object], bytes], _ENCODE)

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        fit = self.length_coercion(typmod, False)

        def decode(data: bytes) -> object:
            if len(data) < 4:
                raise SqlError("08P01", "insufficient data left in message")
            (length,) = _LENGTH.unpack_from(data)
            if length < 0 or len(data) != 4 + -(-length // 8):
                raise SqlError("22P03", "invalid length in external bit string")
            bits = unpack_bits(data[4:], length)
            return bits if fit is None else fit(bits)

        return decode

    def binary_encoder(self) -> Callable[[Any], bytes]:
        return lambda value: _LENGTH.pack(len(value)) + pack_bits(value)

    def typmod_in(self, arguments: tuple[str, ...]) -> int:
        if len(arguments) != 1:
            raise SqlError("22023", "invalid type modifier")
        length = int_of(arguments[0])
        name = "varbit" if self.varying else "bit"
        if length < 1:
            raise SqlError("22023", f"length for type {name} must be at least 1")
        if length > _MOST:
            raise SqlError("22023", f"length for type {name} cannot exceed {_MOST}")
        return length

    def typmod_out(self, typmod: int) -> str:
        return f"({typmod})" if typmod >= 0 else ""

    def length_coercion(self, typmod: int, explicit: bool) -> Callable[[Any], object] | None:
        if typmod <= 0:
            return None

        def varying(value: str) -> str:
            if len(value) > typmod and not explicit:
                raise SqlError("22001", f"bit string too long for type bit varying({typmod})")
            return value[:typmod]

        def exact(value: str) -> str:
            if len(value) != typmod and not explicit:
                raise SqlError("22026", f"bit string length {len(value)} does not match type bit({typmod})")
            return value[:typmod].ljust(typmod, "0")

        return varying if self.varying else exact

    def key_encoder(self) -> Callable[[Any], bytes]:
        return lambda value: value.encode() + b"\0"

    def duckdb_type(self, typmod: int = -1) -> str:
        return "VARCHAR"


BIT = BitType(oids.BIT, oids.BIT_ARRAY, "bit", "bit", False)
VARBIT = BitType(oids.VARBIT, oids.VARBIT_ARRAY, "varbit", "bit varying", True)
