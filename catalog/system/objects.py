"""pg_class, pg_attribute, pg_type, pg_index, pg_constraint and other catalogs of the objects of a database.

This module computes the rows of user objects, in slices (content.py), and those of the system relations.
"""

from __future__ import annotations

import re
from collections.abc import Sequence as Seq
from functools import cache

from catalog import partitions, types
from catalog.catalog import Catalog
from catalog.functions.registry import functions_named
from catalog.identifiers import quote_identifier
from catalog.operator_classes import METHODS, class_of
from catalog.schema import (
    BOOTSTRAP_ROLE_OID,
    DEFAULT_TABLESPACE_OID,
    SEQUENCE_COLUMNS,
    Column,
    Constraint,
    Index,
    IndexColumn,
    Table,
    View,
    VirtualTable,
)
from catalog.schema import Sequence as SequenceObject
from catalog.system import derived_oids
from catalog.system.content import (
    Columns,
    Dependency,
    Item,
    Items,
    Surroundings,
    content,
    dependency_columns,
    indexes,
    objects_of,
    sequences,
    tables_and_views,
    views,
)
from catalog.system.relations import system_relations
from catalog.types.array import vector_of
from catalog.types.base import Array, TypeRef

# ---- pg_class -------------------------------------------------------------------------------------------------------


def _tablespace(oid: int) -> int:
    return 0 if oid == DEFAULT_TABLESPACE_OID else oid


def _with_relatives(catalog: Catalog, table: Table) -> Item:
    """Returns (table, whether a foreign key refers to it, whether tables inherit from it, its bound as text)."""
    bound = None
    if table.bound is not None:
        parent = catalog.table(table.parents[0])
        assert parent.partitioning is not None
        bound = partitions.bound_text(parent.partitioning, table.bound)
    return table, table.oid in catalog.referencing, table.oid in catalog.children, bound


_related = Items((Table,), _with_relatives)


def _relations(found: Seq[Table | View | VirtualTable | Index | SequenceObject]) -> Columns:
    """Returns the columns of pg_class that all relations have."""
    return {
        "oid": [item.oid for item in found],
        "relname": [item.name for item in found],
        "relnamespace": [item.schema for item in found],
        "relispopulated": True,
        "relreplident": "n",
    }


def _owned_columns(found: Seq[Table | View | SequenceObject]) -> Columns:
    """Returns the same and the owner and the privileges of relations that have them."""
    return {
        **_relations(found),
        "relowner": [item.owner for item in found],
        "relacl": [None if item.acl is None else Array.of(item.acl) for item in found],
    }


@content("pg_class", "catalog", _related)
def _tables(items: list[Item], _: Surroundings) -> Columns:
    found: list[Table] = [item[0] for item in items]
    return {
        **_owned_columns(found),
        "reltype": [derived_oids.row_type(table.oid) for table in found],
        "relam": [derived_oids.HEAP if _has_storage(table) else 0 for table in found],
        "relfilenode": [table.storage_id if _has_storage(table) else 0 for table in found],
        "reltablespace": [_tablespace(table.tablespace) for table in found],
        "reltuples": -1.0,
        "relhasindex": [bool(table.indexes) for table in found],
        "relpersistence": [table.persistence for table in found],
        "relkind": [_table_kind(table) for table in found],
        "relispartition": [table.bound is not None for table in found],
        "relhassubclass": [inherited for _, _, inherited, _ in items],
        "relpartbound": [None if bound is None else f"{bound}\x1f{bound}" for _, _, _, bound in items],
        "relispopulated": [table.populated for table in found],
        "relhasrules": [table.query is not None or bool(table.rules) for table in found],
        "relnatts": [len(table.columns) for table in found],
        "relchecks": [sum(constraint.kind == "c" for constraint in table.constraints) for table in found],
        "relhastriggers": [
            referenced or bool(table.triggers) or any(constraint.kind == "f" for constraint in table.constraints)
            for table, referenced, _, _ in items
        ],
        "relreplident": [table.replica_identity for table in found],
        "relrowsecurity": [table.row_security for table in found],
        "relforcerowsecurity": [table.force_row_security for table in found],
        "reloptions": [_options(table.options) for table in found],
    }


