"""ALTER of tables, indexes, views, sequences, schemas, databases and tablespaces."""

from __future__ import annotations

from typing import Any, Final

from engine.sql import ast
from engine.sql.parser.roles import Roles

_SWITCHES: Final = {
    ("enable", "row", "level", "security"): "enable_row_security",
    ("disable", "row", "level", "security"): "disable_row_security",
    ("force", "row", "level", "security"): "force_row_security",
    ("no", "force", "row", "level", "security"): "no_force_row_security",
    ("set", "logged"): "set_logged",
    ("set", "unlogged"): "set_unlogged",
    ("set", "without", "cluster"): "cluster",
    ("set", "without", "oids"): "drop_oids",
}
_RELATION_KINDS: Final = {"table": "table", "index": "index", "view": "view", "sequence": "sequence"}


class Alterations(Roles):
    """AlterTableStmt, RenameStmt and similar statements."""

    def alter_relation(self, start: int) -> ast.Node:
        """ALTER TABLE | INDEX | VIEW | SEQUENCE | MATERIALIZED VIEW name ..."""
        if self.accept("materialized"):
            self.expect("view")
            kind = "matview"
        else:
            kind = _RELATION_KINDS[self.advance().key]
        if self._curr.key == "all" and self.peek() == "in":
            return self.skip_statement(f"ALTER {kind.upper()} ALL IN TABLESPACE", start)
        if_exists = self.if_exists()
        relation = self.relation_expression() if kind == "table" else self.qualified_name()
        key = self._curr.key
        if key == "rename":
            return self._rename_relation(kind, relation, if_exists, start)
        if key == "set" and self.peek() == "schema":
            self.expect("set", "schema")
            return ast.AlterObjectSchemaStmt(kind, relation, self.column_name(), if_exists, location=start)
        if key in ("depends", "no") and (self.peek() in ("on", "depends")):
            return self.skip_statement(f"ALTER {kind.upper()} DEPENDS ON EXTENSION", start)
        if kind == "sequence" and key not in ("owner", "set"):
            options = self.sequence_options()
            if not options:
                self.fail()
            return ast.SequenceStmt(relation, options, False, if_exists, location=start)
        if kind == "index" and key == "attach":
            self.expect("attach", "partition")
            attach = ast.AlterTableCmd("attach_partition", relation=self.qualified_name(), location=start)
            return ast.AlterTableStmt(kind, relation, (attach,), if_exists, location=start)
        commands = [self._command()]
        while self.accept(","):
            commands.append(self._command())
        return ast.AlterTableStmt(kind, relation, tuple(commands), if_exists, location=start)

    def _rename_relation(self, kind: str, relation: ast.RangeVar, if_exists: bool, start: int) -> ast.Node:
        self.expect("rename")
        if self.accept("to"):
            return ast.RenameStmt(kind, relation, None, self.column_name(), if_exists, location=start)
        what = "constraint" if self.accept("constraint") else "column"
        if what == "column":
            self.accept("column")
        name = self.column_name()
        self.expect("to")
        return ast.RenameStmt(what, relation, name, self.column_name(), if_exists, kind, location=start)

    # ---- commands ----

    def _command(self) -> ast.AlterTableCmd:
        """alter_table_cmd."""
        start = self._curr.start
        for words, action in _SWITCHES.items():
            if self.accept_words(*words):
                return ast.AlterTableCmd(action, location=start)
        key = self._curr.key
        if key == "add":
            return self._add(start)
        if key == "drop":
            return self._drop(start)
        if key == "alter":
            return self._alter(start)
        if key == "validate":
            self.expect("validate", "constraint")
            return ast.AlterTableCmd("validate_constraint", self.column_name(), location=start)
        if key == "owner":
            self.expect("owner", "to")
            return ast.AlterTableCmd("owner", value=self.role_name(), location=start)
        if key == "set":
            return self._set_storage(start)
        if self.accept("reset"):
            return ast.AlterTableCmd("reset_options", options=self.option_list(""), location=start)
        return self._rarer_command(start)

    def _set_storage(self, start: int) -> ast.AlterTableCmd:
        self.expect("set")
        if self.accept("tablespace"):
            return ast.AlterTableCmd("tablespace", value=self.column_name(), location=start)
        if self._curr.key == "access":
            self.expect("access", "method")
            self.refuse("SET ACCESS METHOD", start)
        return ast.AlterTableCmd("set_options", options=self.option_list(), location=start)

    def _rarer_command(self, start: int) -> ast.AlterTableCmd:
        key = self._curr.key
        if key in ("enable", "disable"):
            self.advance()
            when = self.optional_keyword("always", "replica") if key == "enable" else ""
            what = self.expect_one_of("trigger", "rule")
            every = what == "trigger" and not when and self._curr.key in ("all", "user")
            name = self.advance().key if every else self.column_name()
            return ast.AlterTableCmd(f"{key}_{what}", name, value="every" if every else when, location=start)
        if key == "cluster":
            self.expect("cluster", "on")
            return ast.AlterTableCmd("cluster", self.column_name(), location=start)
        if key == "replica":
            self.expect("replica", "identity")
            identity = self.expect_one_of("nothing", "full", "default", "using")
            if identity == "using":
                self.expect("index")
                return ast.AlterTableCmd("replica_identity", self.column_name(), value="index", location=start)
            return ast.AlterTableCmd("replica_identity", value=identity, location=start)
        if key in ("inherit", "no"):
            negated = self.accept("no")
            self.expect("inherit")
            action = "no_inherit" if negated else "inherit"
            return ast.AlterTableCmd(action, relation=self.qualified_name(), location=start)
        if key in ("attach", "detach"):
            self.advance()
            self.expect("partition")
            relation = self.qualified_name()
            if key == "attach":
                bound = self.partition_bound()
                return ast.AlterTableCmd("attach_partition", relation=relation, bound=bound, location=start)
            how = self._curr.key if self._curr.key in ("concurrently", "finalize") else None
            self.optional_keyword("concurrently", "finalize")
            return ast.AlterTableCmd("detach_partition", value=how, relation=relation, location=start)
        if key == "options":
            return ast.AlterTableCmd("foreign_options", foreign_options=self.foreign_changes(), location=start)
        if key in ("of", "not"):
            self.refuse(f"ALTER TABLE ... {key.upper()}", start)
        self.fail()

    def _add(self, start: int) -> ast.AlterTableCmd:
        self.expect("add")
        if self.at_table_constraint():
            at = self._curr.start
            constraint = self.table_constraint()
            return ast.AlterTableCmd(
                "add_constraint", constraint.name, constraint, definition_text=self.source(at), location=start
            )
        self.accept("column")
        if_not_exists = self.if_not_exists()
        at = self._curr.start
        column = self.column_definition()
        return ast.AlterTableCmd(
            "add_column",
            column.name,
            column,
            definition_text=self.source(at),
            if_not_exists=if_not_exists,
            location=start,
        )

    def _drop(self, start: int) -> ast.AlterTableCmd:
        self.expect("drop")
        action = "drop_constraint" if self.accept("constraint") else "drop_column"
        if action == "drop_column":
            self.accept("column")
        if_exists = self.if_exists()
        name = self.column_name()
        return ast.AlterTableCmd(action, name, if_exists=if_exists, cascade=self.drop_behavior(), location=start)

    def _alter(self, start: int) -> ast.AlterTableCmd:
        self.expect("alter")
        if self.accept("constraint"):
            name = self.column_name()
            attributes = self.constraint_attributes()
            return ast.AlterTableCmd("alter_constraint", name, options=attributes, location=start)
        self.accept("column")
        if self._curr.key == "ICONST":  # ALTER INDEX i ALTER COLUMN 1 SET STATISTICS 100
            name = self.advance().text
        else:
            name = self.column_name()
        key, following = self._curr.key, self.peek()
        if key == "type" or (key == "set" and following == "data"):
            return self._alter_type(name, start)
        if key == "set" and following == "default":
            self.expect("set", "default")
            at = self._curr.start
            expression = self.expression()
            return ast.AlterTableCmd("set_default", name, expression, self.source(at), location=start)
        if key == "drop":
            return self._alter_drop(name, start)
        if key == "add":
            return self._add_identity(name, start)
        if key == "reset":
            self.advance()
            return ast.AlterTableCmd("reset_options", name, options=self.option_list(""), location=start)
        if key == "restart":
            return self._set_identity(name, start)
        if key == "options":
            return ast.AlterTableCmd("foreign_options", name, foreign_options=self.foreign_changes(), location=start)
        self.expect("set")
        return self._alter_set(name, start)

    def _alter_type(self, name: str, start: int) -> ast.AlterTableCmd:
        if self.accept("set"):
            self.expect("data")
        self.expect("type")
        type_name = self.type_name()
        options: tuple[tuple[str, Any], ...] = ()
        if self.accept("collate"):
            options = (("collation", self.any_name()),)
        using, text = None, ""
        if self.accept("using"):
            at = self._curr.start
            using = self.expression()
            text = self.source(at)
        return ast.AlterTableCmd("alter_type", name, using, text, type_name, options=options, location=start)

    def _alter_drop(self, name: str, start: int) -> ast.AlterTableCmd:
        self.expect("drop")
        what = self.expect_one_of("default", "not", "identity", "expression")
        if what == "not":
            self.expect("null")
            return ast.AlterTableCmd("drop_not_null", name, location=start)
        if_exists = what in ("identity", "expression") and self.if_exists()
        return ast.AlterTableCmd(f"drop_{what}", name, if_exists=if_exists, location=start)

    def _add_identity(self, name: str, start: int) -> ast.AlterTableCmd:
        self.expect("add")
        at = self.expect("generated").start
        if self.accept("by"):
            self.expect("default")
            identity = "d"
        else:
            self.expect("always")
            identity = "a"
        self.expect("as", "identity")
        constraint = self._identity(None, identity, at)
        return ast.AlterTableCmd("add_identity", name, constraint, location=start)

    def _alter_set(self, name: str, start: int) -> ast.AlterTableCmd:
        """ALTER COLUMN name SET ..."""
        if self._curr.key == "not":
            self.expect("not", "null")
            return ast.AlterTableCmd("set_not_null", name, location=start)
        if self.accept("statistics"):
            return ast.AlterTableCmd("set_statistics", name, value=str(self.signed_integer()), location=start)
        if self.accept("storage"):
            return ast.AlterTableCmd("set_storage", name, value=self.column_name(), location=start)
        if self.accept("compression"):
            return ast.AlterTableCmd("set_compression", name, value=self.label(), location=start)
        if self._curr.key == "(":
            return ast.AlterTableCmd("set_options", name, options=self.option_list(), location=start)
        return self._set_identity(name, start, after_set=True)

    def _set_identity(self, name: str, start: int, *, after_set: bool = False) -> ast.AlterTableCmd:
        """alter_identity_column_option_list: RESTART [WITH n], SET sequence option, SET GENERATED ..."""
        options: list[tuple[str, Any]] = []
        while after_set or self._curr.key in ("set", "restart"):
            if self._curr.key == "restart" and not after_set:
                restart = self._sequence_option()
                assert restart is not None
                options.append(restart)
                continue
            if not after_set:
                self.expect("set")
            after_set = False
            if self.accept("generated"):
                if self.accept("by"):
                    self.expect("default")
                    options.append(("generated", "d"))
                else:
                    self.expect("always")
                    options.append(("generated", "a"))
                continue
            option = self._sequence_option()
            if option is None:
                self.fail()
            options.append(option)
        return ast.AlterTableCmd("set_identity", name, options=tuple(options), location=start)

    # ---- other objects ----

    def alter_schema(self, start: int) -> ast.Node:
        self.expect("schema")
        return self.rename_or_own("schema", self.column_name(), start)

    def rename_or_own(self, kind: str, name: str, start: int) -> ast.Node:
        if self.accept("rename"):
            self.expect("to")
            return ast.RenameStmt(kind, None, name, self.column_name(), location=start)
        self.expect("owner", "to")
        return ast.AlterOwnerStmt(kind, name, self.role_name(), location=start)

    def alter_database(self, start: int) -> ast.Node:
        self.expect("database")
        name = self.column_name()
        key, following = self._curr.key, self.peek()
        if key == "rename" or (key == "owner" and following == "to"):
            return self.rename_or_own("database", name, start)
        if key == "refresh":
            return self.skip_statement("ALTER DATABASE REFRESH COLLATION VERSION", start)
        if key == "set" and following == "tablespace":
            self.expect("set", "tablespace")
            return ast.AlterDatabaseStmt(name, (("tablespace", self.column_name()),), location=start)
        if key in ("set", "reset"):
            return ast.AlterDatabaseStmt(name, (), self.stored_setting(), location=start)
        self.accept("with")
        return ast.AlterDatabaseStmt(name, self.database_options(), location=start)

    def alter_tablespace(self, start: int) -> ast.Node:
        self.expect("tablespace")
        name = self.column_name()
        if self._curr.key in ("rename", "owner"):
            return self.rename_or_own("tablespace", name, start)
        reset = self._curr.key == "reset"
        self.expect_one_of("set", "reset")
        return ast.TablespaceStmt("alter", name, options=self.option_list(), reset=reset, location=start)
