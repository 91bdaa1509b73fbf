"""The rows of event triggers in pg_event_trigger and other catalogs."""

from __future__ import annotations

from catalog.event_triggers import EventTrigger
from catalog.schema import FIRST_USER_OID
from catalog.system import derived_oids
from catalog.system.content import (
    Columns,
    Item,
    Surroundings,
    comment_columns,
    content,
    dependency_columns,
    objects_of,
)
from catalog.types.base import Array

event_triggers = objects_of(EventTrigger)


@content("pg_event_trigger", "catalog", event_triggers)
def _rows(items: list[Item], _: Surroundings) -> Columns:
    found: list[EventTrigger] = [item for (item,) in items]
    return {
        "oid": [item.oid for item in found],
        "evtname": [item.name for item in found],
        "evtevent": [item.event for item in found],
        "evtowner": [item.owner for item in found],
        "evtfoid": [item.function for item in found],
        "evtenabled": [item.enabled for item in found],
        "evttags": [Array.of(item.tags) if item.tags else None for item in found],
    }


@content("pg_description", "catalog", event_triggers)
def _comments(items: list[Item], _: Surroundings) -> Columns:
    return comment_columns(derived_oids.PG_EVENT_TRIGGER, (item for (item,) in items))


@content("pg_depend", "catalog", event_triggers)
def _dependencies(items: list[Item], _: Surroundings) -> Columns:
    return dependency_columns(
        [
            (derived_oids.PG_EVENT_TRIGGER, item.oid, 0, derived_oids.PG_PROC, item.function, 0, "n")
            for (item,) in items
            if item.function >= FIRST_USER_OID
        ]
    )
