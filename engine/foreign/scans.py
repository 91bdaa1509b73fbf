"""The scans of a statement's foreign tables: what is fetched from their servers, and the statement over that.

    SELECT f.a FROM f JOIN t ON t.b = f.b WHERE f.c > 5

    result 1:  SELECT a, b FROM s.f WHERE ((c > 5))          on the server of f, before the statement
    SELECT f.a FROM (WITH rows AS (<result 1>) SELECT a, b, NULL FROM rows) f JOIN t ON t.b = f.b WHERE f.c > 5

The sub-query has a column for every number of the table's columns, so the rest of the tree stays as it is. A column
that is only needed by conditions that the server evaluates is fetched all the same, because they are evaluated again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from catalog.catalog import Catalog
from catalog.errors import SqlError, not_supported
from catalog.extensions import POSTGRES_HANDLER
from catalog.schema import Column, ForeignServer, ForeignWrapper, Table, View, VirtualTable
from catalog.types import oids
from catalog.types.base import TypeRef
from engine.foreign import remote_sql
from engine.sql import tree
from engine.sql.need_order import ON
from engine.sql.parts import FIRST_RESULT_OID, scan_of
from engine.sql.table_subqueries import row_of
from engine.sql.tree_walk import transform, walk, walk_with_depth

FIRST_SCAN_OID = FIRST_RESULT_OID + 0x4000
"""The OID of the result of a statement's first scan, as a virtual table; further ones follow."""

_FETCH_SIZE = 100
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Scan:
    """What is fetched from one server. `columns`: those of the table in the order of the result; behind them the remote
    ctid, if `places`. `parameters`: the statement's parameters whose values are $1, $2, ... `role`: as whom, 0 for the
    current user."""

    table: Table
    shown: str
    server: ForeignServer
    role: int
    result: VirtualTable
    columns: tuple[Column, ...]
    sql: str
    parameters: tuple[tree.Param, ...]
    fetch_size: int
    places: bool = False


def server_of(catalog: Catalog, table: Table) -> ForeignServer:
    """The server of a foreign table. Raises 55000 if its wrapper has no handler."""
    server = catalog.get(table.server)
    assert isinstance(server, ForeignServer)
    wrapper = catalog.get(server.wrapper)
    assert isinstance(wrapper, ForeignWrapper)
    if wrapper.handler != POSTGRES_HANDLER:
        raise SqlError("55000", f'foreign-data wrapper "{wrapper.name}" has no handler')
    return server


def concerns_foreign(catalog: Catalog, analyzed: tree.Analyzed) -> bool:
    """Whether a statement reads or changes foreign tables anywhere: not any more, if its scans were taken."""
    if catalog.foreign_tables.isdisjoint((*analyzed.relations, *analyzed.written)):
        return False
    changed = getattr(analyzed.statement, "table", None)
    return bool(getattr(changed, "server", 0)) or any(map(_is_foreign, walk(analyzed.statement)))


def _is_foreign(entry: object) -> bool:
    return isinstance(entry, tree.RangeTable) and isinstance(entry.table, Table) and bool(entry.table.server)


def place_column(table: Table) -> int:
    """The number of the column with the remote ctid, which follows those of the table."""
    return max((column.number for column in table.columns), default=0) + 1


def take_scans(statement: _T, catalog: Catalog) -> tuple[_T, tuple[Scan, ...]]:
    """The statement over the results of its scans, and these."""
    found: list[Scan] = []

    def change(item: object, depth: int) -> object:
        if isinstance(item, tree.Query | tree.Insert | tree.Update | tree.Delete | tree.Merge):
            return _Level(item, catalog, found).replace_tables() if any(map(_is_foreign, item.range_table)) else item
        return item

    return transform(_with_owners(statement, catalog), change), tuple(found)


def _with_owners(statement: _T, catalog: Catalog) -> _T:
    """The foreign tables that a view reads are read as the view's owner, unless it is a security_invoker view."""

    def give(role: int) -> Callable[[object, int], object]:
        def change(item: object, depth: int) -> object:
            return replace(item, role=role) if isinstance(item, tree.RangeTable) and not item.role else item

        return change

    def change(item: object, depth: int) -> object:
        view = catalog.get(item.view or 0) if isinstance(item, tree.RangeSubquery) else None
        if not isinstance(item, tree.RangeSubquery) or not isinstance(view, View):
            return item
        if dict(view.options).get("security_invoker", "off") in ON:
            return item
        return replace(item, query=transform(item.query, give(view.owner)))

    return transform(statement, change)


