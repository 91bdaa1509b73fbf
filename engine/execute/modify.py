"""INSERT, UPDATE and DELETE on the row path.

    INSERT           values of each row, then for each: generated columns, NOT NULL, CHECK, the row and its entries
    UPDATE, DELETE   find the rows (snapshot), then for each: lock, read the newest version, evaluate the condition
                     again if that differs from the one found, write
    all              RETURNING at each row; foreign keys when all rows are written

All rows are found before the first one is written. So a plan that stops (`RowPathFull`) has written nothing, and a
statement does not see its own rows. A statement on one row by its key has no list and no loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import cast

from catalog.catalog import Catalog
from catalog.functions.base import Trait
from catalog.functions.registry import function, has_trait
from catalog.schema import Table
from catalog.types import oids
from catalog.types.base import FormatSettings, TypeRef
from engine.execute import foreign_keys  # noqa: F401 - writers find their foreign keys by it
from engine.execute.code import Code, LineUse, NotOnRowPath, targets_of
from engine.execute.compiled_value import Value
from engine.execute.conflicts import ConflictFinder, affected_twice
from engine.execute.context import RowPathFull, Together
from engine.execute.encode import DataRowSink
from engine.execute.explain import PlanNote
from engine.execute.expressions import ExpressionCompiler
from engine.execute.frame import CompiledPlan, Run, result_fields, write_function
from engine.execute.measured import write_kept
from engine.execute.output import ListSink, Sink
from engine.execute.records import level_of
from engine.execute.routine_source import calls_routines
from engine.execute.select import QueryCompiler
from engine.execute.together import compile_together, parameters_of_a_row
from engine.execute.variants import Variant, by_parameters
from engine.execute.writer import Checks, TableWriter
from engine.partitions.partition_writer import PartitionedConflicts, PartitionedWriter, writer_of
from engine.sql import tree
from engine.sql.analyze.routines import is_routine
from engine.sql.analyze.typeinfo import BOOL_REF
from engine.sql.tree_walk import conjuncts, contains, has_sublink, is_volatile, variables, walk, walk_with_depth
from engine.storage.keys import row_number_of
from engine.txn.interface import NO_KEY_UPDATE, UPDATE

Statement = tree.Insert | tree.Update | tree.Delete


_NO_LOCKER = tree.Const(0, TypeRef(oids.XID))
_LOCKER = tree.FuncExpr(function(5071), (tree.FuncExpr(function(5059), (), TypeRef(oids.XID8)),), TypeRef(oids.XID))
"""xid(pg_current_xact_id())"""
_TRACELESS = (Trait.TRACELESS, Trait.CLOCK_OR_CHANCE)


def _leaves_traces(node: object) -> bool:
    """Whether a statement with this node has lasting effects if it is undone and run again."""
    if isinstance(node, tree.FuncExpr):
        source = node.function.source
        return node.function.volatility == "v" and not any(has_trait(source, trait) for trait in _TRACELESS)
    return isinstance(node, tree.SubLink | tree.CurrentOf)


class ModifyPlan(CompiledPlan):
    """An INSERT, UPDATE or DELETE compiled."""

    writes = True

    def __init__(self, analyzed: tree.Analyzed, catalog: Catalog, settings: FormatSettings) -> None:
        statement = analyzed.statement
        assert not isinstance(statement, (tree.Query, tree.Merge))
        self._statement: Statement = statement
        self._stays = calls_routines(catalog, statement)
        self._catalog = catalog
        self._settings = settings
        if isinstance(statement, (tree.Update, tree.Delete)) and statement.members:
            raise NotOnRowPath("several tables")
        self._writer = writer_of(catalog, statement, settings)
        super().__init__(result_fields(statement.returning, (level_of(statement),)), analyzed)
        self.command = type(statement).__name__.upper()
        self.repeats = not self.fields and not contains(statement, _leaves_traces)
        if isinstance(statement, tree.Insert):
            self.values = max(len(statement.rows), 1)
        self.make_encoder((0,) * len(self.fields))  # tests whether it can be compiled; text is most frequent

    @cached_property
    def together(self) -> Together | None:
        """Many executions as one (engine/execute/together.py)."""
        statement = self._statement
        if not self.repeats or not isinstance(statement, tree.Insert):
            return None
        each = parameters_of_a_row(statement, self.parameter_types)
        if each is None:
            return None
        shell = _Shell(Code(self.literals), self._catalog, self._settings, self._writer, None, each)
        return compile_together(InsertCompiler(shell, statement), each)

    def _compile(self, formats: tuple[int, ...] | None) -> Run:
        return by_parameters(lambda without: self._variant(formats, without))

    def _variant(self, formats: tuple[int, ...] | None, without: frozenset[int]) -> Variant:
        code = Code(self.literals, stays=self._stays)
        code.without = without
        try:
            run = self._write(code, formats)
        except BaseException:
            code.let_go()
            raise
        if code.provided:
            self.finds_rows = True  # in another variant it might
        return run, code.provided

    def _write(self, code: Code, formats: tuple[int, ...] | None) -> Run:
        sink: Sink | None = None
        if self._statement.returning and formats is None:
            sink = ListSink(code)
        elif self._statement.returning:
            outputs = [target.expression for target in self._statement.returning]
            sink = DataRowSink(code, outputs, (level_of(self._statement),), formats or (), self._settings, single=False)
        shell = _Shell(code, self._catalog, self._settings, self._writer, sink, len(self.parameter_types))
        if sink is None:
            shell.result = "[]" if formats is None else 'b""'
        elif formats is None:
            shell.result = cast(ListSink, sink).out
        else:
            shell.result = f'b"".join({cast(DataRowSink, sink).out})'
        if isinstance(self._statement, tree.Insert):
            self.finds_rows |= self._statement.source is not None
            run, notes = InsertCompiler(shell, self._statement).compile()
        else:
            change = ChangeCompiler(shell, self._statement)
            self.finds_rows |= not change.by_key or has_sublink(self._statement)
            run, notes = change.compile()
        self._notes = notes
        return run


class _Shell:
    """The common part of the three compilers: the function being written, the table's writer, the sink of RETURNING."""

    def __init__(
        self,
        code: Code,
        catalog: Catalog,
        settings: FormatSettings,
        writer: TableWriter,
        sink: Sink | None,
        parameters: int,
    ) -> None:
        self.code = code
        code.in_plan = True
        self.catalog = catalog
        self.settings = settings
        self.writer = writer
        self.sink = sink
        self.parameters = parameters
        self.result = "[]"
        self.triggers = writer.triggers
        self.checked = bool(writer.outgoing or writer.incoming or writer.exclusions or self.triggers)
        self.may_leave = False  # it finds its rows before it writes, with `memory.stay()` between
        code.names.update(Checks=Checks, RowPathFull=RowPathFull)

    @property
    def checks(self) -> str:
        return "checks" if self.checked else "None"

    def function(self, body: Callable[[], None]) -> Run:
        """Writes the function around `body`."""

        def whole() -> None:
            self.code.line("transaction = context.transaction")
            if self.checked:
                self.code.line("checks = Checks() if context.checks is None else context.checks")
            if self.sink is not None:
                self.sink.start()
            body()
            if self.checked:
                self.code.line("if context.checks is None: checks.finish()")
            self.code.line(f"return {self.result}, count")

        write_function(self.code, self.parameters, "context.transaction", whole, self.may_leave)
        return self.code.finish("run")

    def local(self, value: Value) -> Value:
        """The value in a local, unless it is as cheap as one."""
        if value.atom:
            return value
        name = self.code.temporary("v")
        self.code.line(f"{name} = {value.source}")
        return value.with_name(name)

    def write_row_checks(
        self,
        expressions: ExpressionCompiler,
        row: str,
        values: Sequence[Value],
        checks: Sequence[tuple[str, tree.Expr]],
    ) -> None:
        """Row security policies, NOT NULL, then CHECK constraints by name, over the new row."""
        code, writer, table = self.code, self.writer, self.writer.table
        policies = policy_checks(checks)
        if policies:
            domains = [item for item in checks if not item[0]]
            self.write_checks(expressions, row, [*domains, *policies])
            checks = [item for item in checks if item[0] and not item[0].startswith(tree.POLICY_CHECK)]
        # The new partition of a moved row checks its own NOT NULL columns.
        required = set() if writer.moving is not None else {position for position, _ in writer.required}
        if any(value.nullable for position, value in enumerate(values) if position in required):
            tests = [
                f"{value.source} is None"
                for position, value in enumerate(values)
                if position in required and value.nullable
            ]
            check = code.constant(writer.check_not_null, "check_not_null")
            code.line(f"if {' or '.join(tests)}: {check}({row})")
        self.write_checks(expressions, row, [item for item in checks if not item[0].startswith(tree.VIEW_CHECK)])
        assert len(values) == len(table.columns)

    def write_view_checks(
        self, expressions: ExpressionCompiler, row: str, checks: Sequence[tuple[str, tree.Expr]]
    ) -> None:
        """The checks of views after a row was written: unique keys come first, and rows that ON CONFLICT discards are
        not checked (ExecInsert)."""
        self.write_checks(expressions, row, [item for item in checks if item[0].startswith(tree.VIEW_CHECK)])

    def write_checks(self, expressions: ExpressionCompiler, row: str, checks: Sequence[tuple[str, tree.Expr]]) -> None:
        violation = self.code.constant(self.writer.check_violation, "check_violation") if checks else ""
        for name, condition in sorted(checks, key=lambda item: item[0]):
            self.code.line(f"if {expressions.false(condition)}: raise {violation}({name!r}, {row})")

    def write_returning(self, expressions: ExpressionCompiler, targets: Sequence[tree.Target]) -> None:
        if self.sink is not None:
            self.sink.row([expressions.value(target.expression) for target in targets])

    def write_generated(
        self, expressions: ExpressionCompiler, values: list[Value], generated: Sequence[tree.Assignment]
    ) -> None:
        """Adds generated columns to the row whose values `expressions` sees."""
        for assignment in generated:
            position = self.writer.positions[assignment.column]
            values[position] = self.local(expressions.value(assignment.expression))

    def write_new_row(self, checks: Sequence[tuple[str, tree.Expr]]) -> list[Value]:
        """The code that fires BEFORE INSERT triggers for `row`; what follows is for a row that is to be inserted alone.
        Returns the row's values. `write_fired_checks` has to follow."""
        assert self.triggers is not None
        call = self.code.constant(self.triggers.new_row, "new_row")
        return self._write_fired(f"{call}(context, row, {not policy_checks(checks)})")

    def write_changed_row(
        self, key: str, changed: Sequence[int], checks: Sequence[tuple[str, tree.Expr]]
    ) -> list[Value]:
        """The same for BEFORE UPDATE triggers and the new row `row` of `old`."""
        assert self.triggers is not None
        call = self.code.constant(self.triggers.changed_row, "changed_row")
        names = self.code.constant(frozenset(changed), "changed")
        return self._write_fired(f"{call}(transaction, context, {key}, old, row, {names}, {not policy_checks(checks)})")

    def _write_fired(self, call: str) -> list[Value]:
        code = self.code
        code.line(f"row = {call}")
        code.indent("if row is not None:")
        names = [code.temporary("v") for _ in self.writer.table.columns]
        if names:
            code.line(f"{targets_of(names)} = row")
        return [Value(name, nullable=True, atom=True) for name in names]

    def write_fired_checks(self, expressions: ExpressionCompiler, checks: Sequence[tuple[str, tree.Expr]]) -> None:
        """Row security policies over the row that triggers have returned, and then the checks that were put off for
        them."""
        policies = policy_checks(checks)
        if policies:
            assert self.triggers is not None
            self.write_checks(expressions, "row", policies)
            self.code.line(f"{self.code.constant(self.triggers.check_row, 'check_row')}(context, row)")

    def row_source(self, values: Sequence[Value]) -> str:
        return f"({''.join(value.source + ', ' for value in values)})"


