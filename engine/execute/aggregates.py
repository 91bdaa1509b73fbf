"""Aggregates over the limited number of rows of a row path plan: one list of group values and states per group.

    groups = {}                       key of the grouping values -> [values..., states...]
    at each row                       find or make the group, step the states
    afterwards                        for group in groups.values(): final values, HAVING, output

A query without GROUP BY has exactly one group, made before the first row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from catalog.functions.base import AggregateSteps, Trait
from catalog.functions.registry import has_trait, implementation
from engine.execute.code import Code, NotOnRowPath
from engine.execute.compiled_value import Value
from engine.execute.expressions import ExpressionCompiler
from engine.execute.measured import write_kept, write_kept_value
from engine.execute.records import Levels, known_type
from engine.execute.row_order import each_once, sort_function, sort_rows
from engine.execute.user_aggregates import (
    built_in_steps,
    computed_elsewhere,
    final_value,
    python_steps,
    write_initial_state,
    write_step,
)
from engine.sql import tree
from engine.sql.aggregate_body import AggregateBody
from engine.sql.tree_walk import children


def counts_rows(aggregate: tree.Aggref) -> bool:
    return has_trait(aggregate.function.source, Trait.COUNTS)


def _count_one(state: int, *_: object) -> int:
    return state + 1


_COUNTING: AggregateSteps = (int, _count_one, lambda state: state)


@dataclass(slots=True)
class _Kept:
    """The items of a group's list: expressions whose first value is kept, then the aggregates."""

    values: list[tree.Expr] = field(default_factory=list)
    aggregates: list[tree.Aggref] = field(default_factory=list)


class GroupWriter:
    """Writes the three parts of an aggregation into a query's function."""

    def __init__(self, code: Code, expressions: ExpressionCompiler, query: tree.Query) -> None:
        self.code = code
        self.expressions = expressions
        self.query = query
        self.kept = _Kept(list(query.group_by))
        self._collect()

    def _collect(self) -> None:
        """Finds the aggregates, and the columns outside of them that a grouped primary key determines."""
        after = (self.query.targets, self.query.having, self.query.order_by, self.query.distinct or ())
        self._visit(after, 0)

    def _visit(self, node: object, depth: int) -> None:
        """`depth`: of nested queries, whose own aggregates and columns are not those of this one."""
        if isinstance(node, tree.Aggref) and node.levels_up >= depth:
            if node.levels_up or depth:
                raise NotOnRowPath("aggregate of an outer query")
            if node not in self.kept.aggregates:
                self.kept.aggregates.append(node)
            for argument in node.direct_arguments if node.body is not None else ():
                self._visit(argument, depth)
            return
        if isinstance(node, tree.GroupingFunc) and not depth:
            raise NotOnRowPath("GROUPING")
        if not depth and node in self.kept.values:
            return
        if isinstance(node, tree.Var):
            own = replace(node, levels_up=0)
            if node.levels_up == depth and own not in self.kept.values:
                self.kept.values.append(own)
            return
        for child in children(node):
            self._visit(child, depth + isinstance(child, tree.Query))

    # ---- writing ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        if self.query.group_by:
            self.code.line("groups = {}")
            self.code.line("find_group = groups.get")
        else:
            self.code.line(f"group = {self._new_group(with_values=False)}")

    def _new_group(self, with_values: bool) -> str:
        items = [self.expressions.value(item).source for item in self.kept.values] if with_values else []
        if not with_values and self.kept.values:
            raise NotOnRowPath("a column outside of aggregates")
        for aggregate in self.kept.aggregates:
            if aggregate.distinct or aggregate.order_by:
                items.append("[]")
            elif computed_elsewhere(aggregate):
                items.append(write_initial_state(self.code, body_of(aggregate)))
            elif counts_rows(aggregate):
                items.append("0")
            else:
                items.append(f"{self.code.constant(steps_of(aggregate)[0], 'make')}()")
        return f"[{', '.join(items)}]"

    def step(self) -> None:
        """Writes the code of each row."""
        code = self.code
        if self.query.group_by:
            parts = []
            for item in self.query.group_by:
                source, value = self.expressions.bind_name(item)
                key = known_type(item, self.expressions.levels).sort_key()
                if key is None:
                    parts.append(source)
                else:
                    parts.append(f"(None if {source} is None else {code.constant(key, 'key')}({value.source}))")
            code.line(f"group_key = ({', '.join(parts)},)")
            code.line("group = find_group(group_key)")
            with code.block("if group is None:"):
                code.line(f"groups[group_key] = group = {self._new_group(with_values=True)}")
                write_kept_value(code, "group_key")
        for position, aggregate in enumerate(self.kept.aggregates, len(self.kept.values)):
            depth = code.depth
            self._step_one(position, aggregate)
            code.dedent_to(depth)
        if not self.query.group_by and not self.kept.aggregates:
            code.line("pass")  # HAVING alone: one group, for any rows

    def _step_one(self, position: int, aggregate: tree.Aggref) -> None:
        code = self.code
        if aggregate.filter is not None:
            code.indent(f"if {self.expressions.true(aggregate.filter)}:")
        values = []
        for argument in aggregate.arguments:
            value = self.expressions.value(argument)
            if not value.atom:
                name = code.temporary()
                code.line(f"{name} = {value.source}")
                value = value.with_name(name)
            values.append(value)
        apart = computed_elsewhere(aggregate)
        steps = None if apart or counts_rows(aggregate) else steps_of(aggregate)
        if not sees_nulls(aggregate):
            tests = [f"{value.source} is not None" for value in values if value.nullable]
            if tests:
                code.indent(f"if {' and '.join(tests)}:")
        sources = [value.source for value in values]
        if aggregate.distinct or aggregate.order_by:
            sources += [self.expressions.value(clause.expression).source for clause in aggregate.order_by]
            code.line(f"group[{position}].append(({''.join(source + ', ' for source in sources)}))")
            write_kept(code, f"group[{position}]")
        elif apart:
            write_step(self.expressions, body_of(aggregate), f"group[{position}]", values)
        elif steps is None:
            code.line(f"group[{position}] += 1")
        else:
            step = code.constant(steps[1], "step")
            code.line(f"group[{position}] = {step}({', '.join([f'group[{position}]', *sources])})")
            if aggregate.function.name.endswith("_agg"):  # its state has all values that it received
                write_kept_value(code, f"({''.join(source + ', ' for source in sources)})")

    def finish(self) -> None:
        """Opens the loop over the groups, with final values and HAVING; later code is written inside it."""
        code = self.code
        if self.query.group_by:
            code.indent("for group in groups.values():")
        overrides = self.expressions.overrides
        for position, item in enumerate(self.kept.values):
            name = code.temporary("g")
            code.line(f"{name} = group[{position}]")
            overrides[item] = Value(name, nullable=True, atom=True)
        for position, aggregate in enumerate(self.kept.aggregates, len(self.kept.values)):
            name = code.temporary("a")
            final = self._final_apart if computed_elsewhere(aggregate) else self._final
            code.line(f"{name} = {final(f'group[{position}]', aggregate)}")
            overrides[aggregate] = Value(name, not counts_rows(aggregate), atom=True)
        if self.query.having is not None:
            code.indent(f"if {self.expressions.true(self.query.having)}:")

    def _final(self, state: str, aggregate: tree.Aggref) -> str:
        counts = counts_rows(aggregate)
        if aggregate.distinct or aggregate.order_by:
            return f"{self.code.constant(finisher(aggregate, self.expressions.levels), 'finish')}({state})"
        return state if counts else f"{self.code.constant(steps_of(aggregate)[2], 'final')}({state})"

    def _final_apart(self, state: str, aggregate: tree.Aggref) -> str:
        """Source of the result of an aggregate with functions of users. With DISTINCT or ORDER BY its state has been
        the list of its rows until now."""
        code, body = self.code, body_of(aggregate)
        if aggregate.distinct or aggregate.order_by:
            arrange = code.constant(arranger(aggregate, self.expressions.levels), "arrange")
            rows, state = f"{arrange}({state})", code.temporary("state")
            code.line(f"{state} = {write_initial_state(code, body)}")
            names = [code.temporary("c") for _ in aggregate.arguments]
            depth = code.depth
            number = code.temporary("number")
            code.indent(f"for {number}, ({''.join(f'{name}, ' for name in names)}*_) in enumerate({rows}):")
            code.write_limit(number, 0)
            write_step(self.expressions, body, state, [Value(name, nullable=True, atom=True) for name in names])
            code.dedent_to(depth)
        direct = []
        for argument in aggregate.direct_arguments:
            value = self.expressions.value(argument)
            name = code.temporary("d")
            code.line(f"{name} = {value.source}")
            direct.append(value.with_name(name))
        return final_value(self.expressions, body, state, direct)


