"""How a type's OID becomes its codec, its row of pg_type and its name in SQL.

The package `catalog.types` registers the built-in types here, and collated.py those that stand for text under a
collation; user.py knows the types of users and extensions. Codecs of arrays and composite types ask here for the types
of their parts, so this module needs none of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from catalog.errors import SqlError, not_supported
from catalog.identifiers import quote_identifier
from catalog.types import collated_oids, oids, user
from catalog.types.base import Columns, SqlType
from catalog.types.rows import TypeRow, read_type_rows
from catalog.types.user import UserEntry

pg_type_rows: tuple[TypeRow, ...] = read_type_rows()
pg_type_by_oid: dict[int, TypeRow] = {row.oid: row for row in pg_type_rows}
pg_type_by_name: dict[str, TypeRow] = {row.name: row for row in pg_type_rows}

by_oid: dict[int, SqlType] = {}
by_name: dict[str, SqlType] = {}
_collated: dict[int, SqlType] = {}


def register(built_in: Iterable[SqlType]) -> None:
    """These are the built-in types that have values here."""
    for sql_type in built_in:
        by_oid[sql_type.oid] = by_name[sql_type.name] = sql_type


def add_collated(*collated: SqlType) -> None:
    """These stand for text, or arrays of it, under a collation."""
    for sql_type in collated:
        _collated[sql_type.oid] = sql_type


def lookup(oid: int) -> SqlType:
    """The type with its codecs. Raises 0A000 for a type of PostgreSQL without one here, 42704 for no type at all."""
    found = by_oid.get(oid) or _collated.get(oid)
    if found is None:
        entry = user.entry_of(oid)
        if entry is not None and entry.sql_type is not None:
            return entry.sql_type
        if oid not in pg_type_by_oid and entry is None:
            raise SqlError("42704", f"type with OID {oid} does not exist")
        not_supported(f"type {format_type(oid)}")
    return found


def columns_of(oid: int) -> Columns:
    """What columns of a type are; nothing is said of a type that has no values here."""
    found = by_oid.get(oid)
    if found is None and (entry := user.entry_of(oid)) is not None:
        found = entry.sql_type
    return _UNSAID if found is None else found.columns


_UNSAID = Columns()


def type_row(oid: int) -> TypeRow | None:
    """The row of pg_type, also of a user's type."""
    row = pg_type_by_oid.get(oid)
    if row is None and (entry := user.entry_of(oid)) is not None:
        return entry.row
    if row is None and oid >= collated_oids.FIRST_OID:
        return collated_oids.row_of(oid, pg_type_by_oid[collated_oids.plain(oid)])
    return row


def array_of(oid: int) -> int:
    """The OID of the array type over `oid`, 0 if there is none."""
    row = type_row(oid)
    return row.array if row else 0


def element_of(oid: int) -> int:
    """The OID of the element type of an array type (also of int2vector and oidvector), 0 for anything else."""
    row = type_row(oid)
    return row.element if row and (row.category == "A" or row.oid == oids.RECORD_ARRAY) else 0


_SQL_NAMES = {
    oids.BOOL: "boolean",
    oids.CHAR: '"char"',
    oids.INT2: "smallint",
    oids.INT4: "integer",
    oids.INT8: "bigint",
    oids.FLOAT4: "real",
    oids.FLOAT8: "double precision",
    oids.BPCHAR: "character",
    oids.VARCHAR: "character varying",
    oids.BIT: "bit",
    oids.VARBIT: "bit varying",
    oids.TIME: "time without time zone",
    oids.TIMETZ: "time with time zone",
    oids.TIMESTAMP: "timestamp without time zone",
    oids.TIMESTAMPTZ: "timestamp with time zone",
    oids.ANY: '"any"',
}
_UNLIMITED_NAMES = {oids.BPCHAR: "bpchar", oids.BIT: '"bit"'}


def format_type(oid: int, typmod: int | None = None) -> str:
    """What PostgreSQL's format_type(oid, typmod) prints: 'character varying(10)', 'integer[]', '???'.

    `typmod` None is SQL's NULL: char is then 'character' (which has length 1), where -1 gives 'bpchar' (no limit).
    """
    if oid == 0:
        return "-"
    row = pg_type_by_oid.get(collated_oids.plain(oid))
    if row is None:
        entry = user.entry_of(oid)
        return "???" if entry is None else _shown_name(entry)
    if row.element and row.name.startswith("_"):
        return _format_scalar(pg_type_by_oid[row.element], typmod) + "[]"
    return _format_scalar(row, typmod)


def _format_scalar(row: TypeRow, typmod: int | None) -> str:
    if typmod is not None and typmod < 0 and row.oid in _UNLIMITED_NAMES:
        return _UNLIMITED_NAMES[row.oid]
    name = _SQL_NAMES.get(row.oid, row.name)
    if typmod is None or typmod < 0 or not row.typmod_out:
        return name
    sql_type = by_oid.get(row.oid)
    suffix = sql_type.typmod_out(typmod) if sql_type else f"({typmod})"
    first, space, rest = name.partition(" ")
    return f"{first}{suffix} {rest}" if space and first in ("time", "timestamp") else name + suffix


def _shown_name(entry: UserEntry) -> str:
    """Its name as format_type prints it: with its schema where the search path does not lead there, or leads to the
    built-in type of that name first."""
    current = user.visible()
    if entry.schema in current.path:
        name, before = entry.row.name, current.path[: current.path.index(entry.schema)]
        hidden = "pg_catalog" in before and name in pg_type_by_name
        others = current.entries.values() if before else ()
        if not hidden and not any(other.row.name == name and other.schema in before for other in others):
            return entry.shown
    return f"{quote_identifier(entry.schema)}.{entry.shown}"
