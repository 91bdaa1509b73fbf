"""Foreign data wrappers, servers, user mappings and foreign tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engine.sql import ast
from engine.sql.parser.triggers import Triggers


class ForeignObjects(Triggers):
    """CreateFdwStmt, CreateForeignServerStmt, CreateUserMappingStmt, CreateForeignTableStmt, and their ALTER and
    DROP."""

    def create_foreign(self, start: int) -> ast.Node:
        """After CREATE: FOREIGN TABLE | FOREIGN DATA WRAPPER"""
        self.expect("foreign")
        if self._curr.key == "table":
            return self._create_foreign_table(start)
        self.expect("data", "wrapper")
        name = self.column_name()
        functions = self._wrapper_functions()
        options = self.foreign_options()
        return ast.ForeignWrapperStmt("create", name, **functions, options=options, location=start)

    def _wrapper_functions(self) -> dict[str, Any]:
        """fdw_options: [NO] HANDLER, [NO] VALIDATOR."""
        found: dict[str, Any] = {}
        while self._curr.key in ("handler", "validator", "no"):
            at = self._curr.start
            negated = self.accept("no")
            word = self.expect_one_of("handler", "validator")
            if word in found:
                self.complain("conflicting or redundant options", at)
            found[word] = () if negated else self.any_name()
        return found

    def _create_foreign_table(self, start: int) -> ast.Node:
        self.expect("table")
        if_not_exists = self.if_not_exists()
        relation = self.qualified_name()
        if self._curr.key == "partition":
            self.refuse("a foreign table as a partition", self._curr.start)
        elements = self.table_elements()
        if self.accept("inherits"):
            self.refuse("a foreign table that inherits", start)
        self.expect("server")
        server = self.column_name()
        return ast.CreateStmt(
            relation, elements, if_not_exists=if_not_exists, server=server, foreign_options=self.foreign_options(),
            location=start,
        )  # fmt: skip

    def alter_foreign(self, start: int) -> ast.Node:
        """After ALTER: FOREIGN TABLE | FOREIGN DATA WRAPPER"""
        if self.peek() == "table":
            self.expect("foreign")
            altered = self.alter_relation(start)
            kinds = (ast.AlterTableStmt, ast.RenameStmt, ast.AlterObjectSchemaStmt)
            if not isinstance(altered, kinds):
                return altered
            if isinstance(altered, ast.RenameStmt) and altered.kind in ("column", "constraint"):
                return replace(altered, of="foreign table")
            return replace(altered, kind="foreign table")
        self.expect("foreign", "data", "wrapper")
        name = self.column_name()
        if self._curr.key in ("rename", "owner"):
            return self.rename_or_own("foreign data wrapper", name, start)
        functions = self._wrapper_functions()
        options = self.foreign_changes() if self._curr.key == "options" else ()
        if not functions and not options:
            self.fail()
        return ast.ForeignWrapperStmt("alter", name, **functions, options=options, location=start)

    # ---- servers ----

    def create_server(self, start: int) -> ast.Node:
        """After CREATE."""
        self.expect("server")
        if_not_exists = self.if_not_exists()
        name = self.column_name()
        type_ = self.string() if self.accept("type") else None
        version = self._server_version()
        self.expect("foreign", "data", "wrapper")
        wrapper = self.column_name()
        return ast.ForeignServerStmt(
            "create", name, wrapper, type_, version, self.foreign_options(), if_not_exists, location=start
        )

    def _server_version(self) -> str | None:
        if not self.accept("version") or self.accept("null"):
            return None
        return self.string()

    def alter_server(self, start: int) -> ast.Node:
        """After ALTER."""
        self.expect("server")
        name = self.column_name()
        if self._curr.key in ("rename", "owner"):
            return self.rename_or_own("server", name, start)
        sets_version = self._curr.key == "version"
        version = self._server_version()
        options = self.foreign_changes() if self._curr.key == "options" or not sets_version else ()
        return ast.ForeignServerStmt(
            "alter", name, version=version, options=options, sets_version=sets_version, location=start
        )

    # ---- user mappings ----

    def user_mapping(self, start: int, action: str) -> ast.Node:
        """After CREATE, ALTER or DROP."""
        self.expect("user", "mapping")
        exists = False
        if action != "alter":
            exists = self.if_not_exists() if action == "create" else self.if_exists()
        self.expect("for")
        role = "current_user" if self.accept("user") else self.role_name()
        self.expect("server")
        server = self.column_name()
        options: tuple[ast.ForeignOption, ...] = ()
        if action == "create":
            options = self.foreign_options()
        elif action == "alter":
            options = self.foreign_changes()
        return ast.UserMappingStmt(action, role, server, options, exists, location=start)

    # ---- IMPORT ----

    def import_schema(self) -> ast.Node:
        """IMPORT FOREIGN SCHEMA schema [LIMIT TO | EXCEPT (...)] FROM SERVER server INTO schema [OPTIONS (...)]"""
        start = self.expect("import").start
        self.expect("foreign", "schema")
        schema = self.column_name()
        choice, tables = "", tuple[str, ...]()
        if self._curr.key in ("limit", "except"):
            choice = self.advance().key
            if choice == "limit":
                self.expect("to")
            self.expect("(")
            tables = tuple(relation.name for relation in self.relation_expressions())
            self.expect(")")
        self.expect("from", "server")
        server = self.column_name()
        self.expect("into")
        target = self.column_name()
        return ast.ImportForeignSchemaStmt(
            schema, server, target, choice, tables, self.foreign_options(), location=start
        )
