"""Checks that a transaction has deferred to its end, by INITIALLY DEFERRED or SET CONSTRAINTS.
engine/execute/deferred.py runs them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from catalog.schema import Constraint, Table

# Table, constraint, whether the key was deleted, its values; for constraints that compare rows the row's own key.
DeferredKey = tuple[int, int, bool, tuple[object, ...]]


@dataclass(slots=True)
class Deferred:
    """The deferred checks of one transaction. `modes`: the modes of SET CONSTRAINTS by constraint, and under 0 for all;
    True: deferred."""

    entries: dict[DeferredKey, None] = field(default_factory=dict)
    modes: dict[int, bool] = field(default_factory=dict)

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

    def position(self) -> tuple[int, dict[int, bool]]:
        """The position that a savepoint keeps."""
        return len(self.entries), dict(self.modes)

    def rollback_to(self, position: tuple[int, dict[int, bool]]) -> None:
        """Forgets what came after a savepoint."""
        for entry in list(self.entries)[position[0] :]:
            del self.entries[entry]
        self.modes = dict(position[1])
