"""pg_identify_object, pg_identify_object_as_address: an object's type, and its name independent of the session
(objectaddress.c: getObjectTypeDescription, getObjectIdentityParts).

Every object has a row in an internal table, which both paths read. A row depends on all objects that it names, so it is
computed again when one of them is renamed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, cast

from catalog import types
from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.event_triggers import EventTrigger
from catalog.extensions import types_of
from catalog.functions import registry
from catalog.functions.base import CallContext
from catalog.functions.duckdb_errors import sql_error_call_of
from catalog.functions.registry import implements
from catalog.functions.system_lookups import find
from catalog.identifiers import quote_identifier
from catalog.schema import (
    SEQUENCE_COLUMNS,
    USER_TYPES,
    Collation,
    Composite,
    Database,
    Domain,
    Extension,
    ForeignServer,
    ForeignWrapper,
    Index,
    Parameter,
    Role,
    Routine,
    Schema,
    Sequence,
    StatisticsObject,
    Table,
    Tablespace,
    UserCast,
    UserMapping,
    UserOperator,
    UserType,
    View,
    VirtualTable,
)
from catalog.system import derived_oids
from catalog.system import relations as internal
from catalog.system.content import Columns, Item, Items, Surroundings, content, indexes, system_table
from catalog.system.extensions import own_functions, own_rows
from catalog.system.lookups import register
from catalog.system.objects import index_columns
from catalog.system.relations import read_fields, read_rows, system_relations
from catalog.text_search.configurations import CONFIGURATIONS, DICTIONARIES
from catalog.text_search.objects import (
    TextSearchConfiguration,
    TextSearchDictionary,
)
from catalog.text_search.parser import DEFAULT_PARSER
from catalog.types.base import Array
from catalog.types.rows import TypeRow
from catalog.types.user import FIRST_ADDED_OID

Parts = tuple[str, str | None, str | None, str]  # the result of pg_identify_object: type, schema, name, identity
IdentityRow = tuple[int, int, int, Parts, tuple[str, ...], tuple[str, ...]]  # address, parts, names, arguments

LARGE_OBJECTS = 2613
MISSING = {
    1259: "relation", 1247: "type", 1255: "routine", 2604: "default value", 2606: "constraint", 2615: "schema",
    2618: "rule", 2617: "operator", 1260: "role", 1262: "database", 1213: "tablespace", 2612: "language",
    3456: "collation", 3079: "extension", 2605: "cast", 2601: "access method", 2616: "operator class",
    2753: "operator family", 2602: "operator of access method", 2603: "function of access method",
    3602: "text search configuration", 3600: "text search dictionary", 3601: "text search parser",
    3764: "text search template", 826: "default acl", 6243: "parameter ACL", 2613: "large object", 2607: "conversion",
    2620: "trigger", 3256: "policy", 6104: "publication", 6106: "publication relation", 6237: "publication namespace",
    6100: "subscription", 3466: "event trigger", 3381: "statistics object", 1417: "server", 1418: "user mapping",
    2328: "foreign-data wrapper", 3576: "transform",
}  # fmt: skip
"""By catalog: the type that pg_identify_object returns for a missing object."""
_SPOKEN = frozenset(
    {
        "bit", "bool", "bpchar", "float4", "float8", "int2", "int4", "int8", "numeric", "interval", "time", "timetz",
        "timestamp", "timestamptz", "varbit", "varchar",
    }
)  # fmt: skip
"""Types with special names in SQL's grammar."""


def _plain(*names: str) -> str:
    return ".".join(map(quote_identifier, names))


def _schema(catalog: Catalog, oid: int) -> str:
    found = catalog.schema_name(oid)
    return "pg_temp" if found.startswith("pg_temp_") else found


