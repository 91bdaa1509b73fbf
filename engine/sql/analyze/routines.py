"""Functions that users have written in SQL: analyses their bodies, and replaces their calls by the bodies.

A call stays a call in the analysed tree, so that views and stored expressions show the original text. Before a
statement is planned, `expand_calls` inserts the bodies:

    SELECT expression                    the expression, with arguments in place of $1, $2, ... (inline_function)
    any other query                      a sub-query in parentheses, limited to its first row
    SETOF, TABLE and rows, in FROM       a sub-query in FROM (inline_set_returning_function)
    SETOF in the target list             the same in FROM, joined LATERAL

A strict function's body is evaluated only if no argument is NULL. A volatile argument that the body uses more than once
is computed once, in a sub-query. A body of several queries cannot be part of another statement: it runs if the call is
the whole statement (engine/statements/call.py).

Every body runs as the user of the statement, or as the function's owner if it is SECURITY DEFINER, whether the call is
in a statement, in a view or in a table's definition. So that user's privileges are checked here, when the body replaces
the call: later nothing shows which parts came from a body.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from catalog.catalog import Catalog
from catalog.derived import DerivedValues
from catalog.errors import SqlError, not_supported
from catalog.functions.base import Function
from catalog.functions.registry import functions_named
from catalog.routines import LANGUAGE
from catalog.schema import Role, Routine
from catalog.types import format_type, oids
from catalog.types.base import TypeRef
from catalog.types.composite import CompositeType
from catalog.types.user import entry_of
from engine.sql import ast, privileges, tree
from engine.sql.analyze import coerce
from engine.sql.analyze.aggregate_bodies import with_body
from engine.sql.analyze.collation_needs import needs_collations
from engine.sql.analyze.column_definitions import check_row
from engine.sql.analyze.dispatch import change_statement, select_query
from engine.sql.analyze.environment import Environment, inner_environment
from engine.sql.analyze.routine_columns import columns_of_call, is_row, output_columns
from engine.sql.analyze.routine_rights import check_execute, may_execute
from engine.sql.analyze.set_calls import below_sets, in_from, is_sorted_before, set_calls
from engine.sql.analyze.state import RoutineNames, Shared, State
from engine.sql.parser import parse
from engine.sql.tree_walk import is_volatile, shift_levels, substitute, transform, walk, walk_with_depth

_ROWS = ast.SelectStmt | ast.InsertStmt | ast.UpdateStmt | ast.DeleteStmt | ast.MergeStmt
_DEEPEST = 32  # calls within calls
_ASKED = frozenset(
    {"pg_has_role", *(f"has_{kind}_privilege" for kind in (
        "table", "sequence", "any_column", "column", "database", "function", "language", "schema", "tablespace", "type",
        "server", "foreign_data_wrapper", "parameter",
    ))}
)  # fmt: skip
"""Functions that examine the current user if no other user is given."""


@dataclass(frozen=True, slots=True)
class Body:
    """The statements of a body: queries and changes of rows, analysed for certain argument types, and others."""

    statements: tuple[tree.Analyzed | ast.Node, ...]

    @property
    def queries_and_changes(self) -> list[tree.Analyzed]:
        """The queries and changes of rows."""
        return [item for item in self.statements if isinstance(item, tree.Analyzed)]

    @property
    def relations(self) -> tuple[int, ...]:
        """The OIDs of the relations that they use."""
        return tuple(
            dict.fromkeys(oid for item in self.queries_and_changes for oid in (*item.relations, *item.written))
        )

    @property
    def query(self) -> tree.Query | None:
        """The last query of the body, if none of the queries has an effect."""
        queries = [item.statement for item in self.queries_and_changes if isinstance(item.statement, tree.Query)]
        if not queries or len(queries) != len(self.statements) or any(query.volatile for query in queries[:-1]):
            return None
        effects = any(
            query.row_marks or any(not isinstance(cte.query, tree.Query) for cte in query.ctes) for query in queries
        )
        return None if effects else queries[-1]


# ---- bodies ---------------------------------------------------------------------------------------------------------


def parsed_body(routine: Routine) -> tuple[ast.Node, ...]:
    """The statements of a routine. Raises 42601."""
    texts = (routine.body,) if routine.statements is None else routine.statements
    return tuple(statement.tree for text in texts for statement in parse(text))


def analyse_body(
    nodes: Sequence[ast.Node],
    environment: Environment,
    name: str,
    parameters: Sequence[tuple[str, int]],
    function: Function,
    result: TypeRef,
) -> Body:
    """The body of a function whose input arguments have these names and types. Raises 42P13 if its last statement does
    not return the declared result."""
    types = tuple(oid for _, oid in parameters)
    statements: list[tree.Analyzed | ast.Node] = []
    for node in nodes:
        if not isinstance(node, _ROWS) or (isinstance(node, ast.SelectStmt) and node.into is not None):
            statements.append(node)
            continue
        shared = Shared(environment, types)
        shared.routine = RoutineNames(name, tuple(argument for argument, _ in parameters))
        found = _statement(State(shared), node)
        if any(number > len(types) for number in shared.parameters):
            raise SqlError("42P02", f"there is no parameter ${max(shared.parameters)}")
        relations, written, locked = tuple(shared.relations), tuple(shared.written), tuple(shared.locked)
        statements.append(tree.Analyzed(found, types, relations, written, locked))
    if result.oid != oids.VOID and function.kind == "f":
        if not statements:
            raise _no_query(result)
        last = statements[-1]
        if not isinstance(last, tree.Analyzed):
            raise _no_query(result)
        conforming = _last(State(Shared(environment, ())), last.statement, function, result, types)
        statements[-1] = replace(last, statement=conforming)
    return Body(tuple(statements))


def _statement(state: State, node: ast.Node) -> tree.Statement:
    if isinstance(node, ast.SelectStmt):
        return select_query(state, node, settle=True)
    return change_statement(state, node)


def _last(
    state: State, last: tree.Statement, function: Function, result: TypeRef, types: Sequence[int]
) -> tree.Statement:
    """The final statement, which returns the function's result."""
    if isinstance(last, tree.Query):
        return _conforming(state, last, function, result, types)
    if not last.returning:
        raise _no_query(result)
    columns = output_columns(function, result, types)
    given = [target.expression.type.oid for target in last.returning]
    if columns is not None and given != [type_.oid for type_ in columns]:
        not_supported("RETURNING in a function that gives other types than it declares")
    return last


