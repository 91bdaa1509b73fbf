"""Row triggers and statement triggers of a table, compiled for its writer (PostgreSQL 15 manual, chapter 39).

    BEFORE ROW    new_row, changed_row, may_delete: before generated columns are computed and constraints are checked.
                  So these compute and check both for the row that the triggers give
    AFTER ROW     `after`: appended to the statement's checks beside its foreign keys, in the order of their names
    STATEMENT     `StatementTriggers`: around the statement (engine/statements/trigger_path.py)

A statement that may fire a trigger runs in a greenlet, in which a trigger's function may wait. The writer of a table
without triggers has none of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from catalog.errors import SqlError, not_supported
from catalog.schema import Table, Trigger, View
from engine.execute.code import Code, NotOnRowPath
from engine.execute.compiled_value import Value
from engine.execute.context import ExecContext
from engine.execute.expressions import ExpressionCompiler
from engine.execute.index_expressions import row_checks
from engine.execute.transitions import Capture, captures
from engine.sql import tree
from engine.sql.analyze import inner_environment
from engine.sql.analyze.rules import TableRules, runnable_rules
from engine.sql.analyze.trigger_conditions import OLD, entries_of, runnable_condition

if TYPE_CHECKING:
    from catalog.catalog import Catalog
    from engine.execute.writer import Checks, TableWriter
    from engine.txn.interface import Transaction

Row = Sequence[object]
_WORDS = {"i": "INSERT", "u": "UPDATE", "d": "DELETE", "t": "TRUNCATE"}
_TIMINGS = {"b": "BEFORE", "a": "AFTER", "i": "INSTEAD OF"}
_FOREIGN_KEYS = "RI_ConstraintTrigger_"
"""The beginning of the names of foreign keys' triggers, which are in the order of names too."""


@dataclass(frozen=True, slots=True, eq=False)
class TriggerCall:
    """A trigger that fires for an event. `operation`: INSERT, ..."""

    relation: Table | View
    trigger: Trigger
    timing: str
    operation: str


class Firing(Protocol):
    """The session, as it runs triggers' functions (engine/statements/plpgsql/trigger_calls.py)."""

    running: RunningStatement
    """The statement whose triggers fire."""

    def fire(self, call: TriggerCall, old: Row | None, new: Row | None) -> Row | None:
        """The row that the function returns, in the form of the relation; None for NULL. Raises what the function
        raises, and 42804 for a row of another form."""

    def is_apart(self, call: TriggerCall) -> bool:
        """Whether the function reads and writes nothing but its row, so that it may run for some rows before the first
        of them is written."""

    def for_many(self, call: TriggerCall) -> Callable[[Row], Row | None]:
        """`fire` of a BEFORE INSERT trigger that is apart, for many new rows of one statement. Errors lack their
        context."""

    def fires(self, trigger: Trigger) -> bool:
        """Whether the trigger is enabled under session_replication_role."""

    def of_foreign_key(self, table: Table) -> AbstractContextManager[None]:
        """A block that changes rows of a table for a foreign key, within that one's own trigger: as the table's
        owner."""


def firing(context: ExecContext) -> Firing:
    """The session's calls of triggers."""
    return cast(Firing, cast(Any, context.call.session).triggers)


Holds = Callable[[ExecContext, Row | None, Row | None], bool]


class FiredTrigger:
    """A trigger with its compiled condition, for one event."""

    def __init__(self, catalog: Catalog, relation: Table | View, trigger: Trigger, event: str) -> None:
        self.trigger = trigger
        self.name = trigger.name
        self.call = TriggerCall(relation, trigger, _TIMINGS[trigger.timing], _WORDS[event])
        self.holds = None if trigger.condition is None else _condition(catalog, relation, trigger.condition)

    def is_due(self, context: ExecContext, old: Row | None = None, new: Row | None = None) -> bool:
        """Whether it fires for these rows."""
        fires = firing(context).fires(self.trigger)
        return fires and (self.holds is None or self.holds(context, old, new))

    def fire(self, context: ExecContext, old: Row | None, new: Row | None) -> Row | None:
        """Calls the function."""
        return firing(context).fire(self.call, old, new)


