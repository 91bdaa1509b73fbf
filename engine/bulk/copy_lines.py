"""COPY data into lines, and lines into fields: PostgreSQL's rules character by character, done by regular expressions.

    cut           how much of a buffer are whole lines, so that pieces can be parsed on their own
    LineReader    the lines of one COPY, piece after piece: their numbers, kinds of line end, the end-of-data mark
    text_fields   a line of the text format;   csv_fields  one of CSV

A line of the text format may hold a newline behind a backslash; one of CSV may hold newlines between quotes. What ends
lines (newline, carriage return, or both) is told by the first one and must not change (copyfromparse.c).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from catalog.errors import SqlError
from engine.bulk.copy_options import CopyOptions

NEWLINE, RETURN = b"\n", b"\r"
_ESCAPES = {
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
}
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|x[0-9A-Fa-f]{1,2}|[\s\S]|$)")
_PAIR = re.compile(rb"\\[\s\S]")

Fields = list[bytes | None]


@dataclass(frozen=True, slots=True)
class Line:
    """`number` counts from 1; `text` is the line as it came, without its end."""

    number: int
    text: bytes


def _line_pattern(options: CopyOptions) -> re.Pattern[bytes]:
    """A line without its end."""
    if not options.csv:
        return re.compile(rb"[^\\\n\r]*(?:\\[\s\S][^\\\n\r]*)*\\?")
    quote, escape = re.escape(options.quote.encode()), re.escape(options.escape.encode())
    if quote == escape:
        inside = rb"[^%b]*" % quote
    else:
        inside = rb"[^%b%b]*(?:%b[\s\S][^%b%b]*)*" % (quote, escape, escape, quote, escape)
    return re.compile(rb"[^%b\n\r]*(?:%b%b%b[^%b\n\r]*)*" % (quote, quote, inside, quote, quote))


class LineReader:
    """State of one COPY. `ended`: the end-of-data mark was met; whatever follows is ignored."""

    def __init__(self, options: CopyOptions) -> None:
        self.options = options
        self.number = 0  # of the last line
        self.end_of_line: bytes | None = None
        self.ended = False
        self._pattern = _line_pattern(options)
        self._quote = options.quote.encode()

    def count(self, data: bytes) -> int:
        """About how many lines the data has."""
        return count_byte(data, NEWLINE)

    # --- cutting -------------------------------------------------------------------------------------------------

    def cut(self, data: bytes) -> int:
        """How many bytes of `data`, which begins at a line's start, are whole lines."""
        mark = RETURN if self.end_of_line == RETURN or NEWLINE not in data else NEWLINE
        end = len(data)
        if mark == RETURN and self.end_of_line != RETURN:
            end -= 1  # a newline may follow
        if self.options.csv and self.options.escape != self.options.quote:
            return self._cut_lines(data[:end])
        quotes = count_byte(data, self._quote, end) if self.options.csv else 0
        while (place := data.rfind(mark, 0, end)) >= 0:
            if self.options.csv:
                quotes -= data.count(self._quote, place, end)
                if quotes % 2 == 0:
                    return place + 1
            elif not _escaped(data, place):
                return place + 1
            end = place
        return 0

    def _cut_lines(self, data: bytes) -> int:
        done = place = 0
        while place < len(data):
            match = self._pattern.match(data, place)
            assert match is not None
            if match.end() >= len(data) or data[match.end() : match.end() + 1] not in (NEWLINE, RETURN):
                break
            done = place = match.end() + 1
        return done

    # --- reading -------------------------------------------------------------------------------------------------

    def lines(self, data: bytes) -> Iterator[Line]:
        """The lines of a piece. Raises 22P04 with the line's number as context."""
        place = 0
        match = self._pattern.match
        while place < len(data) and not self.ended:
            found = match(data, place)
            assert found is not None
            text = found.group()
            self.number += 1
            place = found.end()
            stop = data[place : place + 1]
            if self.options.csv:
                if stop == self._quote:  # the quote is never closed: the line takes all that is left
                    text, place = data[found.start() :], len(data)
                self._count_inside(text)
                if text == b"\\." and stop in (b"", NEWLINE, RETURN):
                    self.ended = True
                    return
            elif b"\\." in text:
                text = self._up_to_mark(text, data[place : place + 2])
                if self.ended:
                    if text:
                        yield Line(self.number, text)
                    return
            place += self._end_line(data, place)
            yield Line(self.number, text)

    def _count_inside(self, text: bytes) -> None:
        self.number += text.count(NEWLINE if self.end_of_line == NEWLINE else RETURN)

    def _end_line(self, data: bytes, place: int) -> int:
        """How many bytes end the line here. Raises 22P04 for another end than the lines before had."""
        stop, known = data[place : place + 1], self.end_of_line
        if stop == RETURN:
            if known == NEWLINE:
                raise self._literal("carriage return", "\\r")
            if known != RETURN and data[place + 1 : place + 2] == NEWLINE:
                self.end_of_line = b"\r\n"
                return 2
            if known == b"\r\n":
                raise self._literal("carriage return", "\\r")
            self.end_of_line = RETURN
        elif stop == NEWLINE:
            if known not in (None, NEWLINE):
                raise self._literal("newline", "\\n")
            self.end_of_line = NEWLINE
        return 1

    def _literal(self, what: str, written: str) -> SqlError:
        if self.options.csv:
            message, hint = f"unquoted {what} found in data", f"Use quoted CSV field to represent {what}."
        else:
            message, hint = f"literal {what} found in data", f'Use "{written}" to represent {what}.'
        return SqlError("22P04", message, hint=hint)

    def _up_to_mark(self, text: bytes, after: bytes) -> bytes:
        """The line up to an end-of-data mark in it, if there is one."""
        for pair in _PAIR.finditer(text):
            if pair.group() != b"\\.":
                continue
            if pair.end() < len(text):
                raise SqlError("22P04", "end-of-copy marker corrupt")
            if self.end_of_line is not None and after and not after.startswith(self.end_of_line):
                raise SqlError("22P04", "end-of-copy marker does not match previous newline style")
            self.ended = True
            return text[: pair.start()]
        return text


