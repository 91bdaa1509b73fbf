"""The nodes of expressions other than calls and comparisons: literals, columns, casts, arrays, rows (parse_expr.c)."""

from __future__ import annotations

from dataclasses import replace

from catalog.collations import rules
from catalog.long_numbers import int_of
from catalog.types import oids
from catalog.types.base import TypeRef
from catalog.types.oids import BOOL, UNKNOWN
from catalog.types.user import FIRST_USER_OID, base_domain
from engine.sql import ast, tree
from engine.sql.analyze import coerce, common_types, scope, typeinfo
from engine.sql.analyze.aggregates import check_grouping_call, check_grouping_level
from engine.sql.analyze.calls import no_sets_since, takes_rows
from engine.sql.analyze.comparisons import (
    between,
    distinct,
    in_list,
    operator_any_all,
    row_comparison,
    row_elements,
    row_sublink,
)
from engine.sql.analyze.declared import array_over, element_within
from engine.sql.analyze.dispatch import handles, operand
from engine.sql.analyze.domains import add_checks
from engine.sql.analyze.errors import expr_location, fail, refuse
from engine.sql.analyze.hstore_rows import row_with_pairs
from engine.sql.analyze.literals import read_literal
from engine.sql.analyze.record_variables import as_row, record_fields
from engine.sql.analyze.resolve import make_operator
from engine.sql.analyze.sortable import must_have_comparison
from engine.sql.analyze.state import ParameterNames, State
from engine.sql.analyze.typeinfo import BOOL_REF, INT4_REF, INT8_REF, TEXT_REF, UNKNOWN_REF, element_type, type_name
from engine.sql.analyze.typenames import resolve_type

_NUMERIC_REF = TypeRef(oids.NUMERIC)
_LIKE = {
    "like": "~~", "not_like": "!~~", "ilike": "~~*", "not_ilike": "!~~*", "similar": "~", "not_similar": "!~",
}  # fmt: skip


# ---- constants, parameters, columns ---------------------------------------------------------------------------------


@handles(ast.Literal)
def _literal(state: State, node: ast.Literal) -> tree.Expr:
    kind, value = node.kind, node.value
    if kind == "string":
        return tree.Const(value, UNKNOWN_REF, node.location)
    if kind == "integer":
        number = int(str(value))
        if -(2**31) <= number < 2**31:
            return tree.Const(number, INT4_REF, node.location)
        if -(2**63) <= number < 2**63:
            return tree.Const(number, INT8_REF, node.location)
        kind = "float"
    if kind == "null":
        return tree.Const(None, UNKNOWN_REF, node.location)
    if kind == "boolean":
        return tree.Const(bool(value), BOOL_REF, node.location)
    if kind == "float":
        text = str(value)
        if text.lstrip("-").isdigit() and -(2**63) <= int_of(text) < 2**63:
            small = -(2**31) <= int(text) < 2**31
            return tree.Const(int(text), INT4_REF if small else INT8_REF, node.location)
        number_value = read_literal(state.environment, text, oids.NUMERIC, -1, node.location)
        return tree.Const(number_value, _NUMERIC_REF, node.location)
    prefix = "b" if kind == "bit" else "x"
    bits = read_literal(state.environment, f"{prefix}{value}", oids.BIT, -1, node.location)
    return tree.Const(bits, TypeRef(oids.BIT), node.location)


@handles(ast.ParamRef)
def _param(state: State, node: ast.ParamRef) -> tree.Expr:
    param = state.shared.parameter(node.number, node.location)
    found = tree.Param(param.number, param.type, node.location)
    if node.number in state.shared.domains:
        return coerce.domain_parameter(state, found, state.shared.domains[node.number])
    return found if param.type.oid < FIRST_USER_OID else add_checks(state.environment, found, param.type)


@handles(ast.ColumnRef)
def _column(state: State, node: ast.ColumnRef) -> tree.Expr:
    names, location = node.names, node.location
    if names[-1] == "*":
        return _whole_row(state, node)
    if names == ("value",) and state.shared.domain_value is not None:
        return state.shared.domain_value
    if state.kind == "DEFAULT expressions":
        fail("0A000", "cannot use column reference in DEFAULT expression", location)
    known = state.shared.routine
    if known is not None and known.conflict != "use_column":
        argument = _variable(state, node, known)
        if argument is not None:
            return argument
    if len(names) == 1:
        name = names[0]
        found = scope.find_column(state, name, location)
        if found is not None:
            return found
        item = scope.find_item(state, None, name, location)
        if item is not None:
            return scope.whole_row(item[0], item[1], location)
    argument = named_argument(state, node)
    if argument is not None:
        return argument
    if len(names) == 1:
        scope.missing_column(state, names[0], location)
    return _qualify(state, node)


