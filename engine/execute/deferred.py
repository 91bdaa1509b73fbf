"""Constraints that are checked at the end of the transaction: by INITIALLY DEFERRED, or by SET CONSTRAINTS.

For UNIQUE, PRIMARY KEY and EXCLUDE the keys of the written rows are kept (exclusions.py), and the rows are checked at
the end.

A deferred foreign key is also checked at the end of the statement. If the referenced row exists, it is locked and the
check is done; if this transaction deletes it later, that deletion is checked. Only present violations are kept, by
values and not by rows:

    key (a, b) of constraint c is missing       at the end it must exist, or no row may refer to it any more
    key (a, b) of constraint c was deleted      the same, from the other side

So an entry needs no row, and stays valid for any change of the table: at the end the constraint comes from the catalog
of that moment, and a dropped one is not checked.
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
    """Checks the deferred entries: all, or those that are no longer deferred. Raises 23503, 23505, 23P01, LockWait."""
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
