"""Schema changes: each statement becomes new schema objects, and jobs on rows where the rows must follow.

    tables.py     CREATE TABLE, and the `TableBuilder` that ALTER TABLE uses too
    alter.py      ALTER TABLE
    indexes.py    CREATE INDEX
    sequences.py  CREATE / ALTER SEQUENCE
    views.py      CREATE VIEW
    drop.py       DROP and TRUNCATE, with what depends on what
    tablespaces.py  CREATE / ALTER / DROP TABLESPACE, and where relations go
    extensions.py  CREATE / ALTER / DROP EXTENSION; code_users.py  what uses functions and operators
    routines.py   CREATE / ALTER / DROP FUNCTION and PROCEDURE
    user_types.py  enums and domains;  composites.py  composite types;  collations.py  collations
    grants.py     GRANT and REVOKE; owned.py  REASSIGN OWNED and DROP OWNED; default_privileges.py
    objects.py    schemas, databases, comments, renames, owners; roles.py  roles
    ownership.py  who owns what, to whom it may be given, and where it may go
    names.py      how objects are found, named and refused
    like.py       CREATE TABLE (LIKE ...);  key_dependents.py  views that need a primary key
    expressions.py    expressions that are kept as text;  rewrite_text.py  the same after a rename
    partitions.py, inheritance.py, alter_children.py    partitioned tables, inheritance, and ALTER of what has children
    exclusion.py  EXCLUDE;  foreign_keys.py;  branches.py  branches;  change_streams.py  change streams

Everything is synchronous and works on catalog objects only; what touches rows is a Job (context.py) that the session
runs afterwards. `run` may be run again after a LockWait, so nothing happens outside the transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from catalog.errors import not_supported
from engine.ddl import (
    alter,
    change_streams,
    collations,
    composites,
    default_privileges,
    drop,
    extensions,
    grants,
    indexes,
    objects,
    owned,
    roles,
    routines,
    sequences,
    tables,
    tablespaces,
    user_types,
    views,
)
from engine.ddl.context import DdlContext
from engine.sql import ast

_HANDLERS: dict[type[ast.Node], Callable[[DdlContext, Any], str]] = {
    ast.CreateStmt: tables.create_table,
    ast.IndexStmt: indexes.create_index,
    ast.AlterTableStmt: alter.alter_table,
    ast.SequenceStmt: sequences.define_sequence,
    ast.ViewStmt: views.create_view,
    ast.DropStmt: drop.drop,
    ast.TruncateStmt: drop.truncate,
    ast.RenameStmt: objects.rename,
    ast.AlterObjectSchemaStmt: objects.set_schema,
    ast.AlterOwnerStmt: objects.set_owner,
    ast.CreateSchemaStmt: objects.create_schema,
    ast.CreateDatabaseStmt: objects.create_database,
    ast.DropDatabaseStmt: objects.drop_database,
    ast.AlterDatabaseStmt: objects.alter_database,
    ast.TablespaceStmt: tablespaces.tablespace,
    ast.RoleStmt: roles.role,
    ast.CommentStmt: objects.comment,
    ast.GrantStmt: grants.grant,
    ast.OwnedStmt: owned.owned,
    ast.DefaultPrivilegesStmt: default_privileges.alter,
    ast.CreateEnumStmt: user_types.create_enum,
    ast.AlterEnumStmt: user_types.alter_enum,
    ast.CreateDomainStmt: user_types.create_domain,
    ast.AlterDomainStmt: user_types.alter_domain,
    ast.AlterTypeStmt: user_types.alter_type,
    ast.CollationStmt: collations.define,
    ast.ReindexStmt: indexes.rebuild,
    ast.CompositeTypeStmt: composites.create_composite,
    ast.AlterCompositeStmt: composites.alter_composite,
    ast.ExtensionStmt: extensions.extension,
    ast.ChangeStreamStmt: change_streams.change_stream,
    ast.CreateFunctionStmt: routines.create,
    ast.DropFunctionStmt: routines.drop,
    ast.DropFromTableStmt: drop.drop_from_table,
    ast.AlterFunctionStmt: routines.alter,
}


def run(statement: ast.Node, context: DdlContext) -> str:
    """Runs a schema change and gives its command tag. Raises SqlError, LockWait."""
    handler = _HANDLERS.get(type(statement))
    if handler is None:
        not_supported(type(statement).__name__)
    return handler(context, statement)