def _variable(state: State, node: ast.ColumnRef, known: ParameterNames) -> tree.Expr | None:
    """A name that means a variable before it means a column; None for another. 42702 where it is both, and the
    function does not say which is meant."""
    argument = named_argument(state, node)
    if argument is None or known.conflict == "use_variable":
        return argument
    names, location = node.names, node.location
    if len(names) == 1:
        column = scope.find_column(state, names[0], location)
    else:
        item = scope.find_item(state, None, names[-2], location)
        column = None if item is None else scope.column_of(state, item[0], item[1], names[-1], location)
    if column is None:
        return argument
    shown = ".".join(names)
    detail = "It could refer to either a PL/pgSQL variable or a table column."
    fail("42702", f'column reference "{shown}" is ambiguous', location, detail=detail)


def named_argument(state: State, node: ast.ColumnRef) -> tree.Expr | None:
    """An argument of the function with this body, or a field of one; None for anything else."""
    routine, names = state.shared.routine, node.names
    if routine is None:
        return None
    hides = routine.conflict == "use_column" and len(names) > 1
    if hides and scope.find_item(state, None, names[0], node.location) is not None:
        return None
    if (record := record_fields(state, names, node.location)) is not None:
        return as_row(*record, node.location)
    number = routine.number_of(names, state.shared)
    if number:
        return _param(state, ast.ParamRef(number, location=node.location))
    number = routine.number_of(names[:-1], state.shared) if len(names) > 1 else 0
    if not number:
        return None
    value = _param(state, ast.ParamRef(number, location=node.location))
    is_row = typeinfo.category(value.type.oid) == "C"
    if is_row and names[-1] not in [name for name, _ in scope.row_columns(state, value) or ()]:
        if routine.conflict == "use_column":
            return None  # as an unknown name
        fail("42703", f'record "{names[-2]}" has no field "{names[-1]}"', node.location)
    return _field(state, value, names[-1], node.location)


def _whole_row(state: State, node: ast.ColumnRef) -> tree.Expr:
    """t.* as one value."""
    if len(node.names) == 1:
        refuse("a row expansion here", node.location)
    schema = node.names[-3] if len(node.names) > 2 else None
    found = scope.find_item(state, schema, node.names[-2], node.location)
    if found is None:
        if (record := record_fields(state, node.names[:-1], node.location)) is not None:
            return as_row(*record, node.location)
        scope.missing_table(state, node.names[-2], node.location)
        raise AssertionError
    return scope.whole_row(found[0], found[1], node.location)


def _qualify(state: State, node: ast.ColumnRef) -> tree.Expr:
    names, location = node.names, node.location
    if len(names) == 4:
        if names[0] != state.environment.database_name:
            fail("0A000", f"cross-database references are not implemented: {'.'.join(names)}", location)
        names = names[1:]
    if len(names) > 3:
        fail("42601", f"improper qualified name (too many dotted names): {'.'.join(names)}", location)
    schema = names[0] if len(names) == 3 else None
    qualifier, name = names[-2], names[-1]
    found = scope.find_item(state, schema, qualifier, location)
    if found is None:
        if schema is not None:
            column = scope.find_item(state, None, schema, location)
            if column is not None:
                outer = scope.column_of(state, column[0], column[1], qualifier, location)
                if outer is not None and outer.type.oid == oids.RECORD:
                    return _field(state, outer, name, location)
        else:
            value = scope.find_column(state, qualifier, location)
            if value is not None and value.type.oid == oids.RECORD:
                return _field(state, value, name, location)
        scope.missing_table(state, qualifier, location)
        raise AssertionError
    expr = scope.column_of(state, found[0], found[1], name, location)
    if expr is not None:
        return expr
    if takes_rows(state, name):  # f(t) may be written t.f
        row = ast.ColumnRef((qualifier,), location=location)
        return operand(state, ast.FuncCall((name,), (row,), location=location))
    scope.missing_qualified(state, qualifier, name, location)
    raise AssertionError


def _field(state: State, value: tree.Expr, name: str, location: int) -> tree.Expr:
    columns = scope.row_columns(state, value)
    for column, expr in columns or ():
        if column == name:
            return expr
    if columns is not None and typeinfo.category(value.type.oid) == "C":
        fail("42703", f'column "{name}" not found in data type {type_name(value.type.oid)}', location)
    fail(
        "42809",
        f"column notation .{name} applied to type {type_name(value.type.oid)}, which is not a composite type",
        location,
    )


# ---- casts ----------------------------------------------------------------------------------------------------------


