"""Finds timestamps that DuckDB cannot store. DuckDB counts microseconds from 1970 and PostgreSQL from 2000, so DuckDB's
64 bits end 30 years earlier. Later timestamps have already overflowed here: they look like values before the first
timestamp.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import SqlError
from catalog.functions.duckdb_errors import LATE
from catalog.types.datetime import LATE_TIMESTAMP, MIN_TIMESTAMP, UNIX_EPOCH_SECONDS, USECS_PER_SECOND

_EPOCH = UNIX_EPOCH_SECONDS * USECS_PER_SECOND
_FIRST, _LATE, _MINUS_INFINITY = MIN_TIMESTAMP + _EPOCH, LATE_TIMESTAMP + _EPOCH, -(2**63 - 1)


def check_rows(rows: pa.RecordBatch) -> None:
    """Raises 0A000 if one of a table's rows has such a timestamp."""
    for column in rows.columns:
        check_column(column)


def check_column(column: Any) -> None:
    """Raises 0A000 if an Arrow array contains such a timestamp, also within lists and records."""
    kind = column.type
    if pa.types.is_list(kind):
        check_column(column.flatten())
    elif pa.types.is_struct(kind):
        for field in column.flatten():
            check_column(field)
    elif pa.types.is_timestamp(kind):
        numbers = column.cast(pa.int64())
        ends = pc.min_max(numbers)
        low, high = ends["min"].as_py(), ends["max"].as_py()
        if low is not None and (low < _FIRST or high >= _LATE) and _has_late(numbers):
            raise SqlError(
                "0A000",
                LATE,
                hint="Use 'infinity' for what never ends.",
            )


def _has_late(numbers: Any) -> bool:
    wrapped = pc.and_(pc.less(numbers, _FIRST), pc.not_equal(numbers, _MINUS_INFINITY))
    return bool(pc.any(pc.or_(wrapped, pc.equal(numbers, _LATE))).as_py())
