"""The types of extensions. Their OIDs are the same in every database that has the extension.

This module has all of them, so that storage, bulk jobs and the worker can read their values; their names are resolved
only in databases with the extension (catalog/extensions.py).
"""

from __future__ import annotations

from functools import cache

from catalog.types.array import ArrayType
from catalog.types.base import SqlType
from catalog.types.citext import CITEXT
from catalog.types.hstore import HSTORE
from catalog.types.ltree import LQUERY, LTREE, LTXTQUERY
from catalog.types.query_int import QUERY_INT
from catalog.types.rows import TypeRow, read_type_rows
from catalog.types.user import UserEntry, remember

_SCALARS: dict[int, SqlType] = {known.oid: known for known in (CITEXT, HSTORE, QUERY_INT, LTREE, LQUERY, LTXTQUERY)}


@cache
def type_rows() -> tuple[TypeRow, ...]:
    """Returns the rows of pg_type of all extensions."""
    return read_type_rows("data/extensions/pg_type.tsv")


def entries(first: int, last: int, schema: str) -> dict[int, UserEntry]:
    """Returns the types with OIDs from `first` to `last`, for a database that has them in this schema."""
    found = {}
    names = {row.oid: row.name for row in type_rows()}
    for row in type_rows():
        if first <= row.oid <= last:
            element = _SCALARS.get(row.element)
            sql_type = _SCALARS.get(row.oid) if element is None else ArrayType(row.oid, row.name, element)
            shown = f"{names[row.element]}[]" if row.element else row.name
            found[row.oid] = UserEntry(sql_type, row, schema, shown, None)
    return found


remember(entries(0, 1 << 31, "public"))
