"""Statements on tables and views with rules (rewriteHandler.c).

A statement becomes several: itself, unless a rule runs INSTEAD of it, and the actions of the rules. Each action reads
the rows that the statement concerns from a sub-query:

    UPDATE t SET b = 1 WHERE a < 9      and the rule  ON UPDATE TO t DO INSERT INTO log VALUES (old.a, new.b)
    INSERT INTO log SELECT r.o1, r.n2 FROM (SELECT t.a AS o1, 1 AS n2 FROM t WHERE a < 9) r;
    UPDATE t SET b = 1 WHERE a < 9

Actions come before an UPDATE or DELETE, and after an INSERT, so that the sub-query finds the rows. An action may
change a relation that has rules itself. As in PostgreSQL, a value is computed again by each action that uses it.

The privileges for the statement are those of the user, for an action those of the owner of the relation with the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from catalog.errors import SqlError, not_supported
from catalog.rewrite_rules import RewriteRule
from catalog.schema import Column, Role, Table, View
from engine.session.answer import tag
from engine.session.plan import Plan, ResultColumns
from engine.session.prepared import Prepared
from engine.sql import ast, tree
from engine.sql.analyze import analyze
from engine.sql.analyze.domains import domain_default
from engine.sql.analyze.rules import default_of_view
from engine.sql.parser import parse_change, parse_expression
from engine.sql.row_security import has_policies
from engine.sql.tree_walk import transform, walk
from engine.statements import planning
from engine.statements import run as running
from engine.statements.call import encoded_rows
from engine.statements.plpgsql import suspend
from engine.statements.plpgsql.nested import NestedStatements
from engine.statements.routine_calls import row_encoders
from engine.statements.rule_checks import due_rules
from engine.txn.locks import ROW_EXCLUSIVE

if TYPE_CHECKING:
    from engine.session.answer import Sink
    from engine.session.portal import Portal
    from engine.session.session import Session

Change = ast.InsertStmt | ast.UpdateStmt | ast.DeleteStmt
Relation = Table | View
Row = tuple[object, ...]
_EVENTS: dict[type[ast.Node], str] = {ast.InsertStmt: "a", ast.UpdateStmt: "w", ast.DeleteStmt: "d"}
_COMMANDS = {"a": "INSERT", "w": "UPDATE", "d": "DELETE"}
_VERBS = {"a": ("insert into", "inserting into"), "w": ("update", "updating"), "d": ("delete from", "deleting from")}
_NULL = ast.Literal("null", None)
ROWS = "*RULE*"
"""The alias of the sub-query with the rows of the statement."""
_active: ContextVar[tuple[tuple[int, str], ...]] = ContextVar("rules", default=())
"""The (relation, event) of the rules whose actions are being planned."""


def plan(session: Session, statement: ast.Statement, types: Sequence[int], literals: int) -> Prepared | None:
    """The plan of a change of a relation with rules for it; None for any other statement."""
    node = statement.tree
    if not session.catalog.with_rules or not isinstance(node, Change | ast.MergeStmt):
        return None
    relation = session.environment.find_relation(node.relation.schema, node.relation.name)
    if not isinstance(relation, Table | View) or relation.oid not in session.catalog.with_rules:
        return None
    if isinstance(node, ast.MergeStmt):
        detail = "MERGE is not supported for relations with rules."
        raise SqlError("0A000", f'cannot execute MERGE on relation "{relation.name}"', detail=detail)
    if node.ruled:
        return None
    event = _EVENTS[type(node)]
    rules = due_rules(session, relation, event)
    acts = any(rule.actions for rule in rules) or any(rule.event == "w" for rule in relation.rules)
    if isinstance(node, ast.InsertStmt) and node.on_conflict is not None and acts:
        message = "INSERT with ON CONFLICT clause cannot be used with table that has INSERT or UPDATE rules"
        raise SqlError("0A000", message)
    return _Rewriter(session, statement, node, relation, rules, types).prepare() if rules else None


@dataclass(slots=True)
class _Part:
    """One of the statements. `counts`: its rows are those of the command tag; `returns`: and of RETURNING."""

    prepared: Prepared
    counts: bool = False
    returns: bool = False


@dataclass(slots=True)
class _Source:
    """What the statement gives to the rows: for each position of a column the value that it assigns, and the FROM
    items and the condition of the rows. `defaulted`: the positions for which DEFAULT was written. `name`: what
    qualifies the relation's columns; "" for INSERT."""

    name: str
    values: dict[int, ast.Node] = field(default_factory=dict)
    defaults: Mapping[int, ast.Node] = field(default_factory=dict)
    defaulted: set[int] = field(default_factory=set)
    items: tuple[ast.Node, ...] = ()
    where: ast.Node | None = None