def _options(options: tuple[tuple[str, str], ...]) -> Array | None:
    return Array.of(tuple(f"{name}={value}" for name, value in options)) if options else None


def _has_storage(table: Table) -> bool:
    return table.partitioning is None and not table.server


def _table_kind(table: Table) -> str:
    if table.query is not None:
        return "m"
    if table.server:
        return "f"
    return "r" if table.partitioning is None else "p"


@content("pg_class", "catalog", indexes)
def _indexes(items: list[Item], _: Surroundings) -> Columns:
    found: list[Index] = [index for index, _ in items]
    return {
        **_relations(found),
        "relowner": [table.owner for _, table in items],
        "relam": [METHODS[index.method].oid for index in found],
        "relfilenode": [index.storage_id if table.partitioning is None else 0 for index, table in items],
        "reltablespace": [_tablespace(index.tablespace) for index in found],
        "relpersistence": [table.persistence for _, table in items],
        "reloptions": [_options(index.options) for index in found],
        "relkind": ["i" if table.partitioning is None else "I" for _, table in items],
        "relispartition": [index.parent is not None for index in found],
        "relhassubclass": [table.partitioning is not None for _, table in items],
        "relnatts": [len(index.columns) + len(index.include) for index in found],
    }


@content("pg_class", "catalog", views)
def _views(items: list[Item], surroundings: Surroundings) -> Columns:
    found: list[View] = [view for (view,) in items]
    return {
        **_owned_columns(found),
        "reltype": [derived_oids.row_type(view.oid) for view in found],
        "relpersistence": [_persistence(view.schema, surroundings) for view in found],
        "relkind": "v",
        "relnatts": [len(view.columns) for view in found],
        "relhasrules": True,
        "relhastriggers": [bool(view.triggers) for view in found],
        "reloptions": [_view_options(view) for view in found],
    }


def _persistence(schema: int, surroundings: Surroundings) -> str:
    """Returns 't' for a relation in a session's temporary schema, else 'p'."""
    return "t" if surroundings.catalog.schema_name(schema).startswith("pg_temp_") else "p"


def _view_options(view: View) -> Array | None:
    options = [f"{name}={value}" for name, value in view.options]
    if view.check_option is not None:
        options.append(f"check_option={view.check_option}")
    return Array.of(tuple(options)) if options else None


@content("pg_class", "catalog", sequences)
def _sequences(items: list[Item], surroundings: Surroundings) -> Columns:
    found: list[SequenceObject] = [sequence for (sequence,) in items]
    return {
        **_owned_columns(found),
        "relfilenode": [sequence.storage_id for sequence in found],
        "reltablespace": [_tablespace(sequence.tablespace) for sequence in found],
        "relpersistence": [_persistence(sequence.schema, surroundings) for sequence in found],
        "relkind": "S",
        "relnatts": len(SEQUENCE_COLUMNS),
    }


@cache
def _system() -> tuple[VirtualTable | View, ...]:
    return tuple(sorted(system_relations().values(), key=lambda relation: relation.oid))


@content("pg_class", "fixed")
def _system_classes(_: list[Item], __: Surroundings) -> Columns:
    found = _system()
    kinds = ["v" if isinstance(relation, View) else relation.kind for relation in found]
    return {
        **_relations(found),
        "relowner": BOOTSTRAP_ROLE_OID,
        "relam": [derived_oids.HEAP if kind == "r" else 0 for kind in kinds],
        "reltuples": [-1.0 if kind == "r" else 0.0 for kind in kinds],
        "relpersistence": "p",
        "relkind": kinds,
        "relnatts": [len(relation.columns) for relation in found],
        "relhasrules": [kind == "v" for kind in kinds],
    }


# ---- pg_attribute, pg_attrdef ---------------------------------------------------------------------------------------


def collation_of(column: Column | IndexColumn) -> int:
    """Returns a column's collation: its own, or its type's."""
    return column.collation or collation_of_type(column.type)


def collation_of_type(type_: TypeRef) -> int:
    """Returns the collation of a type; 0 if it has none."""
    row = types.type_row(type_.declared)
    return row.collation if row else 0


