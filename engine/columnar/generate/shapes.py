"""Statements whose arrays are no LISTs: of several dimensions, or not starting at 1.

A statement is generated over LISTs first. If that meets an array of another shape in its text, or the worker does among
the values (`ColumnarQuery.in_whole`), it is generated again with all arrays of built-in types as text.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

from catalog.types.base import FormatSettings
from engine.columnar.generate.forms import arrays_as_text
from engine.columnar.interface import ColumnarQuery
from engine.storage.columns import ShapedArray


def with_whole(make: Callable[[FormatSettings], ColumnarQuery], settings: FormatSettings) -> ColumnarQuery:
    """The query that `make` makes under the settings, over LISTs where that is possible."""

    @functools.lru_cache(maxsize=4)
    def in_whole(other: FormatSettings | None) -> ColumnarQuery:
        with arrays_as_text(True):
            return make(other or settings)

    try:
        return replace(make(settings), in_whole=in_whole)
    except ShapedArray:
        return in_whole(None)
