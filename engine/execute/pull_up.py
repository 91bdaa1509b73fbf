"""Merges sub-queries in FROM, and so views, into the outer query, so that their tables are looked up by keys.

    SELECT v.a FROM (SELECT t.a, t.b + 1 AS c FROM t WHERE t.d > 0) v WHERE v.c = 5
    SELECT t.a FROM t WHERE t.d > 0 AND t.b + 1 = 5

A sub-query that only selects and filters, and is not on the nullable side of an outer join, can be merged without a
change of meaning. Its relations go to the end of the range table, its condition into WHERE, and its outputs replace the
references to them. (PostgreSQL: pull_up_subqueries, src/backend/optimizer/prep/prepjointree.c.)

Conditions on the columns of the remaining sub-queries are pushed down if they have the same meaning inside: into the
parts of a UNION, and below a GROUP BY if it groups by these columns. (subquery_push_qual,
src/backend/optimizer/path/allpaths.c.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce

from engine.sql import tree
from engine.sql.barriers import tells
from engine.sql.tree_walk import (
    conjuncts,
    firm_places,
    has_sublink,
    is_volatile,
    own_parts,
    shift_levels,
    substitute,
    transform,
    variables,
)


def pull_up(query: tree.Query) -> tree.Query:
    """The query with its simple sub-queries in FROM merged; the unchanged query if there are none."""
    if query.row_marks or query.set_operation is not None:
        return query
    inner: dict[int, tree.Query] = {}
    for relation in firm_places(query.from_items):
        entry = query.range_table[relation]
        if isinstance(entry, tree.RangeSubquery) and not entry.apart and _is_plain(entry.query):
            inner[relation] = pull_up(entry.query)
    _leave_whole_rows(query, inner)
    return push_down(_dissolve(query, inner) if inner else query)


def merge_locking(statement: tree.Statement) -> tree.Statement:
    """The statement with simple sub-queries merged whose rows the clause of an outer query locks: it locks only those
    that the outer query needs (PostgreSQL: pull_up_subqueries, for which such clauses are no obstacle)."""

    def change(node: object, _depth: int) -> object:
        return _merge_marked(node) if isinstance(node, tree.Query) else node

    return transform(statement, change)


def _merge_marked(query: tree.Query) -> tree.Query:
    inner: dict[int, tree.Query] = {}
    for relation in firm_places(query.from_items) if query.set_operation is None else ():
        entry = query.range_table[relation]
        if isinstance(entry, tree.RangeSubquery) and not entry.apart and entry.query.row_marks:
            within = replace(entry.query, row_marks=())
            if _is_plain(within) and all(mark.from_outer for mark in entry.query.row_marks):
                inner[relation] = within
    _leave_whole_rows(query, inner)
    if not inner:
        return query
    marks, first = list(query.row_marks), len(query.range_table)  # where `_dissolve` puts the relations
    for relation, within in inner.items():
        entry = query.range_table[relation]
        assert isinstance(entry, tree.RangeSubquery)
        marks += (replace(mark, relation=mark.relation + first) for mark in entry.query.row_marks)
        first += len(within.range_table)
    return replace(_dissolve(query, inner), row_marks=tuple(marks))


def _leave_whole_rows(query: tree.Query, inner: dict[int, tree.Query]) -> None:
    """Leaves out the sub-queries whose row as a whole the query uses."""
    for item in variables(own_parts(query)) if inner else ():
        if item.column == 0 and item.levels_up == 0:
            inner.pop(item.relation, None)


def push_down(query: tree.Query) -> tree.Query:
    """The query with the conditions that use one sub-query alone moved into that."""
    if query.where is None or not any(isinstance(entry, tree.RangeSubquery) for entry in query.range_table):
        return query
    range_table = list(query.range_table)
    kept: list[tree.Expr] = []
    places = set(firm_places(query.from_items))
    for condition in conjuncts(query.where):
        used = {(item.relation, item.levels_up) for item in variables(condition)}
        relation = next(iter(used))[0] if len(used) == 1 and next(iter(used))[1] == 0 else -1
        entry = range_table[relation] if relation in places else None
        if isinstance(entry, tree.RangeSubquery) and not has_sublink(condition) and not is_volatile(condition):
            told = entry.apart and tells(condition)
            inside = None if told else _with_condition(entry.query, condition, relation)
            if inside is not None:
                range_table[relation] = replace(entry, query=inside)
                continue
        kept.append(condition)
    if len(kept) == len(conjuncts(query.where)):
        return query
    return replace(query, range_table=tuple(range_table), where=_all_of(kept))


def _with_condition(query: tree.Query, condition: tree.Expr, relation: int) -> tree.Query | None:
    """A sub-query that returns only the rows that meet a condition on its columns, None if that is impossible."""
    present = (query.limit, query.offset, query.ctes, query.row_marks, query.windows, query.has_windows)
    if any(present) or query.has_set_functions or query.distinct:
        return None
    if query.set_operation is not None:
        range_table = list(query.range_table)
        for leaf in _union_leaves(query.set_operation):
            entry = range_table[leaf] if leaf is not None else None
            inside = (
                _with_condition(entry.query, condition, relation) if isinstance(entry, tree.RangeSubquery) else None
            )
            if leaf is None or inside is None or not isinstance(entry, tree.RangeSubquery):
                return None
            range_table[leaf] = replace(entry, query=inside)
        return replace(query, range_table=tuple(range_table))
    outputs = [target.expression for target in query.output]
    wanted = [outputs[item.column - 1] for item in variables(condition) if item.column > 0]
    grouped = query.has_aggregates or query.group_by
    if grouped and (query.grouping_sets or any(item not in query.group_by for item in wanted)):
        return None
    if is_volatile(tuple(wanted)) or any(item.column == 0 for item in variables(condition)):
        return None

    def change(node: object, depth: int) -> object:
        if isinstance(node, tree.Var) and node.relation == relation and node.levels_up == depth:
            return outputs[node.column - 1]
        return None

    moved = substitute(condition, change)
    return replace(query, where=_all_of([*conjuncts(query.where), moved]))


def _union_leaves(operation: tree.SetOperation | tree.FromRef) -> Iterator[int | None]:
    """The range table indexes of the parts of UNIONs; includes None for another operation."""
    if isinstance(operation, tree.FromRef):
        yield operation.relation
    elif operation.kind == "union":
        yield from _union_leaves(operation.left)
        yield from _union_leaves(operation.right)
    else:
        yield None


def _all_of(conditions: list[tree.Expr]) -> tree.Expr | None:
    if len(conditions) > 1:
        return tree.BoolExpr("and", tuple(conditions))
    return conditions[0] if conditions else None


def _is_plain(query: tree.Query) -> bool:
    present = (
        query.group_by, query.grouping_sets, query.having, query.windows, query.distinct is not None, query.order_by,
        query.limit, query.offset, query.set_operation, query.ctes, query.row_marks, query.has_aggregates,
        query.has_windows, query.has_set_functions,
    )  # fmt: skip
    return bool(query.from_items) and not any(present) and not is_volatile(query.targets)


def _dissolve(query: tree.Query, inner: dict[int, tree.Query]) -> tree.Query:
    range_table = list(query.range_table)
    outputs: dict[int, tuple[tree.Expr, ...]] = {}
    places: dict[int, tree.FromItem] = {}
    conditions = [] if query.where is None else [query.where]
    for relation, sub in inner.items():
        offset = len(range_table)
        moved = substitute(_Mover(offset).whole(sub), _Mover(offset).change, -1)
        range_table += moved.range_table
        outputs[relation] = tuple(target.expression for target in moved.output)
        places[relation] = reduce(_cross, moved.from_items)
        if moved.where is not None:
            conditions.append(moved.where)
        gone = query.range_table[relation]
        range_table[relation] = tree.RangeValues((), gone.alias, gone.columns)
    where = _all_of(conditions)

    def change(node: object, depth: int) -> object:
        if isinstance(node, tree.Var) and node.relation in outputs and node.levels_up == depth - 1:
            expression = substitute(outputs[node.relation][node.column - 1], change, 1)
            return shift_levels(expression, depth - 1)
        return None

    from_items = tuple(_place(item, places) for item in query.from_items)
    return substitute(replace(query, range_table=tuple(range_table), from_items=from_items, where=where), change)


def _cross(left: tree.FromItem, right: tree.FromItem) -> tree.FromItem:
    return tree.FromJoin("cross", left, right, None)


def _place(item: tree.FromItem, places: dict[int, tree.FromItem]) -> tree.FromItem:
    if isinstance(item, tree.FromRef):
        return places.get(item.relation, item)
    return replace(item, left=_place(item.left, places), right=_place(item.right, places))


class _Mover:
    """Moves a sub-query's parts into the outer query: its relations get other numbers, and its outer references are one
    level nearer."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def whole(self, query: tree.Query) -> tree.Query:
        """The query with the references of its own FROM moved; queries inside it keep theirs."""
        return replace(query, from_items=tuple(self._move(item) for item in query.from_items))

    def _move(self, item: tree.FromItem) -> tree.FromItem:
        if isinstance(item, tree.FromRef):
            return replace(item, relation=item.relation + self._offset)
        relation = item.relation + self._offset if item.relation >= 0 else -1
        return replace(item, left=self._move(item.left), right=self._move(item.right), relation=relation)

    def change(self, node: object, depth: int) -> object:
        """For `substitute`, with 0 as the depth of the sub-query's own parts."""
        if isinstance(node, tree.Var):
            if node.levels_up == depth:
                return replace(node, relation=node.relation + self._offset)
            if node.levels_up > depth:
                return replace(node, levels_up=node.levels_up - 1)
        if isinstance(node, tree.RangeCte) and node.levels_up > depth:
            return replace(node, levels_up=node.levels_up - 1)
        return None


def needed_only(query: tree.Query, needed: Sequence[int]) -> tree.Query:
    """A sub-query in FROM with NULL in place of columns without a reference."""
    if 0 in needed or query.distinct is not None or query.set_operation is not None:
        return query
    if query.volatile or query.has_set_functions or query.row_marks:
        return query
    targets, number = [], 0
    for target in query.targets:
        number += not target.junk
        spared = not target.junk and number not in needed and not isinstance(target.expression, tree.Var)
        targets.append(replace(target, expression=tree.Const(None, target.expression.type)) if spared else target)
    return replace(query, targets=tuple(targets))
