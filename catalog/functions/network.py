"""inet and cidr: parts, masks, containment, bits and arithmetic (PostgreSQL 16 manual, 9.12; network.c).

Values are PostgreSQL's text of inet; they are compared by the type's sort key.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from catalog.errors import SqlError, not_supported
from catalog.functions.base import AggregateSteps, Function
from catalog.functions.registry import CIDR_TO_INET, declare, implement
from catalog.types import oids
from catalog.types.network import INET, format_inet, split_inet, with_prefix

_key: Callable[[Any], Any] = INET.sort_key()


def _number(address: bytes) -> int:
    return int.from_bytes(address, "big")


def _make_address(number: int, size: int, bits: int) -> str:
    """Returns the inet of a number, with an address of `size` (4 or 16) bytes. Raises 22003 for a number out of
    range."""
    if not 0 <= number < 1 << 8 * size:
        raise SqlError("22003", "result is out of range")
    return format_inet(number.to_bytes(size, "big"), bits)


def _mask(size: int, bits: int) -> int:
    """Returns the netmask as a number: the first `bits` bits are set."""
    whole = (1 << 8 * size) - 1
    return whole ^ (whole >> bits)


# ---- parts ----


def host(value: str) -> str:
    return value.partition("/")[0]


def family(value: str) -> int:
    return 6 if ":" in value else 4


def broadcast(value: str) -> str:
    address, bits = split_inet(value)
    size = len(address)
    return _make_address(_number(address) | ((1 << 8 * size) - 1) >> bits, size, bits)


def netmask(value: str) -> str:
    address, bits = split_inet(value)
    return _make_address(_mask(len(address), bits), len(address), 8 * len(address))


def hostmask(value: str) -> str:
    address, bits = split_inet(value)
    return _make_address(((1 << 8 * len(address)) - 1) >> bits, len(address), 8 * len(address))


def set_mask_length(value: str, bits: int) -> str:
    """set_masklen(inet). Raises 22023."""
    address, _ = split_inet(value)
    if bits == -1:
        bits = 8 * len(address)
    if not 0 <= bits <= 8 * len(address):
        raise SqlError("22023", f"invalid mask length: {bits}")
    return format_inet(address, bits)


def network(value: str, bits: int = -1) -> str:
    """Returns the cidr of an address, with its own prefix length or with `bits`. Raises 22023."""
    address, own = split_inet(value)
    if not -1 <= bits <= 8 * len(address):
        raise SqlError("22023", f"invalid mask length: {bits}")
    bits = own if bits < 0 else bits
    return with_prefix(_make_address(_number(address) & _mask(len(address), bits), len(address), bits))


def set_network_length(value: str, bits: int) -> str:
    """set_masklen(cidr), which sets the bits after the prefix to zero. Raises 22023."""
    return network(value, 8 * len(split_inet(value)[0]) if bits == -1 else bits if bits >= 0 else -2)


def merge_networks(left: str, right: str) -> str:
    """inet_merge: the smallest network that contains both. Raises 22023 for different families."""
    (one, one_bits), (other, other_bits) = split_inet(left), split_inet(right)
    if len(one) != len(other):
        raise SqlError("22023", "cannot merge addresses from different families")
    alike = 8 * len(one) - (_number(one) ^ _number(other)).bit_length()
    return network(left, min(one_bits, other_bits, alike))


def abbreviate(value: str) -> str:
    """abbrev(cidr): omits the octets after the prefix."""
    address, bits = split_inet(value)
    if len(address) == 16:
        return f"{_abbreviated_v6(address, bits)}/{bits}"
    return ".".join(map(str, address[: max(1, (bits + 7) // 8)])) + f"/{bits}"


def _abbreviated_v6(address: bytes, bits: int) -> str:
    """Returns the first 16-bit words up to the end of the prefix, at least two, with zeros as ::. Raises 0A000 for an
    address with an IPv4 address in it."""
    if not bits:
        return "::"
    if address[:10] == bytes(10) and any(address[10:]):
        not_supported("abbrev() of an IPv6 network with an IPv4 address in it")
    count = max(2, (bits + 15) // 16)
    words = [int.from_bytes(address[place : place + 2], "big") for place in range(0, 2 * count, 2)]
    runs = [
        (end - start, -start)
        for start in range(count)
        for end in range(start + 1, count + 1)
        if not any(words[start:end])
    ]
    texts = [f"{word:x}" for word in words]
    if not runs:
        return ":".join(texts)
    length, start = max(runs)
    return ":".join(texts[:-start]) + "::" + ":".join(texts[-start + length :])


# ---- containment ----


def _same_network(left: str, right: str, bits: Callable[[int, int], int | None]) -> bool:
    """Whether both are of one family and have the same first bits. `bits` returns the number of bits from both prefix
    lengths, or None, if the result is false."""
    (one, one_bits), (other, other_bits) = split_inet(left), split_inet(right)
    count = bits(one_bits, other_bits)
    if len(one) != len(other) or count is None:
        return False
    return not (_number(one) ^ _number(other)) & _mask(len(one), count)


def is_subnet(left: str, right: str) -> bool:
    return _same_network(left, right, lambda one, other: other if one > other else None)


def contained_or_equal(left: str, right: str) -> bool:
    return _same_network(left, right, lambda one, other: other if one >= other else None)


def overlaps(left: str, right: str) -> bool:
    return _same_network(left, right, min)


# ---- bits and arithmetic ----


def _bitwise(name: str, combine: Callable[[int, int], int]) -> Callable[[str, str], str]:
    def compute(left: str, right: str) -> str:
        (one, one_bits), (other, other_bits) = split_inet(left), split_inet(right)
        if len(one) != len(other):
            raise SqlError("22023", f"cannot {name} inet values of different sizes")
        return _make_address(combine(_number(one), _number(other)), len(one), max(one_bits, other_bits))

    return compute


def _invert(value: str) -> str:
    address, bits = split_inet(value)
    return _make_address(_number(address) ^ ((1 << 8 * len(address)) - 1), len(address), bits)


def plus(value: str, number: int) -> str:
    """inet + bigint. Raises 22003."""
    address, bits = split_inet(value)
    return _make_address(_number(address) + number, len(address), bits)


def difference(left: str, right: str) -> int:
    """inet - inet. Raises 22023 for different families, 22003 for a difference out of range."""
    one, other = split_inet(left)[0], split_inet(right)[0]
    if len(one) != len(other):
        raise SqlError("22023", "cannot subtract inet values of different sizes")
    result = _number(one) - _number(other)
    if not -(2**63) <= result < 2**63:
        raise SqlError("22003", "result is out of range")
    return result


# ---- registration ----


def _comparison(compare: Callable[[Any, Any], Any]) -> Callable[[str, str], Any]:
    return lambda left, right: compare(_key(left), _key(right))


def _extreme(larger: bool) -> AggregateSteps:
    def step(state: Any, value: str) -> Any:
        pair = (_key(value), value)
        if state is None:
            return pair
        return max(state, pair) if larger else min(state, pair)

    return lambda: None, step, lambda state: None if state is None else state[1]


def _comparisons() -> None:
    for suffix, compare in (("eq", operator.eq), ("ne", operator.ne), ("lt", operator.lt), ("le", operator.le),
                            ("gt", operator.gt), ("ge", operator.ge)):  # fmt: skip
        implement(f"network_{suffix}", _comparison(compare))
    implement("network_larger", lambda left, right: left if _key(left) > _key(right) else right)
    implement("network_smaller", lambda left, right: left if _key(left) < _key(right) else right)
    implement("max(inet)", python_aggregate=_extreme(True))
    implement("min(inet)", python_aggregate=_extreme(False))


def _functions() -> None:
    implement("network_host", host)
    implement("network_show", with_prefix)
    implement("inet_abbrev", lambda value: value)
    implement("network_family", family)
    implement("network_masklen", lambda value: split_inet(value)[1])
    implement("network_broadcast", broadcast)
    implement("network_netmask", netmask)
    implement("network_hostmask", hostmask)
    implement("inet_set_masklen", set_mask_length)
    implement("cidr_set_masklen", set_network_length)
    implement("network_network", network)
    implement("inet_to_cidr", network)
    implement("inet_merge", merge_networks)
    implement("cidr_abbrev", abbreviate)
    implement("inet_same_family", lambda left, right: family(left) == family(right))
    implement("network_sub", is_subnet)
    implement("network_subeq", contained_or_equal)
    implement("network_sup", lambda left, right: is_subnet(right, left))
    implement("network_supeq", lambda left, right: contained_or_equal(right, left))
    implement("network_overlap", overlaps)
    implement("inetand", _bitwise("AND", operator.and_))
    implement("inetor", _bitwise("OR", operator.or_))
    implement("inetnot", _invert)
    implement("inetpl", plus)
    implement("int8pl_inet", lambda number, value: plus(value, number))
    implement("inetmi_int8", lambda value, number: plus(value, -number))
    implement("inetmi", difference)


def _as_inet(value: str) -> str:
    return format_inet(*split_inet(value))


declare(Function(CIDR_TO_INET, "inet", "shoal_cidr_inet", "f", True, False, "i", (oids.CIDR,), oids.INET, 0, 0))
implement("shoal_cidr_inet", _as_inet)
_comparisons()
_functions()
