"""MERGE: the columnar path joins rows of source and target, and for each the first action whose condition holds is run.

Actions are computed and written row by row, in the order of the join, as in PostgreSQL: conditions and values may draw
from sequences, and uniqueness is that of the moment. A target row that the command has changed already raises 21000. A
lock is waited for at the row that needs it; earlier writes stay.

READ COMMITTED, for a target row that has changed since the query's snapshot: its newest version is joined again with
its source row, and the actions are evaluated again. A row that was deleted, or does not match any more, counts as not
matched (EvalPlanQual in ExecMergeMatched). If that needs a sub-query, the whole statement runs again on a new snapshot
(engine/statements/data_change.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from catalog.errors import SqlError, not_supported
from catalog.types.base import FormatSettings
from engine.bulk.complete import compile_checks, compile_row_functions
from engine.execute.code import Code, NotOnRowPath
from engine.execute.compiled_value import Value
from engine.execute.context import ExecContext, begin_meter
from engine.execute.expressions import ExpressionCompiler
from engine.execute.writer import Checks, TableWriter
from engine.partitions.partition_writer import Moving, PartitionedWriter
from engine.sql import tree
from engine.sql.tree_walk import has_sublink
from engine.statements.data_change import SLICE, Again, Call, DataChange, Done
from engine.statements.plpgsql import suspend
from engine.storage.columns import one_array, to_values
from engine.storage.keys import row_number_key
from engine.storage.moments import Lsn
from engine.txn.interface import UPDATE, LockWait

if TYPE_CHECKING:
    from engine.columnar.interface import BatchStream
    from engine.execute.triggers import RowTriggers

Row = Sequence[Any]
row_as_seen = object()  # the row that the query saw


class _Action:
    """One WHEN clause, compiled. `values` returns the assigned values for `columns`: their positions in a row."""

    def __init__(self, merging: Merging, action: tree.MergeAction) -> None:
        self.matched = action.matched
        self.kind = action.action
        self.holds = None if action.condition is None else merging.compile([action.condition])
        self.values = merging.compile([item.expression for item in action.assignments])
        self.policies = [name for name, _ in action.policies]
        self.allows = merging.compile([check for _, check in action.policies])
        if has_sublink(action.checks):
            not_supported("MERGE with a sub-query in a row security policy for its new rows")
        checks = (*merging.statement.checks, *action.checks)
        self.violated = compile_checks(merging.table, merging.session.key.format, checks)
        positions = merging.writer.positions
        self.columns = [positions[item.column] for item in action.assignments]
        generated = [item.column for item in merging.statement.generated]
        self.changed = frozenset((*(item.column for item in action.assignments), *generated))


class _Family:
    """Where the rows of the target are: in one table, or in the partitions of one."""

    def __init__(self, merging: Merging) -> None:
        self._merging = merging
        self._writer = merging.writer
        self._updaters: dict[frozenset[int], Callable[..., bytes]] = {}

    def key(self, row: Row) -> bytes:
        """The key of the target's row in a row of the join."""
        merging = self._merging
        key = self._writer.key_of([row[index] for index in merging.old])
        return row_number_key(merging.table.storage_id, row[merging.dml.key[0]]) if key is None else key

    def decode(self, row: Row, value: Any) -> Sequence[Any]:
        """The stored newest version of that row."""
        return self._writer.decode(value)

    def check(self, new: Row) -> None:
        """Raises 23502."""
        self._writer.check_not_null(new)

    def violation(self, name: str, new: Row) -> SqlError:
        """The error of a check that is false for a new row."""
        return self._writer.check_violation(name, new)

    def insert(self, new: list[Any], checks: Checks) -> None:
        self._writer.write_new(self._merging.transaction, self._merging.context, new, checks)

    def delete(self, row: Row, key: bytes, old: Row, checks: Checks) -> None:
        self._writer.delete(self._merging.transaction, self._merging.context, key, old, checks)

    def update(self, changed: frozenset[int], row: Row, key: bytes, old: Row, new: Row, checks: Checks) -> bytes:
        """Returns the key of the row afterwards."""
        if changed not in self._updaters:
            self._updaters[changed] = self._writer.updater(changed)
        merging = self._merging
        return self._updaters[changed](merging.transaction, merging.context, key, old, new, checks)