def _no_query(result: TypeRef) -> SqlError:
    return _mismatch(result, "Function's final statement must be SELECT or INSERT/UPDATE/DELETE RETURNING.")


def _mismatch(result: TypeRef, detail: str) -> SqlError:
    declared = format_type(result.oid)
    return SqlError("42P13", f"return type mismatch in function declared to return {declared}", detail=detail)


def _conforming(
    state: State, query: tree.Query, function: Function, result: TypeRef, types: Sequence[int]
) -> tree.Query:
    """check_sql_fn_retval: the query with the declared result types."""
    given = [target.expression.type for target in query.output]
    columns = output_columns(function, result, types)
    if columns is None:  # record accepts any columns
        return query
    one_row = len(given) == 1 and (given[0].oid == oids.RECORD or is_row(given[0]))
    if len(columns) > 1 and one_row and result.oid == oids.RECORD:
        return _as_defined(state, query, result, columns)
    if len(columns) == 1 and len(given) != 1 and (function.output_types or not is_row(result)):
        raise _mismatch(result, "Final statement must return exactly one column.")
    row = None
    if not function.output_types and is_row(result):
        if len(given) == 1 and given[0].oid == result.oid:
            return query
        entry = entry_of(result.oid)
        assert entry is not None and isinstance(entry.sql_type, CompositeType)
        row = entry.sql_type
        columns = [type_ for _, type_ in row.fields]
    if row is None and [one.oid for one in given] == [other.oid for other in columns]:
        return query
    values = _coerce_outputs(state, query, [TypeRef(type_.oid) for type_ in columns], result)
    names = [target.name for target in query.output]
    if row is not None:
        values, names = [tree.RowExpr(tuple(values), tuple(names), TypeRef(result.oid))], [function.name]
    return over(query, values, names)


