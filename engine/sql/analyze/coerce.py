"""Type coercion: converts an expression to another type.

Follows PostgreSQL 16 manual chapter 10 and the behaviour of parse_coerce.c. A context is 'i' (implicit), 'a'
(assignment) or 'e' (explicit), as in pg_cast. A literal without a type is a Const of type unknown until its context
requires a type. Then the type's input function reads it, once, in this module.
"""

from __future__ import annotations

from dataclasses import replace

from catalog import collations
from catalog.functions import registry
from catalog.functions.added import function_of_user
from catalog.row_types import is_row_type
from catalog.types import oids
from catalog.types.base import TypeRef
from catalog.types.composite import CompositeType
from catalog.types.oids import (
    BOOL,
    INT4,
    INTERVAL,
    NAMED_ARRAY_TYPES,
    POLYMORPHIC,
    RECORD,
    TEXT,
    TEXT_ARRAY,
    UNKNOWN,
)
from catalog.types.user import FIRST_USER_OID, entry_of
from engine.sql import tree
from engine.sql.analyze import scope, typeinfo
from engine.sql.analyze.common_types import ALWAYS, can_coerce_one, find_pathway
from engine.sql.analyze.dispatch import ConditionNode, expression, handles
from engine.sql.analyze.domains import add_checks, to_domain
from engine.sql.analyze.errors import expr_location, fail
from engine.sql.analyze.json_rows import write_value
from engine.sql.analyze.literals import read_literal
from engine.sql.analyze.state import State
from engine.sql.analyze.typeinfo import element_type, facts, type_name


def coerce(
    state: State, expr: tree.Expr, target: TypeRef, context: str, *, explicit: bool = False, location: int = -1
) -> tree.Expr | None:
    """coerce_to_target_type: the expression as `target`, length coercion included; None if there is no such cast."""
    if expr.type == target:
        if expr.type.domain == target.domain:
            return expr
        if not target.domain:
            return tree.RelabelType(expr, target, not explicit, location) if explicit else expr
    source = expr.type.oid
    if source != target.oid and not can_coerce_one(source, target.oid, context):
        return None
    result = coerce_type(state, expr, target, context, explicit=explicit, location=location)
    if not target.domain:
        return coerce_typmod(result, target, context == "e")
    # A parameter becomes one of the domain: its value is read as such, and not cast.
    read = source == UNKNOWN and isinstance(expr, tree.Param) and state.shared.takes_domain(expr, target)
    result = coerce_typmod(result, target, context == "e" and not read)
    return to_domain(state.environment, result, target, explicit, location)


def domain_parameter(state: State, param: tree.Param, type_: TypeRef) -> tree.Expr:
    """A parameter of a domain: the conditions that its input function enforces."""
    read = add_checks(state.environment, param, TypeRef(type_.oid)) if type_.oid >= FIRST_USER_OID else param
    return to_domain(state.environment, coerce_typmod(read, type_, False), type_, False, param.location)


def coerce_type(
    state: State, expr: tree.Expr, target: TypeRef, context: str, *, explicit: bool = False, location: int = -1
) -> tree.Expr:
    """The expression with the type, which can_coerce_one has allowed. The modifier is not enforced.

    A client's value of a composite type (a literal, a text, a parameter) is checked against the domains of its
    attributes.
    """
    found = _convert(state, expr, target, context, explicit, location)
    if target.oid < FIRST_USER_OID or not isinstance(found, (tree.Const, tree.Param, tree.CoerceViaIO)):
        return found
    return found if found is expr else add_checks(state.environment, found, TypeRef(target.oid, target.typmod))


