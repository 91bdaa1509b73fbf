"""Writes docs/functions.md: which of PostgreSQL's built-in functions Shoal runs, and which it refuses (0A000).

    .venv/bin/python -m tools.list_functions

Only what people call is listed: no input, output, index, planner or transition functions. Functions over types that
Shoal does not have (geometry, money, bit strings, ranges, ...) are refused with their types, and not named one by one.
"""

from __future__ import annotations

import importlib
import pathlib
import re
import textwrap
from collections.abc import Iterable

from catalog.functions import registry
from catalog.functions.base import Function
from catalog.types import by_oid, element_of
from engine.columnar.generate.catalog_functions import catalog_functions

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "functions.md"
_POLYMORPHIC = frozenset({2276, 2277, 2283, 2776, 5077, 5078, 2249, 2278})
_NEVER_CALLED = frozenset({2281, 2279, 2275, 3838, 325, 269, 3310})  # internal, trigger, cstring and handlers
_SUPPORT = re.compile(
    r"(cmp|typmodin|_subdiff|_accum|_accum_inv|_combine|_hash|_hash_extended|equalimage|validator|_sum|_transfn|_finalfn|_oj|_larger|"
    r"_smaller|extended|send|recv)$|^(hash|binary_upgrade|float8_|float4_|int[248]_(avg|sum)|interval_avg|in_range|"
    r"\w+_cmp_|int8(inc|dec)|int2int4|numeric_avg|booland|boolor|gin|brin|pg_nextoid|currtid)"
)
_INTRODUCTION = """\
# Built-in functions

Every function of PostgreSQL 15 resolves by PostgreSQL's rules. A function that Shoal does not run is refused by name
(0A000). `tools/list_functions.py` writes this page.

Differences from PostgreSQL:

- Without a COLLATE clause, text is ordered by code point (collation C). The locale of `to_char` is C.
- The columnar path refuses values that columns cannot hold: arrays of several dimensions, timestamps after
  294247-01-09, `extract` from dates before 1 AD or infinite ones, and numeric results of more than 38 digits.
- `pg_sleep` takes a constant. `setseed` is refused, because `random()` cannot be repeated.
- JSON of a row on the nullable side of an outer join needs a column that is NOT NULL, and
  `row_to_json(row, true)` is refused.
- `jsonpath` lacks `.datetime(template)`. Times with a zone cannot be compared with times without one.
- The first argument of `json_populate_record` and similar functions must have a user-defined composite type.
- `make_interval` refuses sums beyond the range of intervals, as PostgreSQL does since release 17.
"""


def is_called(function: Function) -> bool:
    """Whether people call the function by its name."""
    if {*function.argument_types, function.result_type} & _NEVER_CALLED or function.oid in _operator_functions():
        return False
    return _SUPPORT.search(function.name) is None


def _operator_functions() -> frozenset[int]:
    return frozenset(registry.operator(oid).function for oid in registry.operator_oids())


def has_types(function: Function) -> bool:
    """Whether Shoal has the types of its arguments and result."""
    return all(
        oid in by_oid or oid in _POLYMORPHIC or element_of(oid) in by_oid
        for oid in (*function.argument_types, function.result_type)
    )


_REWRITTEN = frozenset({"row_to_json", "pg_collation_for"})  # analysis puts another function in its place


def runs(function: Function) -> bool:
    return (
        function.name in _REWRITTEN
        or registry.implementation(function.source) is not None
        or function.source in catalog_functions
    )


def listed() -> tuple[list[str], list[str]]:
    """Names of the functions that run, and of those that are refused though their types are there."""
    importlib.import_module("engine.system_views.surroundings")  # registers what virtual tables answer
    functions = [registry.function(oid) for oid in registry.function_oids() if oid < 9000 or oid > 9999]
    called = [function for function in functions if is_called(function) and has_types(function)]
    present = {function.name for function in called if runs(function)}
    refused = {function.name for function in called if not runs(function)} - present
    return sorted(present), sorted(refused)


def _paragraph(names: Iterable[str]) -> str:
    shown = sorted({re.sub(r"^(pg_stat_get_|pg_ls_|pg_replication_origin_|lo_).*", r"\1*", name) for name in names})
    text = ", ".join(f"`{name}`" for name in shown)
    return textwrap.fill(text, width=120, break_long_words=False, break_on_hyphens=False)


def page() -> str:
    present, refused = listed()
    return (
        f"{_INTRODUCTION}\n## Refused ({len(refused)})\n\n{_paragraph(refused)}\n\n"
        f"## There ({len(present)})\n\n{_paragraph(present)}\n"
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