def _coerce_outputs(state: State, query: tree.Query, columns: Sequence[TypeRef], result: TypeRef) -> list[tree.Expr]:
    """The expressions, in a query over the body, that convert its columns to these types. Raises 42P13."""
    outer = State(state.shared)
    values: list[tree.Expr] = []
    for number, (wanted, target) in enumerate(zip(columns, query.output, strict=False), 1):
        type_ = target.expression.type
        value = coerce.coerce(outer, tree.Var(0, number, type_, 0, target.name), wanted, "a")
        if value is None:
            if len(columns) == 1 and result.oid != oids.RECORD and not is_row(result):
                raise _mismatch(result, f"Actual return type is {format_type(type_.oid)}.")
            shown = f"{format_type(type_.oid)} instead of {format_type(wanted.oid)} at column {number}"
            raise _mismatch(result, f"Final statement returns {shown}.")
        values.append(value)
    if len(query.output) != len(columns):
        few = "few" if len(query.output) < len(columns) else "many"
        raise _mismatch(result, f"Final statement returns too {few} columns.")
    return values


def _as_defined(state: State, query: tree.Query, result: TypeRef, columns: Sequence[TypeRef]) -> tree.Query:
    """The body of a function that returns record, with the columns of a column definition list (check_sql_fn_retval).
    Raises 42P13 for columns that cannot be converted, 42804 if the body returns one record with other fields."""
    output = query.output
    value = output[0].expression if len(output) == 1 else None
    if value is not None and (value.type.oid == oids.RECORD or is_row(value.type)):
        fields = _fields(value, query)
        check_row([type_ for _, type_ in fields], columns)
        whole = tree.Var(0, 1, value.type, 0, output[0].name)
        taken = [tree.FieldSelect(whole, n, name, type_) for n, (name, type_) in enumerate(fields, 1)]
        return over(query, taken, [name for name, _ in fields])
    if [target.expression.type for target in output] == list(columns):
        return query
    return over(query, _coerce_outputs(state, query, columns, result), [target.name for target in output])


def _fields(value: tree.Expr, query: tree.Query) -> list[tuple[str, TypeRef]]:
    """Names and types of the fields of a row, which a query gives. Raises 0A000 if they are unknown."""
    if isinstance(value, tree.RowExpr):
        return [(name, item.type) for name, item in zip(value.names, value.elements, strict=True)]
    if isinstance(value, tree.Var) and not value.column and not value.levels_up and query.set_operation is None:
        return [(column.name, column.type) for column in query.range_table[value.relation].columns]
    entry = entry_of(value.type.oid)
    if entry is None or not isinstance(entry.sql_type, CompositeType):
        not_supported("a function whose body gives a record of unknown fields, in FROM")
    return list(entry.sql_type.fields)


def over(query: tree.Query, values: Sequence[tree.Expr], names: Sequence[str]) -> tree.Query:
    """A query that computes values over the rows of another, which is its range table entry 0."""
    columns = tuple(tree.RangeColumn(target.name, target.expression.type) for target in query.output)
    targets = tuple(tree.Target(value, name) for value, name in zip(values, names, strict=True))
    entry = tree.RangeSubquery(shift_levels(query, 1), "body", columns)
    return tree.Query(targets, (entry,), (tree.FromRef(0),), volatile=query.volatile)


# ---- calls ----------------------------------------------------------------------------------------------------------


def is_routine(node: object) -> bool:
    """Whether it is a call of a user-defined function."""
    return isinstance(node, tree.FuncExpr) and node.function.language == LANGUAGE


def expand_calls(analyzed: tree.Analyzed, environment: Environment) -> tree.Analyzed:
    """The statement with bodies in place of calls. Raises 0A000 for calls that cannot be replaced."""
    if not environment.catalog.routines:
        return analyzed
    expansion = Expansion(environment, privileges.role_of(environment.catalog, environment.user_name))
    statement = cast(tree.Statement, expansion.of(analyzed.statement))
    if statement is analyzed.statement:
        return analyzed
    relations = tuple(dict.fromkeys((*analyzed.relations, *expansion.relations)))
    named = analyzed.collated or any(isinstance(item, tree.CollateExpr) for item in walk(statement))
    collated = needs_collations(environment.catalog, relations, named)
    return replace(analyzed, statement=statement, relations=relations, collated=collated)


