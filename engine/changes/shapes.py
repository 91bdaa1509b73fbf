"""The definition of a table at the time of a change, which is needed to read the rows after the table was altered or
dropped.

A shape contains the table's definition, the name of its schema, its streams, and the user-defined types of its columns.
Its id is a hash of the content. The first commit that needs a shape writes it as a row of the table of changes: key (-1
- id, 0), body JSON.

Types that still exist are used as they are now (labels are added to an enum, never removed). Dropped types come from
the shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from json.encoder import encode_basestring
from typing import Any

import orjson

from catalog import rows as system_rows
from catalog.catalog import Catalog
from catalog.functions.json_constructors import writer
from catalog.schema import Extension, Schema, SchemaObject, Table
from catalog.types import element_of, lookup, oids
from catalog.types.base import DEFAULT_FORMAT
from catalog.types.composite import CompositeType
from catalog.types.json import parse_jsonb
from catalog.types.user import FIRST_ADDED_OID, UserEntry, entry_of
from catalog.usertypes import parts_of
from engine.storage.rows import RowCodec

EXACT = 1 << 53  # integers beyond it lose digits in readers of JSON that have doubles only
_SETTLED = oids.INTEGERS | oids.COLLATABLE | oids.TIMESTAMPS | {
    oids.BOOL, oids.NUMERIC, oids.UUID, oids.DATE, oids.TIME, oids.JSONB, oids.BYTEA,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shape:
    """`streams`: OIDs. `kept`: the other objects in the shape. `id` fits 62 bits."""

    table: Table
    schema: str
    streams: tuple[int, ...]
    kept: tuple[SchemaObject, ...] = ()

    def encode(self) -> bytes:
        """The stored form."""
        rows = [
            [system_rows.object_key(item).hex(), system_rows.encode(item)[1:].decode()]
            for item in (self.table, *self.kept)
        ]
        return orjson.dumps({"schema": self.schema, "streams": self.streams, "objects": rows})


def shape_id(encoded: bytes) -> int:
    """The id of a shape, from its stored form."""
    return int.from_bytes(blake2b(encoded, digest_size=8).digest(), "big") >> 2


def shape_of(objects: Mapping[int, SchemaObject], types: Mapping[int, UserEntry], table: Table, streams: Any) -> Shape:
    """A table's shape now. `types`: the user types of its catalog."""
    schema = objects[table.schema]
    assert isinstance(schema, Schema)
    kept: dict[int, SchemaObject] = {}
    for column in table.columns:
        _keep_type(column.type.oid, objects, types, kept)
    return Shape(table, schema.name, tuple(stream.oid for stream in streams), tuple(kept.values()))


def _keep_type(
    oid: int, objects: Mapping[int, SchemaObject], types: Mapping[int, UserEntry], kept: dict[int, SchemaObject]
) -> None:
    """Adds the parts of the type with this OID, or of an array of it."""
    entry = types.get(oid)
    if entry is None:
        return
    item: Any = entry.definition
    found = [item] if item is not None else [other for other in objects.values() if isinstance(other, Extension)]
    for made in found:
        if made.oid not in kept:
            kept[made.oid] = made
            schema = objects.get(made.schema)
            if isinstance(schema, Schema):
                kept[schema.oid] = schema
            for part in parts_of(made):
                _keep_type(part, objects, types, kept)


def decode_shape(encoded: bytes) -> ReadShape:
    """A stored shape, ready to read rows."""
    found = orjson.loads(encoded)
    table, *kept = (
        system_rows.decode(bytes.fromhex(key), system_rows.FORMAT + value.encode()) for key, value in found["objects"]
    )
    assert isinstance(table, Table)
    added = [column.type.oid for column in table.columns if column.type.oid >= FIRST_ADDED_OID]
    if any(entry_of(oid) is None for oid in added):
        unknown = [item for item in kept if isinstance(item, Schema | Extension) or entry_of(item.oid) is None]
        catalog = Catalog(database=_database_of(kept)).with_changes({item.oid: item for item in unknown})
        assert catalog.user_types is not None  # made: from now on the process knows them
    return ReadShape(table, found["schema"], tuple(found["streams"]))


def _database_of(kept: Iterable[SchemaObject]) -> int:
    return next((item.database for item in kept if isinstance(item, Schema) and item.database), 0)


class ReadShape:
    """Converts rows of a former table definition to JSON."""

    def __init__(self, table: Table, schema: str, streams: tuple[int, ...]) -> None:
        self.streams = frozenset(streams)
        self.name = f"{schema}.{table.name}"
        self._table = table
        self._codec = RowCodec(table)

    @cached_property
    def row(self) -> Callable[[bytes], str]:
        """Converts a stored row to all its columns, as the text of a jsonb object."""
        return self._writer(range(len(self._table.columns)))

    @cached_property
    def key(self) -> Callable[[bytes], str] | None:
        """Converts a stored row to its primary key; None for a table without one."""
        if not self._table.key_columns:
            return None
        places = {column.number: place for place, column in enumerate(self._table.columns)}
        return self._writer([places[number] for number in self._table.key_columns])

    def _writer(self, places: Iterable[int]) -> Callable[[bytes], str]:
        """Makes a function for these columns, which is called at least once for each change."""
        columns = self._table.columns
        shown = sorted(places, key=lambda place: (len(columns[place].name.encode()), columns[place].name.encode()))
        names: dict[str, Any] = {"decode": self._codec.decode}
        parts = []
        for place in shown:
            names[f"w{place}"] = json_writer(columns[place].type.oid)
            label = encode_basestring(columns[place].name)
            value = f"'null' if v[{place}] is None else w{place}(v[{place}])"
            parts.append(f"{label + ': '!r} + ({value})")
        body = " + ', ' + ".join(parts) if parts else "''"
        exec(f"def write(row):\n    v = decode(row)\n    return '{{' + {body} + '}}'", names)
        write: Callable[[bytes], str] = names["write"]
        return write


def json_writer(oid: int) -> Callable[[Any], str]:
    """Makes a function that converts a value of the type, never None, to the text of a jsonb value, as to_jsonb() does
    under default settings. Numbers that a JSON reader could round become strings: numeric always, integers beyond
    2^53."""
    write = writer(oid, DEFAULT_FORMAT)
    if oid == oids.NUMERIC:
        return lambda value: text if (text := write(value)).startswith('"') else f'"{text}"'
    if oid == oids.INT8:
        return lambda value: str(value) if -EXACT <= value <= EXACT else f'"{value}"'
    if oid in oids.FLOATS:
        return lambda value: parse_jsonb(text) if "e" in (text := write(value)) else text
    element = element_of(oid)
    if element in (oids.NUMERIC, oids.INT8):
        return _array_writer(json_writer(element))
    if oid in _SETTLED or (not element and not isinstance(lookup(oid), CompositeType) and oid != oids.JSON):
        return write
    return lambda value: parse_jsonb(write(value))


def _array_writer(write: Callable[[Any], str]) -> Callable[[Any], str]:
    def write_array(value: Any) -> str:
        parts = ["null" if item is None else write(item) for item in value.elements]
        for length in reversed(value.dimensions[1:]):
            parts = ["[" + ", ".join(parts[at : at + length]) + "]" for at in range(0, len(parts), length)]
        return "[" + ", ".join(parts) + "]"

    return write_array