def policy_checks(checks: Sequence[tuple[str, tree.Expr]]) -> list[tuple[str, tree.Expr]]:
    """The checks of row security policies among the checks of a statement."""
    return [item for item in checks if item[0].startswith(tree.POLICY_CHECK)]


class _NewRow(QueryCompiler):
    """The query level of an INSERT, for its WITH queries and the sub-queries of ON CONFLICT and RETURNING: its columns
    are those of the new row, or of the conflicting one."""

    def __init__(
        self,
        code: Code,
        catalog: Catalog,
        settings: FormatSettings,
        query: tree.Query,
        find: Callable[[tree.Var], Value],
    ) -> None:
        self._find = find
        super().__init__(code, catalog, settings, query, None)

    def variable(self, item: tree.Var) -> Value:
        return self._find(item)

    def _let_go(self) -> None:
        super()._let_go()
        del self._find


def _reads(table: Table, part: object) -> bool:
    """Whether a sub-query of the part reads the table: it would see rows that the statement has written."""
    return any(
        depth and isinstance(item, tree.RangeTable) and item.table.oid == table.oid
        for item, depth in walk_with_depth(part)
    )


class InsertCompiler:
    """INSERT: VALUES of one or many rows, or the rows of a query on the row path."""

    def __init__(self, shell: _Shell, statement: tree.Insert) -> None:
        self.shell = shell
        self.code = shell.code
        self.statement = statement
        self.table = statement.table
        shell.may_leave = statement.source is not None
        self.partitioned = shell.writer if isinstance(shell.writer, PartitionedWriter) else None
        self.values: list[Value] = []
        self.old: dict[tuple[int, int], Value] = {}
        self.updates = False  # ON CONFLICT updates the row that RETURNING returns
        self.around = _NewRow(shell.code, shell.catalog, shell.settings, level_of(statement), self._variable)
        self.expressions = self.around.expressions
        self.source_note: PlanNote = PlanNote("Result")
        if any(_reads(self.table, part) for part in (statement.returning, statement.on_conflict, statement.checks)):
            raise NotOnRowPath("a sub-query over the table that changes")

    def _variable(self, item: tree.Var) -> Value:
        """A column of the new row; under ON CONFLICT entry 0 is the existing row, and entry 1 the proposed one."""
        if item.levels_up:
            raise NotOnRowPath("column of an unknown query")
        if self.old:
            found = self.old.get((item.relation, item.column))
        elif item.column == tree.TABLE_OID and self.partitioned is not None:
            return Value(f"{self.code.constant(self.partitioned.table_oid, 'table_oid')}(key)", nullable=False)
        elif item.column == 0:
            return Value(self.shell.row_source(self.values), nullable=False)
        elif item.column == tree.XMAX:
            return self.expressions.value(_LOCKER if self.updates else _NO_LOCKER)
        elif item.column == tree.ROW_NUMBER:
            self.code.names["row_number_of"] = row_number_of
            return Value(f"row_number_of({'conflict' if self.updates else 'key'})", nullable=False)
        else:
            position = self.shell.writer.positions.get(item.column)
            found = None if position is None else self.values[position]
        if found is None:
            raise NotOnRowPath(f"column {item.name}")
        return found

    def compile(self) -> tuple[Run, list[PlanNote]]:
        run = self.shell.function(self._body)
        note = PlanNote(f"Insert on {self.table.name}", [], [self.source_note])
        return run, [note]

    def _body(self) -> None:
        code, statement = self.code, self.statement
        code.line("count = 0")
        self.around.write_ctes(statement)
        if statement.on_conflict is not None and statement.on_conflict.action == "update":
            code.line("touched = set()")
        depth = code.depth
        if statement.source is not None:
            self._write_source(statement.source)
        elif len(statement.rows) == 1:
            self._write_values(statement.rows[0])
        else:
            self._write_many()
        self._write_row()
        code.dedent_to(depth)

    def _write_values(self, row: Sequence[tree.Expr]) -> None:
        """The values of a single row; sequences come last, so that no value is drawn if another column's value is
        refused."""
        made = {}
        for late in (False, True):
            for place, item in enumerate(row):
                if is_volatile(item) == late:
                    made[place] = self.shell.local(self.expressions.value(item))
        self.values = [made[place] for place in range(len(row))]

    def _write_many(self) -> None:
        """A loop over the rows. Rows of constants are one constant."""
        code = self.code
        self.source_note = PlanNote('Values Scan on "*VALUES*"')
        names = [code.temporary("v") for _ in self.table.columns]
        rows = self.statement.rows
        known = [[self.expressions.constant(item) for item in row] for row in rows]
        if all(value is not None for row in known for value in row):
            source = code.constant([[value[0] for value in row if value is not None] for row in known], "rows")
        else:
            parts = []
            for row in rows:
                parts.append(f"({''.join(self.expressions.value(item).source + ', ' for item in row)})")
            source = f"({', '.join(parts)},)"
        code.indent(f"for {targets_of(names)} in {source}:")
        self.values = [Value(name, nullable=True, atom=True, made=True) for name in names]

    def _write_source(self, query: tree.Query) -> None:
        """The rows of a query, all of them before the first is written."""
        code, statement = self.code, self.statement
        inner = QueryCompiler(code, self.shell.catalog, self.shell.settings, query, self.around)
        name = code.temporary("query")
        depth = code.depth
        code.indent(f"def {name}():")
        code.line("nonlocal n", LineUse.COUNT)
        inner.write(ListSink(code, count=False))
        code.dedent_to(depth)
        self.source_note = inner.notes[0]
        names = [code.temporary("v") for _ in statement.source_columns]
        rows = code.temporary("rows")
        code.line(f"{rows} = {name}()")
        code.line("memory.stay()", LineUse.METER)
        code.indent(f"for {', '.join(names)}, in {rows}:" if names else f"for _ in {rows}:")
        given = dict(zip(statement.source_columns, names, strict=True))
        defaults = {assignment.column: assignment.expression for assignment in statement.defaults}
        self.values = []
        for column in self.table.columns:
            if column.number in given:
                self.values.append(Value(given[column.number], nullable=True, atom=True, made=True))
            elif column.number in defaults:
                self.values.append(self.shell.local(self.expressions.value(defaults[column.number])))
            else:
                self.values.append(Value("None", nullable=True, atom=True))

    def write_row_values(self, row: Sequence[tree.Expr]) -> None:
        """The whole row, checked, as `row`."""
        self._write_values(row)
        self._write_checked()
        self.shell.write_view_checks(self.expressions, "row", self.statement.checks)

    def write_given_row(self, row: Sequence[tree.Expr]) -> None:
        """The row as the BEFORE triggers get it, as `row`."""
        self._write_values(row)
        self.code.line(f"row = {self.shell.row_source(self.values)}")

    def _write_checked(self) -> None:
        shell, statement = self.shell, self.statement
        if shell.triggers is not None:
            self.code.line(f"row = {shell.row_source(self.values)}")
            self.values = shell.write_new_row(statement.checks)
            shell.write_fired_checks(self.expressions, statement.checks)
            return
        shell.write_generated(self.expressions, self.values, statement.generated)
        self.code.line(f"row = {shell.row_source(self.values)}")
        shell.write_row_checks(self.expressions, "row", self.values, statement.checks)

    def _write_row(self) -> None:
        code, shell, statement = self.code, self.shell, self.statement
        self._write_checked()
        depth = code.depth
        conflict = statement.on_conflict
        if conflict is not None:
            finder: ConflictFinder | PartitionedConflicts
            if self.partitioned is not None:
                finder = PartitionedConflicts(self.partitioned, conflict.index_oids)
            else:
                finder = ConflictFinder(shell.writer, conflict.index_oids)
            code.line(f"conflict = {code.constant(finder.find, 'find_conflict')}(transaction, row)")
            code.indent("if conflict is None:")
        write = code.constant(shell.writer.write_new, "write_new")
        touches = conflict is not None and conflict.action == "update"
        numbered = any(
            isinstance(item, tree.Var) and item.column == tree.ROW_NUMBER for item in walk(statement.returning)
        )
        key = "key = " if touches or numbered or self.partitioned is not None else ""
        code.line(f"{key}{write}(transaction, context, row, {shell.checks})")
        shell.write_view_checks(self.expressions, "row", statement.checks)
        if touches:
            code.line("touched.add(key)")
        code.line("count += 1")
        shell.write_returning(self.expressions, statement.returning)
        code.dedent_to(depth)
        if conflict is not None and conflict.action == "update":
            code.indent("else:")
            self._write_conflict(conflict)
            code.dedent_to(depth)

    def _write_conflict(self, conflict: tree.OnConflict) -> None:
        """DO UPDATE of the conflicting row: locks it, and evaluates the condition on its newest version."""
        code, shell, table = self.code, self.shell, self.table
        code.names["affected_twice"] = affected_twice
        code.line("if conflict in touched: raise affected_twice()")
        keys = shell.writer.unique_columns()
        strength = UPDATE if any(item.column in keys for item in conflict.assignments) else NO_KEY_UPDATE
        code.line(f"stored = transaction.get_locked(conflict, {strength}, current=True)")
        code.line("if stored is None: raise affected_twice()")
        if shell.triggers is not None:  # which have changed the row
            code.line("if transaction.is_modified(conflict): raise affected_twice()")
        names = [code.temporary("c") for _ in table.columns]
        if self.partitioned is not None:
            code.line("key = conflict")
            code.line(f"old = {code.constant(self.partitioned.decode_at, 'decode')}(key, stored)")
        else:
            code.line(f"old = {code.constant(shell.writer.decode, 'decode')}(stored)")
        code.line(f"{targets_of(names)} = old")
        not_null = {table.columns[position].number for position, _ in shell.writer.required}
        for column, name, value in zip(table.columns, names, self.values, strict=True):
            self.old[0, column.number] = Value(name, column.number not in not_null, atom=True)
            self.old[1, column.number] = value
        self.old[0, 0] = Value("old", nullable=False, atom=True)
        self.old[1, 0] = Value(shell.row_source(self.values), nullable=False)
        if conflict.where is not None:
            code.indent(f"if {self.expressions.true(conflict.where)}:")
        shell.write_checks(self.expressions, "old", conflict.policies)
        assigned = write_assignments(shell, self.expressions, conflict.assignments)
        existing = [self.old[0, column.number] for column in table.columns]
        self.old = {}
        self.updates = True
        self.values = [
            assigned.get(column.number, value) for column, value in zip(table.columns, existing, strict=True)
        ]
        changed = [*assigned, *(assignment.column for assignment in self.statement.generated)]
        own = [item for item in self.statement.checks if not item[0].startswith(tree.POLICY_CHECK)]
        if shell.triggers is not None:
            code.line(f"row = {shell.row_source(self.values)}")
            self.values = shell.write_changed_row("conflict", changed, conflict.checks)
            shell.write_fired_checks(self.expressions, conflict.checks)
        else:
            shell.write_generated(self.expressions, self.values, self.statement.generated)
            code.line(f"row = {shell.row_source(self.values)}")
            shell.write_row_checks(self.expressions, "row", self.values, [*conflict.checks, *own])
        update = code.constant(shell.writer.updater(changed), "update")
        code.line(f"touched.add({update}(transaction, context, conflict, old, row, {shell.checks}))")
        shell.write_view_checks(self.expressions, "row", self.statement.checks)
        code.line("count += 1")
        shell.write_returning(self.expressions, self.statement.returning)