def expanded_expression(expression: tree.Expr, environment: Environment) -> tree.Expr:
    """Like `expand_calls`, for an expression outside of queries."""
    catalog = environment.catalog
    if not catalog.routines:
        return expression
    return cast(tree.Expr, Expansion(environment, privileges.role_of(catalog, environment.user_name)).of(expression))


def inline_call(expression: tree.Expr, catalog: Catalog) -> tree.Expr:
    """The expression with bodies in place of calls, to inspect it, or to run it after the privileges were checked."""
    if not catalog.routines:
        return expression
    with inner_environment(catalog) as inside:
        return cast(tree.Expr, Expansion(inside, None).of(expression))


def _check_today(routine: Routine, today: Catalog, caller: Role, role: Role, query: tree.Query) -> None:
    """A call in the past also needs the present privileges. Raises 42501, 42704 if a role was dropped."""
    now = today.get(routine.oid)
    if isinstance(now, Routine):
        check_execute(now, today, privileges.role_of(today, caller.name))
    privileges.check(today, privileges.role_of(today, role.name), query)


def refuse_trigger_function(routine: Routine) -> None:
    """Raises 0A000 for a trigger function, which an expression calls."""
    if routine.result.oid in oids.TRIGGERS:
        error = SqlError("0A000", "trigger functions can only be called as triggers")
        error.context = f'compilation of PL/pgSQL function "{routine.name}" near line 1'
        raise error


def runner(routine: Routine, catalog: Catalog, role: Role) -> Role:
    """The role that runs the body of a routine which `role` calls."""
    owner = catalog.get(routine.owner) if routine.security_definer else role
    return owner if isinstance(owner, Role) else role


def as_user(node: object, role: Role) -> object:
    """A body with functions of the current user evaluated for the role: current_user, has_table_privilege(...), ..."""
    name = tree.Const(role.name, TypeRef(oids.NAME))

    def change(item: object, depth: int) -> object:
        if isinstance(item, tree.SqlValueFunction) and item.name in ("current_user", "user", "current_role"):
            return name
        if isinstance(item, tree.FuncExpr) and (item.function.name in _ASKED or item.function.source == "current_user"):
            if item.function.source == "current_user":
                return name
            wanted = (oids.NAME, *item.function.argument_types)
            for other in functions_named(item.function.name):
                if other.argument_types == wanted:
                    return replace(item, function=other, arguments=(name, *item.arguments))
        return item

    return transform(node, change)


def _assign_reader(body: object, role: Role, catalog: Catalog) -> object:
    """A body whose tables are read by a role: row security applies to that. In a view they are read by its owner."""

    def change(item: object, depth: int) -> object:
        if isinstance(item, tree.RangeSubquery) and item.view is not None:
            return item if privileges.runs_as(catalog, catalog.get(item.view), role) is not role else None
        if isinstance(item, tree.RangeTable):
            return item if item.role else replace(item, role=role.oid)
        return None

    return substitute(body, change)


