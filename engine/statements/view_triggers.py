"""INSERT, UPDATE and DELETE of views with INSTEAD OF triggers.

    INSERT INTO v (b) VALUES (1)             SELECT 1                                    NEW: (NULL, 1)
    UPDATE v SET b = x.n FROM x WHERE ...    SELECT v.*, x.n FROM v, x WHERE ...         OLD: v.*, NEW: with b
    DELETE FROM v WHERE ...                  SELECT v.* FROM v WHERE ...                 OLD: v.*

A query finds the rows; then the triggers are called for each of them, by name. A row counts, and is returned, unless a
trigger returns NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from catalog.errors import SqlError, not_supported
from catalog.schema import View
from catalog.types.base import TypeRef
from engine.execute.context import ExecContext, Field
from engine.execute.index_expressions import default_values
from engine.execute.triggers import FiredTrigger, RunningStatement, triggers_for
from engine.session.plan import Plan, ResultColumns
from engine.session.prepared import Prepared
from engine.sql import ast
from engine.sql.analyze import analyze
from engine.sql.analyze.rules import default_of_view
from engine.statements import planning
from engine.statements import run as running
from engine.statements.call import encoded_rows
from engine.statements.plpgsql import suspend
from engine.statements.plpgsql.nested import NestedStatements
from engine.statements.plpgsql.records import cast_of
from engine.statements.routine_calls import row_encoders

if TYPE_CHECKING:
    from engine.session.answer import Sink
    from engine.session.portal import Portal
    from engine.session.session import Session

Change = ast.InsertStmt | ast.UpdateStmt | ast.DeleteStmt
Row = tuple[object, ...]
Default = Callable[[ExecContext], list[object]]
_EVENTS: dict[type[ast.Node], str] = {ast.InsertStmt: "i", ast.UpdateStmt: "u", ast.DeleteStmt: "d"}
_LETTERS = {"i": "a", "u": "w", "d": "d"}
_NULL = ast.Literal("null", None)
_COMMANDS = {"i": "INSERT", "u": "UPDATE", "d": "DELETE"}


def plan(session: Session, statement: ast.Statement, types: Sequence[int], literals: int) -> Prepared | None:
    """The plan of a change of a view with INSTEAD OF triggers for it; None for any other statement."""
    node = statement.tree
    if not session.catalog.with_triggers or not isinstance(node, Change):
        return None
    view = session.environment.find_relation(node.relation.schema, node.relation.name)
    event = _EVENTS[type(node)]
    if not isinstance(view, View) or not any(item.timing == "i" and event in item.events for item in view.triggers):
        return None
    return _Planner(session, statement, node, view, types).prepare()


@dataclass(slots=True)
class _Parts:
    """What the planner has made. `query`: of the rows; `assigned`: positions of the view's columns that get the values
    behind the view's own; `defaults`: of the columns that get their default, always or (`flags`) in the rows that have
    a TRUE at this position; `returning`: a query over one row, whose columns are its parameters."""

    query: Prepared
    assigned: tuple[int, ...]
    defaults: dict[int, Default]
    flags: dict[int, int]
    returning: Prepared | None


class _Planner:
    def __init__(
        self, session: Session, statement: ast.Statement, node: Change, view: View, types: Sequence[int]
    ) -> None:
        self._session = session
        self._statement = statement
        self._node = node
        self._view = view
        self._types = types
        self._event = _EVENTS[type(node)]
        self._defaults: dict[int, Default] = {}
        self._flags: dict[int, int] = {}

    def prepare(self) -> Prepared:
        """The statement, planned. Raises errors of its parts."""
        session, node, view = self._session, self._node, self._view
        if isinstance(node, ast.InsertStmt) and node.on_conflict is not None:
            not_supported("ON CONFLICT of a view with INSTEAD OF triggers")
        if isinstance(node, ast.UpdateStmt | ast.DeleteStmt) and node.current_of is not None:
            not_supported("WHERE CURRENT OF of a view with INSTEAD OF triggers")
        select, assigned = self._select()
        analyzed = analyze(select, session.environment, self._types)
        query = planning.plan_statement(session, self._statement.of(select), analyzed, session.environment)
        returning = self._returning() if node.returning else None
        parts = _Parts(query, assigned, self._defaults, self._flags, returning)
        session.identity.check_letters(view, _LETTERS[self._event], [view.columns[place].number for place in assigned])
        made = InsteadPlan(session, view, self._event, parts)
        return Prepared.of(self._statement, analyzed.parameter_types, session.catalog, session.key, made)

    @property
    def _name(self) -> str:
        relation = self._node.relation
        return relation.name if relation.alias is None else relation.alias.name

    def _position(self, name: str) -> int:
        for place, column in enumerate(self._view.columns):
            if column.name == name:
                return place
        raise SqlError("42703", f'column "{name}" of relation "{self._view.name}" does not exist')

    def _select(self) -> tuple[ast.SelectStmt, tuple[int, ...]]:
        """The query of the rows, and the positions of the columns that it gives values for."""
        node = self._node
        if isinstance(node, ast.InsertStmt):
            return self._select_new(node)
        whole = ast.ResTarget(ast.ColumnRef((self._name, "*")))
        if isinstance(node, ast.DeleteStmt):
            sources = (node.relation, *node.using)
            return ast.SelectStmt((whole,), sources, node.where, with_clause=node.with_clause), ()
        targets, assigned = [whole], []
        for item in node.assignments:
            if isinstance(item, ast.MultiAssign) or item.indirection or item.name is None:
                not_supported("SET of several columns or of a part of one, in a view with INSTEAD OF triggers")
            assigned.append(self._position(item.name))
            value = item.expression
            if value is None or isinstance(value, ast.SetToDefault):
                self._take_default(assigned[-1])
                value = _NULL
            targets.append(ast.ResTarget(value, f"new_{len(assigned)}"))
        sources = (node.relation, *node.from_clause)
        select = ast.SelectStmt(tuple(targets), sources, node.where, with_clause=node.with_clause)
        return select, tuple(assigned)

    def _select_new(self, node: ast.InsertStmt) -> tuple[ast.SelectStmt, tuple[int, ...]]:
        if any(item.indirection for item in node.columns):
            not_supported("a part of a column, in a view with INSTEAD OF triggers")
        if node.with_clause is not None:
            not_supported("WITH of an INSERT into a view with INSTEAD OF triggers")
        every = range(len(self._view.columns))
        places = tuple(self._position(item.name or "") for item in node.columns) or tuple(every)
        if node.query is None:
            places = ()
            select = ast.SelectStmt((ast.ResTarget(_NULL),))
        elif node.query.values:
            width = len(node.query.values[0])
            if width > len(places):
                raise SqlError("42601", "INSERT has more expressions than target columns")
            if node.columns and width < len(places):
                raise SqlError("42601", "INSERT has more target columns than expressions")
            places = places[:width]
            select = replace(node.query, values=self._without_defaults(node.query.values, places))
        else:
            select = node.query
        for place in every:
            if place not in places:
                self._take_default(place)
        return select, places

    def _without_defaults(
        self, rows: Sequence[Sequence[ast.Node]], places: Sequence[int]
    ) -> tuple[tuple[ast.Node, ...], ...]:
        """VALUES with NULL for DEFAULT, and behind its columns one for each that may be DEFAULT: whether it is."""
        may_be = [at for at in range(len(places)) if any(isinstance(row[at], ast.SetToDefault) for row in rows)]
        for number, at in enumerate(may_be):
            self._take_default(places[at])
            self._flags[places[at]] = len(places) + number
        made = []
        for row in rows:
            cells = [_NULL if isinstance(cell, ast.SetToDefault) else cell for cell in row]
            flags = [ast.Literal("boolean", isinstance(row[at], ast.SetToDefault)) for at in may_be]
            made.append((*cells, *flags))
        return tuple(made)

    def _take_default(self, place: int) -> None:
        """The column gets its default, unless it has none."""
        column, catalog = self._view.columns[place], self._session.catalog
        text = default_of_view(column, catalog)
        if text is not None:
            self._defaults[place] = default_values(catalog, [replace(column, default=text)])

    def _returning(self) -> Prepared:
        """SELECT the columns of RETURNING FROM one row, whose values are parameters."""
        session, view, node = self._session, self._view, self._node
        values = tuple(ast.ParamRef(number) for number in range(1, len(view.columns) + 1))
        names = tuple(column.name for column in view.columns)
        row = ast.RangeSubselect(ast.SelectStmt(values=(values,)), ast.Alias(self._name, names))
        select = ast.SelectStmt(node.returning, (row,))
        types = [column.type.oid for column in view.columns]
        analyzed = analyze(select, session.environment, types)
        return planning.plan_statement(session, self._statement.of(select), analyzed, session.environment)


class InsteadPlan(Plan):
    """A change of a view by its triggers."""

    writes = True
    is_cacheable = False

    def __init__(self, session: Session, view: View, event: str, parts: _Parts) -> None:
        self.columns = None if parts.returning is None else ResultColumns(parts.returning.fields or ())
        self.command = _COMMANDS[event]
        self.locks = parts.query.plan.locks
        self.relations = (*parts.query.plan.relations, view.oid)
        self._view = view
        self._event = event
        self._parts = parts
        self._triggers = triggers_for(session.catalog, view, event, "i", for_row=True)
        self._before = triggers_for(session.catalog, view, event, "b", for_row=False)
        self._after = triggers_for(session.catalog, view, event, "a", for_row=False)

    async def run(self, session: Session, portal: Portal, limit: int, sink: Sink) -> None:
        if session.transaction is None:
            session.begin_implicit()
        assert session.transaction is not None
        query = await running.lock_relations(session, self._parts.query)
        session.transaction.refuse_if_read_only(self.command)
        triggers = session.routines.triggers
        with triggers.during(RunningStatement()), session.using(self.relations):
            count, rows = await suspend.run(lambda: self._change(session, query, portal.parameters))
        if self.columns is not None and rows:
            encoders = row_encoders(self.columns.fields, portal.formats, session.key.format)
            await sink.rows(b"".join(encoded_rows(rows, encoders)))
        portal.done = True
        tag = f"INSERT 0 {count}" if self._event == "i" else f"{self.command} {count}"
        sink.complete(tag)

    def _change(self, session: Session, query: Prepared, parameters: Sequence[object]) -> tuple[int, list[Row]]:
        """Calls the triggers; returns the number of rows, and those of RETURNING."""
        nested = NestedStatements(session, True)
        _fire_all(session, self._before)
        fields, found = nested.rows(query, parameters)
        count = 0
        returned: list[Row] = []
        for row in found:
            old, new = self._rows_of(session, fields, row)
            result = self._fire(session, old, new)
            if result is None:
                continue
            count += 1
            if self._parts.returning is not None:
                _, more = nested.rows(self._parts.returning, result)
                returned += more
        _fire_all(session, self._after)
        return count, returned

    def _rows_of(self, session: Session, fields: Sequence[Field], row: Row) -> tuple[Row | None, Row | None]:
        """OLD and NEW."""
        width = 0 if self._event == "i" else len(self._view.columns)
        old = None if self._event == "i" else tuple(row[:width])
        if self._event == "d":
            return old, None
        new: list[object] = list(old) if old is not None else [None] * len(self._view.columns)
        given = zip(self._parts.assigned, row[width:], fields[width:], strict=False)
        for place, value, item in given:
            new[place] = _convert(session, value, item.type, self._view.columns[place].type)
        for place, default in self._parts.defaults.items():
            flag = self._parts.flags.get(place)
            if flag is None or row[flag] is True:
                (new[place],) = default(session.context())
        return old, tuple(new)

    def _fire(self, session: Session, old: Row | None, new: Row | None) -> Row | None:
        context = session.context()
        for trigger in self._triggers:
            if not trigger.is_due(context, old, new):
                continue
            found = trigger.fire(context, old, new)
            if found is None:
                return None
            if new is not None:
                new = tuple(found)
            else:
                old = old if old is not None else tuple(found)
        return new if new is not None else old


def _convert(session: Session, value: object, source: TypeRef, target: TypeRef) -> object:
    if value is None:
        return None
    cast = cast_of(session.environment, source, target)
    return value if cast is None else cast(session.context(), [value])


def _fire_all(session: Session, triggers: Sequence[FiredTrigger]) -> None:
    for trigger in triggers:
        context = session.context()
        if trigger.is_due(context):
            trigger.fire(context, None, None)
