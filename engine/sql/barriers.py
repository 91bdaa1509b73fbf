"""Views WITH (security_barrier): no expression of a statement is evaluated for rows that the view's conditions exclude.

An error shows its value (invalid input syntax for type integer: "..."), so a condition that may fail must not be
evaluated before the view's own conditions. Functions that reveal nothing about their arguments are leak-proof
(pg_proc.proleakproof), and conditions with only such functions may be evaluated anywhere, also as index conditions. A
statement with other conditions keeps its views apart: their queries are not pulled up (engine/execute/pull_up.py), and
DuckDB is kept from doing so (engine/columnar/generate/ranges.py). The statement may evaluate everything early except
the output of the outermost query.

contain_leaked_vars (clauses.c), subquery_is_pushdown_safe (allpaths.c), rewriteTargetView (rewriteHandler.c)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast, get_args

from catalog.catalog import Catalog
from catalog.schema import View
from engine.sql import tree
from engine.sql.analyze.typeinfo import BOOL_REF
from engine.sql.need_order import is_barrier
from engine.sql.tree_walk import children, conjuncts, node_fields, transform, walk

_EXPRESSIONS = frozenset(get_args(tree.Expr))
_SAFE = frozenset(
    {
        tree.Var, tree.Const, tree.Param, tree.ArrayExpr, tree.FieldSelect, tree.BoolExpr, tree.RelabelType,
        tree.CollateExpr, tree.CaseExpr, tree.CaseTestExpr, tree.RowExpr, tree.SqlValueFunction, tree.NullTest,
        tree.BooleanTest, tree.SubLink, tree.Aggref, tree.WindowFunc, tree.GroupingFunc,
    }
)  # fmt: skip
"""Nodes that reveal nothing by themselves. Arguments of aggregates, and sub-queries, are examined separately."""
_CALLS = (tree.FuncExpr, tree.DistinctExpr, tree.NullIfExpr, tree.ScalarArrayOp)
_LATE = frozenset({"targets", "order_by", "distinct", "windows", "assignments", "generated", "checks", "returning",
                   "actions", "on_conflict", "defaults"})  # fmt: skip
"""The fields of the outermost statement that are computed after its conditions, for the remaining rows."""


def tells(node: object) -> bool:
    """Whether an expression may reveal values of its columns."""
    return any(_tells_itself(item) and _has_columns(item) for item in walk(node))


def _tells_itself(node: object) -> bool:
    if isinstance(node, _CALLS):
        return not node.function.leakproof
    return type(node) in _EXPRESSIONS and type(node) not in _SAFE


def _has_columns(node: object) -> bool:
    return any(isinstance(item, tree.Var) for item in walk(node))


def may_reveal(node: object) -> bool:
    """Whether a tree has an expression that may reveal values of its columns."""
    return node is not None and tells(node)


def may_reveal_early(statement: tree.Statement) -> bool:
    """Whether an expression of a statement may reveal values of rows before all conditions are evaluated."""
    for name in node_fields[type(statement)]:
        part = getattr(statement, name)
        if isinstance(statement, tree.Insert) and isinstance(part, tree.Query):
            found = may_reveal_early(part)
        elif name in _LATE:
            found = any(tells(item) for item in walk(part) if isinstance(item, tree.Query))
        else:
            found = may_reveal(part)
        if found:
            return True
    return False


def guard_conditions(guard: Sequence[tree.Expr], where: tree.Expr | None) -> list[tree.Expr]:
    """The conditions of policies and those of a statement, of which the ones that may reveal values are evaluated only
    where the policies' are true."""
    parts = conjuncts(where)
    if not guard:
        return parts
    return [*guard, *(_guard(guard, part) if tells(part) else part for part in parts)]


def mark_barriers(analyzed: tree.Analyzed, catalog: Catalog) -> tree.Analyzed:
    """Marks the views of the statement that must stay separate."""
    if not any(is_barrier(catalog.get(oid)) for oid in analyzed.relations):
        return analyzed
    found = _Telling(catalog)
    for name in node_fields[type(analyzed.statement)]:
        part = getattr(analyzed.statement, name)
        if name in _LATE:
            found.look_at_queries(part)
        else:
            found.look_at(part)
    apart = found.apart()
    if not apart:
        return analyzed

    def change(node: object, depth: int) -> object:
        is_apart = isinstance(node, tree.RangeSubquery) and node.view in apart
        return replace(cast(tree.RangeSubquery, node), apart=True) if is_apart else node

    return replace(analyzed, statement=transform(analyzed.statement, change))


class _Telling:
    """Finds the expressions of a statement that may reveal values, and the views that they use."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._views: set[int] = set()
        self._places: set[frozenset[int]] = set()

    def look_at(self, node: object, inside: frozenset[int] = frozenset()) -> None:
        if isinstance(node, tree.RangeSubquery) and is_barrier(self._catalog.get(node.view or 0)):
            self._views.add(node.view or 0)
            inside |= {node.view or 0}
        if _tells_itself(node) and _has_columns(node):
            self._places.add(inside)
        for child in children(node):
            self.look_at(child, inside)

    def look_at_queries(self, node: object) -> None:
        """Examines only the queries in expressions."""
        if isinstance(node, tree.Query):
            self.look_at(node)
        else:
            for child in children(node):
                self.look_at_queries(child)

    def apart(self) -> set[int]:
        """The views whose values an expression outside of them may reveal."""
        return {view for view in self._views if any(view not in place for place in self._places)}


def conditions_of_change(levels: Sequence[tuple[View, tree.Expr | None]], where: tree.Expr | None) -> list[tree.Expr]:
    """The conditions of a change through views, which are given outermost first. A condition that may reveal values is
    evaluated only where the conditions of the barriers below it are true."""
    if not any(is_barrier(view) for view, _ in levels):
        return [condition for _, condition in (*levels, (None, where)) if condition is not None]
    found: list[tree.Expr] = []
    guard: list[tree.Expr] = []
    for view, condition in (*reversed(levels), (None, where)):
        for part in conjuncts(condition):
            found.append(_guard(guard, part) if guard and tells(part) else part)
        if is_barrier(view):
            guard = list(found)
    return found


def _guard(guard: Sequence[tree.Expr], condition: tree.Expr) -> tree.Expr:
    holds = guard[0] if len(guard) == 1 else tree.BoolExpr("and", tuple(guard), BOOL_REF)
    return tree.CaseExpr(None, ((holds, condition),), tree.Const(False, BOOL_REF), BOOL_REF)