def type_identity(catalog: Catalog, oid: int) -> str:
    """format_type, with a schema except for types with special names in SQL; '-' for OID 0."""
    if oid < FIRST_ADDED_OID:
        return _built_in_type(oid)
    relation = derived_oids.relation_of_type(catalog, oid)
    if relation is not None:
        item = cast(Any, catalog.objects[relation])
        array = "[]" if oid >= derived_oids.ARRAY_TYPES else ""
        return _plain(_schema(catalog, item.schema), item.name) + array
    entry = catalog.user_types.get(oid)
    if entry is None:
        row = types.type_row(oid)
        return "???" if row is None else _show_type(row)
    if entry.row.element and entry.row.length == -1:
        return type_identity(catalog, entry.row.element) + "[]"
    return _plain(entry.schema, entry.row.name)


@cache
def _built_in_type(oid: int) -> str:
    row = types.type_row(oid)
    if row is None:
        return "-" if oid == 0 else "???"
    return _show_type(row)


def _show_type(row: TypeRow) -> str:
    if row.element and row.length == -1 and row.name not in ("int2vector", "oidvector"):
        return _built_in_type(row.element) + "[]"
    return types.format_type(row.oid) if row.name in _SPOKEN else _plain("pg_catalog", row.name)


# ---- rows of user-defined objects -----------------------------------------------------------------------------------


def _in_schema(kind: int, oid: int, word: str, schema: str, name: str) -> IdentityRow:
    return kind, oid, 0, (word, schema, quote_identifier(name), _plain(schema, name)), (schema, name), ()


def _make_shared_row(kind: int, oid: int, word: str, name: str) -> IdentityRow:
    return kind, oid, 0, (word, None, quote_identifier(name), quote_identifier(name)), (name,), ()


def _type(catalog: Catalog, oid: int, schema: str, name: str) -> IdentityRow:
    shown = type_identity(catalog, oid)
    return derived_oids.PG_TYPE, oid, 0, ("type", schema, quote_identifier(name), shown), (shown,), ()


def _code(catalog: Catalog, oid: int, kind: str, schema: str, name: str, arguments: Iterable[int]) -> IdentityRow:
    word = {"a": "aggregate", "p": "procedure"}.get(kind, "function")
    shown = tuple(type_identity(catalog, argument) for argument in arguments)
    identity = f"{_plain(schema, name)}({','.join(shown)})"
    return derived_oids.PG_PROC, oid, 0, (word, schema, None, identity), (schema, name), shown


def _kind(item: object) -> str:
    if isinstance(item, Table):
        return "foreign table" if item.server else "materialized view" if item.query is not None else "table"
    kinds: dict[type, str] = {View: "view", Index: "index", Sequence: "sequence", Composite: "composite type"}
    return next((word for kind, word in kinds.items() if isinstance(item, kind)), "table")


def _columns(oid: int, word: str, schema: str, name: str, columns: Iterable[tuple[int, str]]) -> Iterator[IdentityRow]:
    for number, column in columns:
        parts = (f"{word} column", schema, quote_identifier(name), _plain(schema, name, column))
        yield derived_oids.PG_CLASS, oid, number, parts, (schema, name, column), ()


def _on(kind: int, oid: int, word: str, schema: str, relation: str, name: str) -> IdentityRow:
    """Returns the row of a constraint, a rule or a policy of a relation."""
    shown = f"{quote_identifier(name)} on {_plain(schema, relation)}"
    within = schema if word == "table constraint" else None
    return kind, oid, 0, (word, within, None, shown), (schema, relation, name), ()


