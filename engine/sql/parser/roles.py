"""Roles (also spelled USER and GROUP), GRANT and REVOKE."""

from __future__ import annotations

from typing import Any, Final

from engine.sql import ast
from engine.sql.parser.objects import Objects

_FLAGS: Final = ("superuser", "createrole", "replication", "createdb", "login", "bypassrls")
_ROLE_FLAGS: Final = {
    **{flag: (flag, True) for flag in _FLAGS},
    **{f"no{flag}": (flag, False) for flag in _FLAGS},
    "noinherit": ("inherit", False),
}
_OBJECT_KINDS: Final = ("table", "sequence", "database", "domain", "language", "schema", "tablespace", "type")
_FUNCTION_KINDS: Final = ("function", "procedure", "routine")
_ALL_IN_SCHEMA: Final = ("tables", "sequences", "functions", "procedures", "routines")


class Roles(Objects):
    """CREATE, ALTER and DROP ROLE; privileges."""

    # ---- roles ----

    def create_role(self, start: int) -> ast.Node:
        kind = self.expect_one_of("role", "user", "group")
        names = (self.role_id(),)
        self.accept("with")
        options: list[tuple[str, Any]] = []
        while (option := self._role_option(creating=True)) is not None:
            options.append(option)
        return ast.RoleStmt("create", kind, names, tuple(options), location=start)

    def alter_role(self, start: int) -> ast.Node:
        """ALTER ROLE | USER | GROUP: options, SET and RESET, RENAME, members of a group."""
        kind = self.expect_one_of("role", "user", "group")
        names = () if self.accept("all") else (self.role_name(),)
        if names and self._curr.key == "rename":
            self.expect("rename", "to")
            return ast.RenameStmt("role", None, names[0], self.role_id(), location=start)
        if kind == "group" and self._curr.key in ("add", "drop"):
            action = self.advance().key
            self.expect("user")
            members = self.role_names()
            return ast.RoleStmt("alter", kind, names, ((f"{action}_members", members),), location=start)
        options: list[tuple[str, Any]] = []
        if self._curr.key == "in":
            self.expect("in", "database")
            options.append(("in_database", self.column_name()))
        if self._curr.key in ("set", "reset") or not names or options:
            setting = self.stored_setting()
            return ast.RoleStmt("alter", kind, names, tuple(options), setting, location=start)
        self.accept("with")
        while (option := self._role_option(creating=False)) is not None:
            options.append(option)
        return ast.RoleStmt("alter", kind, names, tuple(options), location=start)

    def stored_setting(self) -> ast.SetStmt:
        """SetResetClause: the SET or RESET of ALTER ROLE and ALTER DATABASE."""
        start = self._curr.start
        if self.accept("reset"):
            return self.reset_rest(start)
        self.expect("set")
        return self.setting(start, local=False)

    def drop_role(self, start: int) -> ast.Node:
        kind = self.expect_one_of("role", "user", "group")
        if_exists = self.if_exists()
        return ast.RoleStmt("drop", kind, self.role_names(), if_exists=if_exists, location=start)

    def _role_option(self, *, creating: bool) -> tuple[str, Any] | None:
        token = self._curr
        key = token.key
        if key in ("password", "encrypted"):
            self.accept("encrypted")
            self.expect("password")
            return "password", None if key == "password" and self.accept("null") else self.string()
        if key == "unencrypted":
            self.expect("unencrypted", "password")
            self.string()
            self.complain("UNENCRYPTED PASSWORD is no longer supported", token.start, "0A000")
        if key == "inherit":
            self.advance()
            return "inherit", True
        if key == "connection":
            self.expect("connection", "limit")
            return "connection_limit", self.signed_integer()
        if key == "valid":
            self.expect("valid", "until")
            return "valid_until", self.string()
        if key == "IDENT":
            if token.text not in _ROLE_FLAGS:
                self.complain(f'unrecognized role option "{token.text}"', token.start)
            self.advance()
            return _ROLE_FLAGS[token.text]
        if key == "user" or (creating and key in ("admin", "role")):
            self.advance()
            return "admin" if key == "admin" else "role", self.role_names()
        if creating and key == "sysid":
            self.advance()
            return "sysid", self.integer()
        if creating and key == "in":
            self.advance()
            self.expect_one_of("role", "group")
            return "in_role", self.role_names()
        return None

    # ---- privileges ----

    def grant(self) -> ast.Node:
        """GRANT and REVOKE."""
        token = self.advance()
        is_grant = token.key == "grant"
        option_for = False
        if not is_grant and self._curr.key in ("grant", "admin") and self.peek() == "option":
            self.advance()
            self.expect("option", "for")
            option_for = True
        privileges = self._privileges()
        objects: tuple[tuple[str, ...], ...] = ()
        signatures: tuple[ast.FunctionSignature, ...] = ()
        kind = "role"
        if self.accept("on"):
            kind, objects = self._privilege_target()
            if kind in _FUNCTION_KINDS:
                signatures = self.function_signatures()
        elif any(columns for _, columns in privileges):
            self.fail()
        self.expect("to" if is_grant else "from")
        grantees = self._grantees()
        if is_grant and self.accept("with"):
            self.expect("admin" if kind == "role" else "grant", "option")
            option_for = True
        granted_by = None
        if self.accept("granted"):
            self.expect("by")
            granted_by = self.role_name()
        cascade = not is_grant and self.drop_behavior()
        return ast.GrantStmt(
            is_grant, kind, privileges, objects, grantees, option_for, cascade, granted_by, signatures,
            location=token.start,
        )  # fmt: skip

    def default_privileges(self, start: int) -> ast.Node:
        """After ALTER: DEFAULT PRIVILEGES [FOR ROLE ...] [IN SCHEMA ...] GRANT | REVOKE ..."""
        self.expect("default", "privileges")
        roles: tuple[str, ...] = ()
        schemas: tuple[str, ...] = ()
        while self._curr.key in ("for", "in"):
            if self.accept("for"):
                self.expect_one_of("role", "user")
                roles += self.role_names()
            else:
                self.expect("in", "schema")
                schemas += self.names()
        is_grant = self.expect_one_of("grant", "revoke") == "grant"
        option_for = False
        if not is_grant and self._curr.key == "grant" and self.peek() == "option":
            self.expect("grant", "option", "for")
            option_for = True
        privileges = self._privileges()
        self.expect("on")
        kind = self.expect_one_of("tables", "sequences", "functions", "routines", "types", "schemas")
        self.expect("to" if is_grant else "from")
        grantees = self._grantees()
        if is_grant and self.accept("with"):
            self.expect("grant", "option")
            option_for = True
        cascade = not is_grant and self.drop_behavior()
        grant = ast.GrantStmt(is_grant, kind, privileges, (), grantees, option_for, cascade, location=start)
        return ast.DefaultPrivilegesStmt(roles, schemas, grant, location=start)

    def _grantees(self) -> tuple[str, ...]:
        names = []
        while True:
            self.accept("group")
            names.append(self.role_name())
            if not self.accept(","):
                return tuple(names)

    def _privileges(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Privileges or roles; only a following ON distinguishes them."""
        if self.accept("all"):
            self.accept("privileges")
            return (("all", self.optional_names_in_parentheses()),)
        items = []
        while True:
            key = self._curr.key
            if key in ("select", "references", "create"):
                name = self.advance().key
            elif key == "alter" and self.peek() == "system":
                self.expect("alter", "system")
                name = "alter system"
            else:
                name = self.column_name()
            items.append((name, self.optional_names_in_parentheses()))
            if not self.accept(","):
                return tuple(items)

    def _privilege_target(self) -> tuple[str, tuple[tuple[str, ...], ...]]:
        key, following = self._curr.key, self.peek()
        if key == "all":
            self.advance()
            if self._curr.key not in _ALL_IN_SCHEMA:
                self.fail()
            what = self.advance().key
            self.expect("in", "schema")
            return f"all_{what}", tuple((name,) for name in self.names())
        names_end = (".", ",", "to", "from")  # then the word is a table's name
        if key in _OBJECT_KINDS and (key == "table" or following not in names_end):
            self.advance()
            return key, self.any_names()
        if key in _FUNCTION_KINDS and following not in names_end:
            return self.advance().key, ()  # their signatures follow
        if key == "foreign":
            self.advance()
            foreign = "server" if self.accept("server") else "foreign data wrapper"
            if foreign != "server":
                self.expect("data", "wrapper")
            return foreign, tuple((name,) for name in self.names())
        if key == "parameter" and following not in names_end:
            self.advance()
            return key, self.any_names()
        if key == "large" and following not in names_end:
            self.refuse(f"GRANT ON {key.upper()}", self._curr.start)
        return "table", self.any_names()