def attributes(columns: Seq[tuple[int, int, Column]]) -> Columns:
    """Returns columns of pg_attribute for (relation OID, attnum, column)."""
    rows = [types.type_row(column.type.declared) for _, _, column in columns]
    return {
        "attrelid": [relation for relation, _, _ in columns],
        "attname": [column.name for _, _, column in columns],
        "atttypid": [column.type.declared for _, _, column in columns],
        "attstattarget": -1,
        "attlen": [row.length if row else -1 for row in rows],
        "attnum": [number for _, number, _ in columns],
        "attndims": [1 if row and row.category == "A" else 0 for row in rows],
        "attcacheoff": -1,
        "atttypmod": [-1 if column.type.domain else column.type.typmod for _, _, column in columns],
        "attbyval": [bool(row and row.by_value) for row in rows],
        "attalign": [row.alignment if row else "d" for row in rows],
        "attstorage": [row.storage if row else "x" for row in rows],
        "attnotnull": [column.not_null for _, _, column in columns],
        "atthasdef": [column.default is not None or column.generated is not None for _, _, column in columns],
        "atthasmissing": [column.missing is not None for _, _, column in columns],
        "attacl": [None if column.acl is None else Array.of(column.acl) for _, _, column in columns],
        "attidentity": [column.identity for _, _, column in columns],
        "attgenerated": ["s" if column.generated is not None else "" for _, _, column in columns],
        "attislocal": [column.local for _, _, column in columns],
        "attinhcount": [column.inherited for _, _, column in columns],
        "attcollation": [collation_of(column) for _, _, column in columns],
        "attfdwoptions": [
            Array.of(tuple(f"{name}={value}" for name, value in column.foreign_options))
            if column.foreign_options
            else None
            for _, _, column in columns
        ],
    }


@content("pg_attribute", "catalog", tables_and_views)
def _table_columns(items: list[Item], _: Surroundings) -> Columns:
    return attributes([(item.oid, column.number, column) for (item,) in items for column in item.columns])


@content("pg_attribute", "catalog", sequences)
def _sequence_columns(items: list[Item], _: Surroundings) -> Columns:
    return attributes([(item.oid, column.number, column) for (item,) in items for column in SEQUENCE_COLUMNS])


@content("pg_attribute", "catalog", indexes)
def _index_columns(items: list[Item], surroundings: Surroundings) -> Columns:
    found = []
    for index, table in items:
        for number, column in enumerate(index_columns(surroundings, index, table), 1):
            found.append((index.oid, number, column))
    return attributes(found)


@content("pg_attribute", "fixed")
def _system_columns(_: list[Item], __: Surroundings) -> Columns:
    return attributes([(item.oid, column.number, column) for item in _system() for column in item.columns])


def index_columns(surroundings: Surroundings, index: Index, table: Table) -> list[Column]:
    """Returns an index's columns with their names in pg_attribute: expressions have the name of their function, or
    'expr', with a number if the name is taken."""
    found: list[Column] = []
    taken: set[str] = set()
    for part in (*index.columns, *(IndexColumn(number) for number in index.include)):
        if part.number:
            column = table.column_by_number(part.number)
            name, type_, collation = column.name, column.type, part.collation or column.collation
        else:
            name, type_, collation = surroundings.expression_name(part.expression or ""), part.type, part.collation
        base, count = name, 0
        while name in taken:
            count += 1
            name = f"{base}{count}"
        taken.add(name)
        found.append(Column(len(found) + 1, name, type_, collation=collation))
    return found


@content("pg_attrdef", "session", tables_and_views)
def _defaults(items: list[Item], surroundings: Surroundings) -> Columns:
    found = [
        (item, column, column.default if column.default is not None else column.generated)
        for (item,) in items
        for column in item.columns
        if column.default is not None or column.generated is not None
    ]
    return {
        "oid": [derived_oids.default_number(item.oid, column.number) for item, column, _ in found],
        "adrelid": [item.oid for item, _, _ in found],
        "adnum": [column.number for _, column, _ in found],
        "adbin": [
            expression_tree(surroundings, text or "", item if isinstance(item, Table) else None)
            for item, _, text in found
        ],
    }


def expression_tree(surroundings: Surroundings, text: str, table: Table | None) -> str:
    """Returns the value of a pg_node_tree column: the plain and the pretty text, one of which pg_get_expr returns."""
    return f"{surroundings.expression(text, table, False)}\x1f{surroundings.expression(text, table, True)}"