class _Rewriter:
    def __init__(
        self,
        session: Session,
        statement: ast.Statement,
        node: Change,
        relation: Relation,
        rules: Sequence[RewriteRule],
        types: Sequence[int],
    ) -> None:
        self._session = session
        self._statement = statement
        self._node = node
        self._relation = relation
        self._rules = rules
        self._event = _EVENTS[type(node)]
        self._types = tuple(types)
        self._numbers = {column.number: place for place, column in enumerate(relation.columns)}
        self._places = {column.name: place for place, column in enumerate(relation.columns)}

    def prepare(self) -> Prepared:
        """Raises 42P17 for recursion, and the errors of the parts."""
        replaced = any(rule.replaces for rule in self._rules)
        conditional = [rule for rule in self._rules if rule.instead and rule.condition is not None]
        self._refuse_views(replaced, conditional)
        self._check_form()
        source = self._source()
        asked = analyze(
            self._rows_of(source, range(len(self._relation.columns))), self._session.environment, self._types
        )
        self._types = asked.parameter_types
        if not replaced:
            original = self._original(source, conditional)
        self._check_privileges(source)
        parts = self._actions(source, replaced)
        if not replaced:
            first = _Part(planning.prepare(self._session, self._statement.of(original), self._types), True, True)
            parts = [first, *parts] if self._event == "a" else [*parts, first]
        else:
            same = [part for part in parts if part.counts]
            for part in same[:-1]:
                part.counts = False
        for part in parts:
            if has_policies(self._session.catalog, self._session.catalog_today, part.prepared.relations):
                not_supported("a rule with tables that have row security")
        fields = self._fields(parts)
        made = RulePlan(self._relation, _COMMANDS[self._event], parts, fields)
        return Prepared.of(self._statement, self._types, self._session.catalog, self._session.key, made)

    def _check_form(self) -> None:
        node = self._node
        several = len([rule for rule in self._rules if rule.actions]) + (
            0 if any(rule.replaces for rule in self._rules) else 1
        )
        if node.with_clause is not None and (several > 1 or any(len(rule.actions) > 1 for rule in self._rules)):
            message = "WITH cannot be used in a query that is rewritten by rules into multiple queries"
            raise SqlError("0A000", message)
        if node.with_clause is not None:
            not_supported("WITH in a change of a relation with rules")
        if isinstance(node, ast.UpdateStmt | ast.DeleteStmt) and node.current_of is not None:
            not_supported("WHERE CURRENT OF for a relation with rules")
        if isinstance(node, ast.InsertStmt) and any(item.indirection for item in node.columns):
            not_supported("a part of a column, for a relation with rules")
        acts = any(rule.actions for rule in self._rules)
        if acts and (self._relation.oid, self._event) in _active.get():
            raise SqlError("42P17", f'infinite recursion detected in rules for relation "{self._relation.name}"')
        returns = any(rule.actions and any(parse_change(text).returning for text in rule.actions)
                      for rule in self._rules)  # fmt: skip
        if node.returning and any(rule.instead for rule in self._rules) and not returns:
            command, name = _COMMANDS[self._event], self._relation.name
            raise SqlError(
                "0A000",
                f'cannot perform {command} RETURNING on relation "{name}"',
                hint=f"You need an unconditional ON {command} DO INSTEAD rule with a RETURNING clause.",
            )

    def _refuse_views(self, replaced: bool, conditional: Sequence[RewriteRule]) -> None:
        if isinstance(self._relation, View) and conditional and not replaced:
            verb, doing = _VERBS[self._event]
            command, name = _COMMANDS[self._event], self._relation.name
            raise SqlError(
                "55000",
                f'cannot {verb} view "{name}"',
                detail="Views with conditional DO INSTEAD rules are not automatically updatable.",
                hint=f"To enable {doing} the view, provide an INSTEAD OF {command} trigger or an unconditional "
                f"ON {command} DO INSTEAD rule.",
            )

    # ---- the rows of the statement ----------------------------------------------------------------------------------

    def _position(self, target: ast.ResTarget) -> int:
        if target.name not in self._places:
            message = f'column "{target.name}" of relation "{self._relation.name}" does not exist'
            position = None if target.location < 0 else target.location + 1
            raise SqlError("42703", message, position=position)
        return self._places[target.name]

    def _default(self, place: int) -> ast.Node:
        """The default of a column, as a value of it."""
        return self._default_of(self._relation, self._relation.columns[place])

    def _default_of(self, relation: Relation, column: Column) -> ast.Node:
        catalog = self._session.catalog
        if isinstance(relation, View):
            text = default_of_view(column, catalog)
        elif column.generated is not None:
            return self._typed_null(column)
        elif column.identity and column.sequence is not None:
            sequence = catalog.get(column.sequence)
            schema = catalog.schema_name(getattr(sequence, "schema", 0))
            shown = f'"{schema}"."{getattr(sequence, "name", "")}"'
            return ast.AssignedValue(parse_expression(f"pg_catalog.nextval('{shown}'::regclass)"), column)
        else:
            text = domain_default(catalog, column.type) if column.default is None and column.type.domain else (
                column.default
            )  # fmt: skip
        return self._typed_null(column) if text is None else ast.AssignedValue(parse_expression(text), column)

    @staticmethod
    def _typed_null(column: Column) -> ast.Node:
        return ast.AssignedValue(_NULL, column)

    def _assigned_value(self, place: int, value: ast.Node | None) -> ast.Node:
        if value is None or isinstance(value, ast.SetToDefault):
            return self._default(place)
        return ast.AssignedValue(value, self._relation.columns[place])

    def _source(self) -> _Source:
        node = self._node
        if isinstance(node, ast.InsertStmt):
            return self._inserted_rows(node)
        relation = node.relation
        name = relation.name if relation.alias is None else relation.alias.name
        if isinstance(node, ast.DeleteStmt):
            return _Source(name, items=(relation, *node.using), where=node.where)
        source = _Source(name, items=(relation, *node.from_clause), where=node.where)
        for item in node.assignments:
            if isinstance(item, ast.MultiAssign) or item.indirection:
                not_supported("SET of several columns or of a part of one, for a relation with rules")
            place = self._position(item)
            if place in source.values:
                message = f'multiple assignments to same column "{item.name}"'
                raise SqlError("42601", message)
            source.values[place] = self._assigned_value(place, item.expression)
        return source

    def _inserted_rows(self, node: ast.InsertStmt) -> _Source:
        every = range(len(self._relation.columns))
        places = [self._position(item) for item in node.columns] or list(every)
        source = _Source("")
        query = node.query
        if query is None:
            places = []
        elif len(query.values) == 1 and not (query.order_by or query.limit or query.offset):
            self._check_width(node, places, query.values[0])
            for place, cell in zip(places, query.values[0], strict=False):
                source.values[place] = self._assigned_value(place, cell)
                if isinstance(cell, ast.SetToDefault):
                    source.defaulted.add(place)
        else:
            names = self._take_query(node, query, places, source)
            for place, name in zip(places, names, strict=False):
                value = ast.ColumnRef(("*SOURCE*", name))
                source.values[place] = ast.AssignedValue(value, self._relation.columns[place])
        source.defaults = {place: self._default(place) for place in every if place not in source.values}
        return source

    def _check_width(self, node: ast.InsertStmt, places: Sequence[int], given: Sequence[Any]) -> None:
        """42601 for more or fewer values than columns."""
        if len(given) > len(places):
            message, at = "INSERT has more expressions than target columns", given[len(places)].location
            raise SqlError("42601", message, position=None if at < 0 else at + 1)
        if node.columns and len(given) < len(places):
            message, at = "INSERT has more target columns than expressions", node.columns[len(given)].location
            raise SqlError("42601", message, position=None if at < 0 else at + 1)

    def _take_query(
        self, node: ast.InsertStmt, query: ast.SelectStmt, places: Sequence[int], source: _Source
    ) -> list[str]:
        """Makes the query of an INSERT, or its VALUES, a FROM item; returns the names of its columns."""
        if query.values:
            width = len(query.values[0])
            self._check_width(node, places, query.values[0])
            rows = []
            for row in query.values:
                if len(row) != width:
                    raise SqlError("42601", "VALUES lists must all be the same length")
                rows.append(tuple(self._assigned_value(place, cell) for place, cell in zip(places, row, strict=False)))
            query = replace(query, values=tuple(rows))
        else:
            analyzed = analyze(query, self._session.environment, self._types).statement
            assert isinstance(analyzed, tree.Query)
            width = len(analyzed.output)
            self._check_width(node, places, [target.expression for target in analyzed.output])
            if len(query.targets) == width and not query.set_operation:
                given = zip(places, query.targets, strict=False)
                query = replace(query, targets=tuple(self._typed_target(place, item) for place, item in given))
        names = [f"c{number}" for number in range(1, width + 1)]
        source.items = (ast.RangeSubselect(query, ast.Alias("*SOURCE*", tuple(names))),)
        return names

    def _typed_target(self, place: int, target: ast.ResTarget) -> ast.ResTarget:
        """A column of INSERT ... SELECT; a constant without a type is one of the column's type."""
        if isinstance(target.expression, ast.Literal | ast.ParamRef):
            return replace(target, expression=ast.AssignedValue(target.expression, self._relation.columns[place]))
        return target

    def _new(self, source: _Source, place: int) -> ast.Node:
        """NEW.column as an expression over the FROM items of the rows."""
        value = source.values.get(place)
        if value is None:
            value = source.defaults.get(place)
        if value is not None:
            return value
        return ast.ColumnRef((source.name, self._relation.columns[place].name))

    def _rows_of(self, source: _Source, places: Sequence[int]) -> ast.SelectStmt:
        """The rows with these columns: o1, o2, ... of OLD and n1, n2, ... of NEW."""
        used = [("o", place) for place in places] if source.name else []
        used += [("n", place) for place in places] if self._event != "d" else []
        return self._select(source, used)

    def _select(self, source: _Source, used: Sequence[tuple[str, int]]) -> ast.SelectStmt:
        targets = []
        for letter, place in used:
            if letter == "n":
                value = self._new(source, place)
            else:
                value = ast.ColumnRef((source.name, self._relation.columns[place].name))
            targets.append(ast.ResTarget(value, f"{letter}{place}"))
        shown = tuple(targets) or (ast.ResTarget(ast.Literal("boolean", True), "one"),)
        return ast.SelectStmt(shown, source.items, source.where)

    # ---- privileges -------------------------------------------------------------------------------------------------

    def _check_privileges(self, source: _Source) -> None:
        """42501 unless the user may run the statement as it was written."""
        identity, relation = self._session.identity, self._relation
        if isinstance(relation, Table):
            plain = replace(self._node, returning=())
            identity.check_privileges(analyze(plain, self._session.environment, self._types))
            return
        letter = self._event
        numbers = [relation.columns[place].number for place in source.values]
        identity.check_letters(relation, letter, numbers if letter != "d" else ())
        given = tuple(ast.ResTarget(value) for value in source.values.values())
        if self._event != "a" and not any(isinstance(item, ast.ColumnRef) for item in walk((given, source.where))):
            return
        select = ast.SelectStmt(given or (ast.ResTarget(_NULL),), source.items, source.where)
        identity.check_privileges(analyze(select, self._session.environment, self._types))

    # ---- the statements ---------------------------------------------------------------------------------------------

    def _original(self, source: _Source, conditional: Sequence[RewriteRule]) -> Change:
        """The statement for the rows for which no rule runs instead."""
        node = replace(self._node, ruled=True)
        if not conditional:
            return node
        if isinstance(node, ast.InsertStmt):
            places = [place for place in source.values if place not in source.defaulted]
            used: dict[tuple[str, int], None] = dict.fromkeys(("n", place) for place in places)
            kept = [self._is_not_true(rule, self._over_rows(used)) for rule in conditional]
            rows = ast.RangeSubselect(self._select(source, list(used)), ast.Alias(ROWS))
            targets = tuple(ast.ResTarget(ast.ColumnRef((ROWS, f"n{place}"))) for place in places)
            columns = tuple(ast.ResTarget(name=self._relation.columns[place].name) for place in places)
            if not places:
                some, value = self._some_default(node.relation)
                columns, targets = (some,), (value,)
            return replace(node, columns=columns, query=ast.SelectStmt(targets, (rows,), _both(*kept)))

        def direct(row: str, place: int) -> ast.Node:
            if row == "new":
                return self._new(source, place)
            return ast.ColumnRef((source.name, self._relation.columns[place].name))

        kept = [self._is_not_true(rule, direct) for rule in conditional]
        return replace(node, where=_both(node.where, *kept))

    def _is_not_true(self, rule: RewriteRule, column: Callable[[str, int], ast.Node]) -> ast.Node:
        assert rule.condition is not None
        return ast.BooleanTest(self._over(parse_expression(rule.condition), column), "is_not_true")

    @staticmethod
    def _over_rows(used: dict[tuple[str, int], None]) -> Callable[[str, int], ast.Node]:
        """Columns of OLD and NEW as those of the sub-query, noted in `used`."""

        def column(row: str, place: int) -> ast.Node:
            used[row[0], place] = None
            return ast.ColumnRef((ROWS, f"{row[0]}{place}"))

        return column

    def _over(self, node: Any, column: Callable[[str, int], ast.Node]) -> Any:
        """An action or a condition with other expressions for the columns of OLD and NEW."""

        def change(item: object, depth: int) -> object:
            if isinstance(item, ast.ColumnRef) and len(item.names) == 2 and item.names[0] in ("old", "new"):
                return column(item.names[0], self._places[item.names[1]])
            return item

        return transform(node, change)

    def _actions(self, source: _Source, replaced: bool) -> list[_Part]:
        """The actions of the rules, in their order."""
        parts: list[_Part] = []
        for rule in self._rules:
            for text in rule.actions:
                node = self._action(source, rule, parse_change(text))
                returns = bool(node.returning and self._node.returning)
                if returns:
                    node = replace(node, returning=self._returning_of(node.returning))
                elif node.returning:
                    node = replace(node, returning=())
                same = rule.instead and _EVENTS[type(node)] == self._event
                parts.append(_Part(self._prepare_action(node), replaced and same, returns))
        return parts

    def _action(self, source: _Source, rule: RewriteRule, node: Change) -> Change:
        """An action over the rows of the statement."""
        used: dict[tuple[str, int], None] = {}
        column = self._over_rows(used)
        node = self._over(node, column)
        condition = None if rule.condition is None else self._over(parse_expression(rule.condition), column)
        if not (used or source.items or condition):
            return node
        rows = ast.RangeSubselect(self._select(source, list(used)), ast.Alias(ROWS))
        if isinstance(node, ast.UpdateStmt):
            return replace(node, from_clause=(rows, *node.from_clause), where=_both(node.where, condition))
        if isinstance(node, ast.DeleteStmt):
            return replace(node, using=(rows, *node.using), where=_both(node.where, condition))
        query = node.query
        if query is None:
            some, value = self._some_default(node.relation)
            return replace(node, columns=(some,), query=ast.SelectStmt((value,), (rows,), condition))
        if query.set_operation:
            raise SqlError("0A000", "conditional UNION/INTERSECT/EXCEPT statements are not implemented")
        if not query.values:
            over = replace(query, from_clause=(rows, *query.from_clause), where=_both(query.where, condition))
            return replace(node, query=over)
        (cells,) = query.values
        columns = node.columns or tuple(ast.ResTarget(name=name) for name in self._names_of(node.relation))
        kept = [
            (target, cell)
            for target, cell in zip(columns, cells, strict=False)
            if not isinstance(cell, ast.SetToDefault)
        ]
        if not kept:
            some, value = self._some_default(node.relation)
            kept = [(some, value.expression or _NULL)]
        targets = tuple(ast.ResTarget(cell) for _, cell in kept)
        made = ast.SelectStmt(targets, (rows,), condition)
        return replace(node, columns=tuple(target for target, _ in kept), query=made)

    def _some_default(self, named: ast.RangeVar) -> tuple[ast.ResTarget, ast.ResTarget]:
        """A column, and its default as a value, for an INSERT that gives no others. Raises 0A000 if there is none that
        may be given."""
        found = self._session.environment.find_relation(named.schema, named.name)
        assert isinstance(found, Table | View)
        for column in found.columns:
            if column.generated is None and column.identity != "a":
                return ast.ResTarget(name=column.name), ast.ResTarget(self._default_of(found, column))
        not_supported("DEFAULT VALUES with rules, for a table without a column that may be given")

    def _names_of(self, named: ast.RangeVar) -> list[str]:
        found = self._session.environment.find_relation(named.schema, named.name)
        assert isinstance(found, Table)
        return [column.name for column in found.columns]

    def _returning_of(self, returned: tuple[ast.ResTarget, ...]) -> tuple[ast.ResTarget, ...]:
        """The statement's RETURNING over what the rule's returns for each column."""
        node, found = self._node, []
        name = node.relation.name if node.relation.alias is None else node.relation.alias.name
        values = {column.name: item.expression for column, item in zip(self._relation.columns, returned, strict=True)}

        def change(item: object, depth: int) -> object:
            if not isinstance(item, ast.ColumnRef):
                return item
            column = item.names[-1]
            if column not in values or (len(item.names) > 1 and item.names[-2] != name):
                not_supported("RETURNING of another column than the relation's, with rules")
            return values[column]

        for target in node.returning:
            expression = target.expression
            if isinstance(expression, ast.ColumnRef) and expression.names[-1] == "*":
                found += [ast.ResTarget(value, column) for column, value in values.items()]
                continue
            default = expression.names[-1] if isinstance(expression, ast.ColumnRef) else None
            found.append(replace(target, expression=transform(expression, change), name=target.name or default))
        return tuple(found)

    def _prepare_action(self, node: Change) -> Prepared:
        """The plan of an action, which the owner of the relation must be allowed to run."""
        session, statement = self._session, self._statement.of(node)
        token = _active.set((*_active.get(), (self._relation.oid, self._event)))
        try:
            owner = session.catalog.get(self._relation.owner)
            assert isinstance(owner, Role)
            with session.identity.acting_as(owner):
                self._check_action(node)
            with planning.without_checks():
                return planning.prepare(session, statement, self._types)
        finally:
            _active.reset(token)

    def _check_action(self, node: Change) -> None:
        """42501 unless the current user, the owner, may run an action, whatever rows the statement reads."""
        nothing = tuple(
            ast.ResTarget(ast.AssignedValue(_NULL, column), f"{letter}{place}")
            for letter in "on"
            for place, column in enumerate(self._relation.columns)
        )

        def change(item: object, depth: int) -> object:
            if isinstance(item, ast.RangeSubselect) and item.alias is not None and item.alias.name == ROWS:
                return replace(item, query=ast.SelectStmt(nothing))
            return item

        session = self._session
        found = session.environment.find_relation(node.relation.schema, node.relation.name)
        if isinstance(found, Table):
            session.identity.check_privileges(analyze(transform(node, change), session.environment, self._types))

    def _fields(self, parts: Sequence[_Part]) -> ResultColumns | None:
        if not self._node.returning:
            return None
        returning = next((part for part in parts if part.returns), None)
        return None if returning is None else ResultColumns(returning.prepared.fields or ())


