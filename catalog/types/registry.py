"""Maps a type's OID to its codec, its row of pg_type and its name in SQL.

The package `catalog.types` registers the built-in types here, and collated.py the collated types; user.py has the types
of users and extensions. Codecs of arrays and composite types look up the types of their parts here, so this module
imports none of them.
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
    """Registers the built-in types with codecs."""
    for sql_type in built_in:
        by_oid[sql_type.oid] = by_name[sql_type.name] = sql_type


def add_collated(*collated: SqlType) -> None:
    """Registers collated types."""
    for sql_type in collated:
        _collated[sql_type.oid] = sql_type


def lookup(oid: int) -> SqlType:
    """Returns the type with its codecs. Raises 0A000 for a type of PostgreSQL without codecs, 42704 for an unknown
    OID."""
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
    """Returns the column properties of a type; the defaults for a type without codecs."""
    found = by_oid.get(oid)
    if found is None and (entry := user.entry_of(oid)) is not None:
        found = entry.sql_type
    return _UNSAID if found is None else found.columns


_UNSAID = Columns()


def type_row(oid: int) -> TypeRow | None:
    """Returns the row of pg_type, also of a user-defined type; None for an unknown OID."""
    row = pg_type_by_oid.get(oid)
    if row is None and (entry := user.entry_of(oid)) is not None:
        return entry.row
    if row is None and oid >= collated_oids.FIRST_OID:
        return collated_oids.row_of(oid, pg_type_by_oid[collated_oids.plain(oid)])
    return row


def array_of(oid: int) -> int:
    """Returns the OID of the array type of `oid`; 0 if there is none."""
    row = type_row(oid)
    return row.array if row else 0


def element_of(oid: int) -> int:
    """Returns the OID of the element type of an array type (also of int2vector and oidvector); 0 for other types."""
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
    """Returns the text of PostgreSQL's format_type(oid, typmod): 'character varying(10)', 'integer[]', '???'.

    `typmod` None is SQL's NULL: then char is 'character' (of length 1); with -1 it is 'bpchar' (no limit).
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
    """Returns a user-defined type's name for format_type: with its schema if the schema is not in the search path, or
    if an earlier schema has a type of this name."""
    current = user.visible()
    if entry.schema in current.path:
        name, before = entry.row.name, current.path[: current.path.index(entry.schema)]
        hidden = "pg_catalog" in before and name in pg_type_by_name
        others = current.entries.values() if before else ()
        if not hidden and not any(other.row.name == name and other.schema in before for other in others):
            return entry.shown
    return f"{quote_identifier(entry.schema)}.{entry.shown}"
