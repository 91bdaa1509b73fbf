"""pg_trigger, the rows of triggers in pg_constraint, pg_depend and pg_description, and pg_get_triggerdef."""

from __future__ import annotations

from collections.abc import Iterator

from catalog.catalog import Catalog
from catalog.functions import registry
from catalog.identifiers import quote_identifier, quote_literal
from catalog.schema import FIRST_USER_OID, PG_CATALOG_OID, Routine, Table, Trigger, View
from catalog.system import derived_oids
from catalog.system import relations as internal
from catalog.system.content import (
    Columns,
    Dependency,
    Item,
    Items,
    Surroundings,
    comment_columns,
    content,
    dependency_columns,
)
from catalog.system.definitions import relation_name
from catalog.system.objects import qualified_name
from catalog.types.array import vector_of

Owner = Table | View
_BITS = {"b": 2, "a": 0, "i": 64}
_EVENT_BITS = {"i": 4, "d": 8, "u": 16, "t": 32}
_TIMINGS = {"b": "BEFORE", "a": "AFTER", "i": "INSTEAD OF"}
_EVENTS = {"i": "INSERT", "d": "DELETE", "u": "UPDATE", "t": "TRUNCATE"}


def function_place(catalog: Catalog, trigger: Trigger) -> tuple[int, str]:
    """The schema and the name of a trigger's function."""
    found = catalog.get(trigger.function)
    if isinstance(found, Routine):
        return found.schema, found.name
    return PG_CATALOG_OID, registry.function(trigger.function).name


def _with_functions(catalog: Catalog, relation: Owner) -> Item | None:
    """Returns (relation, the places of its triggers' functions, names of schemas), on which its rows depend."""
    if not relation.triggers:
        return None
    places = tuple(function_place(catalog, trigger) for trigger in relation.triggers)
    schemas = {relation.schema, *(schema for schema, _ in places)} - {PG_CATALOG_OID}
    others = {item.references for item in relation.triggers if item.references}
    names = tuple(getattr(catalog.get(oid), "name", "") for oid in sorted(others))
    return relation, places, tuple(catalog.schema_name(oid) for oid in sorted(schemas)), names


_owners = Items((Table, View), _with_functions)


def _triggers(items: list[Item]) -> list[tuple[Owner, Trigger]]:
    return [(item[0], trigger) for item in items for trigger in item[0].triggers]


def type_bits(trigger: Trigger) -> int:
    """tgtype."""
    return int(trigger.for_row) + _BITS[trigger.timing] + sum(_EVENT_BITS[event] for event in trigger.events)


@content("pg_trigger", "session", _owners)
def _rows(items: list[Item], surroundings: Surroundings) -> Columns:
    found = _triggers(items)
    triggers = [trigger for _, trigger in found]
    return {
        "oid": [item.oid for item in triggers],
        "tgrelid": [relation.oid for relation, _ in found],
        "tgparentid": [item.parent for item in triggers],
        "tgname": [item.name for item in triggers],
        "tgfoid": [item.function for item in triggers],
        "tgtype": [type_bits(item) for item in triggers],
        "tgenabled": [item.enabled for item in triggers],
        "tgisinternal": False,
        "tgconstrrelid": [item.references for item in triggers],
        "tgconstrindid": 0,
        "tgconstraint": [item.constraint for item in triggers],
        "tgdeferrable": [item.deferrable for item in triggers],
        "tginitdeferred": [item.initially_deferred for item in triggers],
        "tgnargs": [len(item.arguments) for item in triggers],
        "tgattr": [vector_of(item.columns) for item in triggers],
        "tgargs": [b"".join(text.encode() + b"\0" for text in item.arguments) for item in triggers],
        "tgqual": [
            None if item.condition is None else _condition_tree(surroundings, relation, item.condition)
            for relation, item in found
        ],
        "tgoldtable": [item.old_table or None for item in triggers],
        "tgnewtable": [item.new_table or None for item in triggers],
    }


def _condition_tree(surroundings: Surroundings, relation: Owner, text: str) -> str:
    return "\x1f".join(surroundings.condition(text, relation, pretty) for pretty in (False, True))


@content("pg_constraint", "catalog", _owners)
def _constraints(items: list[Item], _: Surroundings) -> Columns:
    found = [(relation, trigger) for relation, trigger in _triggers(items) if trigger.constraint]
    return {
        "oid": [trigger.constraint for _, trigger in found],
        "conname": [trigger.name for _, trigger in found],
        "connamespace": [relation.schema for relation, _ in found],
        "contype": "t",
        "condeferrable": [trigger.deferrable for _, trigger in found],
        "condeferred": [trigger.initially_deferred for _, trigger in found],
        "convalidated": True,
        "conrelid": [relation.oid for relation, _ in found],
        "confupdtype": " ",
        "confdeltype": " ",
        "confmatchtype": " ",
        "conislocal": True,
        "connoinherit": True,
    }


