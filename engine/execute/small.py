"""A SELECT of a few rows of one table, or of none, that runs once: composed of existing functions.

    rows of the access path -> filters -> groups -> outputs -> DISTINCT -> ORDER BY -> DataRows

Generated code (engine/execute/select.py) is worth its compilation for many rows or many executions. A new statement
that finds a few rows takes less time than the compilation. So here the tree becomes functions
(engine/execute/closures.py), which are mapped over lists of rows. No large value can occur. `NotSmall` while it runs:
the statement needs a compiled plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from catalog.catalog import Catalog
from catalog.memory import LARGE
from catalog.patience import PLANS
from catalog.schema import Table
from catalog.types import lookup
from catalog.types.oids import RECORDS, SMALL, TEXTS
from engine.execute.access import Finder
from engine.execute.aggregates import counts_rows, finisher, sees_nulls, steps_of
from engine.execute.closures import PLACE, Closure, Closures, Part, Row, row_of
from engine.execute.code import NotOnRowPath
from engine.execute.context import ExecContext, begin_meter
from engine.execute.output import sort_places
from engine.execute.reads import Reads
from engine.execute.row_order import each_once, identity_of, sort_function, sort_rows
from engine.sql import tree
from engine.sql.tree_walk import conjuncts, is_the_same_for_every_row
from engine.storage.rows import codec_of

MOST_ROWS = 128  # rows to read: with more, compiling is cheaper
_TABLES_KEPT = 4096
_GIVEN = SMALL | TEXTS  # types of parameters
# Storage ids of tables that had more rows. A hint: they get compiled plans at once.
_large: dict[int, None] = {}


class NotSmall(Exception):  # noqa: N818 - not an error: the statement is to have a plan
    """There are more rows, or large ones."""


def small_query(
    query: tree.Query, catalog: Catalog, parameter_types: Sequence[int], literals: int
) -> SmallQuery | None:
    """The query as functions; None if it needs a compiled plan. `parameter_types`: OIDs; `literals`: see
    tree.Analyzed."""
    if len(query.range_table) > 1 or len(query.from_items) > 1 or query.volatile:
        return None
    if not _GIVEN.issuperset(parameter_types):
        return None
    if query.set_operation is not None or query.limit is not None or query.offset is not None or query.distinct:
        return None
    if query.ctes or query.row_marks or query.has_windows or query.has_set_functions or query.grouping_sets:
        return None
    try:
        return SmallQuery(query, catalog, parameter_types, literals)
    except NotOnRowPath:
        return None


class SmallQuery:
    """The functions of a query, and their execution. Raises NotOnRowPath for a node without a function."""

    def __init__(self, query: tree.Query, catalog: Catalog, parameter_types: Sequence[int], literals: int) -> None:
        parameters = len(parameter_types)
        self._texts = [place for place, oid in enumerate(parameter_types) if oid in TEXTS]
        table = _table_of(query) if query.from_items else None
        rows = _Columns(table, parameters, literals)
        conditions = conjuncts(query.where)
        self._once: list[Closure] = []  # evaluated before the first row
        self._reads: Reads | None = None
        self._reads_all = False  # the whole table
        if table is not None:
            self._once = [rows.true(item) for item in conditions if is_the_same_for_every_row(item)]
            conditions = [item for item in conditions if not is_the_same_for_every_row(item)]
            finder = Finder(catalog, table, 0, without=frozenset(), exact=True)
            finder.add(conditions)
            access = finder.best()
            if access.provided:
                raise NotOnRowPath("an index for certain parameters")
            self._reads_all = access.full_scan
            if self._reads_all and table.storage_id in _large:
                raise NotOnRowPath("a larger table")
            self._reads = Reads(access, rows.function)
            conditions = [item for place, item in enumerate(conditions) if place not in access.covered]
        self._filters = [rows.true(item) for item in conditions]
        self._groups: _Groups | None = None
        self._having: Closure | None = None
        after: Closures = rows
        if query.has_aggregates or query.group_by:
            self._groups = after = _Groups(query, rows, parameters, literals)
        if query.having is not None:
            if self._groups is None:
                raise NotOnRowPath("HAVING alone")
            self._having = after.true(query.having)
        outputs = [target.expression for target in query.targets if not target.junk]
        kinds = [item.type.oid for item in outputs]
        sorted_by = [clause.expression.type.oid for clause in query.order_by]
        if any(oid in RECORDS for oid in (*kinds, *sorted_by)):
            raise NotOnRowPath("a row as a value")
        parts = [after.part(item) for item in outputs]
        self._width = len(parts)
        self._distinct = None if query.distinct is None else [lookup(oid) for oid in kinds]
        self._sorts: list[tuple[Callable[[Sequence[object]], Any], bool]] = []
        if query.order_by:
            places = sort_places(query.order_by, outputs)
            for clause, place in zip(query.order_by, places, strict=True):
                known = lookup(clause.expression.type.oid)
                key = sort_function(place, known, clause.descending, clause.nulls_first)
                self._sorts.append((key, clause.descending))
                if place >= len(outputs):
                    parts.append(after.part(clause.expression))
        self._row = row_of(parts)
        self._reads_columns = rows.used
        self._may_last = rows.may_last or after.may_last

    # ---- running ----------------------------------------------------------------------------------------------------

    def run(self, context: ExecContext, parameters: Sequence[object]) -> list[Row]:
        """The rows of the result; if ORDER BY needs more columns than the result, the first ones count. Raises NotSmall
        before any effect, and the errors of the expressions."""
        given: Row = tuple(parameters)
        if self._may_last:
            memory = begin_meter(context, may_leave=True)  # noqa: F841 - looked for by catalog/patience.py
        for place in self._texts:
            if given[place] is not None and len(given[place]) > LARGE:
                raise NotSmall
        rows: Iterable[Row] = (given,)
        if self._reads is not None:
            rows = ()
            if all(once(given) for once in self._once):
                rows = self._read(self._reads, context, given)
        for test in self._filters:
            rows = filter(test, rows)
        if self._groups is not None:
            rows = self._groups.gather(rows, given)
            if self._having is not None:
                rows = filter(self._having, rows)
        made: Iterable[Row] = map(self._row, rows)
        result: list[Any] = list(made if self._distinct is None else each_once(made, self._distinct))
        sort_rows(result, self._sorts)
        if self._sorts and result and len(result[0]) > self._width:
            width = self._width
            return [row[:width] for row in result]
        return result

    def _read(self, reads: Reads, context: ExecContext, given: Row) -> Iterable[Row]:
        values = reads.values(context.reader, given, MOST_ROWS)
        if values is None:
            if self._reads_all:
                if len(_large) >= _TABLES_KEPT:
                    _large.clear()
                _large[reads.table.storage_id] = None
            raise NotSmall
        for value in values:
            if len(value) > LARGE:
                raise NotSmall
        if not self._reads_columns:
            return [given] * len(values)
        rows = map(codec_of(reads.table).decode, values)
        return [given + row for row in rows] if given else rows


PLANS.add(SmallQuery.run.__code__)


def _table_of(query: tree.Query) -> Table:
    """The table of a query over a single table."""
    item = query.from_items[0]
    entry = query.range_table[item.relation] if isinstance(item, tree.FromRef) else None
    if not isinstance(entry, tree.RangeTable) or not isinstance(entry.table, Table) or entry.sample is not None:
        raise NotOnRowPath("no plain table")
    return entry.table


class _Columns(Closures):
    """The rows of a table: parameters, then its columns. `used`: whether any of these is used."""

    def __init__(self, table: Table | None, parameters: int, literals: int) -> None:
        super().__init__(literals)
        columns = () if table is None else table.columns
        self._places = {column.number: place for place, column in enumerate(columns, parameters)}
        self.used = False

    def place(self, item: tree.Var) -> int:
        place = self._places.get(item.column)
        if place is None or item.levels_up:
            raise NotOnRowPath(f"column {item.name}")
        self.used = True
        return place


class _Groups(Closures):
    """The rows after an aggregation: parameters, then the items of each group in the order of their first use: grouping
    expressions, columns that these determine, and aggregates."""

    def __init__(self, query: tree.Query, rows: Closures, parameters: int, literals: int) -> None:
        super().__init__(literals)
        self._rows = rows
        self._parameters = parameters
        self._kept: list[tree.Expr] = []
        self._slots: list[_Slot] = []
        self._by = list(query.group_by)
        self._key: Callable[[Row], Row] | None = None
        self._sort_keys: list[Any] = []
        if query.group_by:
            self._key = row_of([rows.part(item) for item in query.group_by])
            if any(item.type.oid in RECORDS for item in query.group_by):
                raise NotOnRowPath("groups of rows")
            keys = [lookup(item.type.oid).sort_key() for item in query.group_by]
            self._sort_keys = keys if any(keys) else []

    def part(self, expression: tree.Expr) -> Part:
        if type(expression) is tree.Aggref or expression in self._by:
            return PLACE, self._place_of(expression)
        return super().part(expression)

    def place(self, item: tree.Var) -> int:
        if item.levels_up or not self._by:
            raise NotOnRowPath("a column outside of aggregates")
        return self._place_of(item)

    def _place_of(self, expression: tree.Expr) -> int:
        if expression in self._kept:
            return self._parameters + self._kept.index(expression)
        if isinstance(expression, tree.Aggref):
            slot = _Slot.of_aggregate(len(self._kept), expression, self._rows)
        else:
            slot = _Slot(self._rows.function(expression), None, None)
        self._kept.append(expression)
        self._slots.append(slot)
        return self._parameters + len(self._kept) - 1

    def gather(self, rows: Iterable[Row], given: Row) -> Iterable[Row]:
        """The rows of the groups."""
        slots = self._slots
        steps = [slot.step for slot in slots if slot.step is not None]
        groups: dict[Row, list[Any]] = {}
        if self._key is None:
            groups[()] = group = [slot.first(()) for slot in slots]
            for row in rows:
                for step in steps:
                    step(group, row)
        else:
            of_row, keys = self._key, self._sort_keys
            for row in rows:
                key = of_row(row)
                if keys:
                    key = identity_of(key, keys)
                found = groups.get(key)
                if found is None:
                    groups[key] = found = [slot.first(row) for slot in slots]
                for step in steps:
                    step(found, row)
        ends = [slot.last for slot in slots]
        for kept in groups.values():
            yield given + tuple([item if end is None else end(item) for end, item in zip(ends, kept, strict=True)])


class _Slot:
    """An item of a group: `first` makes it from the first row, `step` changes it at each row, `last` ends it."""

    __slots__ = ("first", "last", "step")

    def __init__(
        self,
        first: Closure,
        step: Callable[[list[Any], Row], None] | None,
        last: Callable[[Any], Any] | None,
    ) -> None:
        self.first = first
        self.step = step
        self.last = last

    @staticmethod
    def of_aggregate(place: int, aggregate: tree.Aggref, rows: Closures) -> _Slot:
        if aggregate.levels_up or aggregate.direct_arguments or aggregate.type.oid not in SMALL:
            raise NotOnRowPath(f"aggregate {aggregate.function.name}")
        arguments = [rows.function(argument) for argument in aggregate.arguments]
        test = None if aggregate.filter is None else rows.true(aggregate.filter)
        every = sees_nulls(aggregate)
        if aggregate.distinct or aggregate.order_by:
            if any(clause.expression.type.oid not in SMALL for clause in aggregate.order_by):
                raise NotOnRowPath("an aggregate in an order")
            items = [*arguments, *[rows.function(clause.expression) for clause in aggregate.order_by]]
            step = _collecting(place, items, len(arguments), every)
            return _Slot(lambda row: [], _where(test, step), finisher(aggregate, ()))
        if counts_rows(aggregate):
            return _Slot(lambda row: 0, _where(test, _counting(place, arguments)), None)
        make, advance, final = steps_of(aggregate)
        return _Slot(lambda row: make(), _where(test, _stepping(place, arguments, advance, every)), final)


def _where(test: Closure | None, step: Callable[[list[Any], Row], None]) -> Callable[[list[Any], Row], None]:
    if test is None:
        return step

    def test_group(group: list[Any], row: Row) -> None:
        if test(row):
            step(group, row)

    return test_group


def _counting(place: int, arguments: list[Closure]) -> Callable[[list[Any], Row], None]:
    if not arguments:

        def count_all(group: list[Any], row: Row) -> None:
            group[place] += 1

        return count_all
    (value,) = arguments

    def count(group: list[Any], row: Row) -> None:
        if value(row) is not None:
            group[place] += 1

    return count


def _stepping(
    place: int, arguments: list[Closure], advance: Callable[..., Any], every: bool
) -> Callable[[list[Any], Row], None]:
    if len(arguments) == 1 and not every:
        (value,) = arguments

        def step_one(group: list[Any], row: Row) -> None:
            if (found := value(row)) is not None:
                group[place] = advance(group[place], found)

        return step_one

    def step(group: list[Any], row: Row) -> None:
        values = [value(row) for value in arguments]
        if every or None not in values:
            group[place] = advance(group[place], *values)

    return step


def _collecting(place: int, items: list[Closure], width: int, every: bool) -> Callable[[list[Any], Row], None]:
    def collect(group: list[Any], row: Row) -> None:
        values = tuple([item(row) for item in items])
        if every or None not in values[:width]:
            group[place].append(values)

    return collect