def _of_relation(catalog: Catalog, item: Table | View | Sequence | Index) -> Iterator[IdentityRow]:
    schema, name, word = _schema(catalog, item.schema), item.name, _kind(item)
    yield _in_schema(derived_oids.PG_CLASS, item.oid, word, schema, name)
    if isinstance(item, Index):
        return  # the names of an index's columns depend on the session
    columns = SEQUENCE_COLUMNS if isinstance(item, Sequence) else item.columns
    yield from _columns(item.oid, word, schema, name, ((column.number, column.name) for column in columns))
    if isinstance(item, Sequence):
        return
    yield _type(catalog, derived_oids.row_type(item.oid), schema, name)
    yield _type(catalog, derived_oids.row_array_type(item.oid), schema, f"_{name}"[:63])
    if isinstance(item, View) or item.query is not None:
        yield _on(derived_oids.PG_REWRITE, derived_oids.rule(item.oid), "rule", schema, name, "_RETURN")
    for column in item.columns:
        if column.default is not None or column.generated is not None:
            parts = ("default value", None, None, f"for {_plain(schema, name, column.name)}")
            oid = derived_oids.default_number(item.oid, column.number)
            yield derived_oids.PG_ATTRDEF, oid, 0, parts, (schema, name, column.name), ()
    for trigger in item.triggers:
        yield _on(derived_oids.PG_TRIGGER, trigger.oid, "trigger", schema, name, trigger.name)
    for rule in item.rules:
        yield _on(derived_oids.PG_REWRITE, rule.oid, "rule", schema, name, rule.name)
    if isinstance(item, View):
        return
    for constraint in item.constraints:
        if constraint.kind in "pucfx":
            yield _on(derived_oids.PG_CONSTRAINT, constraint.oid, "table constraint", schema, name, constraint.name)
    for policy in item.policies:
        yield _on(derived_oids.PG_POLICY, policy.oid, "policy", schema, name, policy.name)


def _of_type(catalog: Catalog, item: UserType) -> Iterator[IdentityRow]:
    schema = _schema(catalog, item.schema)
    for oid, entry in catalog.user_types.items():
        if entry.definition is not None and cast(Any, entry.definition).oid == item.oid:
            yield _type(catalog, oid, schema, entry.row.name)
    if isinstance(item, Composite):
        yield _in_schema(derived_oids.PG_CLASS, item.relation, "composite type", schema, item.name)
        columns = ((column.number, column.name) for column in item.columns)
        yield from _columns(item.relation, "composite type", schema, item.name, columns)
    for check in item.checks if isinstance(item, Domain) else ():
        shown = type_identity(catalog, item.oid)
        parts = ("domain constraint", schema, None, f"{quote_identifier(check.name)} on {shown}")
        yield derived_oids.PG_CONSTRAINT, check.oid, 0, parts, (shown,), (check.name,)


def _of_database(catalog: Catalog, item: Database) -> Iterator[IdentityRow]:
    yield _make_shared_row(derived_oids.PG_DATABASE, item.oid, "database", item.name)
    words = {"table": ("r", "tables"), "sequence": ("S", "sequences"), "function": ("f", "functions"),
             "schema": ("n", "schemas"), "type": ("T", "types")}  # fmt: skip
    for acl in item.default_acls if item.oid == catalog.database else ():
        role = catalog.get(acl.role)
        assert isinstance(role, Role)
        letter, word = words[acl.kind]
        within = (catalog.schema_name(acl.schema),) if acl.schema else ()
        place = "".join(f" in schema {quote_identifier(name)}" for name in within)
        shown = f"for role {quote_identifier(role.name)}{place} on {word}"
        yield 826, acl.oid, 0, ("default acl", None, None, shown), (role.name, *within), (letter,)


def _of_extension(catalog: Catalog, item: Extension) -> Iterator[IdentityRow]:
    yield _make_shared_row(derived_oids.PG_EXTENSION, item.oid, "extension", item.name)
    schema = _schema(catalog, item.schema)
    for oid, entry in types_of(item, "").items():
        yield _type(catalog, oid, schema, entry.row.name)
    for line in own_functions(item):
        yield _code(catalog, int(line[0] or 0), line[3] or "f", schema, line[1] or "", _oids(line[11]))
    for name in _FROM_FILES:
        yield from _from_file(catalog, name, own_rows(item, name), schema)


def _of_operator(catalog: Catalog, item: UserOperator) -> IdentityRow:
    sides = (item.left, item.right)
    shown = tuple(type_identity(catalog, side) for side in sides if side)
    written = ",".join(type_identity(catalog, side) if side else "NONE" for side in sides)
    schema = _schema(catalog, item.schema)
    parts = ("operator", schema, None, f"{quote_identifier(schema)}.{item.name}({written})")
    return derived_oids.PG_OPERATOR, item.oid, 0, parts, (schema, item.name), shown


