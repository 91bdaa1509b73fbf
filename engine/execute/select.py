"""SELECT on the row path: one Python function per query.

    loops over keys and indexes (engine/execute/scan.py), innermost last
        filters, as soon as their operands are available
        [groups]  aggregate states in a dict, then one row per group
        [buffer]  sorted, made distinct; not needed if the key order fits ORDER BY
        OFFSET, LIMIT, row locks
        the sink: a tuple, or the bytes of a DataRow

A sub-query is a function inside the function of its query, so that outer columns are plain closure variables.
Unsupported parts raise NotOnRowPath while compiling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.routines import LANGUAGE
from catalog.schema import Table, VirtualTable
from catalog.types.base import FormatSettings
from catalog.types.oids import RECORD
from engine.execute.access import Access, Finder
from engine.execute.aggregates import GroupWriter
from engine.execute.code import Code, LineUse, NotOnRowPath, targets_of
from engine.execute.compiled_value import Value
from engine.execute.context import RowPathFull
from engine.execute.explain import PlanNote, scan_note, sort_key_shown
from engine.execute.expressions import ExpressionCompiler
from engine.execute.extremes import ends_of_indexes
from engine.execute.joins import Step, expand_joins, flatten, inner_conditions, serve_order, step_rank
from engine.execute.measured import MeteredLoop, write_kept
from engine.execute.output import ActionSink, ListSink, Output, Sink, check_limit, check_offset, write_sort
from engine.execute.pull_up import needed_only, pull_up
from engine.execute.records import as_defined, known_output
from engine.execute.recursion import write_recursion
from engine.execute.routine_source import routine_rows
from engine.execute.row_decoder import BRIEF_COLUMNS, write_brief_decoding, write_decoding
from engine.execute.row_lock_words import STRENGTHS, lock_all, lock_refusal
from engine.execute.scan import FULL_SCAN_LIMIT, LOCKING_LIMIT, RANGE_LIMIT, RowNames, ScanWriter, cuts_order
from engine.execute.set_functions import (
    asks_session,
    calls_set_functions,
    open_set_functions,
    set_functions_of,
    write_at_most,
    write_rows_in_step,
    write_rows_of,
)
from engine.execute.sets import Identity, identity_of, leftmost, set_combiner
from engine.execute.subqueries import rows_once, sublink_truth, sublink_value
from engine.execute.variants import note_provided
from engine.execute.virtual import ROW_LIMIT, VirtualAccess, VirtualWriter, virtual_access
from engine.execute.whole_rows import write_whole_rows
from engine.execute.writer import same_key_test
from engine.sql import tree
from engine.sql.parts import is_result, reaches_out
from engine.sql.set_places import sets_apart
from engine.sql.tree_walk import conjuncts, has_sublink, is_the_same_for_every_row, relations_of, variables, walk
from engine.storage.keys import row_number_of
from engine.txn.interface import KEY_SHARE

_ONLY = frozenset((0,))
Columns = dict[int, dict[int, None]]  # by relation, in the order of their first use


class QueryCompiler:
    """Compiles one query into a function that is being written. `parent` is the outer query."""

    def __init__(
        self, code: Code, catalog: Catalog, settings: FormatSettings, query: tree.Query, parent: QueryCompiler | None
    ) -> None:
        self.code = code
        self.catalog = catalog
        self.settings = settings
        self.parent = parent
        self.query = ends_of_indexes(catalog, expand_joins(sets_apart(query)), code.without)
        self.columns: dict[tuple[int, int], Value] = {}
        self._used: tuple[Columns, Columns] | None = None  # after the first use: _columns_used
        self.expressions = ExpressionCompiler(code, settings, self.variable, self._sublink, self._sublink_truth)
        code.at_end.append(self._let_go)
        above = parent.expressions.levels if parent is not None else ()
        self.expressions.levels = (*above, self.query)
        if parent is not None:
            self.expressions.parameters = parent.expressions.parameters
            self.expressions.overrides = {}
        self.scan_limit = RANGE_LIMIT
        self._outermost: Step | None = None  # the scan of a whole table that contains all other loops
        self.also_needed: frozenset[tuple[int, int]] = frozenset()  # columns that the caller will need
        self.row_names: dict[int, RowNames] = {}  # of the tables whose loops are open
        self.cte_rows: dict[str, str] = {}
        self._served = True
        self._check_supported()
        self._set_functions = set_functions_of(self.query)
        self._once: list[tree.Expr] = []  # conditions that are evaluated before the first row (One-Time Filter)
        self._relations_of: dict[int, frozenset[int]] = {}  # by the id of a condition of the query
        self._steps = self._order_steps()

    def _let_go(self) -> None:
        """The function is finished: breaks the references between the two compilers."""
        del self.expressions

    @property
    def at_most_one_row(self) -> bool:
        """Whether every relation is looked up by a whole unique key, so that the first row is the only one."""
        query = self.query
        if query.row_marks or query.has_aggregates or query.group_by or query.distinct is not None or query.offset:
            return False
        if query.has_set_functions:
            return False
        return all(step.relation < 0 or (step.access is not None and step.access.single) for step in self._steps)

    @property
    def looks_up_an_index(self) -> bool:
        """Whether an index leads to a row, whose key may have changed."""
        return any(isinstance(step.access, Access) and step.access.index is not None for step in self._steps)

    @property
    def looks_up_from_outside(self) -> bool:
        """Whether a relation is looked up by equality with a column of an outer query."""
        return any(
            condition.kind == "=" and any(item.levels_up for item in variables(condition.operand))
            for step in self._steps
            if isinstance(step.access, Access)
            for condition in step.access.steps
        )

    def _check_supported(self) -> None:
        query = self.query
        if any(isinstance(entry, tree.RangeTable) and entry.sample is not None for entry in query.range_table):
            raise NotOnRowPath("TABLESAMPLE")
        for present, name in (
            (any(not isinstance(cte.query, tree.Query) for cte in query.ctes), "WITH"),
            (query.has_windows, "window function"),
            (query.limit_with_ties, "FETCH WITH TIES"),
            (query.grouping_sets, "grouping sets"),
            (query.row_marks and not self._locks_here(), "row locks of a sub-query"),
        ):
            if present:
                raise NotOnRowPath(name)

    def _locks_here(self) -> bool:
        """Whether row locks belong to this query. Those of a sub-query that refers to nothing outside are taken before
        the statement runs (engine/sql/parts.py)."""
        return self.parent is None or reaches_out(self.query, named_too=self.parent.parent is not None)

    @property
    def notes(self) -> list[PlanNote]:
        """The plan for EXPLAIN, after it is written."""
        return self._describe(self._steps, self._served)

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
        if self._once:
            note = PlanNote("Result", [("One-Time Filter", tuple(self._once), query)], [note])
        if query.row_marks:
            note = PlanNote("LockRows", [], [note])
        if query.group_by:
            note = PlanNote("HashAggregate", [("Group Key", query.group_by, query)], [note])
        elif query.has_aggregates:
            note = PlanNote("Aggregate", [], [note])
        if self._set_functions:
            note = PlanNote("ProjectSet", [], [note])
        if query.distinct is not None:
            note = PlanNote("Unique", [], [note])
        if not served:
            keys = tuple(sort_key_shown(clause.expression, self.catalog) for clause in query.order_by)
            note = PlanNote("Sort", [("Sort Key", keys, query)], [note])
        if query.limit is not None or query.offset is not None:
            note = PlanNote("Limit", [], [note])
        return [note]

    def _describe_step(self, step: Step) -> PlanNote:
        if step.group:
            first, *others = [self._describe_step(item) for item in step.steps]
            for other in others:
                first = PlanNote("Nested Loop", [], [first, other])
            return first
        if step.relation < 0:
            return PlanNote("Result", [("One-Time Filter", tuple(step.filters), self.query)])
        entry = self.query.range_table[step.relation]
        filters = (*step.conditions, *step.filters) if step.outer else tuple(step.filters)
        return scan_note(self.query, entry, step.access, step.reverse, filters)

    # ---- columns ----------------------------------------------------------------------------------------------------

    def variable(self, item: tree.Var) -> Value:
        """The local that holds a column, of this query or of an outer one."""
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

    def _get_needed(self, relation: int) -> list[int]:
        """The columns of a relation that anything in the query refers to, in order."""
        used, _ = self._columns_used()
        return sorted({*used.get(relation, ()), *(column for place, column in self.also_needed if place == relation)})

    def _columns_used(self) -> tuple[Columns, Columns]:
        """The columns that any part of the query uses, and those that parts other than its targets use."""
        if self._used is None:
            used, beside = Columns(), Columns()
            for found, part in ((used, self.query.targets), (beside, self._rest())):
                for variable in variables(part):
                    if variable.levels_up == 0:
                        found.setdefault(variable.relation, {})[variable.column] = None
            for relation, columns in beside.items():
                used.setdefault(relation, {}).update(columns)
            self._used = used, beside
        return self._used

    def _get_named(self, relation: int) -> Sequence[int]:
        """The columns of a relation whose rows are available as a whole that need names of their own: all, or, if
        columns alone are output at once, those that other parts use."""
        query = self.query
        targets = [target.expression for target in query.targets]
        shown = query.order_by or query.distinct is not None or query.group_by or query.has_aggregates
        if shown or self.parent is not None or not all(isinstance(item, tree.Var) for item in targets):
            return list(self._columns_used()[0].get(relation, ()))
        return list(self._columns_used()[1].get(relation, ()))

    def _rest(self) -> tuple[object, ...]:
        """The query without its targets. Tables in FROM hold no expressions, and those of joins have been moved up
        (`expand_joins`)."""
        query = self.query
        sources = [entry for entry in query.range_table if not isinstance(entry, (tree.RangeTable, tree.RangeJoin))]
        return (
            *(query.from_items, query.where, query.group_by, query.having, query.order_by, query.distinct or ()),
            *(tuple(sources), query.limit, query.offset, query.ctes),
        )

    # ---- the function -----------------------------------------------------------------------------------------------

    def write(self, sink: Sink) -> None:
        """Writes the body of the query's function; `get`, `scan` and `n` exist already."""
        code, query = self.code, self.query
        sink.start()
        self._write_limits(sink)
        self.write_ctes((query.targets, *self._rest()), lazily=True)
        steps = self._steps
        served = self._served_order(steps)
        output = Output(code, query, self.expressions, sink, sorted_already=served)
        if query.row_marks:
            self._write_locked(steps, output)
        elif query.has_aggregates or query.group_by:
            groups = GroupWriter(code, self.expressions, query)
            groups.start()
            self.write_loops(groups.step)
            output.start()
            depth = code.depth
            groups.finish()
            self._write_row(output)
            code.dedent_to(depth)
        else:
            output.start()
            self.write_loops(lambda: self._write_row(output))
        output.finish()
        code.line(f"return {sink.finish}")
        self._served = served

    def _write_row(self, output: Output) -> None:
        virtual = any(isinstance(step.access, VirtualAccess) for step in self._steps)
        limit = ROW_LIMIT if virtual else RANGE_LIMIT
        open_set_functions(self.code, self.expressions, self._set_functions, limit, self._reads_all)
        output.row()

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

    def write_ctes(self, body: object, lazily: bool = False) -> dict[str, str]:
        """WITH queries that the body uses: each is run once, before the loops. Returns the sources of their rows.
        `lazily`: recursive ones may run while they are read, because nothing is written meanwhile."""
        if not self.query.ctes:
            return self.cte_rows
        used = {item.name for item in walk(body) if isinstance(item, tree.RangeCte)}
        for cte in self.query.ctes:
            if cte.name in used:
                assert isinstance(cte.query, tree.Query)
                rows = self.code.temporary("rows")
                source = write_recursion(self, cte) if cte.recursive else self._cte_source(cte.query)
                self.code.line(f"{rows} = {source if lazily or not cte.recursive else f'list({source})'}")
                self.cte_rows[cte.name] = rows
        return self.cte_rows

    def _cte_source(self, query: tree.Query) -> str:
        entry = query.range_table[0] if query.range_table else None
        if isinstance(entry, tree.RangeTable) and is_result(entry.table):
            return f"context.results[{entry.table.oid}]"
        return f"{self.write_subquery(query, ListSink(self.code, count=False))}()"

    # ---- the order of the loops -------------------------------------------------------------------------------------

    def _order_steps(self) -> list[Step]:
        """Inner-joined relations in the best order for look-ups; then the left joins."""
        inner: list[int] = []
        outer: list[Step] = []
        if self.query.set_operation is not None:
            return [Step(leftmost(self.query.set_operation))]
        conditions = conjuncts(self.query.where)
        for item in self.query.from_items:
            flatten(item, inner, outer, conditions)
        if inner and not self.query.row_marks:
            self._once = [c for c in conditions if is_the_same_for_every_row(c)]
            conditions = [c for c in conditions if c not in self._once]
        steps, waiting, bound = self._arrange(inner, list(enumerate(conditions)), frozenset())
        for step in outer:
            self._bind_outer(step, bound)
            bound |= {step.relation, *step.group}
            step.filters = [c for _, c in waiting if self._relations(c) <= bound]
            waiting = [(p, c) for p, c in waiting if not self._relations(c) <= bound]
            steps.append(step)
        if not steps and waiting:
            steps.append(Step(-1, filters=[c for _, c in waiting]))
        return steps

    def _arrange(
        self, relations: list[int], waiting: list[tuple[int, tree.Expr]], bound: frozenset[int]
    ) -> tuple[list[Step], list[tuple[int, tree.Expr]], frozenset[int]]:
        """The loops over inner-joined relations, with the conditions (numbered) as filters as soon as possible; the
        remaining conditions; and all relations that are available then."""
        steps: list[Step] = []
        filters = {position for position, c in waiting if has_sublink(c) and not _is_membership(c)}
        while relations:
            usable = [item for item in waiting if item[0] not in filters]
            possible = [self._candidate(relation, usable, bound) for relation in relations]
            candidates = [step for step in possible if step is not None]
            if not candidates:
                raise NotOnRowPath("a lateral join")
            best = max(candidates, key=step_rank)
            relations.remove(best.relation)
            note_provided(self.code, best.access)
            bound |= {best.relation}
            covered = {usable[i][0] for i in best.access.covered} if best.access else set()
            best.filters = [c for p, c in waiting if self._relations(c) <= bound and p not in covered]
            waiting = [(p, c) for p, c in waiting if not self._relations(c) <= bound]
            steps.append(best)
        return steps, waiting, bound

    def _relations(self, condition: tree.Expr) -> frozenset[int]:
        """relations_of for a condition of the query; called often while the loops are ordered. With one relation, that
        one: no condition has to wait for another."""
        if len(self.query.range_table) == 1:
            return _ONLY
        found = self._relations_of.get(id(condition))
        if found is None:
            found = self._relations_of[id(condition)] = relations_of(condition)
        return found

    def _candidate(self, relation: int, conditions: list[tuple[int, tree.Expr]], bound: frozenset[int]) -> Step | None:
        entry = self.query.range_table[relation]
        if not isinstance(entry, tree.RangeTable):
            depends = relations_of(entry) if getattr(entry, "lateral", False) else frozenset()
            return Step(relation) if depends <= bound else None
        if isinstance(entry.table, VirtualTable):
            return Step(relation, virtual_access(entry.table, relation, [c for _, c in conditions], bound))
        finder = Finder(self.catalog, entry.table, relation, bound, without=self.code.without, exact=self.code.exact)
        finder.add([condition for _, condition in conditions])
        return Step(relation, self._best_path(finder, relation))

    def _best_path(self, finder: Finder, relation: int) -> Access:
        """The best path; if rows are needed in order, a path with that order wins ties."""
        query = self.query
        wanted = query.order_by if len(query.from_items) == 1 and query.limit is not None else ()
        if query.has_aggregates or query.group_by or query.distinct is not None:
            wanted = ()
        return finder.best(wanted)

    def _bind_outer(self, step: Step, bound: frozenset[int]) -> None:
        if step.group:
            step.steps, rest, _ = self._arrange(list(step.group), list(enumerate(step.conditions)), bound)
            if rest:
                raise NotOnRowPath("a condition of a left join")
            return
        entry = self.query.range_table[step.relation]
        if not isinstance(entry, tree.RangeTable):
            return
        if isinstance(entry.table, VirtualTable):
            step.access = virtual_access(entry.table, step.relation, step.conditions, bound)
            return
        finder = Finder(self.catalog, entry.table, step.relation, bound, without=self.code.without)
        usable = [condition for condition in step.conditions if not has_sublink(condition)]
        finder.add(usable)
        step.access = note_provided(self.code, finder.best())

    def _served_order(self, steps: list[Step]) -> bool:
        """Whether the rows come in the order of ORDER BY; reverses the scan if that helps."""
        query = self.query
        if not query.order_by:
            return True
        if query.has_aggregates or query.group_by or query.distinct is not None or not steps:
            return False
        if query.has_set_functions and calls_set_functions(query.order_by):
            return False
        first = steps[0]
        if not isinstance(first.access, Access) or not all(
            step.access is not None and step.access.single for step in steps[1:]
        ):
            return False
        if first.access.single:
            return len(steps) == 1 or all(step.outer or step.access for step in steps)
        return serve_order(first, query.order_by)

    # ---- the loops --------------------------------------------------------------------------------------------------

    def write_loops(self, body: Callable[[], None]) -> None:
        """Writes the loops over all relations with `body` in the innermost."""
        depth = self.code.depth
        if self._once:
            self.code.indent(f"if {' and '.join(map(self.expressions.true, self._once))}:")
        loops = [item for step in self._steps for item in (step, *step.steps)]
        scanned = [step for step in loops if step.access is not None and step.access.full_scan]
        if scanned and self.parent is None:
            if scanned[0] is self._steps[0]:
                # It counts its own rows: a small source may be read for each of them.
                self._outermost = scanned[0]
                if self.code.stays or not self._reads_to_the_end(scanned[0]):
                    self.code.line("outer_rows = 0")
            else:
                self.scan_limit = FULL_SCAN_LIMIT
        self._write_rest(self._steps, body)
        self.code.dedent_to(depth)

    def _reads_whole_rows(self, step: Step, access: Access, ordered: bool) -> bool:
        """Whether a plan that runs once reads the table in one go: all of it, and only declared columns."""
        if step is not self._outermost or not self._reads_to_the_end(step) or self.query.row_marks:
            return False
        if cuts_order(access, ordered) or len(access.table.columns) > BRIEF_COLUMNS:
            return False
        return all(number > 0 for number in self._get_needed(step.relation))

    def _reads_to_the_end(self, step: Step) -> bool:
        """Whether the loop over a whole table certainly continues to its last row."""
        return self.query.limit is None and isinstance(step.access, Access) and step.access.index is None

    @property
    def _reads_all(self) -> bool:
        """Whether no loop ends before its last row: that of an EXISTS might."""
        return self.query.limit is None and self.parent is None

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
        if isinstance(step.access, VirtualAccess):
            writer = VirtualWriter(code, self.expressions)
            writer.write(step.access, step.relation, self._get_needed(step.relation), self.columns, self._member_rows)
            inside()
            return
        ordered = bool(self.query.order_by)
        if code.brief and self._reads_whole_rows(step, step.access, ordered):
            depth, needed, named = code.depth, self._get_needed(step.relation), self._get_named(step.relation)
            most = FULL_SCAN_LIMIT
            write_whole_rows(code, step.access, step.relation, needed, named, most, step.reverse, self.columns)
            inside()
            return code.dedent_to(depth)
        names = RowNames(code.temporary("key"), code.temporary("value"))
        self.row_names[step.relation] = names

        def row() -> None:
            self.write_columns(step.relation, names)
            inside()

        limit, counter = self.scan_limit, "n"
        if step is self._outermost:
            at_once = self._reads_to_the_end(step) and not code.stays
            limit, counter = FULL_SCAN_LIMIT, "" if at_once else "outer_rows"
        outermost = self.parent is None and step is self._steps[0]
        scans = ScanWriter(code, self.expressions, limit, counter, outermost)
        scans.write(step.access, names, row, step.reverse, ordered, step.apart)

    def _member_rows(self, query: tree.Query) -> str:
        """Source of the rows of the sub-query of an IN that uses no outer column: it runs once."""
        return rows_once(self, self.write_subquery(query, ListSink(self.code, count=False)), query)

    def write_columns(self, relation: int, names: RowNames) -> None:
        """Writes the decoding of a stored row into locals, for the columns that the query needs."""
        entry = self.query.range_table[relation]
        assert isinstance(entry, tree.RangeTable) and isinstance(entry.table, Table)
        needed = self._get_needed(relation)
        if tree.ROW_NUMBER in needed:
            self.code.names["row_number_of"] = row_number_of
            self.columns[relation, tree.ROW_NUMBER] = Value(f"row_number_of({names.key})", nullable=False)
            needed.remove(tree.ROW_NUMBER)
        if self.code.brief and needed and needed[0] > 0 and len(entry.table.columns) <= BRIEF_COLUMNS:
            named = self._get_named(relation)
            write_brief_decoding(self.code, entry.table, relation, needed, named, names.value, self.columns)
        else:
            write_decoding(self.code, entry.table, relation, needed, names.value, self.columns)

    def _write_source(self, relation: int, entry: tree.RangeEntry, inside: Callable[[], None]) -> None:
        """The loop over VALUES, a function or a sub-query in FROM."""
        code = self.code
        names = [code.temporary("c") for _ in entry.columns]
        if self.query.set_operation is not None:
            rows = self.set_rows(self.query.set_operation)
            code.indent(f"for {', '.join(names)}, in {rows}:" if names else f"for _ in {rows}:")
        elif isinstance(entry, tree.RangeValues):
            rows = "".join(
                f"({''.join(self.expressions.value(item).source + ', ' for item in row)}), " for row in entry.rows
            )
            code.indent(f"for {targets_of(names)} in ({rows}):")
        elif isinstance(entry, tree.RangeSubquery):
            wanted = needed_only(entry.query, self._get_needed(relation))
            function = self.write_subquery(wanted, self._rows_sink(wanted))
            code.indent(f"for {', '.join(names)}, in {function}():" if names else f"for _ in {function}():")
        elif isinstance(entry, tree.RangeCte):
            rows = self._cte_rows(entry)
            code.indent(f"for {', '.join(names)}, in {rows}:" if names else f"for _ in {rows}:")
        elif isinstance(entry, tree.RangeFunction):
            self._write_function(entry, names)
        else:
            raise NotOnRowPath(type(entry).__name__)
        call = entry.functions[0] if isinstance(entry, tree.RangeFunction) else None
        if not isinstance(call, tree.FuncExpr) or not asks_session(call):
            code.names["RowPathFull"] = RowPathFull
            code.line("n += 1", LineUse.COUNT)
            code.write_limit("n", RANGE_LIMIT)
        for position, name in enumerate(names):
            self.columns[relation, position + 1] = Value(name, nullable=True, atom=True)
        loop = MeteredLoop(code)
        inside()
        loop.write_next_row()

    def _rows_sink(self, query: tree.Query) -> Sink:
        """The sink of a sub-query in FROM: a list; or one by one if a recursion may have no end."""
        return self._yielding() if any(cte.recursive for cte in query.ctes) else ListSink(self.code, count=False)

    def _yielding(self) -> Sink:
        code = self.code
        return ActionSink(
            lambda values: code.line(f"yield ({''.join(value.source + ', ' for value in values)})"), "", lambda: None
        )

    def lazy_rows(self, operation: tree.SetOperation | tree.FromRef) -> str:
        """Source of the rows of a set operation, an iterable that computes them while it is read."""
        if isinstance(operation, tree.FromRef):
            entry = self.query.range_table[operation.relation]
            assert isinstance(entry, tree.RangeSubquery)
            return f"{self.write_subquery(entry.query, self._yielding())}()"
        left, right = self.lazy_rows(operation.left), self.lazy_rows(operation.right)
        if operation.kind == "union" and operation.all:
            self.code.names["chain"] = chain
            return f"chain({left}, {right})"
        combine = self.code.constant(set_combiner(operation, self.identity(operation)), operation.kind)
        return f"{combine}(list({left}), list({right}))"

    def identity(self, operation: tree.SetOperation) -> Identity:
        """The identity of the rows of a set operation."""
        levels = self.expressions.levels
        known = [known_output(self.query, number, type_, levels) for number, type_ in enumerate(operation.types, 1)]
        return identity_of(known)

    def set_rows(self, operation: tree.SetOperation | tree.FromRef) -> str:
        """Source of the rows of a set operation, a list."""
        if isinstance(operation, tree.FromRef):
            entry = self.query.range_table[operation.relation]
            assert isinstance(entry, tree.RangeSubquery)
            return f"{self.write_subquery(entry.query, ListSink(self.code, count=False))}()"
        left, right = self.set_rows(operation.left), self.set_rows(operation.right)
        if operation.kind == "union" and operation.all:
            return f"{left} + {right}"
        combine = self.code.constant(set_combiner(operation, self.identity(operation)), operation.kind)
        return f"{combine}({left}, {right})"

    def _cte_rows(self, entry: tree.RangeCte) -> str:
        owner: QueryCompiler | None = self
        for _ in range(entry.levels_up):
            owner = owner.parent if owner is not None else None
        if owner is None or entry.name not in owner.cte_rows:
            raise NotOnRowPath("WITH")
        return owner.cte_rows[entry.name]

    def _write_function(self, entry: tree.RangeFunction, names: list[str]) -> None:
        call = entry.functions[0]
        if len(entry.functions) > 1 or not isinstance(call, tree.FuncExpr):
            return write_rows_in_step(self.code, self.expressions, entry, names)
        if call.function.language == LANGUAGE:
            types = [column.type for column in entry.columns[: entry.column_counts[0]]]
            write_rows_of(self.code, entry, names, routine_rows(self.expressions, call, types), single=False)
            return
        one_row = len(call.function.output_types) > 1 and not (call.function.strict and call.arguments)
        if not call.function.returns_set and not one_row:
            raise NotOnRowPath("a plain function in FROM")
        source = self.expressions.set_function(call)
        if not call.function.returns_set:
            source = f"({source},)"
        elif self._reads_all and not self.code.stays:
            source = write_at_most(self.code, RANGE_LIMIT, call, source)
        if call.type.oid == RECORD and call.function.source == "array_unnest":
            columns = [column.type for column in entry.columns[: entry.column_counts[0]]]
            defined = as_defined(call.arguments[0], columns, self.expressions.levels)
            source = f"{self.code.constant(defined, 'defined')}({source})"
        single = entry.column_counts[0] == 1 and call.type.oid != RECORD
        write_rows_of(self.code, entry, names, source, single)

    def _write_outer(self, step: Step, inside: Callable[[], None]) -> None:
        """A left join: the matches of the outer row first, or one row of NULLs if there are none."""
        code = self.code
        found = code.temporary("found")
        code.line(f"{found} = []")
        depth = code.depth
        needed = [(relation, n) for relation in step.group or (step.relation,) for n in self._get_needed(relation)]

        def match() -> None:
            if step.conditions and not step.group:
                code.indent(f"if {' and '.join(map(self.expressions.true, step.conditions))}:")
            if any(place not in self.columns for place in needed):
                raise NotOnRowPath("a row of a sub-query as a whole")
            values = "".join(f"{self.columns[place].source}, " for place in needed)
            code.line(f"{found}.append(({values}))")
            write_kept(code, found)

        if step.group:
            self._write_rest(step.steps, match)
        elif step.access is None:
            self._write_source(step.relation, self.query.range_table[step.relation], match)
        else:
            self._write_relation(replace(step, outer=False), match)
        code.dedent_to(depth)
        names = [code.temporary("c") for _ in needed]
        nothing = f"(({'None, ' * len(needed)}),)"
        code.indent(f"for {', '.join(names)}, in {found} or {nothing}:" if names else f"for _ in {found} or {nothing}:")
        for place, name in zip(needed, names, strict=True):
            self.columns[place] = Value(name, nullable=True, atom=True)
        inside()

    # ---- row locks --------------------------------------------------------------------------------------------------

    def _write_locked(self, steps: list[Step], output: Output) -> None:
        """FOR UPDATE and similar: find the rows, sort them, then lock one after the other up to LIMIT.

        A row of the result is left out if one of its source rows was deleted, or has changed since the snapshot and its
        newest version no longer meets the conditions (READ COMMITTED).
        """
        query, code = self.query, self.code
        if query.has_aggregates or query.group_by or query.distinct is not None:
            raise NotOnRowPath("row locks")
        marks = self._lockable_marks(steps)
        keys = [clause.expression for clause in query.order_by]
        code.line("found = []")
        depth = code.depth
        self.scan_limit = LOCKING_LIMIT
        others: list[tuple[int, int]] = []

        def collect() -> None:
            others.extend(sorted(place for place in self.columns if all(place[0] != mark.relation for mark in marks)))
            rows = [name for mark in marks for name in self._row_of(mark.relation)]
            values = [self.columns[place].source for place in others]
            sorts = [self.expressions.value(key).source for key in keys]
            code.line(f"found.append(({', '.join([*rows, *values, *sorts])},))")
            write_kept(code, "found")

        self._write_rest(steps, collect)
        code.dedent_to(depth)
        if not output.sorted_already:
            first = 2 * len(marks) + len(others)
            write_sort(self.expressions, "found", query.order_by, range(first, first + len(keys)))
        output.sorted_already = True
        output.start()
        code.line("get_locked, get_moved = context.transaction.get_locked, context.transaction.get_moved")
        rows = [RowNames(code.temporary("key"), code.temporary("value")) for _ in marks]
        olds = [code.temporary("old") for _ in marks]
        names = [code.temporary("c") for _ in others]
        heads = [name for row, old in zip(rows, olds, strict=True) for name in (row.key, old)]
        if together := lock_all(query):
            code.line(f"locked = {together}")
        code.indent(f"for {', '.join([*heads, *names, *(['_'] * len(keys))])}, in found:")
        for place, name in zip(others, names, strict=True):
            self.columns[place] = Value(name, nullable=True, atom=True)
        for mark, row, old in zip(marks, rows, olds, strict=True):
            self._write_lock(mark, row, f"{old} if locked else " if together else "")
        conditions = [*conjuncts(query.where), *inner_conditions(query.from_items)]
        if conditions:
            same = " and ".join(f"{row.value} == {old}" for row, old in zip(rows, olds, strict=True))
            again = " and ".join(map(self.expressions.true, conditions))
            code.indent(f"if ({same}) or ({again}):")
        output.row()
        code.dedent_to(depth)

    def _lockable_marks(self, steps: list[Step]) -> list[tree.RowMark]:
        """The marks, all of them on tables whose rows are available under their keys. Raises 0A000 (nullable side)."""
        nullable = {relation for step in steps if step.outer for relation in (step.relation, *step.group)}
        for mark in self.query.row_marks:
            if mark.relation in nullable:
                message = f"FOR {mark.strength.upper()} cannot be applied to the nullable side of an outer join"
                raise SqlError("0A000", message)
            step = next((item for item in steps if item.relation == mark.relation), None)
            if step is None or not isinstance(step.access, Access):
                raise NotOnRowPath("row locks")
        return list(self.query.row_marks)

    def _row_of(self, relation: int) -> tuple[str, str]:
        names = self.row_names[relation]
        return names.key, names.value

    def _write_lock(self, mark: tree.RowMark, row: RowNames, before: str) -> None:
        """Locks a found row, and reads its newest version (`before`: or this); opens a block for one that exists."""
        code = self.code
        strength = STRENGTHS[mark.strength]
        table = self.query.range_table[mark.relation]
        assert isinstance(table, tree.RangeTable) and isinstance(table.table, Table)
        code.names["SqlError"] = SqlError
        with code.block("try:"):
            test = same_key_test(self.catalog, table.table) if strength == KEY_SHARE else None
            same = "" if test is None else f", {code.constant(test, 'same_key')}"
            code.line(f"{row.value} = {before}get_locked({row.key}, {strength}, {mark.wait!r}{same})")
            code.line(f"if {row.value} is None: _, {row.value} = get_moved({row.key}, {strength}, {mark.wait!r})")
        with code.block("except SqlError as error:"):
            code.line(f"raise {code.name_value(lock_refusal(table.table.name), 'refusal')}(error) from None")
        code.indent(f"if {row.value} is not None:")
        self.write_columns(mark.relation, row)

    # ---- sub-queries ------------------------------------------------------------------------------------------------

    def below(self, query: tree.Query) -> QueryCompiler:
        """A compiler for a nested query."""
        inner = QueryCompiler(self.code, self.catalog, self.settings, query, self)
        inner.scan_limit = self.scan_limit
        return inner

    def write_subquery(
        self, query: tree.Query, sink: Sink, prepare: Callable[[QueryCompiler], None] | None = None
    ) -> str:
        """Writes a sub-query's function at the present place; returns its name. It has no arguments and sees our
        locals."""
        code = self.code
        inner = self.below(pull_up(query))
        name = code.temporary("query")
        depth = code.depth
        code.indent(f"def {name}():")
        code.line("nonlocal n", LineUse.COUNT)
        if prepare is not None:
            prepare(inner)
        inner.write(sink)
        code.dedent_to(depth)
        return name

    def _sublink(self, link: tree.SubLink) -> Value:
        return sublink_value(self, link)

    def _sublink_truth(self, link: tree.SubLink) -> str | None:
        return sublink_truth(self, link)


def _is_membership(condition: tree.Expr) -> bool:
    """Whether it is an IN over a sub-query that look-ups in virtual tables can use."""
    return isinstance(condition, tree.SubLink) and condition.kind == "any" and not has_sublink(condition.test)
