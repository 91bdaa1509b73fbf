"""Codecs and rows of pg_type for user types and their array types, made from schema objects."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import cast

from catalog import types
from catalog.identifiers import quote_identifier
from catalog.schema import Composite, Domain, Enum, UserMultirange, UserRange, UserType
from catalog.types.array import ArrayType
from catalog.types.base import DEFAULT_FORMAT, FormatSettings, SqlType
from catalog.types.composite import CompositeType
from catalog.types.enum import EnumType
from catalog.types.multirange import MultirangeType
from catalog.types.range import RangeType
from catalog.types.rows import TypeRow
from catalog.types.user import FIRST_ADDED_OID, UserEntry, remember

ENUM_IN, ENUM_OUT, ENUM_RECV, ENUM_SEND = 3506, 3507, 3532, 3533
DOMAIN_IN, DOMAIN_RECV = 2597, 2598
RECORD_IN, RECORD_OUT, RECORD_RECV, RECORD_SEND = 2290, 2291, 2402, 2403
RANGE_IN, RANGE_OUT, RANGE_RECV, RANGE_SEND = 3834, 3835, 3836, 3837
MULTIRANGE_IN, MULTIRANGE_OUT, MULTIRANGE_RECV, MULTIRANGE_SEND = 4231, 4232, 4233, 4234
ARRAY_IN, ARRAY_OUT, ARRAY_RECV, ARRAY_SEND = 750, 751, 2400, 2401


def array_name(name: str) -> str:
    """The name of a type's array type: '_' and the name, cut to the length of a name."""
    return "_" + name.encode()[:62].decode(errors="ignore")


def entries_of(items: Iterable[tuple[UserType, str]]) -> dict[int, UserEntry]:
    """The entries of types, given as (type, name of its schema), and of their array types, by OID."""
    found: dict[int, UserEntry] = {}
    for item, schema in sorted(items, key=lambda pair: pair[0].oid):
        part = _part_of(item)
        made = _entries(item, schema, None if part is None else _codec(part, found))
        remember(made)  # later types may refer to it
        found.update(made)
    return found


def parts_of(item: object) -> list[int]:
    """The OIDs of the types without which a type's values cannot be read: of a composite type's attributes, of the
    bounds of a range, of a multirange's ranges."""
    if isinstance(item, Composite):
        return [column.type.oid for column in item.columns]
    if isinstance(item, UserRange):
        return [item.subtype]
    return [item.range] if isinstance(item, UserMultirange) else []


def _part_of(item: UserType) -> int | None:
    """The type of the bounds of a range, or of the ranges of a multirange."""
    return item.subtype if isinstance(item, UserRange) else item.range if isinstance(item, UserMultirange) else None


def _codec(oid: int, found: Mapping[int, UserEntry]) -> SqlType:
    entry = found.get(oid)
    known = None if entry is None else entry.sql_type
    return types.lookup(oid) if known is None else known


@lru_cache(4096)
def _entries(item: UserType, schema: str, part: SqlType | None) -> Mapping[int, UserEntry]:
    """`part`: the codec of `_part_of`, so that a change of it makes another range type."""
    shown = quote_identifier(item.name)
    if isinstance(item, Enum):
        sql_type, row = _enum(item)
    elif isinstance(item, Composite):
        sql_type, row = _composite(item)
    elif isinstance(item, UserRange):
        assert part is not None
        sql_type, row = _range(item, part)
    elif isinstance(item, UserMultirange):
        assert part is not None
        sql_type, row = _multirange(item, part)
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


def _range(item: UserRange, element: SqlType) -> tuple[SqlType, TypeRow]:
    stored = _Stored(element) if item.subtype >= FIRST_ADDED_OID else None
    row = TypeRow(
        item.oid, item.name, -1, False, "r", "R", False, ",", 0, 0, item.array_oid, 0, -1, 0,
        _alignment(item.subtype), "x", RANGE_IN, RANGE_OUT, RANGE_RECV, RANGE_SEND, 0, 0,
    )  # fmt: skip
    return RangeType(item.oid, item.array_oid, item.name, element, stored=stored), row


def _multirange(item: UserMultirange, known: SqlType) -> tuple[SqlType, TypeRow]:
    assert isinstance(known, RangeType)
    row = TypeRow(
        item.oid, item.name, -1, False, "m", "R", False, ",", 0, 0, item.array_oid, 0, -1, 0,
        _alignment(known.element.oid), "x", MULTIRANGE_IN, MULTIRANGE_OUT, MULTIRANGE_RECV, MULTIRANGE_SEND, 0, 0,
    )  # fmt: skip
    return MultirangeType(item.oid, item.array_oid, item.name, known), row


def _alignment(subtype: int) -> str:
    row = types.type_row(subtype)
    return "d" if row is not None and row.alignment == "d" else "i"


class _Stored(SqlType):
    """The codec of elements in a stored array, and of bounds in a stored range: the stored form of the type, which no
    change of a name affects. Its text is for columns (`carrier` in catalog/types/base.py)."""

    name = sql_name = ""
    array_oid = oid = 0

    def __init__(self, element: SqlType) -> None:
        self._element = element
        self._storage = element.storage
        code = element.storage.struct_code
        self._layout = None if code is None else struct.Struct("<" + code)

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[object], bytes]:
        return lambda value: self._storage.save(value).hex().encode()

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        return lambda text: self._storage.load(bytes.fromhex(text))

    def sort_key(self) -> Callable[[object], object] | None:
        return self._element.sort_key()

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
