"""Columns and checks that a table inherits from its parents (MergeAttributes, MergeConstraintsIntoExisting in
tablecmds.c).

A column has the number of parents that it comes from (`inherited`), and whether the table also defines it (`local`).
Texts of checks, defaults and generated columns refer to names, which are the same in parent and child, so the texts are
copied unchanged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.schema import Column, Constraint, Table
from catalog.types import format_type
from engine.ddl import names
from engine.ddl.context import DdlContext
from engine.sql import ast

if TYPE_CHECKING:
    from engine.ddl.tables import TableBuilder


def parents_named(
    context: DdlContext, relations: tuple[ast.RangeVar, ...], persistence: str, *, partition: bool
) -> list[Table]:
    """The parents, locked. Raises 42P01, 42809, and 42P07 for a duplicate."""
    found: list[Table] = []
    for relation in relations:
        table = names.table_named(context, relation, "share update exclusive")
        if partition:
            if table.partitioning is None:
                raise SqlError("42P17", f'"{table.name}" is not partitioned')
        elif table.partitioning is not None:
            raise SqlError("42809", f'cannot inherit from partitioned table "{table.name}"')
        elif table.bound is not None:
            raise SqlError("42809", f'cannot inherit from partition "{table.name}"')
        refuse_other_persistence(table, persistence, partition=partition)
        if table in found:
            raise SqlError("42P07", f'relation "{table.name}" would be inherited from more than once')
        found.append(table)
    return found


def refuse_other_persistence(parent: Table, persistence: str, *, partition: bool) -> None:
    """42809 if only one of parent and child is temporary."""
    what = "create as partition of" if partition else "inherit from"
    if parent.persistence == "t" and persistence != "t":
        if partition:
            message = f'cannot create a permanent relation as partition of temporary relation "{parent.name}"'
            raise SqlError("42809", message)
        raise SqlError("42809", f'cannot {what} temporary relation "{parent.name}"')
    if partition and parent.persistence != "t" and persistence == "t":
        message = f'cannot create a temporary relation as partition of permanent relation "{parent.name}"'
        raise SqlError("42809", message)


def inherit_columns(builder: TableBuilder, parents: list[Table]) -> None:
    """The parents' columns as the first columns of a new table. Raises 42804, 42611 for defaults that differ."""
    conflicting: set[str] = set()
    for parent in parents:
        for column in parent.columns:
            known = builder.table.column(column.name)
            if known is None:
                number = builder.table.next_column
                copied = Column(
                    number, column.name, column.type, column.not_null,
                    default=column.default, generated=column.generated, collation=column.collation,
                    inherited=1, local=False,
                )  # fmt: skip
                table = builder.table
                builder.table = replace(table, columns=(*table.columns, copied), next_column=number + 1)
                continue
            message = f'merging multiple inherited definitions of column "{column.name}"'
            builder.context.notice(SqlError("00000", message, severity="NOTICE"))
            _same_type(known, column, "inherited ")
            if column.default is not None and known.default not in (None, column.default):
                conflicting.add(column.name)
            builder.change_column(
                replace(
                    known,
                    inherited=known.inherited + 1,
                    not_null=known.not_null or column.not_null,
                    default=known.default if known.default is not None else column.default,
                )
            )
    builder.conflicting_defaults = conflicting


def merge_column(builder: TableBuilder, definition: ast.ColumnDef) -> bool:
    """Merges a column with an inherited one of the same name, which becomes local too. Returns whether there was
    one."""
    known = builder.table.column(definition.name)
    if known is None or not known.inherited:
        return False
    message = f'merging column "{definition.name}" with inherited definition'
    if definition.type is not None:
        builder.context.notice(SqlError("00000", message, severity="NOTICE"))
        _same_type(known, replace(known, type=builder.type_of(definition)), "")
    own_default = any(item.kind in ("default", "generated") for item in definition.constraints)
    builder.conflicting_defaults.discard(definition.name)
    local = definition.type is not None  # columns in PARTITION OF have no type, and are not defined by the partition
    builder.change_column(replace(known, local=local, default=None if own_default else known.default))
    return True


def refuse_conflicting_defaults(builder: TableBuilder) -> None:
    """42611 if parents give a column different defaults and the table has none of its own."""
    for name in sorted(builder.conflicting_defaults):
        hint = "To resolve the conflict, specify a default explicitly."
        raise SqlError("42611", f'column "{name}" inherits conflicting default values', hint=hint)


