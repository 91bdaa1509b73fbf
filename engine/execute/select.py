"""SELECT on the row path: one Python function per query.

    loops over keys and indexes (engine/execute/scan.py), innermost last
      filters, as soon as what they refer to is at hand
        [groups]  aggregate states in a dict, then one row per group
          [buffer]  sorted, made distinct; or not, where the key order serves ORDER BY
            OFFSET, LIMIT, row locks
              the sink: a tuple, or the bytes of a DataRow

A sub-query is a function inside the function of its query, so that outer columns are plain closure variables.
What does not fit raises NotOnRowPath while compiling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from catalog.errors import SqlError
from catalog.schema import Catalog, Table
from catalog.types import lookup
from catalog.types.base import FormatSettings
from engine.execute.access import Access, Finder, key_columns, order_served
from engine.execute.aggregates import GroupWriter
from engine.execute.code import Code, NotOnRowPath
from engine.execute.explain import PlanNote, scan_note
from engine.execute.expressions import ExpressionCompiler, Value
from engine.execute.ordering import sort_function
from engine.execute.scan import FULL_SCAN_LIMIT, RANGE_LIMIT, RowNames, ScanWriter
from engine.execute.walk import conjuncts, has_sublink, relations_of, transform, variables
from engine.sql import tree
from engine.storage.rows import RowCodec
from engine.txn.interface import KEY_SHARE, NO_KEY_UPDATE, SHARE, UPDATE

STRENGTHS = {"update": UPDATE, "no key update": NO_KEY_UPDATE, "share": SHARE, "key share": KEY_SHARE}


class Sink(Protocol):
    """Where a query's rows go. `finish` is the source of what its function returns at the end."""

    finish: str

    def start(self) -> None: ...
    def row(self, values: Sequence[Value]) -> None: ...


class ListSink:
    """Rows as tuples in a list."""

    def __init__(self, code: Code, count: bool = True) -> None:
        self.code = code
        self.out = code.temporary("out")
        self.finish = f"{self.out}, len({self.out})" if count else self.out

    def start(self) -> None:
        self.code.line(f"{self.out} = []")

    def row(self, values: Sequence[Value]) -> None:
        self.code.line(f"{self.out}.append(({''.join(value.source + ', ' for value in values)}))")


class ActionSink:
    """A sub-query that answers at a row: `action` writes what to do there."""

    def __init__(self, action: Callable[[Sequence[Value]], None], finish: str, start: Callable[[], None]) -> None:
        self.row = action
        self.finish = finish
        self.start = start


@dataclass(slots=True)
class Step:
    """One relation in the order of the loops. `outer`: it is the nullable side of a left join on `conditions`."""

    relation: int
    access: Access | None = None
    conditions: list[tree.Expr] = field(default_factory=list)
    filters: list[tree.Expr] = field(default_factory=list)
    outer: bool = False
    reverse: bool = False


