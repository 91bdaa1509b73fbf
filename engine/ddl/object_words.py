"""Schema objects as messages show them: 'table t', 'function f(integer)'."""

from __future__ import annotations

from catalog import types
from catalog.event_triggers import EventTrigger
from catalog.routines import shown_operator, shown_signature
from catalog.schema import (
    USER_TYPES,
    ChangeStream,
    Collation,
    Column,
    Extension,
    ForeignServer,
    ForeignWrapper,
    Index,
    Routine,
    Schema,
    SchemaObject,
    Sequence,
    StatisticsObject,
    Table,
    UserCast,
    UserOperator,
    UserType,
    View,
    VirtualTable,
)
from catalog.text_search.objects import TextSearchConfiguration, TextSearchDictionary

WORD: dict[type, str] = {
    Table: "table", View: "view", Index: "index", Sequence: "sequence", Schema: "schema", VirtualTable: "view",
    **dict.fromkeys(USER_TYPES, "type"), Extension: "extension",
    ChangeStream: "change stream", Collation: "collation", StatisticsObject: "statistics object",
    ForeignServer: "server", ForeignWrapper: "foreign-data wrapper", EventTrigger: "event trigger",
    TextSearchConfiguration: "text search configuration", TextSearchDictionary: "text search dictionary",
}  # fmt: skip


def word_of(item: object) -> str:
    """The kind of an object, as messages show it."""
    if isinstance(item, Table) and (item.server or item.query is not None):
        return "foreign table" if item.server else "materialized view"
    return WORD[type(item)]


def name_object(item: SchemaObject) -> str:
    """An object as messages show it: 'table t', 'function f(integer)'."""
    if isinstance(item, Routine):
        return f"{'procedure' if item.kind == 'p' else 'function'} {shown_signature(item)}"
    if isinstance(item, UserOperator):
        return f"operator {shown_operator(item)}"
    if isinstance(item, UserCast):
        return f"cast from {types.format_type(item.source)} to {types.format_type(item.target)}"
    if isinstance(item, USER_TYPES):
        return f"type {types.format_type(item.oid)}"
    return f"{word_of(item)} {item.name}"


def name_type(column: Column, item: UserType) -> str:
    """The type of a column that depends on a type: the type itself, or its array type."""
    return name_object(item) + ("[]" if column.type.declared == item.array_oid else "")
