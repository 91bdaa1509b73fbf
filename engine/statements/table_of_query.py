"""The definition of the table of CREATE TABLE AS, SELECT INTO and materialized views, from a query's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.catalog import Catalog
from catalog.collations import collation, of_type
from catalog.errors import SqlError
from catalog.types import format_type, oids
from catalog.types.base import TypeRef
from engine.execute.context import Field
from engine.session.prepared import Prepared
from engine.sql import ast
from engine.sql.analyze.derived_collations import no_collation
from engine.sql.parser import parse_type_name
from engine.statements.rows_plan import RowsPlan

if TYPE_CHECKING:
    pass


def _collation_name(catalog: Catalog, field: Field, oid: int) -> tuple[str, ...]:
    """The COLLATE clause of a column: none if its type implies it. Raises 42P22."""
    typed = of_type(field.type.oid)
    if typed and not oid:
        raise no_collation(field.name, field.type)
    if not typed or oid == typed:
        return ()
    item = collation(catalog, oid)
    return catalog.schema_name(item.schema), item.name


def definition(created: ast.CreateTableAsStmt, source: Prepared) -> ast.CreateStmt:
    """The table that CREATE TABLE AS makes of a query's columns."""
    fields = source.fields or ()
    catalog = source.catalog
    plan = source.plan
    collations = plan.analyzed.outputs if isinstance(plan, RowsPlan) else ()
    if len(created.columns) > len(fields):
        raise SqlError("42601", "too many column names were specified")
    columns = []
    for number, field in enumerate(fields):
        name = created.columns[number] if number < len(created.columns) else field.name
        named = _collation_name(catalog, field, collations[number]) if collations else ()
        columns.append(ast.ColumnDef(name, type_name(field.type), (), named))
    return ast.CreateStmt(
        created.relation,
        tuple(columns),
        created.persistence,
        created.if_not_exists,
        options=created.options,
        on_commit=created.on_commit,
        tablespace=created.tablespace,
    )


def type_name(type_: TypeRef) -> ast.TypeName:
    """The name of a type in a definition, so that CREATE TABLE AS can use CREATE TABLE."""
    if type_.oid in oids.UNDECLARED:
        raise SqlError("42P16", f"column has pseudo-type {format_type(type_.oid)}")
    return parse_type_name(format_type(type_.declared, -1 if type_.domain else type_.typmod))