class Expansion:
    """See `expand_calls`. `role`: the role that runs the bodies, or None without checks of privileges. `relations`: the
    OIDs of the relations that the bodies read."""

    def __init__(self, environment: Environment, role: Role | None, open_: tuple[int, ...] = ()) -> None:
        self._environment = environment
        self._role = role
        self._open = open_  # the functions around this one
        self.relations: dict[int, None] = {}
        self._in_range: set[tree.FuncExpr] = set()  # calls in FROM that stay calls

    def of(self, node: object) -> object:
        found = transform(node, self._change)
        return transform(found, self._rows)

    def _change(self, node: object, depth: int) -> object:
        if isinstance(node, tree.FuncExpr) and is_routine(node):
            if self._is_kept(node):
                return node
            if node.function.returns_set or node.type.oid == oids.RECORD or is_row(node.type):
                return node  # its place decides: FROM, a field, the target list
            return self._scalar(node, None)
        if isinstance(node, tree.FieldSelect) and is_routine(node.argument):
            call = cast(tree.FuncExpr, node.argument)
            return node if call.function.returns_set or self._is_kept(call) else self._scalar(call, node.field)
        if isinstance(node, tree.RangeFunction) and any(map(is_routine, node.functions)):
            return self._in_from(node)
        if isinstance(node, tree.Query):
            return self._in_targets(node)
        if isinstance(node, tree.Aggref | tree.WindowFunc) and node.function.language == LANGUAGE:
            return self._aggregate(node)
        return node

    def _aggregate(self, call: tree.Aggref | tree.WindowFunc) -> tree.Expr:
        """The call of a user-defined aggregate with its computation. The aggregate's owner must be able to call its
        functions."""
        catalog, role = self._environment.catalog, self._role
        aggregate = catalog.get(call.function.oid)
        assert isinstance(aggregate, Routine) and aggregate.aggregate is not None
        if role is not None:
            check_execute(aggregate, catalog, role)
            owner = catalog.get(aggregate.owner)
            for oid in (aggregate.aggregate.transition, aggregate.aggregate.final):
                function = catalog.get(oid)
                if isinstance(function, Routine) and isinstance(owner, Role):
                    check_execute(function, catalog, owner)
        return with_body(call, self._environment, self._step)

    def _step(self, call: tree.Expr) -> tree.Expr:
        """A call of an aggregate's function: the expression that a function in SQL consists of, or the call itself."""
        if not isinstance(call, tree.FuncExpr) or not is_routine(call) or call.type.oid == oids.RECORD:
            return call
        catalog = self._environment.catalog
        routine = catalog.get(call.function.oid)
        assert isinstance(routine, Routine)
        if is_row(call.type) or (self._role is not None and not may_execute(routine, catalog, self._role)):
            return call
        if self._is_kept(call):
            return call
        value = self._scalar(call, None)
        return call if any(isinstance(item, tree.Query) for item in walk(value)) else value

    def _is_kept(self, call: tree.FuncExpr) -> bool:
        """Whether the call stays a call: of a function in PL/pgSQL, or of one in SQL whose body is more than a query or
        that calls itself."""
        routine = self._environment.catalog.get(call.function.oid)
        assert isinstance(routine, Routine)
        refuse_trigger_function(routine)
        if routine.language == "sql" and not self._is_more_than_a_query(routine, call):
            return False
        if self._role is not None:
            check_execute(routine, self._environment.catalog, self._role)
        return True

    def _is_more_than_a_query(self, routine: Routine, call: tree.FuncExpr) -> bool:
        if routine.settings or len(self._open) >= _DEEPEST or routine.oid in self._open or call.type.oid == oids.VOID:
            return True
        types = [item.type.oid for item in call.arguments]
        query = body_of(routine, self._environment, call.function, types, call.type).query
        if query is None or not routine.security_definer:
            return query is None
        inner = Expansion(self._environment, None, (*self._open, routine.oid))  # a call that is kept runs as its caller
        return any(inner._is_kept(cast(tree.FuncExpr, item)) for item in walk(query) if is_routine(item))

    def _rows(self, node: object, depth: int) -> object:
        """Expands the remaining calls: records as values."""
        if isinstance(node, tree.FuncExpr) and is_routine(node):
            if node in self._in_range:
                return node
            if node.function.returns_set:
                not_supported(f"function {node.function.name}, which returns a set, here")
            return node if self._is_kept(node) else self._scalar(node, 0 if node.type.oid == oids.RECORD else None)
        return node

    # ---- in expressions ---------------------------------------------------------------------------------------------

    def _query(self, call: tree.FuncExpr) -> tree.Query:
        """The body of a call, with its own calls expanded. Its parameters are not yet replaced."""
        routine = self._environment.catalog.get(call.function.oid)
        assert isinstance(routine, Routine)
        catalog, role = self._environment.catalog, self._role
        caller = role
        if role is not None:
            check_execute(routine, catalog, role)
            role = runner(routine, catalog, role)
        types = [item.type.oid for item in call.arguments]
        body = body_of(routine, self._environment, call.function, types, call.type)
        query = body.query
        assert query is not None  # otherwise it is kept
        if role is not None:
            privileges.check(catalog, role, query)
        if role is not None and caller is not None and self._environment.today is not None:
            _check_today(routine, self._environment.today, caller, role, query)
        self.relations |= dict.fromkeys(body.relations)
        inner = Expansion(self._environment, role, (*self._open, routine.oid))
        found = inner.of(query)
        self.relations |= inner.relations
        if routine.security_definer:
            owner = catalog.get(routine.owner)
            assert isinstance(owner, Role)
            found = _assign_reader(as_user(found, owner), owner, catalog)
        assert isinstance(found, tree.Query)
        return found

    def _scalar(self, call: tree.FuncExpr, field: int | None) -> tree.Expr:
        """The value of a call; with `field`, a field of its record (0: the whole record)."""
        query = self._query(call)
        if field and is_row(call.type) and len(query.output) == 1:
            query = _fields_of(query, call)
        if field is not None:
            query = _of_record(query, field)
        type_ = query.output[0].expression.type if field is not None else call.type
        plain = plain_expression(query)
        body: object = _first_row(query) if plain is None else plain
        if _may_be_repeated(body, call.arguments):
            value = _value(substitute_arguments(body, call.arguments), type_, call.location)
        else:
            value = _value(_over_arguments(body, call.arguments, type_), type_, call.location)
        if not call.function.strict:
            return value
        missing = [tree.NullTest(item, True) for item in call.arguments if not _is_known(item)]
        if not missing:
            return value
        condition: tree.Expr = missing[0] if len(missing) == 1 else tree.BoolExpr("or", tuple(missing))
        return tree.CaseExpr(None, ((condition, tree.Const(None, type_)),), value, type_)

    # ---- in FROM ----------------------------------------------------------------------------------------------------

    def _in_from(self, node: tree.RangeFunction) -> tree.RangeEntry:
        if all(isinstance(call, tree.FuncExpr) and is_routine(call) and self._is_kept(call) for call in node.functions):
            self._in_range.update(cast("Sequence[tree.FuncExpr]", node.functions))
            return node
        if len(node.functions) != 1 or node.ordinality:
            self._keep(node.functions)
            return node
        call = node.functions[0]
        assert isinstance(call, tree.FuncExpr)
        query = self._rows_of(call, [column.type for column in node.columns])
        return tree.RangeSubquery(query, node.alias, node.columns, any(map(_has_variable, call.arguments)))

    def _rows_of(self, call: tree.FuncExpr, columns: Sequence[TypeRef] | None) -> tree.Query:
        """The rows of a call as a sub-query in FROM, with columns of these types. None: all columns of the body."""
        query = self._query(call)
        wanted = len(query.output) if columns is None else len(columns)
        if wanted > 1 and len(query.output) == 1 and is_row(call.type):
            query = _fields_of(query, call)
        if call.type.oid == oids.RECORD and not call.function.output_types and columns is not None:
            try:
                query = _as_defined(State(Shared(self._environment, ())), query, call.type, columns)
            except SqlError as error:
                if error.sqlstate == "42P13":
                    error.context = f'SQL function "{call.function.name}" during startup'
                raise
        once = _computed_once(query if call.function.returns_set else _first_row(query), call.arguments)
        missing = [item for item in call.arguments if not _is_known(item)] if call.function.strict else []
        if missing:
            tests = tuple(tree.NullTest(shift_levels(item, 1), False) for item in missing)
            where: tree.Expr = tests[0] if len(tests) == 1 else tree.BoolExpr("and", tests)
            once = replace(_through(once), where=where)
        if call.function.returns_set or (_one_row(query) and not missing):
            return once
        # A function that is no set gives a row in any case.
        inner = _through(once)
        single = tree.RangeSubquery(tree.Query((tree.Target(tree.Const(1, TypeRef(oids.INT4)), "one"),)), "one",
                                    (tree.RangeColumn("one", TypeRef(oids.INT4)),))  # fmt: skip
        rows = inner.range_table[0]
        assert isinstance(rows, tree.RangeSubquery)
        values = [replace(cast(tree.Var, target.expression), relation=1) for target in inner.targets]
        join = tree.FromJoin("left", tree.FromRef(0), tree.FromRef(1), tree.Const(True, TypeRef(oids.BOOL)))
        names = [target.name for target in inner.targets]
        targets = tuple(tree.Target(value, name) for value, name in zip(values, names, strict=True))
        return tree.Query(targets, (single, rows), (join,))

    def _in_targets(self, query: tree.Query) -> tree.Query:
        """SELECT f(x) FROM t, if f returns a set: SELECT f.f FROM t, LATERAL f(x)."""
        if query.set_operation is not None or not set_calls(query):
            return query
        query = below_sets(query)
        calls = set_calls(query)
        call = calls[0]
        if len(calls) > 1 or is_sorted_before(query) or self._is_kept(call):
            self._keep(calls)
            return in_from(query, calls, None)
        anonymous = call.type.oid == oids.RECORD and not call.function.output_types
        columns = None if anonymous else [column.type for column in columns_of_call(call)]
        return in_from(query, calls, lambda call: self._rows_of(call, columns))

    def _keep(self, calls: Iterable[tree.Expr]) -> None:
        """Lets the calls among these stay calls, in FROM."""
        for call in calls:
            if isinstance(call, tree.FuncExpr) and is_routine(call):
                routine = self._environment.catalog.get(call.function.oid)
                assert isinstance(routine, Routine)
                refuse_trigger_function(routine)
                if self._role is not None:
                    check_execute(routine, self._environment.catalog, self._role)
                self._in_range.add(call)


