"""The cursor over the tokens of one string, and the grammar's rules for names.

The methods read exactly one token, or a fixed number of tokens ahead, and never go back. So an error is found at the
first token that cannot continue the text, which is where PostgreSQL's parser finds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from catalog.errors import SqlError, not_supported
from engine.sql import ast
from engine.sql.parser.keywords import COLUMN_NAME, LABEL, NON_RESERVED_WORD, TYPE_FUNCTION_NAME
from engine.sql.parser.lexer import ErrorToken, Token


class Cursor:
    """`_curr` is the next token; `key` its terminal."""

    sql: str
    _tokens: list[Token]
    _index: int
    _curr: Token
    _highest_parameter: int
    _constants: bool  # whether a literal has been read
    _labels_allowed: bool  # in a target list, where a keyword may be a label
    _similar_ends: bool  # in SUBSTRING(... SIMILAR pattern ESCAPE ...), before SIMILAR

    if TYPE_CHECKING:
        # Rules that other files of this package call before the subclass that defines them.
        def expression(self) -> ast.Node: ...
        def restricted_expression(self) -> ast.Node: ...
        def expressions(self) -> tuple[ast.Node, ...]: ...
        def select_or_expression(self) -> ast.Node: ...
        def indirection(self, argument: ast.Node) -> ast.Node: ...
        def indirection_steps(self) -> tuple[ast.Subscript | str, ...]: ...
        def typed_literal(self, type_name: ast.TypeName) -> ast.Node: ...
        def any_operator(self) -> tuple[str, ...]: ...
        def operator_name(self) -> tuple[str, ...]: ...
        def sort_clause(self) -> tuple[ast.SortBy, ...]: ...
        def window_specification(self) -> ast.WindowDef: ...
        def select_in_parentheses(self) -> ast.SelectStmt: ...
        def select_without_parentheses(self) -> ast.SelectStmt: ...
        def at_query_continuation(self) -> bool: ...
        def continue_select(self, left: ast.SelectStmt) -> ast.SelectStmt: ...
        def statement(self) -> ast.Node: ...

    def open(self, tokens: list[Token], sql: str) -> None:
        self.sql = sql
        self._tokens = tokens
        self._index = 0
        self._curr = tokens[0]
        self._highest_parameter = 0
        self._constants = False
        self._labels_allowed = False
        self._similar_ends = False

    def advance(self) -> Token:
        """Takes the current token, which is not the end."""
        token = self._curr
        self._index += 1
        self._curr = self._tokens[self._index]
        return token

    def accept(self, key: str) -> bool:
        if self._curr.key != key:
            return False
        self._index += 1
        self._curr = self._tokens[self._index]
        return True

    def accept_words(self, *keys: str) -> bool:
        """Takes all of these tokens if they come next, or none."""
        if self._curr.key != keys[0]:
            return False
        for distance in range(1, len(keys)):
            if self.peek(distance) != keys[distance]:
                return False
        self._index += len(keys)
        self._curr = self._tokens[self._index]
        return True

    def accept_phrase(self, phrases: tuple[tuple[str, ...], ...]) -> tuple[str, ...] | None:
        """Takes the longest of these phrases that comes next; None if the first word begins none of them. Raises 42601
        at the first word that matches none."""
        if not any(phrase[0] == self._curr.key for phrase in phrases):
            return None
        for phrase in sorted(phrases, key=len, reverse=True):
            if self.accept_words(*phrase):
                return phrase
        taken = 0
        while any(len(phrase) > taken and phrase[taken] == self._curr.key for phrase in phrases):
            started = self.advance().key
            phrases = tuple(phrase for phrase in phrases if len(phrase) > taken and phrase[taken] == started)
            taken += 1
        self.fail()

    def at_select(self) -> bool:
        """Whether a query without parentheses comes next; VALUES also names columns and tables."""
        key = self._curr.key
        return key in ("select", "with", "table") or (key == "values" and self.peek() == "(")

    def expect(self, *keys: str) -> Token:
        """Takes these tokens in sequence, and returns the last one. Raises 42601 at the first different token."""
        token = self._curr
        for key in keys:
            token = self._curr
            if token.key != key:
                self.fail()
            self._index += 1
            self._curr = self._tokens[self._index]
        return token

    def expect_one_of(self, *keys: str) -> str:
        """Takes one of these tokens and returns its key. Raises 42601 for another token."""
        if self._curr.key not in keys:
            self.fail()
        return self.advance().key

    def peek(self, distance: int = 1) -> str:
        """The key of the token `distance` after the current one; '' past the end."""
        at = self._index + distance
        return self._tokens[at].key if at < len(self._tokens) else ""

    def fail(self, token: Token | None = None) -> NoReturn:
        """Raises 42601 at this token (the current one by default), or the error of the scanner."""
        token = token or self._curr
        if isinstance(token, ErrorToken):
            raise token.error
        if token.key == "":
            raise SqlError("42601", "syntax error at end of input", position=token.start + 1)
        near = self.sql[token.start : token.end]
        raise SqlError("42601", f'syntax error at or near "{near}"', position=token.start + 1)

    def complain(self, message: str, location: int, sqlstate: str = "42601") -> NoReturn:
        """Raises an error of the grammar; `location` counts from 0, -1 for none."""
        raise SqlError(sqlstate, message, position=location + 1 if location >= 0 else None)

    def refuse(self, feature: str, location: int) -> NoReturn:
        """Raises 0A000 for syntax of PostgreSQL that Shoal does not support."""
        not_supported(feature, position=location + 1)

    def literal(self, kind: str, value: str | bool | None, location: int = -1) -> ast.Literal:
        """Adds a constant to the statement's constants."""
        self._constants = True
        return ast.Literal(kind, value, location=location)

    def source(self, start: int) -> str:
        """The text from offset `start` to the end of the last token."""
        return self.sql[start : self._tokens[self._index - 1].end]

    # ---- names ----

    def _name_of(self, keys: frozenset[str]) -> str:
        token = self._curr
        if token.key not in keys:
            self.fail()
        self._index += 1
        self._curr = self._tokens[self._index]
        return token.text

    def column_name(self) -> str:
        """ColId: a name of a column, table, or most other things."""
        return self._name_of(COLUMN_NAME)

    def type_function_name(self) -> str:
        return self._name_of(TYPE_FUNCTION_NAME)

    def non_reserved_word(self) -> str:
        return self._name_of(NON_RESERVED_WORD)

    def label(self) -> str:
        """ColLabel: any word at all."""
        return self._name_of(LABEL)

    def at_name(self) -> bool:
        return self._curr.key in COLUMN_NAME

    def string(self) -> str:
        return self.expect("SCONST").text

    def integer(self) -> int:
        """Iconst: an unsigned integer that fits int4."""
        return int(self.expect("ICONST").text)

    def signed_integer(self) -> int:
        if self.accept("-"):
            return -self.integer()
        self.accept("+")
        return self.integer()

    def signed_number(self) -> str:
        """NumericOnly, as text."""
        sign = "-" if self.accept("-") else ""
        if not sign:
            self.accept("+")
        if self._curr.key not in ("ICONST", "FCONST"):
            self.fail()
        return sign + self.advance().text

    def names(self) -> tuple[str, ...]:
        """name, name, ..."""
        items = [self.column_name()]
        while self.accept(","):
            items.append(self.column_name())
        return tuple(items)

    def names_in_parentheses(self) -> tuple[str, ...]:
        self.expect("(")
        items = self.names()
        self.expect(")")
        return items

    def optional_names_in_parentheses(self) -> tuple[str, ...]:
        return self.names_in_parentheses() if self._curr.key == "(" else ()

    def any_name(self) -> tuple[str, ...]:
        """ColId.attribute..."""
        parts = [self.column_name()]
        while self.accept("."):
            parts.append(self.label())
        return tuple(parts)

    def any_names(self) -> tuple[tuple[str, ...], ...]:
        items = [self.any_name()]
        while self.accept(","):
            items.append(self.any_name())
        return tuple(items)

    def qualified_name(self, alias: ast.Alias | None = None, *, only: bool = False) -> ast.RangeVar:
        """[catalog.][schema.]name"""
        start = self._curr.start
        parts = [self.column_name()]
        while self._curr.key == "." and self.peek() != "*":
            self.advance()
            parts.append(self.label())
        if self._curr.key in (".", "["):  # as in PostgreSQL, a name that cannot be that of a relation
            self.indirection_steps()
            self.fail()
        return self.range_var(tuple(parts), start, alias, only=only)

    def range_var(
        self, parts: tuple[str, ...], start: int, alias: ast.Alias | None = None, *, only: bool = False
    ) -> ast.RangeVar:
        if len(parts) == 1:
            return ast.RangeVar(None, None, parts[0], alias, only, location=start)
        if len(parts) == 2:
            return ast.RangeVar(None, parts[0], parts[1], alias, only, location=start)
        if len(parts) == 3:
            return ast.RangeVar(parts[0], parts[1], parts[2], alias, only, location=start)
        return self.complain(f"improper qualified name (too many dotted names): {'.'.join(parts)}", start)

    def qualified_names(self) -> tuple[ast.RangeVar, ...]:
        items = [self.qualified_name()]
        while self.accept(","):
            items.append(self.qualified_name())
        return tuple(items)

    def role_name(self) -> str:
        """RoleSpec: a role, or one of current_user, current_role, session_user, public (by those names)."""
        token = self._curr
        if token.key in ("current_user", "current_role", "session_user"):
            return self.advance().text
        name = self.non_reserved_word()
        if name == "none":
            self.complain('role name "none" is reserved', token.start, "42939")
        return name

    def role_id(self) -> str:
        """RoleId: the name of a role that need not exist."""
        token = self._curr
        name = self.role_name()
        if token.key in ("current_user", "current_role", "session_user"):
            self.complain(f"{token.key.upper()} cannot be used as a role name here", token.start, "42939")
        if name == "public":
            self.complain('role name "public" is reserved', token.start, "42939")
        return name

    def role_names(self) -> tuple[str, ...]:
        items = [self.role_name()]
        while self.accept(","):
            items.append(self.role_name())
        return tuple(items)

    def if_exists(self) -> bool:
        return self.accept_words("if", "exists")

    def if_not_exists(self) -> bool:
        if self._curr.key != "if" or self.peek() != "not":
            return False
        self.expect("if", "not", "exists")
        return True

    def drop_behavior(self) -> bool:
        """CASCADE is True; RESTRICT and nothing are False."""
        if self.accept("cascade"):
            return True
        self.accept("restrict")
        return False

    def optional_keyword(self, *keys: str) -> str:
        """Takes one of these keywords if it comes next; otherwise returns ''."""
        return self.advance().key if self._curr.key in keys else ""
