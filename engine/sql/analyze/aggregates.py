"""Aggregate and window calls, and the rules about where they and ungrouped columns may stand (parse_agg.c)."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.functions import registry
from catalog.functions.base import Function
from catalog.schema import Table
from catalog.types import oids
from catalog.types.base import TypeRef
from engine.sql import ast, tree
from engine.sql.analyze import coerce, common_types, typeinfo
from engine.sql.analyze.dispatch import expression, operand
from engine.sql.analyze.errors import expr_location, fail, refuse
from engine.sql.analyze.sortable import (
    find_sort_expression,
    has_order,
    must_have_equality,
    must_have_order,
    sort_clause,
)
from engine.sql.analyze.state import State
from engine.sql.analyze.typeinfo import type_name
from engine.sql.tree_walk import children, shift_levels, walk, walk_with_depth

_AGGREGATES_ALLOWED = frozenset({"", "select", "HAVING", "ORDER BY", "DISTINCT ON", "window definitions"})
_WINDOWS_ALLOWED = frozenset({"", "select", "ORDER BY", "DISTINCT ON"})


def aggregate_call(
    state: State, node: ast.FuncCall, function: Function, arguments: tuple[tree.Expr, ...], direct: int, result: TypeRef
) -> tree.Expr:
    """A call of an aggregate, plain or as a window function; `direct` arguments come before WITHIN GROUP's."""
    name = function.name
    detail = registry.aggregate_of(function)
    if not arguments and not node.star and not node.within_group:
        fail("42809", f"{name}(*) must be used to call a parameterless aggregate function", node)
    if node.within_group and detail.kind == "n":
        fail("42809", f"{name} is not an ordered-set aggregate, so it cannot have WITHIN GROUP", node)
    if not node.within_group and detail.kind != "n":
        fail("42809", f"WITHIN GROUP is required for ordered-set aggregate {name}", node)
    if node.within_group and node.distinct:
        fail("0A000", "cannot use DISTINCT with WITHIN GROUP", node)
    if node.over is not None:
        if detail.kind != "n":
            fail("0A000", f"OVER is not supported for ordered-set aggregate {name}", node)
        if node.distinct:
            fail("0A000", "DISTINCT is not implemented for window functions", node)
        if node.order_by:
            fail("0A000", "aggregate ORDER BY is not implemented for window functions", node)
        return window_call(state, node, function, arguments, result)
    if node.within_group:
        order_by = tuple(
            sort_clause(state, value, item) for value, item in zip(arguments[direct:], node.order_by, strict=False)
        )
        direct_arguments, own = arguments[:direct], arguments[direct:]
    else:
        order_by = tuple(
            sort_clause(state, _sort_argument(state, item.expression, arguments), item) for item in node.order_by
        )
        direct_arguments, own = (), arguments
    if node.distinct:
        _check_distinct(state, own, order_by, node)
    condition = None
    if node.filter is not None:
        condition = coerce.to_boolean(state, expression(state, node.filter, "FILTER"), "FILTER")
    level = _aggregate_level((direct_arguments, own, tuple(item.expression for item in order_by), condition), node)
    owner = state.up(level)
    owner.aggregates = True
    if owner.kind not in _AGGREGATES_ALLOWED:
        fail("42803", f"aggregate functions are not allowed in {_place(owner.kind)}", node)
    return tree.Aggref(
        function, own, result, direct_arguments, node.star, node.distinct, order_by, condition, level,
        node.location,
    )  # fmt: skip


def unify_hypothetical(
    state: State, node: ast.FuncCall, function: Function, arguments: list[tree.Expr], direct: int
) -> list[tree.Expr]:
    """rank(x) WITHIN GROUP (ORDER BY y) and similar calls: each direct argument gets a common type with its ordering
    column."""
    if registry.aggregate_of(function).kind != "h":
        return arguments
    count = len(arguments) - direct
    if count != direct:
        shown = typeinfo.type_names([item.type.oid for item in arguments])
        fail(
            "42883",
            f"function {function.name}({shown}) does not exist",
            node,
            hint=f"To use the hypothetical-set aggregate {function.name}, the number of hypothetical direct arguments "
            f"(here {direct}) must match the number of ordering columns (here {count}).",
        )
    unified = list(arguments)
    for position in range(direct):
        pair = (arguments[direct + position], arguments[position])
        oid = common_types.select_common_type(pair, "WITHIN GROUP")[0]
        unified[position] = coerce.to_common(state, arguments[position], oid, "WITHIN GROUP")
        unified[direct + position] = coerce.to_common(state, arguments[direct + position], oid, "WITHIN GROUP")
    return unified


