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

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

from catalog.errors import not_supported
from catalog.types.base import TypeRef
from catalog.types.oids import BOOL
from engine.sql import tree
from engine.sql.analyze.routines import is_routine
from engine.sql.levels import Below
from engine.sql.parts import STAGE, reaches_out, reads_a_stage, scan_of
from engine.sql.tree_walk import conjuncts, is_volatile, transform, walk, walk_with_depth

Test = Callable[[object], bool]


def in_stages(root: tree.Statement, calls: Test) -> tree.Statement:
    """The statement with its stages in WITH; itself if nothing can be divided. `calls`: whether a part of the tree
    calls functions that run statements."""
    lifted = _Stages(root)
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
        changed = _divide(changed, lifted)
        if any(_is_hard(stage) and calls(stage) for stage in map(_query, lifted[whole:])):
            return root
    if not lifted:
        return root
    return replace(changed, ctes=(*changed.ctes, *lifted))


def source_above(root: tree.Insert) -> tree.Insert:
    """The INSERT with its source in a stage of its own."""
    assert root.source is not None
    lifted = _Stages(root)
    changed = replace(root, source=_lift(lifted, root.source, 1))
    return replace(changed, ctes=(*root.ctes, *lifted))


def calls_above(root: tree.Query, calls: Test) -> tree.Query:
    """The query with the calls of its output and of its condition in a stage of their own, over all else of it; itself
    if that cannot be done.

    SELECT nextval('s'), a FROM t ORDER BY b LIMIT 5     WITH 0 AS (SELECT a AS c1 FROM t ORDER BY b LIMIT 5)
                                                         SELECT nextval('s'), c1 FROM 0
    """
    if not root.from_items and root.set_operation is None:
        return root
    lifted = _Stages(root)

    def change(item: object, depth: int) -> object:
        if not isinstance(item, tree.RangeSubquery) or depth != 1 or not calls(item.query):
            return item
        return item if reaches_out(item.query, True) else replace(item, query=_lift(lifted, item.query, depth))

    changed = transform(root, change)
    if lifted:
        return replace(changed, ctes=(*changed.ctes, *lifted))
    if root.row_marks or root.set_operation is not None or root.has_set_functions or reads_a_stage(root):
        return root
    if root.distinct is not None:
        return _distinct_above(root, lifted)
    below = _BelowCalls(root, calls)
    above = replace(
        root, group_by=(), grouping_sets=(), having=None, windows=(), has_aggregates=False, has_windows=False, ctes=()
    )
    tested = [item for item in conjuncts(root.where) if calls(item)]
    if tested:
        if root.has_windows or root.has_aggregates or root.group_by or root.having is not None:
            return root
        plain = [item for item in conjuncts(root.where) if not calls(item)]
        targets, order_by = below.rebuilt(root.targets), below.rebuilt(root.order_by)
        above = replace(above, targets=targets, order_by=order_by, where=below.rebuilt(_all_of(tested)))
        inner = replace(root, where=_all_of(plain), order_by=(), limit=None, offset=None, limit_with_ties=False)
    else:
        above = replace(above, targets=below.rebuilt(root.output), where=None, order_by=(), limit_with_ties=False)
        inner = root
        if root.offset is None or root.limit_with_ties:
            above = replace(above, limit=None, offset=None)
        else:  # calls are made for the rows that OFFSET skips, too
            inner = replace(root, limit=None, offset=None)
    inner = replace(inner, targets=_targets(below.columns), ctes=())
    if calls(inner):
        return root
    source = _add(lifted, inner)
    return replace(above, range_table=source, from_items=(tree.FromRef(0),), ctes=(*root.ctes, *lifted))


def _distinct_above(root: tree.Query, lifted: _Stages) -> tree.Query:
    """DISTINCT over a stage that computes the rows."""
    inputs = _Inputs()
    targets = tuple([replace(item, expression=inputs.of(item.expression)) for item in root.targets])
    above = tree.Query(
        targets,
        distinct=inputs.each(root.distinct or ()),
        order_by=inputs.sort_clauses(root.order_by),
        limit=root.limit,
        limit_with_ties=root.limit_with_ties,
        offset=root.offset,
    )
    inner = replace(root, distinct=None, order_by=(), limit=None, limit_with_ties=False, offset=None, ctes=())
    source = _add(lifted, replace(inner, targets=_targets(inputs.columns)))
    return replace(above, range_table=source, from_items=(tree.FromRef(0),), ctes=(*root.ctes, *lifted))


