"""PostgreSQL's own trigger functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from catalog.errors import SqlError, not_supported
from catalog.functions.text_search import to_vector
from catalog.text_search import configurations
from catalog.types import oids
from engine.execute.triggers import TriggerCall

Values = Sequence[object]


def _suppress_redundant(call: TriggerCall, old: Values | None, new: Values | None) -> Values | None:
    """suppress_redundant_updates_trigger(): no update that changes nothing."""
    problem = ""
    if call.timing != "BEFORE":
        problem = "must be called before update"
    elif call.operation != "UPDATE":
        problem = "must be called on update"
    elif not call.trigger.for_row:
        problem = "must be called for each row"
    if problem:
        raise SqlError("39P01", f"suppress_redundant_updates_trigger: {problem}")
    same = all(
        one is other or (type(one) is type(other) and one == other and repr(one) == repr(other))
        for one, other in zip(old or (), new or (), strict=True)
    )
    return None if same else new


def _update_vector(call: TriggerCall, old: Values | None, new: Values | None) -> Values | None:
    """tsvector_update_trigger(vector, configuration, text, ...)"""
    return _with_vector(call, old, new, by_column=False)


def _update_vector_by_column(call: TriggerCall, old: Values | None, new: Values | None) -> Values | None:
    """tsvector_update_trigger_column(vector, column of the configuration, text, ...)"""
    return _with_vector(call, old, new, by_column=True)


def _with_vector(call: TriggerCall, old: Values | None, new: Values | None, *, by_column: bool) -> Values | None:
    """The row with a new vector; the row itself if an UPDATE leaves its texts."""
    problem = ""
    if not call.trigger.for_row:
        problem = "must be fired for row"
    elif call.timing != "BEFORE":
        problem = "must be fired BEFORE event"
    elif call.operation not in ("INSERT", "UPDATE"):
        problem = "must be fired for INSERT or UPDATE"
    elif len(call.trigger.arguments) < 3:
        problem = "arguments must be tsvector_field, ts_config, text_field1, ...)"
    if problem:
        raise SqlError("XX000", f"tsvector_update_trigger: {problem}")
    assert new is not None
    vector, configuration, *texts = call.trigger.arguments
    place = _position(call, vector, "tsvector column", (oids.TSVECTOR,), "tsvector type")
    if by_column:
        found = _position(call, configuration, "configuration column", (oids.REGCONFIG,), "regconfig type")
        chosen = new[found]
        if chosen is None:
            raise SqlError("22004", f'configuration column "{configuration}" must not be null')
        found_configuration = configurations.current().configuration(int(str(chosen)))
    else:
        found_configuration = configurations.current().find_named(configuration)
    places = [_position(call, text, "column", oids.TEXTS, "a character type") for text in texts]
    if old is not None and all(old[item] == new[item] for item in places):
        return new
    whole = " ".join(str(new[item]) for item in places if new[item] is not None)
    return tuple(to_vector(found_configuration, whole) if item == place else value for item, value in enumerate(new))


def _position(call: TriggerCall, name: str, what: str, types: Collection[int], shown: str) -> int:
    """The position of a column. Raises 42703, 42804."""
    for place, column in enumerate(call.relation.columns):
        if column.name == name:
            if column.type.oid not in types:
                raise SqlError("42804", f'column "{name}" is not of {shown}')
            return place
    raise SqlError("42703", f'{what} "{name}" does not exist')


BuiltIn = Callable[[TriggerCall, Values | None, Values | None], Values | None]


def built_in_trigger(source: str) -> BuiltIn:
    """The function with this source. Raises 0A000 for others."""
    if source == "suppress_redundant_updates_trigger":
        return _suppress_redundant
    if source == "tsvector_update_trigger_byid":
        return _update_vector
    if source == "tsvector_update_trigger_bycolumn":
        return _update_vector_by_column
    not_supported(f"trigger function {source}")