# ---- pg_type --------------------------------------------------------------------------------------------------------


@content("pg_type", "catalog", tables_and_views)
def _row_types(items: list[Item], _: Surroundings) -> Columns:
    found: list[Table | View] = [item for (item,) in items]
    return {
        "oid": [derived_oids.row_type(item.oid) for item in found],
        "typname": [item.name for item in found],
        "typnamespace": [item.schema for item in found],
        "typowner": [item.owner for item in found],
        "typlen": -1,
        "typtype": "c",
        "typcategory": "C",
        "typisdefined": True,
        "typdelim": ",",
        "typrelid": [item.oid for item in found],
        "typarray": [derived_oids.row_array_type(item.oid) for item in found],
        "typinput": _source_oid("record_in"),
        "typoutput": _source_oid("record_out"),
        "typreceive": _source_oid("record_recv"),
        "typsend": _source_oid("record_send"),
        "typalign": "d",
        "typstorage": "x",
        "typtypmod": -1,
    }


@content("pg_type", "catalog", tables_and_views)
def _row_array_types(items: list[Item], _: Surroundings) -> Columns:
    found: list[Table | View] = [item for (item,) in items]
    return {
        "oid": [derived_oids.row_array_type(item.oid) for item in found],
        "typname": [f"_{item.name}"[:63] for item in found],
        "typnamespace": [item.schema for item in found],
        "typowner": [item.owner for item in found],
        "typlen": -1,
        "typtype": "b",
        "typcategory": "A",
        "typisdefined": True,
        "typdelim": ",",
        "typsubscript": _source_oid("array_subscript_handler"),
        "typelem": [derived_oids.row_type(item.oid) for item in found],
        "typinput": _source_oid("array_in"),
        "typoutput": _source_oid("array_out"),
        "typreceive": _source_oid("array_recv"),
        "typsend": _source_oid("array_send"),
        "typanalyze": _source_oid("array_typanalyze"),
        "typalign": "d",
        "typstorage": "x",
        "typtypmod": -1,
    }


def _source_oid(name: str) -> int:
    return functions_named(name)[0].oid


# ---- pg_index, pg_constraint ----------------------------------------------------------------------------------------


def _operator_class(index: Index, part: IndexColumn, type_: int) -> int:
    found = class_of(index.method, part.operator_class, type_)
    return 0 if found is None else found.oid


def _deferrable(index: Index, table: Table) -> bool:
    return any(constraint.index == index.oid and constraint.deferrable for constraint in table.constraints)


@content("pg_index", "session", indexes)
def _index_rows(items: list[Item], surroundings: Surroundings) -> Columns:
    keys = [index_columns(surroundings, index, table)[: len(index.columns)] for index, table in items]
    return {
        "indexrelid": [index.oid for index, _ in items],
        "indrelid": [table.oid for _, table in items],
        "indnatts": [len(index.columns) + len(index.include) for index, _ in items],
        "indnkeyatts": [len(index.columns) for index, _ in items],
        "indisunique": [index.is_unique for index, _ in items],
        "indnullsnotdistinct": [index.nulls_not_distinct for index, _ in items],
        "indisprimary": [index.is_primary for index, _ in items],
        "indisclustered": [index.clustered for index, _ in items],
        "indisreplident": [index.replica_identity for index, _ in items],
        "indisexclusion": [index.late == "x" for index, _ in items],
        "indimmediate": [not _deferrable(index, table) for index, table in items],
        "indisvalid": [index.ready and index.valid for index, _ in items],
        "indisready": [index.ready for index, _ in items],
        "indislive": True,
        "indkey": [vector_of((*(part.number for part in index.columns), *index.include)) for index, _ in items],
        "indcollation": [vector_of(tuple(collation_of(column) for column in columns)) for columns in keys],
        "indclass": [
            vector_of(
                tuple(
                    _operator_class(index, part, column.type.oid)
                    for part, column in zip(index.columns, columns, strict=True)
                )
            )
            for (index, _), columns in zip(items, keys, strict=True)
        ],
        "indoption": [
            vector_of(tuple(int(part.descending) + 2 * int(part.nulls_first) for part in index.columns))
            for index, _ in items
        ],
        "indexprs": [_expressions(surroundings, index, table) for index, table in items],
        "indpred": [
            None if index.predicate is None else expression_tree(surroundings, index.predicate, table)
            for index, table in items
        ],
    }


