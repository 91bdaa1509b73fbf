"""Reads JSON text: fast if it is valid, and slowly if not, to raise PostgreSQL's errors.

Python's C scanner checks and decodes valid text. If it fails, or the text contains escapes that need a check (jsonb has
no \\u0000 and no half of a surrogate pair), the lexer of this module reads the text again by PostgreSQL's rules.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NoReturn

from catalog.errors import SqlError

_CONTEXT_BYTES = 50


class Number(str):
    """The text of a number."""

    __slots__ = ()


class Pairs(list[tuple[str, object]]):
    """An object's members in the order of the text, including repeated keys."""

    __slots__ = ()


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(text)  # NaN and Infinity, which Python would accept


def _nothing(_: object) -> None:
    """Discards a part of a text that is only checked, to save memory."""


def decoder(number: Callable[[str], object], pairs: Callable[[list[tuple[str, object]]], object]) -> json.JSONDecoder:
    """Returns a decoder for `decode_by` that converts numbers and objects by these functions."""
    return json.JSONDecoder(
        parse_float=number, parse_int=number, parse_constant=_refuse_constant, object_pairs_hook=pairs
    )


_CHECKER, _DECODER = decoder(_nothing, _nothing), decoder(Number, Pairs)


def check_json(text: str) -> None:
    """Raises 22P02 if the text is not JSON, 54001 if it is nested too deeply."""
    try:
        _CHECKER.decode(text)
    except ValueError:
        _Lexer(text, unescape=False).check()
        raise
    except RecursionError:
        raise _too_deep() from None


def decode_json(text: str) -> object:
    """Returns None, bool, `Number`, str, list or `Pairs`. Raises the errors of `check_json`, and 22P05 for \\u0000."""
    return decode_by(_DECODER, text)


def decode_by(decoder: json.JSONDecoder, text: str) -> object:
    """Decodes a text by a decoder. Raises the errors of `decode_json`."""
    try:
        if "\\u" in text:
            _Lexer(text, unescape=True).check()
        return decoder.decode(text)
    except ValueError:
        _Lexer(text, unescape=True).check()
        raise
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> SqlError:
    return SqlError("54001", "stack depth limit exceeded")


