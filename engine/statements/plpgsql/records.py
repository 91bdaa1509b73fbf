"""Values of type record, and what a row becomes on its way into variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from catalog.errors import SqlError
from catalog.types import format_type
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

    @property
    def fields(self) -> list[Field]:
        """The fields as columns of a query."""
        return [Field(name, type_) for name, type_ in self.shape]


@dataclass(frozen=True, slots=True)
class Uncast:
    """The value of RETURN, which is cast when the function has ended."""

    value: object
    type: TypeRef
    wanted: TypeRef


def shape_of(fields: Sequence[Field]) -> Shape:
    """The shape of a query's rows."""
    return tuple((field.name, field.type) for field in fields)


def assignment_of(state: State, value: tree.Expr, target: TypeRef) -> tree.Expr:
    """A value as PL/pgSQL assigns it: by an assignment cast, or else by text."""
    found = coerce(state, value, target, "a")
    return tree.CoerceViaIO(value, target) if found is None else found


def cast_of(environment: Environment, source: TypeRef, target: TypeRef) -> Cast | None:
    """The function that converts a value of one type for a variable of another; None where nothing changes."""
    if source == target and not target.domain:
        return None
    parameter = tree.Param(1, source)
    return compile_value(
        assignment_of(State(Shared(environment, (source.oid,))), parameter, target), environment.format
    )


def check_columns(given: Sequence[TypeRef], wanted: Sequence[TypeRef], message: str) -> None:
    """Raises 42804 with the message if a row has other columns than are wanted (convert_tuples_by_position)."""
    if len(given) != len(wanted):
        detail = f"Number of returned columns ({len(given)}) does not match expected column count ({len(wanted)})."
        raise SqlError("42804", message, detail=detail)
    for number, (one, other) in enumerate(zip(given, wanted, strict=True), 1):
        if one.oid != other.oid:
            shown = f"type {format_type(one.oid)} does not match expected type {format_type(other.oid)}"
            raise SqlError("42804", message, detail=f"Returned {shown} in column {number}.")


def record_text(encoders: Sequence[Callable[[object], bytes]], values: Sequence[object]) -> str:
    """A row as text: '(1,"a b",)' (record_out)."""
    fields = [
        "" if value is None else _quote(encode(value).decode()) for encode, value in zip(encoders, values, strict=True)
    ]
    return f"({','.join(fields)})"


def _quote(text: str) -> str:
    if text and not _SPECIAL.search(text):
        return text
    doubled = text.replace("\\", "\\\\").replace('"', '""')
    return f'"{doubled}"'
