"""upper(), lower() and initcap(): one character to one character, as C's towupper and towlower do.

Python's str.upper() maps some characters to several ('ß' to 'SS') and looks at neighbours for the Greek sigma; libc,
which PostgreSQL calls, does neither.
"""

from __future__ import annotations


def _upper_character(char: str) -> str:
    mapped = char.upper()
    if len(mapped) > 1:
        mapped = char.title()  # Greek letters with iota below have a single capital of their own
    return mapped if len(mapped) == 1 else char


def _lower_character(char: str) -> str:
    return char.lower()[0]


def upper(text: str) -> str:
    return text.upper() if text.isascii() else "".join(map(_upper_character, text))


def lower(text: str) -> str:
    return text.lower() if text.isascii() else "".join(map(_lower_character, text))


def initcap(text: str) -> str:
    """The first letter of each word upper case, the rest lower; words are runs of letters and digits."""
    result, inside = [], False
    for char in text:
        result.append(_lower_character(char) if inside else _upper_character(char))
        inside = char.isalnum()
    return "".join(result)
