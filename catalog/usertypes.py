"""User types made of schema objects: the codec and the row of pg_type of each, and of its array type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from catalog import types
from catalog.functions.quoting import quote_identifier
from catalog.types.array import ArrayType
from catalog.types.base import SqlType
from catalog.types.enum import EnumType
from catalog.types.integer import INT8
from catalog.types.rows import TypeRow
from catalog.types.user import UserEntry, entry_of, remember

if TYPE_CHECKING:
    from catalog.schema import Domain, Enum, UserType

ENUM_IN, ENUM_OUT, ENUM_RECV, ENUM_SEND = 3506, 3507, 3532, 3533
DOMAIN_IN, DOMAIN_RECV = 2597, 2598
ARRAY_IN, ARRAY_OUT, ARRAY_RECV, ARRAY_SEND = 750, 751, 2400, 2401


def array_name(name: str) -> str:
    """The name of the array type over a type: an underscore in front, cut to the length of a name."""
    return "_" + name.encode()[:62].decode(errors="ignore")


def entries_of(items: Iterable[tuple[UserType, str]]) -> dict[int, UserEntry]:
    """The entries of (type, name of its schema), by OID: one of the type and one of its array type each."""
    found: dict[int, UserEntry] = {}
    for item, schema in items:
        found.update(_entries(item, schema))
    return found


@lru_cache(4096)
def _entries(item: UserType, schema: str) -> Mapping[int, UserEntry]:
    from catalog.schema import Domain, Enum

    shown = quote_identifier(item.name)
    if isinstance(item, Enum):
        sql_type, row = _enum(item)
    else:
        assert isinstance(item, Domain)
        sql_type, row = None, _domain(item)
    array_type: SqlType | None = None
    if sql_type is not None:
        array_type = ArrayType(item.array_oid, array_name(item.name), sql_type)
        if isinstance(item, Enum):  # labels may get other names; positions stay
            array_type.storage = ArrayType(0, "", INT8).storage
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


def _domain(item: Domain) -> TypeRow:
    base = types.type_row(item.base_oid)
    assert base is not None
    return TypeRow(
        item.oid, item.name, base.length, base.by_value, "d", base.category, base.preferred, base.delimiter, 0, 0,
        item.array_oid, item.base_oid, item.type.typmod, base.collation, base.alignment, base.storage, DOMAIN_IN,
        base.output, DOMAIN_RECV, base.send, 0, 0,
    )  # fmt: skip


# ---- between processes ----------------------------------------------------------------------------------------------


def describe(oids: Iterable[int]) -> list[list[str]]:
    """The definitions of the user types among these OIDs, as JSON, for a process without the catalog."""
    from catalog import rows

    found: dict[int, list[str]] = {}
    for oid in oids:
        entry = entry_of(oid)
        if entry is not None:
            item: UserType = entry.definition  # type: ignore[assignment]
            found[item.oid] = [rows.object_key(item).hex(), rows.encode(item).decode("latin-1"), entry.schema]
    return list(found.values())


def learn(descriptions: Iterable[Sequence[str]]) -> None:
    """Remembers what `describe` gave."""
    from catalog import rows

    items = [(rows.decode(bytes.fromhex(key), value.encode("latin-1")), schema) for key, value, schema in descriptions]
    remember(entries_of(items))  # type: ignore[arg-type]
