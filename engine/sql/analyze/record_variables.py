"""Records of PL/pgSQL in SQL texts: a variable that is a row, as a whole."""

from __future__ import annotations

from engine.sql import ast, tree
from engine.sql.analyze.dispatch import expression
from engine.sql.analyze.state import State
from engine.sql.analyze.typeinfo import RECORD_REF


def record_fields(
    state: State, names: tuple[str, ...], location: int
) -> tuple[bool, list[tuple[str, tree.Expr]]] | None:
    """For the name of a record: whether it has a value, and its fields; None for any other name."""
    routine = state.shared.routine
    found = None if routine is None else routine.fields_of(names, state.shared)
    if found is None:
        return None
    known, fields = found
    values = [(name, expression(state, ast.ParamRef(number, location=location), state.kind)) for name, number in fields]
    return known, values


def as_row(known: bool, fields: list[tuple[str, tree.Expr]], location: int) -> tree.Expr:
    """The fields as one value; NULL for a record without a value."""
    if not known:
        return tree.Const(None, RECORD_REF, location)
    values, names = tuple(value for _, value in fields), tuple(name for name, _ in fields)
    return tree.RowExpr(values, names, RECORD_REF)
