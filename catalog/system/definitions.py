"""The texts of definitions: pg_get_constraintdef, pg_get_indexdef, and the names of the reg types.

`pretty`, which psql uses: fewer parentheses, and names without schema if the search path finds them. The texts follow
PostgreSQL's ruleutils.c and regproc.c.
"""

from __future__ import annotations

from collections.abc import Mapping

from catalog import collations, types
from catalog.catalog import Catalog
from catalog.extensions import extension_with
from catalog.functions.registry import operator
from catalog.identifiers import quote_identifier, quote_literal
from catalog.operator_classes import operator_class
from catalog.schema import Constraint, Index, IndexColumn, Relation, Sequence, Table, View
from catalog.system import derived_oids
from catalog.system.content import Surroundings
from catalog.system.objects import index_columns, qualified_name
from catalog.system.relations import system_relations

_ACTIONS = {"a": "", "r": "RESTRICT", "c": "CASCADE", "n": "SET NULL", "d": "SET DEFAULT"}


# ---- names ----------------------------------------------------------------------------------------------------------


def is_visible(catalog: Catalog, path: tuple[int, ...], relation: Relation) -> bool:
    """Whether the search path finds the relation by its unqualified name (pg_table_is_visible)."""
    system = system_relations()
    for schema in path:
        if schema == relation.schema:
            return True
        if (schema, relation.name) in catalog.relations or (schema, relation.name) in system:
            return False
    return False


def relation_name(catalog: Catalog, path: tuple[int, ...], relation: Relation) -> str:
    """Returns a relation's name as regclass shows it: with its schema unless it is visible."""
    if is_visible(catalog, path, relation):
        return quote_identifier(relation.name)
    return qualified_name(catalog, relation)


def find_relation(catalog: Catalog, oid: int) -> Relation | None:
    """Returns the relation with this OID, user-defined or built-in; None if there is none."""
    found = catalog.objects.get(oid)
    if isinstance(found, Table | View | Index | Sequence):
        return found
    return system_relations_by_oid().get(oid)


_BY_OID: dict[int, Relation] = {}


def system_relations_by_oid() -> Mapping[int, Relation]:
    """Returns all relations of pg_catalog and information_schema, by OID."""
    if not _BY_OID:
        _BY_OID.update({relation.oid: relation for relation in system_relations().values()})
    return _BY_OID


def type_name(catalog: Catalog, path: tuple[int, ...], oid: int, typmod: int | None = None) -> str:
    """format_type(oid, typmod), also for row types."""
    relation_oid = derived_oids.relation_of_type(catalog, oid)
    if relation_oid is None:
        return types.format_type(oid, typmod)
    relation = catalog.objects[relation_oid]
    assert isinstance(relation, Table | View)
    return relation_name(catalog, path, relation) + ("[]" if oid >= derived_oids.ARRAY_TYPES else "")


# ---- constraints ----------------------------------------------------------------------------------------------------


def constraint_definition(surroundings: Surroundings, table: Table, constraint: Constraint, pretty: bool) -> str:
    """pg_get_constraintdef(oid, pretty)."""
    text = {"p": _key, "u": _key, "f": _foreign, "c": _check, "x": _exclusion}[constraint.kind](
        surroundings, table, constraint, pretty
    )
    if constraint.deferrable:
        text += " DEFERRABLE"
    if constraint.initially_deferred:
        text += " INITIALLY DEFERRED"
    if constraint.kind == "c" and constraint.no_inherit:
        text += " NO INHERIT"
    return text if constraint.validated else text + " NOT VALID"


def domain_check(check: Constraint, pretty: bool) -> str:
    """pg_get_constraintdef(oid, pretty) for a domain's CHECK constraint."""
    text = f"CHECK ({_bare(check)})" if pretty else f"CHECK (({_bare(check)}))"
    return text if check.validated else text + " NOT VALID"


def _bare(check: Constraint) -> str:
    """Returns a condition without its outer parentheses."""
    text = check.check or ""
    depth = 0
    for place, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0 and place < len(text) - 1:
            return text
    return text[1:-1] if text.startswith("(") and text.endswith(")") else text


def _names(table: Table, numbers: tuple[int, ...]) -> str:
    return ", ".join(quote_identifier(table.column_by_number(number).name) for number in numbers)


def _key(surroundings: Surroundings, table: Table, constraint: Constraint, pretty: bool) -> str:
    text = "PRIMARY KEY" if constraint.kind == "p" else "UNIQUE"
    index = surroundings.catalog.objects.get(constraint.index or 0)
    if isinstance(index, Index) and index.nulls_not_distinct:
        text += " NULLS NOT DISTINCT"
    text += f" ({_names(table, constraint.columns)})"
    if isinstance(index, Index) and index.include:
        text += f" INCLUDE ({_names(table, index.include)})"
    return text