def _of_cast(catalog: Catalog, item: UserCast) -> IdentityRow:
    source, target = type_identity(catalog, item.source), type_identity(catalog, item.target)
    parts = ("cast", None, None, f"({source} AS {target})")
    return derived_oids.PG_CAST, item.oid, 0, parts, (source,), (target,)


def _of_user_mapping(catalog: Catalog, item: UserMapping) -> IdentityRow:
    role, server = catalog.get(item.role), catalog.get(item.server)
    assert isinstance(server, ForeignServer)
    name = role.name if isinstance(role, Role) else "public"
    parts = ("user mapping", None, None, f"{quote_identifier(name)} on server {quote_identifier(server.name)}")
    return derived_oids.PG_USER_MAPPING, item.oid, 0, parts, (name,), (server.name,)


def identity_rows(catalog: Catalog, item: Any) -> Iterator[IdentityRow]:
    """Returns the rows of an object of the schema, and of its parts."""
    if isinstance(item, (Table, View, Sequence, Index)):
        return _of_relation(catalog, item)
    if isinstance(item, USER_TYPES):
        return _of_type(catalog, item)
    if isinstance(item, Database):
        return _of_database(catalog, item)
    if isinstance(item, Extension):
        return _of_extension(catalog, item)
    if isinstance(item, Routine):
        schema = _schema(catalog, item.schema)
        return iter((_code(catalog, item.oid, item.kind, schema, item.name, item.signature),))
    if isinstance(item, TextSearchConfiguration | TextSearchDictionary):
        schema = _schema(catalog, item.schema)
        kind = 3602 if isinstance(item, TextSearchConfiguration) else 3600
        return iter((_in_schema(kind, item.oid, MISSING[kind], schema, item.name),))
    if isinstance(item, StatisticsObject):
        schema = _schema(catalog, item.schema)
        return iter((_in_schema(derived_oids.PG_STATISTIC_EXT, item.oid, "statistics object", schema, item.name),))
    if isinstance(item, UserMapping):
        return iter((_of_user_mapping(catalog, item),))
    if isinstance(item, Collation):
        schema = _schema(catalog, item.schema)
        return iter((_in_schema(derived_oids.PG_COLLATION, item.oid, "collation", schema, item.name),))
    if isinstance(item, UserOperator):
        return iter((_of_operator(catalog, item),))
    if isinstance(item, UserCast):
        return iter((_of_cast(catalog, item),))
    if isinstance(item, EventTrigger):
        return iter((_make_shared_row(derived_oids.PG_EVENT_TRIGGER, item.oid, "event trigger", item.name),))
    if isinstance(item, Parameter):
        parts = ("parameter ACL", None, None, quote_identifier(item.name))
        return iter(((6243, item.oid, 0, parts, (item.name,), ()),))
    kinds = {Schema: (derived_oids.PG_NAMESPACE, "schema"), Role: (derived_oids.PG_AUTHID, "role"),
             Tablespace: (derived_oids.PG_TABLESPACE, "tablespace"),
             ForeignServer: (derived_oids.PG_FOREIGN_SERVER, "server"),
             ForeignWrapper: (derived_oids.PG_FOREIGN_DATA_WRAPPER, "foreign-data wrapper")}  # fmt: skip
    return iter((_make_shared_row(kinds[type(item)][0], item.oid, kinds[type(item)][1], item.name),))


_KINDS = (Table, View, Index, Sequence, *USER_TYPES, Routine, Collation, Extension, Schema, Database, Role, Tablespace,
          Parameter, ForeignServer, ForeignWrapper, UserMapping, UserOperator, UserCast, EventTrigger,
          TextSearchConfiguration, TextSearchDictionary, StatisticsObject)  # fmt: skip
_items = Items(_KINDS, lambda catalog, item: (item, tuple(identity_rows(catalog, item))))