def _same_type(known: Column, column: Column, word: str) -> None:
    if (known.type.oid, known.type.typmod, known.type.domain) != (
        column.type.oid,
        column.type.typmod,
        column.type.domain,
    ):
        detail = f"{shown_type(known)} versus {shown_type(column)}"
        raise SqlError("42804", f'{word}column "{column.name}" has a type conflict', detail=detail)


def shown_type(column: Column) -> str:
    return format_type(column.type.declared, -1 if column.type.domain else column.type.typmod)


def inherit_checks(builder: TableBuilder, parents: list[Table]) -> None:
    """The parents' CHECK constraints, except those with NO INHERIT. Raises 42710 for different checks with one name."""
    for parent in parents:
        for constraint in parent.constraints:
            if constraint.kind == "c" and not constraint.no_inherit:
                inherit_check(builder, parent, constraint)


def inherit_check(builder: TableBuilder, parent: Table, constraint: Constraint) -> bool:
    """Adds one CHECK of a parent. Returns whether it is new."""
    table = builder.table
    known = next((item for item in table.constraints if item.name == constraint.name), None)
    if known is None:
        numbers = tuple(builder.column_named(parent.column_by_number(n).name).number for n in constraint.columns)
        made = replace(
            constraint, oid=builder.context.new_oid(), columns=numbers, inherited=1, local=False, comment=None
        )
        builder.table = replace(table, constraints=(*table.constraints, made))
        builder.new_constraints.append(made)
        return True
    if known.kind != "c" or known.check != constraint.check:
        message = f'check constraint name "{constraint.name}" appears multiple times but with different expressions'
        if known.local or not builder.is_new:
            message = f'constraint "{constraint.name}" for relation "{table.name}" already exists'
        raise SqlError("42710", message)
    if builder.is_new:  # the table's own constraint is the second one then
        refuse_merge(table, replace(constraint, inherited=1), known)
    else:
        refuse_merge(table, known, constraint)
    merged = replace(known, inherited=known.inherited + 1)
    builder.table = replace(
        table, constraints=tuple(merged if item.oid == known.oid else item for item in table.constraints)
    )
    return False


def refuse_merge(table: Table, known: Constraint, other: Constraint) -> None:
    """42P17 if a table's own CHECK cannot be merged with an inherited one of the same name
    (MergeWithExistingConstraint)."""
    where = f'on relation "{table.name}"'
    if known.no_inherit and not other.no_inherit:
        raise SqlError("42P17", f'constraint "{known.name}" conflicts with non-inherited constraint {where}')
    if known.inherited and other.no_inherit:
        raise SqlError("42P17", f'constraint "{known.name}" conflicts with inherited constraint {where}')
    if other.validated and not known.validated:
        raise SqlError("42P17", f'constraint "{known.name}" conflicts with NOT VALID constraint {where}')


def merge_own(builder: TableBuilder, known: Constraint, own: Constraint) -> Constraint:
    """Merges a new CHECK (ALTER TABLE ... ADD CONSTRAINT) with an inherited one, which becomes local too."""
    table = builder.table
    refuse_merge(table, known, own)
    message = f'merging constraint "{known.name}" with inherited definition'
    builder.context.notice(SqlError("00000", message, severity="NOTICE"))
    merged = replace(known, local=True)
    constraints = tuple(merged if item.oid == known.oid else item for item in table.constraints)
    builder.table = replace(table, constraints=constraints)
    return merged


def merge_into_child(context: DdlContext, child: Table, parent: Table) -> Table:
    """Adds a parent to an existing table, which must already have the parent's columns and checks. Raises 42804."""
    columns = {column.name: column for column in child.columns}
    changed = list(child.columns)
    for column in parent.columns:
        own = columns.get(column.name)
        if own is None:
            raise SqlError("42804", f'child table is missing column "{column.name}"')
        if (own.type.oid, own.type.typmod, own.type.domain) != (
            column.type.oid,
            column.type.typmod,
            column.type.domain,
        ):
            raise SqlError("42804", f'child table "{child.name}" has different type for column "{column.name}"')
        if column.not_null and not own.not_null:
            raise SqlError("42804", f'column "{column.name}" in child table must be marked NOT NULL')
        if (column.generated is None) != (own.generated is None):
            must = "must" if column.generated is not None else "must not"
            raise SqlError("42804", f'column "{column.name}" in child table {must} be a generated column')
        if column.generated != own.generated:
            message = f'column "{column.name}" in child table has a conflicting generation expression'
            raise SqlError("42804", message)
        place = changed.index(own)
        changed[place] = replace(own, inherited=own.inherited + 1, local=own.local and parent.partitioning is None)
    return replace(child, columns=tuple(changed), constraints=_merged_checks(child, parent))