# ---- the cache of bodies --------------------------------------------------------------------------------------------

_Key = tuple[int, tuple[int, ...], int, tuple[str, ...]]
_bodies: DerivedValues[_Key, Body] = DerivedValues()


def body_of(
    routine: Routine, environment: Environment, function: Function, types: Sequence[int], result: TypeRef
) -> Body:
    """The routine's body for actual argument types, analysed once per catalog and search path."""
    known = _bodies.of(environment.catalog)
    key = (routine.oid, tuple(types), result.oid, environment.search_path)
    found = known.get(key)
    if found is None:
        names = [item.name for item in routine.inputs]
        inside = replace(
            environment, asks=False
        )  # the cache is shared by all users; privileges are checked at each use
        if routine.statements is not None:
            inside = replace(inside, search_path=("pg_catalog", "public"))
        try:
            nodes = parsed_body(routine)
            parameters = list(zip(names, types, strict=True))
            found = analyse_body(nodes, inside, routine.name, parameters, function, result)
        except SqlError as error:
            error.position = None
            raise
        finally:
            environment.make_current()
        known[key] = found
    return found


def substitute_arguments(node: object, arguments: Sequence[tree.Expr]) -> object:
    """A body with the arguments in place of its parameters. The arguments belong to the outer query."""

    def change(item: object, depth: int) -> object:
        if isinstance(item, tree.Param):
            value = arguments[item.number - 1]
            if item.type.oid != value.type.oid:
                value = tree.RelabelType(value, TypeRef(item.type.oid))
            return shift_levels(value, depth) if depth else value
        return item

    return transform(node, change)


