"""The parts of a partitioned table's indexes and foreign keys in its partitions; ATTACH."""

from __future__ import annotations

from dataclasses import replace

from catalog.errors import SqlError
from catalog.partitions import constraint_text
from catalog.schema import (
    Constraint,
    Index,
    Table,
)
from engine.ddl import inheritance, names, ownership, triggers
from engine.ddl.alteration import Alteration
from engine.ddl.context import BuildIndex, DdlContext, ValidateConstraint
from engine.ddl.partitions import (
    bound_of,
    check_default,
    check_rows,
    constraint_of,
    defaults,
    foreign_key_part,
    lock_whole,
    map_columns,
    matching_index,
    new_part,
)
from engine.ddl.tables import TableBuilder
from engine.sql import ast

_STRATEGIES = {"range": "r", "list": "l", "hash": "h"}
_WORDS = {"r": "range", "l": "list", "h": "hash"}
_METHODS = {"r": "btree", "l": "btree", "h": "hash"}
MAX_KEYS = 32


# ---- PARTITION BY ---------------------------------------------------------------------------------------------------


def add_index_parts(context: DdlContext, parent: Table, index: Index) -> None:
    """Adds the parts of a partitioned table's new index to all partitions without a matching index."""
    for oid in context.catalog.children.get(parent.oid, ()):
        add_index_part(context, context.catalog.table(oid), parent, index)


def add_index_part(context: DdlContext, child: Table, parent: Table, index: Index) -> None:
    """Adds the part in one partition, and in the partitions below it."""
    context.lock_relation(child.oid, "share" if not index.primary else "access exclusive")
    own = matching_index(context, child, parent, index)
    if own is not None:
        link_index(context, own, index)
        part = context.catalog.index(own.oid)
    elif index.primary:
        alteration = Alteration(context, child)
        part = alteration.take_key(parent, index)
    else:
        builder = TableBuilder(context, child)
        part = new_part(builder, parent, index)
        context.change(builder.objects())
        if part.is_tree and child.partitioning is None and not context.table_is_empty(child):
            grown = context.catalog.table(child.oid)
            context.add_job(BuildIndex(grown, part))
            for made in builder.new_constraints:
                if made.late:
                    context.add_job(ValidateConstraint(grown, made))
    if own is None and child.partitioning is not None:
        add_index_parts(context, context.catalog.table(child.oid), part)


def link_index(context: DdlContext, own: Index, index: Index) -> None:
    """Makes an index a part of another one, and its constraint a part of the other's constraint."""
    table, parent = context.catalog.table(own.table), context.catalog.table(index.table)
    mine, above = constraint_of(table, own), constraint_of(parent, index)
    changes: dict[int, Index | Table] = {own.oid: replace(own, parent=index.oid)}
    if mine is not None and above is not None:
        linked = replace(mine, parent=above.oid, inherited=1, local=False)
        constraints = tuple(linked if item.oid == mine.oid else item for item in table.constraints)
        changes[table.oid] = replace(table, constraints=constraints)
    context.change(changes)


# ---- ATTACH ---------------------------------------------------------------------------------------------------------


def attach(context: DdlContext, parent: Table, relation: ast.RangeVar, spec: ast.BoundSpec) -> None:
    """ALTER TABLE ... ATTACH PARTITION. Raises 42809, 42804, 42P16, 42P17, 23514 (job)."""
    if parent.partitioning is None:
        raise SqlError("42809", f'table "{parent.name}" is not partitioned')
    for default in defaults(context, parent):
        context.lock_relation(default.oid, "access exclusive")
    child = names.table_named(context, relation)
    _refuse_attaching(context, parent, child)
    bound = bound_of(context, parent, child.name, spec)
    merged = inheritance.merge_into_child(context, child, parent)
    extra = next((c for c in child.columns if parent.column(c.name) is None), None)
    if extra is not None:
        raise SqlError(
            "42804",
            f'table "{child.name}" contains column "{extra.name}" not found in parent "{parent.name}"',
            detail="The new partition may contain only the columns present in parent.",
        )
    lock_whole(context, child)
    check_default(context, parent, bound)
    context.change({child.oid: replace(merged, parents=(parent.oid,), bound=bound)})
    for oid in context.catalog.table(parent.oid).indexes:
        index = context.catalog.index(oid)
        add_index_part(context, context.catalog.table(child.oid), parent, index)
    attach_foreign_keys(context, parent, context.catalog.table(child.oid))
    triggers.copy_all(context, parent, context.catalog.table(child.oid))
    text = constraint_text(context.catalog, context.catalog.table(child.oid))
    if text is not None:
        for item in [context.catalog.table(child.oid), *context.catalog.descendants(child.oid)]:
            check_rows(context, item, text, f'partition constraint of relation "{item.name}" is violated by some row')


