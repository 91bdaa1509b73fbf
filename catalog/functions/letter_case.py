"""upper() and lower(), which map one character to one character, as C's towupper and towlower do.

Python's str.upper() maps some characters to several ('ß' to 'SS'), and str.lower() depends on neighbours for the Greek
sigma; libc, which PostgreSQL calls, does neither.
"""

from __future__ import annotations

import re
import string

_UPPER = {ord(char): char.upper() for char in string.ascii_lowercase}
_LOWER = {ord(char): char.lower() for char in string.ascii_uppercase}
_WORD = re.compile(r"[A-Za-z0-9]+")


def upper_character(char: str) -> str:
    mapped = char.upper()
    if len(mapped) > 1:
        mapped = char.title()  # Greek letters with iota below have a title case of one character
    return mapped if len(mapped) == 1 else char


def lower_character(char: str) -> str:
    return char.lower()[0]


def upper(text: str) -> str:
    return text.upper() if text.isascii() else "".join(map(upper_character, text))


def lower(text: str) -> str:
    return text.lower() if text.isascii() else "".join(map(lower_character, text))


def ascii_upper(text: str) -> str:
    return text.upper() if text.isascii() else text.translate(_UPPER)


def ascii_lower(text: str) -> str:
    return text.lower() if text.isascii() else text.translate(_LOWER)


def ascii_initcap(text: str) -> str:
    """initcap() for ASCII: words are runs of ASCII letters and digits."""
    return _WORD.sub(lambda word: word[0].capitalize(), text)
