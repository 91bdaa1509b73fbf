"""Statements that are generated in another form: with arrays that are no LISTs, or numbers of many digits.

A statement is generated over LISTs first. If that meets an array of another shape in its text, or the worker does among
the values (`ColumnarQuery.in_whole`), it is generated again with all arrays of built-in types as text. Likewise where
DuckDB's DECIMAL cannot hold a numeric (`ColumnarQuery.in_digits`): it is generated again with all in the general form.

Products of DECIMALs of up to 18 digits are computed in 64 bits first, as DuckDB does by itself, where a statement has
given nothing when one is too large for that: below the aggregates of its outermost level. Then it is generated again
with products of 38 digits, which take three times as long.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

from catalog.types.base import FormatSettings
from engine.columnar.generate.forms import arrays_as_text, numerics_as_text, short_products
from engine.columnar.interface import ColumnarQuery
from engine.storage.columns import ShapedArray


def with_whole(
    make: Callable[[FormatSettings], ColumnarQuery],
    settings: FormatSettings,
    digits: bool = False,
    short: bool = False,
) -> ColumnarQuery:
    """The query that `make` makes under the settings, over LISTs where that is possible. `digits`: whoever reads the
    rows takes numerics in the general form, whatever their columns are. `short`: products may be too large at first."""

    @functools.lru_cache(maxsize=4)
    def in_whole(other: FormatSettings | None) -> ColumnarQuery:
        with arrays_as_text(True):
            return make(other or settings)

    @functools.lru_cache(maxsize=4)
    def in_digits(other: FormatSettings | None) -> ColumnarQuery:
        with numerics_as_text():
            return make(other or settings)

    @functools.lru_cache(maxsize=4)
    def in_38_digits(other: FormatSettings | None) -> ColumnarQuery:
        return replace(make(other or settings), in_whole=in_whole, in_digits=in_digits)

    try:
        if short and digits:
            with short_products() as used:
                made = make(settings)
            if used:
                return replace(made, in_whole=in_whole, in_digits=in_38_digits)
        return replace(make(settings), in_whole=in_whole, in_digits=in_digits if digits else None)
    except ShapedArray:
        return in_whole(None)
