"""inet: an IPv4 or IPv6 address, perhaps with the length of its network's prefix.

The internal form is PostgreSQL's output text, since addresses are shown far more often than computed with.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Any, cast

from catalog.errors import SqlError
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, FormatSettings, SqlType
from catalog.types.text import TEXT
from catalog.types.texts import bad_syntax

_ENCODE = cast(Callable[[object], bytes], str.encode)
_V4 = re.compile(r"(\d{1,3})(?:\.(\d{1,3}))?(?:\.(\d{1,3}))?(?:\.(\d{1,3}))?(?:/(\d{1,2}))?\Z", re.ASCII)
_V6 = re.compile(r"([0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)(?:/(\d{1,3}))?\Z", re.ASCII)
_FAMILY_V4, _FAMILY_V6 = 2, 3  # on the wire
_MAPPED = bytes(10) + b"\xff\xff"


def _split(text: str) -> tuple[bytes, int] | None:
    """The address in 4 or 16 bytes and the length of the prefix; None for what is no inet."""
    match = _V4.match(text)
    if match is not None:
        octets = [octet for octet in match.groups()[:4] if octet is not None]
        if any(int(octet) > 255 for octet in octets) or (len(octets) < 4 and match[5] is None):
            return None
        bits = int(match[5] or 32)
        if bits > 32 or bits > 8 * len(octets):
            return None
        return bytes(map(int, octets)).ljust(4, b"\0"), bits
    match = _V6.match(text)
    if match is None:
        return None
    try:
        address = ipaddress.IPv6Address(match[1]).packed
    except ValueError:
        return None
    bits = int(match[2] or 128)
    return (address, bits) if bits <= 128 else None


def format_inet(address: bytes, bits: int) -> str:
    """The value of an address in 4 or 16 bytes and the length of its network's prefix."""
    if len(address) == 4:
        text = str(ipaddress.IPv4Address(address))
    elif address[:12] == _MAPPED or (address[:12] == bytes(12) and address[12:14] != b"\0\0"):
        text = ("::ffff:" if address[:12] == _MAPPED else "::") + str(ipaddress.IPv4Address(address[12:]))
    else:
        text = str(ipaddress.IPv6Address(address))
    return text if bits == 8 * len(address) else f"{text}/{bits}"


def parse_inet(text: str) -> str:
    """The canonical text. Raises 22P02."""
    parts = _split(text)
    if parts is None:
        raise bad_syntax("inet", text)
    return format_inet(*parts)


def split_inet(value: str) -> tuple[bytes, int]:
    """Of a value: the address in 4 or 16 bytes, and the length of the prefix."""
    return cast(tuple[bytes, int], _split(value))


def _decode_binary(data: bytes) -> object:
    if len(data) < 4:
        raise SqlError("08P01", "insufficient data left in message")
    family, bits, _, length = data[:4]
    if family not in (_FAMILY_V4, _FAMILY_V6):
        raise SqlError("22P03", 'invalid address family in external "inet" value')
    size = 4 if family == _FAMILY_V4 else 16
    if bits > 8 * size:
        raise SqlError("22P03", 'invalid bits in external "inet" value')
    if length != size:
        raise SqlError("22P03", 'invalid length in external "inet" value')
    if len(data) != 4 + size:
        raise SqlError("22P03", "incorrect binary data format")
    return format_inet(data[4:], bits)


def _encode_binary(value: Any) -> bytes:
    address, bits = split_inet(value)
    return bytes((_FAMILY_V4 if len(address) == 4 else _FAMILY_V6, bits, 0, len(address))) + address


class Inet(SqlType):
    """inet, internal form `str`. Ordered by family, network, length of the prefix, and then the whole address."""

    oid = oids.INET
    array_oid = oids.INET_ARRAY
    name = "inet"
    sql_name = "inet"
    category = "I"
    preferred = True
    length = -1
    storage = TEXT.storage

    def text_decoder(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        return parse_inet

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[object], bytes]:
        return _ENCODE

    def binary_decoder(self, typmod: int = -1) -> Callable[[bytes], object]:
        return _decode_binary

    def binary_encoder(self) -> Callable[[object], bytes]:
        return _encode_binary

    def sort_key(self) -> Callable[[Any], object]:
        return self.key_encoder()

    def key_encoder(self) -> Callable[[Any], bytes]:
        """Bytes of the address, the network's bits one a byte (1 or 2) and a zero, the address."""

        def encode(value: Any) -> bytes:
            address, bits = split_inet(value)
            network = f"{int.from_bytes(address, 'big'):0{8 * len(address)}b}"[:bits]
            return bytes((len(address), *[1 + int(bit) for bit in network], 0)) + address

        return encode

    def duckdb_type(self, typmod: int = -1) -> str:
        return "VARCHAR"


INET = Inet()