def _as_columns(rows: list[IdentityRow]) -> Columns:
    return {
        "class": [row[0] for row in rows],
        "oid": [row[1] for row in rows],
        "number": [row[2] for row in rows],
        **{name: [row[3][place] for row in rows] for place, name in enumerate(("type", "schema", "name", "identity"))},
        "names": [Array.of(row[4]) for row in rows],
        "arguments": [Array.of(row[5]) for row in rows],
    }


@content(internal.IDENTITIES, "catalog", _items)
def _make(items: list[Item], _: Surroundings) -> Columns:
    return _as_columns([row for _, rows in items for row in rows])


@content(internal.IDENTITIES, "session", indexes)
def _of_indexes(items: list[Item], surroundings: Surroundings) -> Columns:
    """Rows of columns of indexes. Names of expressions depend on the session."""
    rows: list[IdentityRow] = []
    for index, table in items:
        schema = _schema(surroundings.catalog, index.schema)
        columns = ((column.number, column.name) for column in index_columns(surroundings, index, table))
        rows += _columns(index.oid, "index", schema, index.name, columns)
    return _as_columns(rows)


# ---- rows of built-in objects ---------------------------------------------------------------------------------------


def _oids(text: str | None) -> tuple[int, ...]:
    return tuple(map(int, text.split())) if text else ()


_Line = dict[str, str | None]


@cache
def _methods() -> dict[str, str]:
    return {row["oid"] or "": row["amname"] or "" for row in read_rows("pg_am")}


@cache
def _families() -> dict[str, tuple[str, str]]:
    """Returns the names of operator families and of their access methods, by OID."""
    methods, found = _methods(), {}
    for file in ("pg_opfamily", "extensions/pg_opfamily"):
        for row in read_rows(file):
            found[row["oid"] or ""] = (row["opfname"] or "", methods[row["opfmethod"] or ""])
    return found


def _operator(catalog: Catalog, row: _Line, schema: str) -> IdentityRow:
    sides = [int(row[side] or 0) for side in ("oprleft", "oprright")]
    shown = tuple(type_identity(catalog, side) for side in sides if side)
    written = ",".join(type_identity(catalog, side) if side else "NONE" for side in sides)
    name = row["oprname"] or ""
    parts = ("operator", schema, None, f"{quote_identifier(schema)}.{name}({written})")
    return derived_oids.PG_OPERATOR, int(row["oid"] or 0), 0, parts, (schema, name), shown


def _cast(catalog: Catalog, row: _Line, schema: str) -> IdentityRow:
    source, target = (type_identity(catalog, int(row[side] or 0)) for side in ("castsource", "casttarget"))
    parts = ("cast", None, None, f"({source} AS {target})")
    return derived_oids.PG_CAST, int(row["oid"] or 0), 0, parts, (source,), (target,)


def _of_method(kind: int, word: str, prefix: str) -> Callable[[Catalog, _Line, str], IdentityRow]:
    """Returns the maker of rows of operator classes or families."""

    def make(catalog: Catalog, row: _Line, schema: str) -> IdentityRow:
        name, method = row[f"{prefix}name"] or "", _methods()[row[f"{prefix}method"] or ""]
        parts = (word, schema, quote_identifier(name), f"{_plain(schema, name)} USING {quote_identifier(method)}")
        return kind, int(row["oid"] or 0), 0, parts, (method, schema, name), ()

    return make


def _in_family(kind: int, word: str, prefix: str, number: str) -> Callable[[Catalog, _Line, str], IdentityRow]:
    """Returns the maker of rows of operators or functions of families."""

    def make(catalog: Catalog, row: _Line, schema: str) -> IdentityRow:
        name, method = _families()[row[f"{prefix}family"] or ""]
        sides = tuple(type_identity(catalog, int(row[f"{prefix}{side}type"] or 0)) for side in ("left", "right"))
        place = f"{_plain(schema, name)} USING {quote_identifier(method)}"
        shown = f"{word} {row[number]} ({', '.join(sides)}) of {place}"
        names = (method, schema, name, row[number] or "")
        return kind, int(row["oid"] or 0), 0, (f"{word} of access method", None, None, shown), names, sides

    return make