def _sort_argument(state: State, node: ast.Node, arguments: tuple[tree.Expr, ...]) -> tree.Expr:
    """A sort key of an aggregate. A key that equals an argument without its implicit cast is that argument."""
    value = coerce.settle_unknown(state, operand(state, node))
    return next((item for item in arguments if coerce.strip_implicit(item) == value), value)


def _place(kind: str) -> str:
    return "VALUES" if kind == "single VALUES" else kind


def _check_distinct(
    state: State, arguments: tuple[tree.Expr, ...], order_by: tuple[tree.SortClause, ...], node: ast.FuncCall
) -> None:
    for value in arguments:
        must_have_equality(state, value)
        must_have_order(
            state,
            value.type,
            expr_location(value),
            "Aggregates with DISTINCT must be able to sort their inputs.",
        )
    for item in order_by:
        if not any(item.expression is value or _same_plain(item.expression, value) for value in arguments):
            fail(
                "42P10",
                "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list",
                expr_location(item.expression),
            )


def _same_plain(key: tree.Expr, value: tree.Expr) -> bool:
    """Whether a sort key equals an argument that has no implicit cast."""
    return key == value and coerce.strip_implicit(value) is value


def _aggregate_level(parts: object, node: ast.FuncCall) -> int:
    """check_agg_arguments: the query level of the aggregate, from its variables."""
    lowest_variable = lowest_aggregate = inner_location = -1
    pending: list[tuple[object, int]] = [(part, 0) for part in children(parts)]
    while pending:
        item, depth = pending.pop()
        if isinstance(item, tree.Var):
            level = item.levels_up - depth
            if level >= 0 and (lowest_variable < 0 or level < lowest_variable):
                lowest_variable = level
            continue
        if isinstance(item, (tree.Const, tree.Param)):
            continue
        if isinstance(item, tree.Aggref):
            level = item.levels_up - depth
            if level >= 0 and (lowest_aggregate < 0 or level < lowest_aggregate):
                lowest_aggregate, inner_location = level, item.location
        if depth == 0:
            if isinstance(item, tree.FuncExpr) and item.function.returns_set:
                fail(
                    "0A000", "aggregate function calls cannot contain set-returning function calls", item.location,
                    hint="You might be able to move the set-returning function into a LATERAL FROM item.",
                )  # fmt: skip
            if isinstance(item, tree.WindowFunc):
                fail("42803", "aggregate function calls cannot contain window function calls", item.location)
        inner = depth + 1 if isinstance(item, tree.Query) else depth
        pending.extend((child, inner) for child in children(item))
    if lowest_variable < 0:
        level = max(lowest_aggregate, 0)
    elif lowest_aggregate < 0:
        level = lowest_variable
    else:
        level = min(lowest_variable, lowest_aggregate)
    if level == lowest_aggregate:
        fail("42803", "aggregate function calls cannot be nested", inner_location)
    return level


def first_aggregate(exprs: Sequence[tree.Expr | None]) -> int:
    """The position of the first aggregate of this query level, or -1."""
    found = [
        item.location
        for item, depth in walk_with_depth(tuple(exprs))
        if isinstance(item, tree.Aggref) and item.levels_up == depth
    ]
    return min(found, default=-1)


# ---- windows --------------------------------------------------------------------------------------------------------


