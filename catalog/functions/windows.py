"""Window functions, as DuckDB calls: they run on the columnar path only (PostgreSQL 16 manual, 9.22).

FILTER_MARK is where the caller puts OVER (...), as in aggregates.
"""

from __future__ import annotations

from catalog.functions.base import FILTER_MARK
from catalog.functions.duckdb_errors import sql_error_call
from catalog.functions.registry import implement

_NTH_ERROR = sql_error_call("22016", "argument of nth_value must be greater than zero")

for _name in ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist"):
    implement(f"window_{_name}", duckdb=f"{_name}(){FILTER_MARK}")
for _name in ("lag", "lead"):
    implement(f"window_{_name}", duckdb=f"{_name}({{0}}){FILTER_MARK}")
    implement(f"window_{_name}_with_offset", duckdb=f"{_name}({{0}}, {{1}}){FILTER_MARK}")
    implement(f"window_{_name}_with_offset_and_default", duckdb=f"{_name}({{0}}, {{1}}, {{2}}){FILTER_MARK}")
for _name in ("first_value", "last_value"):
    implement(f"window_{_name}", duckdb=f"{_name}({{0}}){FILTER_MARK}")
implement("window_ntile", duckdb=f"CAST(ntile({{0}}){FILTER_MARK} AS INTEGER)")
implement(
    "window_nth_value",
    duckdb=f"nth_value({{0}}, CASE WHEN {{1}} <= 0 THEN {_NTH_ERROR} ELSE {{1}} END){FILTER_MARK}",
)