def _convert(state: State, expr: tree.Expr, target: TypeRef, context: str, explicit: bool, location: int) -> tree.Expr:
    source = expr.type.oid
    oid = target.oid
    if source == oid or oid in ALWAYS:
        return expr
    if isinstance(expr, tree.CollateExpr):  # COLLATE stays outermost
        inner = _convert(state, expr.argument, target, context, explicit, location)
        return replace(expr, argument=inner, type=inner.type) if collations.of_type(inner.type.oid) else inner
    if oid in POLYMORPHIC and source != UNKNOWN:
        return expr
    if source == UNKNOWN:
        if isinstance(expr, tree.Const):
            typmod = target.typmod if oid == INTERVAL else -1
            at = expr.location if expr.location >= 0 else location
            value = None
            if expr.value is not None:
                value = read_literal(state.environment, str(expr.value), oid, typmod, at)
            return tree.Const(value, TypeRef(oid, typmod), expr.location)
        if isinstance(expr, tree.Param):
            return state.shared.resolve_parameter(expr, target, location)
        if isinstance(expr, tree.CaseTestExpr):
            return expr
        return tree.CoerceViaIO(expr, TypeRef(oid), not explicit, location)
    kind, function = find_pathway(oid, source, context)
    if kind == "relabel":
        return tree.RelabelType(expr, TypeRef(oid), not explicit, location)
    if kind != "none":
        return _build(kind, function, expr, TypeRef(oid, target.typmod), context, explicit, location)
    if oid in oids.RECORDS:
        return expr
    if source == RECORD and facts(oid).kind == "c":
        if is_row_type(expr.type.domain) and expr.type.domain != oid:
            message = f"cannot cast type {type_name(expr.type.domain)} to {type_name(oid)}"
            fail("42846", message, location if location >= 0 else expr_location(expr))
        return _record_to_composite(state, expr, target, context, explicit, location)
    raise AssertionError(f"no cast from {source} to {oid}")


def _record_to_composite(
    state: State, expr: tree.Expr, target: TypeRef, context: str, explicit: bool, location: int
) -> tree.Expr:
    """coerce_record_to_complex: converts each field to the attribute at its position. Raises 42846."""
    entry = entry_of(target.oid)
    assert entry is not None and isinstance(entry.sql_type, CompositeType)
    fields = scope.row_columns(state, expr)
    message = f"cannot cast type {type_name(expr.type.oid)} to {type_name(target.oid)}"
    at = location if location >= 0 else expr_location(expr)
    if fields is None:
        fail("42846", message, at)
    wanted = entry.sql_type.fields
    if len(fields) != len(wanted):
        words = "few" if len(fields) < len(wanted) else "many"
        fail("42846", message, at, detail=f"Input has too {words} columns.")
    elements = []
    for number, ((_, given), (_, type_)) in enumerate(zip(fields, wanted, strict=True), 1):
        value = given
        if isinstance(given, tree.Const) and given.type.oid == TEXT:  # a literal of the row, which has become text
            value = tree.Const(given.value, typeinfo.UNKNOWN_REF, given.location)
        made = coerce(state, value, type_, context, explicit=explicit)
        if made is None:
            names = f"type {type_name(value.type.oid)} to {type_name(type_.oid)} in column {number}"
            fail("42846", message, expr_location(value), detail=f"Cannot cast {names}.")
        elements.append(made)
    return tree.RowExpr(tuple(elements), tuple(name for name, _ in wanted), TypeRef(target.oid), expr_location(expr))


def _build(
    kind: str, oid: int, expr: tree.Expr, target: TypeRef, context: str, explicit: bool, location: int
) -> tree.Expr:
    if kind == "function":
        function = function_of_user(oid) or registry.function(oid)
        arguments: tuple[tree.Expr, ...] = (expr,)
        count = len(function.argument_types)
        if count >= 2:
            arguments = (*arguments, tree.Const(target.typmod, TypeRef(INT4)))
        if count >= 3:
            arguments = (*arguments, tree.Const(context == "e", TypeRef(BOOL)))
        display = "cast_explicit" if explicit else "cast_implicit"
        typmod = target.typmod if count >= 2 else -1
        return tree.FuncExpr(function, arguments, TypeRef(target.oid, typmod), None, display, False, location)
    if kind == "array":
        inner = tree.CaseTestExpr(TypeRef(element_type(expr.type.oid), expr.type.typmod))
        to_element = TypeRef(element_type(target.oid), target.typmod)
        step, function_oid = find_pathway(to_element.oid, inner.type.oid, context)
        element: tree.Expr = inner
        if step == "relabel":
            if to_element.oid != inner.type.oid:
                element = tree.RelabelType(inner, TypeRef(to_element.oid), not explicit)
        else:
            element = _build(step, function_oid, inner, to_element, context, explicit, location)
        element = coerce_typmod(element, to_element, context == "e")
        return tree.ArrayCoerce(expr, element, target, location)
    if target.oid in NAMED_ARRAY_TYPES:
        return _names_read(expr, target, explicit, location)
    shown = write_value(expr) if element_type(expr.type.oid) else expr
    return tree.CoerceViaIO(shown, TypeRef(target.oid), not explicit, location)


