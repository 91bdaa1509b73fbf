"""Splits COPY data into lines, and lines into fields, by PostgreSQL's rules, with regular expressions.

    cut           the length of the complete lines in a buffer, so that pieces can be parsed on their own
    LineReader    the lines of one COPY, piece after piece: their numbers, line ends, the end-of-data mark
    text_fields   a line of the text format;   csv_fields  one of CSV

A line of the text format may contain a newline after a backslash, and one of CSV newlines between quotes. The first
line decides how lines end (newline, carriage return, or both), and this must not change (copyfromparse.c).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from catalog import processes
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

_AT_ONCE = 10_000  # escapes that one step of C processes while it holds the interpreter lock; some 0.1 ms
_LONG_FIELD = 1 << 16  # bytes, from which on no list of all escapes is made
_STEP = 1 << 20  # bytes that one step of C reads

Fields = list[bytes | None]


@dataclass(frozen=True, slots=True)
class Line:
    """`number` counts from 1; `text` is the line without its end."""

    number: int
    text: bytes


def _line_pattern(options: CopyOptions) -> re.Pattern[bytes]:
    """A pattern for a line without its end, up to the length of one step."""
    if not options.csv:
        return re.compile(rb"[^\\\n\r]*(?:\\[\s\S][^\\\n\r]*){0,%d}" % _AT_ONCE)
    quote, escape = re.escape(options.quote.encode()), re.escape(options.escape.encode())
    if quote == escape:
        inside = rb"[^%b]*" % quote
    else:
        inside = rb"[^%b%b]*(?:%b[\s\S][^%b%b]*)*" % (quote, escape, escape, quote, escape)
    return re.compile(rb"[^%b\n\r]*(?:%b%b%b[^%b\n\r]*){0,%d}" % (quote, quote, inside, quote, quote, _AT_ONCE))


class LineReader:
    """The state of one COPY. `ended`: the end-of-data mark was read, and later data is ignored."""

    def __init__(self, options: CopyOptions) -> None:
        self.options = options
        self.number = 0  # of the last line
        self.end_of_line: bytes | None = None
        self.ended = False
        self._pattern = _line_pattern(options)
        self._quote = options.quote.encode()

    def count(self, data: bytes) -> int:
        """The approximate number of lines in the data."""
        return count_byte(data, NEWLINE)

    # --- cutting -------------------------------------------------------------------------------------------------

    def cut(self, data: bytes) -> int:
        """The number of bytes of `data`, which begins at a line's start, that are complete lines."""
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
            elif not _is_escaped(data, place):
                return place + 1
            end = place
        return 0

    def _cut_lines(self, data: bytes) -> int:
        done = place = 0
        while place < len(data):
            end = self._line_end(data, place)
            if end >= len(data) or data[end : end + 1] not in (NEWLINE, RETURN):
                break
            done = place = end + 1
        return done

    def _line_end(self, data: bytes, place: int) -> int:
        """The end of the line that begins here."""
        match = self._pattern.match
        while (found := match(data, place)) is not None and found.end() > place:
            place = found.end()
            if data[place : place + 1] in (b"", NEWLINE, RETURN):
                break
            processes.check()
        if not self.options.csv and data[place : place + 1] == b"\\":  # the last byte of all
            place += 1
        return place

    # --- reading -------------------------------------------------------------------------------------------------

    def lines(self, data: bytes) -> Iterator[Line]:
        """The lines of a piece. Raises 22P04 with the line's number as context."""
        place = 0
        while place < len(data) and not self.ended:
            start, place = place, self._line_end(data, place)
            text = data[start:place]
            self.number += 1
            stop = data[place : place + 1]
            if self.options.csv:
                if stop == self._quote:  # the quote is never closed: the line takes all that is left
                    text, place = data[start:], len(data)
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
        """The length of the line end here. Raises 22P04 if it differs from earlier line ends."""
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
        """The line up to an end-of-data mark in it, or None."""
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
    """The number of occurrences of a byte in the data, up to `end`. bytes.count would hold the interpreter lock for up
    to a millisecond; NumPy releases it."""
    return int(np.count_nonzero(np.frombuffer(data, np.uint8)[:end] == byte[0]))


def _is_escaped(data: bytes, place: int, first: int = 0) -> bool:
    """Whether an odd number of backslashes precedes this position, counted from `first`."""
    start = place
    while start > first and data[start - 1] == 0x5C:
        start -= 1
    return (place - start) % 2 == 1


