"""Codecs and rows of pg_type for user types and their array types, made from schema objects."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import cast

from catalog import types
from catalog.identifiers import quote_identifier
from catalog.schema import Composite, Domain, Enum, UserType
from catalog.types.array import ArrayType
from catalog.types.base import SqlType
from catalog.types.composite import CompositeType
from catalog.types.enum import EnumType
from catalog.types.rows import TypeRow
from catalog.types.user import UserEntry, remember

ENUM_IN, ENUM_OUT, ENUM_RECV, ENUM_SEND = 3506, 3507, 3532, 3533
DOMAIN_IN, DOMAIN_RECV = 2597, 2598
RECORD_IN, RECORD_OUT, RECORD_RECV, RECORD_SEND = 2290, 2291, 2402, 2403
ARRAY_IN, ARRAY_OUT, ARRAY_RECV, ARRAY_SEND = 750, 751, 2400, 2401


def array_name(name: str) -> str:
    """The name of a type's array type: '_' and the name, cut to the length of a name."""
    return "_" + name.encode()[:62].decode(errors="ignore")


def entries_of(items: Iterable[tuple[UserType, str]]) -> dict[int, UserEntry]:
    """The entries of types, given as (type, name of its schema), and of their array types, by OID."""
    found: dict[int, UserEntry] = {}
    for item, schema in sorted(items, key=lambda pair: pair[0].oid):
        made = _entries(item, schema)
        remember(made)  # later types may refer to it
        found.update(made)
    return found


@lru_cache(4096)
def _entries(item: UserType, schema: str) -> Mapping[int, UserEntry]:
    shown = quote_identifier(item.name)
    if isinstance(item, Enum):
        sql_type, row = _enum(item)
    elif isinstance(item, Composite):
        sql_type, row = _composite(item)
    else:
        assert isinstance(item, Domain)
        sql_type, row = None, _domain(item)
    array_type: SqlType | None = None
    if sql_type is not None:
        array_type = ArrayType(item.array_oid, array_name(item.name), sql_type)
        stored = ArrayType(0, "", _Stored(sql_type))
        array_type.storage, array_type.stored_as = stored.storage, stored.stored_as
    array_row = TypeRow(
        item.array_oid, array_name(item.name), -1, False, "b", "A", False, ",", 0, item.oid, 0, 0, -1, row.collation,
        "d" if row.alignment == "d" else "i", "x", ARRAY_IN, ARRAY_OUT, ARRAY_RECV, ARRAY_SEND, 0, 0,
    )  # fmt: skip
    return {
        item.oid: UserEntry(sql_type, row, schema, shown, item),
        item.array_oid: UserEntry(array_type, array_row, schema, shown + "[]", item),
    }


def _enum(item: Enum) -> tuple[SqlType, TypeRow]:
    labels = [(label.name, label.position) for label in item.labels]
    row = TypeRow(
        item.oid, item.name, 4, True, "e", "E", False, ",", 0, 0, item.array_oid, 0, -1, 0, "i", "p", ENUM_IN, ENUM_OUT,
        ENUM_RECV, ENUM_SEND, 0, 0,
    )  # fmt: skip
    return EnumType(item.oid, item.array_oid, item.name, labels), row


def _composite(item: Composite) -> tuple[SqlType, TypeRow]:
    fields = [(column.name, column.type) for column in item.columns]
    row = TypeRow(
        item.oid, item.name, -1, False, "c", "C", False, ",", item.relation, 0, item.array_oid, 0, -1, 0, "d", "x",
        RECORD_IN, RECORD_OUT, RECORD_RECV, RECORD_SEND, 0, 0,
    )  # fmt: skip
    return CompositeType(item.oid, item.array_oid, item.name, fields), row


class _Stored(SqlType):
    """The codec of elements in a stored array: the stored form of the type, which no change of a name affects."""

    name = sql_name = ""
    array_oid = oid = 0

    def __init__(self, element: SqlType) -> None:
        self._storage = element.storage
        code = element.storage.struct_code
        self._layout = None if code is None else struct.Struct("<" + code)

    def binary_encoder(self) -> Callable[[object], bytes]:
        convert = self._storage.to_storage or (lambda value: value)
        layout = self._layout
        if layout is not None:
            return lambda value: layout.pack(convert(value))
        return cast(Callable[[object], bytes], convert)

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        convert = self._storage.from_storage or (lambda value: value)
        layout = self._layout
        if layout is not None:
            return lambda data: convert(layout.unpack(data)[0])
        return convert


def _domain(item: Domain) -> TypeRow:
    base = types.type_row(item.base_oid)
    assert base is not None
    return TypeRow(
        item.oid, item.name, base.length, base.by_value, "d", base.category, base.preferred, base.delimiter, 0, 0,
        item.array_oid, item.base_oid, item.type.typmod, item.collation or base.collation, base.alignment,
        base.storage, DOMAIN_IN, base.output, DOMAIN_RECV, base.send, 0, 0,
    )  # fmt: skip
