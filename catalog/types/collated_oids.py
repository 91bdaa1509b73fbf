"""The OIDs of collated types (collated.py): a run of four for each collation."""

from __future__ import annotations

from dataclasses import replace

from catalog.types import oids
from catalog.types.rows import TypeRow

FIRST_OID = 1 << 30  # far above the OIDs of databases
KINDS = {oids.TEXT: 0, oids.TEXT_ARRAY: 1, oids.BPCHAR: 2, oids.BPCHAR_ARRAY: 3}
RUN = len(KINDS)


def run_of(oid: int) -> int:
    """Returns the first OID of a collated type's run."""
    return oid - (oid - FIRST_OID) % RUN


def plain(oid: int) -> int:
    """Returns the plain type of a collated type; other types unchanged."""
    return next(kind for kind, place in KINDS.items() if place == (oid - FIRST_OID) % RUN) if oid >= FIRST_OID else oid


def row_of(oid: int, plain_row: TypeRow) -> TypeRow:
    """Returns the row of a collated type: the plain type's row with the collated OIDs."""
    is_array = (oid - FIRST_OID) % 2
    return replace(plain_row, oid=oid, element=oid - 1 if is_array else 0, array=0 if is_array else oid + 1)
