"""The tablespaces of a statement, which determine the node that may run it, if they have leaders of their own.

    named          its relations, and the relations that those use (engine/node/affected_tablespaces.py)
    changed        also those that changes of its relations affect
    shared         the schema, sequences, advisory locks are in pg_default
    everything     statements whose text does not show all: they call functions in SQL, change types or roles, and so
                   on; long texts, which are not parsed

A relation that is not found counts as one of pg_default, where it may exist by now.
"""

from __future__ import annotations

from catalog.schema import DEFAULT_TABLESPACE_OID, Table
from engine.node.affected_tablespaces import UntoldError, add_touched, tables_behind
from engine.replica import HOME, identity_of
from engine.sql.analyze.environment import Environment
from engine.statements.needs import Needs
from engine.statements.routing import Route

Reached = frozenset[bytes]
"""Tablespaces by their ids, HOME for pg_default."""

AT_HOME: Reached = frozenset((HOME,))
NOWHERE: Reached = frozenset()


def find_reached(route: Route, needs: Needs, environment: Environment, default_place: str) -> Reached | None:
    """The tablespaces of a route; None: all. `default_place`: `default_tablespace`."""
    if needs is Needs.NOTHING:
        return NOWHERE
    if not route.told:
        return None
    catalog = environment.catalog
    if not catalog.routines.keys().isdisjoint(route.calls):
        return None
    tables: dict[int, Table] = {}
    shared = route.shared
    try:
        for name in route.relations:
            shared |= tables_behind(catalog, environment.find_relation(*name), tables)
        if needs is Needs.LEADER:
            shared |= add_touched(catalog, tables)
    except UntoldError:
        return None
    found = {table.tablespace for table in tables.values()}
    found.update(catalog.tablespaces.get(name, DEFAULT_TABLESPACE_OID) for name in route.places)
    if route.makes and default_place:
        found.add(catalog.tablespaces.get(default_place, DEFAULT_TABLESPACE_OID))
    if shared or not found:
        found.add(DEFAULT_TABLESPACE_OID)
    return frozenset(identity_of(catalog, oid) for oid in found)
