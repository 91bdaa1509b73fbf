"""EXCLUDE constraints (DefineIndex, ComputeIndexAttrs): their indexes and operators.

The operators of an access method are those in PostgreSQL's pg_amop that are their own commutators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.functions.base import Operator
from catalog.operator_classes import METHODS, class_of, family_name
from catalog.schema import Constraint, Index, IndexColumn
from catalog.types import format_type
from engine.ddl import names
from engine.ddl.expressions import stored_predicate
from engine.ddl.index_columns import index_column, second_part, with_method
from engine.ddl.tablespaces import place_of_index
from engine.sql import ast
from engine.sql.analyze.errors import fail
from engine.sql.analyze.resolve import operator_for

if TYPE_CHECKING:
    from engine.ddl.context import DdlContext
    from engine.ddl.tables import TableBuilder

_RANGES, _AREAS, _POINTS, _NETWORKS = ("&&", "-|-", "="), ("&&", "~="), ("<->", "~="), ("&&", "<>", "=")
_OF_BTREE_GIST = ("=", "<>")
_COMMUTATIVE = {
    "range_ops": _RANGES, "multirange_ops": _RANGES, "box_ops": _AREAS, "poly_ops": _AREAS, "circle_ops": _AREAS,
    "point_ops": _POINTS, "quad_point_ops": _POINTS, "kd_point_ops": _POINTS, "inet_ops": _NETWORKS,
    "gist_trgm_ops": ("%", "="),
}  # fmt: skip


def exclusion(builder: TableBuilder, constraint: ast.ConstraintDef) -> Constraint:
    """The constraint. Its index is added to the builder. Raises 42809 for an operator that does not fit, 42883, 42704,
    and 0A000 for an access method without support, and on partitioned tables."""
    context, table = builder.context, builder.table
    if table.partitioning is not None:
        fail("0A000", "exclusion constraints are not supported on partitioned tables", constraint)
    for element in constraint.elements:
        if element.name is not None and table.column(element.name) is None:
            raise SqlError("42703", f'column "{element.name}" named in key does not exist')
    statement = ast.IndexStmt(
        None,
        ast.RangeVar(None, None, table.name),
        constraint.elements,
        method=constraint.method,
        include=constraint.include,
    )
    statement = with_method(context, statement)
    if statement.method not in ("btree", "hash", "gist", "spgist"):
        raise SqlError("0A000", f'access method "{statement.method}" does not support exclusion constraints')
    columns = tuple(index_column(context, table, element, statement.method) for element in statement.elements)
    found = tuple(
        _operator(context, statement.method, column, written)
        for column, written in zip(columns, constraint.operators, strict=True)
    )
    taken = [index.name for index in builder.indexes]
    name = constraint.name or names.free_relation_name(
        context, table.schema, table.name, second_part(statement), "excl", taken
    )
    if constraint.name:
        names.refuse_if_taken(context, table.schema, name, False)
    index = Index(
        context.new_oid(),
        table.schema,
        name,
        table.oid,
        columns,
        context.new_storage_id(table.tablespace),
        include=tuple(builder.column_named(item).number for item in constraint.include),
        predicate=stored_predicate(context, table, constraint.where) if constraint.where is not None else None,
        method=statement.method,
        owner=table.owner,
        tablespace=place_of_index(context, constraint.tablespace, table),
        late="x",
    )
    builder.add_index(index)
    return Constraint(
        context.new_oid(),
        name,
        "x",
        tuple(column.number for column in columns),
        index=index.oid,
        deferrable=constraint.deferrable,
        initially_deferred=constraint.initially_deferred,
        operators=tuple(item.oid for item in found),
    )


def _operator(context: DdlContext, method: str, column: IndexColumn, written: tuple[str, ...]) -> Operator:
    """Raises 42883, 42809."""
    found = operator_for(context.environment, written, column.type.oid, column.type.oid, -1)
    shown = f"{found.name}({format_type(found.left)},{format_type(found.right)})"
    if found.commutator != found.oid:
        detail = "Only commutative operators can be used in exclusion constraints."
        raise SqlError("42809", f"operator {shown} is not commutative", detail=detail)
    class_ = class_of(method, column.operator_class, column.type.oid)
    assert class_ is not None
    known = _COMMUTATIVE.get(class_.name, _OF_BTREE_GIST if class_.name.startswith("gist_") else ("=",))
    if METHODS[method].name in ("btree", "hash"):
        known = ("=",)
    if found.name not in known:
        detail = "The exclusion operator must be related to the index operator class for the constraint."
        message = f'operator {shown} is not a member of operator family "{family_name(class_)}"'
        raise SqlError("42809", message, detail=detail)
    return found
