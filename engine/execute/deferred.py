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

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from catalog.schema import Catalog, Constraint, Table
from catalog.types.base import FormatSettings

if TYPE_CHECKING:
    from engine.execute.foreign_keys import Incoming, Outgoing
    from engine.txn.interface import Transaction

# Table, constraint, whether the key has gone, its values; or of constraints that compare rows the row's own key.
_Entry = tuple[int, int, bool, tuple[object, ...]]


@dataclass(slots=True)
class Deferred:
    """What one transaction has put off. `modes`: what SET CONSTRAINTS has said of single constraints, and under 0 of
    all; True: deferred."""

    entries: dict[_Entry, None] = field(default_factory=dict)
    modes: dict[int, bool] = field(default_factory=dict)

    def defers(self, constraint: Constraint) -> bool:
        """Whether a constraint waits for the end of the transaction now."""
        if not constraint.deferrable:
            return False
        return self.modes.get(constraint.oid, self.modes.get(0, constraint.initially_deferred))

    def set_mode(self, constraint: int, deferred: bool) -> None:
        """SET CONSTRAINTS of one constraint, or of all (0)."""
        if not constraint:
            self.modes.clear()
        self.modes[constraint] = deferred

    def add(self, table: Table, constraint: Constraint, gone: bool, key: tuple[object, ...]) -> None:
        """Remembers a key that is missing now."""
        self.entries[table.oid, constraint.oid, gone, key] = None

    def position(self) -> tuple[int, dict[int, bool]]:
        """What a savepoint remembers."""
        return len(self.entries), dict(self.modes)

    def rollback_to(self, position: tuple[int, dict[int, bool]]) -> None:
        """Forgets what came after a savepoint."""
        for entry in list(self.entries)[position[0] :]:
            del self.entries[entry]
        self.modes = dict(position[1])

    def check(self, transaction: Transaction, catalog: Catalog, settings: FormatSettings, everything: bool) -> None:
        """Looks at what was put off: at everything, or at what is no longer deferred. Raises 23503, 23505, 23P01,
        LockWait."""
        from engine.execute.exclusions import Exclusion
        from engine.execute.foreign_keys import Incoming, Outgoing
        from engine.execute.writer import TableWriter

        rows: dict[int, tuple[Exclusion, list[_Entry]]] = {}
        known: dict[tuple[int, bool], Outgoing | Incoming | None] = {}
        for entry in list(self.entries):
            oid, number, gone, key = entry
            table = catalog.get(oid)
            constraint = _constraint(table, number)
            if constraint is not None and not everything and self.defers(constraint):
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
            del self.entries[entry]
        for exclusion, entries in rows.values():
            exclusion.check(transaction, [cast(bytes, entry[3][0]) for entry in entries])
            for entry in entries:
                del self.entries[entry]


def _constraint(table: object, oid: int) -> Constraint | None:
    if not isinstance(table, Table):
        return None
    return next((item for item in table.constraints if item.oid == oid), None)
