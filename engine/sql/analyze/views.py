"""Views: the stored text, parsed and analysed, once per catalog.

A view's text has all its names qualified, so it means the same under any search path; which relations and columns they
are is stored beside it (`Source`), so they may be renamed. What they are called now is the printer's business
(engine/sql/deparse.py). Built-in views depend on built-in
relations only and are kept for good; users' views are kept as long as the catalog that they were analysed against.
"""

from __future__ import annotations

from catalog.catalog import Catalog
from catalog.schema import FIRST_USER_OID, Source, Table, View
from engine.sql import tree
from engine.sql.analyze.dispatch import select_query
from engine.sql.analyze.environment import Environment
from engine.sql.analyze.state import Shared, State
from engine.sql.parser import parse_select
from engine.sql.tree_walk import children

_Known = dict[int, tuple[tree.Query, tuple[int, ...]]]


class _Cache:
    """Analysed views of the catalog seen last (replaced as a whole: long statements are planned in threads), and the
    built-in ones."""

    def __init__(self) -> None:
        self.held: tuple[Catalog | None, _Known] = None, {}
        self.built_in: _Known = {}

    def get_known(self, view: View, catalog: Catalog) -> _Known:
        if view.oid < FIRST_USER_OID:
            return self.built_in
        held, views = self.held
        if held is not catalog:
            views = {}
            self.held = catalog, views
        return views


_cache = _Cache()


def view_query(view: View, environment: Environment) -> tuple[tree.Query, tuple[int, ...]]:
    """The query of a view, and the OIDs of the relations that it reads."""
    known = _cache.get_known(view, environment.catalog)
    found = known.get(view.oid)
    if found is None:
        found = _analyse(view, environment)
        known[view.oid] = found
    return found


def stored_query(item: View | Table, environment: Environment) -> tree.Query:
    """The query of a view or of a materialized view."""
    return _analyse(item, environment)[0]


def _analyse(item: View | Table, environment: Environment) -> tuple[tree.Query, tuple[int, ...]]:
    shared = Shared(environment, ())
    shared.sources = {source.location: source for source in item.sources}
    return _read(shared, item.query or ""), tuple(shared.relations)


def sources_of(text: str, environment: Environment) -> tuple[Source, ...]:
    """The relations that a text names which is about to be stored."""
    shared = Shared(environment, ())
    shared.recorded = []
    _read(shared, text)
    return tuple(shared.recorded)


def _read(shared: Shared, text: str) -> tree.Query:
    """Analyses a stored text, whatever the search path is."""
    environment = shared.environment
    path = ("pg_catalog", "public")
    shared.environment = Environment(environment.catalog, path, environment.user_name, environment.database_name)
    try:
        return select_query(State(shared), parse_select(text), settle=True)
    finally:
        environment.make_current()


_Levels = tuple[tuple[tree.RangeEntry, ...], ...]


def reads_column(node: object, table: int, column: int, levels: _Levels = ()) -> bool:
    """Whether a query itself refers to a column (attnum) of a table; views in it are not looked into."""
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