def body_of(aggregate: tree.Aggref) -> AggregateBody:
    """The computation of a user-defined aggregate."""
    assert aggregate.body is not None
    return aggregate.body


def sees_nulls(aggregate: tree.Aggref) -> bool:
    if aggregate.body is not None:
        return not aggregate.body.strict
    found = implementation(aggregate.function.source)
    return found is not None and found.steps_see_nulls


def steps_of(aggregate: tree.Aggref) -> AggregateSteps:
    built_in = built_in_steps(aggregate)
    if built_in is not None and not aggregate.direct_arguments:
        return python_steps(built_in, [argument.type for argument in aggregate.arguments], 0, aggregate.type)
    if aggregate.direct_arguments:
        raise NotOnRowPath("ordered-set aggregate")
    found = implementation(aggregate.function.source)
    if found is not None and found.aggregate_for_types is not None:
        return found.aggregate_for_types([argument.type for argument in aggregate.arguments], aggregate.type)
    if found is None or found.python_aggregate is None:
        raise NotOnRowPath(f"aggregate {aggregate.function.name}")
    return found.python_aggregate


def finisher(aggregate: tree.Aggref, levels: Levels) -> Callable[[list[Sequence[object]]], object]:
    """The result of an aggregate with DISTINCT or ORDER BY over its collected arguments."""
    width = len(aggregate.arguments)
    make, step, final = _COUNTING if counts_rows(aggregate) else steps_of(aggregate)
    arrange = arranger(aggregate, levels)

    def finish(rows: list[Sequence[object]]) -> object:
        state = make()
        for row in arrange(rows):
            state = step(state, *row[:width])
        return final(state)

    return finish


def arranger(aggregate: tree.Aggref, levels: Levels) -> Callable[[list[Sequence[object]]], Iterable[Sequence[object]]]:
    """Sorts the collected arguments of an aggregate with DISTINCT or ORDER BY, and leaves out repeated ones."""
    width = len(aggregate.arguments)
    order_by = list(aggregate.order_by)
    kinds = [known_type(argument, levels) for argument in aggregate.arguments]
    sorts = [
        (
            sort_function(width + i, known_type(clause.expression, levels), clause.descending, clause.nulls_first),
            clause.descending,
        )
        for i, clause in enumerate(order_by)
    ]
    if aggregate.distinct and not sorts:
        sorts = [(sort_function(i, kind, False, False), False) for i, kind in enumerate(kinds)]

    def arrange(rows: list[Sequence[object]]) -> Iterable[Sequence[object]]:
        sort_rows(rows, sorts)
        return each_once(rows, kinds) if aggregate.distinct else rows

    return arrange
