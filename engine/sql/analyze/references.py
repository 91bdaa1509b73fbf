"""The references of an analysed query or expression, as in pg_depend (dependency.c: find_expr_references_walker).

A view is one reference, whatever it reads itself. A relation's used columns are listed; the relation itself only if no
column is used. Built-in objects are not listed, because they cannot be dropped.
"""

from __future__ import annotations

from collections.abc import Iterable

from catalog.schema import FIRST_USER_OID
from catalog.system import derived_oids
from catalog.types import oids
from engine.sql import tree
from engine.sql.tree_walk import children

Reference = tuple[int, int, int]  # catalog (its OID), object, column or 0
_Levels = tuple[tuple[tree.RangeEntry, ...], ...]

_NAMED = {
    oids.REGCLASS: derived_oids.PG_CLASS,
    oids.REGTYPE: derived_oids.PG_TYPE,
    oids.REGPROC: derived_oids.PG_PROC,
    oids.REGPROCEDURE: derived_oids.PG_PROC,
    oids.REGNAMESPACE: derived_oids.PG_NAMESPACE,
}
_CONVERSIONS = (tree.RelabelType, tree.CoerceViaIO, tree.CoerceToDomain, tree.ArrayCoerce, tree.RowExpr)


def references(nodes: Iterable[object], entries: tuple[tree.RangeEntry, ...] = ()) -> tuple[Reference, ...]:
    """The references in the order of their OIDs. `entries`: the range table of an expression outside of queries."""
    found: set[Reference] = set()
    for node in nodes:
        _gather(node, (entries,) if entries else (), found)
    parts = {(kind, oid) for kind, oid, column in found if column}
    return tuple(
        sorted(item for item in found if item[1] >= FIRST_USER_OID and (item[2] or (item[0], item[1]) not in parts))
    )


def _gather(node: object, levels: _Levels, found: set[Reference]) -> None:
    if isinstance(node, tree.Var):
        _column(node, levels, found)
    elif isinstance(node, tree.RangeTable):
        found.add((derived_oids.PG_CLASS, node.table.oid, 0))
    elif isinstance(node, tree.RangeSubquery) and node.view is not None:
        found.add((derived_oids.PG_CLASS, node.view, 0))
        return
    elif isinstance(node, tree.RangeJoin):  # of its columns those count that USING has merged, and those that are used
        for expression in node.expressions[: node.merged]:
            _gather(expression, levels, found)
        return
    elif isinstance(node, tree.FuncExpr | tree.Aggref | tree.WindowFunc):
        found.add((derived_oids.PG_PROC, node.function.oid, 0))
    elif isinstance(node, tree.NextValueExpr):
        found.add((derived_oids.PG_CLASS, node.sequence, 0))
    elif isinstance(node, tree.Const):
        found.add((derived_oids.PG_TYPE, node.type.declared, 0))
        if node.type.oid in _NAMED and isinstance(node.value, int):
            found.add((_NAMED[node.type.oid], node.value, 0))
    elif isinstance(node, _CONVERSIONS):
        found.add((derived_oids.PG_TYPE, node.type.declared, 0))
    elif isinstance(node, tree.CollateExpr):
        found.add((derived_oids.PG_COLLATION, node.collation, 0))
    elif isinstance(node, tree.RangeFunction):  # its column definition list
        found.update((derived_oids.PG_COLLATION, column.collation, 0) for column in node.columns if column.collation)
    _inside(node, levels, found)


def _inside(node: object, levels: _Levels, found: set[Reference]) -> None:
    if isinstance(node, tree.Query):
        levels = (*levels, node.range_table)
    for child in children(node):
        _gather(child, levels, found)


def _column(node: tree.Var, levels: _Levels, found: set[Reference]) -> None:
    entry = levels[-1 - node.levels_up][node.relation]
    if isinstance(entry, tree.RangeJoin):
        below = levels[: len(levels) - node.levels_up]
        for part in (entry.expressions[node.column - 1],) if node.column else entry.expressions:
            _gather(part, below, found)
    elif isinstance(entry, tree.RangeTable):
        found.add((derived_oids.PG_CLASS, entry.table.oid, max(node.column, 0)))
    elif isinstance(entry, tree.RangeSubquery) and entry.view is not None:
        found.add((derived_oids.PG_CLASS, entry.view, max(node.column, 0)))
