"""Translates a query string in a dialect to PostgreSQL's SQL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from sqlglot.tokens import Token, TokenType

from catalog.errors import SqlError
from engine.sql import ast
from engine.sql.dialects import calls, casts, changes, joins, number_functions, operators, queries, text_functions
from engine.sql.dialects import values as value_parts
from engine.sql.dialects.names import TRAITS, Traits
from engine.sql.dialects.reader import Piece, pieces, tree_of
from engine.sql.dialects.statements import begins_for_session
from engine.sql.dialects.writer import Write, Writer
from engine.sql.parser import parse

_MODULES = (queries, joins, operators, value_parts, casts, calls, changes)
WRITERS: dict[type, Write] = {node: write for module in _MODULES for node, write in module.WRITERS.items()}
assert number_functions is not None and text_functions is not None  # their import defines functions

_EXPLAIN = re.compile(r"\s*EXPLAIN\b\s*(\([^()]*\)|(?:(?:ANALYZE|VERBOSE)\b\s*)*)", re.IGNORECASE)
_DECLARE = re.compile(r"\s*DECLARE\b.*?\bCURSOR\b.*?\bFOR\b", re.IGNORECASE | re.DOTALL)
_OWN_WORDS = (
    (re.compile(r"(?<!TIME )(?<!STAMP )(?<!VERSION )\bAS OF (LSN|TIMESTAMP)\b", re.IGNORECASE), "AS OF"),
    (re.compile(r"\bTABLESPACE\b", re.IGNORECASE), "TABLESPACE"),
    (re.compile(r"\bCHANGE\s+STREAM\b", re.IGNORECASE), "CHANGE STREAM"),
)


class _Carried(NamedTuple):
    """A statement in PostgreSQL's SQL. `query`: its translated part, or ''."""

    text: str
    query: str


def carry_over(text: str, dialect: str) -> tuple[ast.Statement, ...]:
    """Translates the statements of a text in a dialect. Raises the errors of `statements_in`."""
    traits = TRAITS[dialect]
    return tuple(_statement(_carry_over(piece, text, traits), traits) for piece in pieces(text, traits))


def _statement(carried: _Carried, traits: Traits) -> ast.Statement:
    """Parses a translated statement. Raises 42601 if a string or a comment in a statement about the session ends
    elsewhere in PostgreSQL's SQL than in the dialect."""
    found = parse(carried.text)
    if len(found) != 1:
        raise SqlError("42601", f"a statement ends elsewhere in PostgreSQL's SQL than in the dialect {traits.name}")
    return replace(found[0], translation=carried.query) if carried.query else found[0]


def _carry_over(piece: Piece, whole: str, traits: Traits) -> _Carried:
    text = piece.text(whole)
    if begins_for_session(text):
        return _Carried(text, "")
    for prefix in (_EXPLAIN, _DECLARE):
        found = prefix.match(text)
        if found is not None:
            begins = piece.start + found.end()
            tokens = [token for token in piece.tokens if token.start >= begins]
            if not tokens:
                raise SqlError("42601", "syntax error at end of input", position=piece.end + 1)
            query = _query(tokens, whole, traits)
            return _Carried(f"{found[0].strip()} {query}", query)
    query = _query(piece.tokens, whole, traits)
    return _Carried(query, query)


def _query(tokens: Sequence[Token], whole: str, traits: Traits) -> str:
    try:
        tree = tree_of(tokens, whole, traits)
        marks = [token.start for token in tokens if token.token_type == TokenType.PLACEHOLDER]
        numbers = {start: number for number, start in enumerate(sorted(marks), 1)}
        return Writer(traits, WRITERS, numbers).text(tree)
    except SqlError as error:
        for own in _own_syntax(tokens, whole, traits):
            message = f"{own} is Shoal's own syntax, which the dialect {traits.name} has not"
            raise SqlError("0A000", message, hint="SET sql_dialect = 'shoal' first.") from error
        raise
    except RecursionError:
        hint = "Simplify the statement: it nests too deeply."
        raise SqlError("54001", "stack depth limit exceeded", hint=hint) from None


def _own_syntax(tokens: Sequence[Token], whole: str, traits: Traits) -> Iterator[str]:
    """Yields the constructs of Shoal's own syntax, outside of strings, in a statement that cannot be translated."""
    plain = " ".join(
        whole[token.start : token.end + 1]
        for token in tokens
        if token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER)
    )
    for pattern, name in _OWN_WORDS:
        if pattern.search(plain) and (traits.name, name) != ("oracle", "TABLESPACE"):  # Oracle has TABLESPACE too
            yield name