class QueryCompiler:
    """Compiles one query into a function that is being written. `parent` is the query around it."""

    def __init__(
        self, code: Code, catalog: Catalog, settings: FormatSettings, query: tree.Query, parent: QueryCompiler | None
    ) -> None:
        self.code = code
        self.catalog = catalog
        self.settings = settings
        self.parent = parent
        self.query = _expand_joins(query)
        self.columns: dict[tuple[int, int], Value] = {}
        self.expressions = ExpressionCompiler(code, settings, self.variable, self._sublink)
        if parent is not None:
            self.expressions.parameters = parent.expressions.parameters
            self.expressions.overrides = {}
        self.scan_limit = RANGE_LIMIT
        self.also_needed: frozenset[tuple[int, int]] = frozenset()  # columns that the caller will ask for
        self.row_names: dict[int, RowNames] = {}  # of the tables whose loops are open
        self.notes: list[PlanNote] = []
        self._check_supported()
        self._steps = self._order_steps()

    @property
    def at_most_one_row(self) -> bool:
        """Whether every relation is looked up by a whole unique key, so that the first row is the only one."""
        query = self.query
        if query.row_marks or query.has_aggregates or query.group_by or query.distinct is not None or query.offset:
            return False
        return all(step.relation < 0 or (step.access is not None and step.access.single) for step in self._steps)

    def _check_supported(self) -> None:
        query = self.query
        for present, name in (
            (query.set_operation is not None, "set operation"),
            (query.ctes, "WITH"),
            (query.has_windows, "window function"),
            (query.has_set_functions, "set-returning function"),
            (query.limit_with_ties, "FETCH WITH TIES"),
            (query.grouping_sets, "grouping sets"),
            (query.row_marks and (self.parent is not None or len(query.range_table) != 1), "row locks of a join"),
        ):
            if present:
                raise NotOnRowPath(name)

    def describe_scan(self) -> list[PlanNote]:
        """The loops alone, for EXPLAIN of a statement that writes what they find."""
        return self._describe(self._steps, True)

    def _describe(self, steps: list[Step], served: bool) -> list[PlanNote]:
        """The plan from the inside out, for EXPLAIN."""
        query = self.query
        note: PlanNote | None = None
        for step in steps:
            here = self._describe_step(step)
            if note is None:
                note = here
            else:
                note = PlanNote("Nested Loop Left Join" if step.outer else "Nested Loop", [], [note, here])
        if note is None:
            note = PlanNote("Result")
        if query.row_marks:
            note = PlanNote("LockRows", [], [note])
        if query.group_by:
            note = PlanNote("HashAggregate", [("Group Key", query.group_by, query)], [note])
        elif query.has_aggregates:
            note = PlanNote("Aggregate", [], [note])
        if query.distinct is not None:
            note = PlanNote("Unique", [], [note])
        if not served:
            note = PlanNote(
                "Sort", [("Sort Key", tuple(clause.expression for clause in query.order_by), query)], [note]
            )
        if query.limit is not None or query.offset is not None:
            note = PlanNote("Limit", [], [note])
        return [note]

    def _describe_step(self, step: Step) -> PlanNote:
        if step.relation < 0:
            return PlanNote("Result", [("One-Time Filter", tuple(step.filters), self.query)])
        entry = self.query.range_table[step.relation]
        filters = (*step.conditions, *step.filters) if step.outer else tuple(step.filters)
        return scan_note(self.query, entry, step.access, step.reverse, filters)

    # ---- columns ----------------------------------------------------------------------------------------------------

    def variable(self, item: tree.Var) -> Value:
        """The local that holds a column, of this query or of one around it."""
        if item.levels_up:
            if self.parent is None:
                raise NotOnRowPath("column of an unknown query")
            outer = self.parent.expressions
            inner = replace(item, levels_up=item.levels_up - 1)
            return outer.overrides.get(inner) or self.parent.variable(inner)
        found = self.columns.get((item.relation, item.column))
        if found is None:
            raise NotOnRowPath(f"column {item.name}")
        return found

    def _needed(self, relation: int) -> list[int]:
        """The columns of a relation that anything in the query refers to, in order."""
        found = {v.column for v in variables(self._body()) if v.levels_up == 0 and v.relation == relation}
        return sorted(found | {column for place, column in self.also_needed if place == relation})

    def _body(self) -> tuple[object, ...]:
        query = self.query
        return (
            *(query.targets, query.from_items, query.where, query.group_by, query.having),
            *(query.order_by, query.distinct or (), query.range_table, query.limit, query.offset),
        )

    # ---- the function -----------------------------------------------------------------------------------------------

    def write(self, sink: Sink) -> None:
        """Writes the body of the query's function; `get`, `scan` and `n` are there already."""
        code, query = self.code, self.query
        sink.start()
        self._write_limits(sink)
        steps = self._steps
        served = self._served_order(steps)
        output = Output(self, sink, sorted_already=served)
        if query.row_marks:
            self._write_locked(steps, output)
        elif query.has_aggregates or query.group_by:
            groups = GroupWriter(code, self.expressions, query)
            groups.start()
            self.write_loops(groups.step)
            output.start()
            depth = code.depth
            groups.finish()
            output.row()
            code.dedent_to(depth)
        else:
            output.start()
            self.write_loops(output.row)
        output.finish()
        code.line(f"return {sink.finish}")
        self.notes = self._describe(steps, served)

    def _write_limits(self, sink: Sink) -> None:
        query, code = self.query, self.code
        for name, expression, check in (("left", query.limit, check_limit), ("skip", query.offset, check_offset)):
            if expression is None:
                continue
            if isinstance(expression, tree.Const) and isinstance(expression.value, int) and expression.value >= 0:
                code.line(f"{name} = {expression.value}")
            else:
                source = self.expressions.value(expression).source
                code.line(f"{name} = {code.constant(check, check.__name__)}({source})")
        if query.limit is not None:
            code.line(f"if left == 0: return {sink.finish}")

    # ---- the order of the loops -------------------------------------------------------------------------------------

    def _order_steps(self) -> list[Step]:
        """Inner-joined relations by how well they can be looked up from those before them; then the left joins."""
        inner: list[int] = []
        outer: list[Step] = []
        conditions = conjuncts(self.query.where)
        for item in self.query.from_items:
            _flatten(item, inner, outer, conditions)
        waiting = list(enumerate(conditions))
        steps: list[Step] = []
        bound: frozenset[int] = frozenset()
        while inner:
            usable = [(position, c) for position, c in waiting if not has_sublink(c)]
            possible = [self._candidate(relation, usable, bound) for relation in inner]
            candidates = [step for step in possible if step is not None]
            if not candidates:
                raise NotOnRowPath("a lateral join")
            best = max(candidates, key=_step_rank)
            inner.remove(best.relation)
            bound |= {best.relation}
            covered = {usable[i][0] for i in best.access.covered} if best.access else set()
            best.filters = [c for p, c in waiting if relations_of(c) <= bound and p not in covered]
            waiting = [(p, c) for p, c in waiting if not relations_of(c) <= bound]
            steps.append(best)
        for step in outer:
            self._bind_outer(step, bound)
            bound |= {step.relation}
            step.filters = [c for _, c in waiting if relations_of(c) <= bound]
            waiting = [(p, c) for p, c in waiting if not relations_of(c) <= bound]
            steps.append(step)
        if not steps and waiting:
            steps.append(Step(-1, filters=[c for _, c in waiting]))
        return steps

    def _candidate(self, relation: int, conditions: list[tuple[int, tree.Expr]], bound: frozenset[int]) -> Step | None:
        entry = self.query.range_table[relation]
        if not isinstance(entry, tree.RangeTable):
            depends = relations_of(entry) if getattr(entry, "lateral", False) else frozenset()
            return Step(relation) if depends <= bound else None
        if not isinstance(entry.table, Table):
            raise NotOnRowPath(f"relation {entry.table.name}")
        finder = Finder(self.catalog, entry.table, relation, bound)
        finder.add([condition for _, condition in conditions])
        return Step(relation, self._best_path(finder, relation))

    def _best_path(self, finder: Finder, relation: int) -> Access:
        """The best path; where one row after another is wanted in order, a path that gives that order wins ties."""
        query = self.query
        wanted = query.order_by if len(query.from_items) == 1 and query.limit is not None else ()
        if query.has_aggregates or query.group_by or query.distinct is not None:
            wanted = ()

        def rank(path: Access) -> tuple[int, ...]:
            serves = bool(wanted) and order_served(path, relation, wanted) is not None
            return (*path.rank[:4], serves, *path.rank[4:])

        return max(finder.paths(), key=rank)

    def _bind_outer(self, step: Step, bound: frozenset[int]) -> None:
        entry = self.query.range_table[step.relation]
        if not isinstance(entry, tree.RangeTable):
            return
        if not isinstance(entry.table, Table):
            raise NotOnRowPath(f"relation {entry.table.name}")
        finder = Finder(self.catalog, entry.table, step.relation, bound)
        usable = [condition for condition in step.conditions if not has_sublink(condition)]
        finder.add(usable)
        step.access = finder.best()

    def _served_order(self, steps: list[Step]) -> bool:
        """Whether the rows come in the order of ORDER BY; turns the scan round where that is the way."""
        query = self.query
        if not query.order_by:
            return True
        if query.has_aggregates or query.group_by or query.distinct is not None or not steps:
            return False
        first = steps[0]
        if first.access is None or not all(step.access is not None and step.access.single for step in steps[1:]):
            return False
        if first.access.single:
            return len(steps) == 1 or all(step.outer or step.access for step in steps)
        served = order_served(first.access, first.relation, query.order_by)
        first.reverse = bool(served)
        return served is not None

    # ---- the loops --------------------------------------------------------------------------------------------------

    def write_loops(self, body: Callable[[], None]) -> None:
        """Writes the loops over all relations with `body` in the innermost."""
        depth = self.code.depth
        if any(step.access is not None and step.access.full_scan for step in self._steps):
            self.scan_limit = FULL_SCAN_LIMIT
        self._write_rest(self._steps, body)
        self.code.dedent_to(depth)

    def _write_rest(self, steps: list[Step], body: Callable[[], None]) -> None:
        if not steps:
            body()
            return
        step, rest = steps[0], steps[1:]

        def inside() -> None:
            if step.filters:
                self.code.indent(f"if {' and '.join(map(self.expressions.true, step.filters))}:")
            self._write_rest(rest, body)

        if step.relation < 0:
            inside()
        elif step.outer:
            self._write_outer(step, inside)
        else:
            self._write_relation(step, inside)

    def _write_relation(self, step: Step, inside: Callable[[], None]) -> None:
        entry = self.query.range_table[step.relation]
        if step.access is None:
            self._write_source(step.relation, entry, inside)
            return
        code = self.code
        names = RowNames(code.temporary("key"), code.temporary("value"))
        self.row_names[step.relation] = names

        def row() -> None:
            self.write_columns(step.relation, names.value)
            inside()

        ordered = bool(self.query.order_by)
        ScanWriter(code, self.expressions, self.scan_limit).write(step.access, names, row, step.reverse, ordered)

    def write_columns(self, relation: int, value: str) -> None:
        """Writes the decoding of a stored row into locals, those columns that the query needs."""
        entry = self.query.range_table[relation]
        assert isinstance(entry, tree.RangeTable) and isinstance(entry.table, Table)
        write_decoding(self.code, entry.table, relation, self._needed(relation), value, self.columns)

    def _write_source(self, relation: int, entry: tree.RangeEntry, inside: Callable[[], None]) -> None:
        """The loop over VALUES, a function or a sub-query in FROM."""
        code = self.code
        names = [code.temporary("c") for _ in entry.columns]
        if isinstance(entry, tree.RangeValues):
            rows = "".join(
                f"({''.join(self.expressions.value(item).source + ', ' for item in row)}), " for row in entry.rows
            )
            code.indent(f"for {', '.join(names)}, in ({rows}):")
        elif isinstance(entry, tree.RangeSubquery):
            function = self.write_subquery(entry.query, ListSink(code, count=False))
            code.indent(f"for {', '.join(names)}, in {function}():" if names else f"for _ in {function}():")
        elif isinstance(entry, tree.RangeFunction):
            self._write_function(entry, names)
        else:
            raise NotOnRowPath(type(entry).__name__)
        code.line("n += 1")
        code.line(f"if n > {RANGE_LIMIT}: raise RowPathFull")
        for position, name in enumerate(names):
            self.columns[relation, position + 1] = Value(name, nullable=True, atom=True)
        inside()

    def _write_function(self, entry: tree.RangeFunction, names: list[str]) -> None:
        if len(entry.functions) != 1 or not isinstance(entry.functions[0], tree.FuncExpr):
            raise NotOnRowPath("several functions in FROM")
        call = entry.functions[0]
        if not call.function.returns_set:
            raise NotOnRowPath("a plain function in FROM")
        source = self.expressions.set_function(call)
        wanted = names[:-1] if entry.ordinality else names
        target = f"{wanted[0]}" if entry.column_counts[0] == 1 else f"({', '.join(wanted)},)"
        if entry.ordinality:
            self.code.indent(f"for {names[-1]}, {target} in enumerate({source}, 1):")
        else:
            self.code.indent(f"for {target} in {source}:")

    def _write_outer(self, step: Step, inside: Callable[[], None]) -> None:
        """A left join: the matches of the outer row first, or one row of NULLs where there is none."""
        code = self.code
        entry = self.query.range_table[step.relation]
        found = code.temporary("found")
        code.line(f"{found} = []")
        depth = code.depth
        needed = self._needed(step.relation)

        def match() -> None:
            if step.conditions:
                code.indent(f"if {' and '.join(map(self.expressions.true, step.conditions))}:")
            values = "".join(f"{self.columns[step.relation, number].source}, " for number in needed)
            code.line(f"{found}.append(({values}))")

        if step.access is None:
            self._write_source(step.relation, entry, match)
        else:
            self._write_relation(replace(step, outer=False), match)
        code.dedent_to(depth)
        names = [code.temporary("c") for _ in needed]
        nothing = f"(({'None, ' * len(needed)}),)"
        code.indent(f"for {', '.join(names)}, in {found} or {nothing}:" if names else f"for _ in {found} or {nothing}:")
        for number, name in zip(needed, names, strict=True):
            self.columns[step.relation, number] = Value(name, nullable=True, atom=True)
        inside()

    # ---- row locks --------------------------------------------------------------------------------------------------

    def _write_locked(self, steps: list[Step], output: Output) -> None:
        """FOR UPDATE and its kin: find the rows, put them in order, then lock one after the other up to LIMIT.

        A row that changed since the snapshot is judged again by its newest version (READ COMMITTED).
        """
        query, code = self.query, self.code
        if query.has_aggregates or query.group_by or query.distinct is not None or len(steps) != 1:
            raise NotOnRowPath("row locks")
        step, mark = steps[0], query.row_marks[0]
        if step.access is None:
            raise NotOnRowPath("row locks")
        code.line("found = []")
        keys = [clause.expression for clause in query.order_by]

        def collect() -> None:
            if step.filters:
                code.indent(f"if {' and '.join(map(self.expressions.true, step.filters))}:")
            values = "".join(f"{self.expressions.value(key).source}, " for key in keys)
            code.line(f"found.append((key, value, {values}))")

        depth = code.depth
        if step.access.full_scan:
            self.scan_limit = FULL_SCAN_LIMIT
        names = RowNames("key", "value")

        def row() -> None:
            self.write_columns(step.relation, "value")
            collect()

        ordered = bool(query.order_by)
        ScanWriter(code, self.expressions, self.scan_limit).write(step.access, names, row, step.reverse, ordered)
        code.dedent_to(depth)
        if not output.sorted_already:
            write_sort(code, "found", query.order_by, 2)
        output.sorted_already = True
        output.start()
        code.line("get_locked = context.transaction.get_locked")
        code.indent("for found_row in found:")
        strength, wait = STRENGTHS[mark.strength], mark.wait
        code.line("key = found_row[0]")
        table = query.range_table[step.relation]
        assert isinstance(table, tree.RangeTable)
        if wait == "nowait":
            locked = code.constant(lock_nowait(table.table.name), "lock_nowait")
            code.line(f"value = {locked}(get_locked, key, {strength})")
        else:
            code.line(f"value = get_locked(key, {strength}, {wait!r})")
        code.indent("if value is not None:")
        self.write_columns(step.relation, "value")
        conditions = conjuncts(query.where)
        if conditions:
            again = " and ".join(map(self.expressions.true, conditions))
            code.indent(f"if value == found_row[1] or {again}:")
        output.row()
        code.dedent_to(depth)

    # ---- sub-queries ------------------------------------------------------------------------------------------------

    def write_subquery(
        self, query: tree.Query, sink: Sink, prepare: Callable[[QueryCompiler], None] | None = None
    ) -> str:
        """Writes a sub-query's function where we are; gives its name. It has no arguments and sees our locals."""
        code = self.code
        inner = QueryCompiler(code, self.catalog, self.settings, query, self)
        name = code.temporary("query")
        depth = code.depth
        code.indent(f"def {name}():")
        code.line("nonlocal n")
        inner.scan_limit = self.scan_limit
        if prepare is not None:
            prepare(inner)
        inner.write(sink)
        code.dedent_to(depth)
        return name

    def _sublink(self, link: tree.SubLink) -> Value:
        raise NotOnRowPath("sub-query")


