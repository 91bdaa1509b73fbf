"""ON CONFLICT: the arbiter indexes, and the action (transformOnConflictClause, plancat.c)."""

from __future__ import annotations

import dataclasses

from catalog.functions.base import Operator
from catalog.functions.comparison import python_operator
from catalog.schema import Index, Table
from catalog.types import lookup
from catalog.types.incomparable import order_key
from engine.sql import ast, tree
from engine.sql.analyze import coerce
from engine.sql.analyze.dispatch import expression
from engine.sql.analyze.errors import fail, refuse
from engine.sql.analyze.rules import TableRules, bind_text
from engine.sql.analyze.scope import table_item
from engine.sql.analyze.set_clause import update_assignments
from engine.sql.analyze.state import NamespaceItem, State
from engine.sql.analyze.typeinfo import BOOL_REF
from engine.sql.tree import NO_ARBITER

Provided = tuple[tuple[tree.Param, str, tree.Const], ...]
_PROOFS = {
    ("=", "="): "eq", ("=", "<"): "lt", ("=", "<="): "le", ("=", ">"): "gt", ("=", ">="): "ge", ("=", "<>"): "ne",
    ("<", "<"): "le", ("<", "<="): "le", ("<", "<>"): "le", ("<=", "<"): "lt", ("<=", "<="): "le", ("<=", "<>"): "lt",
    (">", ">"): "ge", (">", ">="): "ge", (">", "<>"): "ge", (">=", ">"): "gt", (">=", ">="): "ge", (">=", "<>"): "gt",
    ("<>", "<>"): "eq",
}  # fmt: skip
"""x OP a implies x OP b where a compares so with b (BT_implies_table)."""


def on_conflict(
    state: State, node: ast.OnConflict, table: Table, item: NamespaceItem, rules: TableRules
) -> tree.OnConflict:
    """The arbiters, and for DO UPDATE the assignments over the old row (entry 0) and EXCLUDED (entry 1)."""
    if node.action == "update" and node.infer is None:
        fail(
            "42601", "ON CONFLICT DO UPDATE requires inference specification or constraint name", node,
            hint="For example, ON CONFLICT (column_name).",
        )  # fmt: skip
    arbiters: tuple[int, ...] = ()
    provided: Provided = ()
    if node.infer is not None:
        arbiters, provided = _arbiters(state, node.infer, table, item, node.action)
    if node.action == "nothing":
        return tree.OnConflict("nothing", arbiters, provided=provided)
    columns = tuple(tree.RangeColumn(column.name, column.type) for column in table.columns)
    entry = tree.RangeTable(table, "excluded", columns)
    place = state.add(entry)
    excluded = table_item(place, entry) if item.view is None else item.view.item(place, "excluded")
    state.names.append(excluded)
    state.namespace = [item, excluded]
    assignments = update_assignments(state, node.assignments, table, item, rules)
    where = None
    if node.where is not None:
        where = coerce.to_boolean(state, expression(state, node.where, "WHERE"), "WHERE")
    state.namespace = [item]
    state.names.remove(excluded)
    return tree.OnConflict("update", arbiters, assignments, where, provided)


def _arbiters(
    state: State, infer: ast.InferClause, table: Table, item: NamespaceItem, action: str
) -> tuple[tuple[int, ...], Provided]:
    """The arbiter indexes, and the conditions on parameters under which they are the arbiters. PostgreSQL infers them
    during planning, with the values of parameters."""
    catalog = state.environment.catalog
    if infer.constraint is not None:
        for constraint in table.constraints:
            if constraint.name == infer.constraint:
                if constraint.kind == "x" and action == "update":
                    fail("42809", "ON CONFLICT DO UPDATE not supported with exclusion constraints")
                if constraint.kind not in ("p", "u", "x") or constraint.index is None:
                    fail("42809", "constraint in ON CONFLICT clause has no associated index")
                return (constraint.index,), ()
        fail("42704", f'constraint "{infer.constraint}" for table "{table.name}" does not exist')
    wanted: set[int] = set()
    wanted_exprs: list[tree.Expr] = []
    for element in infer.elements:
        if element.name is not None:
            position = item.by_name.get(element.name)
            if position is None:
                fail("42703", f'column "{element.name}" does not exist', element)
            named = item.read(position)
            if isinstance(named, tree.Var):
                wanted.add(named.column)
            else:
                wanted_exprs.append(named)
        elif element.expression is not None:
            value = expression(state, element.expression, "index expressions")
            if isinstance(value, tree.Var) and value.relation == 0:
                wanted.add(value.column)
            else:
                wanted_exprs.append(value)
    predicate = None
    if infer.where is not None:
        predicate = coerce.to_boolean(state, expression(state, infer.where, "index predicates"), "WHERE")
    found: dict[Provided, list[int]] = {}
    for index in (catalog.index(oid) for oid in table.indexes):
        if index.is_unique and index.ready and index.valid:
            needs = _matches(state, index, table, wanted, wanted_exprs, predicate)
            if needs is not None:
                found.setdefault(needs, []).append(index.oid)
    if not found:
        fail("42P10", NO_ARBITER)
    provided = () if () in found else next(iter(found))
    if len(found) > 1 and provided:
        refuse("ON CONFLICT with parameters that decide between several indexes", infer)
    return tuple(found[provided]), provided


