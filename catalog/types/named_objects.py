"""Types in whose text stand names of objects: the reg types, and arrays and composites of them. Only a session can look
the names up, so their output is not their encoders' alone."""

from __future__ import annotations

from catalog.types.array import ArrayType
from catalog.types.base import SqlType
from catalog.types.composite import CompositeType
from catalog.types.oids import NAMED_TYPES


def holds_names(known: SqlType) -> bool:
    """Whether names of objects stand in the text of the type's values."""
    if isinstance(known, ArrayType):
        return holds_names(known.element)
    if isinstance(known, CompositeType):
        return any(map(holds_names, known.types))
    return known.oid in NAMED_TYPES
