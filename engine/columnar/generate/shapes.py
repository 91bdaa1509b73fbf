"""Generates a statement again in another form, for arrays that a LIST cannot hold, or numbers of many digits.

A statement is generated with LISTs first. If the statement contains an array of another shape, or the worker finds one
among the values (`ColumnarQuery.in_whole`), the statement is generated again with all arrays of built-in types as text.
If DuckDB's DECIMAL cannot hold a numeric (`ColumnarQuery.in_digits`), the statement is generated again with all
numerics in the general form.

Products of DECIMALs of up to 18 digits are computed in 64 bits first, as DuckDB does by itself, if an overflow comes
before the first result row: below the aggregates of the outermost level. After an overflow the statement is generated
again with products of 38 digits, which take three times as long.
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
    """Returns the query that `make` generates under the settings, with LISTs if possible. `digits`: the reader of the
    rows accepts numerics in the general form in any column. `short`: products may be computed in 64 bits first."""

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
