"""What a name in an SQL text of a body means: a variable, a field of a record, or (nothing is found) a column.

Each variable, and each field of a record whose fields are known only when it has a value, becomes a parameter of the
text. A record's fields are known by its *shape*, the names and types of the row that it holds; a text that uses such
fields is analysed once for each shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from catalog.errors import SqlError
from catalog.types.base import TypeRef
from engine.sql.analyze import Shared
from engine.sql.plpgsql.scope import VariableScope
from engine.sql.plpgsql.tree import Shape, Variable


@dataclass(frozen=True, slots=True)
class ParameterUse:
    """A parameter: a variable, or (`field`, from 0) a field of a record."""

    variable: Variable
    field: int = -1


class Names:
    """The parameters of one text. `shapes`: of the records by their numbers; None has no value yet."""

    def __init__(self, scope: VariableScope, shapes: Mapping[int, Shape | None], conflict: str) -> None:
        self._scope = scope
        self._shapes = shapes
        self.conflict = conflict  # error | use_variable | use_column
        self.uses: list[ParameterUse] = []
        self.met: dict[tuple[str, ...], int] = {}  # the numbers of the column references that are parameters

    def number_of(self, names: tuple[str, ...], shared: Shared) -> int:
        """The number of the parameter for a column reference, or 0. Raises 55000 for a field of a record that has no
        value, 42703 for a field that it lacks."""
        number = self._find(names, shared)
        if number:
            self.met[names] = number
        return number

    def _find(self, names: tuple[str, ...], shared: Shared) -> int:
        found = self._scope.find(names)
        if found is None:
            return 0
        variable, named = found
        rest = names[named:]
        if variable.type is not None:
            return 0 if rest else self._parameter(ParameterUse(variable), variable.type, shared)
        shape = variable.shape or self._shapes.get(variable.number)
        if not rest:
            return 0  # `fields_of` has it
        if shape is None:
            raise unassigned_error(variable.name)
        position = next((number for number, (name, _) in enumerate(shape) if name == rest[0]), -1)
        if position < 0:
            raise SqlError("42703", f'record "{variable.name}" has no field "{rest[0]}"')
        return 0 if rest[1:] else self._parameter(ParameterUse(variable, position), shape[position][1], shared)

    def fields_of(self, names: tuple[str, ...], shared: Shared) -> tuple[bool, tuple[tuple[str, int], ...]] | None:
        """See ParameterNames."""
        found = self._scope.find(names)
        if found is None or found[1] != len(names) or found[0].type is not None:
            return None
        variable, value = found[0], self._shapes.get(found[0].number)
        shape = value or variable.shape or ()  # without fields: it is NULL as a whole
        fields = tuple(
            (name, self._parameter(ParameterUse(variable, at), type_, shared)) for at, (name, type_) in enumerate(shape)
        )
        return value is not None, fields

    def _parameter(self, use: ParameterUse, type_: TypeRef, shared: Shared) -> int:
        if use not in self.uses:
            self.uses.append(use)
        number = self._number(use)
        shared.parameters[number] = type_.oid
        if type_.domain:
            shared.domains[number] = type_
        return number

    def _number(self, use: ParameterUse) -> int:
        return self.uses.index(use) + 1


class LocalNames(Names):
    """The same, with each variable's own number. `fields`: the numbers of fields of records, from `first` on, to which
    this adds."""

    def __init__(self, scope: VariableScope, conflict: str, fields: dict[ParameterUse, int], first: int) -> None:
        super().__init__(scope, {}, conflict)
        self._fields = fields
        self._first = first

    def _number(self, use: ParameterUse) -> int:
        if use.field < 0:
            return use.variable.number + 1
        return self._fields.setdefault(use, self._first + len(self._fields))


def unassigned_error(name: str) -> SqlError:
    """The error of a record whose fields are asked for before it has a value."""
    detail = "The tuple structure of a not-yet-assigned record is indeterminate."
    return SqlError("55000", f'record "{name}" is not assigned yet', detail=detail)
