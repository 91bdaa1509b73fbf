"""Foreign tables: CREATE FOREIGN TABLE, their options, and what ALTER TABLE does not do to them.

A foreign table is a `Table` with a `server`. Its storage stays empty: the statements that read or change its rows send
queries to the server (engine/foreign).
"""

from __future__ import annotations

from dataclasses import replace

from catalog.errors import SqlError, not_supported
from catalog.schema import ForeignServer, Table
from engine.ddl import foreign, foreign_options, names
from engine.ddl.context import DdlContext
from engine.ddl.tables import TableBuilder, layout
from engine.sql import ast
from engine.sql.analyze.errors import fail

_KEYS = {
    "primary": "primary key constraints", "unique": "unique constraints", "foreign": "foreign key constraints",
    "exclusion": "exclusion constraints",
}  # fmt: skip
_SHOWN = {  # commands that only tables have, as PostgreSQL names them
    "set_options": "SET", "reset_options": "RESET", "cluster": "CLUSTER ON", "replica_identity": "REPLICA IDENTITY",
    "enable_row_security": "ENABLE ROW SECURITY", "disable_row_security": "DISABLE ROW SECURITY",
    "force_row_security": "FORCE ROW SECURITY", "no_force_row_security": "NO FORCE ROW SECURITY",
    "set_logged": "SET LOGGED", "set_unlogged": "SET UNLOGGED", "tablespace": "SET TABLESPACE",
    "attach_partition": "ATTACH PARTITION", "detach_partition": "DETACH PARTITION",
    "enable_rule": "ENABLE RULE", "disable_rule": "DISABLE RULE", "set_compression": "ALTER COLUMN ... SET COMPRESSION",
}  # fmt: skip
_REFUSED = {"inherit", "no_inherit", "enable_trigger", "disable_trigger"}


def create(context: DdlContext, statement: ast.CreateStmt) -> str:
    """CREATE FOREIGN TABLE. Raises 42704, 42501, 42P07, 0A000 for keys, and errors of the options and the parts."""
    assert statement.server is not None
    tag, relation = "CREATE FOREIGN TABLE", statement.relation
    for element in statement.elements:
        if isinstance(element, ast.LikeClause):
            fail("0A000", "LIKE is not supported for creating foreign tables", element)
        parts = element.constraints if isinstance(element, ast.ColumnDef) else (element,)
        for part in parts:
            refuse_key(part)
    try:
        schema = context.creation_schema(relation)
    except SqlError as error:
        if relation.location >= 0:
            error.position = relation.location + 1
        raise
    if schema.name.startswith("pg_temp_"):
        not_supported("a temporary foreign table")
    if names.refuse_if_taken(context, schema.oid, relation.name, statement.if_not_exists, has_row_type=True):
        return tag
    table = Table(
        context.new_oid(), schema.oid, relation.name, (), context.new_storage_id(), owner=context.user_oid,
        replica_identity="n",
    )  # fmt: skip
    builder = TableBuilder(context, table)
    for element in statement.elements:
        if isinstance(element, ast.ColumnDef):
            builder.add_column(element)
    for element in statement.elements:
        if isinstance(element, ast.ColumnDef):
            builder.add_column_constraints(element)
        elif isinstance(element, ast.ConstraintDef):
            builder.add_constraint(element)
    server = foreign.server_to_use(context, statement.server)
    made = replace(builder.table, server=server.oid, layouts=(layout(0, builder.table.columns),))
    made = _with_options(context, made, None, statement.foreign_options)
    for element in statement.elements:
        if isinstance(element, ast.ColumnDef):
            made = _with_options(context, made, element.name, element.foreign_options)
    builder.table = made
    context.change(builder.objects())
    return tag


def refuse_key(part: ast.Node) -> None:
    """0A000 for a key, which PostgreSQL's foreign tables do not have either."""
    if isinstance(part, ast.ConstraintDef) and part.kind in _KEYS:
        fail("0A000", f"{_KEYS[part.kind]} are not supported on foreign tables", part)


def server_of(context: DdlContext, table: Table) -> ForeignServer:
    """The server of a foreign table."""
    found = context.catalog.get(table.server)
    assert isinstance(found, ForeignServer)
    return found


def _with_options(
    context: DdlContext, table: Table, column: str | None, changes: tuple[ast.ForeignOption, ...]
) -> Table:
    """The table with changed options of its own or of a column. Raises 42703."""
    if not changes:
        return table
    wrapper = foreign.wrapper_of(context, server_of(context, table))
    if column is None:
        options = foreign_options.change_options(context, wrapper, "table", table.foreign_options, changes)
        return replace(table, foreign_options=options)
    found = table.column(column)
    if found is None:
        raise SqlError("42703", f'column "{column}" of relation "{table.name}" does not exist')
    options = foreign_options.change_options(context, wrapper, "column", found.foreign_options, changes)
    altered = replace(found, foreign_options=options)
    return replace(table, columns=tuple(altered if item is found else item for item in table.columns))


def alter_options(context: DdlContext, table: Table, command: ast.AlterTableCmd) -> Table:
    """ALTER [COLUMN c] OPTIONS (...). Raises 42809 for a table that is not foreign."""
    if not table.server:
        shown = "OPTIONS" if command.name is None else "ALTER COLUMN ... OPTIONS"
        raise SqlError(
            "42809",
            f'ALTER action {shown} cannot be performed on relation "{table.name}"',
            detail="This operation is not supported for tables.",
        )
    return _with_options(context, table, command.name, command.foreign_options)


def check_command(table: Table, command: ast.AlterTableCmd) -> None:
    """Refuses what ALTER TABLE does not do to a foreign table. Raises 42809, 0A000."""
    if command.action in _SHOWN and not (command.name and command.action.endswith("_options")):
        raise SqlError(
            "42809",
            f'ALTER action {_SHOWN[command.action]} cannot be performed on relation "{table.name}"',
            detail="This operation is not supported for foreign tables.",
        )
    if command.action in _REFUSED:
        not_supported(f"ALTER FOREIGN TABLE {command.action.upper().replace('_', ' ')}")
    if isinstance(command.definition, ast.ConstraintDef):
        refuse_key(command.definition)
    elif isinstance(command.definition, ast.ColumnDef):
        for part in command.definition.constraints:
            refuse_key(part)
