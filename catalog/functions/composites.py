"""Constructs rows of composite types, and extracts fields, on the columnar path.

These are Shoal's own functions, because PostgreSQL has nodes of expressions instead.
"""

from __future__ import annotations

from catalog.functions.base import Function
from catalog.functions.registry import declare, implement
from catalog.types import oids

MAKE, FIELD, ALL_NULL, NONE_NULL = "shoal_make_row", "shoal_field", "shoal_row_is_null", "shoal_row_is_full"


def _field(row: tuple[object, ...], number: int) -> object:
    return row[number - 1]


for _oid, _name in enumerate((MAKE, FIELD, ALL_NULL, NONE_NULL), 9941):
    declare(Function(_oid, _name, _name, "f", False, False, "i", (oids.INTERNAL,), oids.RECORD, 0, 0), inner=True)
implement(MAKE, lambda *fields: fields)
implement(FIELD, _field)
implement(ALL_NULL, lambda row: row is None or all(item is None for item in row))
implement(NONE_NULL, lambda row: row is not None and all(item is not None for item in row))
