"""Enums. Internal form: `int`, the position of the label, which has the order of the labels.

The position of a label never changes: ALTER TYPE ... RENAME VALUE changes the label's text, ADD VALUE chooses a number
between its neighbours. So rows, keys and columns contain plain integers, and new labels change no data.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, cast

from catalog.errors import SqlError, not_supported
from catalog.types.base import DEFAULT_FORMAT, Columns, FormatSettings, Layout, SqlType, Storage
from catalog.types.registry import format_type

GAP = 1 << 40  # between labels that are created together
_BIAS = 1 << 63
MAX_LABEL_BYTES = 63


def position_between(before: int | None, after: int | None) -> int:
    """Returns a position after `before` and before `after` (None: the end). Raises 0A000 if there is none left."""
    if before is None:
        return GAP if after is None else after - GAP
    if after is None:
        return before + GAP
    if after - before < 2:
        not_supported("more values of an enum between these two")
    return (before + after) // 2


class EnumType(SqlType):
    """One enum. `labels`: (text, position), in their order."""

    category = "E"
    preferred = False
    length = 4
    storage = Storage("q")
    columns = Columns(layout=Layout.NUMBERS, arrow="int64")

    def __init__(self, oid: int, array_oid: int, name: str, labels: Sequence[tuple[str, int]]) -> None:
        self.oid = oid
        self.array_oid = array_oid
        self.name = self.sql_name = name
        self.labels = tuple(labels)
        self.positions = dict(labels)
        self.texts = {position: label.encode() for label, position in labels}

    def _position(self, text: str) -> object:
        found = self.positions.get(text)
        if found is None:
            raise SqlError("22P02", f'invalid input value for enum {format_type(self.oid)}: "{text}"')
        return found

    def _text(self, value: Any) -> bytes:
        found = self.texts.get(value)
        if found is None:
            raise SqlError("22P03", f"invalid internal value for enum: {value}")
        return found

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        return self._position

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[object], bytes]:
        return self._text

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        return lambda data: self._position(data.decode())

    def binary_encoder(self) -> Callable[[object], bytes]:
        return self._text

    def key_encoder(self) -> Callable[[object], bytes]:
        pack = struct.Struct(">Q").pack
        return lambda value: pack(cast(int, value) + _BIAS)

    def duckdb_type(self, typmod: int = -1) -> str:
        return "BIGINT"
