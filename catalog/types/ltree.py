"""ltree, lquery and ltxtquery (the extension ltree; PostgreSQL 16 manual, F.23).

Internal form of all three: `str`, the text that PostgreSQL prints. An ltree is its labels with dots between them; it is
ordered by its labels, in bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from catalog.errors import SqlError
from catalog.functions.character_classes import is_alphanumeric
from catalog.functions.letter_case import lower
from catalog.text_caches import remembering
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, Columns, FormatSettings, Layout, Order, SqlType
from catalog.types.boolean_queries import Query, QueryReader, show
from catalog.types.text import TEXT
from catalog.types.texts import decode_utf8

MOST_LEVELS = 65535
_MOST_CHARACTERS = 1000  # of a label
_VERSION = 1  # the first byte of binary forms


def _is_label_char(char: str) -> bool:
    return char == "_" or is_alphanumeric(char)


def _bad(what: str, at: int) -> SqlError:
    return SqlError("42601", f"{what} syntax error at character {at + 1}")


def _unexpected_end(what: str) -> SqlError:
    return SqlError("42601", f"{what} syntax error", detail="Unexpected end of input.")


# ---- ltree ----------------------------------------------------------------------------------------------------------


def labels_of(value: str) -> list[str]:
    return value.split(".") if value else []


def check_levels(count: int) -> None:
    """54000 for too many labels."""
    if count > MOST_LEVELS:
        message = f"number of ltree labels ({count}) exceeds the maximum allowed ({MOST_LEVELS})"
        raise SqlError("54000", message)


def _check_length(label: str, end: int) -> None:
    if len(label) > _MOST_CHARACTERS:
        what = f"Label length is {len(label)}, must be at most {_MOST_CHARACTERS}, at character {end + 1}."
        raise SqlError("42622", "label string is too long", detail=what)


def parse_ltree(text: str) -> str:
    """Raises 42601, 42622, 54000."""
    labels = labels_of(text)
    check_levels(len(labels))
    at = 0
    for label in labels:
        for place, char in enumerate(label):
            if not _is_label_char(char):
                raise _bad("ltree", at + place)
        at += len(label)
        if not label:
            raise _bad("ltree", at) if at < len(text) else _unexpected_end("ltree")
        _check_length(label, at)
        at += 1
    return text


# ---- a label in a query ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Label:
    """A label with modifiers: `words` (%), `folds` case (@), `begins` (*)."""

    text: str
    words: bool
    folds: bool
    begins: bool

    def show(self) -> str:
        return self.text + "%" * self.words + "@" * self.folds + "*" * self.begins

    def fits(self, label: str) -> bool:
        """Whether it matches a label of an ltree."""
        wanted, found = (lower(self.text), lower(label)) if self.folds else (self.text, label)
        if not self.words:
            return found.startswith(wanted) if self.begins else found == wanted
        parts = [part for part in found.split("_") if part]
        tests = (part for part in wanted.split("_") if part)
        return all(any(part.startswith(test) if self.begins else part == test for part in parts) for test in tests)


_MODIFIERS = re.compile(r"[%@*]*")


def _label_end(text: str, at: int) -> int:
    while at < len(text) and _is_label_char(text[at]):
        at += 1
    return at


def _label(text: str, at: int) -> tuple[Label, int]:
    """Reads a label with its modifiers. Returns it and where it ends."""
    end = _label_end(text, at)
    _check_length(text[at:end], end)
    found = _MODIFIERS.match(text, end)
    assert found is not None
    signs = found[0]
    return Label(text[at:end], "%" in signs, "@" in signs, "*" in signs), found.end()


# ---- lquery ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Level:
    """A level of an lquery: any of the labels, or none of them, `low` to `high` times. No labels: any label."""

    labels: tuple[Label, ...]
    excludes: bool
    low: int
    high: int
    counted: bool

    def fits(self, label: str) -> bool:
        return not self.labels or any(item.fits(label) for item in self.labels) != self.excludes

    def show(self) -> str:
        text = "!" * self.excludes + "|".join(item.show() for item in self.labels) or "*"
        if self.labels and not self.counted:
            return text
        if self.low == self.high:
            return f"{text}{{{self.low}}}"
        low = "" if self.low == 0 else str(self.low)
        high = "" if self.high == MOST_LEVELS else str(self.high)
        return text if not (low or high or self.labels) else f"{text}{{{low},{high}}}"


class _LevelReader:
    """Reads the levels of an lquery."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def levels(self) -> tuple[Level, ...]:
        found = [self._level()]
        while self.at < len(self.text):
            if self.text[self.at] != ".":
                raise _bad("lquery", self.at)
            self.at += 1
            found.append(self._level())
        if len(found) > MOST_LEVELS:
            message = f"number of lquery items ({len(found)}) exceeds the maximum allowed ({MOST_LEVELS})"
            raise SqlError("54000", message)
        return tuple(found)

    def _char(self) -> str:
        return self.text[self.at : self.at + 1]

    def _level(self) -> Level:
        if self._char() == "*":
            self.at += 1
            low, high = self._count() if self._char() == "{" else (0, MOST_LEVELS)
            return Level((), False, low, high, True)
        excludes = self._char() == "!"
        self.at += excludes
        labels = [self._label(excludes)]
        while self._char() == "|":
            self.at += 1
            labels.append(self._label(True))
        counted = self._char() == "{"
        low, high = self._count() if counted else (1, 1)
        return Level(tuple(labels), excludes, low, high, counted)

    def _label(self, begun: bool) -> Label:
        char = self._char()
        if not char and begun:
            message = f"lquery syntax error at character {self.at + 1}"
            raise SqlError("42601", message, detail="Empty labels are not allowed.")
        if not char:
            raise _unexpected_end("lquery")
        if not _is_label_char(char):
            raise _bad("lquery", self.at)
        found, self.at = _label(self.text, self.at)
        if self.at < len(self.text) and _is_label_char(self.text[self.at]):
            raise _bad("lquery", self.at)
        return found

    def _number(self) -> int | None:
        begin = self.at
        while self._char().isdecimal() and self._char().isascii():
            self.at += 1
        return int(self.text[begin : self.at]) if self.at > begin else None

    def _limit(self, which: str) -> int | None:
        begin = self.at
        found = self._number()
        if found is not None and found > MOST_LEVELS:
            detail = f"{which} limit ({found}) exceeds the maximum allowed ({MOST_LEVELS}), at character {begin + 1}."
            raise SqlError("54000", "lquery syntax error", detail=detail)
        return found

    def _count(self) -> tuple[int, int]:
        self.at += 1
        low = self._limit("Low")
        high = low
        begin = self.at
        if self._char() == ",":
            self.at += 1
            begin = self.at
            high = self._limit("High")
            high = MOST_LEVELS if high is None else high
        if not self._char():
            raise _unexpected_end("lquery")
        if self._char() != "}" or high is None:
            raise _bad("lquery", self.at)
        self.at += 1
        low = low or 0
        if low > high:
            detail = f"Low limit ({low}) is greater than high limit ({high}), at character {begin + 1}."
            raise SqlError("42601", "lquery syntax error", detail=detail)
        return low, high


