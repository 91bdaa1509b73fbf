"""The tokens of a body in PL/pgSQL, and the pieces of SQL between its own words.

The scanner is that of SQL: PL/pgSQL has its own keywords, and every other word is a name. A piece of SQL reaches to a
word or sign that ends it, outside of parentheses and brackets, and is then read by SQL's grammar. Errors have their
position in the body.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeVar

from catalog.errors import SqlError
from engine.sql import ast
from engine.sql.parser import parse, parse_select, parse_type_name
from engine.sql.parser.lexer import ErrorToken, Scanner, Token
from engine.sql.plpgsql.scope import VariableScope
from engine.sql.plpgsql.tree import Fragment
from engine.sql.tree_walk import transform

RESERVED = frozenset(
    ("all", "begin", "by", "case", "declare", "else", "end", "execute", "for", "foreach", "from", "if", "in", "into",
     "loop", "not", "null", "or", "strict", "then", "to", "using", "when", "while")
)  # fmt: skip
"""PL/pgSQL's reserved words. Its other keywords are also names."""

_SELECT = "SELECT "
_OPENING, _CLOSING = {"(": ")", "[": "]"}, (")", "]")
MOST_ENDS = 3
"""Words that may end a text, in PostgreSQL's parser."""
_T = TypeVar("_T")
_N = TypeVar("_N", bound=ast.Node)