class Output:
    """From the point where a row's columns are at hand to the sink: DISTINCT, sort, OFFSET and LIMIT."""

    def __init__(self, compiler: QueryCompiler, sink: Sink, sorted_already: bool) -> None:
        self.code = compiler.code
        self.query = compiler.query
        self.expressions = compiler.expressions
        self.sink = sink
        self.sorted_already = sorted_already
        self.outputs = [target.expression for target in self.query.targets if not target.junk]

    @property
    def buffered(self) -> bool:
        return not self.sorted_already or bool(self.query.distinct)

    def start(self) -> None:
        if self.query.distinct is not None:
            self.code.line("seen = set()")
        if self.buffered:
            self.code.line("buffer = []")

    def row(self) -> None:
        """Writes what happens at a row."""
        values = [self.expressions.value(item) for item in self.outputs]
        if self.query.distinct == ():
            atoms = [self._local(value) for value in values]
            self._write_distinct(atoms, self.outputs)
            values = atoms
        if not self.buffered:
            self._emit(values)
            return
        values += [self.expressions.value(clause.expression) for clause in self.query.order_by]
        values += [self.expressions.value(item) for item in self.query.distinct or ()]
        self.code.line(f"buffer.append(({''.join(value.source + ', ' for value in values)}))")

    def finish(self) -> None:
        if not self.buffered:
            return
        code, width = self.code, len(self.outputs)
        write_sort(code, "buffer", self.query.order_by, width)
        depth = code.depth
        names = [code.temporary("o") for _ in self.outputs]
        distinct = self.query.distinct or ()
        keys = [code.temporary("d") for _ in distinct]
        ignored = ["_"] * len(self.query.order_by)
        code.indent(f"for {''.join(name + ', ' for name in (*names, *ignored, *keys))} in buffer:")
        if distinct:
            self._write_distinct([Value(key, True, True) for key in keys], distinct)
        self._emit([Value(name, nullable=True, atom=True) for name in names])
        code.dedent_to(depth)

    def _local(self, value: Value) -> Value:
        if value.atom:
            return value
        name = self.code.temporary()
        self.code.line(f"{name} = {value.source}")
        return Value(name, value.nullable, atom=True)

    def _write_distinct(self, values: Sequence[Value], expressions: Sequence[tree.Expr]) -> None:
        code = self.code
        parts = []
        for value, expression in zip(values, expressions, strict=True):
            parts.append(equality_key(code, value, expression))
        code.line(f"row_key = ({''.join(part + ', ' for part in parts)})")
        code.indent("if row_key not in seen:")
        code.line("seen.add(row_key)")

    def _emit(self, values: Sequence[Value]) -> None:
        code, query = self.code, self.query
        depth = code.depth
        if query.offset is not None:
            code.line("if skip: skip -= 1")
            code.indent("else:")
        self.sink.row(values)
        if query.limit is not None:
            code.line("left -= 1")
            code.line(f"if left == 0: return {self.sink.finish}")
        code.dedent_to(depth)


