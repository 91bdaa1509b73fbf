"""OIDs of objects without a stored OID: row types and their arrays, defaults, rules.

A table's OID is below 2^29. Each kind of dependent object has its own range above that and below 2^31, for clients that
store OIDs in signed integers. A default's number is computed from table and column; it serves to join pg_attrdef with
pg_depend.
"""

from __future__ import annotations

from catalog.catalog import Catalog

RANGE = 1 << 28
ROW_TYPES = 2 * RANGE
ARRAY_TYPES = 3 * RANGE
RULES = 4 * RANGE
DEFAULTS = 5 * RANGE

PG_CLASS, PG_TYPE, PG_PROC, PG_OPERATOR, PG_NAMESPACE = 1259, 1247, 1255, 2617, 2615
PG_CONSTRAINT, PG_ATTRDEF, PG_REWRITE, PG_DATABASE, PG_TABLESPACE, PG_AUTHID = 2606, 2604, 2618, 1262, 1213, 1260
PG_CAST, PG_OPCLASS, PG_OPFAMILY, PG_EXTENSION, PG_COLLATION, PG_POLICY = 2605, 2616, 2753, 3079, 3456, 3256
PG_TRIGGER, PG_EVENT_TRIGGER, PG_TS_DICT, PG_TS_CONFIG, PG_TS_TEMPLATE = 2620, 3466, 3600, 3602, 3764
PG_STATISTIC_EXT = 3381
PG_FOREIGN_SERVER, PG_USER_MAPPING, PG_FOREIGN_DATA_WRAPPER = 1417, 1418, 2328
HEAP = 2
COLUMNS_EACH = 1 << 11  # more than the columns of any table


def row_type(relation: int) -> int:
    """Returns the OID of a table's or view's row type."""
    return ROW_TYPES + relation


def row_array_type(relation: int) -> int:
    return ARRAY_TYPES + relation


def rule(view: int) -> int:
    """Returns the OID of a view's _RETURN rule."""
    return RULES + view


def default_number(table: int, column: int) -> int:
    """Returns the OID of a column's default."""
    return DEFAULTS + (table * COLUMNS_EACH + column) % (3 * RANGE - 1)


def relation_of_type(catalog: Catalog, oid: int) -> int | None:
    """Returns the table or view whose row type, or its array type, has this OID; None if there is none."""
    if not ROW_TYPES <= oid < RULES:
        return None
    relation = oid - (ARRAY_TYPES if oid >= ARRAY_TYPES else ROW_TYPES)
    return relation if relation in catalog.objects else None
