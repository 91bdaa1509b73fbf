"""COPY TO for rows in the form of DataRow messages, and its header line. The worker writes whole results
(engine/columnar/datarow.py) by the same rules."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.bulk.copy_options import CopyOptions

if TYPE_CHECKING:
    from engine.execute.context import Field

_LENGTH = struct.Struct(">i")
_ESCAPED = {  # the backslash first: the others bring some
    b"\\": b"\\\\", b"\b": b"\\b", b"\f": b"\\f", b"\n": b"\\n", b"\r": b"\\r", b"\t": b"\\t", b"\v": b"\\v",
}  # fmt: skip


def copy_data(line: bytes) -> bytes:
    """One CopyData message."""
    return b"d" + _LENGTH.pack(len(line) + 4) + line


def header_line(names: Sequence[str], options: CopyOptions) -> bytes:
    """The message with the column names. FORCE_QUOTE does not apply to it."""
    alone = len(names) == 1
    fields = [_field(name.encode(), options, False, alone) for name in names]
    return copy_data(options.delimiter.encode().join(fields) + b"\n")


def data_rows_to_lines(data: bytes, fields: Sequence[Field], options: CopyOptions) -> bytes:
    """DataRow messages of text values as CopyData messages."""
    forced = [options.force_quote == "*" or field.name in options.force_quote for field in fields]
    delimiter, null = options.delimiter.encode(), options.null.encode()
    alone = len(fields) == 1
    made = []
    place = 0
    while place < len(data):
        place += 7
        cells = []
        for force in forced:
            (length,) = _LENGTH.unpack_from(data, place)
            place += 4
            if length < 0:
                cells.append(null)
                continue
            cells.append(_field(data[place : place + length], options, force, alone))
            place += length
        made.append(copy_data(delimiter.join(cells) + b"\n"))
    return b"".join(made)


def _field(value: bytes, options: CopyOptions, force: bool, alone: bool) -> bytes:
    if options.csv:
        return _csv_field(value, options, force, alone)
    for character, shown in _ESCAPED.items():
        value = value.replace(character, shown)
    delimiter = options.delimiter.encode()  # no letter of an escape: COPY takes none of them
    return value if delimiter in _ESCAPED else value.replace(delimiter, b"\\" + delimiter)


def _csv_field(value: bytes, options: CopyOptions, force: bool, alone: bool) -> bytes:
    quote, escape, delimiter = options.quote.encode(), options.escape.encode(), options.delimiter.encode()
    needed = (
        force
        or value == options.null.encode()
        or (alone and value == b"\\.")
        or any(mark in value for mark in (delimiter, quote, b"\n", b"\r"))
    )
    if not needed:
        return value
    if escape != quote:
        value = value.replace(escape, escape + escape)
    return quote + value.replace(quote, escape + quote) + quote