def _both(*conditions: ast.Node | None) -> ast.Node | None:
    found = tuple(item for item in conditions if item is not None)
    return ast.BoolExpr("and", found) if len(found) > 1 else found[0] if found else None


class RulePlan(Plan):
    """A change of a relation with rules: its statements, one after the other."""

    writes = True
    is_cacheable = False

    def __init__(self, relation: Relation, command: str, parts: Sequence[_Part], columns: ResultColumns | None) -> None:
        self.columns = columns
        self.command = command
        locks = {relation.oid: ROW_EXCLUSIVE}
        for part in parts:
            for oid, mode in part.prepared.plan.locks:
                locks[oid] = max(locks.get(oid, 0), mode)
        self.locks = tuple(locks.items())
        others = (oid for part in parts for oid in part.prepared.plan.relations)
        self.relations = (relation.oid, *dict.fromkeys(others))
        self.parts = parts

    async def run(self, session: Session, portal: Portal, limit: int, sink: Sink) -> None:
        if session.transaction is None:
            session.begin_implicit()
        assert session.transaction is not None
        prepared = await running.lock_relations(session, portal.prepared)
        session.transaction.refuse_if_read_only(self.command)
        plan = prepared.plan
        if not isinstance(plan, RulePlan):  # its rules have been dropped meanwhile
            await plan.run(session, portal, limit, sink)
            return
        with session.using(plan.relations):
            count, rows = await suspend.run(lambda: _run_parts(session, plan.parts, portal.parameters))
        if plan.columns is not None and rows:
            encoders = row_encoders(plan.columns.fields, portal.formats, session.key.format)
            await sink.rows(b"".join(encoded_rows(rows, encoders)))
        portal.done = True
        portal.count = count
        sink.complete(tag(self.command, count))


def _run_parts(session: Session, parts: Sequence[_Part], parameters: Sequence[object]) -> tuple[int, list[Row]]:
    """The number of rows of the command tag, and the rows of RETURNING."""
    nested = NestedStatements(session, True)
    count, returned = 0, list[Row]()
    for part in parts:
        given = parameters[: len(part.prepared.parameters.types)]
        _, rows = nested.rows(part.prepared, given)
        if part.counts:
            count = nested.count
        if part.returns:
            returned = list(rows)
    return count, returned
