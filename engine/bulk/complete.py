"""The values and checks that a table's definition adds to given columns: defaults, generated columns, NOT NULL and
CHECK, for many rows.

  defaults    A constant is computed once. nextval draws all values at once. Other volatile defaults are computed row by
              row on the engine's thread, because they may use the session.
  generated   Computed row by row over tuples, like CHECK, by the same compiled functions as in the row path.
  violations  Searched in whole columns if possible (NOT NULL), and reported for the first row that has one, in
              PostgreSQL's order: NOT NULL, then CHECK constraints by name.

`draw` and `defaults` run on the engine's thread, everything else in any thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from catalog.errors import SqlError, not_supported
from catalog.schema import Sequence as SequenceObject
from catalog.schema import Table
from catalog.types.base import FormatSettings
from catalog.types.integer import BITS
from catalog.types.oids import INT2
from engine.bulk.rows import Row, RowSet
from engine.execute.code import Code, NotOnRowPath
from engine.execute.compiled_value import Value
from engine.execute.context import ExecContext
from engine.execute.expressions import ExpressionCompiler, compile_expression
from engine.execute.writer import TableWriter
from engine.sql import tree
from engine.sql.tree_walk import is_volatile
from engine.storage.columns import Column, Numbers, ShapedArray, from_values
from engine.txn.locks import ROW_EXCLUSIVE

if TYPE_CHECKING:
    from engine.bulk.session import BulkSession

_SLICE = 2000  # values computed in one turn of the event loop

RowFunction = Callable[[ExecContext, Row], Any]


def compile_row_functions(table: Table, settings: FormatSettings, expressions: Sequence[tree.Expr]) -> RowFunction:
    """Makes a function (context, row) -> a tuple of the values of expressions over a table's columns (range entry 0).

    Raises 0A000 for expressions that only the columnar path can compute.
    """
    code, compiler = _compiler(table, settings)
    try:
        sources = [compiler.value(expression).source for expression in expressions]
        with code.block("def values(context, row):"):
            code.line(f"return ({''.join(source + ', ' for source in sources)})")
        return code.finish("values")
    except NotOnRowPath as error:
        not_supported(f"{error} over many rows")


def compile_condition(table: Table, settings: FormatSettings, condition: tree.Expr) -> RowFunction:
    """Makes a function (context, row) -> whether the condition is TRUE."""
    code, compiler = _compiler(table, settings)
    try:
        source = compiler.true(condition)
        with code.block("def holds(context, row):"):
            code.line(f"return bool({source})")
        return code.finish("holds")
    except NotOnRowPath as error:
        not_supported(f"{error} over many rows")


def compile_checks(table: Table, settings: FormatSettings, checks: Sequence[tuple[str, tree.Expr]]) -> RowFunction:
    """Makes a function (context, row) -> the name of the first constraint that is FALSE, None if all hold."""
    code, compiler = _compiler(table, settings)
    try:
        conditions = [(name, compiler.false(check)) for name, check in sorted(checks, key=lambda item: item[0])]
        with code.block("def violated(context, row):"):
            for name, condition in conditions:
                code.line(f"if {condition}: return {name!r}")
            code.line("return None")
        return code.finish("violated")
    except NotOnRowPath as error:
        not_supported(f"{error} in a check constraint")


def _compiler(table: Table, settings: FormatSettings) -> tuple[Code, ExpressionCompiler]:
    code = Code()
    positions = {column.number: place for place, column in enumerate(table.columns)}

    def column(item: tree.Var) -> Value:
        if item.column == 0:
            return Value("row", nullable=False, atom=True)
        if item.column not in positions:
            raise NotOnRowPath(f"column {item.name}")
        return Value(f"row[{positions[item.column]}]", nullable=True)

    return code, ExpressionCompiler(code, settings, column)


class RowCompleter:
    """Completes rows of one table. `defaults`: (column number, expression) of the columns without given values."""

    def __init__(
        self,
        session: BulkSession,
        writer: TableWriter,
        defaults: Sequence[tree.Assignment],
        generated: Sequence[tree.Assignment],
        checks: Sequence[tuple[str, tree.Expr]],
        where: tree.Expr | None = None,
    ) -> None:
        table, settings = writer.table, session.key.format
        self.table = table
        self._session = session
        self._writer = writer
        self._context = session.context()
        self._sequences: list[tuple[int, SequenceObject]] = []
        self._per_row: list[tuple[int, Callable[..., object]]] = []
        self._once: dict[int, object] = {}
        for item in defaults:
            self._sort(item, settings)
        self._generated = [item.column for item in generated]
        self._compute: RowFunction | None = None
        if generated:
            self._compute = compile_row_functions(table, settings, [item.expression for item in generated])
        self._where = compile_condition(table, settings, where) if where is not None else None
        self._violated = compile_checks(table, settings, checks) if checks else None
        self._required = [table.columns[place].number for place, _ in writer.required]

    def _sort(self, item: tree.Assignment, settings: FormatSettings) -> None:
        sequence = drawn_from(item.expression)
        found = self._session.catalog.get(sequence) if sequence is not None else None
        if isinstance(found, SequenceObject) and not found.cycle:
            self._sequences.append((item.column, found))
            return
        if isinstance(item.expression, tree.Const) and item.expression.value is None:
            return
        try:
            compute = compile_expression(item.expression, settings)
        except NotOnRowPath as error:
            not_supported(f"{error} in a default")
        if is_volatile(item.expression):
            self._per_row.append((item.column, compute))
        else:
            self._once[item.column] = compute(self._context, ())

    def allow_nulls(self) -> None:
        """NOT NULL is checked later."""
        self._required = []

    @property
    def draws(self) -> bool:
        """Whether every row needs values that only the engine's thread can compute."""
        return bool(self._sequences or self._per_row)

    async def draw(self, count: int) -> dict[int, list[object]]:
        """Computes those values for `count` rows, by column number."""
        drawn: dict[int, list[object]] = {}
        session = self._session
        for column, sequence in self._sequences:
            if session.transaction is not None:
                await session.lock_table(session.transaction, sequence.oid, ROW_EXCLUSIVE)
            values = session.node.sequences.next_values(sequence, count)
            _within(self.table.column_by_number(column).type.oid, values)
            session.sequences.note_drawn(sequence.oid, values[-1])
            drawn[column] = list(values)
        for column, compute in self._per_row:
            items: list[object] = []
            while len(items) < count:
                items.extend(compute(self._context, ()) for _ in range(min(_SLICE, count - len(items))))
                await asyncio.sleep(0)
            drawn[column] = items
        return drawn

    def complete(self, rows: RowSet, drawn: Mapping[int, Sequence[object]]) -> tuple[RowSet, Numbers | None]:
        """The rows with defaults and generated columns, and the positions of the rows that WHERE keeps (None: all)."""
        more: dict[int, Sequence[object] | Column] = dict(drawn)
        for number, value in self._once.items():
            try:
                one = from_values([value], self.table.column_by_number(number).type.oid)
            except ShapedArray:
                more[number] = [value] * rows.count
            else:
                more[number] = one.take(pa.array(np.zeros(rows.count, np.int32)))
        rows = rows.with_columns(more)
        kept = None
        context = self._context
        if self._where is not None:
            where = self._where
            kept = np.flatnonzero(np.fromiter((where(context, row) for row in rows.tuples()), np.bool_, rows.count))
            rows = rows.take(kept)
        if self._compute is not None:
            compute = self._compute
            made = list(zip(*(compute(context, row) for row in rows.tuples()), strict=True))
            rows = rows.with_columns(
                {number: made[place] if made else [] for place, number in enumerate(self._generated)}
            )
        return rows, kept

    def violation(self, rows: RowSet) -> tuple[int, SqlError] | None:
        """The first row that violates a constraint, and its error (23502, 23514, or the error of a check)."""
        missing = self._first_missing(rows)
        if self._violated is not None:
            violated, context = self._violated, self._context
            for place, row in enumerate(rows.tuples()[: None if missing is None else missing + 1]):
                try:
                    name = violated(context, row)
                except SqlError as error:
                    if place == missing:
                        break
                    return place, error
                if name is not None and (place != missing or name.startswith(tree.POLICY_CHECK)):
                    return place, self._writer.check_violation(name, row)
        if missing is None:
            return None
        try:
            self._writer.check_not_null(rows.row(missing))
        except SqlError as error:
            return missing, error
        raise AssertionError("a NULL that is none")

    def _first_missing(self, rows: RowSet) -> int | None:
        """The first row with a NULL in a NOT NULL column."""
        masks = [valid for number in self._required if (valid := rows.valid(number)) is not None]
        if not masks:
            return None
        return int(np.argmin(np.logical_and.reduce(masks)))


def drawn_from(expression: tree.Expr) -> int | None:
    """The OID of the sequence, if the expression is just its next value (serial, identity), with or without casts to
    another integer type."""
    if isinstance(expression, tree.NextValueExpr):
        return expression.sequence
    if not isinstance(expression, tree.FuncExpr) or len(expression.arguments) != 1:
        return None
    argument = expression.arguments[0]
    if expression.function.source == "nextval_oid":
        while isinstance(argument, tree.RelabelType):
            argument = argument.argument
        if isinstance(argument, tree.Const) and isinstance(argument.value, int):
            return argument.value
        return None
    if expression.display.startswith("cast") and expression.type.oid in BITS:
        return drawn_from(argument)
    return None


def _within(oid: int, values: range) -> None:
    bits = BITS.get(oid)
    if bits is not None and values and not (-(1 << bits) <= min(values[0], values[-1]) <= max(values) < 1 << bits):
        raise SqlError("22003", "smallint out of range" if oid == INT2 else "integer out of range")
