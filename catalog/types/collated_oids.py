"""The OIDs of types that stand for text under an ICU collation (collated.py): runs of four, one for each collation."""

from __future__ import annotations

from dataclasses import replace

from catalog.types import oids
from catalog.types.rows import TypeRow

FIRST_OID = 1 << 30  # far above what a database gives out
KINDS = {oids.TEXT: 0, oids.TEXT_ARRAY: 1, oids.BPCHAR: 2, oids.BPCHAR_ARRAY: 3}
RUN = len(KINDS)


def run_of(oid: int) -> int:
    """The first OID of the run in which a collated type lies."""
    return oid - (oid - FIRST_OID) % RUN


def plain(oid: int) -> int:
    """The type that a collated one stands for; any other type is itself."""
    return next(kind for kind, place in KINDS.items() if place == (oid - FIRST_OID) % RUN) if oid >= FIRST_OID else oid


def row_of(oid: int, plain_row: TypeRow) -> TypeRow:
    """What pg_type would say of a collated type: the row of the plain one, with these OIDs."""
    is_array = (oid - FIRST_OID) % 2
    return replace(plain_row, oid=oid, element=oid - 1 if is_array else 0, array=0 if is_array else oid + 1)
