"""upper() and lower(): one character to one character, as C's towupper and towlower do.

Python's str.upper() maps some characters to several ('ß' to 'SS') and looks at neighbours for the Greek sigma; libc,
which PostgreSQL calls, does neither.
"""

from __future__ import annotations


def upper_character(char: str) -> str:
    mapped = char.upper()
    if len(mapped) > 1:
        mapped = char.title()  # Greek letters with iota below have a single capital of their own
    return mapped if len(mapped) == 1 else char


def lower_character(char: str) -> str:
    return char.lower()[0]


def upper(text: str) -> str:
    return text.upper() if text.isascii() else "".join(map(upper_character, text))


def lower(text: str) -> str:
    return text.lower() if text.isascii() else "".join(map(lower_character, text))
