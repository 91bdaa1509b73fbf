"""bool: comparisons (false sorts before true) and conversions (PostgreSQL 16 manual, 9.1 and 9.2)."""

from __future__ import annotations

from catalog.functions.base import Trait
from catalog.functions.integers import comparisons
from catalog.functions.registry import implement, mark

comparisons("bool{}")
implement("booland_statefunc", lambda left, right: left and right, "({0} AND {1})")
implement("boolor_statefunc", lambda left, right: left or right, "({0} OR {1})")
implement("int4_bool", lambda value: value != 0, "({0} <> 0)", inline="({0} != 0)")
implement("bool_int4", int, "CAST({0} AS INTEGER)")
mark(Trait.NEVER_FAILS, "booleq", "boolne", "int4_bool", "bool_int4")
implement("booltext", lambda value: "true" if value else "false", "CAST({0} AS VARCHAR)")