class _Partitions(_Family):
    """The partitions of the target, which check their own rows."""

    def __init__(self, merging: Merging) -> None:
        super().__init__(merging)
        self._root = PartitionedWriter(merging.session.catalog, merging.table, merging.session.key.format)
        self._moving: dict[int, tuple[TableWriter, Moving]] = {}

    def _member(self, row: Row) -> tuple[TableWriter, Moving]:
        oid = row[self._merging.dml.key[0]]
        if oid not in self._moving:
            catalog = self._merging.session.catalog
            writer = TableWriter(catalog, catalog.table(oid), self._merging.session.key.format)
            writer.moving = Moving(writer, self._merging.table)
            self._moving[oid] = writer, writer.moving
        return self._moving[oid]

    def key(self, row: Row) -> bytes:
        writer, moving = self._member(row)
        key = writer.key_of(moving.leaf.row([row[index] for index in self._merging.old]))
        return row_number_key(writer.table.storage_id, row[self._merging.dml.key[1]]) if key is None else key

    def decode(self, row: Row, value: Any) -> Sequence[Any]:
        writer, moving = self._member(row)
        return moving.leaf.root_row(writer.decode(value))

    def check(self, new: Row) -> None:
        """The partition sees to it."""

    def violation(self, name: str, new: Row) -> SqlError:
        return self._root.check_violation(name, new)

    def insert(self, new: list[Any], checks: Checks) -> None:
        self._root.write_new(self._merging.transaction, self._merging.context, new, checks)

    def delete(self, row: Row, key: bytes, old: Row, checks: Checks) -> None:
        writer, moving = self._member(row)
        writer.delete(self._merging.transaction, self._merging.context, key, moving.leaf.row(old), checks)

    def update(self, changed: frozenset[int], row: Row, key: bytes, old: Row, new: Row, checks: Checks) -> bytes:
        leaf, merging = self._member(row)[1].leaf, self._merging
        update = leaf.updater(changed)
        return update(merging.transaction, merging.context, key, leaf.row(old), leaf.row(new), checks)