def window_call(
    state: State, node: ast.FuncCall, function: Function, arguments: tuple[tree.Expr, ...], result: TypeRef
) -> tree.Expr:
    """A call with OVER. The window is recorded, and built when the whole query level has been seen."""
    over = node.over
    assert over is not None
    if function.kind == "w":
        if node.distinct:
            fail("0A000", "DISTINCT is not implemented for window functions", node)
        if node.order_by:
            fail("0A000", "aggregate ORDER BY is not implemented for window functions", node)
        if node.filter is not None:
            fail("0A000", "FILTER is not implemented for non-aggregate window functions", node)
        if node.star:
            fail("42809", f"{function.name}(*) specified, but {function.name} is not an aggregate function", node)
    condition = None
    if node.filter is not None:
        condition = coerce.to_boolean(state, expression(state, node.filter, "FILTER"), "FILTER")
    for item, depth in walk_with_depth((*arguments, condition)):
        if isinstance(item, tree.WindowFunc) and depth == 0:
            fail("42P20", "window function calls cannot be nested", item.location)
        if isinstance(item, tree.FuncExpr) and item.function.returns_set and depth == 0:
            fail(
                "0A000", "window function calls cannot contain set-returning function calls", item.location,
                hint="You might be able to move the set-returning function into a LATERAL FROM item.",
            )  # fmt: skip
    if state.kind not in _WINDOWS_ALLOWED:
        fail("42P20", f"window functions are not allowed in {_place(state.kind)}", node)
    state.window_calls = True
    index = _window_index(state, over)
    return tree.WindowFunc(function, arguments, result, index, node.star, condition, node.location)


def _window_index(state: State, over: ast.WindowDef) -> int:
    if over.name is not None:
        for index, window in enumerate(state.windows):
            if window.name == over.name:
                return index
        fail("42704", f'window "{over.name}" does not exist', over)
    state.windows.append(over)
    return len(state.windows) - 1


def window_clauses(state: State, targets: list[tree.Target]) -> tuple[tree.WindowClause, ...]:
    """transformWindowDefinitions: every window of the query level, named ones first."""
    done: list[tree.WindowClause] = []
    for position, window in enumerate(state.windows):
        if window.name is not None and any(item.name == window.name for item in state.windows[:position]):
            fail("42P20", f'window "{window.name}" is already defined', window)
        base = None
        if window.refname is not None:
            base = next((item for item in done if item.name == window.refname), None)
            if base is None:
                fail("42704", f'window "{window.refname}" does not exist', window)
        order = tuple(
            sort_clause(state, find_sort_expression(state, item.expression, targets, "window definitions"), item)
            for item in window.order_by
        )
        partition = tuple(
            _partition(state, find_sort_expression(state, item, targets, "window definitions"))
            for item in window.partition_by
        )
        if base is not None:
            partition, order = _inherit(window, base, partition, order)
        done.append(_frame(state, window, partition, order))
    return tuple(done)


def _partition(state: State, value: tree.Expr) -> tree.Expr:
    """A key of PARTITION BY, which needs an order. Raises 42883, 0A000."""
    must_have_equality(state, value)
    if not has_order(state, value.type):
        detail = "Window partitioning columns must be of sortable datatypes."
        fail("0A000", "could not implement window PARTITION BY", -1, detail=detail)
    return value


def _inherit(
    window: ast.WindowDef,
    base: tree.WindowClause,
    partition: tuple[tree.Expr, ...],
    order: tuple[tree.SortClause, ...],
) -> tuple[tuple[tree.Expr, ...], tuple[tree.SortClause, ...]]:
    name = window.refname
    if partition:
        fail("42P20", f'cannot override PARTITION BY clause of window "{name}"', window)
    if order and base.order_by:
        fail("42P20", f'cannot override ORDER BY clause of window "{name}"', window)
    if base.frame_mode and (base.frame_mode, base.frame_start[0], base.frame_end[0]) != _DEFAULT_FRAME:
        if window.name is not None or order or window.frame_mode:
            fail("42P20", f'cannot copy window "{name}" because it has a frame clause', window)
        fail(
            "42P20", f'cannot copy window "{name}" because it has a frame clause', window,
            hint="Omit the parentheses in this OVER clause.",
        )  # fmt: skip
    return base.partition_by, order or base.order_by


_DEFAULT_FRAME = ("range", "unbounded_preceding", "current_row")


