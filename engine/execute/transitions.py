"""Transition tables: the rows that a statement has changed, for triggers with REFERENCING.

A `Capture` collects the rows of the tables that a statement names, also those of their partitions and children, in the
order of the named table's columns. The trigger's function reads them as relations without a schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from catalog.catalog import Catalog
from catalog.schema import Table, Trigger, VirtualTable
from engine.partitions.router import reorder
from engine.sql.parts import FIRST_RESULT_OID

Row = Sequence[object]
OLD_OID, NEW_OID = FIRST_RESULT_OID + 0x8000, FIRST_RESULT_OID + 0x8001


@dataclass(slots=True)
class _Rows:
    old: list[Row] = field(default_factory=list)
    new: list[Row] = field(default_factory=list)


class Capture:
    """The rows that one statement has changed. `whole`: the events (i, u, d) as which all changes of a table count, by
    its OID: an UPDATE may move a row from one partition to another."""

    def __init__(self, catalog: Catalog, tables: Mapping[int, str]) -> None:
        self._catalog = catalog
        self._whole = dict(tables)
        self._rows: dict[tuple[int, str], _Rows] = {}
        self._ways: dict[int, tuple[int, Callable[[Row], Row] | None] | None] = {}

    def clear(self) -> None:
        """Forgets the rows: the statement starts over."""
        self._rows.clear()

    def include(self, oid: int) -> None:
        """Collects the rows of a table that the statement does not name, from now on."""
        if oid not in self._whole:
            self._whole[oid] = ""
            self._ways.clear()

    def add(self, table: Table, event: str, old: Row | None, new: Row | None) -> None:
        """Adds a change of a row."""
        if table.oid not in self._ways:
            self._ways[table.oid] = self._way(table)
        way = self._ways[table.oid]
        if way is None:
            return
        named, change = way
        rows = self._rows.setdefault((named, self._whole[named] or event), _Rows())
        if old is not None:
            rows.old.append(old if change is None else change(old))
        if new is not None:
            rows.new.append(new if change is None else change(new))

    def _way(self, table: Table) -> tuple[int, Callable[[Row], Row] | None] | None:
        """The named table to which a table's rows belong, and their form there."""
        pending = [table]
        while pending:
            above = pending.pop(0)
            if above.oid in self._whole:
                return above.oid, None if above is table else reorder(table, above)
            pending += [self._catalog.table(oid) for oid in above.parents]
        return None

    def rows(self, table: Table, event: str) -> tuple[list[Row], list[Row]]:
        """The old and the new rows of an event."""
        found = self._rows.get((table.oid, event), _Rows())
        return found.old, found.new


def captures(table: Table, catalog: Catalog) -> bool:
    """Whether a trigger of a table, or of one above it, reads transition tables."""
    pending = [table]
    while pending:
        found = pending.pop()
        if any((item.old_table or item.new_table) and item.enabled != "D" for item in found.triggers):
            return True
        pending += [catalog.table(oid) for oid in found.parents]
    return False


def relations_of(trigger: Trigger, table: Table) -> dict[str, VirtualTable]:
    """The transition tables of a trigger, by name."""
    columns = tuple(
        replace(column, number=number, not_null=False, default=None, generated=None, identity="", sequence=None)
        for number, column in enumerate(table.columns, 1)
    )
    found = {}
    for name, oid in ((trigger.old_table, OLD_OID), (trigger.new_table, NEW_OID)):
        if name:
            found[name] = VirtualTable(oid, 0, name, columns)
    return found