class _Level:
    """One query or change with foreign tables in its range table."""

    def __init__(self, node: tree.Statement, catalog: Catalog, found: list[Scan]) -> None:
        self._node = node
        self._catalog = catalog
        self._found = found

    def replace_tables(self) -> tree.Statement:
        node = self._node
        for number, entry in enumerate(node.range_table):
            if isinstance(entry, tree.RangeTable) and isinstance(entry.table, Table) and entry.table.server:
                node = with_whole_rows(node, number, entry.table)
        entries = list(node.range_table)
        quals = dict(_conditions_of(node))
        locked = {}
        if isinstance(node, tree.Query):
            locked = {mark.relation: mark for mark in node.row_marks if _is_foreign(entries[mark.relation])}
        for number, entry in enumerate(node.range_table):
            if not _is_foreign(entry):
                continue
            assert isinstance(entry, tree.RangeTable) and isinstance(entry.table, Table)
            if entry.sample is not None:
                not_supported("TABLESAMPLE of a foreign table")
            scan = self._scan(node, number, entry, quals.get(number, ()), locked.get(number))
            entries[number] = _over_result(entry, scan)
        changed = replace(node, range_table=tuple(entries))
        if isinstance(changed, tree.Query) and locked:
            changed = replace(
                changed, row_marks=tuple(mark for mark in changed.row_marks if mark.relation not in locked)
            )
        return changed

    def _scan(
        self,
        node: tree.Statement,
        number: int,
        entry: tree.RangeTable,
        quals: Sequence[tree.Expr],
        mark: tree.RowMark | None,
    ) -> Scan:
        table = entry.table
        assert isinstance(table, Table)
        used = _used_columns(node, number)
        columns = tuple(column for column in table.columns if column.number in used)
        places = place_column(table) in used
        result_columns = [Column(at, column.name, column.type) for at, column in enumerate(columns, 1)]
        names = [remote_sql.column_name(column) for column in columns]
        if places:
            result_columns.append(Column(len(columns) + 1, "ctid", TypeRef(oids.TEXT)))
            names.append("ctid")
        if not result_columns:  # rows without a value are counted all the same
            result_columns.append(Column(1, "present", TypeRef(oids.TEXT)))
        writer = remote_sql.Conditions(table, number)
        conditions = [text for condition in quals if (text := writer.text(condition)) is not None]
        schema = self._catalog.schema_name(table.schema)
        sql = remote_sql.select(table, schema, names, [_in_parentheses(text) for text in conditions])
        sql += _limit(node, number, len(conditions))
        if mark is not None:
            sql += _locking(mark)
        oid = FIRST_SCAN_OID + len(self._found)
        server = server_of(self._catalog, table)
        options = dict(server.options) | dict(table.foreign_options)
        scan = Scan(
            table, f"{schema}.{table.name}", server, entry.role, VirtualTable(oid, 0, "rows", tuple(result_columns)),
            columns, sql, tuple(writer.parameters), int(options.get("fetch_size", _FETCH_SIZE)), places,
        )  # fmt: skip
        self._found.append(scan)
        return scan


def with_whole_rows(node: _T, relation: int, table: Table) -> _T:
    """Whole rows of a range entry, a foreign table, as their columns, and its tableoid as a constant. Raises 0A000 for
    other system columns."""

    def change(item: object, depth: int) -> object:
        if not isinstance(item, tree.Var) or item.levels_up != depth - 1 or item.relation != relation:
            return item
        if item.column == 0:
            return row_of(item, table, {column.number: column.number for column in table.columns})
        if item.column == tree.TABLE_OID:
            return tree.Const(table.oid, TypeRef(oids.OID))
        if item.column < 0:
            not_supported("a system column of a foreign table")
        return item

    return transform(node, change)


def _in_parentheses(text: str) -> str:
    return text if text.startswith("(") else f"({text})"


def _locking(mark: tree.RowMark) -> str:
    """PostgreSQL's postgres_fdw knows two strengths, and always waits."""
    if mark.wait != "block":
        not_supported(f"{mark.wait.upper()} of a foreign table")
    return " FOR SHARE" if mark.strength in ("share", "key share") else " FOR UPDATE"


