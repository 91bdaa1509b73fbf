"""Properties of access methods and indexes, and files of relations (PostgreSQL 16 manual, 9.26; amutils.c, dbsize.c).

A relation of Shoal has no file of its own. Its file node is the number by which its rows are stored, as pg_class shows
it. The path is one that PostgreSQL would have, so that programs can tell relations with rows of their own from others.
"""

from __future__ import annotations

from typing import cast

from catalog.catalog import Catalog
from catalog.functions.base import CallContext
from catalog.functions.registry import implements
from catalog.operator_classes import METHODS
from catalog.schema import Index, Sequence, Table

# of PostgreSQL's handlers: indexes have these properties with these methods, and columns can be searched so
_SCANS = {
    "btree": "clusterable index_scan bitmap_scan backward_scan search_array search_nulls",
    "hash": "index_scan bitmap_scan backward_scan",
    "gist": "clusterable index_scan bitmap_scan search_nulls",
    "spgist": "index_scan bitmap_scan search_nulls",
    "gin": "bitmap_scan",
    "brin": "bitmap_scan search_nulls",
}
_OF_INDEX = ("clusterable", "index_scan", "bitmap_scan", "backward_scan")
_OF_COLUMN = ("search_array", "search_nulls")


def _catalog(call: CallContext) -> Catalog:
    return cast(Catalog, call.session.catalog)  # type: ignore[attr-defined]


def _index(call: CallContext, oid: int) -> Index | None:
    found = _catalog(call).get(oid)
    return found if isinstance(found, Index) else None


@implements("pg_indexam_has_property")
def _method_property(oid: int, name: str) -> bool | None:
    method = next((method for method in METHODS.values() if method.oid == oid), None)
    if method is None:
        return None
    known = {
        "can_order": method.ordered,
        "can_unique": method.unique,
        "can_multi_col": method.multicolumn,
        "can_exclude": method.name not in ("gin", "brin"),
        "can_include": method.include,
    }
    return known.get(name.lower())


@implements("pg_index_has_property", needs_session=True)
def _index_property(call: CallContext, oid: int, name: str) -> bool | None:
    index, wanted = _index(call, oid), name.lower()
    return None if index is None or wanted not in _OF_INDEX else wanted in _SCANS[index.method].split()


@implements("pg_index_column_has_property", needs_session=True)
def _column_property(call: CallContext, oid: int, number: int, name: str) -> bool | None:
    """The answer, or NULL for a property or a column that is not there."""
    index = _index(call, oid)
    if index is None or not 1 <= number <= len(index.columns) + len(index.include):
        return None
    method, is_key = METHODS[index.method], number <= len(index.columns)
    known: dict[str, bool | None] = {
        "orderable": method.ordered and is_key,
        "distance_orderable": False,
        "returnable": method.ordered or not is_key,
    }
    if is_key:
        column = index.columns[number - 1]
        known |= {search: search in _SCANS[method.name].split() for search in _OF_COLUMN}
        known["asc"] = method.ordered and not column.descending
        known["desc"] = method.ordered and column.descending
        known["nulls_first"] = method.ordered and column.nulls_first
        known["nulls_last"] = method.ordered and not column.nulls_first
    return known.get(name.lower())


@implements("pg_get_replica_identity_index", needs_session=True)
def _replica_identity_index(call: CallContext, oid: int) -> int | None:
    catalog = _catalog(call)
    table = catalog.get(oid)
    if not isinstance(table, Table):
        return None
    for index in map(catalog.index, table.indexes):
        if (table.replica_identity == "d" and index.is_primary) or index.replica_identity:
            return index.oid
    return None


def _with_storage(call: CallContext, oid: int) -> Table | Index | Sequence | None:
    """The relation, where PostgreSQL would store rows for it."""
    found = _catalog(call).get(oid)
    if isinstance(found, Index):
        return found if _catalog(call).table(found.table).partitioning is None else None
    if isinstance(found, Table):
        return found if found.partitioning is None else None
    return found if isinstance(found, Sequence) else None


@implements("pg_relation_filenode", needs_session=True)
def _file_node(call: CallContext, oid: int) -> int | None:
    found = _with_storage(call, oid)
    return None if found is None else found.storage_id


@implements("pg_relation_filepath", needs_session=True)
def _file_path(call: CallContext, oid: int) -> str | None:
    found = _with_storage(call, oid)
    return None if found is None else f"base/{call.session.database_oid}/{found.storage_id}"  # type: ignore[attr-defined]


@implements("pg_filenode_relation", needs_session=True)
def _relation_of_file_node(call: CallContext, tablespace: int, node: int) -> int | None:
    by_kind = _catalog(call).by_kind
    items = (item for kind in (Table, Index, Sequence) for item in by_kind.get(kind, ()))
    return next((item.oid for item in items if getattr(item, "storage_id", None) == node), None)
