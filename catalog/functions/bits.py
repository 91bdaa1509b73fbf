"""Functions of bit strings (PostgreSQL 16 manual, 9.6; varbit.c). A value is a str of 0 and 1."""

from __future__ import annotations

import operator
from collections.abc import Callable

from catalog.errors import SqlError
from catalog.functions.base import AggregateSteps
from catalog.functions.casts import length_coercion
from catalog.functions.integers import comparisons
from catalog.functions.registry import implement
from catalog.memory import room_for
from catalog.types import oids

_WORDS = {"and": "AND", "or": "OR", "xor": "XOR"}
_WORD = 64  # bits of the largest integer
_WORD_MASK = (1 << _WORD) - 1
_MOST = 2**31 - 1 - 8  # bits: a larger length is ignored, as in PostgreSQL
_ACTIONS: dict[str, Callable[[int, int], int]] = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}


def _combination(word: str) -> Callable[[str, str], str]:
    action = _ACTIONS[word]

    def combine(left: str, right: str) -> str:
        if len(left) != len(right):
            raise SqlError("22026", f"cannot {_WORDS[word]} bit strings of different sizes")
        return f"{action(int(left, 2), int(right, 2)):0{len(left)}b}" if left else ""

    return combine


def _shifted_left(bits: str, count: int) -> str:
    if count < 0:
        return _shifted_right(bits, -count)
    return bits[count:] + "0" * min(count, len(bits))


def _shifted_right(bits: str, count: int) -> str:
    if count < 0:
        return _shifted_left(bits, -count)
    return ("0" * min(count, len(bits)) + bits)[: len(bits)]


def _of_integer(value: int, length: int) -> str:
    """Returns the lowest `length` bits of an integer, extended by its sign."""
    length = length if 0 < length <= _MOST else 1
    room_for(length)
    bits = f"{value & _WORD_MASK:0{_WORD}b}"
    return bits[-length:] if length <= _WORD else bits[0] * (length - _WORD) + bits


def _to_integer(size: int, name: str) -> Callable[[str], int]:
    def convert(bits: str) -> int:
        if len(bits) > size:
            raise SqlError("22003", f"{name} out of range")
        value = int(bits, 2) if bits else 0
        return value - (1 << size) if value >> (size - 1) else value

    return convert


def _substring(bits: str, start: int, length: int) -> str:
    if length < 0:
        raise SqlError("22011", "negative substring length not allowed")
    return bits[max(start - 1, 0) : max(start - 1 + length, 0)]


def _overlay(bits: str, new: str, start: int, length: int | None = None) -> str:
    count = len(new) if length is None else length
    if start <= 0:
        raise SqlError("22011", "negative substring length not allowed")
    return _substring(bits, 1, start - 1) + new + bits[max(start - 1 + count, 0) :]


def _check_index(bits: str, index: int) -> None:
    if not 0 <= index < len(bits):
        raise SqlError("2202E", f"bit index {index} out of valid range (0..{len(bits) - 1})")


def _get_bit(bits: str, index: int) -> int:
    _check_index(bits, index)
    return int(bits[index])


def _set_bit(bits: str, index: int, bit: int) -> str:
    _check_index(bits, index)
    if bit not in (0, 1):
        raise SqlError("22023", "new bit must be 0 or 1")
    return bits[:index] + str(bit) + bits[index + 1 :]


def _aggregate(word: str) -> None:
    combine = _combination(word)
    steps: AggregateSteps = (
        lambda: None, lambda state, value: value if state is None else combine(state, value), lambda state: state,
    )  # fmt: skip
    implement(f"bit_{word}(bit)", python_aggregate=steps)


comparisons("bit{}")
implement("bitcmp", lambda left, right: (left > right) - (left < right))
implement("bit_and", _combination("and"))
implement("bit_or", _combination("or"))
implement("bitxor", _combination("xor"))
implement("bitnot", lambda bits: bits.translate(str.maketrans("01", "10")))
implement("bitshiftleft", _shifted_left)
implement("bitshiftright", _shifted_right)
implement("bitcat", lambda left, right: left + right)
implement("bitlength", len)
implement("bitoctetlength", lambda bits: -(-len(bits) // 8))
implement("bit_bit_count", lambda bits: bits.count("1"))
implement("bitposition", lambda bits, part: bits.find(part) + 1 if bits else 0)
implement("bitsubstr", _substring)
implement("bitsubstr_no_len", lambda bits, start: bits[max(start - 1, 0) :])
implement("bitoverlay", _overlay)
implement("bitoverlay_no_len", _overlay)
implement("bitgetbit", _get_bit)
implement("bitsetbit", _set_bit)
implement("bitfromint4", _of_integer)
implement("bitfromint8", _of_integer)
implement("bittoint4", _to_integer(32, "integer"))
implement("bittoint8", _to_integer(64, "bigint"))
implement("bit", length_coercion(oids.BIT, True))
implement("varbit", length_coercion(oids.VARBIT, False))
for _word in ("and", "or", "xor"):
    _aggregate(_word)
