"""Values of type record, and what a row becomes on its way into variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from catalog.types.base import TypeRef
from engine.execute.context import ExecContext, Field
from engine.execute.expressions import compile_value
from engine.sql import tree
from engine.sql.analyze import Environment, Shared
from engine.sql.analyze.coerce import coerce
from engine.sql.analyze.state import State
from engine.sql.plpgsql.tree import Shape

_SPECIAL = re.compile(r'["\\(),\s]')

Cast = Callable[[ExecContext, Sequence[object]], object]


@dataclass(frozen=True, slots=True)
class Row:
    """The value of a variable of type record: its fields, in internal forms."""

    shape: Shape
    values: tuple[object, ...]

    def with_field(self, place: int, value: object) -> Row:
        """The row with another value in a field."""
        return Row(self.shape, (*self.values[:place], value, *self.values[place + 1 :]))

    @property
    def fields(self) -> list[Field]:
        """The fields as columns of a query."""
        return [Field(name, type_) for name, type_ in self.shape]


def shape_of(fields: Sequence[Field]) -> Shape:
    """The shape of a query's rows."""
    return tuple((field.name, field.type) for field in fields)


def assigned(state: State, value: tree.Expr, target: TypeRef) -> tree.Expr:
    """A value as PL/pgSQL assigns it: by an assignment cast, or else by text."""
    found = coerce(state, value, target, "a")
    return tree.CoerceViaIO(value, target) if found is None else found


def cast_of(environment: Environment, source: TypeRef, target: TypeRef) -> Cast | None:
    """The function that converts a value of one type for a variable of another; None where nothing changes."""
    if source == target and not target.domain:
        return None
    parameter = tree.Param(1, source)
    return compile_value(assigned(State(Shared(environment, (source.oid,))), parameter, target), environment.format)


def record_text(encoders: Sequence[Callable[[object], bytes]], values: Sequence[object]) -> str:
    """A row as text: '(1,"a b",)' (record_out)."""
    fields = [
        "" if value is None else _quoted(encode(value).decode()) for encode, value in zip(encoders, values, strict=True)
    ]
    return f"({','.join(fields)})"


def _quoted(text: str) -> str:
    if text and not _SPECIAL.search(text):
        return text
    doubled = text.replace("\\", "\\\\").replace('"', '""')
    return f'"{doubled}"'
