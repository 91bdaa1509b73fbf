"""The limits of long values, and the reader of long values.

A step of C holds the interpreter lock, and reading a value takes long steps: a thread of the server that read megabytes
would block all sessions. So a registered reader reads long values in a separate process (catalog/types/beside.py). The
reader uses the types; this module decouples them from the reader.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from catalog.types.base import FormatSettings, SqlType

LONG_JSON = 2 << 20  # characters, which take 0.1 s
LONG = 1 << 20  # characters or bytes of other types
LONG_SORTED = 1 << 18  # characters or bytes of types that sort their parts, which is one step of C
SOME = 1 << 14  # characters or bytes: a longer value keeps its stored form


class Reader(Protocol):
    """Reads long values instead of the calling thread."""

    def holds_others(self) -> bool:
        """Whether the calling thread could block others."""

    def value(self, sql_type: SqlType, kind: str, data: bytes, settings: FormatSettings | None, typmod: int) -> bytes:
        """Returns the stored form of a value; kind: text or binary. Raises the errors of the type's function, 53200,
        57014."""

    def json(self, text: str, kind: str) -> str:
        """Returns the canonical text for the kind jsonb, "" for check. Raises the errors of the JSON functions."""


_reader: Reader | None = None


def use(reader: Reader) -> None:
    """Registers the reader of long values."""
    global _reader
    _reader = reader


def reader() -> Reader | None:
    """Returns the reader for the calling thread; None if the thread itself should read."""
    return _reader if _reader is not None and _reader.holds_others() else None


def json_reader(text: str) -> Reader | None:
    """Returns the reader for a JSON text; None if the text is short or the thread itself should read."""
    return reader() if len(text) > LONG_JSON else None


def text_reader(
    sql_type: SqlType, decode: Callable[[str], object], settings: FormatSettings, typmod: int, long: int
) -> Callable[[str], object]:
    """Returns the input function of a type for statements: it calls `decode`, or the reader for values longer than
    `long` characters."""

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
    """Returns the same for the receive function; `long` is in bytes."""

    def read(data: bytes) -> object:
        if len(data) < SOME or (other := reader()) is None:
            return decode(data)
        if len(data) <= long:
            return sql_type.with_stored(decode(data))
        return sql_type.of_stored(other.value(sql_type, "binary", data, None, typmod))

    return read