def _condition(catalog: Catalog, relation: Table | View, text: str) -> Holds:
    """WHEN as a function of the context and both rows."""
    code = Code()
    positions = {column.number: place for place, column in enumerate(relation.columns)}

    def column(item: tree.Var) -> Value:
        row = "old" if item.relation == OLD else "new"
        if item.column == 0:
            return Value(row, nullable=False, atom=True)
        if item.column not in positions:
            raise NotOnRowPath(f"column {item.name}")
        return Value(f"{row}[{positions[item.column]}]", nullable=True)

    with inner_environment(catalog) as inside:
        found = runnable_condition(text, inside, cast(Table, relation))
    try:
        compiler = ExpressionCompiler(code, inside.format, column)
        compiler.levels = (tree.Query((), entries_of(relation)),)
        with code.block("def holds(context, old, new):"):
            code.line(f"return bool({compiler.true(found)})")
        return cast(Holds, code.finish("holds"))
    except NotOnRowPath as error:
        not_supported(f"{error} in the condition of a trigger")


def triggers_for(
    catalog: Catalog, relation: Table | View, event: str, timing: str, *, for_row: bool
) -> list[FiredTrigger]:
    """The enabled triggers for an event, by name. Their columns are not regarded."""
    return [
        FiredTrigger(catalog, relation, item, event)
        for item in relation.triggers
        if item.timing == timing and item.for_row == for_row and event in item.events and item.enabled != "D"
    ]


