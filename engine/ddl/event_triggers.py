"""CREATE, ALTER, DROP and COMMENT ON EVENT TRIGGER (event_trigger.c)."""

from __future__ import annotations

from dataclasses import replace

from catalog.errors import SqlError
from catalog.event_triggers import EVENTS, OTHER_TAGS, REWRITE_TAGS, SUPPORTED_TAGS, EventTrigger
from catalog.privileges import acts_as
from catalog.schema import Role
from catalog.types import oids
from engine.ddl import ownership
from engine.ddl.context import DdlContext
from engine.ddl.triggers import function_named
from engine.sql import ast


def create(context: DdlContext, statement: ast.CreateEventTriggerStmt) -> str:
    """CREATE EVENT TRIGGER. Raises 42501, 42601, 0A000, 42710, 42883, 42P17."""
    name = statement.name
    if not context.is_superuser:
        hint = "Must be superuser to create an event trigger."
        raise SqlError("42501", f'permission denied to create event trigger "{name}"', hint=hint)
    if statement.event not in EVENTS:
        raise SqlError("42601", f'unrecognized event name "{statement.event}"')
    tags = _tags(statement)
    context.lock_name(context.catalog.database, f"event trigger {name}")
    _refuse_taken(context, name)
    function = function_named(context, statement.function, oids.EVENT_TRIGGER)
    made = EventTrigger(
        context.new_oid(), context.catalog.database, name, statement.event, function, context.user_oid, tags=tags
    )
    context.change({made.oid: made})
    return "CREATE EVENT TRIGGER"


def _tags(statement: ast.CreateEventTriggerStmt) -> tuple[str, ...]:
    """The tags of WHEN, in capitals. Raises 42601, 0A000."""
    found: tuple[str, ...] | None = None
    for variable, values in statement.filters:
        if variable != "tag":
            raise SqlError("42601", f'unrecognized filter variable "{variable}"')
        if found is not None:
            raise SqlError("42601", f'filter variable "{variable}" specified more than once')
        found = values
    supported = REWRITE_TAGS if statement.event == "table_rewrite" else SUPPORTED_TAGS
    for tag in found or ():
        known = tag.upper()
        if known in supported:
            continue
        if known in SUPPORTED_TAGS or known in OTHER_TAGS or statement.event == "table_rewrite":
            raise SqlError("0A000", f"event triggers are not supported for {tag}")
        raise SqlError("42601", f'filter value "{tag}" not recognized for filter variable "tag"')
    return tuple(tag.upper() for tag in found or ())


def _refuse_taken(context: DdlContext, name: str) -> None:
    if _find_by_name(context, name) is not None:
        raise SqlError("42710", f'event trigger "{name}" already exists')


def _find_by_name(context: DdlContext, name: str) -> EventTrigger | None:
    return next((item for item in context.catalog.event_triggers if item.name == name), None)


def find(context: DdlContext, name: str) -> EventTrigger:
    """The event trigger, which the user owns. Raises 42704, 42501."""
    found = _find_by_name(context, name)
    if found is None:
        raise SqlError("42704", f'event trigger "{name}" does not exist')
    if not acts_as(context.catalog, ownership.user_role(context), found.owner):
        raise SqlError("42501", f"must be owner of event trigger {name}")
    return found


def alter(context: DdlContext, statement: ast.AlterEventTriggerStmt) -> str:
    """ALTER EVENT TRIGGER. Raises 42704, 42501, 42710."""
    named = _find_by_name(context, statement.name) if statement.action == "owner" else None
    if named is not None and ownership.role_named(context, statement.value).oid == named.owner:
        return "ALTER EVENT TRIGGER"  # which needs no privilege
    found = find(context, statement.name)
    if statement.action == "rename":
        context.lock_name(context.catalog.database, f"event trigger {statement.value}")
        _refuse_taken(context, statement.value)
        changed = replace(found, name=statement.value)
    elif statement.action == "owner":
        changed = with_owner(found, ownership.role_named(context, statement.value))
    else:
        changed = replace(found, enabled=statement.value)
    context.change({found.oid: changed})
    return "ALTER EVENT TRIGGER"


def with_owner(item: EventTrigger, owner: Role) -> EventTrigger:
    """The event trigger with a new owner. Raises 42501 unless that is a superuser."""
    if owner.oid != item.owner and not owner.superuser:
        message = f'permission denied to change owner of event trigger "{item.name}"'
        raise SqlError("42501", message, hint="The owner of an event trigger must be a superuser.")
    return replace(item, owner=owner.oid)


def to_drop(context: DdlContext, name: tuple[str, ...]) -> EventTrigger:
    """The event trigger of a DROP. Raises 42704, 42501."""
    return find(context, name[-1])


def comment(context: DdlContext, name: str, text: str | None) -> str:
    """COMMENT ON EVENT TRIGGER. Raises 42704, 42501."""
    found = find(context, name)
    context.change({found.oid: replace(found, comment=text)})
    return "COMMENT"
