"""Declarations in a body of PL/pgSQL: variables, aliases, cursors, and their types (PostgreSQL manual, 43.3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from catalog.errors import SqlError
from catalog.types import oids
from catalog.types.base import TypeRef
from engine.sql import ast
from engine.sql.plpgsql.reader import BodyReader
from engine.sql.plpgsql.scope import VariableScope
from engine.sql.plpgsql.tree import CursorQuery, Fragment, Shape, Variable

Declared = TypeRef | Shape | None
"""What a variable may hold: a type, the fields of a table's row, or None for any record."""


class Types(Protocol):
    """What the types in a body mean. Each method raises PostgreSQL's errors for what does not exist."""

    def of_name(self, name: ast.TypeName) -> Declared:
        """The type of a name: a type, the fields of a table's row, or None for record."""

    def of_column(self, names: tuple[str, ...]) -> TypeRef:
        """table.column%TYPE"""

    def of_relation(self, names: tuple[str, ...]) -> Declared:
        """table%ROWTYPE"""

    def check_collation(self, names: tuple[str, ...]) -> None:
        """Raises 42704; 0A000 for a collation other than the database's."""

    def is_composite(self, type_: TypeRef) -> bool:
        """Whether values of the type have fields."""


class Declarations(BodyReader):
    """Reads DECLARE sections."""

    def __init__(self, body: str, conforming: bool, types: Types) -> None:
        super().__init__(body, conforming)
        self._types = types
        self.variables: list[Variable] = []

    def new_variable(self, name: str, declared: Declared, line: int = 0, made: str = "") -> Variable:
        """Adds a variable to the function."""
        type_, shape = (None, declared) if isinstance(declared, tuple) else (declared, None)
        is_record = type_ is None or self._types.is_composite(type_)
        variable = Variable(len(self.variables), name, type_, line, is_record, shape, made=made)
        self.variables.append(variable)
        return variable

    def keep(self, variable: Variable) -> Variable:
        """Replaces a variable by one with more properties, of the same number."""
        self.variables[variable.number] = variable
        return variable

    def declarations(self, scope: VariableScope) -> tuple[VariableScope, tuple[Variable, ...]]:
        """What follows DECLARE, up to BEGIN: the scope with the variables, and the variables."""
        found: list[Variable] = []
        while self.word != "begin":
            if self.accept("declare"):
                continue
            if self.accept("<", "<") or self.accept("<<"):
                self.fail_at_label()
            scope, variable = self._declaration(scope)
            if variable is not None:
                found.append(variable)
        return scope, tuple(found)

    def fail_at_label(self) -> None:
        """42601: a label stands in a DECLARE section."""
        self.complain("block label must be placed before DECLARE, not after", self.token.start)

    def _declaration(self, scope: VariableScope) -> tuple[VariableScope, Variable | None]:
        token, line = self.token, self.line
        name = self.name()
        if scope.is_declared_here(name):
            self.fail_near("duplicate declaration", token)
        if self.accept("alias"):
            return self._alias(name, scope), None
        if self.word in ("cursor", "scroll") or (self.word == "no" and self.peek() == "scroll"):
            variable = self._cursor(name, line, scope)
            return scope.with_variable(variable), variable
        constant = self.accept("constant")
        type_ = self._data_type(scope)
        self._collation(type_)
        not_null_at = self.token.start
        not_null = self.accept("not")
        if not_null:
            self.expect("null")
        default = self._default(scope)
        if not_null and default is None:
            message = f'variable "{name}" must have a default value, since it\'s declared NOT NULL'
            self.complain(message, not_null_at, "22004")
        variable = self.new_variable(name, type_, line)
        variable = self.keep(replace(variable, constant=constant, not_null=not_null, default=default))
        return scope.with_variable(variable), variable

    def _alias(self, name: str, scope: VariableScope) -> VariableScope:
        """name ALIAS FOR $1, or for another variable"""
        self.expect("for")
        token = self.token
        names = (f"${token.text}",) if token.key == "PARAM" else self.names_ahead()
        if not names:
            self.fail_near()
        shown = ".".join(names)
        found = scope.find(names)
        if found is None or found[1] != len(names):
            self.complain(f'variable "{shown}" does not exist', token.start, "42704")
        for _ in range(2 * len(names) - 1):
            self.advance()
        self.expect(";")
        return scope.with_variable(found[0], name)

    def _collation(self, type_: Declared) -> None:
        """[COLLATE name]"""
        at = self.token.start
        if not self.accept("collate"):
            return
        names = [self.name()]
        while self.accept("."):
            names.append(self.name())
        if not isinstance(type_, TypeRef) or self._types.is_composite(type_):
            self.complain("collations are not supported by type record", at, "42804")
        self._types.check_collation(tuple(names))

    def _default(self, scope: VariableScope) -> Fragment | None:
        """[DEFAULT | := | = expression];"""
        if self.accept(";"):
            return None
        if self.word not in ("default", ":=", "="):
            self.fail_near()
        self.advance()
        value = self.expression(scope, ";")
        self.expect(";")
        return value

    # ---- types ------------------------------------------------------------------------------------------------------

    def _data_type(self, scope: VariableScope) -> Declared:
        """A type, up to what may follow it in a declaration."""
        start = self.token.start
        names = self.names_ahead()
        behind = 2 * len(names) - 1
        if names and self.peek(behind) == "%" and self.peek(behind + 1) in ("type", "rowtype"):
            for _ in range(behind + 1):
                self.advance()
            return self._percent_type(names, self.advance().text.lower(), scope)
        depth, stop = 0, start
        while self.word != ";":
            if self.token.key in ("", "ERROR"):
                self.fail_near("mismatched parentheses" if depth else "incomplete data type declaration")
            if self.word in ("collate", "not", "=", ":=", "default") or (not depth and self.word in (",", ")")):
                break
            depth += (self.word == "(") - (self.word == ")")
            stop = self.advance().end
        if stop == start:
            self.fail_near("missing data type declaration")
        try:
            return self._types.of_name(self.type_between(start, stop))
        except SqlError as error:
            if error.position is not None:
                error.position += start  # the type was read alone
            raise

    def _percent_type(self, names: tuple[str, ...], word: str, scope: VariableScope) -> Declared:
        if word == "rowtype":
            return self._types.of_relation(names)
        found = scope.find(names)
        if found is not None and found[1] == len(names):
            return found[0].shape or found[0].type
        try:
            return self._types.of_column(names)
        except SqlError:
            context = f'invalid type name "{".".join(names)}%TYPE"'
            raise SqlError("42601", 'syntax error at or near "%"', position=self.token.start, context=context) from None

    # ---- cursors ----------------------------------------------------------------------------------------------------

    def _cursor(self, name: str, line: int, scope: VariableScope) -> Variable:
        """[[NO] SCROLL] CURSOR [(arguments)] FOR query;"""
        scroll = self.scroll()
        self.expect("cursor")
        variable = self.new_variable(name, TypeRef(oids.REFCURSOR), line)
        inside = scope.with_label("", "block")
        parameters: list[Variable] = []
        if self.accept("("):
            while True:
                token = self.token
                parameter = self.new_variable(self.name(), self._data_type(scope), self.line_of(token.start))
                inside = inside.with_variable(parameter)
                parameters.append(parameter)
                if not self.accept(","):
                    break
            self.expect(")")
        if not self.accept("is"):
            self.expect("for")
        start, stop = self.skip_to((";",), "SQL statement")
        query = self.statement_between(start, stop, inside)
        self.expect(";")
        return self.keep(replace(variable, cursor=CursorQuery(query, tuple(parameters), scroll)))

    def scroll(self) -> bool | None:
        """[[NO] SCROLL]"""
        if self.accept("no"):
            self.expect("scroll")
            return False
        return True if self.accept("scroll") else None
