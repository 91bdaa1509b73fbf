"""Reads text in a dialect to sqlglot's trees, one for each statement, with calls of functions as they are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple, NoReturn

import sqlglot.expressions as exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.tokens import Token, TokenType

from catalog.errors import SqlError
from engine.sql.dialects import functions
from engine.sql.dialects.names import Traits

# Rules for calls whose arguments are not a plain list. sqlglot reads Spark's CAST as TRY_CAST, as in older releases.
_PARSERS: dict[str, Callable[[Any], Any]] = {
    "CAST": lambda parser: parser._parse_cast(True),
    "TRY_CAST": lambda parser: parser._parse_cast(False, safe=True),
    "SAFE_CAST": lambda parser: parser._parse_cast(False, safe=True),
}
_KEPT_PARSERS = ("CONVERT", "EXTRACT", "TRIM", "POSITION", "SUBSTRING", "GROUP_CONCAT", "STRING_AGG", "LISTAGG")
_LINE = re.compile(r"\bline (\d+)", re.IGNORECASE)
# Words that sqlglot reads as other words with another meaning.
_MISREAD = {"tsql": frozenset(("REAL",))}


class Piece(NamedTuple):
    """The tokens of one statement, and its position in the text (characters, from 0)."""

    tokens: Sequence[Token]
    start: int
    end: int

    def text(self, whole: str) -> str:
        return whole[self.start : self.end]


def pieces(text: str, traits: Traits) -> Iterator[Piece]:
    """Yields the statements of a text, without empty ones. Raises 42601."""
    gathered: list[Token] = []
    for token in _tokens(text, traits):
        if token.token_type != TokenType.SEMICOLON:
            gathered.append(token)
        elif gathered:
            yield _piece(gathered)
            gathered = []
    if gathered:
        yield _piece(gathered)


def _piece(tokens: list[Token]) -> Piece:
    return Piece(tokens, tokens[0].start, tokens[-1].end + 1)


def _tokens(text: str, traits: Traits) -> list[Token]:
    try:
        return list(_tokenizer(traits.name)(dialect=_dialect(traits.name)).tokenize(text))
    except TokenError as error:
        where = f" (line {found[1]})" if (found := _LINE.search(str(error))) else ""
        message = f"unterminated string, quoted name or comment, or invalid number{where} in the dialect {traits.name}"
        raise SqlError("42601", message) from None


def tree_of(tokens: Sequence[Token], text: str, traits: Traits) -> exp.Expression:
    """Returns one statement's tree. `text`: the text of the tokens. Raises 42601, 54001, 0A000."""
    for token in tokens:
        if token.token_type != TokenType.IDENTIFIER and token.text.upper() in _MISREAD.get(traits.name, ()):
            _refuse(token.text.upper(), token, traits)
        if token.token_type in (TokenType.CONNECT_BY, TokenType.START_WITH):  # sqlglot changes its own tables for it
            _refuse("CONNECT BY", token, traits)
    if tokens[0].token_type in _dialect(traits.name).tokenizer_class.COMMANDS:
        _refuse(tokens[0].text.upper(), tokens[0], traits)
    parser = _parser(traits.name)(dialect=_dialect(traits.name), error_level=ErrorLevel.IMMEDIATE)
    try:
        trees = parser.parse(list(tokens), text)
    except ParseError as error:
        _fail(error, tokens, traits)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):  # sqlglot's own, on some texts
        raise SqlError("42601", f"syntax error in the dialect {traits.name}", position=tokens[0].start + 1) from None
    except RecursionError:
        hint = "Simplify the statement: it nests too deeply."
        raise SqlError("54001", "stack depth limit exceeded", hint=hint) from None
    if len(trees) != 1 or trees[0] is None:
        raise SqlError("42601", f"the text is not a statement of the dialect {traits.name}")
    return trees[0]


def _refuse(what: str, token: Token, traits: Traits) -> NoReturn:
    message = f'"{what}" of the dialect {traits.name} has no counterpart in PostgreSQL'
    raise SqlError("0A000", message, position=token.start + 1)


def _fail(error: ParseError, tokens: Sequence[Token], traits: Traits) -> NoReturn:
    """Raises a syntax error with PostgreSQL's message and the token of sqlglot's error. The rest of sqlglot's message
    is about its own rules."""
    found = error.errors[0] if error.errors else {}
    near = [token for token in tokens if (token.line, token.col) == (found.get("line"), found.get("col"))]
    said = found.get("description") or ""
    if not near or "SENTINEL" in said or (said.startswith("Expect") and near[0] is tokens[-1]):
        message, position = "syntax error at end of input", tokens[-1].end + 2
    else:
        message, position = f'syntax error at or near "{near[0].text}"', near[0].start + 1
    raise SqlError("42601", f"{message} in the dialect {traits.name}", position=position)


@cache
def _dialect(name: str) -> Dialect:
    """Returns sqlglot's dialect, whose module sqlglot imports at the first use."""
    return Dialect.get_or_raise(name)


@cache
def _tokenizer(name: str) -> Callable[..., Any]:
    """Returns sqlglot's tokenizer, except that it also splits text after EXPLAIN, CALL and similar words into tokens,
    instead of one string up to the next semicolon."""
    return type("DialectTokenizer", (_dialect(name).tokenizer_class,), {"COMMANDS": set()})


@cache
def _parser(name: str) -> Callable[..., Any]:
    base = _dialect(name).parser_class
    parsers = {
        word: rule
        for word, rule in base.FUNCTION_PARSERS.items()
        if word in _KEPT_PARSERS or functions.find(name, word) is None
    }
    placeholders = base.PLACEHOLDER_PARSERS | {TokenType.PLACEHOLDER: _placeholder}
    rules = {
        "FUNCTIONS": {},
        "FUNCTION_PARSERS": {**parsers, **_PARSERS},
        "PLACEHOLDER_PARSERS": placeholders,
        "STRICT_CAST": True,
        "_warn_unsupported": lambda parser: None,  # the log has no texts of statements
    }
    return type("DialectParser", (base,), rules)


def _placeholder(parser: Any) -> exp.Expression:
    """Returns a question mark with its position, because parameters are numbered in the order of the text."""
    found = parser.expression(exp.Placeholder())
    found.meta["start"] = parser._prev.start
    return found
