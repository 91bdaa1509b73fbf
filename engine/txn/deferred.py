"""What a transaction has put off to its end, by INITIALLY DEFERRED, or by SET CONSTRAINTS. What becomes of it there:
engine/execute/deferred.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from catalog.schema import Constraint, Table

# Table, constraint, whether the key has gone, its values; or of constraints that compare rows the row's own key.
DeferredKey = tuple[int, int, bool, tuple[object, ...]]


@dataclass(slots=True)
class Deferred:
    """What one transaction has put off. `modes`: what SET CONSTRAINTS has said of single constraints, and under 0 of
    all; True: deferred."""

    entries: dict[DeferredKey, None] = field(default_factory=dict)
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
