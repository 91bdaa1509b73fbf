"""Comparisons of more than two values: IN, ANY/ALL, BETWEEN, DISTINCT FROM, rows, CASE, and subqueries as values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from catalog.functions.base import Function, Operator
from catalog.types import oids
from catalog.types.base import Integers, TypeRef
from catalog.types.oids import BOOL, INTEGERS, RECORD, UNKNOWN
from engine.sql import ast, tree
from engine.sql.analyze import coerce, common_types, typeinfo
from engine.sql.analyze.calls import no_sets_since
from engine.sql.analyze.declared import array_over, element_within
from engine.sql.analyze.dispatch import handles, operand, select_query
from engine.sql.analyze.errors import expr_location, fail, refuse
from engine.sql.analyze.resolve import argument, function_of, make_operator, operator_for, operator_types
from engine.sql.analyze.set_operations import recast
from engine.sql.analyze.state import State
from engine.sql.analyze.targets import expand_star
from engine.sql.analyze.typeinfo import BOOL_REF, TEXT_REF, UNKNOWN_REF, array_type, element_type
from engine.sql.tree_walk import walk_with_depth

_ITEM = re.compile(r"-?[0-9]+")


def _is_null(node: ast.Node | None) -> bool:
    return isinstance(node, ast.Literal) and node.kind == "null"


# ---- IN, ANY, ALL ---------------------------------------------------------------------------------------------------


def operator_any_all(state: State, node: ast.Expression) -> tree.Expr:
    """left op ANY (array), left op ALL (array)."""
    assert node.left is not None and node.right is not None
    left, right = operand(state, node.left), operand(state, node.right)
    return scalar_array_op(state, node.operator, node.kind == "op_any", left, right, node.location)


def scalar_array_op(
    state: State, names: tuple[str, ...], use_or: bool, left: tree.Expr, right: tree.Expr, location: int
) -> tree.Expr:
    """make_scalar_array_op: 42809 unless the right side is an array and the operator yields boolean."""
    right_type = right.type.oid
    element = UNKNOWN
    if right_type != UNKNOWN:
        element = element_type(right_type)
        if not element:
            fail("42809", "op ANY/ALL (array) requires array on right side", location)
    types = (left.type, TypeRef(element, -1, element_within(right.type.domain)))
    operator = operator_for(state.environment, names, left.type.oid, element, location, types)
    declared, result = operator_types(operator, left.type.oid, element)
    if result != BOOL:
        fail("42809", "op ANY/ALL (array) requires operator to yield boolean", location)
    function = function_of(operator)
    if function.returns_set:
        fail("42809", "op ANY/ALL (array) requires operator not to return a set", location)
    wanted = array_type(declared[1])
    if not wanted:
        fail("42704", f"could not find array type for data type {typeinfo.type_name(declared[1])}", location)
    return tree.ScalarArrayOp(
        operator,
        function,
        use_or,
        argument(state, left, declared[0]),
        argument(state, right, wanted),
        BOOL_REF,
        location,
    )


def in_list(state: State, node: ast.Expression) -> tree.Expr:
    """x IN (a, b, ...): an array comparison over the items without variables, and an equality for each of the
    others."""
    assert node.left is not None and isinstance(node.right, ast.ListExpr | ast.IntegerList)
    use_or = node.kind == "in"
    names = node.operator or (("=",) if use_or else ("<>",))
    left = _with_row(state, node.left)
    if isinstance(node.right, ast.IntegerList):
        if left.type.oid in INTEGERS:
            return scalar_array_op(state, names, use_or, left, _integers(node.right, left.type.oid), node.location)
        items = [operand(state, item) for item in _literals(node.right)]
    else:
        items = [_with_row(state, item) for item in node.right.items]
    result: list[tree.Expr] = []
    constant = [item for item in items if not _has_variables(item)]
    rest = items
    if len(constant) > 1:
        oid = common_types.select_common_type([left, *constant], None)[0]
        array = array_type(oid) if oid and oid != RECORD else 0
        if array and all(common_types.can_coerce_one(item.type.oid, oid, "i") for item in [left, *constant]):
            elements = tuple(coerce.to_common(state, item, oid, "IN") for item in constant)
            values = tree.ArrayExpr(elements, TypeRef(array), TypeRef(oid))
            result.append(scalar_array_op(state, names, use_or, left, values, node.location))
            rest = [item for item in items if _has_variables(item)]
    for item in rest:
        if isinstance(left, tree.RowExpr) and isinstance(item, tree.RowExpr):
            comparison = row_comparison(state, names, left.elements, item.elements, node.location)
        else:
            comparison = make_operator(state, names, left, item, node.location)
        result.append(coerce.to_boolean(state, comparison, "IN"))
    if len(result) == 1:
        return result[0]
    return tree.BoolExpr("or" if use_or else "and", tuple(result), BOOL_REF, node.location)


def _integers(node: ast.IntegerList, left: int) -> tree.Const:
    """All items as one constant, with the common type of the items and the left side."""
    numbers = node.numbers
    large = left == oids.INT8 or not -(2**31) <= numbers.min() <= numbers.max() < 2**31
    array = array_type(oids.INT8 if large else oids.INT4)
    return tree.Const(Integers(numbers).as_array(), TypeRef(array), node.location)


def _literals(node: ast.IntegerList) -> Iterator[ast.Literal]:
    """The items one by one, in the form that the parser produces."""
    for item in _ITEM.finditer(node.text):
        yield ast.Literal("integer", item[0], location=node.location + item.start())


def row_elements(state: State, row: ast.RowExpr) -> tuple[tree.Expr, ...]:
    """The elements of ROW(...), with t.* expanded to all columns of t. Unknown literals are left to the caller."""
    found: list[tree.Expr] = []
    for item in row.elements:
        if isinstance(item, ast.ColumnRef) and item.names[-1] == "*":
            found.extend(expr for _, expr in expand_star(state, item))
        else:
            found.append(operand(state, item))
    return tuple(found)


def _with_row(state: State, node: ast.Node) -> tree.Expr:
    """The value of a node. A row gives its elements, with unknown literals left to the comparison."""
    if not isinstance(node, ast.RowExpr):
        return operand(state, node)
    elements = row_elements(state, node)
    names = tuple(f"f{position}" for position in range(1, len(elements) + 1))
    return tree.RowExpr(elements, names, typeinfo.RECORD_REF, node.location)


def _has_variables(expr: tree.Expr) -> bool:
    """Whether the expression refers to a column of this query level (contain_vars_of_level)."""
    if isinstance(expr, (tree.Const, tree.Param)):
        return False
    return any(isinstance(item, tree.Var) and item.levels_up == depth for item, depth in walk_with_depth(expr))


# ---- BETWEEN, DISTINCT ----------------------------------------------------------------------------------------------


def between(state: State, node: ast.Expression) -> tree.Expr:
    """x BETWEEN a AND b and similar forms, as their comparisons."""
    assert node.left is not None and isinstance(node.right, ast.ListExpr)
    low, high = node.right.items
    negated = node.kind.startswith("not_")
    first_operator, second_operator = ("<", ">") if negated else (">=", "<=")

    def pair(first: ast.Node, second: ast.Node) -> ast.BoolExpr:
        tests = (
            ast.Expression("op", (first_operator,), node.left, first, location=node.location),
            ast.Expression("op", (second_operator,), node.left, second, location=node.location),
        )
        return ast.BoolExpr("or" if negated else "and", tests, location=node.location)

    if node.kind.endswith("_sym"):
        both = (pair(low, high), pair(high, low))
        return operand(state, ast.BoolExpr("and" if negated else "or", both, location=node.location))
    return operand(state, pair(low, high))


def distinct(state: State, node: ast.Expression) -> tree.Expr:
    """x IS [NOT] DISTINCT FROM y; of a NULL literal it is a null test, of rows column by column."""
    assert node.left is not None and node.right is not None
    negated = node.kind == "not_distinct"
    if _is_null(node.right) or _is_null(node.left):
        tested = node.left if _is_null(node.right) else node.right
        return tree.NullTest(operand(state, tested), negated, BOOL_REF, node.location)
    names = node.operator or ("=",)
    left, right = _with_row(state, node.left), _with_row(state, node.right)
    if isinstance(left, tree.RowExpr) and isinstance(right, tree.RowExpr) and isinstance(node.left, ast.RowExpr):
        if len(left.elements) != len(right.elements):
            fail("42601", "unequal number of entries in row expressions", node)
        tests = tuple(
            _distinct_pair(state, names, one, other, False, node.location)
            for one, other in zip(left.elements, right.elements, strict=True)
        )
        differ: tree.Expr = tree.BoolExpr("or", tests, BOOL_REF, node.location) if len(tests) > 1 else tests[0]
        return tree.BoolExpr("not", (differ,), BOOL_REF, node.location) if negated else differ
    return _distinct_pair(state, names, left, right, negated, node.location)


def _distinct_pair(
    state: State, names: tuple[str, ...], left: tree.Expr, right: tree.Expr, negated: bool, location: int
) -> tree.Expr:
    call = make_operator(state, names, left, right, location)
    if call.type.oid != BOOL:
        fail("42804", "IS DISTINCT FROM requires = operator to yield boolean", location)
    assert call.operator is not None
    one, other = call.arguments
    return tree.DistinctExpr(call.operator, call.function, one, other, negated, BOOL_REF, location)


# ---- rows -----------------------------------------------------------------------------------------------------------


def row_comparison(
    state: State, names: tuple[str, ...], left: Sequence[tree.Expr], right: Sequence[tree.Expr], location: int
) -> tree.Expr:
    """make_row_comparison_op: = and <> become AND and OR, the others a RowCompare."""
    if len(left) != len(right):
        fail("42601", "unequal number of entries in row expressions", location)
    if not left:
        fail("0A000", "cannot compare rows of zero length", location)
    calls = [make_operator(state, names, one, other, location) for one, other in zip(left, right, strict=True)]
    for call in calls:
        if call.type.oid != BOOL:
            fail(
                "42804",
                f"row comparison operator must yield type boolean, not type {typeinfo.type_name(call.type.oid)}",
                location,
            )
    if len(calls) == 1:
        return calls[0]
    kind = names[-1]
    in_order = all(typeinfo.is_ordered(_operator_of(call).left) for call in calls)
    if kind in ("=", "<>") and in_order:
        return tree.BoolExpr("and" if kind == "=" else "or", tuple(calls), BOOL_REF, location)
    if kind not in ("<", "<=", ">", ">=") or not in_order:
        fail(
            "0A000", f"could not determine interpretation of row comparison operator {kind}", location,
            hint="Row comparison operators must be associated with btree operator families.",
        )  # fmt: skip
    return tree.RowCompare(
        kind,
        tuple(_operator_of(call) for call in calls),
        tuple(call.function for call in calls),
        tuple(call.arguments[0] for call in calls),
        tuple(call.arguments[1] for call in calls),
        BOOL_REF,
        location,
    )


def _operator_of(call: tree.FuncExpr) -> Operator:
    assert call.operator is not None
    return call.operator


# ---- subqueries as values -------------------------------------------------------------------------------------------


def row_sublink(state: State, node: ast.Expression, left: ast.RowExpr, right: ast.SubLink) -> tree.Expr:
    """(a, b) op (SELECT c, d ...): a comparison with the one row of a subquery. It would be op ANY over at most one
    row, which PostgreSQL checks at run time. It is refused, because that check is missing here."""
    refuse("a row comparison with a subquery", node)


@handles(ast.SubLink)
def sublink(state: State, node: ast.SubLink) -> tree.Expr:
    """transformSubLink: EXISTS, ANY/ALL, a scalar subquery, or ARRAY(...)."""
    refused = _SUBQUERY_REFUSED.get(state.kind)
    if refused is not None:
        fail("0A000", f"cannot use subquery in {refused}", node.location)
    inner = State(state.shared, state)
    query = select_query(inner, node.query, settle=True)
    state.volatile = state.volatile or query.volatile
    columns = query.output
    if node.kind == "exists":
        return tree.SubLink("exists", query, BOOL_REF, location=node.location)
    if node.kind in ("expr", "array"):
        if len(columns) != 1:
            fail("42601", "subquery must return only one column", node.location)
        found = columns[0].expression.type
        if node.kind == "expr":
            return tree.SubLink("expr", query, found, location=node.location)
        array = array_type(found.oid) or (found.oid if element_type(found.oid) else 0)
        if not array:
            fail("42704", f"could not find array type for data type {typeinfo.type_name(found.oid)}", node.location)
        of_arrays = array == found.oid
        type_ = TypeRef(array, found.typmod, found.domain if of_arrays else array_over(found.domain))
        return tree.SubLink("array", query, type_, location=node.location)
    return _quantify(state, node, query)


_SUBQUERY_REFUSED = {
    "check constraints": "check constraint",
    "DEFAULT expressions": "DEFAULT expression",
    "index expressions": "index expression",
    "index predicates": "index predicate",
    "transform expressions": "transform expression",
    "EXECUTE parameters": "EXECUTE parameter",
    "column generation expressions": "column generation expression",
    "COPY FROM WHERE conditions": "COPY FROM WHERE condition",
    "partition key expressions": "partition key expression",
    "partition bound": "partition bound",
}


def _quantify(state: State, node: ast.SubLink, query: tree.Query) -> tree.Expr:
    assert node.test is not None
    left: tuple[tree.Expr, ...]
    if isinstance(node.test, ast.RowExpr):
        left = row_elements(state, node.test)
    else:
        left = (operand(state, node.test),)
    columns = query.output
    if len(left) < len(columns):
        fail("42601", "subquery has too many columns", node.location)
    if len(left) > len(columns):
        fail("42601", "subquery has too few columns", node.location)
    names = node.operator or ("=",)
    tests: list[tree.Expr] = []
    comparisons: list[tuple[Operator, Function]] = []
    targets = list(query.targets)
    output = [position for position, target in enumerate(targets) if not target.junk]
    for value, position in zip(left, output, strict=True):
        # The subquery's column is cast to the operator's right operand inside the subquery, so that both sides of the
        # comparison are of the operator's own types.
        expr = targets[position].expression
        placeholder = tree.CaseTestExpr(expr.type, expr_location(expr))
        call = make_operator(state, names, value, placeholder, node.location)
        if call.type.oid != BOOL:
            fail(
                "42804",
                f"row comparison operator must yield type boolean, not type {typeinfo.type_name(call.type.oid)}",
                node.location,
            )
        tests.append(call.arguments[0])
        comparisons.append((_operator_of(call), call.function))
        wanted = call.arguments[1].type
        if wanted.oid != expr.type.oid:
            cast_to = TypeRef(wanted.oid)
            targets[position] = replace(targets[position], expression=argument(state, expr, cast_to.oid))
    changed = any(new is not old for new, old in zip(targets, query.targets, strict=True))
    if changed:
        query = recast(query, tuple(targets))
    return tree.SubLink(node.kind, query, BOOL_REF, tuple(tests), tuple(comparisons), names[-1], False, node.location)


# ---- CASE -----------------------------------------------------------------------------------------------------------


@handles(ast.CaseExpr)
def case_when(state: State, node: ast.CaseExpr) -> tree.Expr:
    """CASE in both forms. With an argument, each condition compares a CaseTestExpr."""
    set_calls = state.set_calls
    subject: tree.Expr | None = None
    stand_in: tree.Expr | None = None
    if node.argument is not None:
        subject = operand(state, node.argument)
        if subject.type.oid == UNKNOWN:
            subject = coerce.coerce_type(state, subject, TEXT_REF, "i")
        stand_in = tree.CaseTestExpr(subject.type, expr_location(subject))
    conditions, results = [], []
    for when in node.whens:
        condition = operand(state, when.condition)
        if stand_in is not None:
            condition = make_operator(state, ("=",), stand_in, condition, when.location)
        conditions.append(coerce.to_boolean(state, condition, "CASE/WHEN"))
        results.append(operand(state, when.result))
    default: tree.Expr
    if node.default is None:
        default = tree.Const(None, UNKNOWN_REF)
    else:
        default = operand(state, node.default)
    no_sets_since(state, set_calls, "CASE")
    oid = common_types.select_common_type([default, *results], "CASE")[0]
    default = coerce.to_common(state, default, oid, "CASE/ELSE")
    values = [coerce.to_common(state, result, oid, "CASE/WHEN") for result in results]
    type_ = common_types.common_type([default, *values], oid)
    return tree.CaseExpr(subject, tuple(zip(conditions, values, strict=True)), default, type_, node.location)
