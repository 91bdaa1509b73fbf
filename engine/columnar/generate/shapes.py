"""Statements that are generated in another form: with arrays that are no LISTs, or numbers of more than 38 digits.

A statement is generated over LISTs first. If that meets an array of another shape in its text, or the worker does among
the values (`ColumnarQuery.in_whole`), it is generated again with all arrays of built-in types as text. Likewise where
DuckDB's DECIMAL cannot hold a numeric (`ColumnarQuery.in_digits`): it is generated again with all in the general form.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

from catalog.types.base import FormatSettings
from engine.columnar.generate.forms import arrays_as_text, numerics_as_text
from engine.columnar.interface import ColumnarQuery
from engine.storage.columns import ShapedArray


def with_whole(
    make: Callable[[FormatSettings], ColumnarQuery], settings: FormatSettings, digits: bool = False
) -> ColumnarQuery:
    """The query that `make` makes under the settings, over LISTs where that is possible. `digits`: whoever reads the
    rows takes numerics in the general form, whatever their columns are."""

    @functools.lru_cache(maxsize=4)
    def in_whole(other: FormatSettings | None) -> ColumnarQuery:
        with arrays_as_text(True):
            return make(other or settings)

    @functools.lru_cache(maxsize=4)
    def in_digits(other: FormatSettings | None) -> ColumnarQuery:
        with numerics_as_text():
            return make(other or settings)

    try:
        return replace(make(settings), in_whole=in_whole, in_digits=in_digits if digits else None)
    except ShapedArray:
        return in_whole(None)
