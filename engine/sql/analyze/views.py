"""Views: the stored text, parsed and analysed, once per catalog.

A view's text has all its names qualified, so it means the same under any search path. Built-in views depend on built-in
relations only and are kept for good; users' views are kept as long as the catalog that they were analysed against.
"""

from __future__ import annotations

from catalog.schema import FIRST_USER_OID, Catalog, View
from engine.sql import tree
from engine.sql.analyze.environment import Environment
from engine.sql.analyze.state import Shared, State

_Known = dict[int, tuple[tree.Query, tuple[int, ...]]]


class _Cache:
    """Analysed views of the catalog seen last (replaced as a whole: long statements are planned in threads), and the
    built-in ones."""

    def __init__(self) -> None:
        self.held: tuple[Catalog | None, _Known] = None, {}
        self.built_in: _Known = {}

    def known(self, view: View, catalog: Catalog) -> _Known:
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
    known = _cache.known(view, environment.catalog)
    found = known.get(view.oid)
    if found is None:
        found = _analysed(view, environment)
        known[view.oid] = found
    return found


def _analysed(view: View, environment: Environment) -> tuple[tree.Query, tuple[int, ...]]:
    from engine.sql.analyze.select import select_query
    from engine.sql.parser import parse_select

    path = ("pg_catalog", "public")
    inside = Environment(environment.catalog, path, environment.user_name, environment.database_name)
    shared = Shared(inside, ())
    try:
        query = select_query(State(shared), parse_select(view.query), settle=True)
    finally:
        environment.make_current()
    return query, tuple(shared.relations)
