"""All parts of pg_catalog and information_schema: an import of this module registers them."""

from __future__ import annotations

from collections.abc import Mapping

from catalog.schema import View, VirtualTable
from catalog.system import (  # noqa: F401 - each registers its parts
    addresses,
    builtin,
    casts,
    collations,
    event_triggers,
    extensions,
    foreign,
    identities,
    live,
    names,
    object_descriptions,
    objects,
    operators,
    partitions,
    routines,
    rules,
    shared,
    statistics_objects,
    text_search,
    triggers,
    user_types,
)
from catalog.system.relations import system_relations

virtual_tables: Mapping[tuple[int, str], VirtualTable] = {
    key: relation for key, relation in system_relations().items() if isinstance(relation, VirtualTable)
}
system_views: Mapping[tuple[int, str], View] = {
    key: relation for key, relation in system_relations().items() if isinstance(relation, View)
}