def _names_read(text: tree.Expr, target: TypeRef, explicit: bool, location: int) -> tree.Expr:
    """A text as an array of objects: the texts of the elements are read first, then the names in them."""
    texts = tree.CoerceViaIO(text, TypeRef(TEXT_ARRAY), not explicit, location)
    name = tree.CaseTestExpr(TypeRef(TEXT))
    found = tree.CoerceViaIO(name, TypeRef(element_type(target.oid)), not explicit, location)
    return tree.ArrayCoerce(texts, found, target, location)


def coerce_typmod(expr: tree.Expr, target: TypeRef, explicit: bool) -> tree.Expr:
    """coerce_type_typmod: enforces the modifier, or only sets it if no conversion is necessary."""
    if expr.type.typmod == target.typmod:
        return expr
    if target.typmod >= 0:
        element = element_type(target.oid)
        if element and registry.cast(element, element) is not None:
            inner = tree.CaseTestExpr(TypeRef(element, expr.type.typmod))
            step = tree.CoerceTypmod(inner, TypeRef(element, target.typmod), explicit)
            return tree.ArrayCoerce(expr, step, target, expr_location(expr))
        if registry.cast(target.oid, target.oid) is not None:
            return tree.CoerceTypmod(expr, target, explicit, expr_location(expr))
    if isinstance(expr, tree.Const):
        return tree.Const(expr.value, target, expr.location)
    while isinstance(expr, tree.RelabelType):
        expr = expr.argument
    return tree.RelabelType(expr, target, not explicit, expr_location(expr))


def strip_implicit(expr: tree.Expr) -> tree.Expr:
    """The expression without implicit casts."""
    while True:
        if isinstance(expr, (tree.RelabelType, tree.CoerceViaIO)) and expr.implicit:
            expr = expr.argument
        elif isinstance(expr, tree.FuncExpr) and expr.display == "cast_implicit":
            expr = expr.arguments[0]
        else:
            return expr


def to_boolean(state: State, expr: tree.Expr, construct: str, location: int = -1) -> tree.Expr:
    """coerce_to_boolean: 42804 'argument of WHERE must be type boolean, not type integer'."""
    return to_specific(state, expr, BOOL, construct, location)


@handles(ConditionNode)
def _condition(state: State, condition: ConditionNode) -> tree.Expr:
    found = expression(state, condition.expression, condition.kind)
    return to_boolean(state, found, condition.construct)


def to_specific(state: State, expr: tree.Expr, oid: int, construct: str, location: int = -1) -> tree.Expr:
    """to_specific: coerce_to_specific_type: assignment cast to the type, for LIMIT, CASE/WHEN, WHERE and similar
    clauses."""
    result = expr
    if expr.type.oid != oid:
        found = coerce(state, expr, TypeRef(oid), "a", location=-1)
        if found is None:
            fail(
                "42804",
                f"argument of {construct} must be type {type_name(oid)}, not type {type_name(expr.type.oid)}",
                location if location >= 0 else expr_location(expr),
            )
        result = found
    if isinstance(result, tree.FuncExpr) and result.function.returns_set:
        at = location if location >= 0 else expr_location(expr)
        fail("42804", f"argument of {construct} must not return a set", at)
    return result


def settle_unknown(state: State, expr: tree.Expr) -> tree.Expr:
    """Converts a value whose type is still unknown to text."""
    if expr.type.oid == UNKNOWN:
        return coerce_type(state, expr, typeinfo.TEXT_REF, "i")
    return expr


def to_common(state: State, expr: tree.Expr, oid: int, construct: str) -> tree.Expr:
    """coerce_to_common_type: 42846 '... could not convert type x to y'."""
    source = expr.type.oid
    if source == oid:
        return expr
    if can_coerce_one(source, oid, "i"):
        return coerce_type(state, expr, TypeRef(oid), "i")
    names = f"{type_name(source)} to {type_name(oid)}"
    fail("42846", f"{construct} could not convert type {names}", expr_location(expr))
