"""UNION, INTERSECT, EXCEPT: leaves as subqueries, one type for each column (transformSetOperationStmt).

Casts are added to the leaves. A leaf whose output is used before the set operation (DISTINCT, ORDER BY, a set operation
of its own) must keep its types inside, so it is wrapped in a query that only casts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from catalog.types import format_type
from catalog.types.base import TypeRef
from catalog.types.oids import UNKNOWN
from engine.sql import ast, tree
from engine.sql.analyze import clauses, coerce, common_types
from engine.sql.analyze.declared import common_domain
from engine.sql.analyze.dispatch import select_query
from engine.sql.analyze.errors import expr_location, fail
from engine.sql.analyze.scope import positional_item
from engine.sql.analyze.sortable import type_must_have_equality
from engine.sql.analyze.state import NamespaceItem, State
from engine.sql.analyze.targets import range_columns
from engine.sql.tree_walk import shift_levels


def recast(query: tree.Query, targets: tuple[tree.Target, ...]) -> tree.Query:
    """The query with casts over its output columns: `targets` are its own targets, some with casts."""
    if query.set_operation is None and query.distinct is None and not query.order_by and not query.has_set_functions:
        return replace(query, targets=targets)
    changed = [
        (old, new)
        for old, new in zip(query.targets, targets, strict=True)
        if new.expression is not old.expression and not isinstance(old.expression, (tree.Const, tree.Param))
    ]
    if not changed:
        return replace(query, targets=targets)
    kept = tuple(
        new if isinstance(old.expression, (tree.Const, tree.Param)) else old
        for old, new in zip(query.targets, targets, strict=True)
    )
    inner = shift_levels(replace(query, targets=kept), 1)
    assert isinstance(inner, tree.Query)
    columns = range_columns(inner.targets)
    outer = []
    position = 0
    for old, new in zip(inner.targets, targets, strict=True):
        if old.junk:
            continue
        position += 1
        column = tree.Var(0, position, old.expression.type, 0, old.name, expr_location(old.expression))
        expr = column if new.expression is old.expression else _swap(new.expression, old.expression, column)
        outer.append(tree.Target(expr, new.name, False, new.origin_table, new.origin_column))
    entry = tree.RangeSubquery(inner, "*SELECT*", columns)
    return tree.Query(tuple(outer), (entry,), (tree.FromRef(0),), volatile=query.volatile)


def _swap(cast: tree.Expr, old: tree.Expr, new: tree.Expr) -> tree.Expr:
    """A chain of casts over `old`, moved to `new`."""
    if cast is old or cast == old:
        return new
    if isinstance(cast, tree.FuncExpr):
        return replace(cast, arguments=(_swap(cast.arguments[0], old, new), *cast.arguments[1:]))
    if isinstance(cast, (tree.RelabelType, tree.CoerceViaIO, tree.CoerceTypmod, tree.ArrayCoerce)):
        return replace(cast, argument=_swap(cast.argument, old, new))
    return new


class _Leaf:
    """A leaf query, still open to casts, and its place in the range table."""

    def __init__(self, index: int, query: tree.Query) -> None:
        self.index = index
        self.query = query

    def types(self) -> list[TypeRef]:
        return [target.expression.type for target in self.query.output]


class _Node:
    """A set operation over two sides, with its unified column types."""

    def __init__(self, kind: str, all_rows: bool, left: _Leaf | _Node, right: _Leaf | _Node) -> None:
        self.kind, self.all, self.left, self.right = kind, all_rows, left, right
        self.column_types: list[TypeRef] = []

    def types(self) -> list[TypeRef]:
        return self.column_types


def set_operation(state: State, node: ast.SelectStmt, recursive: str | None = None) -> tree.Query:
    """A set operation at the top of a query level. `recursive` names the WITH item whose body it is."""
    builder = _Builder(state)
    top = builder.build(node, recursive, True)
    assert isinstance(top, _Node)
    operation = builder.finish(top)
    leftmost: _Leaf | _Node = top
    while isinstance(leftmost, _Node):
        leftmost = leftmost.left
    names = [target.name for target in leftmost.query.output]
    origins = [target for target in leftmost.query.output]
    targets = [
        tree.Target(tree.Var(leftmost.index, position, found, 0, name, expr_location(origin.expression)), name)
        for position, (name, found, origin) in enumerate(zip(names, top.types(), origins, strict=True), 1)
    ]  # fmt: skip
    state.namespace = [NamespaceItem("*set*", leftmost.index, None, names, [item.expression for item in targets])]
    state.namespace[0].table_visible = False
    count = len(targets)
    order = clauses.order_by(state, node.order_by, targets)
    for clause in order:
        if all(clause.expression != target.expression for target in targets[:count]):
            fail(
                "0A000", "invalid UNION/INTERSECT/EXCEPT ORDER BY clause", expr_location(clause.expression),
                detail="Only result column names can be used, not expressions or functions.",
                hint="Add the expression/function to every SELECT, or move the UNION into a FROM clause.",
            )  # fmt: skip
    state.namespace = []
    offset = clauses.limit(state, node.offset, "OFFSET")
    limit = clauses.limit(state, node.limit, "LIMIT", node.limit_with_ties)
    query = tree.Query(
        tuple(targets), tuple(state.entries), (), order_by=order, limit=limit, limit_with_ties=node.limit_with_ties,
        offset=offset, set_operation=operation, ctes=tuple(state.ctes.values()), volatile=state.volatile,
    )  # fmt: skip
    if node.locking:
        clauses.check_lockable(node, query)
    return query


class _Builder:
    def __init__(self, state: State) -> None:
        self.state = state
        self.leaves: list[_Leaf] = []

    def build(self, node: ast.SelectStmt, recursive: str | None, top: bool) -> _Leaf | _Node:
        """transformSetOperationTree."""
        nested = node.order_by or node.limit or node.offset or node.locking or node.with_clause
        if not node.set_operation or (nested and not top):
            return self._leaf(node)
        assert node.left is not None and node.right is not None
        left = self.build(node.left, None, False)
        if recursive is not None:
            self._open_recursion(recursive, left)
        right = self.build(node.right, None, False)
        result = _Node(node.set_operation, node.all, left, right)
        self._unify(result, recursive)
        return result

    def _leaf(self, node: ast.SelectStmt) -> _Leaf:
        state = self.state
        saved, state.kind = state.kind, ""
        query = select_query(State(state.shared, state), node, settle=False)
        state.kind = saved
        state.volatile = state.volatile or query.volatile
        return self._add(query)

    def _add(self, query: tree.Query) -> _Leaf:
        alias = f"*SELECT* {len(self.leaves) + 1}"
        entry = tree.RangeSubquery(query, alias, range_columns(query.targets))
        leaf = _Leaf(self.state.add(entry), query)
        self.state.names.append(positional_item(leaf.index, entry))
        self.leaves.append(leaf)
        return leaf

    def _open_recursion(self, name: str, left: _Leaf | _Node) -> None:
        """determineRecursiveColTypes: the recursive term sees the columns of the non-recursive one."""
        leaf = left
        while isinstance(leaf, _Node):
            leaf = leaf.left
        owner = self.state.parent
        assert owner is not None
        if isinstance(left, _Leaf):
            self._settle(left)
        declared = owner.recursive_names.get(name, ())
        columns = []
        for position, (target, found) in enumerate(zip(leaf.query.output, left.types(), strict=True)):
            columns.append(tree.RangeColumn(declared[position] if position < len(declared) else target.name, found))
        owner.recursive_self[name] = tuple(columns)

    def _settle(self, leaf: _Leaf) -> None:
        targets = tuple(
            replace(target, expression=coerce.settle_unknown(self.state, target.expression))
            for target in leaf.query.targets
        )
        leaf.query = recast(leaf.query, targets)

    def _unify(self, node: _Node, recursive: str | None) -> None:
        left, right = node.left, node.right
        one, other = left.types(), right.types()
        construct = node.kind.upper()
        if len(one) != len(other):
            location = self._locate(right, 0) if other else -1
            fail("42601", f"each {construct} query must have the same number of columns", location)
        types = []
        for position, (first, second) in enumerate(zip(one, other, strict=True)):
            pair = [
                tree.CaseTestExpr(found, self._locate(side, position))
                for side, found in ((left, first), (right, second))
            ]
            oid = common_types.select_common_type(pair, construct)[0]
            for side, found in zip(pair, (first, second), strict=True):
                if found.oid != UNKNOWN:
                    coerce.to_common(self.state, side, oid, construct)
            typmod = first.typmod if first == second and first.oid == oid else -1
            common = TypeRef(oid, typmod, common_domain((first, second)))
            if not (node.all and node.kind == "union"):
                type_must_have_equality(self.state, common, self._locate(left, position))
            if recursive is not None and TypeRef(oid, typmod) != first:
                self._recursion_mismatch(recursive, position, first, TypeRef(oid, typmod), left)
            types.append(common)
        node.column_types = types
        node.left = self._cast(left, types, construct)
        node.right = self._cast(right, types, construct)

    def _recursion_mismatch(
        self, name: str, position: int, first: TypeRef, overall: TypeRef, left: _Leaf | _Node
    ) -> None:
        def show_type(found: TypeRef) -> str:
            return format_type(found.oid, found.typmod)

        fail(
            "42804",
            f'recursive query "{name}" column {position + 1} has type {show_type(first)} in non-recursive term '
            f"but type {show_type(overall)} overall",
            self._locate(left, position),
            hint="Cast the output of the non-recursive term to the correct type.",
        )

    def _locate(self, side: _Leaf | _Node, position: int) -> int:
        while isinstance(side, _Node):
            side = side.left
        output = side.query.output
        expr = output[min(position, len(output) - 1)].expression
        if (
            isinstance(expr, tree.Var)
            and not expr.levels_up
            and isinstance(side.query.range_table[expr.relation], tree.RangeValues)
        ):
            entry = side.query.range_table[expr.relation]
            assert isinstance(entry, tree.RangeValues)
            return expr_location(entry.rows[0][expr.column - 1])
        return expr_location(expr)

    def _cast(self, side: _Leaf | _Node, types: Sequence[TypeRef], construct: str) -> _Leaf | _Node:
        """The side with its columns cast to the unified types; a set operation becomes a leaf for that."""
        current = side.types()
        if all(found.oid == wanted.oid for found, wanted in zip(current, types, strict=True)):
            return side
        if isinstance(side, _Node):
            side = self._as_leaf(side)
        targets = list(side.query.targets)
        output = [position for position, target in enumerate(targets) if not target.junk]
        for position, wanted in zip(output, types, strict=True):
            expr = targets[position].expression
            if expr.type.oid != wanted.oid:
                cast = coerce.to_common(self.state, expr, wanted.oid, construct)
                targets[position] = tree.Target(cast, targets[position].name)
        side.query = recast(side.query, tuple(targets))
        return side

    def _as_leaf(self, node: _Node) -> _Leaf:
        """A nested set operation as a subquery of its own, one level further in."""
        indexes: list[int] = []

        def collect(side: _Leaf | _Node) -> None:
            if isinstance(side, _Leaf):
                indexes.append(side.index)
            else:
                collect(side.left)
                collect(side.right)

        collect(node)
        leaves = {leaf.index: leaf for leaf in self.leaves}
        new_index = {old: position for position, old in enumerate(indexes)}

        def renumber(side: _Leaf | _Node) -> tree.SetOperation | tree.FromRef:
            if isinstance(side, _Leaf):
                return tree.FromRef(new_index[side.index])
            return tree.SetOperation(
                side.kind, side.all, renumber(side.left), renumber(side.right), tuple(side.column_types)
            )

        operation = renumber(node)
        assert isinstance(operation, tree.SetOperation)
        entries: list[tree.RangeEntry] = []
        for position, index in enumerate(indexes):
            inner = shift_levels(leaves[index].query, 1)
            assert isinstance(inner, tree.Query)
            entries.append(tree.RangeSubquery(inner, f"*SELECT* {position + 1}", range_columns(inner.targets)))
        first = leaves[indexes[0]].query.output
        targets = tuple(
            tree.Target(tree.Var(0, position, found, 0, target.name, expr_location(target.expression)), target.name)
            for position, (found, target) in enumerate(zip(node.column_types, first, strict=True), 1)
        )
        query = tree.Query(targets, tuple(entries), (), set_operation=operation)
        kept = leaves[indexes[0]]
        self.leaves = [leaf for leaf in self.leaves if leaf.index not in indexes]
        leaf = _Leaf(kept.index, query)
        self.leaves.append(leaf)
        return leaf

    def finish(self, top: _Node) -> tree.SetOperation:
        """Adds the leaves, now with casts, to the range table, without those that moved into another one."""
        self.leaves.sort(key=lambda leaf: leaf.index)
        self.state.entries = []
        for position, leaf in enumerate(self.leaves):
            leaf.index = position
            alias = f"*SELECT* {position + 1}"
            self.state.add(tree.RangeSubquery(leaf.query, alias, range_columns(leaf.query.targets)))

        def convert(side: _Leaf | _Node) -> tree.SetOperation | tree.FromRef:
            if isinstance(side, _Leaf):
                return tree.FromRef(side.index)
            return tree.SetOperation(
                side.kind, side.all, convert(side.left), convert(side.right), tuple(side.column_types)
            )

        operation = convert(top)
        assert isinstance(operation, tree.SetOperation)
        return operation
