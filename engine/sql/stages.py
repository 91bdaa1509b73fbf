"""Queries that call functions which run statements, as several queries that run one after the other.

Only the row path can call such a function, and it has neither window functions nor grouping sets nor FULL JOIN. So a
query with both becomes several, each of which needs one path:

    SELECT b, rank() OVER (ORDER BY f(a)) FROM t WHERE g(a) > 1 ORDER BY h(b)

    WITH 1 AS (SELECT f(a) AS c1, b AS c2 FROM t WHERE g(a) > 1),        row path
         2 AS (SELECT rank() OVER (ORDER BY c1) AS c1, c2 FROM 1)        columnar path
    SELECT c2, c1 FROM 2 ORDER BY h(c2)                                  row path

engine/sql/parts.py makes a part of each. A sub-query of this kind that refers to nothing outside of it moves to WITH as
it is, and is divided when its part is planned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from catalog.errors import not_supported
from catalog.types.base import TypeRef
from catalog.types.oids import BOOL
from engine.sql import tree
from engine.sql.analyze.routines import is_routine
from engine.sql.levels import Below
from engine.sql.parts import STAGE, reaches_out, scan_of
from engine.sql.tree_walk import is_volatile, transform, walk, walk_with_depth

Test = Callable[[object], bool]


def in_stages(root: tree.Statement, calls: Test) -> tree.Statement:
    """The statement with its stages in WITH; itself if nothing can be divided. `calls`: whether a part of the tree
    calls functions that run statements."""
    lifted: list[tree.Cte] = []
    joined = isinstance(root, tree.Query) and _has_hard_joins(root)

    def change(item: object, depth: int) -> object:
        if isinstance(item, tree.Insert) and item.source is not None and not depth and _is_divided(item.source):
            return replace(item, source=_lift(lifted, item.source, 1))
        if not isinstance(item, tree.SubLink | tree.RangeSubquery) or not depth:
            return item
        moves = _is_divided(item.query) or (joined and depth == 1 and calls(item.query))
        if not moves or reaches_out(item.query, named_too=True):
            return item
        return replace(item, query=_lift(lifted, item.query, depth))

    changed = transform(root, change)
    if isinstance(changed, tree.Query) and not changed.row_marks and _is_hard(changed) and calls(changed):
        whole = len(lifted)
        changed = _divided(changed, lifted)
        if any(_is_hard(stage) and calls(stage) for stage in map(_query, lifted[whole:])):
            return root
    if not lifted:
        return root
    return replace(changed, ctes=(*changed.ctes, *lifted))


def _query(cte: tree.Cte) -> tree.Query:
    assert isinstance(cte.query, tree.Query)
    return cte.query


def _is_divided(query: tree.Query) -> bool:
    return any(isinstance(item, tree.Query) and _is_hard(item) for item in walk(query))


def _is_hard(query: tree.Query) -> bool:
    """Whether the query itself, not a sub-query, has something that the row path lacks."""
    return query.has_windows or _has_hard_groups(query) or _has_hard_joins(query)


def _has_hard_groups(query: tree.Query) -> bool:
    if query.grouping_sets:
        return True
    own = (query.targets, query.having, query.order_by, query.windows)
    return query.has_aggregates and any(
        isinstance(item, tree.GroupingFunc) or (isinstance(item, tree.Aggref) and bool(item.direct_arguments))
        for item, depth in walk_with_depth(own)
        if depth == 0
    )


def _has_hard_joins(query: tree.Query) -> bool:
    waiting = list(query.from_items)
    while waiting:
        item = waiting.pop()
        if isinstance(item, tree.FromJoin):
            if item.kind == "full":
                return True
            waiting += (item.left, item.right)
    return False


def _lift(lifted: list[tree.Cte], query: tree.Query, depth: int) -> tree.Query:
    """Moves a query to WITH of the query `depth` levels out; what reads it there."""
    columns = tuple(tree.RangeColumn(target.name, target.expression.type) for target in query.output)
    cte = tree.Cte(f"{STAGE} {len(lifted)}", columns, query)
    lifted.append(cte)
    return scan_of(tree.RangeCte(cte.name, depth, cte.name, columns))


def _is_constant(item: tree.Expr) -> bool:
    if is_volatile(item):
        return False
    depends = tree.Var | tree.Aggref | tree.GroupingFunc | tree.WindowFunc | tree.SubLink
    return not any(isinstance(node, depends) or is_routine(node) for node in walk(item))


class _Inputs:
    """The columns that a lower stage computes."""

    def __init__(self) -> None:
        self.columns: list[tree.Expr] = []
        self._numbers: dict[tree.Expr, int] = {}

    def of(self, item: tree.Expr) -> tree.Expr:
        """The column with the value of an expression. Constants stay where they are."""
        if _is_constant(item):
            return item
        number = self._numbers.get(item)
        if number is None:
            self.columns.append(item)
            number = self._numbers[item] = len(self.columns)
        return tree.Var(0, number, item.type)

    def each(self, items: Sequence[tree.Expr]) -> tuple[tree.Expr, ...]:
        return tuple([self.of(item) for item in items])

    def sorted(self, items: Sequence[tree.SortClause]) -> tuple[tree.SortClause, ...]:
        return tuple([replace(item, expression=self.of(item.expression)) for item in items])


def _divided(query: tree.Query, lifted: list[tree.Cte]) -> tree.Query:
    """The last stage of a query; the others are added to `lifted`."""
    below = Below(query)
    above = replace(
        query,
        targets=below.rebuilt(query.targets),
        distinct=below.rebuilt(query.distinct),
        order_by=below.rebuilt(query.order_by),
        where=None,
        group_by=(),
        grouping_sets=(),
        having=None,
        windows=(),
        has_aggregates=False,
        has_windows=False,
    )
    inner = replace(query, distinct=None, order_by=(), limit=None, limit_with_ties=False, offset=None, ctes=())
    source = _source_of(inner, below.columns, lifted)
    return replace(above, range_table=source, from_items=(tree.FromRef(0),))


def _source_of(query: tree.Query, columns: Sequence[tree.Expr], lifted: list[tree.Cte]) -> tuple[tree.RangeEntry, ...]:
    """The range table with these columns of a query, which is divided further."""
    if query.has_windows:
        return _windows(query, columns, lifted)
    if _has_hard_groups(query):
        return _groups(query, columns, lifted)
    if _has_hard_joins(query):
        return _joins(query, columns, lifted)
    return _add(lifted, replace(query, targets=_targets(columns)))


def _windows(query: tree.Query, columns: Sequence[tree.Expr], lifted: list[tree.Cte]) -> tuple[tree.RangeEntry, ...]:
    inputs = _Inputs()
    windows = tuple(
        [
            replace(item, partition_by=inputs.each(item.partition_by), order_by=inputs.sorted(item.order_by))
            for item in query.windows
        ]
    )
    found: list[tree.Expr] = []
    for item in columns:
        if isinstance(item, tree.WindowFunc):
            tested = None if item.filter is None else inputs.of(item.filter)
            found.append(replace(item, arguments=inputs.each(item.arguments), filter=tested))
        else:
            found.append(inputs.of(item))
    source = _source_of(replace(query, windows=(), has_windows=False), inputs.columns, lifted)
    return _add(lifted, _over(source, found, windows=windows, has_windows=True))


def _groups(query: tree.Query, columns: Sequence[tree.Expr], lifted: list[tree.Cte]) -> tuple[tree.RangeEntry, ...]:
    below = Below(query)
    targets, having = below.rebuilt(_targets(columns)), below.rebuilt(query.having)
    inputs = _Inputs()
    groups = inputs.each(query.group_by)
    found: list[tree.Expr] = []
    for item in below.columns:
        if isinstance(item, tree.Aggref):
            if not all(_is_constant(value) or value in below.groups for value in item.direct_arguments):
                not_supported(f"such direct arguments of aggregate {item.function.name} beside this call")
            tested = None if item.filter is None else inputs.of(item.filter)
            found.append(
                replace(
                    item,
                    arguments=inputs.each(item.arguments),
                    direct_arguments=inputs.each(item.direct_arguments),
                    order_by=inputs.sorted(item.order_by),
                    filter=tested,
                )
            )
        elif isinstance(item, tree.GroupingFunc):
            found.append(replace(item, arguments=inputs.each(item.arguments)))
        else:
            found.append(inputs.of(item))
    plain = replace(query, group_by=(), grouping_sets=(), having=None, has_aggregates=False)
    source = _source_of(plain, inputs.columns, lifted)
    grouped = _over(source, found, group_by=groups, grouping_sets=query.grouping_sets, has_aggregates=True)
    upper = _over(_add(lifted, grouped), (), where=having)
    return _add(lifted, replace(upper, targets=targets))


def _joins(query: tree.Query, columns: Sequence[tree.Expr], lifted: list[tree.Cte]) -> tuple[tree.RangeEntry, ...]:
    below = Below(query)
    targets, where = below.rebuilt(_targets(columns)), below.rebuilt(query.where)
    source = _add(lifted, replace(query, targets=_targets(below.columns), where=None))
    return _add(lifted, replace(_over(source, (), where=where), targets=targets))


def _targets(columns: Sequence[tree.Expr]) -> tuple[tree.Target, ...]:
    columns = columns or (tree.Const(True, TypeRef(BOOL)),)  # of which only the number of rows is needed
    return tuple([tree.Target(item, f"c{number}") for number, item in enumerate(columns, 1)])


def _over(source: tuple[tree.RangeEntry, ...], columns: Sequence[tree.Expr], **parts: object) -> tree.Query:
    return tree.Query(_targets(columns), source, (tree.FromRef(0),), **parts)  # type: ignore[arg-type]


def _add(lifted: list[tree.Cte], query: tree.Query) -> tuple[tree.RangeEntry, ...]:
    """Adds a stage; a range table that reads it. Its own WITH queries are one level further away."""

    def change(item: object, depth: int) -> object:
        if isinstance(item, tree.RangeCte) and item.levels_up == depth - 1:
            return replace(item, levels_up=depth)
        return item

    moved = transform(query, change)
    columns = tuple(tree.RangeColumn(target.name, target.expression.type) for target in query.targets)
    cte = tree.Cte(f"{STAGE} {len(lifted)}", columns, moved)
    lifted.append(cte)
    return (tree.RangeCte(cte.name, 0, cte.name, columns),)
