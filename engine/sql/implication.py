"""Whether conditions imply another one: the predicate of a partial index (predicate_implied_by of predtest.c).

    given                                   needed
    a = 5 AND state = 'open'                state = 'open'          the same condition
    a > 10                                  a > 5                   comparisons of one expression with constants
    lower(name) = $1                        name IS NOT NULL        a strict operator is not TRUE for NULL
    a IN (1, 2)                             a < 10                  each member implies it
    a = 1 OR a = 2                          a IN (1, 2, 3)          each arm implies one of the arms

The needed condition is over the columns of range entry 0, the given ones over those of `relation`. Constants are the
same only if they have the same form: 1.0 and 1.00 are equal numbers and give different texts.

A parameter, which a literal of the text may have become, is known only when the statement runs. So the answer is the
comparisons of parameters with constants (`Provided`) under which the implication holds: () if it holds always, None if
never.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields

from catalog.functions.base import Function, Operator
from catalog.functions.comparison import python_operator
from catalog.schema import FIRST_USER_OID
from catalog.types import lookup, type_row
from catalog.types.base import Array, TypeRef
from catalog.types.incomparable import order_key
from catalog.types.oids import BOOL, RECORD
from engine.sql import tree
from engine.sql.tree_walk import NO_NODE, conjuncts, node_fields

Provided = tuple[tuple[tree.Param, str, tree.Const], ...]

_PROOFS = {
    ("=", "="): "eq", ("=", "<"): "lt", ("=", "<="): "le", ("=", ">"): "gt", ("=", ">="): "ge", ("=", "<>"): "ne",
    ("<", "<"): "le", ("<", "<="): "le", ("<", "<>"): "le", ("<=", "<"): "lt", ("<=", "<="): "le", ("<=", "<>"): "lt",
    (">", ">"): "ge", (">", ">="): "ge", (">", "<>"): "ge", (">=", ">"): "gt", (">=", ">="): "ge", (">=", "<>"): "gt",
    ("<>", "<>"): "eq",
}  # fmt: skip
"""x OP a implies x OP b where a compares so with b (BT_implies_table)."""
_MIRROR = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_MOST_MEMBERS = 100  # of a list: MAX_SAOP_ARRAY_SIZE
_CASTS = (tree.RelabelType, tree.CoerceViaIO, tree.CoerceTypmod)
IDENTICAL = "is"
"""The test that a parameter has the form of a constant in place of which it stands."""
PREFIX = "prefix"
"""The test that a parameter is a pattern of LIKE that begins with text."""


def stands(value: object, test: str, known: tree.Const) -> bool:
    """Whether a value compares in this way with a constant of its type."""
    if test == IDENTICAL:
        return _same_value(value, known.value)
    if test == PREFIX:
        return begins_with_text(value)
    key = order_key(lookup(known.type.oid)) or (lambda item: item)
    return value is not None and bool(python_operator(test)(key(value), key(known.value)))


def hold(provided: Provided, parameters: Sequence[object]) -> bool:
    """Whether the conditions on parameters are met by these values."""
    return all(stands(parameters[param.number - 1], test, known) for param, test, known in provided)


def begins_with_text(pattern: object) -> bool:
    """Whether the pattern of LIKE begins with a character that is not a wildcard."""
    return isinstance(pattern, str) and pattern[:1] not in ("", "%", "_")


def is_row(type_: TypeRef) -> bool:
    """Whether the type is a composite one, or that of undeclared rows."""
    if type_.oid < FIRST_USER_OID:
        return type_.oid == RECORD
    row = type_row(type_.oid)
    return row is not None and row.kind == "c"


def _same_value(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other and (type(one) in (str, int, bool) or repr(one) == repr(other))


# ---- the same expression --------------------------------------------------------------------------------------------


def same(given: object, needed: object, relation: int = 0) -> Provided | None:
    """The conditions on parameters under which an expression over `relation` is the needed one over entry 0."""
    kind = type(given)
    if kind is tree.Param and type(needed) is tree.Const:
        assert isinstance(given, tree.Param) and isinstance(needed, tree.Const)
        known = given.type == needed.type and needed.value is not None
        return ((given, IDENTICAL, needed),) if known else None
    if kind is not type(needed):
        return None
    if kind is tree.Var:
        assert isinstance(given, tree.Var) and isinstance(needed, tree.Var)
        here = given.levels_up == needed.levels_up == 0 and given.relation == relation
        return () if here and given.column == needed.column else None
    if kind is tree.Const:
        assert isinstance(given, tree.Const) and isinstance(needed, tree.Const)
        return () if given.type == needed.type and _same_value(given.value, needed.value) else None
    if kind is tree.SubLink:
        return None
    if kind is tuple:
        assert isinstance(given, tuple) and isinstance(needed, tuple)
        return _all_same(given, needed, relation) if len(given) == len(needed) else None
    if node_fields[kind] is NO_NODE:
        return () if given == needed else None
    names = _compared_fields(kind)
    return _all_same([getattr(given, name) for name in names], [getattr(needed, name) for name in names], relation)


def _all_same(given: Sequence[object], needed: Sequence[object], relation: int) -> Provided | None:
    found: Provided = ()
    for one, other in zip(given, needed, strict=True):
        way = same(one, other, relation)
        if way is None:
            return None
        found += way
    return found


_fields: dict[type, tuple[str, ...]] = {}


def _compared_fields(kind: type) -> tuple[str, ...]:
    names = _fields.get(kind)
    if names is None:
        names = _fields[kind] = tuple(item.name for item in fields(kind) if item.compare)
    return names


# ---- implication ----------------------------------------------------------------------------------------------------


def find_implication(given: Sequence[tree.Expr], needed: tree.Expr, relation: int = 0) -> Provided | None:
    """The conditions on parameters under which conditions, all of them TRUE, imply that `needed` is TRUE."""
    found: Provided = ()
    for item in conjuncts(needed):
        way = _shortest(_implies(condition, item, relation) for condition in given)
        if way is None:
            return None
        found += way
    return found


def _implies(given: tree.Expr, needed: tree.Expr, relation: int) -> Provided | None:
    """Whether one condition implies another one. AND and OR on both sides are taken apart as in PostgreSQL: each arm of
    a given OR or list must imply the needed one, or a part of a given AND; of a needed OR one arm must be implied."""
    whole = same(given, needed, relation)
    if whole is None:
        given, needed = _plain(given), _plain(needed)
        whole = same(given, needed, relation)
    if whole == ():
        return whole
    way = _implies_in_parts(given, needed, relation)  # it asks less of a parameter than to be the same constant
    return whole if way is None else way


def _implies_in_parts(given: tree.Expr, needed: tree.Expr, relation: int) -> Provided | None:
    if isinstance(needed, tree.BoolExpr) and needed.operator == "and":
        return _every(needed.arguments, lambda part: _implies(given, part, relation))
    if isinstance(given, tree.BoolExpr) and given.operator == "or":
        return _every(given.arguments, lambda arm: _implies(arm, needed, relation))
    if isinstance(given, tree.BoolExpr) and given.operator == "and":
        return _shortest(_implies(part, needed, relation) for part in given.arguments)
    members = _members(given)
    if isinstance(needed, tree.NullTest):  # of a list with no member it is implied too
        members = None
    if members is not None:
        return _every(members, lambda arm: _implies(arm, needed, relation))
    arms = needed.arguments if isinstance(needed, tree.BoolExpr) and needed.operator == "or" else _members(needed)
    if arms is not None:
        return _shortest(_implies(given, arm, relation) for arm in arms)
    return _proves(given, needed, relation)


def _every(parts: Iterable[tree.Expr], prove: Callable[[tree.Expr], Provided | None]) -> Provided | None:
    found: Provided = ()
    for part in parts:
        way = prove(part)
        if way is None:
            return None
        found += way
    return found


def _shortest(ways: Iterable[Provided | None]) -> Provided | None:
    return min((way for way in ways if way is not None), key=len, default=None)


def _plain(condition: tree.Expr) -> tree.Expr:
    """A condition over a boolean in one form: x for x = true and x IS TRUE, NOT x for x = false. They are TRUE for the
    same rows."""
    if isinstance(condition, tree.BooleanTest) and condition.test == "is_true":
        return condition.argument
    if isinstance(condition, tree.FuncExpr) and _name(condition.operator) == "=" and len(condition.arguments) == 2:
        left, right = condition.arguments
        for one, other in ((left, right), (right, left)):
            if isinstance(one, tree.Const) and one.type.oid == BOOL and one.value is not None:
                return other if one.value else tree.BoolExpr("not", (other,))
    return condition


def _name(operator: Operator | None) -> str:
    """The name of an operator that is not a user's."""
    return operator.name if operator is not None and operator.oid < FIRST_USER_OID else ""


