"""The registry of types: `by_oid[23]`, `by_name['int4']`. Importing this package registers every built-in type.

`type_rows` knows all of PostgreSQL's built-in types, so that names and functions resolve as they do there; `by_oid` has
those whose values Shoal can hold. `lookup` is the way from one to the other: it refuses the rest by name.

The internal form of each type's values, and the rules for its text, binary, row, key and DuckDB forms: base.py.

    oids.py         OIDs of built-in types that code names;  rows.py  what PostgreSQL declares about every type
    user.py         types of users and of extensions: how an OID becomes a `SqlType`
    array.py        arrays of every type;  composite.py  rows;  enum.py;  range.py and multirange.py
    carried.py      types whose text depends on settings, so that DuckDB holds another text
    collated.py     text under an ICU collation: a type of its own inside plans
    many.py         many values of one column at once
    beside.py       a process of its own reads long values
    named_objects.py       types in whose text names of objects stand

**Values in columns.** `SqlType.columns` says what stored numbers and bytes are to Arrow, keys and the wire, and
`duckdb_type` what carries a type's values in DuckDB:

    bool, int2, int4, int8, float4, float8    BOOLEAN, SMALLINT, INTEGER, BIGINT, FLOAT, DOUBLE
    numeric(p,s), p <= 38, 0 <= s <= p        DECIMAL(p,s). Exact: where a result has more than 38 digits, the query
                                              runs again with all numerics as text (`ColumnarQuery.in_digits`)
    any other numeric                         VARCHAR: PostgreSQL's text, with its scale. UDFs compute and order it:
                                              slower, exact
    text, varchar, name, "char", json, jsonb  VARCHAR
    char(n)                                   VARCHAR: in stored tables without the blanks that pad it (`CharType` in
                                              catalog/duckdb/types.py), in results with them; a bpchar without a
                                              length as it is
    bytea, uuid                               BLOB
    date, time                                DATE, TIME
    timestamp, timestamptz                    TIMESTAMP; timestamptz in UTC. Our functions apply zones, never DuckDB's
                                              settings
    timetz                                    VARCHAR
    interval                                  INTERVAL
    oid and reg types                         BIGINT
    T[]                                       LIST where an array has one dimension that begins at 1; else text, in the
                                              whole statement and table (engine/columnar/generate/shapes.py,
                                              engine/columnar/worker/tables.py)
"""

from __future__ import annotations

from catalog.errors import SqlError, not_supported
from catalog.types import collated, oids, user
from catalog.types import extensions as extensions
from catalog.types.array import ArrayType, VectorType
from catalog.types.base import (
    DEFAULT_FORMAT,
    EMPTY_ARRAY,
    Array,
    Columns,
    FormatSettings,
    Interval,
    Layout,
    Order,
    SqlType,
    Storage,
    TypeRef,
)
from catalog.types.bits import BIT, VARBIT
from catalog.types.boolean import Bool
from catalog.types.bytea import Bytea
from catalog.types.date import DATE
from catalog.types.float import FLOAT4, FLOAT8
from catalog.types.geometry import GEOMETRY
from catalog.types.integer import INT2, INT4, INT8
from catalog.types.interval import INTERVAL
from catalog.types.json import JSON, JSONB
from catalog.types.jsonpath import JsonPathType
from catalog.types.macaddr import MACADDR, MACADDR8
from catalog.types.money import MONEY
from catalog.types.multirange import MULTIRANGES
from catalog.types.network import CIDR, INET
from catalog.types.numeric import Numeric
from catalog.types.oid import CID, FIXED_TYPES, OID, REG_TYPES, XID, XID8
from catalog.types.pseudo import PgLsn, Record, Tid, Void
from catalog.types.range import RANGES
from catalog.types.rows import TypeRow, read_type_rows
from catalog.types.text import (
    ACLITEM,
    ANYARRAY,
    BPCHAR,
    CHAR,
    CSTRING,
    NAME,
    PG_NODE_TREE,
    REFCURSOR,
    TEXT,
    UNKNOWN,
    VARCHAR,
)
from catalog.types.text_search import TsQuery, TsVector
from catalog.types.time import TIME, TIMETZ
from catalog.types.timestamp import TIMESTAMP, TIMESTAMPTZ
from catalog.types.uuid import Uuid

__all__ = [
    "DEFAULT_FORMAT",
    "EMPTY_ARRAY",
    "Array",
    "Columns",
    "FormatSettings",
    "Interval",
    "Layout",
    "Order",
    "SqlType",
    "Storage",
    "TypeRef",
    "TypeRow",
    "array_of",
    "by_name",
    "by_oid",
    "columns_of",
    "element_of",
    "format_type",
    "lookup",
    "pg_type_by_name",
    "pg_type_by_oid",
    "pg_type_rows",
    "type_row",
]

pg_type_rows: tuple[TypeRow, ...] = read_type_rows()
pg_type_by_oid: dict[int, TypeRow] = {row.oid: row for row in pg_type_rows}
pg_type_by_name: dict[str, TypeRow] = {row.name: row for row in pg_type_rows}

_SCALARS: tuple[SqlType, ...] = (
    Bool(),
    INT2,
    INT4,
    INT8,
    OID,
    *REG_TYPES,
    *FIXED_TYPES,
    XID,
    CID,
    XID8,
    FLOAT4,
    FLOAT8,
    Numeric(),
    TEXT,
    VARCHAR,
    BPCHAR,
    NAME,
    CHAR,
    UNKNOWN,
    CSTRING,
    REFCURSOR,
    ACLITEM,
    PG_NODE_TREE,
    ANYARRAY,
    INET,
    CIDR,
    MONEY,
    Bytea(),
    Uuid(),
    DATE,
    TIME,
    TIMETZ,
    TIMESTAMP,
    TIMESTAMPTZ,
    INTERVAL,
    JSON,
    JSONB,
    JsonPathType(),
    *RANGES,
    *MULTIRANGES,
    *GEOMETRY,
    BIT,
    VARBIT,
    MACADDR,
    MACADDR8,
    TsVector(),
    TsQuery(),
    PgLsn(),
    Tid(),
    Void(),
    Record(),
    VectorType(oids.INT2VECTOR, oids.INT2VECTOR_ARRAY, "int2vector", INT2),
    VectorType(oids.OIDVECTOR, oids.OIDVECTOR_ARRAY, "oidvector", OID),
)
_ARRAYS: tuple[SqlType, ...] = tuple(
    ArrayType(element.array_oid, pg_type_by_oid[element.array_oid].name, element)
    for element in _SCALARS
    if element.array_oid and element.oid != oids.RECORD
)

by_oid: dict[int, SqlType] = {sql_type.oid: sql_type for sql_type in _SCALARS + _ARRAYS}
by_name: dict[str, SqlType] = {sql_type.name: sql_type for sql_type in _SCALARS + _ARRAYS}


def lookup(oid: int) -> SqlType:
    """The type with its codecs. Raises 0A000 for a type of PostgreSQL without one here, 42704 for no type at all."""
    found = by_oid.get(oid) or collated.find(oid)
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
    if row is None and oid >= collated.FIRST_OID:
        return collated.row_of(oid, pg_type_by_oid[collated.plain(oid)])
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
    row = pg_type_by_oid.get(collated.plain(oid))
    if row is None:
        entry = user.entry_of(oid)
        return "???" if entry is None else user.shown_name(entry)
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
