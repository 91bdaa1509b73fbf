"""CREATE and ALTER TRIGGER and EVENT TRIGGER (CreateTrigStmt, CreateEventTrigStmt), CREATE RULE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.sql import ast
from engine.sql.parser.change_streams import ChangeStreams

_EVENTS: Final = ("insert", "delete", "update", "truncate")
_ATTRIBUTES: Final = ("deferrable", "not", "initially")


class Triggers(ChangeStreams):
    """CreateTrigStmt, CreateEventTrigStmt, RuleStmt."""

    if TYPE_CHECKING:

        def preparable_statement(self) -> ast.Node: ...

    def create_trigger(self, start: int, *, replace: bool) -> ast.Node:
        """From [CONSTRAINT] TRIGGER on."""
        constraint = self.accept("constraint")
        self.expect("trigger")
        name = self.column_name()
        timing = "after"
        if constraint:
            self.expect("after")
        else:
            timing = self.expect_one_of("before", "after", "instead")
            if timing == "instead":
                self.expect("of")
        events, columns = self._events()
        self.expect("on")
        relation = self.qualified_name()
        references: ast.RangeVar | None = None
        deferrable = deferred = False
        transitions: tuple[tuple[bool, bool, str], ...] = ()
        if constraint:
            if self.accept("from"):
                references = self.qualified_name()
            deferrable, deferred = self._deferral()
        elif self.accept("referencing"):
            transitions = self._transitions()
        for_row = self._for_each(constraint)
        condition: ast.Node | None = None
        if self.accept("when"):
            self.expect("(")
            condition = self.expression()
            self.expect(")")
        self.expect("execute")
        self.expect_one_of("function", "procedure")
        function = self.any_name()
        self.expect("(")
        arguments: list[str] = []
        while self._curr.key != ")":
            arguments.append(self._argument())
            if not self.accept(","):
                break
        self.expect(")")
        return ast.CreateTriggerStmt(
            name, timing, events, columns, relation, for_row, function, tuple(arguments), condition, transitions,
            replace, constraint, references, deferrable, deferred, location=start,
        )  # fmt: skip

    def _events(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """INSERT OR UPDATE OF a, b OR ...: the events, and the columns."""
        events: list[str] = []
        columns: tuple[str, ...] = ()
        while True:
            at = self._curr
            event = self.expect_one_of(*_EVENTS)
            if event in events:
                near = self.sql[at.start : at.end]
                self.complain(f'duplicate trigger events specified at or near "{near}"', at.start)
            events.append(event)
            if event == "update" and self.accept("of"):
                columns = self.names()
            if not self.accept("or"):
                return tuple(events), columns

    def _deferral(self) -> tuple[bool, bool]:
        """ConstraintAttributeSpec: whether it is deferrable, and initially deferred."""
        deferrable: bool | None = None
        deferred: bool | None = None
        while self._curr.key in _ATTRIBUTES:
            at = self._curr.start
            if self.accept("initially"):
                found = self.expect_one_of("deferred", "immediate") == "deferred"
                if deferred is not None and deferred != found:
                    self.complain("conflicting constraint properties", at)
                deferred = found
                continue
            negated = self.accept("not")
            if negated and self._curr.key == "valid":
                self.complain("TRIGGER constraints cannot be marked NOT VALID", at, "0A000")
            self.expect("deferrable")
            if deferrable is not None and deferrable == negated:
                self.complain("conflicting constraint properties", at)
            deferrable = not negated
        if deferred and deferrable is False:
            self.complain("conflicting constraint properties", -1)
        return bool(deferrable or deferred), bool(deferred)

    def _transitions(self) -> tuple[tuple[bool, bool, str], ...]:
        """OLD TABLE AS name NEW TABLE AS name"""
        found: list[tuple[bool, bool, str]] = []
        while self._curr.key in ("old", "new"):
            is_new = self.advance().key == "new"
            is_table = self.expect_one_of("table", "row") == "table"
            self.accept("as")
            found.append((is_new, is_table, self.column_name()))
        if not found:
            self.fail()
        return tuple(found)

    def _for_each(self, constraint: bool) -> bool:
        if constraint:
            self.expect("for", "each", "row")
            return True
        if not self.accept("for"):
            return False
        self.accept("each")
        return self.expect_one_of("row", "statement") == "row"

    def _argument(self) -> str:
        if self._curr.key in ("ICONST", "FCONST", "SCONST"):
            return self.advance().text
        return self.label()

    def create_rule(self, start: int, *, replace: bool) -> ast.Node:
        """From RULE on (RuleStmt)."""
        self.expect("rule")
        name = self.column_name()
        self.expect("as", "on")
        event = self.expect_one_of("select", "update", "delete", "insert")
        self.expect("to")
        relation = self.qualified_name()
        condition = self.expression() if self.accept("where") else None
        self.expect("do")
        instead = self.optional_keyword("also", "instead") == "instead"
        actions: list[ast.Node] = []
        if self.accept("nothing"):
            pass
        elif self._curr.key == "(" and self.peek() not in ("select", "values", "with", "("):
            self.advance()
            while self._curr.key != ")":
                if not self.accept(";"):
                    actions.append(self._rule_action())
                    if self._curr.key not in (";", ")"):
                        self.fail()
            self.expect(")")
        elif self._curr.key == "(":
            return self.skip_statement("a rule with SELECT as an action", start)
        else:
            actions.append(self._rule_action())
        return ast.CreateRuleStmt(name, event, relation, condition, instead, tuple(actions), replace, location=start)

    def _rule_action(self) -> ast.Node:
        if self._curr.key == "notify":
            self.refuse("a rule with NOTIFY as an action", self._curr.start)
        return self.preparable_statement()

    def create_event_trigger(self, start: int) -> ast.Node:
        """From EVENT TRIGGER on."""
        self.expect("event", "trigger")
        name = self.column_name()
        self.expect("on")
        event = self.label()
        filters: list[tuple[str, tuple[str, ...]]] = []
        if self.accept("when"):
            while True:
                variable = self.column_name()
                self.expect("in", "(")
                values = [self.string()]
                while self.accept(","):
                    values.append(self.string())
                self.expect(")")
                filters.append((variable, tuple(values)))
                if not self.accept("and"):
                    break
        self.expect("execute")
        self.expect_one_of("function", "procedure")
        function = self.any_name()
        self.expect("(", ")")
        return ast.CreateEventTriggerStmt(name, event, tuple(filters), function, location=start)

    def alter_event_trigger(self, start: int) -> ast.Node:
        """From EVENT TRIGGER on."""
        self.expect("event", "trigger")
        name = self.column_name()
        if self.accept("disable"):
            return ast.AlterEventTriggerStmt(name, "enable", "D", location=start)
        if self.accept("enable"):
            mode = self.optional_keyword("replica", "always")
            value = {"replica": "R", "always": "A"}.get(mode, "O")
            return ast.AlterEventTriggerStmt(name, "enable", value, location=start)
        action = self.expect_one_of("rename", "owner")
        self.expect("to")
        value = self.column_name() if action == "rename" else self.role_name()
        return ast.AlterEventTriggerStmt(name, action, value, location=start)

    def alter_rule(self, start: int) -> ast.Node:
        """ALTER RULE name ON relation RENAME TO name"""
        self.expect("rule")
        name = self.column_name()
        self.expect("on")
        relation = self.qualified_name()
        self.expect("rename", "to")
        return ast.RenameStmt("rule", relation, name, self.column_name(), location=start)

    def alter_trigger(self, start: int) -> ast.Node:
        """ALTER TRIGGER name ON table RENAME TO name"""
        self.expect("trigger")
        name = self.column_name()
        self.expect("on")
        relation = self.qualified_name()
        if self._curr.key in ("no", "depends"):
            return self.skip_statement("ALTER TRIGGER DEPENDS ON EXTENSION", start)
        self.expect("rename", "to")
        return ast.RenameStmt("trigger", relation, name, self.column_name(), location=start)