def _members(condition: tree.Expr) -> Sequence[tree.Expr] | None:
    """A comparison with the members of a list (= ANY) as a comparison with each."""
    if not isinstance(condition, tree.ScalarArrayOp) or not condition.use_or or _name(condition.operator) != "=":
        return None
    right = condition.right
    if isinstance(right, tree.ArrayExpr) and not right.nested:
        values: Sequence[tree.Expr] = right.elements
    elif isinstance(right, tree.Const) and isinstance(right.value, Array):
        element = TypeRef(condition.operator.right)
        values = [tree.Const(value, element) for value in right.value.elements]
    else:
        return None
    if not 0 < len(values) <= _MOST_MEMBERS:
        return None
    operator, function = condition.operator, condition.function
    return [tree.FuncExpr(function, (condition.left, value), TypeRef(BOOL), operator) for value in values]


def _proves(given: tree.Expr, needed: tree.Expr, relation: int) -> Provided | None:
    """Whether a condition without AND and OR implies another one (predicate_implied_by_simple_clause)."""
    if isinstance(needed, tree.NullTest):
        # Of a row it tests every field.
        if needed.is_null or isinstance(given, tree.NullTest) or is_row(needed.argument.type):
            return None
        if isinstance(given, tree.ScalarArrayOp):  # of an empty array it is FALSE for NULL, which is enough here only
            strict = given.use_or and given.function.strict
            return _strict_for(given.left, needed.argument, relation) if strict else None
        return _strict_for(given, needed.argument, relation)
    if isinstance(given, tree.FuncExpr) and isinstance(needed, tree.FuncExpr):
        return _compare(given, needed, relation)
    return None