def _all_of(conditions: Sequence[tree.Expr]) -> tree.Expr | None:
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return tree.BoolExpr("and", tuple(conditions))


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


def _lift(lifted: _Stages, query: tree.Query, depth: int) -> tree.Query:
    """Moves a query to WITH of the query `depth` levels out; what reads it there."""
    columns = tuple(tree.RangeColumn(target.name, target.expression.type) for target in query.output)
    cte = tree.Cte(lifted.next_name(), columns, query)
    lifted.append(cte)
    return scan_of(tree.RangeCte(cte.name, depth, cte.name, columns))


def _is_constant(item: tree.Expr) -> bool:
    if is_volatile(item):
        return False
    depends = tree.Var | tree.Aggref | tree.GroupingFunc | tree.WindowFunc | tree.SubLink
    return not any(isinstance(node, depends) or is_routine(node) for node in walk(item))


class _Stages(list[tree.Cte]):
    """The WITH queries of the stages, whose names are none of the root's."""

    def __init__(self, root: tree.Statement) -> None:
        super().__init__()
        self._taken = {cte.name for cte in root.ctes}

    def next_name(self) -> str:
        name = next(name for name in map(f"{STAGE} {{}}".format, itertools.count()) if name not in self._taken)
        self._taken.add(name)
        return name


class _BelowCalls(Below):
    """The columns below calls: sub-queries without them too."""

    def __init__(self, query: tree.Query, calls: Test) -> None:
        super().__init__(query)
        self._calls = calls

    def is_column(self, item: object, depth: int) -> bool:
        if not depth and isinstance(item, tree.SubLink) and not self._calls(item):
            return True
        return super().is_column(item, depth)


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

    def sort_clauses(self, items: Sequence[tree.SortClause]) -> tuple[tree.SortClause, ...]:
        return tuple([replace(item, expression=self.of(item.expression)) for item in items])


def _divide(query: tree.Query, lifted: _Stages) -> tree.Query:
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


def _source_of(query: tree.Query, columns: Sequence[tree.Expr], lifted: _Stages) -> tuple[tree.RangeEntry, ...]:
    """The range table with these columns of a query, which is divided further."""
    if query.has_windows:
        return _windows(query, columns, lifted)
    if _has_hard_groups(query):
        return _groups(query, columns, lifted)
    if _has_hard_joins(query):
        return _joins(query, columns, lifted)
    return _add(lifted, replace(query, targets=_targets(columns)))


def _windows(query: tree.Query, columns: Sequence[tree.Expr], lifted: _Stages) -> tuple[tree.RangeEntry, ...]:
    inputs = _Inputs()
    windows = tuple(
        [
            replace(item, partition_by=inputs.each(item.partition_by), order_by=inputs.sort_clauses(item.order_by))
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


def _groups(query: tree.Query, columns: Sequence[tree.Expr], lifted: _Stages) -> tuple[tree.RangeEntry, ...]:
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
                    order_by=inputs.sort_clauses(item.order_by),
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


def _joins(query: tree.Query, columns: Sequence[tree.Expr], lifted: _Stages) -> tuple[tree.RangeEntry, ...]:
    below = Below(query)
    targets, where = below.rebuilt(_targets(columns)), below.rebuilt(query.where)
    source = _add(lifted, replace(query, targets=_targets(below.columns), where=None))
    return _add(lifted, replace(_over(source, (), where=where), targets=targets))


def _targets(columns: Sequence[tree.Expr]) -> tuple[tree.Target, ...]:
    columns = columns or (tree.Const(True, TypeRef(BOOL)),)  # of which only the number of rows is needed
    return tuple([tree.Target(item, f"c{number}") for number, item in enumerate(columns, 1)])


def _over(source: tuple[tree.RangeEntry, ...], columns: Sequence[tree.Expr], **parts: object) -> tree.Query:
    return tree.Query(_targets(columns), source, (tree.FromRef(0),), **parts)  # type: ignore[arg-type]


def _add(lifted: _Stages, query: tree.Query) -> tuple[tree.RangeEntry, ...]:
    """Adds a stage; a range table that reads it. Its own WITH queries are one level further away."""

    def change(item: object, depth: int) -> object:
        if isinstance(item, tree.RangeCte) and item.levels_up == depth - 1:
            return replace(item, levels_up=depth)
        return item

    moved = transform(query, change)
    columns = tuple(tree.RangeColumn(target.name, target.expression.type) for target in query.targets)
    cte = tree.Cte(lifted.next_name(), columns, moved)
    lifted.append(cte)
    return (tree.RangeCte(cte.name, 0, cte.name, columns),)