_FROM_FILES: dict[str, Callable[[Catalog, _Line, str], IdentityRow]] = {
    "pg_operator": _operator,
    "pg_cast": _cast,
    "pg_opclass": _of_method(derived_oids.PG_OPCLASS, "operator class", "opc"),
    "pg_opfamily": _of_method(derived_oids.PG_OPFAMILY, "operator family", "opf"),
    "pg_amop": _in_family(2602, "operator", "amop", "amopstrategy"),
    "pg_amproc": _in_family(2603, "function", "amproc", "amprocnum"),
}


def _from_file(catalog: Catalog, name: str, rows: Iterable[_Line], schema: str) -> Iterator[IdentityRow]:
    return (_FROM_FILES[name](catalog, row, schema) for row in rows)


_NOBODYS, _HERE = Catalog(), "pg_catalog"
_Source = Mapping[int, Any]  # by OID: the source of a built-in object's rows


def _relations() -> _Source:
    return {relation.oid: relation for relation in system_relations().values()}


def _relation_rows(relation: VirtualTable | View) -> Iterator[IdentityRow]:
    schema = "information_schema" if relation.schema != 11 else _HERE
    word = "view" if isinstance(relation, View) or relation.kind == "v" else "table"
    yield _in_schema(derived_oids.PG_CLASS, relation.oid, word, schema, relation.name)
    yield from _columns(relation.oid, word, schema, relation.name, ((c.number, c.name) for c in relation.columns))


def _rules() -> _Source:
    return {
        derived_oids.rule(relation.oid): relation
        for relation in system_relations().values()
        if isinstance(relation, View) or relation.kind == "v"
    }


def _rule_rows(relation: VirtualTable | View) -> Iterator[IdentityRow]:
    schema = "information_schema" if relation.schema != 11 else _HERE
    yield _on(derived_oids.PG_REWRITE, derived_oids.rule(relation.oid), "rule", schema, relation.name, "_RETURN")


def _function_rows(line: list[str | None]) -> Iterator[IdentityRow]:
    yield _code(_NOBODYS, int(line[0] or 0), line[3] or "f", _HERE, line[1] or "", _oids(line[11]))


def _of_file(name: str) -> tuple[Callable[[], _Source], Callable[[Any], Iterator[IdentityRow]]]:
    return (
        lambda: {int(row["oid"] or 0): row for row in read_rows(name)},
        lambda row: iter((_FROM_FILES[name](_NOBODYS, row, _HERE),)),
    )


def _of_names(
    names: Callable[[], Mapping[int, str]], kind: int, word: str, shared: bool = False
) -> tuple[Callable[[], _Source], Callable[[Any], Iterator[IdentityRow]]]:
    def rows(pair: tuple[int, str]) -> Iterator[IdentityRow]:
        oid, name = pair
        yield _make_shared_row(kind, oid, word, name) if shared else _in_schema(kind, oid, word, _HERE, name)

    return lambda: {oid: (oid, name) for oid, name in names().items()}, rows


def _name_lookup(file: str, key: str) -> Callable[[], Mapping[int, str]]:
    return lambda: {int(row["oid"] or 0): row[key] or "" for row in read_rows(file)}