def _expressions(surroundings: Surroundings, index: Index, table: Table) -> str | None:
    texts = [part.expression for part in index.columns if part.expression is not None]
    if not texts:
        return None
    shown = (", ".join(surroundings.expression(text, table, pretty) for text in texts) for pretty in (False, True))
    return "\x1f".join(shown)


def _with_referenced(catalog: Catalog, table: Table) -> Item | None:
    """Returns (table, the tables to which its foreign keys refer); None for a table without constraints."""
    if not table.constraints:
        return None
    return table, tuple(catalog.table(c.references) for c in table.constraints if c.references is not None)


constraint_items = Items((Table,), _with_referenced)


def all_constraints(items: list[Item]) -> list[tuple[Table, Constraint]]:
    """Returns all constraints of the items' tables that pg_constraint shows."""
    return [(item[0], c) for item in items for c in item[0].constraints if c.kind in "pucfx"]


@content("pg_constraint", "session", constraint_items)
def _constraints(items: list[Item], surroundings: Surroundings) -> Columns:
    found = all_constraints(items)
    foreign = [constraint.kind == "f" for _, constraint in found]
    return {
        "oid": [constraint.oid for _, constraint in found],
        "conname": [constraint.name for _, constraint in found],
        "connamespace": [table.schema for table, _ in found],
        "contype": [constraint.kind for _, constraint in found],
        "condeferrable": [constraint.deferrable for _, constraint in found],
        "condeferred": [constraint.initially_deferred for _, constraint in found],
        "convalidated": [constraint.validated for _, constraint in found],
        "conrelid": [table.oid for table, _ in found],
        "conindid": [constraint.index or 0 for _, constraint in found],
        "confrelid": [constraint.references or 0 for _, constraint in found],
        "confupdtype": [c.on_update if is_foreign else " " for (_, c), is_foreign in zip(found, foreign, strict=True)],
        "confdeltype": [c.on_delete if is_foreign else " " for (_, c), is_foreign in zip(found, foreign, strict=True)],
        "confmatchtype": [c.match if is_foreign else " " for (_, c), is_foreign in zip(found, foreign, strict=True)],
        "conislocal": [constraint.local for _, constraint in found],
        "coninhcount": [constraint.inherited for _, constraint in found],
        "conparentid": [constraint.parent or 0 for _, constraint in found],
        "connoinherit": [
            constraint.no_inherit
            or (constraint.parent is None and constraint.kind in "pux")
            or (constraint.parent is None and constraint.kind == "f" and table.partitioning is None)
            for table, constraint in found
        ],
        "conexclop": [Array.of(c.operators) if c.operators else None for _, c in found],
        "conkey": [Array.of(constraint.columns) if constraint.columns else None for _, constraint in found],
        "confkey": [
            Array.of(c.referenced_columns) if is_foreign else None
            for (_, c), is_foreign in zip(found, foreign, strict=True)
        ],
        "conbin": [None if c.check is None else expression_tree(surroundings, c.check, table) for table, c in found],
    }


@content("pg_policy", "session", objects_of(Table))
def _policies(items: list[Item], surroundings: Surroundings) -> Columns:
    found = [(table, policy) for (table,) in items for policy in table.policies]

    def trees(texts: Seq[str | None]) -> list[str | None]:
        pairs = zip(found, texts, strict=True)
        return [None if text is None else expression_tree(surroundings, text, table) for (table, _), text in pairs]

    return {
        "oid": [policy.oid for _, policy in found],
        "polname": [policy.name for _, policy in found],
        "polrelid": [table.oid for table, _ in found],
        "polcmd": [policy.command for _, policy in found],
        "polpermissive": [policy.permissive for _, policy in found],
        "polroles": [Array.of(policy.roles) for _, policy in found],
        "polqual": trees([policy.using for _, policy in found]),
        "polwithcheck": trees([policy.check for _, policy in found]),
    }