def _value(body: object, type_: TypeRef, location: int) -> tree.Expr:
    """A body as a value: an expression unchanged, a query in parentheses."""
    return (
        tree.SubLink("expr", body, type_, location=location) if isinstance(body, tree.Query) else cast(tree.Expr, body)
    )


def _over_arguments(body: object, arguments: Sequence[tree.Expr], type_: TypeRef) -> tree.Query:
    """SELECT body FROM (SELECT arguments): each argument is computed once."""
    names = [f"a{number}" for number in range(1, len(arguments) + 1)]
    inner = tuple(tree.Target(shift_levels(argument, 2), name) for argument, name in zip(arguments, names, strict=True))
    columns = tuple(tree.RangeColumn(target.name, target.expression.type) for target in inner)
    entry = tree.RangeSubquery(tree.Query(inner, volatile=True), "arguments", columns)
    given = [tree.Var(0, number, column.type, 0, column.name) for number, column in enumerate(columns, 1)]
    value = _value(substitute_arguments(body, given), type_, -1)
    return tree.Query((tree.Target(value, "value"),), (entry,), (tree.FromRef(0),), volatile=True)


def _computed_once(query: tree.Query, arguments: Sequence[tree.Expr]) -> tree.Query:
    """The body as a sub-query over its arguments, so that volatile arguments with several uses are computed once."""
    if _may_be_repeated(query, arguments):
        return cast(tree.Query, substitute_arguments(query, arguments))
    not_supported("a volatile argument that a function in SQL uses more than once")


def _uses(node: object) -> dict[int, int]:
    found: dict[int, int] = {}
    for item in walk(node):
        if isinstance(item, tree.Param):
            found[item.number] = found.get(item.number, 0) + 1
    return found