def _refuse_attaching(context: DdlContext, parent: Table, child: Table) -> None:
    if child.bound is not None:
        raise SqlError("42809", f'"{child.name}" is already a partition')
    if child.parents:
        raise SqlError("42809", "cannot attach inheritance child as partition")
    if child.oid in context.catalog.children and child.partitioning is None:
        raise SqlError("42809", "cannot attach inheritance parent as partition")
    if child.oid == parent.oid or any(item.oid == parent.oid for item in context.catalog.descendants(child.oid)):
        detail = f'"{parent.name}" is already a child of "{child.name}".'
        raise SqlError("42P07", "circular inheritance not allowed", detail=detail)
    if parent.persistence == "t" and child.persistence != "t":
        message = f'cannot attach a permanent relation as partition of temporary relation "{parent.name}"'
        raise SqlError("42809", message)
    if parent.persistence != "t" and child.persistence == "t":
        message = f'cannot attach a temporary relation as partition of permanent relation "{parent.name}"'
        raise SqlError("42809", message)


def attach_foreign_keys(context: DdlContext, parent: Table, child: Table) -> None:
    """Adds the parent's foreign keys to a partition. An equal one of the partition becomes the part."""
    for constraint in parent.constraints:
        if constraint.kind != "f":
            continue
        child = context.catalog.table(child.oid)
        if any(item.parent == constraint.oid for item in child.constraints):
            continue
        own = next((item for item in child.constraints if _same_reference(parent, child, constraint, item)), None)
        if own is not None:
            made = replace(own, parent=constraint.oid, inherited=1, local=False)
            kept = tuple(made if item.oid == own.oid else item for item in child.constraints)
        else:
            made = foreign_key_part(context, child, parent, constraint)
            kept = (*child.constraints, made)
        child = replace(child, constraints=kept)
        context.change({child.oid: child})
        if own is None and child.partitioning is None and not context.table_is_empty(child):
            context.add_job(ValidateConstraint(child, made))
        for oid in context.catalog.children.get(child.oid, ()):
            if own is None:
                attach_foreign_keys(context, child, context.catalog.table(oid))


def _same_reference(parent: Table, child: Table, above: Constraint, own: Constraint) -> bool:
    if own.kind != "f" or own.parent is not None:
        return False
    same = replace(
        above, oid=own.oid, name=own.name, columns=map_columns(parent, child, above.columns), comment=own.comment,
        inherited=own.inherited, local=own.local, parent=own.parent,
    )  # fmt: skip
    return same == own


def attach_index(context: DdlContext, index: Index, relation: ast.RangeVar) -> None:
    """ALTER INDEX ... ATTACH PARTITION. Raises 42809, 42P17, 55000."""
    own = names.find(context, relation)
    if own is None:
        raise SqlError("42P01", f'relation "{names.show_relation(relation)}" does not exist')
    if not isinstance(own, Index):
        raise SqlError("42809", f'"{own.name}" is not an index')
    parent, child = context.catalog.table(index.table), context.catalog.table(own.table)
    ownership.must_own(context, index)
    ownership.must_own(context, own)
    cannot = f'cannot attach index "{own.name}" as a partition of index "{index.name}"'
    if own.parent == index.oid:
        return
    if own.parent is not None:
        detail = f'Index "{own.name}" is already attached to another index.'
        raise SqlError("42P17", cannot, detail=detail)
    if parent.oid not in child.parents or child.bound is None:
        detail = f'Index "{own.name}" is not an index on any partition of table "{parent.name}".'
        raise SqlError("42P17", cannot, detail=detail)
    if matching_index(context, child, parent, index) is None or not _fits(context, own, child, parent, index):
        raise SqlError("42P17", cannot, detail="The index definitions do not match.")
    for oid in child.indexes:
        if context.catalog.index(oid).parent == index.oid:
            detail = f'Another index is already attached for partition "{child.name}".'
            raise SqlError("42P17", cannot, detail=detail)
    link_index(context, own, index)
    mark_valid(context, index.oid)


def _fits(context: DdlContext, own: Index, child: Table, parent: Table, index: Index) -> bool:
    only = replace(child, indexes=(own.oid,))
    return matching_index(context, only, parent, index) is not None


def mark_valid(context: DdlContext, oid: int) -> None:
    """Marks a partitioned table's index valid once every partition has a valid part of it."""
    index = context.catalog.index(oid)
    parts = {context.catalog.index(part).table for part in context.catalog.index_children.get(oid, ())
             if context.catalog.index(part).valid}  # fmt: skip
    if not index.valid and parts >= set(context.catalog.children.get(index.table, ())):
        context.change({oid: replace(index, valid=True)})
        if index.parent is not None:
            mark_valid(context, index.parent)
