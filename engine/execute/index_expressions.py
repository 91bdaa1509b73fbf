"""Expressions of the schema, not of a statement: index columns, index predicates, column defaults.

The catalog keeps them as SQL text with all names qualified. A plan that needs them parses and analyses them, and
compiles them to functions of a whole row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from catalog.catalog import Catalog
from catalog.errors import not_supported
from catalog.schema import Column, Index, Table
from catalog.types.base import DEFAULT_FORMAT
from engine.execute.code import Code, NotOnRowPath
from engine.execute.compiled_value import Value
from engine.execute.context import ExecContext
from engine.execute.definition_expressions import bind_expression
from engine.execute.expressions import ExpressionCompiler, compile_expression
from engine.sql import tree

Row = Sequence[object]


def _row_compiler(code: Code, table: Table) -> ExpressionCompiler:
    positions = {column.number: position for position, column in enumerate(table.columns)}

    def column(item: tree.Var) -> Value:
        if item.column not in positions:
            raise NotOnRowPath(f"column {item.name}")
        return Value(f"row[{positions[item.column]}]", nullable=True)

    return ExpressionCompiler(code, DEFAULT_FORMAT, column)


def _finish_code(code: Code, name: str) -> Callable[..., Any]:
    """The function. Raises 0A000 for one that needs more than the row: a function may have been replaced since."""
    if code.asks_context:
        not_supported("a function of the session or of its time in an index, or in a check constraint of a partition")
    return code.finish(name)


@contextmanager
def _by_name() -> Iterator[None]:
    """Refuses by its name (0A000) what the row path cannot compute: a definition has no other path."""
    try:
        yield
    except NotOnRowPath as error:
        not_supported(f"{error} in an index or in the definition of a column")


@_by_name()
def expression_values(catalog: Catalog, table: Table, index: Index) -> Callable[[Row], tuple[object, ...]]:
    """Makes a function from a row to the values of an index's columns, expressions among them."""
    code = Code()
    compiler = _row_compiler(code, table)
    sources = []
    for item in index.columns:
        if item.number:
            variable = tree.Var(0, item.number, table.column_by_number(item.number).type)
            sources.append(compiler.value(variable).source)
        else:
            sources.append(compiler.value(bind_expression(catalog, table, str(item.expression))).source)
    with code.block("def values(row):"):
        code.line(f"return ({''.join(source + ', ' for source in sources)})")
    return _finish_code(code, "values")


@_by_name()
def row_condition(catalog: Catalog, table: Table, text: str) -> Callable[[Row], bool]:
    """Makes a function that tells whether a condition is TRUE for a row."""
    code = Code()
    compiler = _row_compiler(code, table)
    test = compiler.true(bind_expression(catalog, table, text))
    with code.block("def holds(row):"):
        code.line(f"return bool({test})")
    return _finish_code(code, "holds")


def row_checks(table: Table, checks: Sequence[tuple[str, tree.Expr]]) -> Callable[[Row], str | None]:
    """Makes a function from a row to the name of the first check that is FALSE for it, None where none is."""
    code = Code()
    compiler = _row_compiler(code, table)
    with code.block("def first_false(row):"):
        for name, condition in sorted(checks, key=lambda item: item[0]):
            try:
                test = compiler.false(condition)
            except NotOnRowPath as error:
                not_supported(f"{error} in a check constraint of a partition")
            with code.block(f"if {test}:"):
                code.line(f"return {name!r}")
        code.line("return None")
    return _finish_code(code, "first_false")


@_by_name()
def generated_values(table: Table, generated: Sequence[tree.Assignment]) -> Callable[[Row], tuple[object, ...]]:
    """Makes a function from a row to the values of its generated columns, in their order."""
    code = Code()
    compiler = _row_compiler(code, table)
    with code.block("def values(row):"):
        sources = [compiler.value(item.expression).source for item in generated]
        code.line(f"return ({''.join(source + ', ' for source in sources)})")
    return code.finish("values")


def default_values(catalog: Catalog, columns: Sequence[Column]) -> Callable[[ExecContext], list[object]]:
    """Makes a function that gives the columns' defaults, NULL where there is none."""
    makers = [
        None
        if column.default is None
        else compile_expression(bind_expression(catalog, None, column.default, column.type), DEFAULT_FORMAT)
        for column in columns
    ]
    return lambda context: [None if make is None else make(context, ()) for make in makers]


def value_getter(catalog: Catalog, table: Table, index: Index) -> Callable[[Row], tuple[object, ...]]:
    """Makes a function from a row to the values of an index's columns."""
    if any(not column.number for column in index.columns):
        return expression_values(catalog, table, index)
    by_number = {column.number: position for position, column in enumerate(table.columns)}
    positions = [by_number[column.number] for column in index.columns]
    if len(positions) == 1:
        only = positions[0]
        return lambda values: (values[only],)
    return lambda values: tuple([values[position] for position in positions])


def predicate_of(catalog: Catalog, table: Table, index: Index) -> Callable[[Row], bool] | None:
    """The condition of a partial index over a row, None for an index over all rows."""
    if index.predicate is None:
        return None
    return row_condition(catalog, table, index.predicate)