class RowTriggers:
    """The row triggers of a writer's table."""

    def __init__(self, writer: TableWriter) -> None:
        self._writer = writer
        self.table = writer.table
        found = {
            (timing, event): triggers_for(writer.catalog, writer.table, event, timing, for_row=True)
            for timing in "ba"
            for event in "iud"
        }
        self._before_insert = found["b", "i"]
        self._before_update = found["b", "u"]
        self._before_delete = found["b", "d"]
        self._after = {event: found["a", event] for event in "iud"}
        with inner_environment(writer.catalog) as inside:
            rules = runnable_rules(writer.table, inside, defaults=False, asked=False)
        self._captures = captures(writer.table, writer.catalog)
        self._generated_at = [writer.positions[item.column] for item in rules.generated]
        self._rules = rules
        self._complete: Callable[[ExecContext, Row], Row] | None = None
        self._first_false: Callable[[ExecContext, Row], str | None] | None = None
        self._outside: Callable[[Row], str | None] | None = None

    @property
    def changes_updates(self) -> bool:
        """Whether a trigger may change the new row of an UPDATE."""
        return bool(self._before_update)

    def inserts_apart(self, context: ExecContext) -> bool:
        """Whether the BEFORE INSERT triggers may fire for some rows before the first of them is written. There are no
        AFTER triggers then."""
        if self._captures or self._after["i"]:
            return False
        calls = firing(context)
        return all(calls.is_apart(item.call) for item in self._before_insert)

    # ---- BEFORE -----------------------------------------------------------------------------------------------------

    def new_row(self, context: ExecContext, row: Row, checked: bool = True) -> Row | None:
        """A new row after the BEFORE INSERT triggers, with its generated columns; None if it is not inserted. `checked`
        False: the caller calls `check_row`, after the row security policies."""
        fired = self._before(self._before_insert, context, None, row, self._refuse_moved)
        return None if fired is None else self.complete_row(context, fired, checked)

    def new_rows(self, context: ExecContext, rows: Sequence[Row]) -> list[Row]:
        """`new_row` of many rows, of triggers that are apart (`inserts_apart`): those that are inserted, checked. The
        errors lack their context, and the words of which row they are: who gets one takes each row by itself."""
        calls = firing(context)
        fired = [
            (item.holds, calls.for_many(item.call), item) for item in self._before_insert if calls.fires(item.trigger)
        ]
        if self._complete is None:
            self._complete, self._first_false = _completion(self._writer, self._rules)
        complete = self._complete if self._rules.generated else None
        made: list[Row] = []
        for row in rows:
            new: Row | None = row if complete is None else self._without_generated(row)
            for holds, call, item in fired:
                assert new is not None
                if holds is None or holds(context, None, new):
                    found = call(new)
                    if found is None:
                        break
                    if item.trigger.parent and found is not new:
                        self._refuse_moved(context, item, found)
                    new = found
            else:
                assert new is not None
                made.append(new if complete is None else complete(context, new))
        check_not_null, first_false = self._writer.check_not_null, self._first_false if self._rules.checks else None
        for row in made:
            if None in row:
                check_not_null(row)
            if first_false is not None:
                self.check_row(context, row)
        return made

    def _without_generated(self, row: Row) -> Row:
        plain = list(row)
        for place in self._generated_at:
            plain[place] = None
        return tuple(plain)

    def changed_row(
        self, transaction: Transaction, context: ExecContext, key: bytes, old: Row, new: Row, changed: frozenset[int],
        checked: bool = True,
    ) -> Row | None:  # fmt: skip
        """The same for a changed row. Raises 27000 if a trigger has changed the row that is about to be changed."""
        found = [item for item in self._before_update if _concerns(item.trigger, changed)]
        if not found:
            return self.complete_row(context, new, checked)
        before = transaction.own_value(key)
        fired = self._before(found, context, old, new)
        if fired is None:
            return None
        if transaction.own_value(key) is not before:
            raise modified_error("updated")
        return self.complete_row(context, fired, checked)

    def may_delete(self, transaction: Transaction, context: ExecContext, key: bytes, old: Row) -> bool:
        """Fires the BEFORE DELETE triggers. False: the row stays."""
        if not self._before_delete:
            return True
        before = transaction.own_value(key)
        for item in self._before_delete:
            if item.is_due(context, old, None) and item.fire(context, old, None) is None:
                return False
        if transaction.own_value(key) is not before:
            raise modified_error("deleted")
        return True

    def _before(
        self,
        triggers: Sequence[FiredTrigger],
        context: ExecContext,
        old: Row | None,
        new: Row,
        look: Callable[[ExecContext, FiredTrigger, Row], None] | None = None,
    ) -> Row | None:
        if not triggers:
            return new
        if self._generated_at:
            new = self._without_generated(new)
        for item in triggers:
            if item.is_due(context, old, new):
                found = item.fire(context, old, new)
                if found is None:
                    return None
                if look is not None and found is not new:
                    look(context, item, found)
                new = found
        return new

    def _refuse_moved(self, context: ExecContext, item: FiredTrigger, row: Row) -> None:
        """0A000 if the trigger of a partitioned table has given a row for another partition."""
        if not item.trigger.parent:
            return
        if self._outside is None:
            bounds = [check for check in self._rules.checks if check[0] == tree.PARTITION_CHECK]
            self._outside = row_checks(self.table, bounds)
        if self._outside(row) is not None:
            schema = self._writer.catalog.schema_name(self.table.schema)
            raise SqlError(
                "0A000",
                "moving row to another partition during a BEFORE FOR EACH ROW trigger is not supported",
                detail=f'Before executing trigger "{item.name}", the row was to be in partition '
                f'"{schema}.{self.table.name}".',
            )

    def complete_row(self, context: ExecContext, row: Row, checked: bool = True) -> Row:
        """A row with its generated columns. Raises 23502, 23514 if it is to be checked."""
        if self._complete is None:
            self._complete, self._first_false = _completion(self._writer, self._rules)
        row = self._complete(context, row)
        if checked:
            self.check_row(context, row)
        return row

    def check_row(self, context: ExecContext, row: Row) -> None:
        """NOT NULL and CHECK of a row that `complete_row` has returned. Raises 23502, 23514."""
        writer = self._writer
        if writer.moving is None:  # the new partition of a moved row checks its own
            writer.check_not_null(row)
        assert self._first_false is not None
        name = self._first_false(context, row)
        if name is not None:
            raise writer.check_violation(name, row)

    # ---- AFTER ------------------------------------------------------------------------------------------------------

    def after(self, event: str, changed: Iterable[int] | None = None) -> AfterRow | None:
        """The AFTER triggers for an event; `changed`: the columns that an UPDATE names."""
        columns = None if changed is None else frozenset(changed)
        found = [item for item in self._after[event] if columns is None or _concerns(item.trigger, columns)]
        return AfterRow(self.table, event, found, self._captures) if found or self._captures else None