# ---- pg_sequence, pg_rewrite, pg_depend, pg_description -------------------------------------------------------------


@content("pg_sequence", "catalog", sequences)
def _sequence_rows(items: list[Item], _: Surroundings) -> Columns:
    found: list[SequenceObject] = [sequence for (sequence,) in items]
    return {
        "seqrelid": [sequence.oid for sequence in found],
        "seqtypid": [sequence.type.oid for sequence in found],
        "seqstart": [sequence.start for sequence in found],
        "seqincrement": [sequence.increment for sequence in found],
        "seqmax": [sequence.maximum for sequence in found],
        "seqmin": [sequence.minimum for sequence in found],
        "seqcache": [sequence.cache for sequence in found],
        "seqcycle": [sequence.cycle for sequence in found],
    }


@content("pg_rewrite", "catalog", views)
def _rules(items: list[Item], _: Surroundings) -> Columns:
    return {
        "oid": [derived_oids.rule(view.oid) for (view,) in items],
        "rulename": "_RETURN",
        "ev_class": [view.oid for (view,) in items],
        "ev_type": "1",
        "ev_enabled": "O",
        "is_instead": True,
        "ev_qual": "<>",
        "ev_action": [view.query for (view,) in items],
    }


@content("pg_rewrite", "catalog", objects_of(Table))
def _rules_of_materialized_views(items: list[Item], surroundings: Surroundings) -> Columns:
    return _rules([item for item in items if item[0].query is not None], surroundings)


_DRAWS = re.compile(r"nextval\('((?:[^']|'')+)'::regclass\)")
_NAME_PARTS = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')


def _drawn_from(catalog: Catalog, item: Table | View | SequenceObject) -> Item:
    """Returns (object, (column, sequence) for each nextval() in the defaults of a table or view)."""
    found = []
    for column in item.columns if isinstance(item, Table | View) else ():
        for name in _DRAWS.findall(column.default or ""):
            parts = [
                quoted.replace('""', '"') if quoted else plain
                for quoted, plain in _NAME_PARTS.findall(name.replace("''", "'"))
            ]
            oid = catalog.relations.get((catalog.schemas.get(parts[0], 0), parts[-1])) if len(parts) == 2 else None
            if oid is not None and not column.identity:
                found.append((column.number, oid))
    return item, tuple(found)


def _default_dependencies(
    item: Table | View, draws: Seq[tuple[int, int]], surroundings: Surroundings
) -> list[Dependency]:
    """Returns the rows of pg_depend of the defaults and generated columns of a table or view."""
    relation = derived_oids.PG_CLASS
    found: list[Dependency] = []
    for column in item.columns:
        if column.default is not None or column.generated is not None:
            default = (derived_oids.PG_ATTRDEF, derived_oids.default_number(item.oid, column.number), 0)
            found.append((*default, relation, item.oid, column.number, "a" if column.generated is None else "i"))
            found += [(*default, relation, oid, 0, "n") for number, oid in draws if number == column.number]
            if column.generated is not None and isinstance(item, Table):
                read = surroundings.expression_references(column.generated, item)
                found += [(*default, *reference, "n") for reference in read]
    return found