_BUILT_IN: dict[int, tuple[Callable[[], _Source], Callable[[Any], Iterator[IdentityRow]]]] = {
    derived_oids.PG_CLASS: (_relations, _relation_rows),
    derived_oids.PG_REWRITE: (_rules, _rule_rows),
    derived_oids.PG_TYPE: (
        lambda: {row.oid: row for row in types.pg_type_rows},
        lambda row: iter((_type(_NOBODYS, row.oid, _HERE, row.name),)),
    ),
    derived_oids.PG_PROC: (lambda: {int(line[0] or 0): line for line in read_fields("pg_proc")}, _function_rows),
    derived_oids.PG_OPERATOR: _of_file("pg_operator"),
    derived_oids.PG_CAST: _of_file("pg_cast"),
    derived_oids.PG_OPCLASS: _of_file("pg_opclass"),
    derived_oids.PG_OPFAMILY: _of_file("pg_opfamily"),
    2602: _of_file("pg_amop"),
    2603: _of_file("pg_amproc"),
    2601: _of_names(_name_lookup("pg_am", "amname"), 2601, "access method", shared=True),
    2612: _of_names(_name_lookup("pg_language", "lanname"), 2612, "language", shared=True),
    2607: _of_names(_name_lookup("pg_conversion", "conname"), 2607, "conversion"),
    3602: _of_names(lambda: CONFIGURATIONS, 3602, "text search configuration"),
    3600: _of_names(lambda: DICTIONARIES, 3600, "text search dictionary"),
    3601: _of_names(lambda: {DEFAULT_PARSER: "default"}, 3601, "text search parser"),
    3764: _of_names(_name_lookup("pg_ts_template", "tmplname"), 3764, "text search template"),
    derived_oids.PG_COLLATION: _of_names(
        _name_lookup("pg_collation", "collname"), derived_oids.PG_COLLATION, "collation"
    ),
}
"""By catalog: the function for its built-in objects, and the function for the rows of one object."""


@cache
def _sources(kind: int) -> _Source:
    return _BUILT_IN[kind][0]()


def _built_in_object(kind: int, oid: int) -> list[IdentityRow]:
    """Returns the rows of one built-in object, because all rows together take a tenth of a second. Most objects are
    functions, which have a direct look-up."""
    if kind == derived_oids.PG_PROC:
        return _built_in_function(oid)
    source = _sources(kind).get(oid) if kind in _BUILT_IN else None
    return [] if source is None else list(_BUILT_IN[kind][1](source))


def _built_in_function(oid: int) -> list[IdentityRow]:
    if oid >= FIRST_ADDED_OID or oid in registry.OWN_OIDS:
        return []
    try:
        found = registry.function(oid)
    except KeyError:
        return []
    return [_code(_NOBODYS, oid, found.kind, _HERE, found.name, found.argument_types)]


def _look_up(column: str, value: object) -> list[tuple[Any, ...]]:
    """Returns no rows: callers know the catalog of an object, and search its built-in objects first."""
    return []


@cache
def built_in_identities(kind: int) -> dict[tuple[str, str], int]:
    """Returns the OIDs of a catalog's built-in objects by type and identity, without columns."""
    if kind not in _BUILT_IN:
        return {}
    rows = (row for source in _sources(kind).values() for row in _BUILT_IN[kind][1](source))
    return {(row[3][0], row[3][3]): row[1] for row in rows if row[2] == 0}


@content(internal.IDENTITIES, "fixed", find=_look_up)
def _built_in(_: list[Item], __: Surroundings) -> Columns:
    return _as_columns(
        [row for kind in _BUILT_IN for source in _sources(kind).values() for row in _BUILT_IN[kind][1](source)]
    )


# ---- the functions --------------------------------------------------------------------------------------------------


def _flat(row: IdentityRow) -> tuple[Any, ...]:
    return (*row[:3], *row[3], Array.of(row[4]), Array.of(row[5]))


def identity_of(call: CallContext, kind: int, oid: int, number: int) -> tuple[Any, ...]:
    """Returns the row of an address; for a missing object, a row with only its type. Raises XX000 for an invalid
    address."""
    if kind not in MISSING:
        raise SqlError("XX000", f"unrecognized object class: {kind}")
    if number and kind != derived_oids.PG_CLASS:
        raise SqlError("XX000", f"invalid non-zero objectSubId for object class {kind}")
    if kind == LARGE_OBJECTS and list(find(call, system_table("pg_largeobject_metadata"), "oid", oid)):
        return kind, oid, 0, "large object", None, None, str(oid), Array.of((str(oid),)), Array.of(())
    rows = [_flat(row) for row in _built_in_object(kind, oid)] or list(find(call, internal.IDENTITIES, "oid", oid))
    for row in rows:
        if row[0] == kind and row[2] == number:
            return row
    word = MISSING[kind]
    if number:
        word = next((row[3] for row in rows if row[0] == kind and row[2] == 0), word) + " column"
    return kind, oid, number, word, None, None, None, None, None


