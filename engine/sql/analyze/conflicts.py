"""ON CONFLICT: the arbiter indexes, and the action (transformOnConflictClause, plancat.c)."""

from __future__ import annotations

from catalog.schema import Index, Table
from engine.sql import ast, tree
from engine.sql.analyze import coerce
from engine.sql.analyze.dispatch import expression
from engine.sql.analyze.errors import fail, refuse
from engine.sql.analyze.rules import TableRules, bind_text
from engine.sql.analyze.scope import table_item
from engine.sql.analyze.set_clause import update_assignments
from engine.sql.analyze.state import NamespaceItem, State
from engine.sql.analyze.typeinfo import BOOL_REF
from engine.sql.implication import Provided, find_implication
from engine.sql.tree import NO_ARBITER
from engine.sql.tree_walk import conjuncts


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
    return None if predicate is None else find_implication(conjuncts(predicate), bound)
