"""Functions for event triggers: what the command has done so far."""

from __future__ import annotations

from typing import Any, Protocol, cast

from catalog.errors import SqlError
from catalog.functions.base import CallContext, Trait
from catalog.functions.registry import implements
from catalog.types.base import Array


class _Events(Protocol):
    commands: list[Any]
    dropped: list[Any] | None
    rewritten: tuple[int, int] | None


class _Services(Protocol):
    ddl_events: _Events | None

    def identity(self, call: CallContext, kind: int, oid: int, number: int) -> tuple[Any, ...]: ...


def _services(call: CallContext) -> _Services:
    return cast(_Services, call.session)


def _refusal(function: str, where: str) -> SqlError:
    return SqlError("39P03", f"{function}() can only be called in {where} event trigger function")


@implements("pg_event_trigger_ddl_commands", needs_session=True, traits=(Trait.SESSION_ONLY,))
def _commands(call: CallContext) -> list[tuple[Any, ...]]:
    services = _services(call)
    if services.ddl_events is None:
        raise _refusal("pg_event_trigger_ddl_commands", "an")
    found: list[tuple[Any, ...]] = []
    for item in services.ddl_events.commands:
        if item.granted:
            found.append((None, None, None, item.tag, item.granted, None, None, False, None))
            continue
        word, schema, _, identity = services.identity(call, item.kind, item.oid, item.number)
        if identity is not None:  # it may have been dropped since
            found.append((item.kind, item.oid, item.number, item.tag, word, schema, identity, False, None))
    return found


@implements("pg_event_trigger_dropped_objects", needs_session=True, traits=(Trait.SESSION_ONLY,))
def _dropped_objects(call: CallContext) -> list[tuple[Any, ...]]:
    events = _services(call).ddl_events
    if events is None or events.dropped is None:
        raise _refusal("pg_event_trigger_dropped_objects", "a sql_drop")
    return [
        (item.kind, item.oid, item.number, item.original, item.normal, item.is_temporary, item.type, item.schema,
         item.name, item.identity, Array.of(item.names), Array.of(item.arguments))
        for item in events.dropped
    ]  # fmt: skip


def _rewritten(call: CallContext, function: str) -> tuple[int, int]:
    events = _services(call).ddl_events
    if events is None or events.rewritten is None:
        raise _refusal(function, "a table_rewrite")
    return events.rewritten


@implements("pg_event_trigger_table_rewrite_oid", needs_session=True, traits=(Trait.SESSION_ONLY,))
def _rewritten_table(call: CallContext) -> int:
    return _rewritten(call, "pg_event_trigger_table_rewrite_oid")[0]


@implements("pg_event_trigger_table_rewrite_reason", needs_session=True, traits=(Trait.SESSION_ONLY,))
def _rewrite_reason(call: CallContext) -> int:
    return _rewritten(call, "pg_event_trigger_table_rewrite_reason")[1]
