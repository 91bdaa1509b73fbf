"""What event triggers see of the command that runs (EventTriggerQueryState of event_trigger.c).

A session has one of these while a command runs for which event triggers may fire, and None otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from catalog.catalog import Catalog


@dataclass(frozen=True, slots=True)
class Command:
    """A part of the command: a row of pg_event_trigger_ddl_commands(). (kind, oid, number) is the address of the
    object, with the OID of its catalog first; of GRANT only the word for the kind of objects, `granted`, is known."""

    tag: str
    kind: int = 0
    oid: int = 0
    number: int = 0
    granted: str = ""


@dataclass(frozen=True, slots=True)
class DroppedObject:
    """A row of pg_event_trigger_dropped_objects()."""

    kind: int
    oid: int
    number: int
    original: bool
    normal: bool
    is_temporary: bool
    type: str
    schema: str | None
    name: str | None
    identity: str
    names: tuple[str, ...]
    arguments: tuple[str, ...]


@dataclass(slots=True)
class DdlEvents:
    """`before`: the catalog before the command; `touched`: the OIDs of the objects that it has written, in their order.
    `in_parts`: each schema change within the command is a part of it.

    `roots`: the objects that it drops by name. `normal`, `normal_parts`: the dependents that only CASCADE drops, and
    those that are parts of a table: (table, column or OID of the part). `rewrites`: the tables (OIDs) whose rows will
    be written anew, with the reasons. `dropped`, `rewritten`: what triggers of these events are told."""

    before: Catalog
    in_parts: bool
    touched: dict[int, None] = field(default_factory=dict)
    commands: list[Command] = field(default_factory=list)
    roots: set[int] = field(default_factory=set)
    normal: set[int] = field(default_factory=set)
    normal_parts: set[tuple[int, int]] = field(default_factory=set)
    dropped: list[DroppedObject] | None = None
    rewrites: dict[int, int] = field(default_factory=dict)
    rewritten: tuple[int, int] | None = None