@remembering(256)
def parse_lquery(text: str) -> tuple[Level, ...]:
    """Raises 42601, 42622, 54000."""
    return _LevelReader(text).levels()


def _normal_lquery(text: str) -> str:
    return ".".join(level.show() for level in parse_lquery(text))


# ---- ltxtquery ------------------------------------------------------------------------------------------------------


class _Reader(QueryReader):
    def operand(self) -> object:
        if self.at >= len(self.text) or not _is_label_char(self.text[self.at]):
            raise SqlError("42601", "operand syntax error")
        found, self.at = _label(self.text, self.at)
        if self.at < len(self.text) and _is_label_char(self.text[self.at]):
            raise SqlError("42601", "modifiers syntax error")
        return found


@remembering(256)
def parse_ltxtquery(text: str) -> Query:
    """Raises 42601, 42622."""
    return _Reader(text).whole()


def _normal_ltxtquery(text: str) -> str:
    return show(parse_ltxtquery(text), Label.show)


# ---- the types ------------------------------------------------------------------------------------------------------


class _Written(SqlType):
    """A type whose internal form is its text."""

    category = "U"
    preferred = False
    length = -1
    storage = TEXT.storage
    columns = Columns(layout=Layout.TEXT, printed=True)

    def __init__(self, oid: int, array_oid: int, name: str, parse: Callable[[str], str]) -> None:
        self.oid, self.array_oid, self.name, self.sql_name = oid, array_oid, name, name
        self._parse = parse

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        return self._parse

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[object], bytes]:
        return cast(Callable[[object], bytes], str.encode)

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        def receive(data: bytes) -> object:
            if not data:
                raise SqlError("08P01", "no data left in message")
            if data[0] != _VERSION:
                raise SqlError("XX000", f"unsupported {self.name} version number {data[0]}")
            return self._parse(decode_utf8(data[1:]))

        return receive

    def binary_encoder(self) -> Callable[[Any], bytes]:
        return lambda value: bytes((_VERSION,)) + value.encode()

    def duckdb_type(self, typmod: int = -1) -> str:
        return "VARCHAR"


def sort_key(value: str) -> bytes:
    """Bytes in the order of values: a label that another one begins with is before it, and a path before its
    children."""
    return value.replace(".", "\1").encode() + b"\1" if value else b""


class Ltree(_Written):
    """ltree."""

    columns = Columns(layout=Layout.TEXT, printed=True, order=Order.BY_KEY)

    def sort_key(self) -> Callable[[Any], object]:
        return sort_key

    def key_encoder(self) -> Callable[[Any], bytes]:
        return lambda value: sort_key(value) + b"\0"


LTREE = Ltree(oids.LTREE, oids.LTREE_ARRAY, "ltree", parse_ltree)
LQUERY = _Written(oids.LQUERY, oids.LQUERY_ARRAY, "lquery", _normal_lquery)
LTXTQUERY = _Written(oids.LTXTQUERY, oids.LTXTQUERY_ARRAY, "ltxtquery", _normal_ltxtquery)
