"""Constraints that are checked at the end of the transaction: by INITIALLY DEFERRED, or by SET CONSTRAINTS.

Of UNIQUE, PRIMARY KEY and EXCLUDE the keys of the rows that were written are remembered (exclusions.py): what has
become of these rows is looked at in the end.

At the end of a statement a deferred foreign key is looked at all the same. A row whose referenced row is there is done
with: that one is locked now, and should this transaction take it away later, that is looked at then. Only what is
violated at that moment is remembered, by values and not by rows:

    key (a, b) of constraint c is missing       at the end it must be there, or no row may refer to it any more
    key (a, b) of constraint c has gone         the same, seen from the other side

So an entry needs no row, and holds whatever becomes of the table meanwhile: at the end the constraint is taken from the
catalog of that moment, and one that is gone asks for nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from catalog.catalog import Catalog
from catalog.schema import Constraint, Table
from catalog.types.base import FormatSettings
from engine.execute.exclusions import Exclusion
from engine.execute.foreign_keys import Incoming, Outgoing
from engine.execute.writer import TableWriter
from engine.txn.deferred import Deferred, DeferredKey

if TYPE_CHECKING:
    from engine.txn.interface import Transaction


def check(
    deferred: Deferred, transaction: Transaction, catalog: Catalog, settings: FormatSettings, everything: bool
) -> None:
    """Looks at what was put off: at everything, or at what is no longer deferred. Raises 23503, 23505, 23P01,
    LockWait."""
    rows: dict[int, tuple[Exclusion, list[DeferredKey]]] = {}
    known: dict[tuple[int, bool], Outgoing | Incoming | None] = {}
    for entry in list(deferred.entries):
        oid, number, gone, key = entry
        table = catalog.get(oid)
        constraint = _constraint(table, number)
        if constraint is not None and not everything and deferred.defers(constraint):
            continue
        if constraint is not None and constraint.late and isinstance(table, Table):
            if number not in rows:
                rows[number] = Exclusion(TableWriter(catalog, table, settings), constraint), []
            rows[number][1].append(entry)
            continue
        if constraint is not None and isinstance(table, Table):
            found = known.get((number, gone))
            if found is None:
                assert constraint.references is not None
                owner = catalog.table(constraint.references) if gone else table
                writer = TableWriter(catalog, owner, settings)
                found = Incoming(writer, table, constraint) if gone else Outgoing(writer, constraint)
                known[number, gone] = found
            found.check_key(transaction, key)
        del deferred.entries[entry]
    for exclusion, entries in rows.values():
        exclusion.check(transaction, [cast(bytes, entry[3][0]) for entry in entries])
        for entry in entries:
            del deferred.entries[entry]


def _constraint(table: object, oid: int) -> Constraint | None:
    if not isinstance(table, Table):
        return None
    return next((item for item in table.constraints if item.oid == oid), None)
