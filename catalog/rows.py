"""Schema objects as rows of system tables.

Each kind of object has a system table. Its rows are stored like all other rows, under these storage ids below 100:
key = storage id (4 bytes, big-endian) + OID (4 bytes); value = a format byte and the object's fields as JSON (names as
in catalog/schema.py). So a change of the schema is a change of rows, and is replicated by the changelog: `changes`
finds the schema objects among committed rows.
"""

from __future__ import annotations

import dataclasses
import struct
import typing
from collections.abc import Iterable, Mapping
from functools import cache

import orjson

from catalog.catalog import Catalog
from catalog.event_triggers import EventTrigger
from catalog.schema import (
    ChangeStream,
    Collation,
    Composite,
    Database,
    Domain,
    Enum,
    Extension,
    ForeignServer,
    ForeignWrapper,
    Index,
    Parameter,
    Role,
    Routine,
    Schema,
    SchemaObject,
    Sequence,
    StatisticsObject,
    Table,
    Tablespace,
    UserCast,
    UserMapping,
    UserMultirange,
    UserOperator,
    UserRange,
    View,
)
from catalog.text_search.objects import (
    TextSearchConfiguration,
    TextSearchDictionary,
)

FORMAT = b"\x01"
_KEY = struct.Struct(">II")

SYSTEM_TABLES: Mapping[type[SchemaObject], int] = {
    Database: 1,
    Role: 2,
    Tablespace: 3,
    Schema: 4,
    Table: 5,
    Index: 6,
    Sequence: 7,
    View: 8,
    Enum: 20,
    Domain: 21,
    Composite: 22,
    Extension: 24,
    Routine: 25,
    Collation: 26,
    Parameter: 27,
    UserOperator: 28,
    UserCast: 29,
    UserRange: 30,
    UserMultirange: 31,
    StatisticsObject: 32,
    ForeignWrapper: 33,
    ForeignServer: 34,
    UserMapping: 35,
    EventTrigger: 36,
    TextSearchDictionary: 37,
    TextSearchConfiguration: 38,
    ChangeStream: 40,
}
KINDS: Mapping[int, type[SchemaObject]] = {number: kind for kind, number in SYSTEM_TABLES.items()}
COUNTERS = 9  # storage ids of the counters: 9 the next OID, 10 the next storage id
CHECKS = 11  # storage id of requests to compare replicas (engine/checks.py)
LARGE_OBJECTS, LARGE_OBJECT_PAGES = 13, 14  # storage ids (engine/session/large_objects.py)
NOTIFICATIONS = 12  # storage id of the last notifications (engine/session/notifications.py)
PREPARED_TRANSACTIONS = 15  # storage id (engine/txn/two_phase.py)
SPACE_REQUESTS = 18  # storage id of the last requests of VACUUM (engine/space_requests.py)
BASES, ORPHANS = 16, 17  # storage ids of data that branches share (engine/storage/branch_storage.py)
CHANGE_POSITIONS = 41  # storage id of how far change streams were read (engine/changes/positions.py)
FIRST_USER_STORAGE = 100
SYSTEM_PREFIXES = frozenset(struct.pack(">I", number) for number in KINDS)


def object_key(item: SchemaObject) -> bytes:
    """The key of the object's row."""
    return _KEY.pack(SYSTEM_TABLES[type(item)], item.oid)


def encode(item: SchemaObject) -> bytes:
    """Encodes the object as the value of its row."""
    return FORMAT + orjson.dumps(item)


def decode(key: bytes, value: bytes) -> SchemaObject:
    """Decodes the object of a row."""
    storage, _ = _KEY.unpack(key)
    assert value[:1] == FORMAT
    return typing.cast(SchemaObject, _build(KINDS[storage], orjson.loads(value[1:])))


def changes(edits: Iterable[tuple[bytes, bytes | None]]) -> dict[int, SchemaObject | None]:
    """The schema objects among committed edits: OID -> object, or None if it was dropped."""
    found: dict[int, SchemaObject | None] = {}
    for key, value in edits:
        if key[:4] in SYSTEM_PREFIXES:
            found[_KEY.unpack(key)[1]] = None if value is None else decode(key, value)
    return found


def load(rows: Iterable[tuple[bytes, bytes]], database: int) -> Catalog:
    """The catalog with the objects of these rows of the system tables."""
    objects = [decode(key, value) for key, value in rows]
    return Catalog(database=database).with_changes({item.oid: item for item in objects})


@cache
def _hints(kind: type) -> dict[str, object]:
    return typing.get_type_hints(kind)


def _build(kind: object, value: object) -> object:
    """Converts JSON to the declared type: a dataclass, a tuple, an optional or a plain value."""
    if value is None:
        return None
    if dataclasses.is_dataclass(kind):
        assert isinstance(kind, type) and isinstance(value, dict)
        hints = _hints(kind)
        return kind(**{name: _build(hints[name], item) for name, item in value.items() if name in hints})
    origin = typing.get_origin(kind)
    if origin is tuple:
        arguments = typing.get_args(kind)
        assert isinstance(value, list)
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(_build(arguments[0], item) for item in value)
        return tuple(_build(argument, item) for argument, item in zip(arguments, value, strict=True))
    if origin is not None:  # X | None
        inner = [argument for argument in typing.get_args(kind) if argument is not type(None)]
        return _build(inner[0], value)
    return value