def _may_be_repeated(body: object, arguments: Sequence[tree.Expr]) -> bool:
    uses: dict[int, int] | None = None
    for number, argument in enumerate(arguments, 1):
        if isinstance(argument, tree.Const | tree.Param | tree.Var):
            continue
        if is_volatile(argument):
            uses = _uses(body) if uses is None else uses
            if uses.get(number, 0) != 1 or isinstance(body, tree.Query):
                return False
    return True


def plain_expression(query: tree.Query) -> tree.Expr | None:
    """The expression of a body that consists only of one; None for other bodies."""
    parts = (query.range_table, query.from_items, query.where, query.group_by, query.having, query.windows,
             query.order_by, query.limit, query.offset, query.set_operation, query.ctes, query.has_aggregates,
             query.has_windows, query.has_set_functions)  # fmt: skip
    if any(parts) or query.distinct is not None or len(query.targets) != 1:
        if len(query.range_table) == 1 and len(query.targets) == 1 and not any(parts[2:]) and query.distinct is None:
            return _through_body(query)
        return None
    expression = query.targets[0].expression
    sets = any(isinstance(item, tree.FuncExpr) and item.function.returns_set for item in walk(expression))
    return None if sets else expression


def _through_body(query: tree.Query) -> tree.Expr | None:
    """The expression of a body that `over` has wrapped in a query; None for other bodies."""
    entry = query.range_table[0]
    if not isinstance(entry, tree.RangeSubquery):
        return None
    inner = plain_expression(entry.query)
    if inner is None:
        return None

    def change(item: object, depth: int) -> object:
        if isinstance(item, tree.Var) and item.levels_up == depth:
            return shift_levels(inner, depth) if depth else inner
        return item

    return transform(query.targets[0].expression, change)


def _first_row(query: tree.Query) -> tree.Query:
    """The query limited to its first row."""
    if _one_row(query):
        return query
    one = tree.Const(1, TypeRef(oids.INT8))
    if query.limit is None and not query.limit_with_ties:
        return replace(query, limit=one)
    return replace(_through(query), limit=one)


def _one_row(query: tree.Query) -> bool:
    """Whether the query always returns one row."""
    if (
        query.set_operation is not None
        or query.has_set_functions
        or query.limit is not None
        or query.having is not None
    ):
        return False
    if query.where is not None and not query.has_aggregates:
        return False
    if query.has_aggregates and not query.group_by and not query.grouping_sets:
        return query.offset is None
    return not query.from_items and query.offset is None


def _through(query: tree.Query) -> tree.Query:
    """A query that returns the rows of another one."""
    output = query.output
    values = [tree.Var(0, n, target.expression.type, 0, target.name) for n, target in enumerate(output, 1)]
    return over(query, values, [target.name for target in output])


def _of_record(query: tree.Query, field: int) -> tree.Query:
    """One column of a query, or (0) all of them as one record."""
    values = _through(query).targets
    if field:
        chosen = values[field - 1]
        return over(query, [chosen.expression], [chosen.name])
    names = tuple(target.name for target in values)
    row = tree.RowExpr(tuple(target.expression for target in values), names)
    return over(query, [row], ["row"])


def row_columns(value: tree.Expr) -> list[tree.RangeColumn] | None:
    """The columns in FROM of a call with values of a composite type; None for any other expression."""
    if not isinstance(value, tree.FuncExpr) or not is_routine(value):
        return None
    entry = entry_of(value.type.oid)
    if entry is None or not isinstance(entry.sql_type, CompositeType):
        return None
    return [tree.RangeColumn(name, type_) for name, type_ in entry.sql_type.fields]


def _fields_of(query: tree.Query, call: tree.FuncExpr) -> tree.Query:
    """A query that returns the fields of a composite column."""
    whole = tree.Var(0, 1, call.type, 0, query.output[0].name)
    columns = row_columns(call) or []
    values = [tree.FieldSelect(whole, n, column.name, column.type) for n, column in enumerate(columns, 1)]
    return over(query, values, [column.name for column in columns])


def _is_known(expression: tree.Expr) -> bool:
    return isinstance(expression, tree.Const) and expression.value is not None


def _has_variable(expression: tree.Expr) -> bool:
    return any(isinstance(item, tree.Var) and item.levels_up == depth for item, depth in walk_with_depth(expression))
