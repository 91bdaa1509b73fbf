"""The extension pg_trgm (PostgreSQL 16 manual, F.35): the similarity of texts by their trigrams.

A trigram is three characters of a word with two blanks before and one after it, in lower case. PostgreSQL stores it in
three bytes; a trigram with other characters than ASCII's as a part of its CRC. Equality and order are those of the
bytes, so this module has the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import groupby

from catalog.errors import SqlError
from catalog.functions.base import CallContext, Trait
from catalog.functions.character_classes import is_alphanumeric
from catalog.functions.floats import to_single
from catalog.functions.letter_case import lower
from catalog.functions.registry import implement, implements
from catalog.text_caches import remembering
from catalog.types.base import Array

_POLYNOMIAL = 0xEDB88320
_WORD = 0xFFFFFFFF
_LEFT, _RIGHT = 1, 2  # the trigram is the first, the last of its word


@cache
def _crc_table() -> tuple[int, ...]:
    found = []
    for number in range(256):
        value = number
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        found.append(value)
    return tuple(found)


def _crc(data: bytes) -> int:
    """PostgreSQL's "legacy" CRC-32: the table of the reflected polynomial, used as that of the plain one."""
    table, value = _crc_table(), _WORD
    for byte in data:
        value = table[value >> 24 ^ byte] ^ value << 8 & _WORD
    return value ^ _WORD


def _compact(text: str) -> bytes:
    data = text.encode()
    return data if len(data) == 3 else _crc(data).to_bytes(4, "little")[:3]


def _words(text: str) -> Iterator[str]:
    return ("".join(chars) for inside, chars in groupby(text, is_alphanumeric) if inside)


@remembering(1024)
def _in_order(text: str) -> tuple[list[bytes], list[int]]:
    """Returns all trigrams of a text in order, and for each whether it begins or ends a word."""
    found: list[bytes] = []
    bounds: list[int] = []
    for word in _words(text):
        padded = f"  {lower(word)} "
        begin = len(found)
        found += [_compact(padded[place : place + 3]) for place in range(len(padded) - 2)]
        bounds += [0] * (len(found) - begin)
        bounds[begin] |= _LEFT
        bounds[-1] |= _RIGHT
    return found, bounds


def _as_signed(trigram: bytes) -> bytes:
    return bytes(byte ^ 0x80 for byte in trigram)


def _show_trigram(trigram: bytes) -> str:
    plain = all(byte == 32 or (byte < 128 and chr(byte).isalnum()) for byte in trigram)
    return trigram.decode() if plain else f"0x{trigram.hex()}"


@implements("show_trgm")
def _show(text: str) -> Array:
    return Array.of(tuple(map(_show_trigram, sorted(set(_in_order(text)[0]), key=_as_signed))))


def _ratio(common: int, one: int, other: int) -> float:
    return to_single(common / (one + other - common))


def _similarity(left: str, right: str) -> float:
    one, other = set(_in_order(left)[0]), set(_in_order(right)[0])
    return _ratio(len(one & other), len(one), len(other)) if one and other else 0.0


def _word_similarity(pattern: str, text: str, strict: bool = False) -> float:
    """Returns the greatest similarity of the pattern and a continuous extent of the text's trigrams. `strict`: the
    extent begins and ends with words. As in PostgreSQL, the lower bound of the extent only moves forward."""
    wanted = set(_in_order(pattern)[0])
    trigrams, bounds = _in_order(text)
    last: dict[bytes, int] = {}  # the last place of each trigram in the extent
    begin, common, greatest = (0 if strict else -1), 0, 0.0
    size = 0  # distinct trigrams in the extent
    for place, trigram in enumerate(trigrams):
        if begin >= 0 or trigram in wanted:
            if trigram not in last:
                size += 1
                common += trigram in wanted
            last[trigram] = place
        if not (bounds[place] & _RIGHT if strict else trigram in wanted):
            continue
        if begin < 0:
            begin, size = place, 1
        here = _ratio(common, len(wanted), size)
        earlier, left_common, left_size = begin, common, size
        for lower_bound in range(begin, place + 1):
            if not strict or bounds[lower_bound] & _LEFT:
                shorter = _ratio(left_common, len(wanted), left_size)
                if shorter > here:
                    here, size, begin, common = shorter, left_size, lower_bound, left_common
            if last.get(trigrams[lower_bound]) == lower_bound:
                left_size -= 1
                left_common -= trigrams[lower_bound] in wanted
        greatest = max(greatest, here)
        for passed in range(earlier, begin):
            if last.get(trigrams[passed]) == passed:
                del last[trigrams[passed]]
    return greatest


def _strict(pattern: str, text: str) -> float:
    return _word_similarity(pattern, text, True)


Measure = Callable[[str, str], float]


def _register(name: str, measure: Measure, limit: str) -> None:
    """Registers a measure, the operators that compare it with the setting `limit`, and those that return a distance,
    each also with its arguments exchanged."""

    implement(name, measure, traits=(Trait.SLOW,))
    for suffix, function in (("", measure), ("commutator_", lambda left, right: measure(right, left))):
        _register_operators(name, suffix, function, limit)


def _register_operators(name: str, suffix: str, measure: Measure, limit: str) -> None:
    if name == "similarity" and suffix:
        return  # it is symmetrical
    implement(
        f"{name}_{suffix}op",
        lambda call, left, right: measure(left, right) >= getattr(call.format, limit),
        needs_context=True,
        traits=(Trait.SLOW,),
    )
    distance = "similarity_dist" if name == "similarity" else f"{name}_dist_{suffix}op"
    implement(distance, lambda left, right: to_single(1.0 - measure(left, right)), traits=(Trait.SLOW,))


_register("similarity", _similarity, "similarity_threshold")
_register("word_similarity", _word_similarity, "word_similarity_threshold")
_register("strict_word_similarity", _strict, "strict_word_similarity_threshold")


@implements("show_limit", needs_context=True)
def _show_limit(call: CallContext) -> float:
    return to_single(call.format.similarity_threshold)


@implements("set_limit", needs_session=True, traits=(Trait.SESSION_ONLY,))
def _set_limit(call: CallContext, limit: float) -> float:
    shown = f"{limit:.6g}"
    if not 0 <= limit <= 1:
        message = f'{shown} is outside the valid range for parameter "pg_trgm.similarity_threshold" (0 .. 1)'
        raise SqlError("22023", message)
    call.session.set_setting("pg_trgm.similarity_threshold", shown, False)  # type: ignore[attr-defined]
    return limit
