"""ALTER TABLE of a table with parents or children: commands that recurse to children, and commands that are refused
(ATPrepCmd and the recursion in tablecmds.c).

The table itself is altered first. Then its children are brought to the same state, and then theirs. So generated names
and expressions are the same in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from catalog.errors import SqlError
from catalog.schema import Column, Constraint, Table
from engine.ddl import detach, inheritance, partition_members, partitions
from engine.ddl.alteration import Alteration
from engine.ddl.context import DdlContext
from engine.sql import ast

_HIERARCHY = ("attach_partition", "detach_partition", "inherit", "no_inherit")
_REPEATED = ("alter_type", "set_default", "drop_default", "set_not_null", "drop_not_null", "drop_expression")


def alter(context: DdlContext, table: Table, commands: tuple[ast.AlterTableCmd, ...], only: bool, mode: str) -> None:
    """Executes the commands on a table, which is locked in the mode, and, without ONLY, on its children, which it locks
    in the same mode."""
    ordinary = []
    for command in commands:
        if command.action in _HIERARCHY:
            _change_hierarchy(context, table, command)
        else:
            ordinary.append(command)
    if not ordinary:
        return
    table = context.catalog.table(table.oid)
    for command in ordinary:
        _refuse_inherited(context, table, command)
        _refuse_for_key(context, table, command)
        if only:
            _refuse_only(context, table, command)
    context.refuse_in_use(table, "ALTER TABLE")
    alteration = Alteration(context, table)
    alteration.run(tuple(ordinary))
    if only:  # which keys and foreign keys of partitioned tables do not heed when they are dropped
        ordinary = [command for command in ordinary if command.action == "drop_constraint"]
    if not only or (ordinary and table.partitioning is not None):
        _alter_children(context, alteration, ordinary, mode)


def _change_hierarchy(context: DdlContext, table: Table, command: ast.AlterTableCmd) -> None:
    assert command.relation is not None
    current = context.catalog.table(table.oid)
    if command.action == "attach_partition":
        assert command.bound is not None
        partition_members.attach(context, current, command.relation, command.bound)
    elif command.action == "detach_partition":
        detach.detach(context, current, command)
    elif command.action == "inherit":
        inheritance.inherit(context, current, command.relation)
    else:
        inheritance.disinherit(context, current, command.relation)


# ---- what is refused ------------------------------------------------------------------------------------------------


def _refuse_inherited(context: DdlContext, table: Table, command: ast.AlterTableCmd) -> None:
    """42P16 for a change that only the parent allows, 42809 for a command that a partition does not allow."""
    column = table.column(command.name or "")
    if command.action == "add_column" and table.bound is not None:
        raise SqlError("42809", "cannot add column to a partition")
    if column is not None and column.inherited:
        if command.action == "drop_column":
            raise SqlError("42P16", f'cannot drop inherited column "{column.name}"')
        if command.action == "alter_type":
            raise SqlError("42P16", f'cannot alter inherited column "{column.name}"')
        if command.action == "drop_not_null" and table.bound is not None:
            above = context.catalog.table(table.parents[0]).column(column.name)
            if above is not None and above.not_null:
                raise SqlError("42P16", f'column "{column.name}" is marked NOT NULL in parent table')
    if command.action == "drop_constraint":
        constraint = next((item for item in table.constraints if item.name == command.name), None)
        if constraint is not None and constraint.inherited:
            message = f'cannot drop inherited constraint "{constraint.name}" of relation "{table.name}"'
            raise SqlError("42P16", message)


def _refuse_only(context: DdlContext, table: Table, command: ast.AlterTableCmd) -> None:
    """42P16 if the parent would no longer match its children."""
    partitioned = table.partitioning is not None
    definition = command.definition
    if partitioned and isinstance(definition, ast.ConstraintDef) and definition.kind == "foreign":
        named = definition.references.name if definition.references is not None else ""
        message = f'cannot use ONLY for foreign key on partitioned table "{table.name}" referencing relation "{named}"'
        raise SqlError("42809", message)
    if table.oid not in context.catalog.children:
        return
    hint = "Do not specify the ONLY keyword."
    if command.action == "add_column":
        raise SqlError("42P16", "column must be added to child tables too")
    if command.action == "alter_type":
        raise SqlError("42P16", f'type of inherited column "{command.name}" must be changed in child tables too')
    if command.action == "drop_column" and partitioned:
        message = "cannot drop column from only the partitioned table when partitions exist"
        raise SqlError("42P16", message, hint=hint)
    is_check = any(item.kind == "c" and item.name == command.name for item in table.constraints)
    if command.action == "drop_constraint" and partitioned and is_check:
        message = "cannot remove constraint from only the partitioned table when partitions exist"
        raise SqlError("42P16", message, hint=hint)
    if command.action in ("set_not_null", "drop_not_null") and partitioned:
        message = "cannot remove constraint from only the partitioned table when partitions exist"
        if command.action == "set_not_null":
            message = "constraint must be added to child tables too"
        raise SqlError("42P16", message, hint=hint)
    is_check = isinstance(definition, ast.ConstraintDef) and definition.kind == "check" and not definition.no_inherit
    taken = any(item.name == getattr(definition, "name", None) for item in table.constraints)
    if is_check and not taken and command.action == "add_constraint":
        raise SqlError("42P16", "constraint must be added to child tables too")


def _refuse_for_key(context: DdlContext, table: Table, command: ast.AlterTableCmd) -> None:
    """42P16 for a change of a column of the partition key."""
    if table.partitioning is None or command.action not in ("drop_column", "alter_type"):
        return
    column = table.column(command.name or "")
    if column is None:
        return
    verb = "drop" if command.action == "drop_column" else "alter"
    for item in table.partitioning.columns:
        used = partitions.key_columns(context, table, item)
        if column.number in used:
            message = f'cannot {verb} column "{column.name}" because it is part of the partition key of relation'
            raise SqlError("42P16", f'{message} "{table.name}"')


# ---- children -------------------------------------------------------------------------------------------------------


def _alter_children(context: DdlContext, above: Alteration, commands: Sequence[ast.AlterTableCmd], mode: str) -> None:
    parent = context.catalog.table(above.old.oid)
    for oid in context.catalog.children.get(parent.oid, ()):
        context.lock_relation(oid, mode)
        child = _Child(context, context.catalog.table(oid), above.old, parent)
        taken = [child.take(command) for command in commands]
        down = [command for command in taken if command is not None]
        if (down or above.builder.new_constraints) and context.environment.is_of_others(child.alteration.old):
            raise SqlError("0A000", "cannot alter temporary tables of other sessions")
        for constraint in above.builder.new_constraints:
            child.take_constraint(constraint)
        child.finish()
        if down or above.builder.new_constraints:
            _alter_children(context, child.alteration, down, mode)
    _give_keys(context, parent, above)


def _give_keys(context: DdlContext, parent: Table, above: Alteration) -> None:
    """New keys and foreign keys of a partitioned table: creates their parts in the partitions."""
    if parent.partitioning is None:
        return
    for constraint in above.builder.new_constraints:
        if constraint.parent is None and constraint.kind in "pu" and constraint.index is not None:
            partition_members.add_index_parts(context, parent, context.catalog.index(constraint.index))
    if any(item.kind == "f" and item.parent is None for item in above.builder.new_constraints):
        for oid in context.catalog.children.get(parent.oid, ()):
            partition_members.attach_foreign_keys(context, parent, context.catalog.table(oid))


class _Child:
    """The effect of a parent's ALTER on one child."""

    def __init__(self, context: DdlContext, child: Table, before: Table, parent: Table) -> None:
        self.context = context
        self.before = before
        self.parent = parent
        self.alteration = Alteration(context, child)
        self._commands: list[ast.AlterTableCmd] = []

    def take(self, command: ast.AlterTableCmd) -> ast.AlterTableCmd | None:
        """Applies a parent's command to the child. Returns the command for the child's own children, or None."""
        if command.action == "add_column":
            return command if self._add_column(command) else None
        if command.action == "drop_column":
            return command if self._drop_column(command) else None
        if command.action == "drop_constraint":
            return self._drop_constraint(command)
        if command.action == "validate_constraint":
            known = next((item for item in self.before.constraints if item.name == command.name), None)
            if known is None or known.kind != "c":
                return None
        elif command.action not in _REPEATED:
            return None
        self.alteration.apply(command)
        return command

    def _add_column(self, command: ast.AlterTableCmd) -> bool:
        definition = command.definition
        assert isinstance(definition, ast.ColumnDef)
        column = self.parent.column(definition.name)
        assert column is not None
        before = self.before.column(definition.name)
        if before is not None and before.number == column.number:
            return False  # IF NOT EXISTS
        known = self.alteration.table.column(column.name)
        if known is None:
            self.alteration.add_inherited_column(column)
            return True
        self._merge(known, column)
        return False

    def _merge(self, known: Column, column: Column) -> None:
        table = self.alteration.table
        if (known.type.oid, known.type.typmod) != (column.type.oid, column.type.typmod):
            message = f'child table "{table.name}" has different type for column "{column.name}"'
            raise SqlError("42804", message)
        message = f'merging definition of column "{column.name}" for child "{table.name}"'
        self.context.notice(SqlError("00000", message, severity="NOTICE"))
        self.alteration.builder.change_column(replace(known, inherited=known.inherited + 1))

    def _drop_column(self, command: ast.AlterTableCmd) -> bool:
        known = self.alteration.table.column(command.name or "")
        if known is None or not known.inherited:
            return False
        if known.inherited == 1 and not known.local:
            self.alteration.apply(command)
            return True
        self.alteration.builder.change_column(replace(known, inherited=known.inherited - 1))
        return False

    def _drop_constraint(self, command: ast.AlterTableCmd) -> ast.AlterTableCmd | None:
        above = next((item for item in self.before.constraints if item.name == command.name), None)
        if above is None:
            return None
        table = self.alteration.table
        for item in table.constraints:
            part = item.parent == above.oid
            if not part and not (above.kind == "c" and item.kind == "c" and item.name == above.name and item.inherited):
                continue
            if item.inherited == 1 and not item.local:
                self.alteration.drop_inherited(item)
                return replace(command, name=item.name)
            kept = replace(item, inherited=item.inherited - 1)
            constraints = tuple(kept if one.oid == item.oid else one for one in table.constraints)
            self.alteration.builder.table = replace(table, constraints=constraints)
        return None

    def take_constraint(self, constraint: Constraint) -> None:
        """A new CHECK of the parent."""
        if constraint.kind != "c" or constraint.no_inherit:
            return
        builder = self.alteration.builder
        if inheritance.inherit_check(builder, self.parent, constraint) and constraint.validated:
            self.alteration.validations.append(builder.new_constraints[-1])

    def finish(self) -> None:
        self.alteration.finish()
