"""Types whose DuckDB form is text that may differ from the output, which depends on settings."""

from __future__ import annotations

from catalog.types.geometry import GEOMETRY_OIDS
from catalog.types.multirange import RANGE_OIDS, MultirangeType
from catalog.types.range import RangeType
from catalog.types.user import FIRST_USER_OID, entry_of

_BUILT_IN = RANGE_OIDS | GEOMETRY_OIDS


def is_carried_as_text(oid: int) -> bool:
    """Whether values of the type are carried as text: ranges, multiranges and geometry."""
    if oid < FIRST_USER_OID:
        return oid in _BUILT_IN
    entry = entry_of(oid)
    return entry is not None and isinstance(entry.sql_type, RangeType | MultirangeType)
