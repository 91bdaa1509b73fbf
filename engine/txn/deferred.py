"""Checks that a transaction has deferred to its end, by INITIALLY DEFERRED or SET CONSTRAINTS.
engine/execute/deferred.py runs them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from catalog.schema import Constraint, Table, Trigger, View

# Table, constraint, whether the key was deleted, its values; for constraints that compare rows the row's own key.
DeferredKey = tuple[int, int, bool, tuple[object, ...]]


class PendingTrigger(Protocol):
    """A call of a constraint trigger (engine/execute/triggers.py)."""

    @property
    def trigger(self) -> Trigger: ...

    @property
    def relation(self) -> Table | View: ...


@dataclass(slots=True)
class Deferred:
    """The deferred checks of one transaction. `modes`: the modes of SET CONSTRAINTS by constraint, and under 0 for all;
    True: deferred."""

    entries: dict[DeferredKey, None] = field(default_factory=dict)
    modes: dict[int, bool] = field(default_factory=dict)
    triggers: list[PendingTrigger] = field(default_factory=list)

    def defers_trigger(self, trigger: Trigger) -> bool:
        """Whether a constraint trigger is deferred now."""
        if not trigger.deferrable:
            return False
        return self.modes.get(trigger.constraint, self.modes.get(0, trigger.initially_deferred))

    def due_trigger(self, everything: bool) -> PendingTrigger | None:
        """Takes the first pending trigger: of all, or of those that are no longer deferred."""
        for place, item in enumerate(self.triggers):
            if everything or not self.defers_trigger(item.trigger):
                return self.triggers.pop(place)
        return None

    def defers(self, constraint: Constraint) -> bool:
        """Whether a constraint is deferred now."""
        if not constraint.deferrable:
            return False
        return self.modes.get(constraint.oid, self.modes.get(0, constraint.initially_deferred))

    def set_mode(self, constraint: int, deferred: bool) -> None:
        """SET CONSTRAINTS of one constraint, or of all (0)."""
        if not constraint:
            self.modes.clear()
        self.modes[constraint] = deferred

    def add(self, table: Table, constraint: Constraint, gone: bool, key: tuple[object, ...]) -> None:
        """Records a key that is missing now."""
        self.entries[table.oid, constraint.oid, gone, key] = None

    def is_pending(self, table: int) -> bool:
        """Whether a check or a trigger waits because of a change of the table."""
        waits = any(oid == table for oid, _, _, _ in self.entries)
        return waits or any(item.relation.oid == table for item in self.triggers)

    def position(self) -> tuple[int, dict[int, bool], int]:
        """The position that a savepoint keeps."""
        return len(self.entries), dict(self.modes), len(self.triggers)

    def rollback_to(self, position: tuple[int, dict[int, bool], int]) -> None:
        """Forgets what came after a savepoint."""
        for entry in list(self.entries)[position[0] :]:
            del self.entries[entry]
        self.modes = dict(position[1])
        del self.triggers[position[2] :]
