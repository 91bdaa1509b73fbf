"""CREATE, ALTER and DROP CHANGE STREAM, which are Shoal's own; docs/change-streams.md has the syntax."""

from __future__ import annotations

from engine.sql import ast
from engine.sql.parser.definitions import Definitions


class ChangeStreams(Definitions):
    """ChangeStreamStmt. CHANGE and STREAM are words only in these statements, and are not reserved as names."""

    def accept_change_stream(self) -> bool:
        """Takes CHANGE STREAM if that comes next."""
        if self._curr.key != "IDENT" or self._curr.text != "change" or self._tokens[self._index + 1].text != "stream":
            return False
        self.advance()
        self.advance()
        return True

    def create_change_stream(self, start: int) -> ast.Node:
        """After CREATE CHANGE STREAM."""
        if_not_exists = self.if_not_exists()
        name = self.column_name()
        self.expect("for")
        tables: tuple[ast.RangeVar, ...] | None = None
        tablespace = None
        if self.accept("all"):
            self.expect("tables")
            if self.accept("in"):
                self.expect("tablespace")
                tablespace = self.column_name()
        else:
            self.expect("table")
            tables = self.qualified_names()
        options = self.option_list() if self.accept("with") else ()
        return ast.ChangeStreamStmt(
            "create", (name,), tables, tablespace, options, if_exists=if_not_exists, location=start
        )

    def alter_change_stream(self, start: int) -> ast.Node:
        """After ALTER CHANGE STREAM."""
        name = self.column_name()
        action = self.expect_one_of("add", "drop", "set", "rename", "owner")
        if action in ("add", "drop"):
            self.expect("table")
            action = "add" if action == "add" else "remove"
            return ast.ChangeStreamStmt(action, (name,), self.qualified_names(), location=start)
        if action == "set":
            return ast.ChangeStreamStmt("set", (name,), options=self.option_list(), location=start)
        self.expect("to")
        value = self.column_name() if action == "rename" else self.role_name()
        return ast.ChangeStreamStmt(action, (name,), value=value, location=start)

    def drop_change_streams(self, start: int) -> ast.Node:
        """After DROP CHANGE STREAM."""
        if_exists = self.if_exists()
        names = [self.column_name()]
        while self.accept(","):
            names.append(self.column_name())
        self.drop_behavior()  # no object depends on a change stream
        return ast.ChangeStreamStmt("drop", tuple(names), if_exists=if_exists, location=start)