def _matches(
    state: State,
    index: Index,
    table: Table,
    wanted: set[int],
    wanted_exprs: list[tree.Expr],
    predicate: tree.Expr | None,
) -> Provided | None:
    """The conditions on parameters under which the index is an arbiter, or None if it cannot be."""
    if {column.number for column in index.columns if column.number} != wanted:
        return None
    texts = [column.expression for column in index.columns if column.expression is not None]
    exprs = [bind_text(text, state.environment, table, None, "index expressions") for text in texts]
    if any(value not in wanted_exprs for value in exprs) or any(value not in exprs for value in wanted_exprs):
        return None
    if index.predicate is None:
        return ()
    bound = bind_text(index.predicate, state.environment, table, BOOL_REF, "index predicates")
    return None if predicate is None else _implies(predicate, bound)


def _implies(given: tree.Expr, needed: tree.Expr) -> Provided | None:
    """Whether each conjunct of the index's predicate is among those of the given condition: returns the conditions on
    parameters, or None if it is not possible."""
    have = given.arguments if isinstance(given, tree.BoolExpr) and given.operator == "and" else (given,)
    need = needed.arguments if isinstance(needed, tree.BoolExpr) and needed.operator == "and" else (needed,)
    if given == needed or all(item in have for item in need):
        return ()
    found: Provided = ()
    for item in need:
        ways = [way for other in have if (way := _proves(other, item)) is not None]
        if not ways:
            return None
        found += min(ways, key=len)
    return found


def _proves(given: tree.Expr, needed: tree.Expr) -> Provided | None:
    """The conditions on parameters under which one condition implies the other (predicate_implied_by, for comparisons
    with constants and IS NOT NULL); None if unknown."""
    if isinstance(given, tree.FuncExpr) and given.operator is not None:
        if isinstance(needed, tree.NullTest):
            return () if not needed.is_null and given.function.strict and needed.argument in given.arguments else None
        if isinstance(needed, tree.FuncExpr) and needed.operator is not None:
            way = _compare(given, given.operator, needed, needed.operator)
            if way is not None:
                return way
    return _as_constants(given, needed)


def _compare(given: tree.FuncExpr, operator: Operator, needed: tree.FuncExpr, other: Operator) -> Provided | None:
    """What a comparison with a constant provides for another comparison of the same expression; None if unknown."""
    test = _PROOFS.get((operator.name, other.name))
    if test is None or len(given.arguments) != 2 or needed.arguments[0] != given.arguments[0]:
        return None
    value, known = given.arguments[1], needed.arguments[1]
    if not isinstance(known, tree.Const) or known.value is None or known.type != value.type:
        return None
    if isinstance(value, tree.Param):
        return ((value, test, known),)
    return () if isinstance(value, tree.Const) and stands(value.value, test, known) else None


def stands(value: object, test: str, known: tree.Const) -> bool:
    """Whether a value compares in this way with a constant of its type."""
    key = order_key(lookup(known.type.oid)) or (lambda item: item)
    return value is not None and bool(python_operator(test)(key(value), key(known.value)))


def _as_constants(given: object, needed: object) -> Provided | None:
    """The conditions on the parameters in `given` under which it equals `needed`, or None."""
    if given == needed:
        return ()
    if isinstance(given, tree.Param) and isinstance(needed, tree.Const):
        return ((given, "eq", needed),) if given.type == needed.type and needed.value is not None else None
    if type(given) is not type(needed):
        return None
    pairs: list[tuple[object, object]]
    if isinstance(given, tuple) and isinstance(needed, tuple):
        if len(given) != len(needed):
            return None
        pairs = list(zip(given, needed, strict=True))
    elif dataclasses.is_dataclass(given):
        compared = [item.name for item in dataclasses.fields(given) if item.compare]
        pairs = [(getattr(given, name), getattr(needed, name)) for name in compared]
    else:
        return None
    found: Provided = ()
    for one, other in pairs:
        way = _as_constants(one, other)
        if way is None:
            return None
        found += way
    return found
