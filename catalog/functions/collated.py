"""Functions under an ICU collation: comparisons and extremes of collated types (catalog/types/collated.py), and case
mappings.

They have no names in SQL: analysis replaces PostgreSQL's functions by them (engine/sql/analyze/collated_functions.py).
"""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Final

from catalog import icu
from catalog.functions.aggregates import extreme
from catalog.functions.comparison import by_sort_key, python_operator
from catalog.functions.letter_case import ascii_initcap, ascii_lower, ascii_upper
from catalog.functions.registry import implement

OPERATIONS = ("eq", "ne", "lt", "le", "gt", "ge")
FIRST_FUNCTION = 1 << 30  # OIDs that are not in pg_proc
CASE_MAPPINGS = ("upper", "lower", "initcap")

_COMPARISONS = {f"collated_{suffix}": by_sort_key(python_operator(suffix)) for suffix in OPERATIONS}
_EXTREMES = {"max(collated)": extreme(larger=True), "min(collated)": extreme(larger=False)}
_MAPPINGS: dict[str, Callable[..., object]] = {
    "icu_upper": icu.upper, "icu_lower": icu.lower, "icu_initcap": icu.title,
    "ascii_upper": ascii_upper, "ascii_lower": ascii_lower, "ascii_initcap": ascii_initcap,
}  # fmt: skip
SOURCES: Final = frozenset((*_COMPARISONS, *_EXTREMES, *_MAPPINGS))
"""The sources of all functions of this module, none of which pg_proc declares."""

for _source, _compare in _COMPARISONS.items():
    implement(_source, python_for_types=_compare)
for _source, _steps in _EXTREMES.items():
    implement(_source, aggregate_for_types=_steps)
_DUCKDB = {
    "ascii_upper": f"translate({{0}}, '{string.ascii_lowercase}', '{string.ascii_uppercase}')",
    "ascii_lower": f"translate({{0}}, '{string.ascii_uppercase}', '{string.ascii_lowercase}')",
}
for _source, _map in _MAPPINGS.items():
    implement(_source, _map, _DUCKDB.get(_source))
