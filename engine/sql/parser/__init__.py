"""SQL text -> the trees of engine/sql/ast, exactly as PostgreSQL 15 reads it.

**The use of sqlglot.** `Grammar` is a sqlglot dialect, a subclass of its Postgres: its tokenizer returns sqlglot's
tokens, and its parser is a sqlglot parser. The rules inside are Shoal's own, because sqlglot reads many dialects and is
tolerant: it renames functions, shifts subscripts, reads `SAVEPOINT x` as an alias, has one class of identifiers, and
keeps no position for most nodes. A correction of its result would be more work, and less exact, than a recursive
descent parser of PostgreSQL's grammar, which builds PostgreSQL's parse tree and finds every syntax error at the same
token. The grammar is a chain of classes, one file each, starting with the cursor:

    Cursor -> TypeNames -> FunctionSyntax -> Expressions -> Queries -> Changes -> Sessions -> Tables -> Objects

Locations in trees, and positions in errors, count characters of the whole text, also if it contains many statements.
Python's recursion limit bounds the nesting: deeper text raises 54001.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from sqlglot.dialects.postgres import Postgres
from sqlglot.parsers.postgres import PostgresParser

from catalog.errors import SqlError
from engine.sql import ast
from engine.sql.parser.lexer import LONG_LIST, Scanner, Token
from engine.sql.parser.statements import Statements

__all__ = ["parse", "parse_expression", "parse_select", "parse_type_name"]

_T = TypeVar("_T")
# Statements whose long lists of integers are one token. Other statements store the text of expressions.
_QUERY = re.compile(r"[\s(]*(?:select|with|insert|update|delete|merge|explain|copy|declare|prepare)\b", re.IGNORECASE)


class Grammar(Postgres):  # type: ignore[misc]  # sqlglot is untyped here
    """The dialect of PostgreSQL 15. sqlglot finds it by its class's name; `shoal` is the name of shoal_sqlglot's
    dialect."""

    class Tokenizer(Postgres.Tokenizer):  # type: ignore[misc]
        def tokenize(self, sql: str) -> list[Token]:
            return Scanner(sql).scan()

    class Parser(Statements, PostgresParser):  # type: ignore[misc]
        def parse(self, raw_tokens: list[Token], sql: str) -> list[ast.Statement]:
            self.open(raw_tokens, sql)
            return self.statements()


def _read(sql: str, rule: Callable[[Statements], _T], *, whole: bool, conforming: bool = True) -> _T:
    lists = len(sql) > LONG_LIST and _QUERY.match(sql) is not None
    tokens = Scanner(sql, conforming, lists).scan()
    try:
        return _parse(tokens, sql, rule, whole)
    except SqlError:
        if not lists or all(token.key != "INTEGERS" for token in tokens):
            raise
        return _parse(Scanner(sql, conforming).scan(), sql, rule, whole)  # errors point at single items


def _parse(tokens: list[Token], sql: str, rule: Callable[[Statements], _T], whole: bool) -> _T:
    parser: Statements = Grammar.Parser.__new__(Grammar.Parser)  # without __init__: its attributes are not used
    parser.open(tokens, sql)
    try:
        node = rule(parser)
        if whole:
            parser.expect_end()
    except RecursionError:
        raise SqlError(
            "54001",
            "stack depth limit exceeded",
            hint="Simplify the statement: it nests too deeply.",
        ) from None
    return node


def parse(sql: str, conforming: bool = True) -> tuple[ast.Statement, ...]:
    """Returns the statements of a query string, without empty ones. `conforming`: standard_conforming_strings.

    Raises 42601 (syntax error) with the position in the whole string, 54001 if it nests too deeply, 0A000 for
    PostgreSQL's syntax without a tree here, and the other errors of PostgreSQL's own parser.
    """
    return tuple(_read(sql, Statements.statements, whole=False, conforming=conforming))


def parse_expression(sql: str) -> ast.Node:
    """Returns one expression (a stored default, a check). Raises the errors of `parse`."""
    return _read(sql, Statements.expression, whole=True)


def parse_type_name(sql: str) -> ast.TypeName:
    """Returns one type name, as in `'numeric(10,2)[]'::regtype`. Raises the errors of `parse`."""
    return _read(sql, Statements.type_name, whole=True)


def parse_change(sql: str) -> ast.InsertStmt | ast.UpdateStmt | ast.DeleteStmt:
    """Returns one INSERT, UPDATE or DELETE (the text of a rule's action)."""
    found = _read(sql, Statements.preparable_statement, whole=True)
    assert isinstance(found, ast.InsertStmt | ast.UpdateStmt | ast.DeleteStmt)
    return found


def parse_select(sql: str) -> ast.SelectStmt:
    """Returns one query without a semicolon (the text of a view). Raises the errors of `parse`."""
    return _read(sql, Statements.select, whole=True)
