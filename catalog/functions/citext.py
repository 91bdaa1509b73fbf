"""The extension citext: case-insensitive comparisons, and case-insensitive versions of text functions."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

from catalog.functions import regex
from catalog.functions.letter_case import lower, upper
from catalog.functions.registry import implement
from catalog.functions.text import translate
from catalog.types.base import Array

_SPECIAL = re.compile("([^a-zA-Z_0-9])")
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def _flags(letters: str = "") -> str:
    """Adds the flag `i`, unless the flags contain `c`."""
    return letters if "c" in letters else letters + "i"


def _literal(text: str) -> str:
    """Returns a regular expression that matches the text literally."""
    return _SPECIAL.sub(r"\\\1", text)


def _compare(left: str, right: str) -> int:
    one, other = lower(left), lower(right)
    return int(one > other) - int(one < other)


def _split_part(text: str, separator: str, number: int) -> str | None:
    parts: Array = regex.split_to_array(text, _literal(separator), "i")
    found = parts.elements[number - 1] if 0 < number <= len(parts.elements) else None
    return None if found is None else str(found)


def _by_lower(compare: Callable[[str, str], bool]) -> Callable[[str, str], bool]:
    return lambda left, right: compare(lower(left), lower(right))


def _register() -> None:
    for suffix in _COMPARISONS:
        compare = _by_lower(getattr(operator, suffix))
        implement(f"citext_{suffix}", compare)
        if suffix not in ("eq", "ne"):
            implement(f"citext_pattern_{suffix}", compare)
    implement("citext_cmp", _compare)
    implement("citext_pattern_cmp", _compare)
    implement("citext_larger", lambda left, right: left if _compare(left, right) > 0 else right)
    implement("citext_smaller", lambda left, right: left if _compare(left, right) < 0 else right)
    for name, function in (
        ("regexp_match", regex.regexp_match),
        ("regexp_matches", regex.regexp_matches),
        ("regexp_split_to_array", regex.split_to_array),
        ("regexp_split_to_table", regex.split_to_table),
    ):
        implement(f"citext_{name}", _ignoring_case(function))
    implement(
        "citext_regexp_replace",
        lambda text, pattern, new, letters="": regex.replace(text, pattern, new, _flags(letters)),
    )
    implement("citext_replace", lambda text, old, new: regex.replace(text, _literal(old), new, "gi"))
    implement("citext_split_part", _split_part)
    implement("citext_strpos", lambda text, part: lower(text).find(lower(part)) + 1)
    implement("citext_translate", lambda text, old, new: translate(translate(text, lower(old), new), upper(old), new))


def _ignoring_case(function: Callable[[str, str, str], object]) -> Callable[..., object]:
    return lambda text, pattern, letters="": function(text, pattern, _flags(letters))


_register()
