"""Types whose text contains names of objects: the reg types, and arrays and composite types of them. Their output needs
a session, which resolves the names, besides their encoders."""

from __future__ import annotations

from catalog.types.array import ArrayType
from catalog.types.base import SqlType
from catalog.types.composite import CompositeType
from catalog.types.oids import NAMED_TYPES


def holds_names(known: SqlType) -> bool:
    """Whether the text of the type's values contains names of objects."""
    if isinstance(known, ArrayType):
        return holds_names(known.element)
    if isinstance(known, CompositeType):
        return any(map(holds_names, known.types))
    return known.oid in NAMED_TYPES