def count_byte(data: bytes, byte: bytes, end: int | None = None) -> int:
    """How often a single byte is in the data, up to `end`. bytes.count keeps the interpreter meanwhile, for a
    millisecond where there are many; NumPy lets go of it."""
    return int(np.count_nonzero(np.frombuffer(data, np.uint8)[:end] == byte[0]))


def _escaped(data: bytes, place: int) -> bool:
    """Whether an odd number of backslashes stands before this place."""
    start = place
    while start and data[start - 1] == 0x5C:
        start -= 1
    return (place - start) % 2 == 1


# --- fields ----------------------------------------------------------------------------------------------------------

Splitter = Callable[[bytes], Fields]


def splitter(options: CopyOptions) -> Splitter:
    """Makes the function from a line's text to its fields, NULL as None."""
    return _csv_splitter(options) if options.csv else _text_splitter(options)


def _text_splitter(options: CopyOptions) -> Splitter:
    delimiter, null = options.delimiter.encode(), options.null.encode()
    pattern = re.compile(rb"([^\\%b]*(?:\\[\s\S][^\\%b]*)*\\?)(?:%b|$)" % ((re.escape(delimiter),) * 3))

    def split(line: bytes) -> Fields:
        if b"\\" not in line:
            return [None if field == null else field for field in line.split(delimiter)]
        fields: Fields = []
        place = 0
        while True:
            match = pattern.match(line, place)
            assert match is not None
            raw = match.group(1)
            fields.append(None if raw == null else unescape(raw))
            place = match.end()
            if match.end() == match.end(1):
                return fields

    return split


def unescape(field: bytes) -> bytes:
    """A field of the text format without its backslashes."""
    return _ESCAPE.sub(_escape_value, field) if b"\\" in field else field


def _escape_value(match: re.Match[bytes]) -> bytes:
    code = match.group(1)
    if code[:1].isdigit() and code[0] < 0x38:
        return bytes((int(code, 8) & 0xFF,))
    if len(code) > 1:
        return bytes((int(code[1:], 16),))
    return _ESCAPES.get(code, code)


def _csv_splitter(options: CopyOptions) -> Splitter:
    delimiter, null = options.delimiter.encode(), options.null.encode()
    quote, escape = re.escape(options.quote.encode()), re.escape(options.escape.encode())
    if quote == escape:
        inside = re.compile(rb"([^%b]*(?:%b%b[^%b]*)*)%b" % ((quote,) * 5))
    else:
        inside = re.compile(rb"([^%b%b]*(?:%b[\s\S][^%b%b]*)*)%b" % (quote, escape, escape, quote, escape, quote))
    escaped = re.compile(rb"%b([%b%b])" % (escape, quote, escape))
    plain = re.compile(rb"[^%b%b]*" % (quote, re.escape(delimiter)))
    quote = options.quote.encode()

    def split(line: bytes) -> Fields:
        if quote not in line:
            return [None if field == null else field for field in line.split(delimiter)]
        fields: Fields = []
        place = 0
        while True:
            parts: list[bytes] = []
            quoted = False
            while True:
                match = plain.match(line, place)
                assert match is not None
                parts.append(match.group())
                place = match.end()
                if line[place : place + 1] != quote:
                    break
                quoted = True
                match = inside.match(line, place + 1)
                if match is None:
                    raise SqlError("22P04", "unterminated CSV quoted field")
                parts.append(escaped.sub(rb"\1", match.group(1)))
                place = match.end()
            field = b"".join(parts)
            fields.append(None if not quoted and field == null else field)
            if place >= len(line):
                return fields
            place += 1

    return split
