"""Statements of PL/pgSQL that run SQL, or hold a cursor (PostgreSQL manual, 43.5 and 43.7)."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from catalog.types import oids
from engine.sql import ast
from engine.sql.parser import parse_expression
from engine.sql.plpgsql.declarations import Declarations
from engine.sql.plpgsql.scope import VariableScope
from engine.sql.plpgsql.tree import (
    Assign,
    CloseCursor,
    CursorQuery,
    Fetch,
    Fragment,
    GetDiagnostics,
    OpenCursor,
    PlStatement,
    RunDynamic,
    RunSql,
    Target,
    Variable,
)

STACKED_ITEMS = frozenset(
    ("returned_sqlstate", "column_name", "constraint_name", "pg_datatype_name", "message_text", "table_name",
     "schema_name", "pg_exception_detail", "pg_exception_hint", "pg_exception_context")
)  # fmt: skip
CURRENT_ITEMS = frozenset(("row_count", "pg_context"))
MOST_TARGETS = 1024


class SqlStatements(Declarations):
    """Reads them."""

    # ---- targets ----------------------------------------------------------------------------------------------------

    def refuse_unknown(self, names: tuple[str, ...], offset: int) -> NoReturn:
        """42601: a word where a variable must be."""
        self.complain(f'"{".".join(names)}" is not a known variable', offset)

    def target(self, scope: VariableScope) -> Target:
        """A variable or a field of one, which a value goes to."""
        token, names = self.token, self.names_ahead()
        if not names:
            self.fail_near()
        found = scope.find(names)
        if found is None:
            self.refuse_unknown(names, token.start)
        for _ in range(2 * len(names) - 1):
            self.advance()
        self.check_assignable(found[0], token.start)
        return Target(found[0], names[found[1] :])

    def check_assignable(self, variable: Variable, offset: int) -> None:
        """Raises 22005 for a constant."""
        if variable.constant:
            self.complain(f'variable "{variable.name}" is declared CONSTANT', offset, "22005")

    def targets(self, scope: VariableScope) -> tuple[Target, ...]:
        """What stands behind INTO: one record, or scalar variables."""
        first = self.target(scope)
        if is_record(first):
            if self.word == ",":
                self.complain("record variable cannot be part of multiple-item INTO list", self.token.start)
            return (first,)
        found = [first]
        while self.word == ",":
            if len(found) >= MOST_TARGETS:
                self.complain("too many INTO variables specified", self.token.start, "54000")
            self.advance()
            token = self.token
            item = self.target(scope)
            if is_record(item):
                self.complain(f'"{item.variable.name}" is not a scalar variable', token.start)
            found.append(item)
        return tuple(found)

    def assignment(self, scope: VariableScope, variable: Variable, named: int) -> PlStatement:
        """target := value; where the first `named` names are the variable."""
        line, at = self.line, self.token.start
        self.check_assignable(variable, at)
        start, stop = self.skip_to((":=", "=", ";"), "SQL expression")
        if self.word == ";":
            self.fail_near()
        steps = self._steps(start, stop, named)
        self.advance()
        value = self.expression_or_nothing(scope)
        value = replace(value, kind="PL/pgSQL assignment", target=self.body[start : value.offset])
        self.expect(";")
        return Assign(Target(variable, steps), value, line=line)

    def _steps(self, start: int, stop: int, named: int) -> tuple[ast.Subscript | str, ...]:
        """The fields and subscripts behind the variable's name."""
        text = self.body[start:stop]
        node = self._at(start, text, lambda: parse_expression(text))
        steps: list[ast.Subscript | str] = []
        if isinstance(node, ast.Indirection):
            steps.extend(node.steps)
            node = node.argument
        if not isinstance(node, ast.ColumnRef):
            self.fail_near()
        return (*node.names[named:], *steps)

    # ---- SQL --------------------------------------------------------------------------------------------------------

    def sql(self, scope: VariableScope) -> PlStatement:
        """An SQL statement, up to its semicolon. Its INTO clause goes to variables."""
        line, start, first = self.line, self.token.start, self.word
        names = self.names_ahead()
        if names and self.peek(2 * len(names) - 1) in ("=", ":=", "[", "."):
            self.refuse_unknown(names, start)
        into: tuple[Target, ...] = ()
        strict, between, depth, before, stop = False, (0, 0), 0, "", start
        while self.word != ";" or depth:
            word = self.word
            if self.token.key == "":
                self.fail_near("unexpected end of function definition")
            if word == "into" and before not in ("insert", "merge") and first != "import":
                if into:
                    self.fail_near("INTO specified more than once")
                low = self.advance().start
                strict = self.accept("strict")
                into = self.targets(scope)
                between = low, self.token.start
                before = ""
                continue
            depth += (word == "(") - (word == ")")
            before, stop = word, self.advance().end
        stop = max(stop, between[1])
        statement = self.statement_between(start, stop, scope, between)
        self.expect(";")
        return RunSql(statement, into, strict, line=line)

    def perform(self, scope: VariableScope) -> PlStatement:
        """PERFORM query;"""
        line = self.line
        self.expect("perform")
        query = replace(self.expression_or_nothing(scope), kind="SQL statement", target="SELECT ")
        self.expect(";")
        return RunSql(query, perform=True, line=line)

    def execute(self, scope: VariableScope) -> PlStatement:
        """EXECUTE text [INTO [STRICT] target] [USING values];"""
        line = self.line
        self.expect("execute")
        text = self.expression(scope, "into", "using", ";")
        into: tuple[Target, ...] = ()
        using: tuple[Fragment, ...] = ()
        strict = False
        while not self.accept(";"):
            if self.word == "into" and not into:
                self.advance()
                strict = self.accept("strict")
                into = self.targets(scope)
            elif self.word == "using" and not using:
                using = self.using(scope, ";", "into")
            else:
                self.fail_near()
        return RunDynamic(text, into, strict, using, line=line)

    def using(self, scope: VariableScope, *ends: str) -> tuple[Fragment, ...]:
        """[USING value, ...]"""
        if not self.accept("using"):
            return ()
        found = [self.expression(scope, ",", *ends)]
        while self.accept(","):
            found.append(self.expression(scope, ",", *ends))
        return tuple(found)

    def get_diagnostics(self, scope: VariableScope) -> PlStatement:
        """GET [CURRENT | STACKED] DIAGNOSTICS target = item, ...;"""
        line = self.line
        self.expect("get")
        stacked = self.accept("stacked")
        if not stacked:
            self.accept("current")
        self.expect("diagnostics")
        items: list[tuple[Target, str]] = []
        while True:
            token = self.token
            target = self.target(scope)
            if is_record(target):
                self.complain(f'"{target.variable.name}" is not a scalar variable', token.start)
            if not self.accept(":="):
                self.expect("=")
            item = self.word
            if item not in STACKED_ITEMS | CURRENT_ITEMS:
                self.fail_near("unrecognized GET DIAGNOSTICS item")
            if item not in (STACKED_ITEMS if stacked else CURRENT_ITEMS):
                kind = "STACKED" if stacked else "CURRENT"
                shown = item.upper()
                self.complain(f"diagnostics item {shown} is not allowed in GET {kind} DIAGNOSTICS", token.start)
            self.advance()
            items.append((target, item))
            if not self.accept(","):
                break
        self.expect(";")
        return GetDiagnostics(stacked, tuple(items), line=line)

    # ---- cursors ----------------------------------------------------------------------------------------------------

    def cursor_variable(self, scope: VariableScope) -> Variable:
        """A variable of type refcursor. Raises 42804 for another one."""
        token, names = self.token, self.names_ahead()
        found = scope.find(names) if names else None
        if found is None:
            if names:
                self.refuse_unknown(names, token.start)
            self.fail_near()
        for _ in range(2 * len(names) - 1):
            self.advance()
        variable, named = found
        if named != len(names) or variable.is_record:
            self.complain("cursor variable must be a simple variable", token.start, "42804")
        if variable.type is None or variable.type.oid != oids.REFCURSOR:
            message = f'variable "{variable.name}" must be of type cursor or refcursor'
            self.complain(message, token.start, "42804")
        return variable

    def open_cursor(self, scope: VariableScope) -> PlStatement:
        """OPEN cursor [[NO] SCROLL] FOR query, OPEN cursor [(arguments)]"""
        line = self.line
        self.expect("open")
        cursor = self.cursor_variable(scope)
        if cursor.cursor is not None:
            arguments = self.cursor_arguments(scope, cursor, cursor.cursor, ";")
            self.expect(";")
            return OpenCursor(cursor, None, False, (), arguments, cursor.cursor.scroll, line=line)
        scroll = self.scroll()
        if not self.accept("for"):
            self.fail_near('syntax error, expected "FOR"')
        using: tuple[Fragment, ...] = ()
        dynamic = self.accept("execute")
        if dynamic:
            query = self.expression(scope, "using", ";")
            using = self.using(scope, ";")
        else:
            start, stop = self.skip_to((";",), "SQL statement")
            query = self.statement_between(start, stop, scope)
        self.expect(";")
        return OpenCursor(cursor, query, dynamic, using, (), scroll, line=line)

    def cursor_arguments(
        self, scope: VariableScope, cursor: Variable, bound: CursorQuery, end: str
    ) -> tuple[Fragment, ...]:
        """[(value, name := value, ...)], in the order of the cursor's parameters."""
        at, name = self.token.start, cursor.name
        if not bound.parameters:
            if self.word == "(":
                self.complain(f'cursor "{name}" has no arguments', at)
            if self.word != end:
                self.fail_near()
            return ()
        if not self.accept("("):
            self.complain(f'cursor "{name}" has arguments', at)
        names = [parameter.name for parameter in bound.parameters]
        given: dict[int, Fragment] = {}
        while True:
            at, position = self.token.start, len(given)
            if self.peek() in (":=", "=>") and self.at_name():
                chosen = self.advance().text
                if chosen not in names:
                    self.complain(f'cursor "{name}" has no argument named "{chosen}"', at)
                position = names.index(chosen)
                self.advance()
            if position >= len(names):
                self.complain(f'too many arguments for cursor "{name}"', at)
            if position in given:
                message = f'value for parameter "{names[position]}" of cursor "{name}" specified more than once'
                self.complain(message, at)
            given[position] = self.expression(scope, ",", ")")
            if not self.accept(","):
                break
        if len(given) < len(names):
            self.complain(f'not enough arguments for cursor "{name}"', self.token.start)
        self.expect(")")
        if self.word != end:
            self.fail_near()
        return tuple(given[position] for position in range(len(names)))

    def fetch(self, scope: VariableScope) -> PlStatement:
        """FETCH [direction {FROM | IN}] cursor INTO target, and MOVE without INTO"""
        line, at = self.line, self.token.start
        move = self.advance().text.lower() == "move"
        direction, count, every, several = self._direction(scope)
        cursor = self.cursor_variable(scope)
        into: tuple[Target, ...] = ()
        if not move:
            self.expect("into")
            into = self.targets(scope)
            if several:
                self.complain("FETCH statement cannot return multiple rows", at, "0A000")
        self.expect(";")
        return Fetch(cursor, direction, count, every, into, move, line=line)

    def _direction(self, scope: VariableScope) -> tuple[str, Fragment | None, bool, bool]:
        """(direction, count, whether ALL, whether it may be several rows), up to the cursor."""
        word = self.word
        count: Fragment | None
        if word in ("next", "prior", "first", "last"):
            self.advance()
            self._from()
            return word, None, False, False
        if word in ("absolute", "relative"):
            self.advance()
            count = self.expression(scope, "from", "in")
            self._from()
            return word, count, False, False
        if word == "all":
            self.advance()
            self._from()
            return "forward", None, True, True
        if word in ("forward", "backward"):
            self.advance()
            if self.word in ("from", "in"):
                self._from()
                return word, None, False, False
            every = self.accept("all")
            count = None if every else self.expression(scope, "from", "in")
            self._from()
            return word, count, every, True
        if word in ("from", "in"):
            self._from()
            return "forward", None, False, False
        names = self.names_ahead()
        if names and scope.find(names) is not None:
            return "forward", None, False, False
        count = self.expression(scope, "from", "in")
        self._from()
        return "forward", count, False, True

    def _from(self) -> None:
        if self.word not in ("from", "in"):
            self.fail_near("expected FROM or IN")
        self.advance()

    def close_cursor(self, scope: VariableScope) -> PlStatement:
        """CLOSE cursor;"""
        line = self.line
        self.expect("close")
        cursor = self.cursor_variable(scope)
        self.expect(";")
        return CloseCursor(cursor, line=line)


def is_record(target: Target) -> bool:
    """Whether a row goes to the target as a whole."""
    return target.variable.is_record and not target.steps
