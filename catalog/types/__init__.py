"""The registry of types: `by_oid[23]`, `by_name['int4']`. An import of this package registers every built-in type.

`type_rows` has all of PostgreSQL's built-in types, so that names and functions resolve as they do there. `by_oid` has
the types whose values Shoal supports. `lookup` maps one to the other, and refuses the remaining types by name.

A type that PostgreSQL lacks needs rows in catalog/data too (pg_type, also for its array; pg_operator, pg_opclass and
the objects that they name, if it is compared). If its columns are neither BIGINT, UBIGINT nor VARCHAR, its constants
need a line in `_LITERALS` of engine/columnar/generate/literals.py.

base.py describes the internal form of each type's values, and the rules for its text, binary, row, key and DuckDB
forms.

    oids.py         OIDs of built-in types that the code uses;  rows.py  PostgreSQL's declarations of every type
    registry.py     maps an OID to a codec, a row of pg_type and a name
    user.py         types of users and of extensions: maps an OID to a `SqlType`
    array.py        arrays of every type;  composite.py  rows;  enum.py;  range.py and multirange.py
    carried.py      types whose text depends on settings, so that DuckDB holds another text
    collated.py     text under an ICU collation: a type of its own inside plans;  collated_oids.py  their OIDs
    many.py         many values of one column at once
    beside.py       reads long values in a separate process
    named_objects.py       types whose text contains names of objects

**Values in columns.** `SqlType.columns` defines the meaning of stored numbers and bytes for Arrow, keys and the
protocol. `duckdb_type` is the type of the values in DuckDB:

    bool, int2, int4, int8, float4, float8    BOOLEAN, SMALLINT, INTEGER, BIGINT, FLOAT, DOUBLE
    numeric(p,s), p <= 38, 0 <= s <= p        DECIMAL(p,s). Exact: if a result has more than 38 digits, the query
                                              runs again with all numerics as text (`ColumnarQuery.in_digits`)
    any other numeric                         VARCHAR: PostgreSQL's text, with its scale. UDFs compute and order it:
                                              slower, exact
    text, varchar, name, "char", json, jsonb  VARCHAR
    char(n)                                   VARCHAR: without the blank padding in stored tables (`CharType` in
                                              catalog/duckdb/types.py), with it in results; a bpchar without a
                                              length is unchanged
    bytea, uuid                               BLOB
    date, time                                DATE, TIME
    timestamp, timestamptz                    TIMESTAMP; timestamptz in UTC. Shoal's functions apply time zones, and
                                              DuckDB's settings are not used
    timetz                                    VARCHAR
    interval                                  INTERVAL
    oid and reg types                         BIGINT
    T[]                                       LIST for arrays with one dimension that begins at 1; else text, in the
                                              whole statement and table (engine/columnar/generate/shapes.py,
                                              engine/columnar/worker/tables.py)
"""

from __future__ import annotations

from catalog.types import collated as collated
from catalog.types import extensions as extensions
from catalog.types import oids
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
from catalog.types.pseudo import DdlCommand, PgLsn, Record, Tid, Void
from catalog.types.range import RANGES
from catalog.types.registry import (
    array_of,
    by_name,
    by_oid,
    columns_of,
    element_of,
    format_type,
    lookup,
    pg_type_by_name,
    pg_type_by_oid,
    pg_type_rows,
    register,
    type_row,
)
from catalog.types.rows import TypeRow
from catalog.types.snapshots import SNAPSHOTS
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
from catalog.types.xml import XmlType

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
    XmlType(),
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
    *SNAPSHOTS,
    Void(),
    DdlCommand(),
    Record(),
    VectorType(oids.INT2VECTOR, oids.INT2VECTOR_ARRAY, "int2vector", INT2),
    VectorType(oids.OIDVECTOR, oids.OIDVECTOR_ARRAY, "oidvector", OID),
)
_ARRAYS: tuple[SqlType, ...] = tuple(
    ArrayType(element.array_oid, pg_type_by_oid[element.array_oid].name, element)
    for element in _SCALARS
    if element.array_oid and element.oid != oids.RECORD
)

register(_SCALARS + _ARRAYS)