@content("pg_depend", "catalog", _owners)
def _dependencies(items: list[Item], _: Surroundings) -> Columns:
    return dependency_columns(
        [row for relation, trigger in _triggers(items) for row in _dependencies_of(relation, trigger)]
    )


def _dependencies_of(relation: Owner, trigger: Trigger) -> Iterator[Dependency]:
    own = (derived_oids.PG_TRIGGER, trigger.oid, 0)
    if trigger.function >= FIRST_USER_OID:
        yield *own, derived_oids.PG_PROC, trigger.function, 0, "n"
    if trigger.constraint:
        yield derived_oids.PG_CONSTRAINT, trigger.constraint, 0, *own, "i"
        yield derived_oids.PG_CONSTRAINT, trigger.constraint, 0, derived_oids.PG_CLASS, relation.oid, 0, "a"
    else:
        yield *own, derived_oids.PG_CLASS, relation.oid, 0, "a"
    if trigger.parent:
        yield *own, derived_oids.PG_TRIGGER, trigger.parent, 0, "P"
        yield *own, derived_oids.PG_CLASS, relation.oid, 0, "S"
    for number in trigger.columns:
        yield *own, derived_oids.PG_CLASS, relation.oid, number, "n"


@content("pg_description", "catalog", _owners)
def _comments(items: list[Item], _: Surroundings) -> Columns:
    return comment_columns(derived_oids.PG_TRIGGER, (trigger for _, trigger in _triggers(items)))


# ---- texts ----------------------------------------------------------------------------------------------------------


@content(internal.TRIGGER_TEXTS, "session", _owners)
def _texts(items: list[Item], surroundings: Surroundings) -> Columns:
    found = _triggers(items)
    return {
        "oid": [trigger.oid for _, trigger in found],
        "plain": [definition(surroundings, relation, trigger, False) for relation, trigger in found],
        "pretty": [definition(surroundings, relation, trigger, True) for relation, trigger in found],
    }


def definition(surroundings: Surroundings, relation: Owner, trigger: Trigger, pretty: bool) -> str:
    """pg_get_triggerdef: the CREATE TRIGGER statement."""
    catalog = surroundings.catalog
    name = relation_name(catalog, surroundings.path, relation) if pretty else qualified_name(catalog, relation)
    constraint = "CONSTRAINT " if trigger.constraint else ""
    parts = [f"CREATE {constraint}TRIGGER {quote_identifier(trigger.name)} {_TIMINGS[trigger.timing]}"]
    parts.append(" OR ".join(_event(relation, trigger, event) for event in _EVENTS if event in trigger.events))
    parts.append(f"ON {name}")
    if trigger.constraint:
        other = catalog.get(trigger.references) if trigger.references else None
        if isinstance(other, Table | View):
            parts.append(f"FROM {relation_name(catalog, surroundings.path, other)}")
        parts.append("DEFERRABLE" if trigger.deferrable else "NOT DEFERRABLE")
        parts.append("INITIALLY DEFERRED" if trigger.initially_deferred else "INITIALLY IMMEDIATE")
    if trigger.old_table or trigger.new_table:
        parts.append("REFERENCING")
        if trigger.old_table:
            parts.append(f"OLD TABLE AS {quote_identifier(trigger.old_table)}")
        if trigger.new_table:
            parts.append(f"NEW TABLE AS {quote_identifier(trigger.new_table)}")
    parts.append("FOR EACH ROW" if trigger.for_row else "FOR EACH STATEMENT")
    if trigger.condition is not None:
        parts.append(f"WHEN ({surroundings.condition(trigger.condition, relation, pretty)})")
    arguments = ", ".join(quote_literal(text) for text in trigger.arguments)
    parts.append(f"EXECUTE FUNCTION {_function_name(surroundings, trigger)}({arguments})")
    return " ".join(parts)


def _event(relation: Owner, trigger: Trigger, event: str) -> str:
    if event != "u" or not trigger.columns:
        return _EVENTS[event]
    names = {column.number: column.name for column in relation.columns}
    return f"UPDATE OF {', '.join(quote_identifier(names[number]) for number in trigger.columns)}"


def _function_name(surroundings: Surroundings, trigger: Trigger) -> str:
    """The function's name, with its schema unless the search path finds it."""
    catalog = surroundings.catalog
    schema, name = function_place(catalog, trigger)
    for place in surroundings.path:
        if place == schema:
            return quote_identifier(name)
        routines = catalog.routines.get(name, ()) if place != PG_CATALOG_OID else ()
        if any(item.schema == place and not item.inputs for item in routines):
            break
        if place == PG_CATALOG_OID and any(not item.argument_types for item in registry.functions_named(name)):
            break
    return f"{quote_identifier(catalog.schema_name(schema))}.{quote_identifier(name)}"
