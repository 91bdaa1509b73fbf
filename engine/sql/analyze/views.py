"""Views: their stored texts, parsed and analysed once for each catalog.

All names in a view's text are qualified, so it means the same under any search path. The relations and columns of these
names are stored with it (`Source`), so they may be renamed. The deparser (engine/sql/deparse.py) prints their present
names. Built-in views depend on built-in relations only, and are cached for good. Users' views are cached with their
catalog.
"""

from __future__ import annotations

from catalog.derived import DerivedValues
from catalog.schema import FIRST_USER_OID, Source, Table, View
from engine.sql import tree
from engine.sql.analyze.dispatch import select_query
from engine.sql.analyze.environment import Environment
from engine.sql.analyze.state import Shared, State
from engine.sql.parser import parse_select
from engine.sql.tree_walk import children

_Analysed = tuple[tree.Query, tuple[int, ...]]

_built_in: dict[int, _Analysed] = {}
_views: DerivedValues[int, _Analysed] = DerivedValues()


def view_query(view: View, environment: Environment) -> _Analysed:
    """The query of a view, and the OIDs of the relations that it reads."""
    known = _built_in if view.oid < FIRST_USER_OID else _views.of(environment.catalog)
    found = known.get(view.oid)
    if found is None:
        found = _analyse(view, environment)
        known[view.oid] = found
    return found


def stored_query(item: View | Table, environment: Environment) -> tree.Query:
    """The query of a view or of a materialized view."""
    return _analyse(item, environment)[0]


def _analyse(item: View | Table, environment: Environment) -> _Analysed:
    shared = Shared(environment, ())
    shared.sources = {source.location: source for source in item.sources}
    return _read(shared, item.query or ""), tuple(shared.relations)


def sources_of(text: str, environment: Environment) -> tuple[Source, ...]:
    """The relations in a text that will be stored."""
    shared = Shared(environment, ())
    shared.recorded = []
    _read(shared, text)
    return tuple(shared.recorded)


def _read(shared: Shared, text: str) -> tree.Query:
    """Analyses a stored text, independent of the search path."""
    environment = shared.environment
    path = ("pg_catalog", "public")
    shared.environment = Environment(environment.catalog, path, environment.user_name, environment.database_name)
    try:
        return select_query(State(shared), parse_select(text), settle=True)
    finally:
        environment.make_current()


_Levels = tuple[tuple[tree.RangeEntry, ...], ...]


def reads_column(node: object, table: int, column: int, levels: _Levels = ()) -> bool:
    """Whether a query itself uses a column (attnum) of a table. Views in it are not searched."""
    if isinstance(node, tree.RangeSubquery) and node.view is not None:
        return False
    if isinstance(node, tree.RangeJoin):  # of its columns those count that are referred to
        return False
    if isinstance(node, tree.Var):
        entry = levels[-1 - node.levels_up][node.relation]
        if isinstance(entry, tree.RangeJoin):
            below = levels[: len(levels) - node.levels_up]
            parts = (entry.expressions[node.column - 1],) if node.column else entry.expressions
            return any(reads_column(part, table, column, below) for part in parts)
        return isinstance(entry, tree.RangeTable) and entry.table.oid == table and node.column in (0, column)
    inside = (*levels, node.range_table) if isinstance(node, tree.Query) else levels
    return any(reads_column(child, table, column, inside) for child in children(node))