def equality_key(code: Code, value: Value, expression: tree.Expr) -> str:
    """Source of something that is equal and hashes equally for values that SQL holds equal, NULLs among them."""
    key = lookup(expression.type.oid).sort_key()
    if key is None:
        return value.source
    name = code.constant(key, "key")
    return (
        f"(None if {value.source} is None else {name}({value.source}))" if value.nullable else f"{name}({value.source})"
    )


def write_sort(code: Code, name: str, order_by: Sequence[tree.SortClause], first: int) -> None:
    """Sorts a list of tuples whose items from `first` on are the values of the sort clauses: the last clause first."""
    for position in range(len(order_by) - 1, -1, -1):
        clause = order_by[position]
        key = sort_function(first + position, clause.expression.type, clause.descending, clause.nulls_first)
        backward = ", reverse=True" if clause.descending else ""
        code.line(f"{name}.sort(key={code.constant(key, 'order')}{backward})")


def write_decoding(  # noqa: PLR0917
    code: Code, table: Table, relation: int, needed: Sequence[int], value: str, columns: dict[tuple[int, int], Value]
) -> None:
    """Decodes the needed columns (attnums; 0 the whole row) of a stored row into locals of their own."""
    if not needed:
        return
    codec = RowCodec(table)
    decode = code.constant(codec.decode, "decode")
    positions = {column.number: position for position, column in enumerate(table.columns)}
    not_null = {column.number for column in table.columns if column.not_null} | set(table.key_columns)
    if list(needed) == [column.number for column in table.columns]:
        names = [code.temporary("c") for _ in needed]
        code.line(f"{', '.join(names)}, = {decode}({value})")
    elif len(needed) == 1 and needed[0] > 0:
        names = [code.temporary("c")]
        code.line(f"{names[0]} = {code.constant(codec.decode_column(needed[0]), 'column')}({value})")
    else:
        row = code.temporary("row")
        code.line(f"{row} = {decode}({value})")
        names = [row if number == 0 else code.temporary("c") for number in needed]
        for number, name in zip(needed, names, strict=True):
            if number > 0:
                code.line(f"{name} = {row}[{positions[number]}]")
    for number, name in zip(needed, names, strict=True):
        if number < 0:
            raise NotOnRowPath("a system column")
        columns[relation, number] = Value(name, nullable=number not in not_null and number != 0, atom=True)


