"""PostgreSQL's hash functions for hash partitioning (src/common/hashfn.c, src/backend/access/hash/hashfunc.c). A row
must be in the same partition as in PostgreSQL, or a dump of one partition could not be restored.

The hash is 64 bits of Bob Jenkins' lookup3 over the bytes of a value, with a seed.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from catalog.errors import SqlError, not_supported
from catalog.functions.letter_case import lower
from catalog.functions.registry import implement
from catalog.types import format_type, oids
from catalog.types.base import Interval, TypeRef
from catalog.types.hstore import stored_form

PARTITION_SEED = 0x7A5B22367996DCFD  # HASH_PARTITION_SEED
_MASK, _MASK64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
_START = 0x9E3779B9 + 3923095
_DOUBLE = struct.Struct("<d")

Hash = Callable[[Any], int]


def _rot(x: int, k: int) -> int:
    return ((x << k) | (x >> (32 - k))) & _MASK


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    a = ((a - c) & _MASK) ^ _rot(c, 4)
    c = (c + b) & _MASK
    b = ((b - a) & _MASK) ^ _rot(a, 6)
    a = (a + c) & _MASK
    c = ((c - b) & _MASK) ^ _rot(b, 8)
    b = (b + a) & _MASK
    a = ((a - c) & _MASK) ^ _rot(c, 16)
    c = (c + b) & _MASK
    b = ((b - a) & _MASK) ^ _rot(a, 19)
    a = (a + c) & _MASK
    c = ((c - b) & _MASK) ^ _rot(b, 4)
    return a, (b + a) & _MASK, c


def _final(a: int, b: int, c: int) -> int:
    c = ((c ^ b) - _rot(b, 14)) & _MASK
    a = ((a ^ c) - _rot(c, 11)) & _MASK
    b = ((b ^ a) - _rot(a, 25)) & _MASK
    c = ((c ^ b) - _rot(b, 16)) & _MASK
    a = ((a ^ c) - _rot(c, 4)) & _MASK
    b = ((b ^ a) - _rot(a, 14)) & _MASK
    c = ((c ^ b) - _rot(b, 24)) & _MASK
    return (b << 32) | c


def _seed_state(length: int, seed: int) -> tuple[int, int, int]:
    a = b = c = (_START + length) & _MASK
    if seed:
        return _mix((a + (seed >> 32)) & _MASK, (b + seed) & _MASK, c)
    return a, b, c


def hash_bytes(data: bytes, seed: int) -> int:
    """hash_bytes_extended."""
    a, b, c = _seed_state(len(data), seed)
    whole = len(data) // 12 * 12
    for x, y, z in struct.iter_unpack("<III", data[:whole]):
        a, b, c = _mix((a + x) & _MASK, (b + y) & _MASK, (c + z) & _MASK)
    tail = data[whole:]
    a = (a + int.from_bytes(tail[:4], "little")) & _MASK
    b = (b + int.from_bytes(tail[4:8], "little")) & _MASK
    c = (c + (int.from_bytes(tail[8:], "little") << 8)) & _MASK  # the lowest byte of `c` is for the length
    return _final(a, b, c)


def hash_uint32(value: int, seed: int) -> int:
    """hash_bytes_uint32_extended."""
    a, b, c = _seed_state(4, seed)
    return _final((a + value) & _MASK, b, c)


def _int8(value: int, seed: int) -> int:
    high = (value >> 32) & _MASK
    return hash_uint32((value & _MASK) ^ (high if value >= 0 else ~high & _MASK), seed)


def _float(value: float, seed: int) -> int:
    if value == 0:
        return seed
    return hash_bytes(_DOUBLE.pack(float("nan") if math.isnan(value) else value), seed)


def _numeric(value: Decimal, seed: int) -> int:
    """hash_numeric_extended: hashes the digits to base 10000, without leading and trailing zeros."""
    if not value.is_finite():
        return seed
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    whole = text[: len(text) + exponent] if exponent < 0 else text + "0" * exponent
    fraction = text[len(text) + exponent :].rjust(-exponent, "0") if exponent < 0 else ""
    whole = whole.rjust(-(-len(whole) // 4) * 4, "0")
    weight = len(whole) // 4 - 1
    joined = whole + fraction.ljust(-(-len(fraction) // 4) * 4, "0")
    groups = [int(joined[place : place + 4]) for place in range(0, len(joined), 4)]
    while groups and not groups[0]:
        groups.pop(0)
        weight -= 1
    while groups and not groups[-1]:
        groups.pop()
    if not groups:
        return (seed - 1) & _MASK64
    return hash_bytes(struct.pack(f"<{len(groups)}h", *groups), seed) ^ (weight & _MASK64)


_BY_TYPE: dict[int, Callable[[Any, int], int]] = {
    oids.BOOL: hash_uint32, oids.INT2: hash_uint32, oids.INT4: hash_uint32, oids.OID: hash_uint32,
    oids.DATE: hash_uint32, oids.INT8: _int8, oids.TIMESTAMP: _int8, oids.TIMESTAMPTZ: _int8, oids.TIME: _int8,
    oids.FLOAT4: _float, oids.FLOAT8: _float, oids.NUMERIC: _numeric, oids.BYTEA: hash_bytes,
    oids.TEXT: lambda value, seed: hash_bytes(value.encode(), seed),
    oids.VARCHAR: lambda value, seed: hash_bytes(value.encode(), seed),
    oids.NAME: lambda value, seed: hash_bytes(value.encode(), seed),
    oids.BPCHAR: lambda value, seed: hash_bytes(value.rstrip(" ").encode(), seed),
    oids.UUID: hash_bytes,
}  # fmt: skip


def partition_hash(types: tuple[int, ...]) -> Callable[[tuple[Any, ...]], int]:
    """Returns compute_partition_hash_value for keys of these types (OIDs). Raises 0A000 for a type without a hash."""
    for oid in types:
        if oid not in _BY_TYPE:
            not_supported(f"hash partitioning by {format_type(oid)}")
    functions = [_BY_TYPE[oid] for oid in types]

    def hash_key(values: tuple[Any, ...]) -> int:
        row = 0
        for function, value in zip(functions, values, strict=True):
            if value is not None:
                one = function(value, PARTITION_SEED)
                row ^= (one + 0x49A0F4DD15E5A8E3 + (row << 54) + (row >> 7)) & _MASK64
        return row

    return hash_key


def _satisfies(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., bool]:
    """satisfies_hash_partition(table, modulus, remainder, key...). Raises 22023."""
    hash_key = partition_hash(tuple(item.oid for item in types[3:]))

    def satisfies(table: int | None, modulus: int | None, remainder: int | None, *key: object) -> bool:
        if table is None or modulus is None or remainder is None:
            return False
        if modulus <= 0:
            raise SqlError("22023", "modulus for hash partition must be an integer value greater than zero")
        if remainder < 0:
            message = "remainder for hash partition must be an integer value greater than or equal to zero"
            raise SqlError("22023", message)
        if remainder >= modulus:
            raise SqlError("22023", "remainder for hash partition must be less than modulus")
        return hash_key(key) % modulus == remainder

    return satisfies


implement("satisfies_hash_partition", python_for_types=_satisfies)


# ---- hash functions of SQL -------------------------------------------------------------------------------------------

_DAY = 86_400_000_000  # microseconds


def _interval(value: Interval, seed: int) -> int:
    """Hashes the length of an interval with months of 30 days, so that equal intervals have equal hashes."""
    span = value.microseconds + (value.months * 30 + value.days) * _DAY
    return _int8(_to_signed(span, 64), seed)


def _to_signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _character(value: str, seed: int) -> int:
    code = value.encode()[:1]
    return hash_uint32(int.from_bytes(code, "big", signed=True), seed)


def _both(name: str, extended: str, function: Callable[[Any, int], int]) -> None:
    """Registers the function with 32 bits, and the extended one with 64 bits and a seed. The lower half of the latter
    with seed 0 is the former."""
    implement(name, lambda value: _to_signed(function(value, 0), 32))
    implement(extended, lambda value, seed: _to_signed(function(value, seed & _MASK64), 64))


for _name, _function in (
    ("int2", hash_uint32), ("int4", hash_uint32), ("oid", hash_uint32), ("int8", _int8), ("float4", _float),
    ("float8", _float), ("text", _BY_TYPE[oids.TEXT]), ("name", _BY_TYPE[oids.NAME]),
    ("bpchar", _BY_TYPE[oids.BPCHAR]), ("char", _character), ("macaddr", hash_bytes), ("macaddr8", hash_bytes),
):  # fmt: skip
    _both(f"hash{_name}", f"hash{_name}extended", _function)
for _name, _function in (
    ("hash_numeric", _numeric), ("uuid_hash", hash_bytes), ("timestamp_hash", _int8), ("time_hash", _int8),
    ("interval_hash", _interval), ("citext_hash", lambda value, seed: _BY_TYPE[oids.TEXT](lower(value), seed)),
    ("hstore_hash", lambda value, seed: hash_bytes(stored_form(value), seed)),
    ("pg_lsn_hash", lambda value, seed: _int8(_to_signed(value, 64), seed)),
):  # fmt: skip
    _both(_name, f"{_name}_extended", _function)