def _dependencies_of(
    item: Table | View | SequenceObject, draws: Seq[tuple[int, int]], surroundings: Surroundings
) -> list[Dependency]:
    """Returns rows of pg_depend: (class, object, column, referenced class, object, column, type)."""
    relation, schema = derived_oids.PG_CLASS, derived_oids.PG_NAMESPACE
    if isinstance(item, SequenceObject):
        found: list[Dependency] = [(relation, item.oid, 0, schema, item.schema, 0, "n")]
        if item.owned_by is not None:
            found.append((relation, item.oid, 0, relation, *item.owned_by, item.owned_kind))
        return found
    row_type, array = derived_oids.row_type(item.oid), derived_oids.row_array_type(item.oid)
    found = [
        (relation, item.oid, 0, schema, item.schema, 0, "n"),
        (derived_oids.PG_TYPE, row_type, 0, relation, item.oid, 0, "i"),
        (derived_oids.PG_TYPE, array, 0, derived_oids.PG_TYPE, row_type, 0, "i"),
    ]
    if isinstance(item, View) or item.query is not None:
        rule = (derived_oids.PG_REWRITE, derived_oids.rule(item.oid), 0)
        found += [(*rule, relation, item.oid, 0, kind) for kind in "in"]
        found += [(*rule, *reference, "n") for reference in surroundings.references(item)]
        found += _default_dependencies(item, draws, surroundings)
        if isinstance(item, View) and item.extension:
            found.append((relation, item.oid, 0, derived_oids.PG_EXTENSION, item.extension, 0, "e"))
        return found
    kind = "n" if item.bound is None else "a"
    found += [(relation, item.oid, 0, relation, parent, 0, kind) for parent in item.parents]
    found += _default_dependencies(item, draws, surroundings)
    for constraint in item.constraints:
        own = (derived_oids.PG_CONSTRAINT, constraint.oid, 0)
        if constraint.kind in "pux" and constraint.index is not None:
            found.append((relation, constraint.index, 0, *own, "i"))
        found += [(*own, relation, item.oid, number, "a") for number in constraint.columns]
        if constraint.kind == "f" and constraint.references is not None:
            found += [(*own, relation, constraint.references, n, "n") for n in constraint.referenced_columns]
            found.append((*own, relation, constraint.index or 0, 0, "n"))
    for policy in item.policies:
        rule = (derived_oids.PG_POLICY, policy.oid, 0)
        found.append((*rule, relation, item.oid, 0, "a"))
        texts = (text for text in (policy.using, policy.check) if text is not None)
        used = dict.fromkeys(one for text in texts for one in surroundings.expression_references(text, item))
        found += [(*rule, *reference, "n") for reference in used]
    return found


@content("pg_depend", "catalog", indexes)
def _index_dependencies(items: list[Item], _: Surroundings) -> Columns:
    """Rows of pg_depend for indexes: an index depends on its key columns, or on its constraint if it has one."""
    relation = derived_oids.PG_CLASS
    found: list[Dependency] = []
    for index, table in items:
        if index.parent is not None:
            found.append((relation, index.oid, 0, relation, index.parent, 0, "P"))
            found.append((relation, index.oid, 0, relation, table.oid, 0, "S"))
        if any(constraint.index == index.oid for constraint in table.constraints):
            continue
        numbers = [part.number for part in index.columns if part.number] + list(index.include)
        found += [(relation, index.oid, 0, relation, table.oid, number, "a") for number in numbers or [0]]
    return dependency_columns(found)


@content("pg_depend", "catalog", Items((Table, View, SequenceObject), _drawn_from))
def _dependencies(items: list[Item], surroundings: Surroundings) -> Columns:
    return dependency_columns([found for item, draws in items for found in _dependencies_of(item, draws, surroundings)])


def _comments(item: Table | View | SequenceObject | Index) -> list[tuple[int, int, int, str]]:
    found = []
    if item.comment is not None:
        found.append((item.oid, derived_oids.PG_CLASS, 0, item.comment))
    if isinstance(item, Table | View):
        found += [(item.oid, derived_oids.PG_CLASS, c.number, c.comment) for c in item.columns if c.comment is not None]
    if isinstance(item, Table):
        found += [(c.oid, derived_oids.PG_CONSTRAINT, 0, c.comment) for c in item.constraints if c.comment is not None]
        found += [(p.oid, derived_oids.PG_POLICY, 0, p.comment) for p in item.policies if p.comment is not None]
    return found


@content("pg_description", "catalog", objects_of(Table, View, SequenceObject, Index))
def _descriptions(items: list[Item], _: Surroundings) -> Columns:
    found = [comment for (item,) in items for comment in _comments(item)]
    names = ("objoid", "classoid", "objsubid", "description")
    return {name: [row[position] for row in found] for position, name in enumerate(names)}


def qualified_name(catalog: Catalog, relation: Table | View | Index | SequenceObject | VirtualTable) -> str:
    """Returns 'schema.name', quoted if necessary."""
    return f"{quote_identifier(schema_name(catalog, relation.schema))}.{quote_identifier(relation.name)}"


def schema_name(catalog: Catalog, oid: int) -> str:
    """Returns a schema's name; system schemas are in every database."""
    return {11: "pg_catalog", 13000: "information_schema"}.get(oid) or catalog.schema_name(oid)
