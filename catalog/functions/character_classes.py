"""Sets of characters, and the POSIX classes of the C.UTF-8 locale (catalog/data/character_classes.tsv)."""

from __future__ import annotations

import bisect
import functools
import pathlib
from collections.abc import Iterable

from catalog.functions.letter_case import lower, upper

Ranges = tuple[tuple[int, int], ...]  # sorted, disjoint, both ends included
_LAST = 0x10FFFF
_LAST_OF_ASCII = 127
EVERYTHING: Ranges = ((0, _LAST),)


def normalize_ranges(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Sorts ranges, and joins those that overlap or adjoin."""
    result: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if result and low <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(result[-1][1], high))
        else:
            result.append((low, high))
    return tuple(result)


def complement(ranges: Ranges) -> Ranges:
    result, start = [], 0
    for low, high in ranges:
        if low > start:
            result.append((start, low - 1))
        start = high + 1
    if start <= _LAST:
        result.append((start, _LAST))
    return tuple(result)


def contains(ranges: Ranges, code: int) -> bool:
    index = bisect.bisect_right(ranges, (code, _LAST)) - 1
    return index >= 0 and ranges[index][1] >= code


@functools.cache
def classes(ascii_only: bool = False) -> dict[str, Ranges]:
    """Returns every class by its name; `ascii_only`: the classes of the C locale."""
    found = _classes()
    if not ascii_only:
        return found
    return {
        name: tuple((low, min(high, _LAST_OF_ASCII)) for low, high in ranges if low <= _LAST_OF_ASCII)
        for name, ranges in found.items()
    }


@functools.cache
def _classes() -> dict[str, Ranges]:
    path = pathlib.Path(__file__).resolve().parent.parent / "data" / "character_classes.tsv"
    result: dict[str, Ranges] = {}
    for line in path.read_text().splitlines()[1:]:
        name, ranges = line.split("\t")
        pairs = (item.partition("-") for item in ranges.split(" "))
        result[name] = tuple((int(low, 16), int(high or low, 16)) for low, _, high in pairs)
    result["word"] = normalize_ranges((*result["alnum"], (95, 95)))
    return result


@functools.cache
def _characters_with_case() -> tuple[int, ...]:
    """Returns every character of the classes upper and lower."""
    found = (code for name in ("upper", "lower") for low, high in classes()[name] for code in range(low, high + 1))
    return tuple(sorted(set(found)))


def both_cases(ranges: Ranges, ascii_only: bool = False) -> Ranges:
    """Adds the upper and lower case of every member, or of ASCII members only."""
    cased, added = _characters_with_case(), []
    for low, high in ranges:
        last = min(high, _LAST_OF_ASCII) if ascii_only else high
        members = cased[bisect.bisect_left(cased, low) : bisect.bisect_right(cased, last)]
        for code in members:
            char = chr(code)
            added += [(ord(other), ord(other)) for other in (lower(char), upper(char)) if other != char]
    return normalize_ranges((*ranges, *added)) if added else ranges


@functools.lru_cache(maxsize=4096)
def is_alphanumeric(char: str) -> bool:
    return contains(classes()["alnum"], ord(char))