def _frame(
    state: State, window: ast.WindowDef, partition: tuple[tree.Expr, ...], order: tuple[tree.SortClause, ...]
) -> tree.WindowClause:
    mode = window.frame_mode or "range"
    bounds = [window.frame_start, window.frame_end] if window.frame_mode else [
        ("unbounded_preceding", None), ("current_row", None)
    ]  # fmt: skip
    if mode == "groups" and not order:
        fail("42P20", "GROUPS mode requires an ORDER BY clause", window)
    offsets: list[tuple[str, tree.Expr | None]] = []
    for bound, offset in bounds:
        if offset is None:
            offsets.append((bound, None))
            continue
        if mode == "range" and len(order) != 1:
            fail("42P20", "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column", window)
        offsets.append((bound, _frame_offset(state, mode, offset, order)))
    return tree.WindowClause(window.name, partition, order, mode, offsets[0], offsets[1], window.exclude)


# RANGE offsets: the type of the ordering column -> the type of the offset (the in_range support functions).
_RANGE_OFFSETS = {
    oids.INT2: oids.INT8, oids.INT4: oids.INT8, oids.INT8: oids.INT8,
    oids.FLOAT4: oids.FLOAT8, oids.FLOAT8: oids.FLOAT8, oids.NUMERIC: oids.NUMERIC,
    oids.DATE: oids.INTERVAL, oids.TIME: oids.INTERVAL, oids.TIMETZ: oids.INTERVAL,
    oids.TIMESTAMP: oids.INTERVAL, oids.TIMESTAMPTZ: oids.INTERVAL,
    oids.INTERVAL: oids.INTERVAL,
}  # fmt: skip


def _frame_offset(state: State, mode: str, offset: ast.Node, order: tuple[tree.SortClause, ...]) -> tree.Expr:
    construct = mode.upper()
    value = expression(state, offset, f"window {construct}")
    if mode != "range":
        value = coerce.to_specific(state, value, oids.INT8, construct)
    else:
        ordered = order[0].expression.type.oid
        wanted = _RANGE_OFFSETS.get(ordered)
        if wanted is None:
            fail(
                "0A000",
                f"RANGE with offset PRECEDING/FOLLOWING is not supported for column type {type_name(ordered)}",
                expr_location(value),
            )
        cast = coerce.coerce(state, value, TypeRef(wanted), "i")
        if cast is None:
            fail(
                "0A000",
                "RANGE with offset PRECEDING/FOLLOWING is not supported for column type "
                f"{type_name(ordered)} and offset type {type_name(value.type.oid)}",
                expr_location(value),
                hint="Cast the offset value to an appropriate type.",
            )
        value = cast
    for item, depth in walk_with_depth(value):
        if isinstance(item, tree.Var) and item.levels_up == depth:
            fail("42P10", f"argument of {construct} must not contain variables", item.location)
    return value


# ---- grouping -------------------------------------------------------------------------------------------------------


def check_grouping_call(state: State, node: ast.GroupingFunc) -> None:
    """Checks that GROUPING() is at a place for an aggregate."""
    if state.kind not in _AGGREGATES_ALLOWED:
        fail("42803", f"grouping operations are not allowed in {_place(state.kind)}", node)
    if len(node.arguments) >= 32:
        fail("54023", "GROUPING must have fewer than 32 arguments", node)
    state.grouping_calls = True


def check_grouping_level(arguments: tuple[tree.Expr, ...], node: ast.GroupingFunc) -> None:
    """Refuses GROUPING() of an outer query's columns, which the analysed tree cannot represent."""
    levels = [
        item.levels_up - depth
        for item, depth in walk_with_depth(arguments)
        if isinstance(item, tree.Var) and item.levels_up >= depth
    ]
    if levels and min(levels) > 0:
        refuse("GROUPING of an outer query", node)


def check_grouping(
    state: State, exprs: list[tree.Expr], group_by: tuple[tree.Expr, ...], always: frozenset[int]
) -> None:
    """check_ungrouped_columns: 42803 for a column that is neither grouped, nor aggregated, nor determined by its key.

    `always` holds the indexes into group_by that are in every grouping set: only those determine other columns.
    """
    checker = _GroupingCheck(state, group_by, always)
    for expr in exprs:
        checker.check(expr, 0, False)