def _exclusion(surroundings: Surroundings, table: Table, constraint: Constraint, pretty: bool) -> str:
    index = surroundings.catalog.index(constraint.index or 0)
    columns = ", ".join(
        f"{_index_column(surroundings, table, part, pretty)} WITH {operator(oid).name}"
        for part, oid in zip(index.columns, constraint.operators, strict=True)
    )
    text = f"EXCLUDE USING {index.method} ({columns})"
    if index.include:
        text += f" INCLUDE ({_names(table, index.include)})"
    if index.predicate is not None:
        text += f" WHERE ({surroundings.expression(index.predicate, table, pretty)})"
    return text


def _foreign(surroundings: Surroundings, table: Table, constraint: Constraint, pretty: bool) -> str:
    catalog = surroundings.catalog
    target = catalog.table(constraint.references or 0)
    name = relation_name(catalog, surroundings.path, target)
    text = (
        f"FOREIGN KEY ({_names(table, constraint.columns)}) REFERENCES {name}"
        f"({_names(target, constraint.referenced_columns)})"
    )
    if constraint.match == "f":
        text += " MATCH FULL"
    if action := _ACTIONS[constraint.on_update]:
        text += f" ON UPDATE {action}"
    if action := _ACTIONS[constraint.on_delete]:
        text += f" ON DELETE {action}"
    return text


def _check(surroundings: Surroundings, table: Table, constraint: Constraint, pretty: bool) -> str:
    return f"CHECK ({surroundings.expression(constraint.check or '', table, pretty)})"


# ---- indexes --------------------------------------------------------------------------------------------------------


def index_definition(surroundings: Surroundings, index: Index, table: Table, pretty: bool) -> str:
    """pg_get_indexdef(oid): the CREATE INDEX statement."""
    catalog = surroundings.catalog
    name = relation_name(catalog, surroundings.path, table) if pretty else qualified_name(catalog, table)
    columns = ", ".join(_index_column(surroundings, table, part, pretty) for part in index.columns)
    unique = "UNIQUE " if index.is_unique else ""
    only = "ONLY " if table.partitioning is not None else ""
    text = f"CREATE {unique}INDEX {quote_identifier(index.name)} ON {only}{name} USING {index.method} ({columns})"
    if index.include:
        text += f" INCLUDE ({_names(table, index.include)})"
    if index.nulls_not_distinct:
        text += " NULLS NOT DISTINCT"
    if index.options:
        text += f" WITH ({', '.join(f'{quote_identifier(name)}={_option(value)}' for name, value in index.options)})"
    if index.predicate is not None:
        text += f" WHERE {surroundings.expression(index.predicate, table, pretty)}"
    return text


def _index_column(surroundings: Surroundings, table: Table, part: IndexColumn, pretty: bool) -> str:
    text = _bare_index_column(surroundings, table, part, pretty)
    if part.collation and part.collation != _own_collation(table, part):
        text += f" COLLATE {collations.show_name(surroundings.catalog, surroundings.path, part.collation)}"
    if part.operator_class:
        text += f" {_class_name(surroundings, part.operator_class)}"
    if part.descending:
        text += " DESC" if part.nulls_first else " DESC NULLS LAST"
    elif part.nulls_first:
        text += " NULLS FIRST"
    return text


def _class_name(surroundings: Surroundings, oid: int) -> str:
    name = quote_identifier(operator_class(oid).name)
    extension = extension_with(surroundings.catalog, oid)
    if extension is None or extension.schema in surroundings.path:
        return name
    return f"{quote_identifier(surroundings.catalog.schema_name(extension.schema))}.{name}"


def _option(value: str) -> str:
    """flatten_reloptions: quotes a value that is not an identifier."""
    return value if quote_identifier(value) == value else quote_literal(value)


def _own_collation(table: Table, part: IndexColumn) -> int:
    column = table.column_by_number(part.number) if part.number else None
    row = types.type_row(column.type.oid if column else part.type.oid)
    return (column.collation if column else part.derived) or (row.collation if row else 0)


def _bare_index_column(surroundings: Surroundings, table: Table, part: IndexColumn, pretty: bool) -> str:
    if part.number:
        return quote_identifier(table.column_by_number(part.number).name)
    text = surroundings.expression(part.expression or "", table, pretty)
    return text if surroundings.is_call(part.expression or "", table) else f"({text})"


def index_column_definition(
    surroundings: Surroundings, index: Index, table: Table, number: int, pretty: bool
) -> str | None:
    """pg_get_indexdef(oid, number, pretty): the column's name or expression, without its order."""
    if not 1 <= number <= len(index.columns) + len(index.include):
        return ""
    if number > len(index.columns):
        return quote_identifier(index_columns(surroundings, index, table)[number - 1].name)
    part = index.columns[number - 1]
    if part.number:
        return quote_identifier(table.column_by_number(part.number).name)
    return _bare_index_column(surroundings, table, part, pretty)
