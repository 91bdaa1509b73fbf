"""Function calls (ParseFuncOrColumn): plain functions, casts written as calls, aggregates and window functions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NoReturn

from catalog.catalog import Catalog
from catalog.functions.added import has_functions_named
from catalog.functions.base import Function, Trait
from catalog.functions.registry import functions_named, has_trait, names_with
from catalog.functions.system_rows import COLUMNS_OF_ROWS
from catalog.routines import LANGUAGE
from catalog.row_types import is_row_type
from catalog.schema import Domain, Routine
from catalog.system import derived_oids
from catalog.types import oids
from catalog.types.base import TypeRef
from catalog.types.oids import ANY, UNKNOWN
from catalog.types.user import FIRST_USER_OID
from engine.sql import ast, tree
from engine.sql.analyze import coerce, common_types, json_records, json_rows, scope
from engine.sql.analyze.aggregates import aggregate_call, unify_hypothetical, window_call
from engine.sql.analyze.declared import result_domain
from engine.sql.analyze.dispatch import handles, operand
from engine.sql.analyze.environment import Environment, inner_environment
from engine.sql.analyze.errors import expr_location, fail
from engine.sql.analyze.resolve import Candidate, Found, argument, find_function, signature
from engine.sql.analyze.state import Shared, State
from engine.sql.analyze.typeinfo import array_type, element_type, type_name
from engine.sql.parser import parse_expression

_SETS_ALLOWED = frozenset(
    {
        "select",
        "ORDER BY",
        "GROUP BY",
        "DISTINCT ON",
        "functions in FROM",
        "single VALUES",
        "INSERT",
        "window definitions",
    }
)
_VALUE_FUNCTIONS = {
    "current_date": oids.DATE,
    "current_time": oids.TIMETZ,
    "current_timestamp": oids.TIMESTAMPTZ,
    "localtime": oids.TIME,
    "localtimestamp": oids.TIMESTAMP,
}


@handles(ast.SqlValueFunction)
def sql_value_function(state: State, node: ast.SqlValueFunction) -> tree.Expr:
    """current_timestamp, current_user, ...: date and time types with their precision, else name."""
    oid = _VALUE_FUNCTIONS.get(node.name, oids.NAME)
    typmod = -1 if node.precision is None else min(node.precision, 6)
    return tree.SqlValueFunction(node.name, node.precision, TypeRef(oid, typmod), node.location)


def _takes_row_type(name: str) -> bool:
    """Whether functions of this name use the type of their first argument, a row: they return rows of it, or read its
    fields."""
    if name in names_with(Trait.TAKES_ROW) and has_functions_named(name):
        return True
    return any(has_trait(function.source, Trait.POPULATED_ROWS) for function in functions_named(name))


def _is_void_parameter(argument: tree.Expr) -> bool:
    """Whether it is a void parameter, which is dropped as in PostgreSQL: drivers use it for an OUT argument
    (ParseFuncOrColumn)."""
    return isinstance(argument, tree.Param) and argument.type.oid == oids.VOID


@handles(ast.FuncCall)
def call_function(state: State, node: ast.FuncCall) -> tree.Expr:
    """A call by name: the function that PostgreSQL would choose, its arguments cast to the declared types."""
    name = node.names[-1]
    arguments = [operand(state, item) for item in node.arguments]
    if not node.argument_names:
        arguments = [item for item in arguments if not _is_void_parameter(item)]
    if len(node.names) > 1 and node.names[-2] == "information_schema":
        arguments = _columns_of_rows(state, name, arguments)
    is_row = arguments and is_row_type(arguments[0].type.domain) and not isinstance(arguments[0], tree.SubLink)
    if is_row and _takes_row_type(name):
        arguments[0] = coerce.coerce_type(state, arguments[0], TypeRef(arguments[0].type.domain), "i")
    direct = len(arguments)
    if node.within_group:
        arguments.extend(operand(state, item.expression) for item in node.order_by)
    names = node.argument_names if any(item is not None for item in node.argument_names) else ()
    found = _find(state, node, name, arguments, names)
    if found.status == "coercion":
        _only_plain(node, name)
        return coerce.coerce_type(
            state, arguments[0], TypeRef(found.coercion), "e", explicit=True, location=node.location
        )
    assert found.candidate is not None
    function = found.candidate.function
    if function.kind == "w" and node.over is None:
        fail("42809", f"window function {name} requires an OVER clause", node.location)
    if node.within_group and function.kind == "a":
        arguments = unify_hypothetical(state, node, function, arguments, direct)
    ready, result = _prepare(state, node, found.candidate, arguments)
    function, ready = json_rows.prepare_call(state, node, function, ready)
    if function.kind == "a":
        return aggregate_call(state, node, function, ready, direct, result)
    if node.over is not None:
        if function.kind != "w":
            fail(
                "42809", f"OVER specified, but {name} is not a window function nor an aggregate function", node.location
            )
        return window_call(state, node, function, ready, result)
    if function.kind == "p" and state.kind != "CALL arguments":
        shown = signature(".".join(node.names), [item.type.oid for item in arguments])
        fail("42809", f"{shown} is a procedure", node.location, hint="To call a procedure, use CALL.")
    _only_plain(node, name)
    if function.returns_set:
        check_set_call(state, node.location)
    if function.volatility == "v":
        state.volatile = True
    display = "sql_syntax" if node.sql_syntax else "call"
    variadic = node.variadic and bool(function.variadic)
    if function.source == "pg_collation_for":
        if arguments[0].type.oid == oids.UNKNOWN and _is_literal(state, arguments[0]):
            return tree.Const(None, result, node.location)
        state.shared.collated = True
    made = tree.FuncExpr(function, ready, result, None, display, variadic, node.location)
    return made if result.oid < FIRST_USER_OID else json_records.checked_record(state.environment, made, state.kind)


def _columns_of_rows(state: State, name: str, arguments: list[tree.Expr]) -> list[tree.Expr]:
    """Replaces rows of pg_attribute and pg_type, for two functions of information_schema, by their relevant columns.
    Other arguments do not change, and match no function."""
    if name not in COLUMNS_OF_ROWS or len(arguments) != 2:
        return arguments
    columns: dict[str, tree.Expr] = {}
    for row in arguments:
        columns.update(scope.row_columns(state, row) or ())
    found = [columns[column] for column in COLUMNS_OF_ROWS[name] if column in columns]
    return found if len(found) == len(COLUMNS_OF_ROWS[name]) else arguments


def check_set_call(state: State, location: int) -> None:
    """check_srf_call_placement: 0A000 where a set is not allowed."""
    if state.kind not in _SETS_ALLOWED:
        fail("0A000", f"set-returning functions are not allowed in {state.kind}", location)
    state.set_calls += 1
    state.set_location = location


def no_sets_since(state: State, calls: int, construct: str) -> None:
    """0A000 for a set-returning call under CASE or COALESCE, which may not evaluate it."""
    if state.set_calls > calls:
        fail(
            "0A000", f"set-returning functions are not allowed in {construct}", state.set_location,
            hint="You might be able to move the set-returning function into a LATERAL FROM item.",
        )  # fmt: skip


def _only_plain(node: ast.FuncCall, name: str) -> None:
    """42809 for clauses of an aggregate in the call of another function."""
    if node.star:
        fail("42809", f"{name}(*) specified, but {name} is not an aggregate function", node.location)
    if node.distinct:
        fail("42809", f"DISTINCT specified, but {name} is not an aggregate function", node.location)
    if node.within_group:
        fail("42809", f"WITHIN GROUP specified, but {name} is not an aggregate function", node.location)
    if node.order_by:
        fail("42809", f"ORDER BY specified, but {name} is not an aggregate function", node.location)
    if node.filter is not None:
        fail("42809", f"FILTER specified, but {name} is not an aggregate function", node.location)
    if node.over is not None:
        fail("42809", f"OVER specified, but {name} is not a window function nor an aggregate function", node.location)


def _is_literal(state: State, argument: tree.Expr) -> bool:
    """Whether the statement has a constant here, which may have been replaced by a parameter."""
    if isinstance(argument, tree.Param):
        return argument.number in state.shared.literals
    return isinstance(argument, tree.Const)


def _find(
    state: State, node: ast.FuncCall, name: str, arguments: Sequence[tree.Expr], names: tuple[str | None, ...]
) -> Found:
    actual = tuple(item.type.oid for item in arguments)
    if any(item.type.oid == oids.RECORD and item.type.domain for item in arguments) and takes_rows(state, name):
        actual = tuple(item.type.declared if item.type.oid == oids.RECORD else item.type.oid for item in arguments)
    found = Found("missing")
    schema = node.names[-2] if len(node.names) > 1 else None
    if schema == "information_schema" and name.startswith("_pg_"):
        schema = "pg_catalog"
    if schema in (None, "pg_catalog") or state.environment.schema_oid(schema):
        literal = len(actual) == 1 and _is_literal(state, arguments[0])
        state.environment.check_usage(schema)
        stored = node.sql_syntax or not state.environment.asks
        target = 0
        if schema is None and len(actual) == 1 and (before := state.environment.before_system):
            target = _type_to_cast_to(state, before, name)
        found = find_function(name, actual, names, not node.variadic, literal, schema, stored, target)
    else:
        fail("3F000", f'schema "{schema}" does not exist', node.location)
    if found.status in ("function", "coercion"):
        return found
    if len(actual) == 1 and not names and found.status == "missing":
        cast = _cast_to_user_type(state, node, arguments[0])
        if cast:
            return Found("coercion", None, cast)
    word = "procedure" if state.kind == "CALL arguments" else "function"
    _not_found(node, found, signature(".".join(node.names), actual, names), word)


def takes_rows(state: State, name: str) -> bool:
    """Whether there is a function of users with this name that takes rows of a table."""
    routines = state.environment.catalog.routines.get(name, ())
    return any(is_row_type(argument.type.oid) for routine in routines for argument in routine.inputs)


def _type_to_cast_to(state: State, schemas: tuple[int, ...], name: str) -> int:
    defined = state.environment.type_among(schemas, name)
    return 0 if defined is None or isinstance(defined, Domain) else defined.oid


def _cast_to_user_type(state: State, node: ast.FuncCall, argument: tree.Expr) -> int:
    """The OID of the user-defined type, if a call with one argument is a cast to one; otherwise 0."""
    schema = node.names[-2] if len(node.names) > 1 else None
    defined = state.environment.find_type(schema, node.names[-1])
    if defined is None or isinstance(defined, Domain):
        return 0
    literal = argument.type.oid == oids.UNKNOWN and _is_literal(state, argument)
    return defined.oid if literal or common_types.find_pathway(defined.oid, argument.type.oid, "e")[0] == "io" else 0


def _not_found(node: ast.FuncCall, found: Found, shown: str, word: str) -> NoReturn:
    if found.status == "ambiguous":
        fail(
            "42725", f"{word} {shown} is not unique", node.location,
            hint=f"Could not choose a best candidate {word}. You might need to add explicit type casts.",
        )  # fmt: skip
    hint = f"No {word} matches the given name and argument types. You might need to add explicit type casts."
    if len(node.order_by) > 1 and not node.within_group:
        hint = (
            "No aggregate function matches the given name and argument types. Perhaps you misplaced ORDER BY; "
            "ORDER BY must appear after all regular arguments of the aggregate."
        )
    fail("42883", f"{word} {shown} does not exist", node.location, hint=hint)


def _prepare(
    state: State, node: ast.FuncCall, candidate: Candidate, arguments: list[tree.Expr]
) -> tuple[tuple[tree.Expr, ...], TypeRef]:
    """The arguments in declared order with defaults added, casts applied and the variadic tail collected; the type of
    the result."""
    function = candidate.function
    values, declared = _order(state, candidate, arguments)
    domain = 0
    if function.result_type in oids.POLYMORPHIC:
        domain = result_domain([item.type for item in values], declared, function.result_type)
    result = common_types.resolve_polymorphic([item.type.oid for item in values], declared, function.result_type, False)
    if function.language == LANGUAGE and result == oids.RECORD:
        routine = state.environment.catalog.get(function.oid)
        if isinstance(routine, Routine) and routine.relation:
            domain = derived_oids.row_type(routine.relation)
    ready: list[tree.Expr] = []
    for value, oid in zip(values, declared, strict=True):
        if oid == ANY:
            keep = isinstance(value, tree.Param) or function.name == "pg_typeof"
            ready.append(value if keep else coerce.settle_unknown(state, value))
        else:
            ready.append(argument(state, value, oid))
    if candidate.variadic and function.variadic != ANY:
        fixed = len(function.argument_types) - 1
        tail = tuple(ready[fixed:])
        element = tail[0].type.oid
        array = array_type(element)
        if not array:
            fail("42704", f"could not find array type for data type {type_name(element)}", node.location)
        ready[fixed:] = [tree.ArrayExpr(tail, TypeRef(array), TypeRef(element), False, expr_location(tail[0]))]
    elif node.variadic and function.variadic == ANY and not _is_array(ready):
        fail("42804", "VARIADIC argument must be an array", expr_location(ready[-1]))
    return tuple(ready), TypeRef(result, domain=domain)


def _is_array(arguments: Sequence[tree.Expr]) -> bool:
    last = arguments[-1].type.oid
    return last == UNKNOWN or element_type(last) != 0


def _order(state: State, candidate: Candidate, arguments: list[tree.Expr]) -> tuple[list[tree.Expr], list[int]]:
    """Arguments and their declared types in declared order, defaults included."""
    function = candidate.function
    if candidate.order is None and not candidate.defaults:
        return arguments, list(candidate.types)
    total = len(function.argument_types)
    order = candidate.order or tuple(range(len(arguments)))
    placed: list[tree.Expr | None] = [None] * total
    for place, value in zip(order, arguments, strict=True):
        placed[place] = value
    of_user = function.language == LANGUAGE
    defaults = _typed_defaults(state.environment, function) if of_user else default_arguments(function)
    state.environment.make_current()
    first_default = total - len(defaults)
    values = [value if value is not None else defaults[place - first_default] for place, value in enumerate(placed)]
    return values, list(function.argument_types)


@cache
def default_arguments(function: Function) -> tuple[tree.Expr, ...]:
    """The declared defaults of a built-in function's trailing arguments, typed."""
    with inner_environment(Catalog()) as inside:
        return _typed_defaults(inside, function)


def _typed_defaults(environment: Environment, function: Function) -> tuple[tree.Expr, ...]:
    state = State(Shared(environment, ()))
    declared = function.argument_types[len(function.argument_types) - len(function.defaults) :]
    found = []
    for text, oid in zip(function.defaults, declared, strict=True):
        value = coerce.coerce(state, operand(state, parse_expression(text)), TypeRef(oid), "a")
        assert value is not None
        found.append(value)
    return tuple(found)
