"""Window functions, as calls of DuckDB's: they run on the columnar path only (PostgreSQL 16 manual, 9.22).

The caller replaces FILTER_MARK by OVER (...), as in aggregates.
"""

from __future__ import annotations

from catalog.duckdb.templates import FILTER_MARK
from catalog.functions.base import Trait
from catalog.functions.duckdb_errors import sql_error_call
from catalog.functions.registry import implement

_NTH_ERROR = sql_error_call("22016", "argument of nth_value must be greater than zero")

for _name in ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist"):
    implement(f"window_{_name}", duckdb=f"{_name}(){FILTER_MARK}", traits=(Trait.FRAMELESS,))
for _name in ("lag", "lead"):
    for _suffix, _given in (("", "{0}"), ("_with_offset", "{0}, {1}"), ("_with_offset_and_default", "{0}, {1}, {2}")):
        _call = f"{_name}({_given}){FILTER_MARK}"
        implement(f"window_{_name}{_suffix}", duckdb=_call, traits=(Trait.FRAMELESS,))
for _name in ("first_value", "last_value"):
    implement(f"window_{_name}", duckdb=f"{_name}({{0}}){FILTER_MARK}")
implement("window_ntile", duckdb=f"CAST(ntile({{0}}){FILTER_MARK} AS INTEGER)", traits=(Trait.FRAMELESS,))
implement(
    "window_nth_value",
    duckdb=f"nth_value({{0}}, CASE WHEN {{1}} <= 0 THEN {_NTH_ERROR} ELSE {{1}} END){FILTER_MARK}",
)