def _merged_checks(child: Table, parent: Table) -> tuple[Constraint, ...]:
    found = list(child.constraints)
    for constraint in parent.constraints:
        if constraint.kind != "c" or constraint.no_inherit:
            continue
        own = next((item for item in found if item.kind == "c" and item.name == constraint.name), None)
        if own is None:
            raise SqlError("42804", f'child table is missing constraint "{constraint.name}"')
        if own.check != constraint.check:
            message = f'child table "{child.name}" has different definition for check constraint "{constraint.name}"'
            raise SqlError("42804", message)
        if own.no_inherit:
            message = f'constraint "{own.name}" conflicts with non-inherited constraint on child table "{child.name}"'
            raise SqlError("42P17", message)
        if not own.validated and constraint.validated:
            message = f'constraint "{own.name}" conflicts with NOT VALID constraint on child table "{child.name}"'
            raise SqlError("42P17", message)
        found[found.index(own)] = replace(
            own, inherited=own.inherited + 1, local=own.local and parent.partitioning is None
        )
    return tuple(found)


def let_go(child: Table, parent: Table) -> Table:
    """Removes a parent from a table. The inherited columns and checks become the table's own (RemoveInheritance)."""
    names_of = {column.name for column in parent.columns}
    columns = tuple(
        replace(column, inherited=column.inherited - 1, local=column.local or column.inherited == 1)
        if column.name in names_of and column.inherited
        else column
        for column in child.columns
    )
    checks = {item.name for item in parent.constraints if item.kind == "c"}
    constraints = tuple(
        replace(item, inherited=item.inherited - 1, local=item.local or item.inherited == 1)
        if item.kind == "c" and item.name in checks and item.inherited
        else item
        for item in child.constraints
    )
    parents = tuple(oid for oid in child.parents if oid != parent.oid)
    return replace(child, columns=columns, constraints=constraints, parents=parents)


def inherit(context: DdlContext, child: Table, relation: ast.RangeVar) -> None:
    """ALTER TABLE ... INHERIT. Raises 42P07, 42809, 42804."""
    parent = names.table_named(context, relation, "share update exclusive")
    if child.bound is not None:
        raise SqlError("42809", "cannot change inheritance of a partition")
    if child.partitioning is not None:
        raise SqlError("42809", "cannot change inheritance of partitioned table")
    if parent.partitioning is not None:
        raise SqlError("42809", f'cannot inherit from partitioned table "{parent.name}"')
    if parent.bound is not None:
        raise SqlError("42809", f'cannot inherit from partition "{parent.name}"')
    refuse_other_persistence(parent, child.persistence, partition=False)
    if parent.oid in child.parents:
        raise SqlError("42P07", f'relation "{parent.name}" would be inherited from more than once')
    if parent.oid == child.oid or any(item.oid == parent.oid for item in context.catalog.descendants(child.oid)):
        detail = f'"{parent.name}" is already a child of "{child.name}".'
        raise SqlError("42P07", "circular inheritance not allowed", detail=detail)
    merged = merge_into_child(context, child, parent)
    context.change({child.oid: replace(merged, parents=(*child.parents, parent.oid))})


def disinherit(context: DdlContext, child: Table, relation: ast.RangeVar) -> None:
    """ALTER TABLE ... NO INHERIT. Raises 42P01."""
    if child.bound is not None:
        raise SqlError("42809", "cannot change inheritance of a partition")
    parent = names.find(context, relation)
    if parent is None:
        raise SqlError("42P01", f'relation "{names.show_relation(relation)}" does not exist')
    if not isinstance(parent, Table) or parent.oid not in child.parents:
        raise SqlError("42P01", f'relation "{parent.name}" is not a parent of relation "{child.name}"')
    context.lock_relation(parent.oid, "access share")
    context.change({child.oid: let_go(child, parent)})
