"""Numbers of any number of digits, as users write them."""

from __future__ import annotations

_MOST_DIGITS = 4000
_HUGE = 1 << 100


def int_of(text: str) -> int:
    """Returns an integer of digits with a sign. Python refuses to read more than 4300 digits at once: a longer number
    becomes a huge one, which no type of PostgreSQL but numeric can hold."""
    if len(text) <= _MOST_DIGITS:
        return int(text)
    digits = text.lstrip("+-").lstrip("0")
    value = int(digits or "0") if len(digits) <= _MOST_DIGITS else _HUGE
    return -value if text.startswith("-") else value