_SPACE = re.compile(r"[ \t\n\r]*")
_WORD = re.compile(r"[A-Za-z0-9_\x80-\U0010ffff]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
_NUMBER_SCRAPS = re.compile(r"-?(?:0|[1-9][0-9]*)?(?:\.[0-9]*)?(?:[eE][+-]?[0-9]*)?", re.ASCII)
_HEX = re.compile(r"[0-9A-Fa-f]")
_LITERALS = {"true": "literal", "false": "literal", "null": "literal"}


class _Lexer:
    """PostgreSQL's JSON lexer and parser, for their errors."""

    def __init__(self, text: str, unescape: bool) -> None:
        self.text = text
        self.unescape = unescape
        self.start = 0  # of the current token
        self.end = 0  # after the current token
        self.line = 1
        self.line_start = 0
        self.kind = ""  # { } [ ] , : string number literal, or 'end'

    # --- complaints --------------------------------------------------------------------------------------------
    def _fail(
        self, detail: str, sqlstate: str = "22P02", message: str = "invalid input syntax for type json"
    ) -> NoReturn:
        raise SqlError(sqlstate, message, detail=detail, context=self._context())

    def _context(self) -> str:
        start = max(self.line_start, self.end - _CONTEXT_BYTES)  # as many characters as bytes are always enough
        while len(self.text[start : self.end].encode(errors="surrogatepass")) >= _CONTEXT_BYTES:
            start += 1
        if start - self.line_start <= 3 and len(self.text[self.line_start : start].encode()) <= 3:
            start = self.line_start
        before = "..." if start > self.line_start else ""
        following = self.text[self.end : self.end + 1]
        after = "..." if self.kind != "end" and following not in ("", "\n", "\r") else ""
        return f"JSON data, line {self.line}: {before}{self.text[start : self.end]}{after}"

    def _fail_expecting(self, what: str) -> NoReturn:
        if self.kind == "end":
            self._fail("The input string ended unexpectedly.")
        self._fail(f'{what}, but found "{self.text[self.start : self.end]}".')

    def _invalid_token(self, end: int) -> NoReturn:
        self.end = end
        self.kind = "invalid"
        self._fail(f'Token "{self.text[self.start : end]}" is invalid.')

    # --- tokens ------------------------------------------------------------------------------------------------
    def advance(self) -> None:
        text = self.text
        space = _SPACE.match(text, self.end)
        assert space is not None
        newline = text.rfind("\n", self.end, space.end())
        if newline >= 0:
            self.line += text.count("\n", self.end, space.end())
            self.line_start = newline + 1
        self.start = space.end()
        first = text[self.start : self.start + 1]
        if not first:
            self.kind, self.end = "end", self.start
        elif first in "{}[],:":
            self.kind, self.end = first, self.start + 1
        elif first == '"':
            self._string()
        elif first == "-" or first in "0123456789":
            self._number()
        else:
            self._word()

    def _number(self) -> None:
        match = _NUMBER.match(self.text, self.start)
        scraps = _NUMBER_SCRAPS.match(self.text, self.start)
        assert scraps is not None
        word = _WORD.match(self.text, scraps.end())
        assert word is not None
        if match is None or word.end() != match.end():
            self._invalid_token(word.end())
        self.kind, self.end = "number", match.end()

    def _word(self) -> None:
        match = _WORD.match(self.text, self.start)
        assert match is not None
        if match.end() == self.start:
            self._invalid_token(self.start + 1)
        if match[0] not in _LITERALS:
            self._invalid_token(match.end())
        self.kind, self.end = _LITERALS[match[0]], match.end()

    def _string(self) -> None:
        text, position = self.text, self.start + 1
        self.kind = "string"
        high = False  # the first half of a surrogate pair has been read
        while True:
            character = text[position : position + 1]
            if not character:
                self._invalid_token(position)
            if character == "\\":
                position, high = self._escape(position + 1, high)
                continue
            if high:
                self.end = position + 1
                self._low_surrogate()
            if character == '"':
                self.end = position + 1
                return
            if character < " ":
                self.end = position
                self._fail(f"Character with value 0x{ord(character):02x} must be escaped.")
            position += 1

    def _low_surrogate(self) -> NoReturn:
        self._fail("Unicode low surrogate must follow a high surrogate.")

    def _escape(self, position: int, high: bool) -> tuple[int, bool]:
        """Reads an escape; `position` is after the backslash. Returns the position after the escape, and whether the
        first half of a surrogate pair has been read."""
        text = self.text
        letter = text[position : position + 1]
        if not letter:
            self._invalid_token(position)
        if letter != "u":
            if high:
                self.end = position + 1
                self._low_surrogate()
            if letter not in '"\\/bfnrt':
                self.start, self.end = position, position + 1
                self._fail(f'Escape sequence "\\{letter}" is invalid.')
            return position + 1, False
        for place in range(position + 1, position + 5):
            digit = text[place : place + 1]
            if not digit:
                self._invalid_token(place)
            if not _HEX.match(digit):
                self.end = place + 1
                self._fail('"\\u" must be followed by four hexadecimal digits.')
        if not self.unescape:
            return position + 5, False
        code = int(text[position + 1 : position + 5], 16)
        self.end = position + 5
        if 0xD800 <= code < 0xDC00:
            if high:
                self._fail("Unicode high surrogate must not follow a high surrogate.")
            return position + 5, True
        if (0xDC00 <= code < 0xE000) != high:
            self._low_surrogate()
        if code == 0:
            self._fail("\\u0000 cannot be converted to text.", "22P05", "unsupported Unicode escape sequence")
        return position + 5, False

    # --- the grammar -------------------------------------------------------------------------------------------
    def check(self) -> None:
        """Raises PostgreSQL's error for the text; returns if PostgreSQL accepts it."""
        self.advance()
        self._value()
        if self.kind != "end":
            self._fail_expecting("Expected end of input")

    def _value(self) -> None:
        if self.kind == "{":
            self._object()
        elif self.kind == "[":
            self._array()
        elif self.kind in ("string", "number", "literal"):
            self.advance()
        else:
            self._fail_expecting("Expected JSON value")

    def _object(self) -> None:
        self.advance()
        if self.kind == "string":
            self._member()
            while self.kind == ",":
                self.advance()
                self._member()
        elif self.kind != "}":
            self._fail_expecting('Expected string or "}"')
        if self.kind != "}":
            self._fail_expecting('Expected "," or "}"')
        self.advance()

    def _member(self) -> None:
        if self.kind != "string":
            self._fail_expecting("Expected string")
        self.advance()
        if self.kind != ":":
            self._fail_expecting('Expected ":"')
        self.advance()
        self._value()

    def _array(self) -> None:
        self.advance()
        if self.kind != "]":
            self._value()
            while self.kind == ",":
                self.advance()
                self._value()
        if self.kind != "]":
            self._fail_expecting('Expected "," or "]"')
        self.advance()
