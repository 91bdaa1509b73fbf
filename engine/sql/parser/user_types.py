"""CREATE TYPE AS ENUM, AS RANGE and AS (...), CREATE DOMAIN, and the ALTER statements of these. Other forms of CREATE
TYPE raise 0A000."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.sql import ast
from engine.sql.parser.alterations import Alterations


class UserTypes(Alterations):
    """DefineStmt (of types), CreateEnumStmt, CreateRangeStmt, AlterEnumStmt, CreateDomainStmt, AlterDomainStmt."""

    if TYPE_CHECKING:  # in subclasses

        def create_range(self, name: tuple[str, ...], start: int) -> ast.Node: ...

    def create_type(self, start: int) -> ast.Node:
        self.expect("type")
        name = self.any_name()
        if self.accept("as"):
            if self.accept("enum"):
                return ast.CreateEnumStmt(name, self._labels(), location=start)
            if self.accept("range"):
                return self.create_range(name, start)
            return ast.CompositeTypeStmt(name, self._attributes(), location=start)
        return self.skip_statement("CREATE TYPE of a base type", start)

    def _attributes(self) -> tuple[ast.ColumnDef, ...]:
        self.expect("(")
        found: list[ast.ColumnDef] = []
        if self._curr.key != ")":
            found.append(self._attribute())
            while self.accept(","):
                found.append(self._attribute())
        self.expect(")")
        return tuple(found)

    def _attribute(self) -> ast.ColumnDef:
        """TableFuncElement."""
        start = self._curr.start
        name = self.column_name()
        type_name = self.type_name()
        collation = self.any_name() if self.accept("collate") else ()
        return ast.ColumnDef(name, type_name, (), collation, location=start)

    def _alter_attributes(self, name: tuple[str, ...], start: int) -> ast.Node:
        """ADD, DROP, ALTER and RENAME ATTRIBUTE."""
        if self.accept("rename"):
            self.expect("attribute")
            old = self.column_name()
            self.expect("to")
            new = self.column_name()
            self.drop_behavior()
            return ast.AlterCompositeStmt(name, (ast.AlterTableCmd("rename", old, value=new),), location=start)
        commands = [self._attribute_command()]
        while self.accept(","):
            commands.append(self._attribute_command())
        return ast.AlterCompositeStmt(name, tuple(commands), location=start)

    def _attribute_command(self) -> ast.AlterTableCmd:
        start = self._curr.start
        action = self.expect_one_of("add", "drop", "alter")
        self.expect("attribute")
        if action == "add":
            command = ast.AlterTableCmd("add", definition=self._attribute(), location=start)
        elif action == "drop":
            if_exists = self.if_exists()
            command = ast.AlterTableCmd("drop", self.column_name(), if_exists=if_exists, location=start)
        else:
            column = self.column_name()
            if self.accept("set"):
                self.expect("data")
            self.expect("type")
            command = ast.AlterTableCmd("alter", column, type=self.type_name(), location=start)
            if self.accept("collate"):
                self.any_name()
        self.drop_behavior()
        return command

    def _labels(self) -> tuple[str, ...]:
        self.expect("(")
        labels: list[str] = []
        if self._curr.key != ")":
            labels.append(self.string())
            while self.accept(","):
                labels.append(self.string())
        self.expect(")")
        return tuple(labels)

    def alter_type(self, start: int) -> ast.Node:
        self.expect("type")
        name = self.any_name()
        if self._curr.key == "add" and self.peek() == "value":
            self.expect("add", "value")
            if_not_exists = self.if_not_exists()
            label = self.string()
            place = self.optional_keyword("before", "after")
            neighbor = self.string() if place else None
            return ast.AlterEnumStmt(name, None, label, place, neighbor, if_not_exists, location=start)
        if self._curr.key == "rename" and self.peek() == "value":
            self.expect("rename", "value")
            old = self.string()
            self.expect("to")
            return ast.AlterEnumStmt(name, old, self.string(), location=start)
        if self._curr.key == "set" and self.peek() == "(":
            return self.skip_statement("ALTER TYPE SET", start)
        return self._alter_any("type", name, start) or self._alter_attributes(name, start)

    def _alter_any(self, kind: str, name: tuple[str, ...], start: int) -> ast.Node | None:
        """RENAME TO, OWNER TO, SET SCHEMA."""
        if self._curr.key == "rename" and self.peek() == "to":
            self.expect("rename", "to")
            return ast.AlterTypeStmt(kind, name, "rename", self.column_name(), location=start)
        if self._curr.key == "owner":
            self.expect("owner", "to")
            return ast.AlterTypeStmt(kind, name, "owner", self.role_name(), location=start)
        if self._curr.key == "set" and self.peek() == "schema":
            self.expect("set", "schema")
            return ast.AlterTypeStmt(kind, name, "schema", self.column_name(), location=start)
        return None

    def create_collation(self, start: int) -> ast.Node:
        self.expect("collation")
        if_not_exists = self.if_not_exists()
        name = self.any_name()
        if self.accept("from"):
            return ast.CollationStmt(name, (), self.any_name(), if_not_exists, location=start)
        return ast.CollationStmt(name, self.option_list(), (), if_not_exists, location=start)

    def alter_collation(self, start: int) -> ast.Node:
        self.expect("collation")
        name = self.any_name()
        if self.accept("refresh"):
            self.expect("version")
            return ast.AlterTypeStmt("collation", name, "refresh", "", location=start)
        found = self._alter_any("collation", name, start)
        if found is None:
            self.fail()
        return found

    def create_domain(self, start: int) -> ast.Node:
        self.expect("domain")
        name = self.any_name()
        self.accept("as")
        type_name = self.type_name()
        constraints, collation = self.column_constraints()
        return ast.CreateDomainStmt(name, type_name, constraints, collation, location=start)

    def alter_domain(self, start: int) -> ast.Node:
        self.expect("domain")
        name = self.any_name()
        found = self._alter_any("domain", name, start)
        if found is not None:
            return found
        if self.accept("rename"):
            self.expect("constraint")
            old = self.column_name()
            self.expect("to")
            return ast.AlterDomainStmt(name, "rename_constraint", old, new_name=self.column_name(), location=start)
        if self.accept("validate"):
            self.expect("constraint")
            return ast.AlterDomainStmt(name, "validate_constraint", self.column_name(), location=start)
        if self.accept("add"):
            return ast.AlterDomainStmt(name, "add", definition=self.table_constraint(), location=start)
        if self.accept("set"):
            if self.accept("default"):
                return ast.AlterDomainStmt(name, "set_default", definition=self.expression(), location=start)
            self.expect("not", "null")
            return ast.AlterDomainStmt(name, "set_not_null", location=start)
        self.expect("drop")
        if self.accept("default"):
            return ast.AlterDomainStmt(name, "drop_default", location=start)
        if self._curr.key == "not":
            self.expect("not", "null")
            return ast.AlterDomainStmt(name, "drop_not_null", location=start)
        self.expect("constraint")
        if_exists = self.if_exists()
        constraint = self.column_name()
        return ast.AlterDomainStmt(
            name, "drop_constraint", constraint, if_exists=if_exists, cascade=self.drop_behavior(), location=start
        )

    # ---- statistics ----

    def create_statistics(self, start: int) -> ast.Node:
        """CreateStatsStmt."""
        self.expect("statistics")
        if_not_exists = self.if_not_exists()
        name = self.any_name()
        kinds: list[str] = []
        if self.accept("("):
            kinds.append(self.column_name())
            while self.accept(","):
                kinds.append(self.column_name())
            self.expect(")")
        self.expect("on")
        elements = [self._statistics_element()]
        while self.accept(","):
            elements.append(self._statistics_element())
        self.expect("from")
        sources = self.from_list()
        relations = tuple(item if isinstance(item, ast.RangeVar) else None for item in sources)
        return ast.CreateStatisticsStmt(name, tuple(kinds), tuple(elements), relations, if_not_exists, location=start)

    def _statistics_element(self) -> ast.Node:
        """stats_param: a column, a call of a function, or an expression in parentheses."""
        found = self.index_element()
        if found.name is not None:
            return ast.ColumnRef((found.name,), location=found.location)
        assert found.expression is not None
        return found.expression

    def alter_statistics(self, start: int) -> ast.Node:
        self.expect("statistics")
        if_exists = self.if_exists()
        name = self.any_name()
        if self._curr.key == "set" and self.peek() == "statistics":
            self.expect("set", "statistics")
            target = str(self.signed_integer())
            return ast.AlterStatisticsStmt(name, "target", target, if_exists, location=start)
        found = None if if_exists else self._alter_any("statistics", name, start)
        if not isinstance(found, ast.AlterTypeStmt):
            self.fail()
        return ast.AlterStatisticsStmt(name, found.action, found.value, location=start)
