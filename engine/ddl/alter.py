"""ALTER TABLE, and ALTER INDEX, VIEW, SEQUENCE and MATERIALIZED VIEW in the same grammar: finds the relation and locks
it. alteration.py has the effect of the commands on a table, and alter_children.py on its children."""

from __future__ import annotations

from catalog.errors import SqlError, not_supported
from catalog.schema import Index, SchemaObject, Sequence, Table, View
from engine.ddl import alter_children, foreign_tables, names, ownership, partition_members, views
from engine.ddl.alteration import ROW_SECURITY, Alteration
from engine.ddl.context import DdlContext
from engine.ddl.tablespaces import place_of_index
from engine.sql import ast


def alter_table(context: DdlContext, statement: ast.AlterTableStmt) -> str:
    """ALTER TABLE, and ALTER INDEX / VIEW / SEQUENCE in the same grammar. Raises the errors of each command."""
    word = "MATERIALIZED VIEW" if statement.kind == "matview" else statement.kind.upper()
    found = names.find(context, statement.relation)
    if found is None:
        message = f'relation "{names.show_relation(statement.relation)}" does not exist'
        if not statement.if_exists:
            raise SqlError("42P01", message)
        context.notice(SqlError("00000", f"{message}, skipping", severity="NOTICE"))
        return f"ALTER {word}"
    if isinstance(found, Table) and (found.query is not None or statement.kind == "matview"):
        _alter_materialized(context, found, statement)
        return f"ALTER {word}"
    if isinstance(found, Index | View | Sequence):
        if statement.kind == "foreign table":
            raise SqlError("42809", f'"{found.name}" is not a foreign table')
        _alter_other(context, found, statement)
        return f"ALTER {word}"
    foreign = isinstance(found, Table) and found.server
    if statement.kind != "table" and not (foreign and statement.kind == "foreign table"):
        raise SqlError("42809", f'"{found.name}" is not a {statement.kind}')
    table = names.table_named(context, statement.relation, lock_mode(statement.commands), foreign=True)
    for command in statement.commands if foreign else ():
        foreign_tables.check_command(table, command)
    mode = lock_mode(statement.commands)
    alter_children.alter(context, table, statement.commands, statement.relation.only, mode)
    return f"ALTER {word}"


_OF_TABLES = {**ROW_SECURITY, "replica_identity": "REPLICA IDENTITY"}
_SHUT_OUT_CHANGES = (
    "attach_partition", "validate_constraint", "set_statistics", "cluster", "set_options", "reset_options",
)  # fmt: skip


def lock_mode(commands: tuple[ast.AlterTableCmd, ...]) -> str:
    """The lock mode of the commands (AlterTableGetLockLevel). A change that readers and writers need not see blocks
    other schema changes only. Foreign keys allow reads and row locks."""
    modes = {_lock_of(command) for command in commands}
    if "access exclusive" in modes or not modes:
        return "access exclusive"
    return "share row exclusive" if "share row exclusive" in modes else "share update exclusive"


def _lock_of(command: ast.AlterTableCmd) -> str:
    if command.action in _SHUT_OUT_CHANGES or (command.action == "detach_partition" and command.value is not None):
        return "share update exclusive"
    definition = command.definition
    if command.action in ("enable_trigger", "disable_trigger"):
        return "share row exclusive"
    if (
        isinstance(definition, ast.ConstraintDef)
        and definition.kind == "foreign"
        and command.action == "add_constraint"
    ):
        return "share row exclusive"
    return "access exclusive"


def _alter_other(context: DdlContext, item: Index | View | Sequence, statement: ast.AlterTableStmt) -> None:
    ownership.must_own(context, item)
    for command in statement.commands:
        if command.action in _OF_TABLES:
            raise _wrong_kind(item, ownership.word_of(item), command)
        if command.action == "owner":
            context.change({item.oid: _set_owner(context, item, command)})
        elif command.action in ("set_options", "reset_options", "set_statistics") and not isinstance(item, View):
            continue  # storage parameters of a tree that has none
        elif command.action in ("set_default", "drop_default") and isinstance(item, View):
            item = views.alter_default(context, item, command)
        elif command.action == "attach_partition" and isinstance(item, Index):
            assert command.relation is not None
            partition_members.attach_index(context, item, command.relation)
        elif command.action == "tablespace" and isinstance(item, Index):
            place_of_index(context, command.value, context.catalog.table(item.table))
        else:
            not_supported(f"ALTER {statement.kind.upper()} {command.action.upper().replace('_', ' ')}")


def _alter_materialized(context: DdlContext, item: Table, statement: ast.AlterTableStmt) -> None:
    """ALTER MATERIALIZED VIEW. Only the owner can be changed."""
    if item.query is None:
        raise SqlError("42809", f'"{item.name}" is not a materialized view')
    ownership.must_own(context, item)
    for command in statement.commands:
        if command.action in ROW_SECURITY:
            raise _wrong_kind(item, "materialized view", command)
        if command.action != "owner":
            not_supported(f"ALTER MATERIALIZED VIEW {command.action.upper().replace('_', ' ')}")
        context.lock_relation(item.oid, "access exclusive")
        Alteration(context, item).run((command,))


def _wrong_kind(item: Table | Index | View | Sequence, word: str, command: ast.AlterTableCmd) -> SqlError:
    """42809 for a relation of a kind that the command is not for (ATSimplePermissions)."""
    plural = "indexes" if word == "index" else f"{word}s"
    return SqlError(
        "42809",
        f'ALTER action {_OF_TABLES[command.action]} cannot be performed on relation "{item.name}"',
        detail=f"This operation is not supported for {plural}.",
    )


def _set_owner(context: DdlContext, item: Index | View | Sequence, command: ast.AlterTableCmd) -> SchemaObject:
    """ATExecChangeOwner. An index has its table's owner, and so has a sequence that a column owns."""
    owner = ownership.role_named(context, command.value or "")
    if isinstance(item, Index):
        if owner.oid != item.owner:
            message = f'cannot change owner of index "{item.name}"'
            hint = "Change the ownership of the index's table, instead."
            context.notice(SqlError("42809", message, severity="WARNING", hint=hint))
        return item
    if isinstance(item, Sequence) and item.owned_by is not None and owner.oid != item.owner:
        table = context.catalog.table(item.owned_by[0])
        detail = f'Sequence "{item.name}" is linked to table "{table.name}".'
        raise SqlError("0A000", f'cannot change owner of sequence "{item.name}"', detail=detail)
    return ownership.with_owner(context, item, ownership.new_owner(context, item, owner.name))
