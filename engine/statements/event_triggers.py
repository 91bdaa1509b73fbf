"""Event triggers around a schema change (event_trigger.c).

    ddl_command_start    the command    table_rewrite, before a table is written anew    sql_drop    ddl_command_end

UtilityPlan (utility.py) asks here only if the database has event triggers. While a command runs, the session notes what
it writes (`Session.ddl_events`); the rows of the functions for triggers are made of that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from catalog.catalog import Catalog
from catalog.event_triggers import EventTrigger
from catalog.schema import Composite, SchemaObject, Table
from catalog.system import derived_oids
from catalog.system.identities import IdentityRow, identity_rows
from engine.session.ddl_events import DdlEvents, DroppedObject
from engine.sql import ast
from engine.statements import registry
from engine.statements.event_commands import Change, commands_of

if TYPE_CHECKING:
    from engine.session.session import Session

_OF_QUERIES = (ast.CreateTableAsStmt, ast.SelectStmt, ast.RefreshMatViewStmt)
_OF_RELATIONS = (derived_oids.PG_ATTRDEF, derived_oids.PG_POLICY, derived_oids.PG_TRIGGER)
"""The catalogs of parts that show the schema of their relation when they are dropped."""
_AFTER = ("ddl_command_end", "sql_drop", "table_rewrite")


def tag_of(statement: ast.Node) -> str:
    kind = registry.kind_of(statement)
    return kind.command if isinstance(kind.command, str) else kind.command(statement)


def concern(session: Session, kind: registry.StatementKind, statement: ast.Node) -> bool:
    """Whether event triggers may fire for a statement."""
    fires = kind.fires
    return bool(session.catalog.event_triggers) and (fires if isinstance(fires, bool) else fires(statement))


async def run_between(session: Session, statement: ast.Node, run: Callable[[], Awaitable[None]]) -> None:
    """Runs a statement between its event triggers. Raises what they raise."""
    tag = tag_of(statement)
    transaction = session.transaction or session.begin_implicit()
    transaction.refuse_if_read_only(tag)
    catalog, outside = session.catalog, session.ddl_events
    needed = any(item.event in _AFTER and item.enabled != "D" for item in catalog.event_triggers)
    events = DdlEvents(catalog, not isinstance(statement, _OF_QUERIES)) if needed else None
    session.ddl_events = events
    try:
        await fire(session, "ddl_command_start", tag)
        await run()
        if events is not None:
            await _end(session, events, statement, tag)
    finally:
        session.ddl_events = outside


async def _end(session: Session, events: DdlEvents, statement: ast.Node, tag: str) -> None:
    if not events.in_parts:
        change = Change(events.before, session.environment, tuple(events.touched))
        events.commands += commands_of(change, statement, tag)
    if dropped := _dropped_objects(events, session.catalog, statement):
        events.dropped = dropped
        await fire(session, "sql_drop", tag)
        events.dropped = None
    await fire(session, "ddl_command_end", tag)


def note_part(session: Session, before: Catalog, first: int, statement: ast.Node) -> None:
    """A schema change within the command has run; `first`: the number of objects that were written before it."""
    events = session.ddl_events
    if events is not None and events.in_parts:
        touched = tuple(events.touched)[first:]
        events.commands += commands_of(Change(before, session.environment, touched), statement, tag_of(statement))


async def fire_rewrites(session: Session, statement: ast.Node) -> None:
    """Fires the triggers of table_rewrite for the tables that a schema change is about to write anew."""
    events = session.ddl_events
    assert events is not None
    rewrites, events.rewrites = events.rewrites, {}
    for found in rewrites.items():
        events.rewritten = found
        await fire(session, "table_rewrite", tag_of(statement))
    events.rewritten = None


async def fire(session: Session, event: str, tag: str) -> None:
    """Fires the triggers of an event."""
    for trigger in session.catalog.event_triggers:
        if trigger.event == event and _is_due(session, trigger, tag):
            await session.routines.fire_event(trigger, tag)


def _is_due(session: Session, trigger: EventTrigger, tag: str) -> bool:
    enabled = trigger.enabled == "A" or (trigger.enabled != "D" and (trigger.enabled == "R") == session.is_replica)
    return enabled and (not trigger.tags or tag in trigger.tags)


# ---- dropped objects ------------------------------------------------------------------------------------------------


def _dropped_objects(events: DdlEvents, after: Catalog, statement: ast.Node) -> list[DroppedObject]:
    """The objects, and their parts, that were there before a command and are no more; those that it names first."""
    found: list[DroppedObject] = []
    for oid in events.touched:
        before, now = events.before.objects.get(oid), after.objects.get(oid)
        if before is None or before is now:
            continue
        rows = _rows_by_address(events.before, before)
        left = {} if now is None else _rows_by_address(after, now)
        gone = {address: row for address, row in rows.items() if address not in left}
        columns = {row[4] for row in gone.values() if row[2]}
        for address, row in gone.items():
            if now is None and address[2]:
                continue  # a column of a dropped relation
            if now is None:
                original = address[1] in events.roots or _owner_of(address, before) in events.roots
                whole = address[1] == before.oid or address[0] == derived_oids.PG_CLASS
                normal = oid in events.normal if whole else _depends_normally(address, before)
            else:
                normal = (oid, address[2] or address[1]) in events.normal_parts
                original = not normal and _is_named(row, statement, columns)
                if not original and address[0] == derived_oids.PG_ATTRDEF:
                    normal = _depends_normally(address, before)
            found.append(_object(row, original, normal, before))
    return sorted(found, key=lambda item: not item.original)


def _depends_normally(address: tuple[int, int, int], item: SchemaObject) -> bool:
    """Whether a part of a dropped relation also depends on others: a view's query, a check on its columns, the default
    of a serial column on the sequence."""
    kind, oid, _ = address
    if kind == derived_oids.PG_CONSTRAINT and isinstance(item, Table):
        return any(part.oid == oid and part.kind == "c" for part in item.constraints)
    if kind == derived_oids.PG_ATTRDEF and isinstance(item, Table):
        return any(
            column.sequence is not None and derived_oids.default_number(item.oid, column.number) == oid
            for column in item.columns
        )
    return kind == derived_oids.PG_REWRITE


def _owner_of(address: tuple[int, int, int], item: SchemaObject) -> int:
    """The object, if the address is that of the whole object."""
    is_whole = isinstance(item, Composite) and address[:2] == (derived_oids.PG_TYPE, item.oid)
    return item.oid if is_whole else 0


def _is_named(row: IdentityRow, statement: ast.Node, columns: set[tuple[str, ...]]) -> bool:
    """Whether a statement drops this part of an object itself, and not with another one."""
    if row[0] == derived_oids.PG_ATTRDEF:
        return row[4] not in columns
    if row[0] == derived_oids.PG_CONSTRAINT and isinstance(statement, ast.AlterTableStmt):
        return any(item.action == "drop_constraint" and item.name == row[4][-1] for item in statement.commands)
    return True


def _rows_by_address(catalog: Catalog, item: SchemaObject) -> dict[tuple[int, int, int], IdentityRow]:
    return {row[:3]: row for row in identity_rows(catalog, item)}


def _object(row: IdentityRow, original: bool, normal: bool, item: SchemaObject) -> DroppedObject:
    kind, oid, number, (word, schema, name, identity), names, arguments = row
    bare = name[1:-1].replace('""', '"') if name is not None and name.startswith('"') else name
    shown = bare if number == 0 else None
    if kind in _OF_RELATIONS:
        schema = names[0]
    temporary = schema == "pg_temp"
    return DroppedObject(
        kind, oid, number, original, normal, temporary, word, schema, shown, identity, names, arguments
    )
