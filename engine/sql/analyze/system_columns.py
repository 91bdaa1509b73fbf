"""System columns: tableoid, ctid, xmin, xmax, cmin and cmax of tables.

tableoid is a column of its own (`tree.TABLE_OID`). The others are computed from the row, by inner functions
(catalog/functions/system_columns.py), so a table that no query asks for them pays nothing.
"""

from __future__ import annotations

from catalog.functions.base import Function
from catalog.functions.system_columns import CTID_OF_KEY, CTID_OF_NUMBER, NO_CMAX, NO_CMIN, NO_XID, XMIN
from catalog.schema import Table, VirtualTable
from catalog.types.base import TypeRef
from catalog.types.oids import BOOL, INT8, INTEGERS, OID, XID
from engine.sql import tree
from engine.sql.analyze.errors import fail, refuse
from engine.sql.analyze.state import NamespaceItem, State

NAMES = frozenset({"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"})
_ZEROS = {"xmax": NO_XID, "cmin": NO_CMIN, "cmax": NO_CMAX}
_OF_ONE_ROW = {
    "check constraints": 'system column "{}" reference in check constraint is invalid',
    "column generation expressions": 'cannot use system column "{}" in column generation expression',
}


def system_column(state: State, item: NamespaceItem, name: str, location: int) -> tree.Expr | None:
    """A system column of an item, as its own query level sees it; None if it has none of this name."""
    entry = item.entry
    if name not in NAMES or not isinstance(entry, tree.RangeTable):
        return None
    table = entry.table
    if name == "tableoid":
        return _table_oid(state, table, item, location)
    if not isinstance(table, Table):
        return None
    if state.kind in _OF_ONE_ROW:
        fail("42P10", _OF_ONE_ROW[state.kind].format(name), location)
    if name == "xmax" and item.may_conflict:
        return tree.Var(item.index, tree.XMAX, TypeRef(XID), 0, name, location)
    place = _ctid(state, item.index, entry, table, name, location)
    if name == "ctid":
        return place
    if name == "xmin":
        columns = tuple(tree.Var(item.index, column.number, column.type, 0, column.name) for column in table.columns)
        return _call(XMIN, (place, *columns), location)
    return _call(_ZEROS[name], (place,), location)


def _ctid(state: State, index: int, entry: tree.RangeTable, table: Table, name: str, location: int) -> tree.FuncExpr:
    family = table.partitioning is not None or (table.oid in state.environment.catalog.children and not entry.only)
    if family and not (table.partitioning is not None and table.key_columns):
        what = "a partitioned table without a primary key" if table.partitioning else "an inherited table"
        refuse(f'system column "{name}" of {what}', location)
    if not table.key_columns:
        return _call(CTID_OF_NUMBER, (tree.Var(index, tree.ROW_NUMBER, TypeRef(INT8)),), location)
    columns = [table.column_by_number(number) for number in table.key_columns]
    keys = tuple(tree.Var(index, column.number, column.type, 0, column.name) for column in columns)
    single = len(keys) == 1 and keys[0].type.oid in INTEGERS
    return _call(CTID_OF_NUMBER if single else CTID_OF_KEY, keys, location)


def _call(function: Function, arguments: tuple[tree.Expr, ...], location: int) -> tree.FuncExpr:
    return tree.FuncExpr(function, arguments, TypeRef(function.result_type), location=location)


def _table_oid(state: State, table: Table | VirtualTable, item: NamespaceItem, location: int) -> tree.Expr:
    """tableoid: a column of a stored table, which may have rows of other tables. For a system catalog it is its OID, or
    NULL in a row that an outer join has added."""
    if isinstance(table, Table):
        state.shared.table_oids = True
        return tree.Var(item.index, tree.TABLE_OID, TypeRef(OID), 0, "tableoid", location)
    known = next(number for number, column in enumerate(table.columns) if column.not_null)
    there = tree.NullTest(item.read(known), False, TypeRef(BOOL))
    return tree.CaseExpr(
        None, ((there, tree.Const(table.oid, TypeRef(OID))),), tree.Const(None, TypeRef(OID)), TypeRef(OID)
    )
