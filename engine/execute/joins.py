"""The order of a query's loops: decomposes join trees, and expands merged USING columns.

Inner joins are a set of relations and conditions, visited in the best order for look-ups. Left joins come after all of
them, in their original order: an inner condition over the nullable side filters afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.execute.access import Access, order_served
from engine.execute.code import NotOnRowPath
from engine.execute.virtual import VirtualAccess
from engine.sql import tree
from engine.sql.tree_walk import conjuncts, shift_levels, substitute, walk_with_depth


@dataclass(slots=True)
class Step:
    """One relation in the order of the loops. `outer`: it is the nullable side of a left join on `conditions`. If that
    side is itself a join, `group` are its relations, and `steps` the loops over them, with all conditions.
    """

    relation: int
    access: Access | VirtualAccess | None = None
    conditions: list[tree.Expr] = field(default_factory=list)
    filters: list[tree.Expr] = field(default_factory=list)
    outer: bool = False
    reverse: bool = False
    apart: str = ""  # see ScanOrder
    group: tuple[int, ...] = ()
    steps: list[Step] = field(default_factory=list)


def flatten(item: tree.FromItem, inner: list[int], outer: list[Step], conditions: list[tree.Expr]) -> None:
    """Decomposes a join tree into inner relations with their conditions, and left joins in order.

    Left joins may wait until all inner joins are done: an inner condition over the nullable side filters afterwards.
    """
    if isinstance(item, tree.FromRef):
        inner.append(item.relation)
        return
    if item.kind in ("inner", "cross"):
        flatten(item.left, inner, outer, conditions)
        flatten(item.right, inner, outer, conditions)
        conditions.extend(conjuncts(item.condition))
        return
    kept, nullable = (item.left, item.right) if item.kind == "left" else (item.right, item.left)
    if item.kind not in ("left", "right"):
        raise NotOnRowPath(f"{item.kind} join")
    before = len(outer)
    flatten(kept, inner, outer, conditions)
    if item.kind == "right" and len(outer) != before:
        raise NotOnRowPath("right join")
    group: list[int] = []
    on, within = conjuncts(item.condition), list[Step]()
    flatten(nullable, group, within, on)
    if within:
        raise NotOnRowPath("a left join on the nullable side of another")
    outer.append(Step(group[0], conditions=on, outer=True, group=tuple(group) if len(group) > 1 else ()))


def expand_joins(query: tree.Query) -> tree.Query:
    """Replaces the Vars that refer to a join by the expressions of merged USING columns."""
    joins = {
        index: entry.expressions
        for index, entry in enumerate(query.range_table)
        if isinstance(entry, tree.RangeJoin) and any(type(item) is not tree.Var for item in entry.expressions)
    }
    if not joins or not any(
        isinstance(item, tree.Var) and item.relation in joins and item.levels_up == depth - 1
        for item, depth in walk_with_depth(query)
    ):
        return query

    def change(node: object, depth: int) -> object:
        if isinstance(node, tree.Var) and node.relation in joins and node.levels_up == depth - 1:
            expression = joins[node.relation][node.column - 1]
            expanded = substitute(expression, change, 1)
            return shift_levels(expanded, depth - 1)
        return None

    return substitute(query, change)


def inner_conditions(items: Sequence[tree.FromItem]) -> list[tree.Expr]:
    """The conditions of the inner joins, except those on the nullable side of an outer one."""
    found: list[tree.Expr] = []
    for item in items:
        if not isinstance(item, tree.FromJoin):
            continue
        if item.kind in ("inner", "cross"):
            found += [*inner_conditions((item.left, item.right)), *conjuncts(item.condition)]
        else:
            found += inner_conditions((item.left if item.kind == "left" else item.right,))
    return found


def serve_order(step: Step, order_by: Sequence[tree.SortClause]) -> bool:
    """Whether the step's scan returns the rows in the wanted order; reverses it if that helps."""
    assert isinstance(step.access, Access)
    served = order_served(step.access, step.relation, order_by)
    if served is not None:
        step.reverse, step.apart = served.reverse, served.apart
    return served is not None


def step_rank(step: Step) -> tuple[int, ...]:
    """Sources without keys (VALUES, functions) precede unrestricted scans, and follow look-ups."""
    if step.access is None:
        return (0, 0, 1, 0, 0)
    return step.access.rank
