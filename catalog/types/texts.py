"""Functions for the text forms of several types: PostgreSQL's white space, its errors, escaped key bytes."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from catalog.errors import SqlError

WHITESPACE = " \t\n\v\f\r"  # isspace() of the C locale


def bad_syntax(type_name: str, text: str) -> SqlError:
    """Returns error 22P02, with the message of every input function."""
    return SqlError("22P02", f'invalid input syntax for type {type_name}: "{text}"')


def out_of_range(type_name: str, text: str) -> SqlError:
    """Returns error 22003, with the message of the integer input functions."""
    return SqlError("22003", f'value "{text}" is out of range for type {type_name}')


def wrong_length(data: bytes, length: int) -> SqlError:
    """Returns the error for a binary value with fewer bytes (08P01) or more bytes (22P03) than its type has."""
    if len(data) < length:
        return SqlError("08P01", "insufficient data left in message")
    return SqlError("22P03", "incorrect binary data format")


_WITHIN = re.compile(r'[^"\\]+')


@lru_cache(16)
def _plain(stops: str) -> Callable[[str, int], re.Match[str] | None]:
    """Returns a matcher of literal characters outside of quotes."""
    return re.compile(rf'[^"\\{re.escape(stops)}]+').match


def read_part(text: str, at: int, stops: str, malformed: Callable[[str, str], SqlError]) -> tuple[str | None, int]:
    """Reads a field of a row or a bound of a range, up to one of `stops`. Returns it, None if it is empty, and its end.
    Quotes may be anywhere in it. Raises the error that `malformed` makes from the text and a detail."""
    if text[at : at + 1] in tuple(stops):
        return None, at
    parts: list[str] = []
    quoted = False
    plain, within = _plain(stops), _WITHIN.match
    while True:
        run = within(text, at) if quoted else plain(text, at)
        if run is not None:
            parts.append(run[0])
            at = run.end()
        char = text[at : at + 1]
        if not char:
            raise malformed(text, "Unexpected end of input.")
        if not quoted and char in stops:
            return "".join(parts), at
        at += 1
        if char == "\\":
            if at >= len(text):
                raise malformed(text, "Unexpected end of input.")
            parts.append(text[at])
            at += 1
        elif char == '"':
            if not quoted:
                quoted = True
            elif text.startswith('"', at):
                parts.append('"')
                at += 1
            else:
                quoted = False


def null_byte() -> SqlError:
    """Returns error 22021: text in PostgreSQL contains no NUL."""
    return SqlError("22021", 'invalid byte sequence for encoding "UTF8": 0x00')


def decode_utf8(data: bytes) -> str:
    """Decodes a client's text. Raises 22021 with the invalid bytes, as pg_verifymbstr does."""
    try:
        text = str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise _bad_utf8(data, error.start) from None
    if "\0" in text:
        raise null_byte()
    return text


def _bad_utf8(data: bytes, start: int) -> SqlError:
    lead = data[start]
    wanted = 1 if lead >= 0xF8 else 4 if lead >= 0xF0 else 3 if lead >= 0xE0 else 2 if lead >= 0xC0 else 1
    shown = " ".join(f"0x{byte:02x}" for byte in data[start : start + wanted])
    return SqlError("22021", f'invalid byte sequence for encoding "UTF8": {shown}')


def text_key(value: str) -> bytes:
    """Returns an order-preserving, self-delimiting key: UTF-8 (which contains no NUL) and a NUL."""
    return value.encode() + b"\0"
