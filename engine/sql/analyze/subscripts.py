"""x[i], x[a:b], (x).field: indirection (transformIndirection, transformContainerSubscripts)."""

from __future__ import annotations

from catalog.functions import registry
from catalog.functions.geometry import ITEMS
from catalog.types import oids
from catalog.types.base import TypeRef
from catalog.types.oids import INT4, JSONB, TEXT, TEXT_ARRAY, UNKNOWN
from engine.sql import ast, tree
from engine.sql.analyze import coerce, common_types, scope
from engine.sql.analyze.declared import element_within, slice_of
from engine.sql.analyze.dispatch import handles, operand
from engine.sql.analyze.errors import expr_location, fail, refuse
from engine.sql.analyze.resolve import make_operator
from engine.sql.analyze.state import State
from engine.sql.analyze.typeinfo import INT4_REF, TEXT_REF, element_type, facts, type_name


@handles(ast.Indirection)
def indirection(state: State, node: ast.Indirection) -> tree.Expr:
    """An expression followed by subscripts and field names."""
    value = operand(state, node.argument)
    pending: list[ast.Subscript] = []
    for step in node.steps:
        if isinstance(step, ast.Subscript):
            pending.append(step)
            continue
        if pending:
            value = subscript(state, value, pending, node.location)
            pending = []
        if step == "*":
            refuse("row expansion via * here", node)
        value = select_field(state, value, step, node.location)
    return subscript(state, value, pending, node.location) if pending else value


def select_field(state: State, value: tree.Expr, name: str, location: int) -> tree.Expr:
    """(value).name of a row with known columns. 42703, 42809 if it is not a row."""
    columns = scope.row_columns(state, value)
    if columns is not None:
        for column, expr in columns:
            if column == name:
                return expr
        fail("42703", f'column "{name}" not found in data type {type_name(value.type.oid)}', location)
    if value.type.oid == oids.RECORD:
        fail("42703", f'could not identify column "{name}" in record data type', location)
    shown = type_name(value.type.oid)
    fail("42809", f"column notation .{name} applied to type {shown}, which is not a composite type", location)


def subscript(state: State, value: tree.Expr, steps: list[ast.Subscript], location: int) -> tree.Expr:
    """Subscripts of an array, of jsonb, or of one of the fixed-length types that take them."""
    oid = value.type.oid
    if oid == JSONB:
        return _jsonb(state, value, steps, location)
    if oid == oids.HSTORE:
        return _hstore(state, value, steps, location)
    if oid in ITEMS:
        function = registry.function(ITEMS[oid])
        if len(steps) > 1 and not any(step.is_slice for step in steps):
            return tree.Const(None, TypeRef(function.result_type), location)
        arguments = (value, part_number(state, steps, "slices of fixed-length arrays not implemented"))
        return tree.FuncExpr(function, arguments, TypeRef(function.result_type), None, "call", False, location)
    element = element_type(oid) or facts(oid).subscript
    if not element or facts(oid).category == "G":
        fail("42804", f"cannot subscript type {type_name(oid)} because it does not support subscripting", location)
    is_slice = any(step.is_slice for step in steps)
    if len(steps) > 6:
        fail("54000", f"number of array dimensions ({len(steps)}) exceeds the maximum allowed (6)")
    lower: list[tree.Expr | None] = []
    upper: list[tree.Expr | None] = []
    for step in steps:
        if is_slice:
            if step.lower is None and not step.is_slice:
                lower.append(tree.Const(1, INT4_REF))
            else:
                lower.append(_index(state, step.lower))
        upper.append(_index(state, step.upper))
    own = value.type
    result = slice_of(own) if is_slice else TypeRef(element, own.typmod, element_within(own.domain))
    return tree.SubscriptingRef(value, tuple(upper), tuple(lower), is_slice, result, None, location)


def part_number(state: State, steps: list[ast.Subscript], complaint: str) -> tree.Expr:
    """The one subscript of a type of fixed length. Raises 0A000 with this message for a slice."""
    if any(step.is_slice for step in steps):
        fail("0A000", complaint)
    if len(steps) > 1:
        fail("2202E", "wrong number of array subscripts")
    number = _index(state, steps[0].upper)
    assert number is not None
    return number


def _index(state: State, node: ast.Node | None) -> tree.Expr | None:
    if node is None:
        return None
    value = operand(state, node)
    result = coerce.coerce(state, value, INT4_REF, "a")
    if result is None:
        fail("42804", "array subscript must have type integer", expr_location(value))
    return result


def _jsonb(state: State, value: tree.Expr, steps: list[ast.Subscript], location: int) -> tree.Expr:
    """jsonb subscripts read as the path operator #> does."""
    return make_operator(state, ("#>",), value, jsonb_path(state, steps, location)[0], location)


def _hstore(state: State, value: tree.Expr, steps: list[ast.Subscript], location: int) -> tree.Expr:
    """h['key'] is the value of a key."""
    function = registry.function(registry.extension_functions()["fetchval"][0])
    return tree.FuncExpr(function, (value, hstore_key(state, steps, location)), TEXT_REF, None, "call", False, location)


def hstore_key(state: State, steps: list[ast.Subscript], location: int) -> tree.Expr:
    """The one subscript of an hstore. Raises 0A000, 42804."""
    if len(steps) != 1 or steps[0].is_slice or steps[0].upper is None:
        fail("0A000", "hstore allows only one subscript", location)
    key = coerce.coerce(state, operand(state, steps[0].upper), TEXT_REF, "a")
    if key is None:
        fail("42804", "hstore subscript must have type text", location)
    return key


def jsonb_path(state: State, steps: list[ast.Subscript], location: int) -> tuple[tree.Expr, bool]:
    """The steps as an array of text, and whether the first of them is a number."""
    path: list[tree.Expr] = []
    numbers: list[bool] = []
    for step in steps:
        if step.is_slice or step.upper is None:
            bound = step.upper or step.lower
            at = -1 if bound is None else expr_location(operand(state, bound))
            fail("42804", "jsonb subscript does not support slices", at)
        key = operand(state, step.upper)
        numbers.append(key.type.oid != UNKNOWN and common_types.can_coerce_one(key.type.oid, INT4, "i"))
        if key.type.oid == UNKNOWN:
            key = coerce.coerce_type(state, key, TEXT_REF, "i")
        elif common_types.can_coerce_one(key.type.oid, INT4, "i"):
            key = coerce.coerce_type(state, key, INT4_REF, "i")
            key = tree.CoerceViaIO(key, TEXT_REF, True, location)
        elif common_types.can_coerce_one(key.type.oid, TEXT, "i"):
            key = coerce.coerce_type(state, key, TEXT_REF, "i")
        else:
            fail(
                "42804", f"subscript type {type_name(key.type.oid)} is not supported", expr_location(key),
                hint="jsonb subscript must be coercible to either integer or text.",
            )  # fmt: skip
        path.append(key)
    return tree.ArrayExpr(tuple(path), TypeRef(TEXT_ARRAY), TEXT_REF, False, location), numbers[0]