def _limit(node: tree.Statement, number: int, sent: int) -> str:
    """LIMIT of a query of this one table, if no step between needs more rows; `sent`: how many conditions are."""
    if not isinstance(node, tree.Query) or node.limit is None:
        return ""
    count = node.limit
    if isinstance(count, tree.FuncExpr) and len(count.arguments) == 1:  # a cast to bigint
        count = count.arguments[0]
    if not isinstance(count, tree.Const) or not isinstance(count.value, int):
        return ""
    plain = not (
        node.offset or node.order_by or node.group_by or node.grouping_sets or node.having or node.windows
        or node.distinct is not None or node.has_aggregates or node.has_windows or node.has_set_functions
        or node.limit_with_ties
    )  # fmt: skip
    alone = node.from_items == (tree.FromRef(number),) and len(_conjuncts(node.where)) == sent
    return f" LIMIT {count.value}::bigint" if plain and alone else ""


def _over_result(entry: tree.RangeTable, scan: Scan) -> tree.RangeSubquery:
    """The sub-query that has the place of a foreign table."""
    shown = tuple(tree.RangeColumn(column.name, column.type) for column in scan.result.columns)
    places = {column.number: at for at, column in enumerate(scan.columns, 1)}
    known = {column.number: column for column in scan.table.columns}
    targets, columns = [], []
    for number in range(1, place_column(scan.table)):
        at, column = places.get(number), known.get(number)
        type_ = column.type if column is not None else TypeRef(oids.TEXT)
        name = column.name if column is not None else ""
        expression: tree.Expr = tree.Const(None, type_) if at is None else tree.Var(0, at, type_, 0, name)
        targets.append(tree.Target(expression, name))
        columns.append(tree.RangeColumn(name, type_))
    if scan.places:
        type_ = TypeRef(oids.TEXT)
        targets.append(tree.Target(tree.Var(0, len(scan.columns) + 1, type_, 0, "ctid"), "ctid"))
        columns.append(tree.RangeColumn("ctid", type_))
    if not targets:
        targets.append(tree.Target(tree.Const(None, TypeRef(oids.TEXT)), ""))
        columns.append(tree.RangeColumn("", TypeRef(oids.TEXT)))
    cte = tree.Cte("rows", shown, scan_of(tree.RangeTable(scan.result, scan.result.name, shown)))
    query = tree.Query(
        tuple(targets), (tree.RangeCte("rows", 0, "rows", shown),), (tree.FromRef(0),), ctes=(cte,)
    )  # fmt: skip
    return tree.RangeSubquery(query, entry.alias, tuple(columns))


def _used_columns(node: tree.Statement, number: int) -> set[int]:
    """The columns of a range entry that the query refers to, with the queries inside. Of a join's columns only merged
    ones are referred to as such."""
    entries = tuple(
        replace(entry, expressions=entry.expressions[: entry.merged]) if isinstance(entry, tree.RangeJoin) else entry
        for entry in node.range_table
    )
    trimmed = replace(node, range_table=entries)
    return {
        item.column
        for item, depth in walk_with_depth(trimmed)
        if isinstance(item, tree.Var) and item.levels_up == depth - 1 and item.relation == number
    }


# ---- conditions -----------------------------------------------------------------------------------------------------


def _conjuncts(condition: tree.Expr | None) -> tuple[tree.Expr, ...]:
    if condition is None:
        return ()
    if isinstance(condition, tree.BoolExpr) and condition.operator == "and":
        return tuple(part for argument in condition.arguments for part in _conjuncts(argument))
    return (condition,)


def _conditions_of(node: tree.Statement) -> Iterator[tuple[int, tuple[tree.Expr, ...]]]:
    """The conditions that a row of each range entry must meet to matter: (entry, conditions over it and others)."""
    if isinstance(node, tree.Query | tree.Update | tree.Delete):
        where = _conjuncts(node.where)
        if not isinstance(node, tree.Query):
            yield 0, _about(where, 0)
        for item in node.from_items:
            yield from _conditions_in(item, where)


def _conditions_in(item: tree.FromItem, outer: tuple[tree.Expr, ...]) -> Iterator[tuple[int, tuple[tree.Expr, ...]]]:
    if isinstance(item, tree.FromRef):
        yield item.relation, _about(outer, item.relation)
        return
    own = _conjuncts(item.condition)
    sides = {
        "inner": (outer + own, outer + own), "cross": (outer + own, outer + own), "left": (outer, own),
        "right": (own, outer), "full": ((), ()),
    }[item.kind]  # fmt: skip
    yield from _conditions_in(item.left, sides[0])
    yield from _conditions_in(item.right, sides[1])


def _about(conditions: tuple[tree.Expr, ...], relation: int) -> tuple[tree.Expr, ...]:
    """The conditions that name the entry."""
    return tuple(
        condition
        for condition in conditions
        if any(isinstance(part, tree.Var) and part.relation == relation for part in walk(condition))
    )