class BodyReader:
    """A cursor over the tokens. `word` of the current token is its text in lower case if it is a word without quotes,
    otherwise the text of a sign, or ''."""

    def __init__(self, body: str, conforming: bool) -> None:
        self.body = body
        self._conforming = conforming
        self._tokens = Scanner(body, conforming).scan()
        self._index = 0

    # ---- tokens -----------------------------------------------------------------------------------------------------

    @property
    def token(self) -> Token:
        return self._tokens[self._index]

    @property
    def word(self) -> str:
        return self._word_at(self._index)

    @property
    def line(self) -> int:
        return self.line_of(self.token.start)

    def line_of(self, offset: int) -> int:
        """The line of a place in the body, from 1. A line break at its beginning counts, as in PostgreSQL."""
        return self.body.count("\n", 0, offset) + 1

    def peek(self, distance: int = 1) -> str:
        """The word `distance` tokens ahead; '' past the end."""
        return self._word_at(min(self._index + distance, len(self._tokens) - 1))

    def _word_at(self, index: int) -> str:
        token = self._tokens[index]
        if token.key in ("SCONST", "ICONST", "FCONST", "PARAM", "BCONST", "XCONST", "ERROR", ""):
            return ""
        written = self.body[token.start : token.end]
        return "" if written[:1] == '"' or written[:2].lower() == "u&" else written.lower()

    def advance(self) -> Token:
        token = self.token
        if token.key in ("", "ERROR"):
            self.fail_near()
        self._index += 1
        return token

    def accept(self, *words: str) -> bool:
        """Takes these tokens if they come next, or none."""
        if any(self.peek(distance) != word for distance, word in enumerate(words)):
            return False
        self._index += len(words)
        return True

    def expect(self, *words: str) -> None:
        for word in words:
            if self.word != word:
                self.fail_near()
            self._index += 1

    def at_name(self) -> bool:
        """Whether a word that may be a name comes next."""
        token = self.token
        if token.key in ("SCONST", "ICONST", "FCONST", "PARAM", "BCONST", "XCONST", "ERROR", ""):
            return False
        first = self.body[token.start]
        return first == '"' or ((first.isalpha() or first == "_" or first > "\x7f") and self.word not in RESERVED)

    def name(self) -> str:
        """A name: folded, without quotes."""
        if not self.at_name():
            self.fail_near()
        return self.advance().text

    def names_ahead(self) -> tuple[str, ...]:
        """The dotted names that come next, at most three; empty where no name comes. Takes nothing."""
        if not self.at_name():
            return ()
        found = [self.token.text]
        index = self._index + 1
        while len(found) < 3 and self._word_at(index) == "." and self._is_name(index + 1):
            found.append(self._tokens[index + 1].text)
            index += 2
        return tuple(found)

    def _is_name(self, index: int) -> bool:
        token = self._tokens[index]
        first = self.body[token.start : token.start + 1]
        return (
            token.key not in ("SCONST", "ICONST", "FCONST")
            and bool(first)
            and (first in '"_' or first.isalpha() or first > "\x7f")
        )

    # ---- errors -----------------------------------------------------------------------------------------------------

    def fail_near(self, message: str = "syntax error", token: Token | None = None) -> NoReturn:
        """42601 at a token (the current one by default)."""
        token = token or self.token
        if isinstance(token, ErrorToken):
            raise token.error
        if token.key == "":
            raise SqlError("42601", f"{message} at end of input", position=token.start + 1)
        near = self.body[token.start : token.end]
        raise SqlError("42601", f'{message} at or near "{near}"', position=token.start + 1)

    def complain(self, message: str, offset: int, sqlstate: str = "42601", **more: str) -> NoReturn:
        """An error with a message of its own, at a place of the body."""
        raise SqlError(sqlstate, message, position=offset + 1, **more)

    # ---- SQL --------------------------------------------------------------------------------------------------------

    def skip_to(self, ends: tuple[str, ...], what: str) -> tuple[int, int]:
        """Goes to the next of these words outside of parentheses. Returns where the text before it begins and ends.
        Raises 42601 at a semicolon before it, and where nothing is before it. The end of the body is one of these words
        too, if there are fewer than MOST_ENDS (read_sql_construct)."""
        start, stop = self.token.start, self.token.start
        first = self._index
        open_: list[str] = []
        while True:
            token, word = self.token, self.word
            if not open_ and word in ends:
                break
            if token.key == "" and not open_ and len(ends) < MOST_ENDS:
                break  # the text is read before what is missing behind it is noticed
            if token.key in ("", "ERROR"):
                self._fail_unfinished(ends, open_, what)
            if word in _OPENING:
                open_.append(_OPENING[word])
            elif word in _CLOSING:
                if not open_ or open_.pop() != word:
                    self.fail_near("mismatched parentheses")
            elif word == ";":
                self._fail_unfinished(ends, open_, what)
            stop = token.end
            self._index += 1
        if self._index == first:
            self.fail_near(f"missing {what}")
        return start, stop

    def _fail_unfinished(self, ends: tuple[str, ...], open_: list[str], what: str) -> NoReturn:
        if isinstance(self.token, ErrorToken):
            raise self.token.error
        if open_:
            self.fail_near("mismatched parentheses")
        missing = ends[0].upper() if ends == ("loop", "by") else " or ".join(word.upper() for word in ends)
        self.complain(f'missing "{missing}" at end of {what}', self.token.start)

    def expression(self, scope: VariableScope, *ends: str) -> Fragment:
        """An SQL expression up to one of these words, which is not taken."""
        start, stop = self.skip_to(ends, "SQL expression" if self.token.key and self.word not in ends else "expression")
        return self.expression_between(start, stop, scope)

    def expression_or_nothing(self, scope: VariableScope) -> Fragment:
        """What stands before a semicolon."""
        if self.word == ";" or self.token.key == "":
            return self.expression_between(self.token.start, self.token.start, scope)
        return self.expression(scope, ";")

    def expression_between(self, start: int, stop: int, scope: VariableScope) -> Fragment:
        """The expression in a part of the body: what may follow SELECT."""
        text = self.body[start:stop]
        tree = self._at(start - len(_SELECT), text, lambda: parse_select(_SELECT + text))
        if tree.into is not None:
            self.fail_near()
        return Fragment(text, start, _with_arguments(tree), scope, before=len(_SELECT))

    def statement_between(
        self, start: int, stop: int, scope: VariableScope, blanked: tuple[int, int] = (0, 0)
    ) -> Fragment:
        """The SQL statement in a part of the body; `blanked` is taken for blanks."""
        text = self.body[start:stop]
        if blanked[1]:
            low, high = blanked[0] - start, blanked[1] - start
            text = (text[:low] + " " * (high - low) + text[high:]).rstrip()
        statements = self._at(start, text, lambda: parse(text, self._conforming))
        if len(statements) != 1:
            self.fail_near()
        return Fragment(text, start, _with_arguments(statements[0].tree), scope, "SQL statement")

    def type_between(self, start: int, stop: int) -> ast.TypeName:
        """The type in a part of the body."""
        text = self.body[start:stop]
        return self._at(start, text, lambda: parse_type_name(text))

    def _at(self, offset: int, text: str, read: Callable[[], _T]) -> _T:
        """Reads SQL; positions of its errors become positions in the body."""
        try:
            return read()
        except SqlError as error:
            if error.position is not None:
                error.position = max(error.position + offset, 1)
            raise


def _with_arguments(tree: _N) -> _N:
    """SQL with the names of arguments in place of $1, $2, ...: the scope knows them by these."""

    def change(node: object, depth: int) -> object:
        return ast.ColumnRef((f"${node.number}",), location=node.location) if isinstance(node, ast.ParamRef) else node

    return transform(tree, change)