class _GroupingCheck:
    def __init__(self, state: State, group_by: tuple[tree.Expr, ...], always: frozenset[int]) -> None:
        self.state = state
        self.group_by = group_by
        self.simple = all(isinstance(item, tree.Var) for item in group_by)
        self.grouped = {
            (item.relation, item.column) for item in group_by if isinstance(item, tree.Var) and item.levels_up == 0
        }
        self.always = {
            (item.relation, item.column)
            for index, item in enumerate(group_by)
            if index in always and isinstance(item, tree.Var) and item.levels_up == 0
        }
        self.determined: dict[int, bool] = {}

    def check(self, node: object, depth: int, in_direct: bool) -> None:
        """Walks one expression; `depth` counts the subqueries entered."""
        if isinstance(node, (tree.Const, tree.Param)):
            return
        if isinstance(node, tree.Aggref):
            if node.levels_up == depth:
                for value in node.direct_arguments:
                    self.check(value, depth, True)
                return
            if node.levels_up > depth:
                return
        if isinstance(node, tree.GroupingFunc) and depth == 0:
            self._check_grouping_call(node)
            return
        if depth == 0 and not self.simple and node in self.group_by:
            return
        if depth > 0 and not self.simple and self._lifted_match(node, depth):
            return
        if isinstance(node, tree.Var):
            if node.levels_up == depth:
                self._check_variable(node, depth, in_direct)
            return
        inner = depth + 1 if isinstance(node, tree.Query) else depth
        for child in children(node):
            self.check(child, inner, in_direct)

    def _check_grouping_call(self, node: tree.GroupingFunc) -> None:
        for value in node.arguments:
            if value not in self.group_by:
                fail(
                    "42803",
                    "arguments to GROUPING must be grouping expressions of the associated query level",
                    expr_location(value),
                )

    def _lifted_match(self, node: object, depth: int) -> bool:
        """Whether an expression in a subquery is an outer grouping expression."""
        if isinstance(node, tree.Var) or not hasattr(node, "type"):
            return False
        return any(
            not isinstance(item, tree.Var) and type(item) is type(node) and shift_levels(item, depth) == node
            for item in self.group_by
        )

    def _check_variable(self, node: tree.Var, depth: int, in_direct: bool) -> None:
        if (node.relation, node.column) in self.grouped:
            return
        if self._is_determined(node.relation):
            return
        entry = self.state.entries[node.relation]
        if isinstance(entry, tree.RangeJoin) and node.column:
            merged = entry.expressions[node.column - 1]
            if all((item.relation, item.column) in self.grouped for item in walk(merged) if isinstance(item, tree.Var)):
                return
        shown = f"{entry.alias}.{node.name}" if node.column else f"{entry.alias}.*"
        if isinstance(entry, tree.RangeJoin) and node.column:
            shown = node.name if entry.alias == "unnamed_join" else shown
        if in_direct:
            fail(
                "42803",
                f'column "{shown}" must appear in the GROUP BY clause or be used in an aggregate function',
                node.location,
                detail="Direct arguments of an ordered-set aggregate must use only grouped columns.",
            )
        if depth == 0:
            fail(
                "42803",
                f'column "{shown}" must appear in the GROUP BY clause or be used in an aggregate function',
                node.location,
            )
        fail("42803", f'subquery uses ungrouped column "{shown}" from outer query', node.location)

    def _is_determined(self, relation: int) -> bool:
        """check_functional_grouping: the whole primary key of the table is grouped."""
        known = self.determined.get(relation)
        if known is None:
            entry = self.state.entries[relation]
            known = False
            if isinstance(entry, tree.RangeTable) and isinstance(entry.table, Table):
                keys = [item.columns for item in entry.table.constraints if item.kind == "p" and not item.deferrable]
                if not keys and entry.table.key_columns:
                    keys = [entry.table.key_columns]
                known = any(all((relation, number) in self.always for number in key) for key in keys)
            self.determined[relation] = known
        return known
