"""macaddr and macaddr8. Internal form `bytes`, 6 and 8 of them, which have the order of the addresses."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

from catalog.errors import SqlError
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, Columns, FormatSettings, SqlType, Storage
from catalog.types.texts import WHITESPACE, bad_syntax, wrong_length

_H, _HH = r"([0-9a-fA-F]+)", r"([0-9a-fA-F]{1,2}+)"
# The forms in which sscanf reads six octets. Forms with separators between all octets accept any number, which may be
# out of range (22003).
_FORMS = tuple(
    re.compile(r"\s*" + form + r"\s*\Z", re.ASCII)
    for form in (
        ":".join([_H] * 6),
        "-".join([_H] * 6),
        _HH * 3 + ":" + _HH * 3,
        _HH * 3 + "-" + _HH * 3,
        r"\.".join([_HH * 2] * 3),
        "-".join([_HH * 2] * 3),
        _HH * 6,
    )
)
_EIGHT = re.compile(r"[0-9a-fA-F]{2}(?:[:.-]?[0-9a-fA-F]{2}){5,7}\Z", re.ASCII)


def parse_macaddr(text: str) -> bytes:
    """Reads a macaddr. Raises 22P02, 22003 for an octet above 255."""
    for form in _FORMS:
        found = form.match(text)
        if found is not None:
            octets = [int(part, 16) for part in found.groups()]
            if max(octets) > 255:
                raise SqlError("22003", f'invalid octet value in "macaddr" value: "{text}"')
            return bytes(octets)
    raise bad_syntax("macaddr", text)


def parse_macaddr8(text: str) -> bytes:
    """Reads six or eight octets; six octets get FF:FE in the middle. Raises 22P02."""
    body = text.strip(WHITESPACE)
    if _EIGHT.match(body) is None or len({*body} & {*":.-"}) > 1:
        raise bad_syntax("macaddr8", text)
    octets = bytes.fromhex(re.sub("[:.-]", "", body))
    if len(octets) == 7:
        raise bad_syntax("macaddr8", text)
    return octets if len(octets) == 8 else octets[:3] + b"\xff\xfe" + octets[3:]


class MacAddress(SqlType):
    """macaddr or macaddr8, by the number of octets."""

    category = "U"
    preferred = False
    columns = Columns(printed=True)

    def __init__(self, oid: int, array_oid: int, name: str, octets: int, parse: Callable[[str], bytes]) -> None:
        self.oid = oid
        self.array_oid = array_oid
        self.name = self.sql_name = name
        self.length = octets
        self.storage = Storage(None, from_storage=lambda data: bytes(cast(bytes, data)))
        self._parse = parse

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        return self._parse

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[Any], bytes]:
        return lambda value: cast(bytes, value).hex(":").encode()

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        def decode(data: bytes) -> object:
            if len(data) == 6 and self.length == 8:
                return bytes(data[:3]) + b"\xff\xfe" + bytes(data[3:])
            if len(data) != self.length:
                raise wrong_length(data, self.length)
            return bytes(data)

        return decode

    def binary_encoder(self) -> Callable[[Any], bytes]:
        return cast(Callable[[Any], bytes], bytes)

    def key_encoder(self) -> Callable[[Any], bytes]:
        return cast(Callable[[Any], bytes], bytes)

    def duckdb_type(self, typmod: int = -1) -> str:
        return "VARCHAR"


MACADDR = MacAddress(oids.MACADDR, oids.MACADDR_ARRAY, "macaddr", 6, parse_macaddr)
MACADDR8 = MacAddress(oids.MACADDR8, oids.MACADDR8_ARRAY, "macaddr8", 8, parse_macaddr8)
