"""ALTER TABLE ... DETACH PARTITION, in one transaction, or with CONCURRENTLY in two:

1  `Table.detaching` of the partition is PENDING: statements whose snapshot is taken later, and foreign keys, do not
   find it through the parent; statements of older snapshots do (engine/node/schema_of_snapshots.py)
   between the two: the session waits for all transactions that use the parent (engine/statements/detach.py)
2  the partition is no partition any more. FINALIZE does this if the wait was cancelled
"""

from __future__ import annotations

from dataclasses import replace

from catalog.errors import SqlError
from catalog.partitions import constraint_text
from catalog.schema import PENDING, Constraint, Table
from engine.ddl import inheritance, names, triggers
from engine.ddl.context import DdlContext, ValidateConstraint
from engine.ddl.partitions import defaults, lock_whole
from engine.ddl.tables import TableBuilder
from engine.partitions import key_copies
from engine.sql import ast
from engine.sql.parser import parse_expression

_HINT = "Use ALTER TABLE ... DETACH PARTITION ... FINALIZE to complete the pending detach operation."


def detach(context: DdlContext, parent: Table, command: ast.AlterTableCmd) -> None:
    """Raises 42809, 42P01, 23503, 55000."""
    relation = command.relation
    assert relation is not None
    if parent.partitioning is None:
        raise SqlError("42809", f'table "{parent.name}" is not partitioned')
    found = names.find(context, relation)
    if found is None:
        raise SqlError("42P01", f'relation "{names.show_relation(relation)}" does not exist')
    if not isinstance(found, Table) or parent.oid not in found.parents:
        raise SqlError("42P01", f'relation "{found.name}" is not a partition of relation "{parent.name}"')
    if command.value == "concurrently":
        _begin(context, parent, found)
    elif command.value == "finalize":
        _finalize(context, parent, found)
    else:
        _detach_at_once(context, parent, found)


def _detach_at_once(context: DdlContext, parent: Table, partition: Table) -> None:
    lock_whole(context, partition)
    for default in defaults(context, parent):
        lock_whole(context, default)
    _check_references(context, partition)
    if context.catalog.table(partition.oid).detaching:
        raise SqlError(
            "55000",
            f'cannot detach partition "{partition.name}"',
            detail="The partition is being detached concurrently or has an unfinished detach.",
            hint=_HINT,
        )
    _make_independent(context, parent, partition)


def _begin(context: DdlContext, parent: Table, partition: Table) -> None:
    """The first transaction of CONCURRENTLY."""
    if defaults(context, parent):
        raise SqlError("55000", "cannot detach partitions concurrently when a default partition exists")
    context.lock_relation(partition.oid, "share update exclusive")
    _check_references(context, partition, beside_writers=True)
    for other in map(context.catalog.table, context.catalog.children.get(parent.oid, ())):
        if other.detaching:
            shown = f"{context.catalog.schema_name(parent.schema)}.{parent.name}"
            message = f'partition "{other.name}" already pending detach in partitioned table "{shown}"'
            raise SqlError("55000", message, hint=_HINT)
    text = constraint_text(context.catalog, context.catalog.table(partition.oid))
    if text is not None:
        _add_check(context, partition, text)
    context.change({partition.oid: replace(context.catalog.table(partition.oid), detaching=PENDING)})


def _finalize(context: DdlContext, parent: Table, partition: Table) -> None:
    lock_whole(context, partition)
    if not context.catalog.table(partition.oid).detaching:
        raise SqlError(
            "55000",
            f'cannot complete detaching partition "{partition.name}"',
            detail="There's no pending concurrent detach.",
        )
    _make_independent(context, parent, partition)


def _make_independent(context: DdlContext, parent: Table, partition: Table) -> None:
    for table in {table.oid: table for table, _ in _references(context, partition)}.values():
        context.lock_relation(table.oid, "access exclusive")  # as PostgreSQL does, which drops constraints of it
    child = inheritance.let_go(context.catalog.table(partition.oid), parent)
    constraints = tuple(
        replace(item, parent=None, inherited=0, local=True) if item.parent is not None else item
        for item in child.constraints
    )
    context.change({child.oid: replace(child, bound=None, detaching="", constraints=constraints)})
    triggers.without_copies(context, context.catalog.table(child.oid))
    for oid in child.indexes:
        index = context.catalog.index(oid)
        if index.parent is not None:
            context.change({oid: replace(index, parent=None)})


def _add_check(context: DdlContext, partition: Table, text: str) -> None:
    """The partition keeps its bounds as a check, which its rows fulfil already (DetachAddConstraintIfNeeded)."""
    if any(item.kind == "c" and item.check == text for item in context.catalog.table(partition.oid).constraints):
        return
    definition = ast.ConstraintDef("check", expression=parse_expression(text), expression_text=text)
    builder = TableBuilder(context, context.catalog.table(partition.oid))
    made = builder.add_constraint(definition)
    context.change(builder.objects())
    for table in context.catalog.descendants(partition.oid):
        builder = TableBuilder(context, table)
        own = builder.add_constraint(replace(definition, name=made.name))
        inherited = replace(own, inherited=1, local=False)
        constraints = tuple(inherited if item.oid == own.oid else item for item in builder.table.constraints)
        context.change({table.oid: replace(builder.table, constraints=constraints)})


def _check_references(context: DdlContext, partition: Table, beside_writers: bool = False) -> None:
    """Checks that no row refers to rows of a detached partition through the tables above it. `beside_writers`: others
    may write the partition, so that it does not stay empty."""
    members = (partition, *context.catalog.descendants(partition.oid))
    if not beside_writers and all(context.table_is_empty(item) for item in members):
        return
    for table, constraint in _references(context, partition):
        context.lock_relation(table.oid, "share")
        if not context.table_is_empty(table):
            declared, owner = key_copies.as_declared(context.catalog, constraint, table)
            name = key_copies.name_for(context.catalog, owner, declared, partition)
            message = f'removing partition "{partition.name}" violates foreign key constraint "{name}"'
            context.add_job(ValidateConstraint(table, replace(constraint, name=name), violated=message))


def _references(context: DdlContext, partition: Table) -> list[tuple[Table, Constraint]]:
    """The foreign keys of tables with rows that refer to tables above a partition."""
    above = {table.oid for table in context.catalog.partitioned_above(partition)}
    return [
        (table, constraint)
        for table in context.catalog.tables()
        for constraint in table.constraints
        if constraint.kind == "f" and constraint.references in above and table.partitioning is None
    ]