def write_assignments(
    shell: _Shell, expressions: ExpressionCompiler, assignments: Sequence[tree.Assignment]
) -> dict[int, Value]:
    """The new values of assigned columns, all computed from the old row."""
    return {item.column: shell.local(expressions.value(item.expression)) for item in assignments}


def _may_change_keys(writer: TableWriter, statement: tree.Update) -> bool:
    changed = {item.column for item in (*statement.assignments, *statement.generated)}
    if writer.triggers is not None and writer.triggers.changes_updates:
        return True
    return writer.moving is not None or not changed.isdisjoint(writer.unique_columns())


def _late_conditions(query: tree.Query) -> tuple[tree.Expr, ...]:
    """The conditions that call functions with effects. Where the table has row triggers, each row is tested before the
    triggers of the rows before it have fired, unless these conditions wait until it is the row's turn."""
    return tuple(
        item
        for item in conjuncts(query.where)
        if any(map(is_routine, walk(item))) and is_volatile(item) and not has_sublink(item)
    )


def _without(condition: tree.Expr | None, left_out: Sequence[tree.Expr]) -> tree.Expr | None:
    """The condition without some of its conjuncts."""
    kept = tuple(item for item in conjuncts(condition) if item not in left_out)
    if len(kept) > 1:
        return tree.BoolExpr("and", kept, BOOL_REF)
    return kept[0] if kept else None