# --- fields ----------------------------------------------------------------------------------------------------------

Splitter = Callable[[bytes], Fields]


def splitter(options: CopyOptions) -> Splitter:
    """Makes the function that splits a line's text into fields. NULL is None."""
    return _csv_splitter(options) if options.csv else _text_splitter(options)


def _text_splitter(options: CopyOptions) -> Splitter:
    delimiter, null = options.delimiter.encode(), options.null.encode()

    def split(line: bytes) -> Fields:
        if b"\\" not in line:
            return [None if field == null else field for field in line.split(delimiter)]
        fields: Fields = []
        start = place = escaped = 0
        while True:
            place = line.find(delimiter, place)
            if place >= 0 and _is_escaped(line, place, start):
                place += 1
                escaped += 1
                if not escaped % _AT_ONCE:
                    processes.check()
                continue
            raw = line[start:] if place < 0 else line[start:place]
            fields.append(None if raw == null else unescape(raw))
            if place < 0:
                return fields
            start = place = place + 1

    return split


def unescape(field: bytes) -> bytes:
    """A field of the text format without its backslashes."""
    if b"\\" not in field:
        return field
    return _replace_each(_ESCAPE, _escape_value, field)


def _replace_each(pattern: re.Pattern[bytes], value: Callable[[re.Match[bytes]], bytes], field: bytes) -> bytes:
    """Replaces matches as pattern.sub() does, but without its list of all parts, which takes gigabytes for a long
    field."""
    if len(field) < _LONG_FIELD:
        return pattern.sub(value, field)
    made = bytearray()
    place = 0
    for number, match in enumerate(pattern.finditer(field)):
        if not number % _AT_ONCE:
            processes.check()
        made += field[place : match.start()]
        made += value(match)
        place = match.end()
    made += field[place:]
    return bytes(made)


def _single(inside: bytes, quote: bytes) -> bytes:
    """Returns the inside of a quoted field with one quote in place of each pair. A long field is processed in steps,
    because a single step of C would hold the interpreter lock all the time."""
    made = bytearray()
    place = 0
    while len(inside) - place > _STEP:
        processes.check()
        part = inside[place : place + _STEP]
        if (len(part) - len(part.rstrip(quote))) % 2:  # the second quote of the pair
            part += quote
        made += part.replace(quote + quote, quote)
        place += len(part)
    made += inside[place:].replace(quote + quote, quote)
    return bytes(made)


def _escape_value(match: re.Match[bytes]) -> bytes:
    code = match.group(1)
    if code[:1].isdigit() and code[0] < 0x38:
        return bytes((int(code, 8) & 0xFF,))
    if len(code) > 1:
        return bytes((int(code[1:], 16),))
    return _ESCAPES.get(code, code)


def _csv_splitter(options: CopyOptions) -> Splitter:
    delimiter, null = options.delimiter.encode(), options.null.encode()
    quote, escape = options.quote.encode(), options.escape.encode()
    escaped = re.compile(rb"%b([%b%b])" % (re.escape(escape), re.escape(quote), re.escape(escape)))
    plain = re.compile(rb"[^%b%b]{0,%d}" % (re.escape(quote), re.escape(delimiter), _STEP))
    find = re.compile(rb"[%b%b]" % (re.escape(quote), re.escape(escape))).search

    def close(line: bytes, place: int) -> int:
        """The position of the quote that closes a field, from the field's first byte. Raises 22P04."""
        number = 0
        while (found := find(line, place)) is not None:
            number += 1
            if not number % _AT_ONCE:
                processes.check()
            place = found.end()
            if found[0] == escape and (escape != quote or line[place : place + 1] == quote):
                place += 1  # after the escaped character
            else:
                return place - 1
        raise SqlError("22P04", "unterminated CSV quoted field")

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
                if place - match.start() == _STEP:
                    processes.check()
                    continue
                if line[place : place + 1] != quote:
                    break
                quoted = True
                end = close(line, place + 1)
                inside = line[place + 1 : end]
                if quote == escape:
                    parts.append(_single(inside, quote))
                else:
                    parts.append(_replace_each(escaped, lambda match: match[1], inside))
                place = end + 1
            field = b"".join(parts)
            fields.append(None if not quoted and field == null else field)
            if place >= len(line):
                return fields
            place += 1

    return split
