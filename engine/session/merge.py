"""MERGE: rows of source and target joined by the columnar path, and for each the first action whose condition holds.

Actions are computed and written row by row, in the order of the join, as PostgreSQL does: conditions and values may
draw from sequences, and uniqueness is that of the moment. A target row that the command has changed already raises
21000. A row that has changed since the query's snapshot has the whole statement run again (engine/session/dml.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from catalog.errors import SqlError, not_supported
from catalog.types.base import FormatSettings
from engine.bulk.complete import compile_checks, compile_row_functions
from engine.execute.code import Code, NotOnRowPath
from engine.execute.context import ExecContext
from engine.execute.expressions import ExpressionCompiler, Value
from engine.execute.writer import Checks
from engine.session.dml import Call, DataChange, Done
from engine.sql import tree
from engine.storage.columns import one_array, to_values
from engine.storage.keys import row_number_key
from engine.storage.moments import Lsn
from engine.txn.interface import NO_KEY_UPDATE, UPDATE

if TYPE_CHECKING:
    from engine.columnar.interface import BatchStream

Row = Sequence[Any]


class _Action:
    """One WHEN clause, compiled. `values` gives what is assigned, for `columns`: their positions in a row."""

    def __init__(self, merging: Merging, action: tree.MergeAction) -> None:
        self.matched = action.matched
        self.kind = action.action
        self.holds = None if action.condition is None else merging.compile([action.condition])
        self.values = merging.compile([item.expression for item in action.assignments])
        positions = merging.writer.positions
        self.columns = [positions[item.column] for item in action.assignments]
        generated = [item.column for item in merging.statement.generated]
        self.update = merging.writer.updater([*(item.column for item in action.assignments), *generated])


class Merging(DataChange):
    """One MERGE."""

    def __init__(self, call: Call, statement: tree.Merge) -> None:
        super().__init__(call, statement)
        self.statement = statement
        settings = self.session.key.format
        self._places = {(0, number): index for number, index in self.dml.old} | dict(self.dml.inputs)
        self._settings: FormatSettings = settings
        self._types = [column.type.oid for column in self.dml.query.columns]
        self._old = [index for _, index in self.dml.old]
        self._generated_at = [self.writer.positions[item.column] for item in statement.generated]
        self._generated = compile_row_functions(self.table, settings, [item.expression for item in statement.generated])
        self._violated = compile_checks(self.table, settings, statement.checks)
        self._actions = [_Action(self, action) for action in statement.actions]
        self._changed: set[bytes] = set()

    def compile(self, expressions: Sequence[tree.Expr]) -> Callable[[ExecContext, Row, Row], tuple[Any, ...]]:
        """Makes a function (context, parameters, row of the query) -> the values of expressions. Raises 0A000 for what
        cannot be computed row by row."""
        code = Code()

        def column(item: tree.Var) -> Value:
            place = self._places.get((item.relation, item.column))
            if place is None:
                raise NotOnRowPath(f"column {item.name}")
            return Value(f"row[{place}]", nullable=True)

        compiler = ExpressionCompiler(code, self._settings, column)
        computed = {id(expression): index for expression, index in self.dml.computed}
        try:
            sources = [
                f"row[{computed[id(item)]}]" if id(item) in computed else compiler.value(item).source
                for item in expressions
            ]
        except NotOnRowPath as error:
            not_supported(f"{error} in an action of MERGE")
        with code.block("def values(context, parameters, row):"):
            for number in sorted(compiler.parameters):
                code.line(f"p{number} = parameters[{number - 1}]")
            code.line(f"return ({''.join(source + ', ' for source in sources)})")
        return code.finish("values")

    # ---- running ----------------------------------------------------------------------------------------------------

    async def attempt(self, stream: BatchStream) -> Done:
        self._changed = set() if self.part is None else set(self.part.view.touched)
        return self.done(await self.singly(stream, stream))

    def write_slice(self, batch: Any, lsn: Lsn, checks: Checks) -> int:
        columns = [to_values(one_array(column), oid) for column, oid in zip(batch.columns, self._types, strict=True)]
        return sum(self._write(row, lsn, checks) for row in zip(*columns, strict=True))

    def _write(self, row: Row, lsn: Lsn, checks: Checks) -> int:
        """Does with a row of the join what the first action says that it concerns; the number of rows written."""
        matched = row[self.dml.key[0]] is not None
        for action in self._actions:
            if action.matched != matched:
                continue
            if action.holds is not None and action.holds(self.context, self.parameters, row)[0] is not True:
                continue
            if action.kind == "nothing":
                return 0
            if matched:
                self._change(action, row, lsn, checks)
            else:
                self._insert(action, row, checks)
            return 1
        return 0

    def _insert(self, action: _Action, row: Row, checks: Checks) -> None:
        new: list[Any] = [None] * len(self.table.columns)
        self._assign(action, row, new)
        self.writer.write_new(self.transaction, self.context, new, checks)

    def _change(self, action: _Action, row: Row, lsn: Lsn, checks: Checks) -> None:
        old = [row[index] for index in self._old]
        key = self.writer.key_of(old)
        if key is None:
            key = row_number_key(self.table.storage_id, row[self.dml.key[0]])
        if key in self._changed:
            raise SqlError(
                "21000",
                "MERGE command cannot affect row a second time",
                hint="Ensure that not more than one source row matches any one target row.",
            )
        self._changed.add(key)
        deletes = action.kind == "delete"
        self.lock_as_seen(key, lsn, UPDATE if deletes else NO_KEY_UPDATE)
        if deletes:
            self.writer.delete(self.transaction, self.context, key, old, checks)
            return
        new = list(old)
        self._assign(action, row, new)
        action.update(self.transaction, self.context, key, old, new, checks)

    def _assign(self, action: _Action, row: Row, new: list[Any]) -> None:
        """Puts the action's values and generated columns into a new row, which must then be a valid one."""
        for position, value in zip(action.columns, action.values(self.context, self.parameters, row), strict=True):
            new[position] = value
        if self._generated_at:
            for position, value in zip(self._generated_at, self._generated(self.context, tuple(new)), strict=True):
                new[position] = value
        self.writer.check_not_null(new)
        name = self._violated(self.context, tuple(new))
        if name is not None:
            raise self.writer.check_violation(name, new)
