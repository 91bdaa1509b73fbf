"""Which variables of a body are never NULL, so that its loops need not test them.

A variable is never NULL if it begins with a value that is not NULL, and every assignment gives it such a value. FOR
gives its variable only such values. The values are expressions over variables, so all are assumed to be never NULL
first, and those with an assignment that may give NULL are taken out until nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass

from catalog.types.base import FormatSettings, TypeRef
from engine.execute.code import Code, NotOnRowPath
from engine.execute.compiled_value import Value
from engine.execute.expressions import ExpressionCompiler
from engine.sql import ast, tree
from engine.sql.plpgsql import tree as pl
from engine.statements.plpgsql.fragments import no_column, variables_among

Assignments = Mapping[int, list[tuple[pl.Fragment, pl.Variable]]]


def never_null(
    body: pl.Body,
    expression_of: Callable[[pl.Fragment, TypeRef | None], tree.Expr | None],
    settings: FormatSettings,
    overrides: Mapping[tree.Expr, Value],
) -> dict[tree.Expr, Value]:
    """The sources of the variables that are never NULL, for expressions; none for a body without a loop.
    `expression_of`: a text as an expression over locals, if it is one; `overrides`: the sources of others."""
    if not any(isinstance(item, pl.Loop | pl.ForInteger) for item in _statements(body.block)):
        return {}
    values = {
        number: [expression_of(fragment, variable.type) for fragment, variable in given]
        for number, given in _assignments_of(body).items()
    }

    def gives_null(value: tree.Expr | None, known: dict[tree.Expr, Value]) -> bool:
        trial = ExpressionCompiler(Code(), settings, no_column)
        trial.overrides = {**overrides, **known}
        try:
            return value is None or trial.value(value).nullable
        except NotOnRowPath:
            return True

    numbers = set(values)
    while True:
        known = _sources_of(body, numbers)
        kept = {number for number in numbers if not any(gives_null(value, known) for value in values[number])}
        if kept == numbers:
            return known
        numbers = kept


def _sources_of(body: pl.Body, numbers: set[int]) -> dict[tree.Expr, Value]:
    """Variables as values that are not NULL."""
    return {
        tree.Param(item.number + 1, type_): Value(f"p{item.number + 1}", nullable=False, atom=True)
        for item in body.variables
        if item.number in numbers and item.type is not None
        for type_ in (item.type, TypeRef(item.type.oid))
    }


def _assignments_of(body: pl.Body) -> Assignments:
    """The expressions that are assigned to each variable, by its number. Variables that get values in another way, and
    those that begin as NULL, are not among them."""
    found: dict[int, list[tuple[pl.Fragment, pl.Variable]]] = {}
    others: set[int] = set()
    for item in _statements(body.block):
        if isinstance(item, pl.Block):
            for variable in item.variables:
                if variable.default is None or variable.type is None or variable.cursor is not None:
                    others.add(variable.number)
                else:
                    found.setdefault(variable.number, []).append((variable.default, variable))
        elif isinstance(item, pl.Assign) and not item.target.steps:
            found.setdefault(item.target.variable.number, []).append((item.value, item.target.variable))
        elif isinstance(item, pl.ForInteger):
            found.setdefault(item.variable.number, [])
        else:
            others.update(_changed_otherwise(item))
    begun = {variable.number for item in _statements(body.block) for variable in _begun(item)}
    return {number: given for number, given in found.items() if number in begun and number not in others}


def _begun(item: pl.PlStatement) -> tuple[pl.Variable, ...]:
    """The variables that a statement begins with a value."""
    if isinstance(item, pl.Block):
        return item.variables
    return (item.variable,) if isinstance(item, pl.ForInteger) else ()


def _changed_otherwise(item: pl.PlStatement) -> Iterator[int]:
    """The variables that a statement itself, without those within it, may change by more than an assignment."""
    for part in _parts(item):
        if isinstance(part, pl.Target):
            yield part.variable.number
        elif isinstance(part, pl.Variable):
            yield part.number
        elif isinstance(part, pl.Fragment) and isinstance(part.tree, ast.CallStmt):
            yield from (variable.number for variable in variables_among(part.tree, part.scope))


def _statements(item: pl.PlStatement) -> Iterator[pl.PlStatement]:
    """A statement and all within it."""
    yield item
    for part in _parts(item):
        if isinstance(part, pl.PlStatement):
            yield from _statements(part)


def _parts(item: object) -> Iterator[object]:
    """What is directly in a statement; the parts of tuples, and of handlers."""
    pending = [getattr(item, field.name) for field in fields(item)] if is_dataclass(item) else []
    while pending:
        part = pending.pop()
        if isinstance(part, tuple):
            pending += part
        elif isinstance(part, pl.Handler):
            pending += part.statements
        else:
            yield part