@handles(ast.TypeCast)
def _cast(state: State, node: ast.TypeCast) -> tree.Expr:
    target = resolve_type(node.type, state.environment)
    argument = node.argument
    if isinstance(argument, ast.ArrayExpr) and element_type(target.oid):
        value = _array(state, argument, TypeRef(element_type(target.oid), target.typmod))
    else:
        value = operand(state, argument)
    location = node.location if node.location >= 0 else node.type.location
    result = coerce.coerce(state, value, target, "e", explicit=True, location=location)
    if result is None:
        names = f"{type_name(value.type.oid)} to {type_name(target.oid)}"
        fail("42846", f"cannot cast type {names}", location)
    if result is value and isinstance(value, tree.Const):
        return value
    return result


@handles(ast.CollateClause)
def _collate(state: State, node: ast.CollateClause) -> tree.Expr:
    value = operand(state, node.argument)
    if value.type.oid == UNKNOWN:
        value = coerce.coerce_type(state, value, TEXT_REF, "i")
    base = element_type(value.type.oid) or value.type.oid
    if base not in _COLLATABLE:
        fail("42804", f"collations are not supported by type {type_name(value.type.oid)}", node.location)
    found = state.environment.find_collation(node.collation, node.location)
    if base == oids.CITEXT and rules(state.environment.catalog, found.oid) is not None:
        refuse("citext under an ICU collation", node.location)
    state.shared.collated = True
    return tree.CollateExpr(value, found.oid, value.type, node.location)


_COLLATABLE = oids.COLLATABLE | {oids.CITEXT}


# ---- operators ------------------------------------------------------------------------------------------------------


@handles(ast.Expression)
def _operation(state: State, node: ast.Expression) -> tree.Expr:
    kind = node.kind
    if kind == "op":
        return _plain(state, node)
    if kind in _LIKE:
        assert node.left is not None and node.right is not None
        left, right = operand(state, node.left), operand(state, node.right)
        return make_operator(state, (_LIKE[kind],), left, right, node.location)
    if kind in ("op_any", "op_all"):
        return operator_any_all(state, node)
    if kind in ("in", "not_in"):
        return in_list(state, node)
    if kind in ("distinct", "not_distinct"):
        return distinct(state, node)
    if kind == "nullif":
        return _nullif(state, node)
    return between(state, node)


def _plain(state: State, node: ast.Expression) -> tree.Expr:
    left, right = node.left, node.right
    assert right is not None
    if isinstance(left, ast.RowExpr):
        if isinstance(right, ast.SubLink) and right.kind == "expr":
            return row_sublink(state, node, left, right)
        if isinstance(right, ast.RowExpr):
            values = row_elements(state, left), row_elements(state, right)
            return row_comparison(state, node.operator, *values, node.location)
    left_value = operand(state, left) if left is not None else None
    return row_with_pairs(state, make_operator(state, node.operator, left_value, operand(state, right), node.location))


def _nullif(state: State, node: ast.Expression) -> tree.Expr:
    assert node.left is not None and node.right is not None
    left, right = operand(state, node.left), operand(state, node.right)
    call = make_operator(state, node.operator or ("=",), left, right, node.location)
    if call.type.oid != BOOL:
        fail("42804", "NULLIF requires = operator to yield boolean", node)
    assert call.operator is not None
    left, right = call.arguments
    null = isinstance(left, tree.Const) and left.value is None
    given = right if null and element_type(left.type.oid) and right.type.oid == left.type.oid else left
    # Of a domain the base type: it has been cast for the operator.
    type_ = TypeRef(left.type.oid, left.type.typmod, base_domain(given.type.domain))
    return tree.NullIfExpr(call.operator, call.function, left, right, type_, node.location)


@handles(ast.BoolExpr)
def _boolean(state: State, node: ast.BoolExpr) -> tree.Expr:
    construct = node.operator.upper()
    arguments = tuple(coerce.to_boolean(state, operand(state, item), construct) for item in node.arguments)
    return tree.BoolExpr(node.operator, arguments, BOOL_REF, node.location)


@handles(ast.NullTest)
def _null_test(state: State, node: ast.NullTest) -> tree.Expr:
    return tree.NullTest(operand(state, node.argument), node.is_null, BOOL_REF, node.location)


@handles(ast.BooleanTest)
def _boolean_test(state: State, node: ast.BooleanTest) -> tree.Expr:
    construct = node.test.upper().replace("_", " ")
    value = coerce.to_boolean(state, operand(state, node.argument), construct)
    return tree.BooleanTest(value, node.test, BOOL_REF, node.location)


# ---- the special forms ----------------------------------------------------------------------------------------------


