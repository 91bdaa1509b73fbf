"""CREATE POLICY and ALTER POLICY. DROP POLICY is with the other objects of tables (code_objects.py)."""

from __future__ import annotations

from catalog.errors import SqlError
from engine.sql import ast
from engine.sql.parser.change_streams import ChangeStreams

_COMMANDS = ("all", "select", "insert", "update", "delete")


class Policies(ChangeStreams):
    """CreatePolicyStmt, AlterPolicyStmt."""

    def create_policy(self, start: int) -> ast.Node:
        self.expect("policy")
        name = self.column_name()
        self.expect("on")
        relation = self.qualified_name()
        permissive = self._permissive() if self.accept("as") else True
        command = self.expect_one_of(*_COMMANDS) if self.accept("for") else "all"
        roles = self.role_names() if self.accept("to") else ()
        return ast.CreatePolicyStmt(
            name, relation, permissive, command, roles, self._condition("using"), self._with_check(), location=start
        )

    def _permissive(self) -> bool:
        token = self._curr
        if token.key != "IDENT":
            self.fail()
        if token.text not in ("permissive", "restrictive"):
            raise SqlError(
                "42601",
                f'unrecognized row security option "{token.text}"',
                hint="Only PERMISSIVE or RESTRICTIVE policies are supported currently.",
                position=token.start + 1,
            )
        return self.advance().text == "permissive"

    def alter_policy(self, start: int) -> ast.Node:
        self.expect("policy")
        if_exists = self.if_exists()
        name = self.column_name()
        self.expect("on")
        relation = self.qualified_name()
        if if_exists or self._curr.key == "rename":
            self.expect("rename", "to")
            return ast.RenameStmt("policy", relation, name, self.column_name(), if_exists, "policy", location=start)
        roles = self.role_names() if self.accept("to") else None
        return ast.AlterPolicyStmt(name, relation, roles, self._condition("using"), self._with_check(), location=start)

    def _with_check(self) -> ast.Node | None:
        if not self.accept("with"):
            return None
        if self._curr.key != "check":
            self.fail()
        return self._condition("check")

    def _condition(self, word: str) -> ast.Node | None:
        """word (expression), if the word comes next."""
        if not self.accept(word):
            return None
        self.expect("(")
        found = self.expression()
        self.expect(")")
        return found