class AfterRow:
    """The AFTER triggers for one event of a table. `captures`: transition tables get the rows."""

    def __init__(self, table: Table, event: str, triggers: Sequence[FiredTrigger], captures: bool) -> None:
        self._table = table
        self._event = event
        self._captures = captures
        self._first = [item for item in triggers if item.name < _FOREIGN_KEYS]
        self._last = [item for item in triggers if item.name >= _FOREIGN_KEYS]

    def around(
        self, transaction: Transaction, context: ExecContext, old: Row | None, new: Row | None,
        checks: Sequence[Callable[[], None]],
    ) -> list[Callable[[], None]]:  # fmt: skip
        """The checks of foreign keys for a row, with the calls of the triggers that are due."""
        if self._captures:
            capture = firing(context).running.capture
            if capture is not None:
                capture.add(self._table, self._event, old, new)
        return [*self._due(self._first, transaction, context, old, new), *checks,
                *self._due(self._last, transaction, context, old, new)]  # fmt: skip

    @staticmethod
    def _due(
        triggers: Sequence[FiredTrigger], transaction: Transaction, context: ExecContext, old: Row | None,
        new: Row | None,
    ) -> list[Callable[[], None]]:  # fmt: skip
        return [
            partial(_fire, transaction, context, PendingCall(item, old, new))
            for item in triggers
            if item.is_due(context, old, new)
        ]


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call of an AFTER ROW trigger for a row (engine.txn.deferred.PendingTrigger)."""

    fired: FiredTrigger
    old: Row | None
    new: Row | None

    @property
    def trigger(self) -> Trigger:
        return self.fired.trigger

    @property
    def relation(self) -> Table | View:
        return self.fired.call.relation

    def run(self, context: ExecContext) -> None:
        """Calls the function."""
        self.fired.fire(context, self.old, self.new)


def _fire(transaction: Transaction, context: ExecContext, call: PendingCall) -> None:
    """Calls a trigger at the end of the statement, or lets a deferred one wait for the end of the transaction."""
    deferral = transaction.deferral() if call.trigger.deferrable else None
    if deferral is not None and deferral.defers_trigger(call.trigger):
        deferral.triggers.append(call)
    else:
        call.run(context)


Change = tree.Insert | tree.Update | tree.Delete | tree.Merge


class RunningStatement:
    """The statement triggers of a statement while it runs, by table and event (AfterTriggersTableData). Foreign keys'
    actions belong to the statement whose changes they follow."""

    def __init__(self, capture: Capture | None = None, at_end: StatementTriggers | None = None) -> None:
        self.capture = capture
        self._at_end = at_end
        self._begun: set[tuple[int, str]] = set()
        self._last: dict[tuple[int, str], int] = {}

    def begins(self, key: tuple[int, str]) -> bool:
        """Whether it has not begun to change this table so."""
        if key in self._begun:
            return False
        self._begun.add(key)
        return True

    def ends(self, key: tuple[int, str]) -> int:
        """It has changed this table so, for the present: the number of this end."""
        self._last[key] = number = self._last.get(key, 0) + 1
        return number

    def is_last(self, key: tuple[int, str], number: int) -> bool:
        """Whether no other end has come after that one."""
        return self._last[key] == number

    @property
    def has_end(self) -> bool:
        return self._at_end is not None

    def end_rows(self, context: ExecContext, checks: Checks) -> None:
        """It has written its rows: its own AFTER triggers come behind those of the rows. Does nothing when called
        again."""
        at_end, self._at_end = self._at_end, None
        if at_end is not None:
            at_end.after(context, checks)


class TableEvent:
    """The statement triggers of a table for one event; `columns`: that an UPDATE names."""

    def __init__(self, catalog: Catalog, table: Table, event: str, columns: frozenset[int] | None) -> None:
        self.table = table
        self._key = (table.oid, event)
        self._before, self._after = (
            [
                item
                for item in triggers_for(catalog, table, event, timing, for_row=False)
                if columns is None or _concerns(item.trigger, columns)
            ]
            for timing in "ba"
        )
        self._captures = _reads_transitions(table)

    @property
    def is_empty(self) -> bool:
        return not self._before and not self._after

    def before(self, context: ExecContext) -> None:
        """Fires the BEFORE triggers, once in a statement."""
        running = firing(context).running
        if self._captures and running.capture is not None:
            running.capture.include(self.table.oid)
        if self._before and running.begins(self._key):
            _fire_all(context, self._before)

    def after(self, context: ExecContext, checks: Checks) -> None:
        """Lets the AFTER triggers fire behind what is in the checks, in place of those that wait there."""
        if self._after:
            number = firing(context).running.ends(self._key)
            checks.append(partial(self._end, context, number))

    def _end(self, context: ExecContext, number: int) -> None:
        if firing(context).running.is_last(self._key, number):
            _fire_all(context, self._after)


def _fire_all(context: ExecContext, triggers: Sequence[FiredTrigger]) -> None:
    for item in triggers:
        if item.is_due(context):
            item.fire(context, None, None)


class StatementTriggers:
    """The statement triggers of the changes in a statement. They are those of the tables that it names."""

    def __init__(self, catalog: Catalog, changes: Sequence[Change]) -> None:
        parts = [[TableEvent(catalog, change.table, *event) for event in _events_of(change)] for change in changes]
        self._before = [item for part in parts for item in part]
        # Those of the WITH queries end before the statement itself does.
        self._after = [item for part in (*parts[1:], *parts[:1]) for item in reversed(part)]
        self.is_empty = all(item.is_empty for item in self._before)

    def before(self, context: ExecContext) -> None:
        """Fires the BEFORE triggers."""
        for item in self._before:
            item.before(context)

    def after(self, context: ExecContext, checks: Checks) -> None:
        """Lets the AFTER triggers fire behind what is in the checks."""
        for item in self._after:
            item.after(context, checks)


def captured_tables(catalog: Catalog, changes: Sequence[Change]) -> dict[int, str] | None:
    """The tables of a statement whose changes a `Capture` collects; None if no trigger reads transition tables."""
    if not any(_reads_transitions(relation) for relation in map(catalog.get, catalog.with_triggers)):
        return None
    return {
        change.table.oid: "u" if isinstance(change, tree.Update) else ""
        for change in changes
        if _reads_transitions(change.table)
    }


def _reads_transitions(relation: object) -> bool:
    return isinstance(relation, Table) and any(item.old_table or item.new_table for item in relation.triggers)


def _events_of(change: Change) -> list[tuple[str, frozenset[int] | None]]:
    """The events of a change, with the columns that an update names."""
    if isinstance(change, tree.Delete):
        return [("d", None)]
    if isinstance(change, tree.Update):
        return [("u", _columns_of(change.assignments, change.generated))]
    if isinstance(change, tree.Insert):
        conflict = change.on_conflict
        if conflict is None or conflict.action != "update":
            return [("i", None)]
        return [("i", None), ("u", _columns_of(conflict.assignments, change.generated))]
    found: list[tuple[str, frozenset[int] | None]] = []
    kinds = {action.action for action in change.actions}
    if "insert" in kinds:
        found.append(("i", None))
    if "update" in kinds:
        updates = [item for action in change.actions if action.action == "update" for item in action.assignments]
        found.append(("u", _columns_of(updates, change.generated)))
    if "delete" in kinds:
        found.append(("d", None))
    return found


def _columns_of(assignments: Sequence[tree.Assignment], generated: Sequence[tree.Assignment]) -> frozenset[int]:
    return frozenset(item.column for item in (*assignments, *generated))


def _concerns(trigger: Trigger, changed: frozenset[int]) -> bool:
    return not trigger.columns or not changed.isdisjoint(trigger.columns)


def modified_error(done: str) -> SqlError:
    """27000: a trigger has changed the row that the statement is about to change."""
    return SqlError(
        "27000",
        f"tuple to be {done} was already modified by an operation triggered by the current command",
        hint="Consider using an AFTER trigger instead of a BEFORE trigger to propagate changes to other rows.",
    )


def _completion(
    writer: TableWriter, rules: TableRules
) -> tuple[Callable[[ExecContext, Row], Row], Callable[[ExecContext, Row], str | None]]:
    """Functions of the context and a row: the row with its generated columns, and the first check that is FALSE."""
    code = Code()
    positions = writer.positions

    def column(item: tree.Var) -> Value:
        if item.column == 0:
            return Value("row", nullable=False, atom=True)
        if item.column not in positions:
            raise NotOnRowPath(f"column {item.name}")
        return Value(f"row[{positions[item.column]}]", nullable=True)

    compiler = ExpressionCompiler(code, writer.settings, column)
    checks = [item for item in rules.checks if item[0] != tree.PARTITION_CHECK or writer.moving is None]
    try:
        with code.block("def complete(context, row):"):
            sources = {positions[item.column]: compiler.value(item.expression).source for item in rules.generated}
            if sources:
                parts = (sources.get(place, f"row[{place}]") for place in range(len(positions)))
                code.line(f"return ({''.join(part + ', ' for part in parts)})")
            else:
                code.line("return row")
        with code.block("def first_false(context, row):"):
            for name, condition in sorted(checks, key=lambda item: item[0]):
                code.line(f"if {compiler.false(condition)}: return {name!r}")
            code.line("return None")
        first_false = code.finish("first_false")
        return code.names["complete"], first_false  # type: ignore[return-value]
    except NotOnRowPath as error:
        not_supported(f"{error} in a generated column or a check of a table with triggers")


def triggers_of(writer: TableWriter) -> RowTriggers | None:
    """The row triggers of the writer's table; None without any."""
    if writer.table.oid not in writer.catalog.triggering:
        return None
    own = any(item.for_row and item.enabled != "D" for item in writer.table.triggers)
    return RowTriggers(writer) if own or captures(writer.table, writer.catalog) else None
