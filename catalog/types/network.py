"""inet: an IPv4 or IPv6 address with an optional prefix length; cidr: a network.

The internal form is PostgreSQL's output text, because addresses are printed far more often than computed with. The text
of a cidr always has a prefix length, that of an inet only if it is shorter than the address. So the cast from cidr to
inet has a function here (`CIDR_TO_INET`), unlike in PostgreSQL.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Sequence
from typing import Any, cast

from catalog.errors import SqlError
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, Columns, FormatSettings, Order, SqlType
from catalog.types.text import TEXT
from catalog.types.texts import bad_syntax

_ENCODE = cast(Callable[[object], bytes], str.encode)
_OCTET = r"0*(\d{1,3})"
_V4 = re.compile(rf"{_OCTET}(?:\.{_OCTET})?(?:\.{_OCTET})?(?:\.{_OCTET})?(?:/0*(\d{{1,2}}))?\Z", re.ASCII)
_V6 = re.compile(r"([0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)(?:/(\d{1,3}))?\Z", re.ASCII)
_FAMILY_V4, _FAMILY_V6 = 2, 3  # in the binary form
_MAPPED = bytes(10) + b"\xff\xff"


def _split(text: str) -> tuple[bytes, int] | None:
    """Returns the address in 4 or 16 bytes, and the prefix length; None for an invalid text."""
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
    """Returns the inet of an address in 4 or 16 bytes and a prefix length."""
    if len(address) == 4:
        text = str(ipaddress.IPv4Address(address))
    elif address[:12] == _MAPPED or (address[:12] == bytes(12) and address[12:14] != b"\0\0"):
        text = ("::ffff:" if address[:12] == _MAPPED else "::") + str(ipaddress.IPv4Address(address[12:]))
    else:
        text = str(ipaddress.IPv6Address(address))
    return text if bits == 8 * len(address) else f"{text}/{bits}"


def parse_inet(text: str) -> str:
    """Returns the canonical text. Raises 22P02."""
    parts = _split(text)
    if parts is None:
        raise bad_syntax("inet", text)
    return format_inet(*parts)


def split_inet(value: str) -> tuple[bytes, int]:
    """Returns the address of a value in 4 or 16 bytes, and the prefix length."""
    return cast(tuple[bytes, int], _split(value))


def _decode_binary(data: bytes, name: str = "inet") -> object:
    if len(data) < 4:
        raise SqlError("08P01", "insufficient data left in message")
    family, bits, _, length = data[:4]
    if family not in (_FAMILY_V4, _FAMILY_V6):
        raise SqlError("22P03", f'invalid address family in external "{name}" value')
    size = 4 if family == _FAMILY_V4 else 16
    if bits > 8 * size:
        raise SqlError("22P03", f'invalid bits in external "{name}" value')
    if length != size:
        raise SqlError("22P03", f'invalid length in external "{name}" value')
    if len(data) != 4 + size:
        raise SqlError("22P03", "incorrect binary data format")
    return format_inet(data[4:], bits)


def _encode_binary(value: Any) -> bytes:
    address, bits = split_inet(value)
    return bytes((_FAMILY_V4 if len(address) == 4 else _FAMILY_V6, bits, 0, len(address))) + address


class Inet(SqlType):
    """inet, internal form `str`. The order is by family, network, prefix length, and then the whole address."""

    oid = oids.INET
    array_oid = oids.INET_ARRAY
    name = "inet"
    sql_name = "inet"
    category = "I"
    preferred = True
    length = -1
    storage = TEXT.storage
    columns = Columns(order=Order.BY_KEY)

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        return parse_inet

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[object], bytes]:
        return _ENCODE

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        return _decode_binary

    def binary_encoder(self) -> Callable[[object], bytes]:
        return _encode_binary

    def sort_key(self) -> Callable[[Any], object]:
        return self.key_encoder()

    def key_encoder(self) -> Callable[[Any], bytes]:
        """Encodes the address length, the network's bits in a byte each (1 or 2), a zero, and the address."""

        def encode(value: Any) -> bytes:
            address, bits = split_inet(value)
            network = f"{int.from_bytes(address, 'big'):0{8 * len(address)}b}"[:bits]
            return bytes((len(address), *[1 + int(bit) for bit in network], 0)) + address

        return encode

    def duckdb_type(self, typmod: int = -1) -> str:
        return "VARCHAR"


def with_prefix(value: str) -> str:
    """Returns an inet's text with the prefix length, also for a prefix of the whole address."""
    return value if "/" in value else f"{value}/{128 if ':' in value else 32}"


def _usual_bits(octets: Sequence[int]) -> int:
    """Returns the prefix length of an IPv4 network without one: that of its class, but at least the given octets."""
    first = octets[0]
    bits = 32 if first >= 240 else 8 if first >= 224 else 24 if first >= 192 else 16 if first >= 128 else 8
    bits = max(bits, 8 * len(octets))
    return 4 if bits == 8 and first == 224 else bits


def parse_cidr(text: str) -> str:
    """Returns the canonical text. Raises 22P02, also for bits set after the prefix."""
    match = _V4.match(text)
    if match is not None:
        octets = [int(octet) for octet in match.groups()[:4] if octet is not None]
        bits = _usual_bits(octets) if match[5] is None else int(match[5])
        if max(octets) > 255 or bits > 32:
            raise bad_syntax("cidr", text)
        address = bytes(octets).ljust(4, b"\0")
    else:
        parts = _split(text)
        if parts is None:
            raise bad_syntax("cidr", text)
        address, bits = parts
    if int.from_bytes(address, "big") & ((1 << 8 * len(address) - bits) - 1):
        detail = "Value has bits set to right of mask."
        raise SqlError("22P02", f'invalid cidr value: "{text}"', detail=detail)
    return with_prefix(format_inet(address, bits))


class Cidr(Inet):
    """cidr: an inet whose bits after the prefix are zero."""

    oid = oids.CIDR
    array_oid = oids.CIDR_ARRAY
    name = "cidr"
    sql_name = "cidr"
    preferred = False

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        return parse_cidr

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        return lambda data: parse_cidr(with_prefix(cast(str, _decode_binary(data, "cidr"))))

    def binary_encoder(self) -> Callable[[object], bytes]:
        def encode(value: object) -> bytes:
            data = _encode_binary(value)
            return data[:2] + b"\1" + data[3:]

        return encode


INET = Inet()
CIDR = Cidr()
