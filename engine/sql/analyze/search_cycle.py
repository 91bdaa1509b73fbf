"""SEARCH and CYCLE of WITH RECURSIVE, rewritten into plain columns (rewriteSearchCycle.c).

    SEARCH DEPTH FIRST BY a SET s     s: ARRAY[ROW(a)]      in each step   s || ROW(a)
    SEARCH BREADTH FIRST BY a SET s   s: ROW(0, a)                         ROW(depth + 1, a)
    CYCLE a SET m TO v DEFAULT d USING p
                                      m: d                                 CASE WHEN ROW(a) = ANY (p) THEN v ELSE d END
                                      p: ARRAY[ROW(a)]                     p || ROW(a)
                                      and a step does not go on from a row whose m is v

Each arm of the UNION becomes a sub-query of a query that adds these columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from catalog.types.base import TypeRef
from catalog.types.oids import BOOL, INT8, RECORD, RECORD_ARRAY
from engine.sql import ast, tree
from engine.sql.analyze import coerce, common_types, typeinfo
from engine.sql.analyze.comparisons import scalar_array_op
from engine.sql.analyze.dispatch import expression
from engine.sql.analyze.errors import fail
from engine.sql.analyze.resolve import make_operator
from engine.sql.analyze.state import State
from engine.sql.analyze.targets import range_columns
from engine.sql.tree_walk import shift_levels

_ROW, _ROWS, _DEPTH = TypeRef(RECORD), TypeRef(RECORD_ARRAY), TypeRef(INT8)
_BOOL = TypeRef(BOOL)


def rewritten(
    state: State, item: ast.CommonTableExpr, columns: Sequence[tree.RangeColumn], query: tree.Query
) -> tree.Cte:
    """The recursive WITH query with the columns of its SEARCH and CYCLE. Raises 42601, 42701, 0A000."""
    operation = query.set_operation
    assert operation is not None
    for arm, side, state_of in ((operation.left, "left", "0A000"), (operation.right, "right", "42601")):
        if not isinstance(arm, tree.FromRef):
            fail(state_of, f"with a SEARCH or CYCLE clause, the {side} side of the UNION must be a SELECT")
    _check_names(item, [column.name for column in columns])
    cycle = _cycle(state, item)
    search = None
    if item.search is not None:
        search = tree.SearchClause(item.search.breadth, item.search.columns, item.search.sequence)
    added = _Added(state, tuple(columns), search, cycle)
    left, right = query.range_table
    assert isinstance(left, tree.RangeSubquery) and isinstance(right, tree.RangeSubquery)
    arms = (added.first(left.query), added.following(item.name, right.query))
    types = tuple(column.type for column in added.extra)
    targets = [
        tree.Target(tree.Var(0, number, column.type, 0, column.name), column.name)
        for number, column in enumerate(added.extra, len(columns) + 1)
    ]
    changed = replace(
        query,
        targets=(*query.targets, *targets),
        range_table=tuple(
            tree.RangeSubquery(arm, entry.alias, range_columns(arm.targets))
            for arm, entry in zip(arms, (left, right), strict=True)
        ),
        set_operation=replace(operation, types=(*operation.types, *types)),
    )
    return tree.Cte(
        item.name, (*columns, *added.extra), changed, True, item.materialized, search, cycle, query, item.columns
    )


def _check_names(item: ast.CommonTableExpr, names: Sequence[str]) -> None:
    """analyzeCTE: which names the clauses may use."""
    search, cycle = item.search, item.cycle
    for clause, word in ((search, "search"), (cycle, "cycle")):
        for position, name in enumerate(clause.columns if clause is not None else ()):
            if name not in names:
                fail("42601", f'{word} column "{name}" not in WITH query column list', clause or -1)
            assert clause is not None
            if name in clause.columns[:position]:
                fail("42701", f'{word} column "{name}" specified more than once', clause)
    taken = "already used in WITH query column list"
    if search is not None and search.sequence in names:
        fail("42601", f'search sequence column name "{search.sequence}" {taken}', search)
    if cycle is None:
        return
    for name, what in ((cycle.mark, "cycle mark"), (cycle.path, "cycle path")):
        if name in names:
            fail("42601", f'{what} column name "{name}" {taken}', cycle)
    if cycle.mark == cycle.path:
        fail("42601", "cycle mark column name and cycle path column name are the same", cycle)
    for name, what in ((cycle.mark, "cycle mark"), (cycle.path, "cycle path")):
        if search is not None and search.sequence == name:
            fail("42601", f"search sequence column name and {what} column name are the same", search)


def _cycle(state: State, item: ast.CommonTableExpr) -> tree.CycleClause | None:
    node = item.cycle
    if node is None:
        return None
    if node.value is None or node.default is None:
        value: tree.Expr = tree.Const(True, _BOOL)
        default: tree.Expr = tree.Const(False, _BOOL)
    else:
        pair = [expression(State(state.shared, state), part, "CYCLE") for part in (node.value, node.default)]
        oid = common_types.select_common_type(pair, "CYCLE")[0]
        if not typeinfo.has_equality(oid):
            fail("42883", f"could not identify an equality operator for type {typeinfo.type_name(oid)}")
        value, default = (coerce.to_common(state, part, oid, "CYCLE/SET") for part in pair)
    return tree.CycleClause(node.columns, node.mark, value, default, node.path)


class _Added:
    """The columns that the clauses add, and both arms with them."""

    def __init__(
        self,
        state: State,
        columns: tuple[tree.RangeColumn, ...],
        search: tree.SearchClause | None,
        cycle: tree.CycleClause | None,
    ) -> None:
        self._state = state
        self._columns = columns
        self._search = search
        self._cycle = cycle
        self.extra: list[tree.RangeColumn] = []
        if search is not None:
            self.extra.append(tree.RangeColumn(search.sequence, _ROW if search.breadth else _ROWS))
        if cycle is not None:
            self.extra.append(tree.RangeColumn(cycle.mark, cycle.value.type))
            self.extra.append(tree.RangeColumn(cycle.path, _ROWS))

    def first(self, query: tree.Query) -> tree.Query:
        """The non-recursive term."""
        made: list[tree.Expr] = []
        if self._search is not None:
            row = self._row(self._search.columns, tree.Const(0, _DEPTH) if self._search.breadth else None)
            made.append(row if self._search.breadth else tree.ArrayExpr((row,), _ROWS, _ROW))
        if self._cycle is not None:
            made += [self._cycle.default, tree.ArrayExpr((self._row(self._cycle.columns),), _ROWS, _ROW)]
        return self._around(query, made)

    def following(self, name: str, query: tree.Query) -> tree.Query:
        """The recursive term, which reads the added columns of the row that it goes on from."""
        place = next(
            (
                place
                for place, entry in enumerate(query.range_table)
                if isinstance(entry, tree.RangeCte) and entry.recursive_self and entry.name == name
            ),
            None,
        )
        if place is None:
            fail(
                "0A000",
                f'with a SEARCH or CYCLE clause, the recursive reference to WITH query "{name}" must be at the top '
                "level of its right-hand SELECT",
            )
        entry = query.range_table[place]
        assert isinstance(entry, tree.RangeCte)
        entries = list(query.range_table)
        entries[place] = replace(entry, columns=(*entry.columns, *self.extra))
        known = len(self._columns)
        carried = [tree.Var(place, known + n, column.type, 0, column.name) for n, column in enumerate(self.extra, 1)]
        targets = [tree.Target(variable, variable.name) for variable in carried]
        where = query.where
        if self._cycle is not None:
            goes_on = make_operator(self._state, ("<>",), carried[-2], self._cycle.value, -1)
            where = goes_on if where is None else tree.BoolExpr("and", (where, goes_on))
        inner = replace(query, range_table=tuple(entries), targets=(*query.targets, *targets), where=where)
        made: list[tree.Expr] = []
        if self._search is not None:
            made.append(self._next_in_search(self._search))
        if self._cycle is not None:
            mark, path = self._next_in_cycle(self._cycle)
            made += [mark, path]
        return self._around(inner, made)

    def _next_in_search(self, search: tree.SearchClause) -> tree.Expr:
        before = self._extra(0)
        if not search.breadth:
            return make_operator(self._state, ("||",), before, self._row(search.columns), -1)
        depth = tree.FieldSelect(before, 1, "f1", _DEPTH)
        return self._row(search.columns, make_operator(self._state, ("+",), depth, tree.Const(1, _DEPTH), -1))

    def _next_in_cycle(self, cycle: tree.CycleClause) -> tuple[tree.Expr, tree.Expr]:
        path, row = self._extra(len(self.extra) - 1), self._row(cycle.columns)
        found = scalar_array_op(self._state, ("=",), True, row, path, -1)
        mark = tree.CaseExpr(None, ((found, cycle.value),), cycle.default, cycle.value.type)
        return mark, make_operator(self._state, ("||",), path, row, -1)

    def _extra(self, number: int) -> tree.Var:
        column = self.extra[number]
        return tree.Var(0, len(self._columns) + 1 + number, column.type, 0, column.name)

    def _row(self, names: Sequence[str], first: tree.Expr | None = None) -> tree.Expr:
        places = {column.name: place for place, column in enumerate(self._columns, 1)}
        values: list[tree.Expr] = [] if first is None else [first]
        values += [tree.Var(0, places[name], self._columns[places[name] - 1].type, 0, name) for name in names]
        return tree.RowExpr(tuple(values), tuple(f"f{n}" for n in range(1, len(values) + 1)))

    def _around(self, query: tree.Query, made: Sequence[tree.Expr]) -> tree.Query:
        inner = shift_levels(query, 1)
        plain = [tree.Var(0, n, column.type, 0, column.name) for n, column in enumerate(self._columns, 1)]
        targets = [tree.Target(variable, variable.name) for variable in plain]
        targets += [tree.Target(value, column.name) for value, column in zip(made, self.extra, strict=True)]
        entry = tree.RangeSubquery(inner, "*SELECT*", range_columns(inner.targets))
        return tree.Query(tuple(targets), (entry,), (tree.FromRef(0),), volatile=query.volatile)