def check_limit(value: int | None) -> int:
    """LIMIT's count; -1 for NULL, which is no limit. Raises 2201W."""
    if value is None:
        return -1
    if value < 0:
        raise SqlError("2201W", "LIMIT must not be negative")
    return value


def check_offset(value: int | None) -> int:
    """OFFSET's count. Raises 2201X."""
    if value is None:
        return 0
    if value < 0:
        raise SqlError("2201X", "OFFSET must not be negative")
    return value


def lock_nowait(table: str) -> Callable[[Callable[..., bytes | None], bytes, int], bytes | None]:
    """Makes the NOWAIT form of get_locked for a table: 55P03 names the relation."""

    def lock(get_locked: Callable[..., bytes | None], key: bytes, strength: int) -> bytes | None:
        try:
            return get_locked(key, strength, "nowait")
        except SqlError as error:
            if error.sqlstate == "55P03":
                raise SqlError("55P03", f'could not obtain lock on row in relation "{table}"') from error
            raise

    return lock


def _step_rank(step: Step) -> tuple[int, ...]:
    """Sources without keys (VALUES, functions) go before scans that nothing confines, after look-ups."""
    if step.access is None:
        return (0, 0, 1, 0, 0)
    return step.access.rank


def _flatten(item: tree.FromItem, inner: list[int], outer: list[Step], conditions: list[tree.Expr]) -> None:
    """Takes a join tree apart: inner relations with their conditions, and left joins in order.

    Left joins may wait until all inner joins are done: an inner condition over the nullable side filters afterwards.
    """
    if isinstance(item, tree.FromRef):
        inner.append(item.relation)
        return
    if item.kind in ("inner", "cross"):
        _flatten(item.left, inner, outer, conditions)
        _flatten(item.right, inner, outer, conditions)
        conditions.extend(conjuncts(item.condition))
        return
    kept, nullable = (item.left, item.right) if item.kind == "left" else (item.right, item.left)
    if item.kind not in ("left", "right") or not isinstance(nullable, tree.FromRef):
        raise NotOnRowPath(f"{item.kind} join")
    before = len(outer)
    _flatten(kept, inner, outer, conditions)
    if item.kind == "right" and len(outer) != before:
        raise NotOnRowPath("right join")
    outer.append(Step(nullable.relation, conditions=conjuncts(item.condition), outer=True))


def _expand_joins(query: tree.Query) -> tree.Query:
    """Puts the expressions of merged USING columns in place of the Vars that refer to the join."""
    joins = {
        index: entry.expressions for index, entry in enumerate(query.range_table) if isinstance(entry, tree.RangeJoin)
    }
    if not joins:
        return query

    def change(node: object, depth: int) -> object:
        if isinstance(node, tree.Var) and node.relation in joins and node.levels_up == depth - 1:
            expression = joins[node.relation][node.column - 1]
            expanded = transform(expression, change, 1)
            return shift_levels(expanded, depth - 1)
        return None

    expanded: tree.Query = transform(query, change)
    return expanded


def shift_levels(expression: tree.Expr, by: int) -> tree.Expr:
    """The expression as seen from `by` queries further in."""
    if by == 0:
        return expression

    def change(node: object, depth: int) -> object:
        if isinstance(node, tree.Var) and node.levels_up >= depth:
            return replace(node, levels_up=node.levels_up + by)
        return None

    shifted: tree.Expr = transform(expression, change)
    return shifted


__all__ = ["ListSink", "PlanNote", "QueryCompiler", "key_columns"]
