"""Statements without their constants, as pg_stat_statements shows them: `select $1` for `SELECT 17`.

Constants become $n, with numbers after the highest parameter in the text, and everything else is unchanged (PostgreSQL
15's pg_stat_statements, generate_normalized_query). Tokens that PostgreSQL does not treat as constants are unchanged
too: numbers of columns in ORDER BY, GROUP BY and DISTINCT ON, and the modifiers of types.

`queryid` is a hash of the tokens, independent of case, spaces, comments and constants, and of the OIDs of the
relations. PostgreSQL hashes the analysed tree, in which for example parentheses do not count. Its ids differ, and
clients must not depend on their values.

Statements other than queries are unchanged, except for passwords.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Final

from engine.sql import ast
from engine.sql.parser.lexer import Scanner, Token
from engine.sql.tree_walk import children, node_fields

_MINUS: Final = "-"
_CONSTANT: Final = "?"
_STRINGS: Final = frozenset(("SCONST", "BCONST", "XCONST"))
_SECRET: Final = "'********'"
_QUERIES: Final = (ast.SelectStmt, ast.InsertStmt, ast.UpdateStmt, ast.DeleteStmt, ast.MergeStmt)
_WORDS: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_$?")  # characters of words, in lower case
# In a text in lower case: white space that does not separate two words, and all but one space between words.
_LOOSE: Final = re.compile(r"(?<![a-z0-9_$?\s])\s++|(?<!\s)\s++(?![a-z0-9_$?])")
_WIDE: Final = re.compile(r"\s{2,}|[^\S ]")
# A constant that is recognized without its context: a number with its sign, a string without a continuation, a word.
_EVIDENT: Final = re.compile(
    r"-?\s*(?:[0-9]+(?:\.(?!\.)[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.])"
    r"|'[^']*+(?:''[^']*+)*+'(?!\s*')"
    r"|[A-Za-z_]\w*+(?![\w'&])"
)
_NAMING_COLUMNS: Final = frozenset(("group_by", "order_by", "distinct"))


def describe_statement(statement: ast.Statement, relations: Sequence[int], conforming: bool) -> tuple[int, str]:
    """(queryid, text) of any statement; see `normalize_statement` and `without_secrets`."""
    if isinstance(statement.tree, _QUERIES):
        return normalize_statement(statement, relations, conforming)
    return without_secrets(statement, conforming)


def normalize_statement(statement: ast.Statement, relations: Sequence[int], conforming: bool) -> tuple[int, str]:
    """(queryid, text) of a query or a change. `relations`: OIDs of the relations that its names refer to; `conforming`:
    standard_conforming_strings."""
    statement, places = _shorten(statement)
    found = _splice(statement, places, conforming) or _replace(statement, places, conforming)
    text, canonical = found
    return _hash([*map(str, relations), canonical]), text


def _shorten(statement: ast.Statement) -> tuple[ast.Statement, set[int]]:
    """The statement with one constant in place of each long list of integers, similar to PostgreSQL 18; and the
    positions of the constants in its text."""
    found, lists = _constants(statement.tree) if statement.constants else (set[int](), dict[int, int]())
    places = sorted(place - statement.offset for place in found)
    if not lists:
        return statement, set(places)
    pieces: list[str] = []
    moved: set[int] = set()
    done = shift = 0
    ends = {place - statement.offset: place - statement.offset + size for place, size in lists.items()}
    for place in places:
        moved.add(place - shift)
        if (end := ends.get(place)) is not None:
            pieces += (statement.text[done:place], "0")
            done, shift = end, shift + end - place - 1
    pieces.append(statement.text[done:])
    return replace(statement, text="".join(pieces)), moved


def _splice(statement: ast.Statement, places: set[int], conforming: bool) -> tuple[str, str] | None:
    """As `_replace`, for nearly every text at a third of the cost: the constants are cut out at the positions in the
    tree. None for a text that must be scanned."""
    text = statement.text
    if not text.isascii() or '"' in text or "--" in text or "/*" in text or (not conforming and "\\" in text):
        return None
    shown: list[str] = []
    canonical: list[str] = []
    number, done = statement.parameters, 0
    for place in sorted(places):
        constant = _EVIDENT.match(text, place)
        if constant is None or place < done:
            return None
        number += 1
        between = text[done:place]
        shown += (between, f"${number}")
        canonical += (between, _CONSTANT)
        done = constant.end()
    rest = text[done:]
    tight = _LOOSE.sub("", "".join((*canonical, rest)).strip().lower())
    return "".join((*shown, rest)).strip(), _WIDE.sub(" ", tight)


def without_values(statement: ast.Statement, conforming: bool) -> str:
    """The text of any statement without constants and strings, for logs."""
    statement, places = _shorten(statement)
    strings = {token.start for token in _tokens(statement.text, conforming) if token.key in _STRINGS}
    return _replace(statement, places | strings, conforming)[0]


def _replace(statement: ast.Statement, places: set[int], conforming: bool) -> tuple[str, str]:
    """The text with parameters at these positions; and a form that is equal for all texts that differ only in these, in
    spaces, comments and case."""
    text = statement.text
    pieces: list[str] = []
    canonical = ""
    number = statement.parameters
    done = 0
    minus = -1  # where a constant begins whose sign is a token of its own
    for token in _tokens(text, conforming):
        if token.start in places and token.text == _MINUS and token.key not in _STRINGS:
            minus = token.start
            continue
        if token.start in places or minus >= 0:
            number += 1
            pieces += (text[done : token.start if minus < 0 else minus], f"${number}")
            done, minus = token.end, -1
            word = _CONSTANT
        else:
            word = text[token.start : token.end]
            word = word if word[0] in "\"'" else word.lower()
        canonical += f" {word}" if canonical and canonical[-1] in _WORDS and word[0] in _WORDS else word
    pieces.append(text[done:])
    return "".join(pieces).strip(), canonical


def without_secrets(statement: ast.Statement, conforming: bool) -> tuple[int, str]:
    """(queryid, text) of another statement: unchanged, except for passwords."""
    shown = hide_passwords(statement.text, conforming).strip()
    return _hash([shown]), shown


def hide_passwords(text: str, conforming: bool = True) -> str:
    """A text of any statements without the passwords in them."""
    if "password" not in text.lower():
        return text
    pieces: list[str] = []
    done = 0
    before = ""
    for token in _tokens(text, conforming):
        if token.key == "SCONST" and before == "password":
            pieces += (text[done : token.start], _SECRET)
            done = token.end
        before = token.key
    pieces.append(text[done:])
    return "".join(pieces)


def _tokens(text: str, conforming: bool) -> Iterator[Token]:
    return (token for token in Scanner(text, conforming).scan() if token.key)


def _hash(parts: Iterable[str]) -> int:
    """A hash in the form of PostgreSQL's: a signed number of 8 bytes, never 0."""
    digest = blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True) or 1


def _constants(tree: ast.Node) -> tuple[set[int], dict[int, int]]:
    """The positions of a tree's constants, and the lengths of long lists of integers."""
    found = set[int]()
    lists: dict[int, int] = {}
    waiting: list[tuple[object, bool]] = [(tree, False)]  # and whether numbers in it name columns
    while waiting:
        value, names_columns = waiting.pop()
        if isinstance(value, tuple):
            waiting += [(item, names_columns) for item in value]
        elif isinstance(value, ast.Literal):
            if not (names_columns and value.kind == "integer"):
                found.add(value.location)
        elif isinstance(value, ast.IntegerList):
            found.add(value.location)
            lists[value.location] = len(value.text)
        elif isinstance(value, ast.SortBy):
            waiting.append((value.expression, names_columns))
        elif isinstance(value, ast.SelectStmt):
            waiting += [(getattr(value, name), name in _NAMING_COLUMNS) for name in node_fields[ast.SelectStmt]]
        elif isinstance(value, ast.Node):
            waiting += [(part, False) for part in children(value)]
    return found, lists
