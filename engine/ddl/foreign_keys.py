"""Foreign keys: finds the referenced key and checks the types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.collations import rules
from catalog.errors import SqlError, not_supported
from catalog.functions.registry import operators_named
from catalog.schema import Constraint, Index, Table
from catalog.types import format_type, lookup
from engine.ddl import names
from engine.sql import ast

if TYPE_CHECKING:
    from engine.ddl.tables import TableBuilder


def foreign_key(builder: TableBuilder, constraint: ast.ConstraintDef) -> Constraint:
    """The constraint. Raises 42P01, 42703, 42830 (no matching key, wrong number of columns), 42804, 42P16."""
    assert constraint.references is not None
    context = builder.context
    table = builder.table
    own = [builder.column_named(name) for name in constraint.columns]
    parent, parent_indexes = _parent(builder, constraint.references)
    if constraint.not_valid and table.partitioning is not None and not builder.is_new:
        message = f'cannot add NOT VALID foreign key on partitioned table "{table.name}" referencing relation'
        detail = "This feature is not yet supported on partitioned tables."
        raise SqlError("42809", f'{message} "{parent.name}"', detail=detail)
    referenced = _referenced_columns(parent, constraint)
    if len(own) != len(referenced):
        raise SqlError("42830", "number of referencing and referenced columns for foreign key disagree")
    if parent.oid != table.oid and not names.may_on_table(context, parent, "x", frozenset(referenced)):
        raise SqlError("42501", f"permission denied for table {parent.name}")
    if table.references_off or parent.references_off:
        not_supported("a foreign key of a table with DISABLE TRIGGER ALL")
    index = _matching_index(parent, parent_indexes, referenced)
    name = constraint.name or names.free_constraint_name(
        table.constraints, table.name, "_".join(constraint.columns), "fkey"
    )
    for column, number in zip(own, referenced, strict=True):
        other = parent.column_by_number(number)
        for item in (column, other):
            under = rules(context.catalog, item.collation)
            if under is not None and not under.deterministic:
                not_supported("a foreign key under a collation that is not deterministic")
        if not _comparable(column.type.oid, other.type.oid):
            raise SqlError(
                "42804",
                f'foreign key constraint "{name}" cannot be implemented',
                detail=f'Key columns "{column.name}" and "{other.name}" are of incompatible types: '
                f"{format_type(column.type.oid)} and {format_type(other.type.oid)}.",
            )
    return Constraint(
        context.new_oid(),
        name,
        "f",
        tuple(column.number for column in own),
        index=index.oid,
        references=parent.oid,
        referenced_columns=referenced,
        on_delete=constraint.on_delete,
        on_update=constraint.on_update,
        match=constraint.match,
        deferrable=constraint.deferrable,
        initially_deferred=constraint.initially_deferred,
        validated=not constraint.not_valid or builder.is_new,
    )


def _parent(builder: TableBuilder, relation: ast.RangeVar) -> tuple[Table, list[Index]]:
    context = builder.context
    own = builder.table
    itself = relation.name == own.name and (
        relation.schema is None or relation.schema == context.catalog.schema_name(own.schema)
    )
    if itself:
        made = {index.oid: index for index in builder.indexes}
        indexes = [made.get(oid) or context.catalog.index(oid) for oid in own.indexes]
        return own, indexes
    found = names.find(context, relation)
    if found is None:
        raise SqlError("42P01", f'relation "{names.show_relation(relation)}" does not exist')
    if not isinstance(found, Table) or found.query is not None or found.server:
        raise SqlError("42809", f'referenced relation "{found.name}" is not a table')
    context.lock_relation(found.oid, "share row exclusive")
    return found, [context.catalog.index(oid) for oid in found.indexes]


def _referenced_columns(parent: Table, constraint: ast.ConstraintDef) -> tuple[int, ...]:
    if not constraint.referenced_columns:
        primary = next((item for item in parent.constraints if item.kind == "p"), None)
        if primary is None:
            raise SqlError("42704", f'there is no primary key for referenced table "{parent.name}"')
        if primary.deferrable:
            raise SqlError("55000", f'cannot use a deferrable primary key for referenced table "{parent.name}"')
        return primary.columns
    numbers = []
    for name in constraint.referenced_columns:
        column = parent.column(name)
        if column is None:
            raise SqlError("42703", f'column "{name}" referenced in foreign key constraint does not exist')
        numbers.append(column.number)
    return tuple(numbers)


def _matching_index(parent: Table, indexes: list[Index], referenced: tuple[int, ...]) -> Index:
    for index in indexes:
        numbers = [column.number for column in index.columns]
        if index.unique and index.valid and index.predicate is None and sorted(numbers) == sorted(referenced):
            return index
    if any(
        item.late and item.kind != "x" and sorted(item.columns) == sorted(referenced) for item in parent.constraints
    ):
        raise SqlError("55000", f'cannot use a deferrable unique constraint for referenced table "{parent.name}"')
    message = f'there is no unique constraint matching given keys for referenced table "{parent.name}"'
    raise SqlError("42830", message)


def _comparable(left: int, right: int) -> bool:
    if left == right:
        return True
    if any(item.left == left and item.right == right for item in operators_named("=")):
        return True
    return lookup(left).category == lookup(right).category == "S"
