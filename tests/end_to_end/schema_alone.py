"""In a node's process, a bug for the tests to find: changes of the schema have to do with pg_default alone, and nothing
keeps them from looking at what other nodes lead."""

from __future__ import annotations

from engine.node import tablespaces
from engine.storage.stores import Stores
from wire import leader_selection


def install() -> None:
    told = leader_selection.find_reached

    def alone(route, *rest):  # type: ignore[no-untyped-def]
        return leader_selection.AT_HOME if route.shared else told(route, *rest)

    leader_selection.find_reached = alone
    Stores.guard = lambda self, space, error: None  # type: ignore[method-assign]
    tablespaces.places_of_changes = lambda before, changes: frozenset()