class ChangeCompiler:
    """UPDATE and DELETE, with FROM and USING where the joins are on the row path."""

    def __init__(self, shell: _Shell, statement: tree.Update | tree.Delete) -> None:
        self.shell = shell
        self.code = shell.code
        self.statement = statement
        self.table: Table = statement.table
        query = tree.Query(
            targets=(),
            range_table=statement.range_table,
            from_items=(tree.FromRef(0), *statement.from_items),
            where=statement.where,
            ctes=statement.ctes,
        )
        self.late = () if statement.from_items or shell.triggers is None else _late_conditions(query)
        found = replace(query, where=_without(query.where, self.late)) if self.late else query
        self.finder = QueryCompiler(shell.code, shell.catalog, shell.settings, found, None)
        self.after = QueryCompiler(shell.code, shell.catalog, shell.settings, query, None)  # sees the locked row
        self.joined = bool(statement.from_items)
        self.one_row = self.finder.at_most_one_row and not self.joined
        self.by_key = self.one_row and not self.finder.looks_up_an_index
        shell.may_leave = not self.one_row
        assignments = statement.assignments if isinstance(statement, tree.Update) else ()
        # A sub-query may stop: before the only row is written that is harmless, before a later one it would not be.
        checks = statement.checks if isinstance(statement, tree.Update) else ()
        if has_sublink((statement.returning, checks)) or (has_sublink(assignments) and not self.one_row):
            raise NotOnRowPath("sub-query in SET, RETURNING or a check option")

    def compile(self) -> tuple[Run, list[PlanNote]]:
        run = self.shell.function(self._body)
        verb = "Update" if isinstance(self.statement, tree.Update) else "Delete"
        return run, [PlanNote(f"{verb} on {self.table.name}", [], self.finder.describe_scan())]

    def _body(self) -> None:
        code = self.code
        code.line("count = 0")
        self.after.cte_rows = self.finder.write_ctes(self.statement)
        depth = code.depth
        if self.one_row:
            self.finder.write_loops(
                lambda: self._write_row(self.finder.row_names[0].key, self.finder.row_names[0].value)
            )
            code.dedent_to(depth)
            return
        code.line("found = []")
        others = self._get_carried()

        def collect() -> None:
            names = self.finder.row_names[0]
            if any(place not in self.finder.columns for place in others):
                raise NotOnRowPath("a row of a sub-query as a whole")
            values = "".join(f"{self.finder.columns[place].source}, " for place in others)
            code.line(f"found.append(({names.key}, {names.value}, {values}))")
            write_kept(code, "found")

        self.finder.write_loops(collect)
        code.dedent_to(depth)
        code.line("memory.stay()", LineUse.METER)
        names = [code.temporary("c") for _ in others]
        for place, name in zip(others, names, strict=True):
            self.after.columns[place] = Value(name, nullable=True, atom=True)
        if self.joined:
            code.line("done = set()")
        code.indent(f"for {', '.join(['key', 'value', *names])} in found:")
        if self.joined:
            code.line("if key in done: continue")
        self._write_row("key", "value")
        code.dedent_to(depth)

    def _get_carried(self) -> list[tuple[int, int]]:
        """The columns of joined relations that are needed after the rows are found."""
        if not self.joined:
            return []
        used = variables((self.statement, self.finder.query))
        places = {(item.relation, item.column) for item in used if item.levels_up == 0 and item.relation != 0}
        self.finder.also_needed = frozenset(places)
        return sorted(places)

    def _write_row(self, key: str, value: str) -> None:
        """Locks a found row, reads its newest version, and writes."""
        code, shell, statement = self.code, self.shell, self.statement
        if self.late:
            self._set_old(self._write_columns(value))
            code.indent(f"if {' and '.join(map(self.after.expressions.true, self.late))}:")
        strength = NO_KEY_UPDATE if isinstance(statement, tree.Update) else UPDATE
        if isinstance(statement, tree.Update) and _may_change_keys(shell.writer, statement):
            code.line(f"stored = transaction.get_to_change({key})")
        else:
            code.line(f"stored = transaction.get_locked({key}, {strength})")
        place = key
        if not self.by_key:
            place = "place"
            code.line(f"place = {key}")
            code.line(f"if stored is None: place, stored = transaction.get_moved({key}, {strength})")
        code.indent("if stored is not None:")
        self._set_old(self._write_columns("stored"))
        conditions = conjuncts(statement.where)
        if conditions:
            again = " and ".join(map(self.after.expressions.true, conditions))
            code.indent(f"if stored == {value} or ({again}):")
        if self.joined:
            code.line(f"done.add({key})")
        if isinstance(statement, tree.Update) and shell.triggers is not None:
            self._write_fired_update(statement, place)
        elif isinstance(statement, tree.Update):
            code.line("count += 1")
            self._write_update(statement, place)
        else:
            if shell.triggers is not None:
                may_delete = code.constant(shell.triggers.may_delete, "may_delete")
                code.indent(f"if {may_delete}(transaction, context, {place}, old):")
            code.line("count += 1")
            delete = code.constant(shell.writer.delete, "delete")
            code.line(f"{delete}(transaction, context, {place}, old, {shell.checks})")
        shell.write_returning(self.after.expressions, statement.returning)

    def _write_columns(self, stored: str) -> list[str]:
        """Decodes a stored row as `old`. Returns the names of its columns."""
        names = [self.code.temporary("c") for _ in self.table.columns]
        decode = self.code.constant(self.shell.writer.decode, "decode")
        self.code.line(f"old = {targets_of(names)} = {decode}({stored})")
        return names

    def _set_old(self, names: Sequence[str]) -> None:
        """The columns that expressions see from here on."""
        not_null = {self.table.columns[position].number for position, _ in self.shell.writer.required}
        for column, name in zip(self.table.columns, names, strict=True):
            self.after.columns[0, column.number] = Value(name, column.number not in not_null, atom=True)
        self.after.columns[0, 0] = Value("old", nullable=False, atom=True)

    def _write_fired_update(self, statement: tree.Update, key: str) -> None:
        """`_write_update` of a table with row triggers, which compute generated columns and check the row."""
        code, shell, columns = self.code, self.shell, self.after.columns
        assigned = write_assignments(shell, self.after.expressions, statement.assignments)
        row = [assigned.get(column.number, columns[0, column.number]) for column in self.table.columns]
        code.line(f"row = {shell.row_source(row)}")
        changed = [*assigned, *(assignment.column for assignment in statement.generated)]
        values = shell.write_changed_row(key, changed, statement.checks)
        for column, value in zip(self.table.columns, values, strict=True):
            columns[0, column.number] = value
        columns[0, 0] = Value("row", nullable=False, atom=True)
        moving = shell.writer.moving
        if moving is not None:
            oid = code.constant(moving.table_oid, "table_oid")
            columns[0, tree.TABLE_OID] = Value(f"{oid}(written)", nullable=False)
        shell.write_fired_checks(self.after.expressions, statement.checks)
        update = code.constant(shell.writer.updater(changed), "update")
        code.line(f"written = {update}(transaction, context, {key}, old, row, {shell.checks})")
        code.indent("if written is not None:")
        code.line("count += 1")
        shell.write_view_checks(self.after.expressions, "row", statement.checks)

    def _write_update(self, statement: tree.Update, key: str) -> None:
        code, shell = self.code, self.shell
        expressions = self.after.expressions
        assigned = write_assignments(shell, expressions, statement.assignments)
        columns = self.after.columns
        values = [assigned.get(column.number, columns[0, column.number]) for column in self.table.columns]
        for column, value in zip(self.table.columns, values, strict=True):
            columns[0, column.number] = value
        shell.write_generated(expressions, values, statement.generated)
        for column, value in zip(self.table.columns, values, strict=True):
            columns[0, column.number] = value
        row = shell.row_source(values)
        changed = [*assigned, *(assignment.column for assignment in statement.generated)]
        if shell.writer.writes_only_row(changed) and not statement.checks and not statement.returning:
            shell.write_row_checks(expressions, row, values, ())
            code.line(f"transaction.put({key}, {code.constant(shell.writer.encode, 'encode')}({row}))")
            code.line(f"context.written.updated[{self.table.oid}] += 1")
            return
        code.line(f"row = {row}")
        columns[0, 0] = Value("row", nullable=False, atom=True)
        shell.write_row_checks(expressions, "row", values, statement.checks)
        update = code.constant(shell.writer.updater(changed), "update")
        moving = shell.writer.moving
        if moving is not None:
            oid = code.constant(moving.table_oid, "table_oid")
            columns[0, tree.TABLE_OID] = Value(f"{oid}(written)", nullable=False)
        written = "written = " if moving is not None else ""
        code.line(f"{written}{update}(transaction, context, {key}, old, row, {shell.checks})")
        shell.write_view_checks(expressions, "row", statement.checks)
