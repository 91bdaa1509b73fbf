"""The order in which PostgreSQL checks the privileges of a statement, as far as it does not depend on the plan.

Views come first, because their privileges are checked when a query is planned (subquery_planner). WITH queries come
before the query itself with its pulled up sub-queries, then sub-queries in its expressions, then the other sub-queries.
All others are checked before the plan runs (ExecCheckRTPerms, add_rtes_to_flat_rtable): the relations of the query,
those of pulled up sub-queries, those of the other sub-queries, and those of sub-plans (WITH queries, sub-queries in
expressions). PostgreSQL decides about sub-queries in pull_up_sublinks and pull_up_subqueries (prepjointree.c).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from catalog.schema import View
from engine.sql import tree
from engine.sql.tree_walk import walk, walk_with_depth

ON = ("yes", "true", "on", "1", "")


class Need(NamedTuple):
    """`check` raises 42501 if the privilege is missing."""

    check: Callable[[], None]
    of_view: bool = False


@dataclass(slots=True, eq=False)
class Order:
    """The needs of a query: of its relations, and of the queries in it. `arms`: the parts of a set operation, and
    whether they stay separate."""

    own: list[Need] = field(default_factory=list)
    dissolved: list[Order] = field(default_factory=list)
    staying: list[Order] = field(default_factory=list)
    ctes: list[Order] = field(default_factory=list)
    sublinks: list[Order] = field(default_factory=list)
    arms: list[tuple[Order, bool]] = field(default_factory=list)

    def all(self) -> Iterator[Need]:
        yield from self._planning()
        yield from (need for need in self._running() if not need.of_view)

    def add(self, inner: Order, stays: bool, is_arm: bool = False) -> None:
        """A sub-query in FROM, or a part of a set operation."""
        (self.staying if stays else self.dissolved).append(inner)
        if is_arm:
            self.arms.append((inner, stays))

    def take_over(self, inner: Order) -> None:
        """Takes over the relations of a sub-query that is otherwise removed."""
        self.own += inner.own
        self.dissolved += inner.dissolved
        self.staying += inner.staying
        self.sublinks += inner.sublinks

    def _parts(self) -> Iterator[Order]:
        """This query and those that are pulled up into it."""
        yield self
        for inner in self.dissolved:
            yield from inner._parts()

    def _staying(self) -> Iterator[Order]:
        """The queries that are planned separately: parts of a union one after the other, otherwise those of the query
        itself before those of pulled up ones."""
        if self.arms:
            for inner, stays in self.arms:
                yield from (inner,) if stays else inner._staying()
            return
        yield from self.staying
        for inner in self.dissolved:
            yield from inner._staying()

    def _planning(self) -> Iterator[Need]:
        for cte in self.ctes:
            yield from cte._planning()
        yield from (need for part in self._parts() for need in part.own if need.of_view)
        for part in self._parts():
            for link in part.sublinks:
                yield from link._planning()
        for inner in self._staying():
            yield from inner._planning()

    def _running(self) -> Iterator[Need]:
        yield from self._relations()
        yield from self._plans()

    def _relations(self) -> Iterator[Need]:
        for part in self._parts():
            yield from part.own
        for inner in self._staying():
            yield from inner._relations()

    def _plans(self) -> Iterator[Need]:
        for part in self._parts():
            for plan in (*part.ctes, *part.sublinks):
                yield from plan._running()
        for inner in self._staying():
            yield from inner._plans()


def stays(query: tree.Query) -> bool:
    """Whether a sub-query stays separate (is_simple_subquery, is_simple_union_all)."""
    if query.set_operation is not None:
        return not _only_union_all(query.set_operation) or bool(
            query.order_by or query.row_marks or query.ctes or query.limit or query.offset
        )
    grouped = query.has_aggregates or query.group_by or query.grouping_sets or query.having is not None
    ordered = query.order_by or query.limit is not None or query.offset is not None or query.distinct is not None
    return bool(
        grouped or ordered or query.has_windows or query.has_set_functions or query.row_marks or query.ctes
        or query.volatile
    )  # fmt: skip


def stays_in_union(query: tree.Query) -> bool:
    """Whether a part of a set operation stays separate. It is pulled up if it is a single relation without conditions
    (is_safe_append_member)."""
    if stays(query) or query.where is not None or len(query.from_items) != 1:
        return True
    (item,) = query.from_items
    if not isinstance(item, tree.FromRef):
        return True
    entry = query.range_table[item.relation]
    inner = entry.query if isinstance(entry, tree.RangeSubquery) else None
    return inner is not None and not stays(inner) and stays_in_union(inner)


def is_inlined(cte: tree.Cte, statement: tree.Statement) -> bool:
    """Whether a WITH query is inlined at its only reference (SS_process_ctes)."""
    query = cte.query
    if cte.recursive or cte.materialized or not isinstance(query, tree.Query) or query.volatile or query.row_marks:
        return False
    references = sum(
        isinstance(item, tree.RangeCte) and item.levels_up == depth - 1 and item.name == cte.name
        for item, depth in walk_with_depth(statement)
    )
    return references == 1 or (cte.materialized is False and references > 0)


def stays_barrier(view: object, query: tree.Query) -> bool:
    """Whether a view stays separate because of its definition. A view that is only a UNION ALL does not."""
    return is_barrier(view) and query.set_operation is None


def is_barrier(view: object) -> bool:
    """Whether nothing may be pulled up from a view into the query around it."""
    return isinstance(view, View) and dict(view.options).get("security_barrier", "off") in ON


def _only_union_all(node: tree.SetOperation | tree.FromRef) -> bool:
    if isinstance(node, tree.FromRef):
        return True
    return node.kind == "union" and node.all and _only_union_all(node.left) and _only_union_all(node.right)


def joined_sublinks(where: tree.Expr | None) -> list[tree.SubLink]:
    """The sub-queries of a condition that become joins: x IN (SELECT ...), [NOT] EXISTS (SELECT ...)."""
    if isinstance(where, tree.BoolExpr) and where.operator == "and":
        return [link for part in where.arguments for link in joined_sublinks(part)]
    negated = isinstance(where, tree.BoolExpr) and where.operator == "not"
    found = where.arguments[0] if isinstance(where, tree.BoolExpr) and negated else where
    if not isinstance(found, tree.SubLink):
        return []
    outside = _names_outside(found.query)
    if found.kind == "any" and not negated and not found.negated:
        own = any(isinstance(item, tree.Var) and not item.levels_up for part in found.test for item in walk(part))
        return [found] if own and not outside else []
    if found.kind == "exists":
        query = found.query
        left = query.set_operation or query.has_aggregates or query.grouping_sets or query.has_windows
        whole = left or query.having or query.offset or query.limit or query.row_marks or query.ctes
        return [found] if outside and query.range_table and not whole and not query.has_set_functions else []
    return []


def _names_outside(query: tree.Query) -> bool:
    return any(isinstance(item, tree.Var) and item.levels_up >= depth for item, depth in walk_with_depth(query))
