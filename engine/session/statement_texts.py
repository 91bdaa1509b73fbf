"""The texts of statements as clients send them: their length, and valid characters."""

from __future__ import annotations

import re

from catalog.errors import SqlError

LONG_TEXT = 4096  # bytes of a statement whose parsing and planning take milliseconds and run in a thread
LONGEST_KEPT = 1 << 16  # characters of a statement whose plan is kept by its text
_LETTERS = 64
_AS_OF = re.compile(r"\bas\s+of\s+(lsn|timestamp)\b", re.IGNORECASE)


def utf8(value: bytes) -> str:
    """Strict UTF-8 without NUL (22021), as every text from a client must be."""
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        bad = value[error.start : error.start + 4]
        shown = " ".join(f"0x{byte:02x}" for byte in bad)
        raise SqlError("22021", f'invalid byte sequence for encoding "UTF8": {shown}') from None
    if "\0" in text:
        raise SqlError("22021", 'invalid byte sequence for encoding "UTF8": 0x00')
    return text


def may_read_past(text: str) -> bool:
    """Whether the text of a statement may contain AS OF; engine/statements/as_of.py then decides, on the engine's
    thread. The word is searched first: the expression takes 5 ms for a megabyte, and holds the interpreter."""
    return _has_of(text) and _AS_OF.search(text) is not None


def _has_of(text: str) -> bool:
    """Long texts consist mostly of numbers, and a search for one letter takes a tenth of the time of a search for two.
    If there are many of these letters, the word is searched."""
    for letter in "oO":
        at = text.find(letter)
        for _ in range(_LETTERS):
            if at < 0:
                break
            if text[at + 1 : at + 2] in ("f", "F"):
                return True
            at = text.find(letter, at + 1)
        else:
            return any(word in text for word in ("of", "OF", "Of", "oF"))
    return False