@implements("pg_identify_object", needs_session=True)
def _identify(call: CallContext, kind: int | None, oid: int | None, number: int | None) -> list[tuple[Any, ...]]:
    if kind is None or oid is None or number is None:
        return [(None,) * 4]
    return [identity_of(call, kind, oid, number)[3:7]]


@implements("pg_identify_object_as_address", needs_session=True)
def _identify_address(
    call: CallContext, kind: int | None, oid: int | None, number: int | None
) -> list[tuple[Any, ...]]:
    if kind is None or oid is None or number is None:
        return [(None,) * 3]
    row = identity_of(call, kind, oid, number)
    return [(row[3], row[7], row[8])]


_PLACES = {column.name: f"l.c{column.number}" for column in internal.IDENTITIES.columns}


def _sql(fields: tuple[str, ...]) -> Callable[[list[str]], str]:
    """Returns the same as DuckDB SQL: a list of one row."""
    table = f"{{v{internal.IDENTITIES.oid}}}"
    large = f"{{v{system_table('pg_largeobject_metadata').oid}}}"
    nothing = {name: "NULL::VARCHAR[]" if name in ("names", "arguments") else "NULL::VARCHAR" for name in fields}

    def row(values: dict[str, str]) -> str:
        return "{" + ", ".join(f"'f{n}': {values[name]}" for n, name in enumerate(fields, 1)) + "}"

    def sql(arguments: list[str]) -> str:
        kind, oid, number = ("a.c1", "a.c2", "a.c3")
        at = f"FROM {table} AS l WHERE {_PLACES['class']} = {kind} AND {_PLACES['oid']} = {oid}"
        words = " ".join(f"WHEN {number} THEN '{word}'" for number, word in MISSING.items())
        unknown = sql_error_call_of("XX000", f"'unrecognized object class: ' || {kind}")
        above = f"coalesce((SELECT {_PLACES['type']} {at} AND {_PLACES['number']} = 0), 'relation') || ' column'"
        word = f"CASE WHEN {number} <> 0 THEN {above} ELSE CASE {kind} {words} ELSE {unknown} END END"
        lost = sql_error_call_of("XX000", f"'invalid non-zero objectSubId for object class ' || {kind}")
        blob = {"type": "'large object'", "identity": f"{oid}::VARCHAR", "names": f"[{oid}::VARCHAR]",
                "arguments": "[]::VARCHAR[]"}  # fmt: skip
        here = f"(SELECT {row(_PLACES)} {at} AND {_PLACES['number']} = {number})"
        missing = row(nothing | {"type": word})
        is_large = f"(SELECT count(*) > 0 FROM {large} AS b WHERE b.c1 = {oid})"
        value = (
            f"CASE WHEN {kind} IS NULL OR {oid} IS NULL OR {number} IS NULL THEN {row(nothing)} "
            f"WHEN {number} <> 0 AND {kind} <> {derived_oids.PG_CLASS} THEN {lost} "
            f"WHEN {kind} = {LARGE_OBJECTS} AND {is_large} THEN {row(nothing | blob)} "
            f"ELSE coalesce({here}, {missing}) END"
        )
        given = ", ".join(f"{value} AS c{place}" for place, value in enumerate(arguments, 1))
        return f"(SELECT [{value}] FROM (SELECT {given}) AS a)"

    return sql


for _name, _fields in (
    ("pg_identify_object", ("type", "schema", "name", "identity")),
    ("pg_identify_object_as_address", ("type", "names", "arguments")),
):
    register(_name, _sql(_fields), internal.IDENTITIES, system_table("pg_largeobject_metadata"))
