"""oid, the reg* types, xid, cid and xid8. Internal form `int`; the text is its digits.

The names of the reg* types ('pg_class'::regclass) need the catalog: expressions convert them, not these codecs.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from catalog.errors import SqlError
from catalog.functions import added
from catalog.identifiers import split_name
from catalog.text_search import configurations
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, Columns, FormatSettings, Layout, SqlType, Storage
from catalog.types.texts import bad_syntax, out_of_range, wrong_length

_NUMBER = re.compile(r"[ \t\n\v\f\r]*([+-]?)([0-9]+)([ \t\n\v\f\r]*)(.*)", re.DOTALL)
_XID = re.compile(r"[ \t\n\v\f\r]*([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[0-9]+)")
_REG_TYPES = (
    (oids.REGPROC, oids.REGPROC_ARRAY, "regproc"),
    (oids.REGPROCEDURE, oids.REGPROCEDURE_ARRAY, "regprocedure"),
    (oids.REGOPER, oids.REGOPER_ARRAY, "regoper"),
    (oids.REGOPERATOR, oids.REGOPERATOR_ARRAY, "regoperator"),
    (oids.REGCLASS, oids.REGCLASS_ARRAY, "regclass"),
    (oids.REGTYPE, oids.REGTYPE_ARRAY, "regtype"),
    (oids.REGNAMESPACE, oids.REGNAMESPACE_ARRAY, "regnamespace"),
    (oids.REGROLE, oids.REGROLE_ARRAY, "regrole"),
    (oids.REGCOLLATION, oids.REGCOLLATION_ARRAY, "regcollation"),
)


def parse_oid(text: str) -> int:
    """Reads an OID as PostgreSQL does: -1 is 4294967295. Raises 22P02, 22003."""
    match = _NUMBER.match(text)
    if match is None:
        raise bad_syntax("oid", text)
    digits = match[2].lstrip("0") or "0"
    if len(digits) > 20 or int(digits) >= 1 << 64:
        raise out_of_range("oid", text)
    if match[4]:
        raise bad_syntax("oid", text)
    value = -int(digits) if match[1] == "-" else int(digits)
    if not -(1 << 31) <= value < 1 << 32:
        raise out_of_range("oid", text)
    return value & 0xFFFFFFFF


def _decode_oid(text: str) -> object:
    if text.isdecimal() and text.isascii() and len(text) < 10:
        return int(text)
    return parse_oid(text)


class UnsignedInteger(SqlType):
    """An unsigned integer of 4 or 8 bytes; each type has its own function to read its text."""

    def __init__(
        self,
        oid: int,
        array_oid: int,
        name: str,
        *,
        category: str = "N",
        preferred: bool = False,
        length: int = 4,
        parse: Callable[[str], object] = _decode_oid,
        ordered: bool = True,
        digits: bool = True,
    ) -> None:
        self.oid = oid
        self.array_oid = array_oid
        self.name = self.sql_name = name
        self.category = category
        self.preferred = preferred
        self.length = length
        self._code = {4: "I", 8: "Q"}[length]
        self.storage = Storage(self._code)
        self.columns = Columns(
            layout=Layout.WIDENED if length == 4 else Layout.NUMBERS,
            arrow="" if length == 4 else "uint64",
            key=(self._code, 0) if ordered else None,
            sent=f">u{length}",
            digits=digits,
        )
        self._parse = parse
        self._ordered = ordered

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        return self._parse

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[object], bytes]:
        return b"%d".__mod__

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        length, from_bytes = self.length, int.from_bytes

        def decode(data: bytes) -> object:
            if len(data) != length:
                raise wrong_length(data, length)
            return from_bytes(data, "big")

        return decode

    def binary_encoder(self) -> Callable[[object], bytes]:
        return struct.Struct(">" + self._code).pack

    def key_encoder(self) -> Callable[[object], bytes] | None:
        return struct.Struct(">" + self._code).pack if self._ordered else None

    def duckdb_type(self, typmod: int = -1) -> str:
        return "BIGINT" if self.length == 4 else "UBIGINT"


_MOST_DIGITS = 23  # one more than the largest number has in base 8


def bits_kept(source: int, target: int) -> Callable[[int], int] | None:
    """Returns the function of a binary-coercible cast, which keeps the bits: int4 is signed, an OID is not. None if the
    number does not change."""
    if source == oids.INT4 and target in _OF_FOUR_BYTES:
        return _as_unsigned
    return _as_signed if target == oids.INT4 and source in _OF_FOUR_BYTES else None


def _as_unsigned(value: int) -> int:
    return value & 0xFFFFFFFF


def _as_signed(value: int) -> int:
    return value - (1 << 32) if value > 0x7FFFFFFF else value


_OF_FOUR_BYTES = frozenset((oids.OID, oids.REGCONFIG, oids.REGDICTIONARY, *(item[0] for item in _REG_TYPES)))


def _parse_c_number(text: str, bits: int) -> int:
    """strtoul() with base 0, for transaction id types: returns 0 for a text without a number."""
    match = _XID.match(text)
    if match is None:
        return 0
    digits = match[2]
    base = 16 if digits[:2].lower() == "0x" else 8 if digits[0] == "0" else 10
    significant = digits.lower().removeprefix("0x").lstrip("0")[:_MOST_DIGITS] or "0"
    value = min(int(significant, base), (1 << 64) - 1)
    return (-value if match[1] == "-" else value) & ((1 << bits) - 1)


def _decode_reg(name: str) -> Callable[[str], object]:
    def decode(text: str) -> object:
        if text == "-":
            return 0
        if text.isdecimal() and text.isascii():
            return _decode_oid(text)
        raise SqlError("0A000", f'the name form of type {name} is not supported here: "{text}"')

    return decode


class FixedNames(UnsignedInteger):
    """A reg type of objects that are built in, in pg_catalog, or added by extensions."""

    def __init__(
        self,
        oid: int,
        array_oid: int,
        name: str,
        what: str,
        known: Mapping[int, str],
        added_named: Callable[[str, Sequence[str], added.Here | None], int | None],
        added_name: Callable[[int, added.Here | None], str | None],
    ) -> None:
        by_name = {called: number for number, called in known.items()}

        def parse(text: str, here: added.Here | None = None) -> object:
            if text == "-" or (text.isdecimal() and text.isascii()):
                return 0 if text == "-" else _decode_oid(text)
            *schemas, called = split_name(text)
            if len(schemas) > 2:
                name = ".".join((*schemas, called))
                raise SqlError("42601", f"improper qualified name (too many dotted names): {name}")
            found = by_name.get(called) if schemas[-1:] in ([], ["pg_catalog"]) else None
            if found is None:
                found = added_named(called, schemas[-1:], None) or added_named(called, schemas[-1:], here)
            if found is None:
                raise SqlError("42704", f'{what} "{text}" does not exist')
            return found

        super().__init__(oid, array_oid, name, parse=parse, digits=False)
        self._parse_here = parse
        self._known = known
        self._added_name = added_name

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        here = added.current()
        return self._parse if here[0] is added.NOTHING else partial(self._parse_here, here=here)

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[object], bytes]:
        known, added_name, here = self._known, self._added_name, added.current()

        def encode(value: Any) -> bytes:
            found = (
                known.get(value)
                or added_name(value, None)
                or added_name(value, here)
                or configurations.ADDED_DICTIONARIES.get(value)
            )
            return (found or (str(value) if value else "-")).encode()

        return encode


OID = UnsignedInteger(oids.OID, oids.OID_ARRAY, "oid", preferred=True)
REG_TYPES = tuple(UnsignedInteger(oid, array, name, parse=_decode_reg(name)) for oid, array, name in _REG_TYPES)
FIXED_TYPES = (
    FixedNames(
        oids.REGCONFIG, oids.REGCONFIG_ARRAY, "regconfig", "text search configuration",
        configurations.CONFIGURATIONS, added.configuration_named, added.configuration_name,
    ),
    FixedNames(
        oids.REGDICTIONARY, oids.REGDICTIONARY_ARRAY, "regdictionary", "text search dictionary",
        configurations.DICTIONARIES, added.dictionary_named, added.dictionary_name,
    ),
)  # fmt: skip
XID = UnsignedInteger(
    oids.XID, oids.XID_ARRAY, "xid", category="U", parse=lambda text: _parse_c_number(text, 32), ordered=False
)
CID = UnsignedInteger(
    oids.CID, oids.CID_ARRAY, "cid", category="U", parse=lambda text: _parse_c_number(text, 32), ordered=False
)
XID8 = UnsignedInteger(
    oids.XID8, oids.XID8_ARRAY, "xid8", category="U", length=8, parse=lambda text: _parse_c_number(text, 64)
)
