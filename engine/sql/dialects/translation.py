"""A query string in a dialect -> the same statements in PostgreSQL's SQL."""

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
from engine.sql.dialects.names import SHOAL, TRAITS, Traits
from engine.sql.dialects.reader import Piece, pieces, tree_of
from engine.sql.dialects.writer import Write, Writer
from engine.sql.parser import parse

LONGEST = 1 << 18  # bytes of a text: sqlglot takes a second for so many
_MODULES = (queries, joins, operators, value_parts, casts, calls, changes)
WRITERS: dict[type, Write] = {node: write for module in _MODULES for node, write in module.WRITERS.items()}
assert number_functions is not None and text_functions is not None  # whose functions are defined by importing them

# Statements that are about the session: PostgreSQL's in every dialect.
_OF_SESSION = frozenset((
    "SET", "RESET", "SHOW", "BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE", "DISCARD",
    "DEALLOCATE", "EXECUTE", "LISTEN", "UNLISTEN", "NOTIFY", "FETCH", "MOVE", "CLOSE",
))  # fmt: skip
_FIRST_WORD = re.compile(r"\s*([A-Za-z]+)")
_EXPLAIN = re.compile(r"\s*EXPLAIN\b\s*(\([^()]*\)|(?:(?:ANALYZE|VERBOSE)\b\s*)*)", re.IGNORECASE)
_DECLARE = re.compile(r"\s*DECLARE\b.*?\bCURSOR\b.*?\bFOR\b", re.IGNORECASE | re.DOTALL)
_OWN_WORDS = (
    (re.compile(r"(?<!TIME )(?<!STAMP )(?<!VERSION )\bAS OF (LSN|TIMESTAMP)\b", re.IGNORECASE), "AS OF"),
    (re.compile(r"\bTABLESPACE\b", re.IGNORECASE), "TABLESPACE"),
    (re.compile(r"\bCHANGE\s+STREAM\b", re.IGNORECASE), "CHANGE STREAM"),
)


class _Carried(NamedTuple):
    """A statement as PostgreSQL has it. `query`: what was carried over of it, '' for nothing."""

    text: str
    query: str


def statements_in(text: str, dialect: str, conforming: bool = True) -> tuple[ast.Statement, ...]:
    """The statements of a query string; what is carried over says so in `translation`.

    Raises 42601 with the place in the text, 0A000 for what has no counterpart, 54000 for a text that is too long, and
    what PostgreSQL's grammar does. `conforming`: standard_conforming_strings, for a text in PostgreSQL's SQL."""
    if dialect == SHOAL or is_of_session(text):
        return parse(text, conforming)
    if len(text) > LONGEST:
        message = f"a text of {len(text)} characters is too long for the dialect {dialect}"
        raise SqlError("54000", message, hint=f"The most is {LONGEST}; SET sql_dialect = 'shoal' takes longer ones.")
    traits = TRAITS[dialect]
    return tuple(_statement(_carry_over(piece, text, traits), traits) for piece in pieces(text, traits))


def _statement(carried: _Carried, traits: Traits) -> ast.Statement:
    """Raises 42601 where what is PostgreSQL's in every dialect has a string or comment that only the dialect ends."""
    found = parse(carried.text)
    if len(found) != 1:
        raise SqlError("42601", f"a statement ends elsewhere in PostgreSQL's SQL than in the dialect {traits.name}")
    return replace(found[0], translation=carried.query) if carried.query else found[0]


def is_of_session(text: str) -> bool:
    """Whether a text is one statement that is PostgreSQL's in every dialect: it is not looked at any further."""
    word = _FIRST_WORD.match(text)
    if word is None or word[1].upper() not in _OF_SESSION:
        return word is None and not text.strip(" \t\r\n;")
    return ";" not in text.rstrip(" \t\r\n;")


def _carry_over(piece: Piece, whole: str, traits: Traits) -> _Carried:
    text = piece.text(whole)
    word = _FIRST_WORD.match(text)
    if word is not None and word[1].upper() in _OF_SESSION:
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
    """What of Shoal's own syntax a statement that cannot be read or carried over has outside its strings."""
    plain = " ".join(
        whole[token.start : token.end + 1]
        for token in tokens
        if token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER)
    )
    for pattern, name in _OWN_WORDS:
        if pattern.search(plain) and (traits.name, name) != ("oracle", "TABLESPACE"):  # which has that, too
            yield name
