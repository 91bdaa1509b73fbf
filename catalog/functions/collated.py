"""What runs under an ICU collation: comparisons of collated types (catalog/types/collated.py) and case mappings.

Nobody calls these by name: analysis puts them in place of PostgreSQL's (engine/sql/analyze/collated_functions.py).
"""

from __future__ import annotations

from catalog import icu
from catalog.functions.comparison import by_sort_key, compared
from catalog.functions.registry import implement

OPERATIONS = ("eq", "ne", "lt", "le", "gt", "ge")
FIRST_FUNCTION = 1 << 30  # OIDs of functions that no catalog has

for _suffix in OPERATIONS:
    implement(f"collated_{_suffix}", python_for_types=by_sort_key(compared(_suffix)))
implement("icu_upper", icu.upper)
implement("icu_lower", icu.lower)
implement("icu_initcap", icu.title)
