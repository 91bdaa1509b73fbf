"""The command tags of schema changes, known before they run (CreateCommandTag of utility.c): for errors of read-only
transactions, and for event triggers."""

from __future__ import annotations

from engine.sql import ast

_LONG = {"matview": "materialized view", "column": "table", "constraint": "table"}
_ROLES = ("user", "group")
_SHARED = ("database", "tablespace", "role", "event trigger")
_SHARED_GRANTS = ("database", "tablespace", "role", "parameter")


def _words(kind: str) -> str:
    return _LONG.get(kind, kind).upper()


def of_drop(tree: ast.DropStmt | ast.DropFromTableStmt | ast.DropFunctionStmt) -> str:
    return f"DROP {_words(tree.kind)}"


def of_rename(tree: ast.RenameStmt) -> str:
    if tree.kind in _ROLES:
        return "ALTER ROLE"
    return f"ALTER {_words(tree.of if tree.kind in ('column', 'constraint') else tree.kind)}"


def of_kind(tree: ast.AlterObjectSchemaStmt | ast.AlterOwnerStmt | ast.AlterTableStmt | ast.AlterTypeStmt) -> str:
    return f"ALTER {_words(tree.kind)}"


def of_function(tree: ast.AlterFunctionStmt) -> str:
    return "COMMENT" if tree.action == "comment" else f"ALTER {tree.kind.upper()}"


def of_operator(tree: ast.AlterOperatorStmt) -> str:
    return "COMMENT" if tree.action == "comment" else "ALTER OPERATOR"


def of_new_function(tree: ast.CreateFunctionStmt) -> str:
    return f"CREATE {tree.kind.upper()}"


def of_grant(tree: ast.GrantStmt) -> str:
    verb = "GRANT" if tree.is_grant else "REVOKE"
    return f"{verb} ROLE" if tree.object_kind == "role" else verb


def of_sequence(tree: ast.SequenceStmt) -> str:
    return "CREATE SEQUENCE" if tree.create else "ALTER SEQUENCE"


def of_extension(tree: ast.ExtensionStmt) -> str:
    return f"{tree.action.upper()} EXTENSION" if tree.action in ("create", "drop") else "ALTER EXTENSION"


def of_owned(tree: ast.OwnedStmt) -> str:
    return "DROP OWNED" if tree.new_owner is None else "REASSIGN OWNED"


def of_table_as(tree: ast.CreateTableAsStmt) -> str:
    return "CREATE MATERIALIZED VIEW" if tree.materialized else "CREATE TABLE AS"


def of_select(tree: ast.SelectStmt) -> str:
    return "SELECT" if tree.into is None else "SELECT INTO"


def of_tablespace(tree: ast.TablespaceStmt) -> str:
    return f"{tree.action.upper()} TABLESPACE"


def of_role(tree: ast.RoleStmt) -> str:
    return f"{tree.action.upper()} ROLE"


_FOREIGN = {
    ast.ForeignWrapperStmt: "FOREIGN DATA WRAPPER", ast.ForeignServerStmt: "SERVER",
    ast.UserMappingStmt: "USER MAPPING",
}  # fmt: skip


def of_foreign(tree: ast.ForeignWrapperStmt | ast.ForeignServerStmt | ast.UserMappingStmt) -> str:
    return f"{tree.action.upper()} {_FOREIGN[type(tree)]}"


def of_text_search(tree: ast.CreateTextSearchStmt | ast.AlterTextSearchStmt) -> str:
    verb = "CREATE" if isinstance(tree, ast.CreateTextSearchStmt) else "ALTER"
    return f"{verb} TEXT SEARCH {tree.kind.upper()}"


def of_change_stream(tree: ast.ChangeStreamStmt) -> str:
    return f"{tree.action.upper() if tree.action in ('create', 'drop') else 'ALTER'} CHANGE STREAM"


# ---- whether event triggers fire: not for objects that all databases share, nor for event triggers -------------------


def is_local(tree: ast.RenameStmt | ast.AlterOwnerStmt | ast.CommentStmt | ast.DropStmt) -> bool:
    return tree.kind not in _SHARED and tree.kind not in _ROLES


def is_local_grant(tree: ast.GrantStmt) -> bool:
    return tree.object_kind not in _SHARED_GRANTS


def is_drop_owned(tree: ast.OwnedStmt) -> bool:
    return tree.new_owner is None


def is_select_into(tree: ast.SelectStmt) -> bool:
    return tree.into is not None