@handles(ast.CoalesceExpr)
def _coalesce(state: State, node: ast.CoalesceExpr) -> tree.Expr:
    set_calls = state.set_calls
    arguments, type_ = _unify(state, node.arguments, "COALESCE")
    no_sets_since(state, set_calls, "COALESCE")
    return tree.CoalesceExpr(arguments, type_, node.location)


@handles(ast.MinMaxExpr)
def _min_max(state: State, node: ast.MinMaxExpr) -> tree.Expr:
    arguments, type_ = _unify(state, node.arguments, node.operator.upper())
    must_have_comparison(state, type_)
    return tree.MinMaxExpr(node.operator, arguments, type_, node.location)


def _unify(state: State, nodes: tuple[ast.Node, ...], construct: str) -> tuple[tuple[tree.Expr, ...], TypeRef]:
    values = [operand(state, item) for item in nodes]
    oid = common_types.select_common_type(values, construct)[0]
    arguments = tuple(coerce.to_common(state, value, oid, construct) for value in values)
    return arguments, common_types.common_type(arguments, oid)


def _array(state: State, node: ast.ArrayExpr, element: TypeRef | None = None) -> tree.Expr:
    """ARRAY[...]. `element` is the element type of a cast around it."""
    nested = False
    values = []
    for item in node.elements:
        if isinstance(item, ast.ArrayExpr):
            values.append(_array(state, item, element))
            nested = True
        else:
            value = operand(state, item)
            nested = nested or (bool(element_type(value.type.oid)) and value.type.oid not in oids.VECTORS)
            values.append(value)
    if element is not None:
        array = typeinfo.array_type(element.oid)
        wanted = TypeRef(array, element.typmod) if nested else element
        cast_values = tuple(_array_element(state, value, wanted, node) for value in values)
        return tree.ArrayExpr(cast_values, TypeRef(array, element.typmod), element, nested, node.location)
    if not values:
        fail(
            "42P18", "cannot determine type of empty array", node,
            hint="Explicitly cast to the desired type, for example ARRAY[]::integer[].",
        )  # fmt: skip
    oid = common_types.select_common_type(values, "ARRAY")[0]
    if nested and element_type(oid):
        array_oid, element_oid, nested = oid, element_type(oid), True
    else:
        array_oid, element_oid, nested = typeinfo.array_type(oid), oid, False
        if not array_oid:
            fail("42704", f"could not find array type for data type {type_name(oid)}", node)
    elements = tuple(coerce.to_common(state, value, oid, "ARRAY") for value in values)
    domain = common_types.common_type(elements, oid).domain
    of, over = (element_within(domain), base_domain(domain)) if nested else (domain, array_over(domain))
    type_, one = TypeRef(array_oid, domain=over), TypeRef(element_oid, domain=of)
    return tree.ArrayExpr(elements, type_, one, nested, node.location)


@handles(ast.ArrayExpr)
def _array_literal(state: State, node: ast.ArrayExpr) -> tree.Expr:
    return _array(state, node)


def _array_element(state: State, value: tree.Expr, wanted: TypeRef, node: ast.ArrayExpr) -> tree.Expr:
    result = coerce.coerce(state, value, wanted, "e", explicit=True)
    if result is None:
        names = f"{type_name(value.type.oid)} to {type_name(wanted.oid)}"
        fail("42846", f"cannot cast type {names}", expr_location(value))
    return result


@handles(ast.RowExpr)
def _row(state: State, node: ast.RowExpr) -> tree.Expr:
    settled = tuple(_row_field(state, item) for item in row_elements(state, node))
    names = tuple(f"f{position}" for position in range(1, len(settled) + 1))
    return tree.RowExpr(settled, names, typeinfo.RECORD_REF, node.location)


def _row_field(state: State, item: tree.Expr) -> tree.Expr:
    """A field of a row. A literal without a type is text, but described as unknown (record_send)."""
    value = coerce.settle_unknown(state, item)
    lifted = isinstance(value, tree.Param) and value.number in state.shared.literals
    if value is not item and (lifted or isinstance(value, tree.Const)):
        return replace(value, type=replace(value.type, domain=UNKNOWN))
    return value


@handles(ast.GroupingFunc)
def _grouping(state: State, node: ast.GroupingFunc) -> tree.Expr:
    check_grouping_call(state, node)
    arguments = tuple(operand(state, item) for item in node.arguments)
    check_grouping_level(arguments, node)
    return tree.GroupingFunc(arguments, INT4_REF, node.location)


@handles(ast.SetToDefault)
def _default(state: State, node: ast.SetToDefault) -> tree.Expr:
    fail("42601", "DEFAULT is not allowed in this context", node)


@handles(ast.ListExpr)
def _operator_check(state: State, node: ast.ListExpr) -> tree.Expr:
    fail("42601", "a list is not allowed in this context", node)
