"""pg_relation_size and similar functions: sizes of tables and indexes on this node, in bytes.

    in LMDB      pages counted from the tree (engine/storage/pages.py); a page shared with a neighbour counts in full
    in memory    changes that wait for the flush, from a sample of their keys; rows that replace stored ones count twice

So a size is an estimate, of this node, of the committed state, rounded up to PostgreSQL's blocks (`block_size`); an
empty relation has 0. A table's rows are stored in the order of its primary key, so its primary index takes no space. A
database is the sum of its relations and of the schema that all databases share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.rows import KINDS
from catalog.schema import DEFAULT_TABLESPACE_OID, Index, Sequence, Table, VirtualTable
from catalog.schema import View as ViewObject
from catalog.system.relations import system_relations
from engine.storage.branch_storage import kept_id, leans
from engine.storage.stores import Stores
from engine.storage.tablespace import Tablespace

if TYPE_CHECKING:
    from engine.node_services import NodeServices

BLOCK = 8192

Stored = Table | Index | Sequence


def by_space(node: NodeServices, storage_ids: Iterable[int], everywhere: bool = False) -> dict[Tablespace, list[int]]:
    """Storage ids by tablespace, without tablespaces that this node lacks. `everywhere`: includes tablespaces with none
    of them."""
    spaces: dict[Tablespace, list[int]] = {}
    if everywhere:
        store = node.store
        spaces = {space: [] for space in (store.open_spaces() if isinstance(store, Stores) else [store])}
    for storage_id in storage_ids:
        with suppress(SqlError):  # 57P03
            spaces.setdefault(node.store.of(storage_id), []).append(storage_id)
    return spaces


def sizes_of(node: NodeServices, storage_ids: Iterable[int]) -> dict[int, int]:
    """The bytes under each storage id, without tablespaces that this node lacks."""
    found: dict[int, int] = {}
    for space, held in by_space(node, storage_ids).items():
        found.update((storage_id, -(-size // BLOCK) * BLOCK) for storage_id, size in space.sizes_of(held).items())
    return found


def live_rows(node: NodeServices, catalog: Catalog) -> dict[int, int]:
    """An estimate of the number of rows of each table of a database, by OID; exact for small tables."""
    tables = {item.storage_id: item.oid for item in stored_in(catalog) if isinstance(item, Table)}
    found: dict[int, int] = {}
    for space, held in by_space(node, tables).items():
        found.update((tables[storage_id], rows) for storage_id, rows in space.rows_of(held).items())
    return found


def rows_in(node: NodeServices, table: Table) -> int:
    """Like `live_rows`, for one table; 0 if this node does not have it."""
    return sum(sum(space.rows_of(held).values()) for space, held in by_space(node, [table.storage_id]).items())


def relation_size(node: NodeServices, catalog: Catalog, oid: int) -> tuple[int | None, int] | None:
    """(its own size, its indexes' size) of a relation; None if there is none of that OID. Its own size is None if this
    node does not have it."""
    item = catalog.objects.get(oid)
    if not isinstance(item, Stored):
        return (0, 0) if isinstance(item, ViewObject) or oid in _virtual() else None
    indexes = _indexes(catalog, item)
    found = sizes_of(node, [item.storage_id, *indexes])
    return _own(catalog, item, found), sum(found.get(index, 0) for index in indexes)


def relation_sizes(node: NodeServices, catalog: Catalog) -> list[tuple[int, int | None, int]]:
    """(OID, its own size, its indexes' size) of every relation of a database, as `relation_size`."""
    items = stored_in(catalog)
    found = sizes_of(node, (item.storage_id for item in items))
    views = (*_virtual(), *(view.oid for view in catalog.by_kind.get(ViewObject, ())))
    rows: list[tuple[int, int | None, int]] = [(oid, 0, 0) for oid in views]
    for item in items:
        rows.append(
            (item.oid, _own(catalog, item, found), sum(found.get(index, 0) for index in _indexes(catalog, item)))
        )
    return rows


def database_size(node: NodeServices, oid: int) -> int | None:
    """A database's size; None if there is none of that OID."""
    catalog = node.catalogs.get(oid)
    if catalog is None:
        return None
    return sum(sizes_of(node, [*KINDS, *(item.storage_id for item in stored_in(catalog))]).values())


def tablespace_size(node: NodeServices, oid: int) -> int:
    """The size of the relations of all databases in a tablespace; pg_default includes the schema."""
    held = {
        item.storage_id
        for catalog in node.catalogs.values()
        for item in stored_in(catalog)
        if getattr(item, "tablespace", DEFAULT_TABLESPACE_OID) == oid
    }
    return sum(sizes_of(node, [*held, *KINDS] if oid == DEFAULT_TABLESPACE_OID else held).values())


def stored_in(catalog: Catalog) -> list[Stored]:
    """The objects of a database that have storage."""
    return [
        item for kind in (Table, Index, Sequence) for item in catalog.by_kind.get(kind, ()) if isinstance(item, kind)
    ]


def storage_ids(catalog: Catalog, tables: Iterable[Table]) -> list[int]:
    """The storage ids of tables, of their indexes, and of the old rows that branches keep."""
    found = [number for table in tables for number in (table.storage_id, *_indexes(catalog, table))]
    return [*found, *(kept_id(number) for number in found if leans(number))]


def _indexes(catalog: Catalog, item: Stored) -> list[int]:
    """The storage ids of a table's indexes that have one of their own."""
    if not isinstance(item, Table):
        return []
    return [index.storage_id for index in map(catalog.index, item.indexes) if index.storage_id != item.storage_id]


def _own(catalog: Catalog, item: Stored, found: Mapping[int, int]) -> int | None:
    """A relation's own size; 0 for an index that is the order of the rows."""
    own = found.get(item.storage_id)
    if own is not None and isinstance(item, Index) and catalog.table(item.table).storage_id == item.storage_id:
        return 0
    return own


def _virtual() -> list[int]:
    return [relation.oid for relation in system_relations().values() if isinstance(relation, VirtualTable | ViewObject)]
