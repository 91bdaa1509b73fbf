"""The names that are visible at a place of a body in PL/pgSQL: variables and labels, from the inside outwards.

A scope is a list that grows at its front, and is never changed: what is declared later is not visible to an expression
before it. A block begins with its label, which may be empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from catalog.records import dataclass

if TYPE_CHECKING:
    from engine.sql.plpgsql.tree import Variable

BLOCK, LOOP = "block", "loop"


@dataclass(frozen=True, slots=True)
class VariableScope:
    """One name, and what is outside of it. `kind`: '' for a variable, else what the label labels."""

    name: str = ""
    variable: Variable | None = None
    kind: str = ""
    outer: VariableScope | None = None

    def with_variable(self, variable: Variable, name: str = "") -> VariableScope:
        """With a variable, by its own name or another one (ALIAS)."""
        return VariableScope(name or variable.name, variable, "", self)

    def with_label(self, label: str, kind: str) -> VariableScope:
        """The beginning of a block or loop."""
        return VariableScope(label, None, kind, self)

    def _items(self) -> Iterator[VariableScope]:
        item: VariableScope | None = self
        while item is not None:
            yield item
            item = item.outer

    def is_declared_here(self, name: str) -> bool:
        """Whether the innermost block already has a variable of this name."""
        for item in self._items():
            if item.kind:
                return False
            if item.variable is not None and item.name == name:
                return True
        return False

    def find(self, names: tuple[str, ...]) -> tuple[Variable, int] | None:
        """The variable that dotted names begin with, and how many of them name it: `v`, `record.field`, `label.v`,
        `label.record.field`. A scalar variable has no fields, so `v.field` is not found."""
        inside: list[VariableScope] = []  # the variables between here and the label of their block
        for item in self._items():
            if not item.kind:
                if item.variable is not None and item.name == names[0] and _fits(item.variable, len(names) - 1):
                    return item.variable, 1
                inside.append(item)
                continue
            if item.name == names[0] and len(names) > 1:
                for found in inside:
                    if found.variable is not None and found.name == names[1] and _fits(found.variable, len(names) - 2):
                        return found.variable, 2
            inside = []
        return None

    def label(self, name: str) -> VariableScope | None:
        """The block or loop around this place that has this label."""
        return next((item for item in self._items() if item.kind and item.name == name), None)

    def is_in_loop(self) -> bool:
        """Whether a loop is around this place."""
        return any(item.kind == LOOP for item in self._items())


def _fits(variable: Variable, more: int) -> bool:
    """Whether a variable may be followed by so many names of fields."""
    return not more or variable.is_record
