"""CREATE, ALTER and DROP EXTENSION."""

from __future__ import annotations

from engine.sql import ast
from engine.sql.parser.user_types import UserTypes


class CodeObjects(UserTypes):
    """CreateExtensionStmt, AlterExtensionStmt."""

    def create_extension(self, start: int) -> ast.Node:
        self.expect("extension")
        if_not_exists = self.if_not_exists()
        name = self.column_name()
        self.accept("with")
        given: dict[str, str] = {}
        cascade = False
        while self._curr.key in ("schema", "version", "cascade"):
            at = self._curr.start
            option = self.advance().key
            if option in given or (option == "cascade" and cascade):
                self.complain("conflicting or redundant options", at)
            if option == "cascade":
                cascade = True
            elif option == "schema":
                given[option] = self.column_name()
            else:
                given[option] = self._version()
        return ast.ExtensionStmt(
            "create", (name,), given.get("schema"), given.get("version"), if_not_exists, cascade, location=start
        )

    def _version(self) -> str:
        return self.string() if self._curr.key == "SCONST" else self.label()

    def alter_extension(self, start: int) -> ast.Node:
        self.expect("extension")
        name = self.column_name()
        action = self.expect_one_of("update", "set", "add", "drop")
        if action == "update":
            version = self._version() if self.accept("to") else None
            return ast.ExtensionStmt("update", (name,), version=version, location=start)
        if action == "set":
            self.expect("schema")
            return ast.ExtensionStmt("schema", (name,), self.column_name(), location=start)
        return self.skip_statement(f"ALTER EXTENSION {action.upper()}", start)

    def drop_extension(self, start: int) -> ast.Node:
        """After DROP EXTENSION."""
        if_exists = self.if_exists()
        names = [self.column_name()]
        while self.accept(","):
            names.append(self.column_name())
        cascade = self.drop_behavior()
        return ast.ExtensionStmt("drop", tuple(names), if_exists=if_exists, cascade=cascade, location=start)