class Merging(DataChange):
    """One MERGE."""

    def __init__(self, call: Call, statement: tree.Merge) -> None:
        super().__init__(call, statement)
        self.statement = statement
        settings = self.session.key.format
        self._places = {(0, number): index for number, index in self.dml.old} | dict(self.dml.inputs)
        self._settings: FormatSettings = settings
        self._types = [column.type.oid for column in self.dml.query.columns]
        self.old = [index for _, index in self.dml.old]
        self._generated_at = [self.writer.positions[item.column] for item in statement.generated]
        self._generated = compile_row_functions(self.table, settings, [item.expression for item in statement.generated])
        if statement.in_members and self._members_have_row_triggers():
            not_supported("MERGE into a partitioned table with row triggers")
        self._family = _Partitions(self) if statement.in_members else _Family(self)
        self._actions = [_Action(self, action) for action in statement.actions]
        self._changed: set[bytes] = set()  # rows, by their keys in the join
        self._written: set[bytes] = set()  # their present keys
        self._joins = self._compiled_condition()

    def _members_have_row_triggers(self) -> bool:
        members = self.session.catalog.descendants(self.table.oid)
        return any(trigger.for_row for table in (self.table, *members) for trigger in table.triggers)

    def _compiled_condition(self) -> Callable[[ExecContext, Row, Row], tuple[Any, ...]] | None:
        """Tests whether a row of the target matches one of the source; None if that needs a query."""
        if self.dml.computed:
            return None
        try:
            return self.compile([self.statement.condition])
        except SqlError as error:
            if error.sqlstate != "0A000":
                raise
            return None

    def compile(self, expressions: Sequence[tree.Expr]) -> Callable[[ExecContext, Row, Row], tuple[Any, ...]]:
        """A function (context, parameters, row of the query) -> the values of expressions. Raises 0A000 for expressions
        that cannot be computed row by row."""
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
        self._written = set()
        checks = Checks() if self.part is None else self.part.checks
        count = 0
        batches: AsyncIterable[Any] = stream
        async for batch in batches:
            for start in range(0, batch.num_rows, SLICE):
                begin_meter(self.context)  # others have run since the previous slice
                for row in self._rows(batch.slice(start, SLICE)):
                    count += await self._write_waiting(row, stream.lsn, checks)
                if batch.num_rows > SLICE:
                    await asyncio.sleep(0)
        if self.part is None:
            await self.finish_checks(checks)
        return self.finish(count)

    def _rows(self, batch: Any) -> list[Row]:
        columns = [to_values(one_array(column), oid) for column, oid in zip(batch.columns, self._types, strict=True)]
        return list(zip(*columns, strict=True))

    async def _write_waiting(self, row: Row, lsn: Lsn, checks: Checks) -> int:
        """`_write`, again after each wait for a lock."""
        mark, known = self.transaction.mark(), len(checks)
        if self.fires:
            return await suspend.run(partial(self._write, row, lsn, checks))
        while True:
            try:
                return self._write(row, lsn, checks)
            except LockWait as wait:
                if self.part is not None:
                    raise
                self.transaction.rollback_to(mark)
                del checks[known:]
                await self.session.wait_for(wait)

    def _write(self, row: Row, lsn: Lsn, checks: Checks) -> int:
        """Runs the first matching action for a row of the join; returns the number of rows written."""
        shown, seen = None, False
        while True:
            action = self._action_for(row)
            if action is None or action.kind == "nothing":
                return 0
            if not action.matched:
                return self._insert(action, row, checks)
            key = self._family.key(row)
            if shown is None:
                shown = key
                self._refuse_twice(shown)
            newest = self._lock(key, action, lsn, seen)
            if newest is row_as_seen:
                self._check_policies(action, row)
                self._changed.add(shown)
                changed = self._change(action, key, row, checks)
                if changed is None:
                    return 0
                self._written.add(changed)
                return 1
            row, seen = self._joined_again(row, newest), True

    def _check_policies(self, action: _Action, row: Row) -> None:
        """42501 for a target row that row security policies do not allow the action to change."""
        allowed = action.allows(self.context, self.parameters, row) if action.policies else ()
        for name, holds in zip(action.policies, allowed, strict=True):
            if holds is not True:
                raise self.writer.check_violation(name, [row[index] for index in self.old])

    def _action_for(self, row: Row) -> _Action | None:
        """The first action whose condition holds."""
        matched = row[self.dml.key[0]] is not None
        for action in self._actions:
            if action.matched == matched and (
                action.holds is None or action.holds(self.context, self.parameters, row)[0] is True
            ):
                return action
        return None

    def _refuse_twice(self, key: bytes) -> None:
        if key in self._changed:
            raise SqlError(
                "21000",
                "MERGE command cannot affect row a second time",
                hint="Ensure that not more than one source row matches any one target row.",
            )

    def _lock(self, key: bytes, action: _Action, lsn: Lsn, seen: bool) -> object:
        """Locks a target row. Returns row_as_seen, or its newest version, None if it was deleted. `seen`: that is known
        already. Raises LockWait, 40001, Again."""
        transaction = self.transaction
        own = key in transaction.writes  # the row of one key in the join, whatever was there before
        if not seen and key in self._written:  # another row has got the key, which that row gave up before
            own, found = False, None
        elif action.kind == "delete":
            found = transaction.get_locked(key, UPDATE, current=own)
        else:
            found = transaction.get_to_change(key, current=own)
        if seen or own or transaction.has_in_runs(key):
            return row_as_seen
        newest = self.session.node.store.newest(key)
        if newest is not None and not newest[0] > lsn:
            return row_as_seen
        if self.repeatable:
            raise SqlError("40001", "could not serialize access due to concurrent update")
        if self._joins is None or self.part is not None:
            raise Again
        if found is None and self.statement.in_members:
            raise Again  # it may be in another partition now
        while found is None and (moved := transaction.moved_to(key)) is not None:
            key = moved
            found = transaction.get_to_change(key, current=True)
        return found

    def _joined_again(self, row: Row, newest: object) -> Row:
        """The row of the join with another version of the target's row; None: with none."""
        made = list(row)
        values: Sequence[Any] = [None] * len(self.old) if newest is None else self._family.decode(row, newest)
        for index, value in zip(self.old, values, strict=True):
            made[index] = value
        assert self._joins is not None
        if newest is None or self._joins(self.context, self.parameters, made)[0] is not True:
            for index in (*self.old, *self.dml.key):
                made[index] = None
        return made

    def _insert(self, action: _Action, row: Row, checks: Checks) -> int:
        """Returns the number of rows written: 0 if a trigger keeps the row out."""
        new: list[Any] = [None] * len(self.table.columns)
        triggers = self.writer.triggers
        if triggers is not None:
            self._put_values(action, row, new)
            fired = triggers.new_row(self.context, tuple(new), False)
            if fired is None:
                return 0
            self._check_fired(action, triggers, fired)
            self.writer.write_new(self.transaction, self.context, fired, checks)
            return 1
        self._assign(action, row, new)
        self._family.insert(new, checks)
        return 1

    def _change(self, action: _Action, key: bytes, row: Row, checks: Checks) -> bytes | None:
        """Returns the key of the row afterwards; None if a trigger keeps it from being changed."""
        old = tuple(row[index] for index in self.old)
        triggers = self.writer.triggers
        if triggers is not None:
            if action.kind == "delete":
                if not triggers.may_delete(self.transaction, self.context, key, old):
                    return None
            else:
                new = list(old)
                self._put_values(action, row, new)
                fired = triggers.changed_row(
                    self.transaction, self.context, key, old, tuple(new), action.changed, False
                )
                if fired is None:
                    return None
                self._check_fired(action, triggers, fired)
                return self._family.update(action.changed, row, key, old, fired, checks)
        if action.kind == "delete":
            self._family.delete(row, key, old, checks)
            return key
        new = list(old)
        self._assign(action, row, new)
        return self._family.update(action.changed, row, key, old, new, checks)

    def _check_fired(self, action: _Action, triggers: RowTriggers, row: Row) -> None:
        """Row security policies, then constraints, of a row that BEFORE triggers have returned."""
        name = action.violated(self.context, tuple(row))
        if name is not None and name.startswith(tree.POLICY_CHECK):
            raise self.writer.check_violation(name, row)
        triggers.check_row(self.context, row)

    def _put_values(self, action: _Action, row: Row, new: list[Any]) -> None:
        for position, value in zip(action.columns, action.values(self.context, self.parameters, row), strict=True):
            new[position] = value

    def _assign(self, action: _Action, row: Row, new: list[Any]) -> None:
        """Puts the action's values and generated columns into a new row, and checks it."""
        self._put_values(action, row, new)
        if self._generated_at:
            for position, value in zip(self._generated_at, self._generated(self.context, tuple(new)), strict=True):
                new[position] = value
        name = action.violated(self.context, tuple(new))
        if name is None or not name.startswith(tree.POLICY_CHECK):
            self._family.check(new)
        if name is not None:
            raise self._family.violation(name, new)
