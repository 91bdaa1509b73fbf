"""What is known of the texts of a program: how they are evaluated, and where their parameters are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from catalog.types.base import TypeRef
from engine.session.prepared import Prepared
from engine.sql.plpgsql.tree import Shape
from engine.statements.plpgsql.names import ParameterUse
from engine.statements.plpgsql.records import Cast, Row

if TYPE_CHECKING:
    from catalog.catalog import Catalog
    from engine.node.plan_cache import PlanKey

Locals = Mapping[str, Any]
Places = tuple[tuple[str, int], ...]
"""Where the parameters of a text are: the names of locals, and the numbers of fields, or -1."""


@dataclass(slots=True)
class Evaluation:
    """A text that is evaluated: an expression, or a plan of a query. `places`: see `_values`."""

    places: Places
    type: TypeRef
    compute: Cast | None = None
    prepared: Prepared | None = None
    settings: PlanKey | None = None

    def is_old(self, catalog: Catalog) -> bool:
        """Whether it is a plan for another catalog."""
        return self.prepared is not None and self.prepared.catalog is not catalog


@dataclass(slots=True)
class Known:
    """What is known of the texts of a program for one catalog: by the number of the text, the shapes of its records,
    and the type that is wanted."""

    evaluations: dict[object, Evaluation] = field(default_factory=dict)
    statements: dict[object, tuple[Prepared, tuple[ParameterUse, ...], PlanKey, Places]] = field(default_factory=dict)
    casts: dict[tuple[TypeRef, TypeRef], Cast | None] = field(default_factory=dict)
    # By the identity of a list of types: that list, the columns of the rows that went there last, and their casts (None
    # if the rows go there as they are).
    takes: dict[int, tuple[object, object, list[Cast | None] | None]] = field(default_factory=dict)


def places_of(uses: Sequence[ParameterUse]) -> Places:
    """Where the parameters are."""
    return tuple((f"p{use.variable.number + 1}", use.field) for use in uses)


def values_at(places: Places, values: Locals) -> list[object]:
    """The values of a text's parameters."""
    found = []
    for name, place in places:
        value = values[name]
        if value.__class__ is Row:
            value = value.values if place < 0 else value.values[place]
        found.append(value)
    return found


def value_of(use: ParameterUse, values: Locals) -> object:
    value = values[f"p{use.variable.number + 1}"]
    if use.field >= 0:
        return None if value is None else value.values[use.field]
    return value.values if isinstance(value, Row) else value


def named_value(use: ParameterUse, values: Locals) -> tuple[str, object, TypeRef]:
    """A parameter with its name and type."""
    variable = use.variable
    if variable.type is not None:
        return variable.name, value_of(use, values), variable.type
    record = values[f"p{variable.number + 1}"]
    shape: Shape = record.shape if variable.shape is None else variable.shape
    name, type_ = shape[use.field]
    return name, value_of(use, values), type_