def _strict_for(given: object, part: tree.Expr, relation: int) -> Provided | None:
    """Whether an expression is NULL where a part of it is NULL (clause_is_strict_for)."""
    found = same(given, part, relation)
    if found is not None:
        return found
    if isinstance(given, tree.FuncExpr):
        function: Function = given.function
        if not function.strict or function.kind != "f" or function.returns_set:
            return None
        return _shortest(_strict_for(item, part, relation) for item in given.arguments)
    if isinstance(given, _CASTS):
        return _strict_for(given.argument, part, relation)
    return None


def _compare(given: tree.FuncExpr, needed: tree.FuncExpr, relation: int) -> Provided | None:
    """What a comparison with a constant implies for another comparison of the same expression with one."""
    one, other = _sides(given), _sides(needed)
    if one is None or other is None:
        return None
    (left, name, value), (expression, wanted, known) = one, other
    test = _PROOFS.get((name, wanted))
    if test is None or not isinstance(known, tree.Const) or known.value is None or known.type != value.type:
        return None
    way = same(left, expression, relation)
    if way is None:
        return None
    if isinstance(value, tree.Param):
        return (*way, (value, test, known))
    return way if isinstance(value, tree.Const) and stands(value.value, test, known) else None


def _sides(condition: tree.FuncExpr) -> tuple[tree.Expr, str, tree.Expr] | None:
    """A comparison as (expression, operator, constant or parameter)."""
    name = _name(condition.operator)
    if name not in _MIRROR or len(condition.arguments) != 2:
        return None
    left, right = condition.arguments
    if isinstance(right, (tree.Const, tree.Param)):
        return left, name, right
    return (right, _MIRROR[name], left) if isinstance(left, (tree.Const, tree.Param)) else None
