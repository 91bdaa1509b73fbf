"""Which values are long, and who reads them.

A step of C keeps the interpreter, and reading takes many: a thread of the server that read megabytes would hold
everybody. So there is a reader that does it elsewhere, where one is in use (catalog/types/beside.py): it is made of the
types, which know nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from catalog.types.base import FormatSettings, SqlType

LONG_JSON = 2 << 20  # characters, which take 0.1 s
LONG = 1 << 20  # characters or bytes of other types
LONG_SORTED = 1 << 18  # the same of types that put their parts in order, which is one step of C
SOME = 1 << 14  # from which on what is stored of a value is worth making at once


class Reader(Protocol):
    """Who reads long values in place of a thread."""

    def holds_others(self) -> bool:
        """Whether the calling thread would hold others."""

    def value(self, sql_type: SqlType, kind: str, data: bytes, settings: FormatSettings | None, typmod: int) -> bytes:
        """What is stored of a value; kind: text or binary. Raises what the type's function raises, 53200, 57014."""

    def json(self, text: str, kind: str) -> str:
        """The canonical text for the kind jsonb, "" for check. Raises what the reading raises here."""


_reader: Reader | None = None


def use(reader: Reader) -> None:
    """It reads from now on."""
    global _reader
    _reader = reader


def reader() -> Reader | None:
    """Who reads for the calling thread; None: the thread itself."""
    return _reader if _reader is not None and _reader.holds_others() else None


def json_reader(text: str) -> Reader | None:
    """The same of JSON."""
    return reader() if len(text) > LONG_JSON else None


def text_reader(
    sql_type: SqlType, decode: Callable[[str], object], settings: FormatSettings, typmod: int, long: int
) -> Callable[[str], object]:
    """The input function of a type, `decode`, as threads are to call it."""

    def read(text: str) -> object:
        if len(text) < SOME or (other := reader()) is None:
            return decode(text)
        if len(text) <= long:
            return sql_type.with_stored(decode(text))
        return sql_type.of_stored(other.value(sql_type, "text", text.encode(), settings, typmod))

    return read


def binary_reader(
    sql_type: SqlType, decode: Callable[[bytes], object], typmod: int, long: int
) -> Callable[[bytes], object]:
    """The same of its receive function."""

    def read(data: bytes) -> object:
        if len(data) < SOME or (other := reader()) is None:
            return decode(data)
        if len(data) <= long:
            return sql_type.with_stored(decode(data))
        return sql_type.of_stored(other.value(sql_type, "binary", data, None, typmod))

    return read
