"""LIKE and ILIKE: patterns of literal characters, `_` and `%`, with an escape character (PostgreSQL 16 manual, 9.7.1).

A pattern is translated once to a compiled expression, or to a plain comparison if it is a prefix, a suffix or a
substring; translations are cached by pattern. As in PostgreSQL, a pattern that ends with the escape character raises
22025 only if the match reaches its end. The escape character of the operators is the backslash; LIKE ... ESCAPE c calls
like_escape(), which rewrites the pattern.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from catalog.duckdb.nodes import Sql, constant_text, fill
from catalog.errors import SqlError
from catalog.functions.base import Function, Side, Trait
from catalog.functions.letter_case import ascii_lower, lower
from catalog.functions.registry import implement, mark
from catalog.text_caches import remembering
from catalog.types.base import TypeRef

Match = Callable[[str], bool]
_PLAIN = re.compile(r"(%*)([^%_\\]*)(%*)")
_WILDCARD = re.compile("[%_]")
_TOKENS = re.compile(r"[^%_\\]+|_+|%+|\\.", re.DOTALL)
LONG = 1000  # characters: a longer pattern is not compiled, which takes Python 10 us for each character


def _bad_end() -> SqlError:
    return SqlError("22025", "LIKE pattern must not end with escape character")


def _ends_with_escape(pattern: str) -> bool:
    """Whether the pattern ends with an escape character that escapes nothing: it ends with an odd number of
    backslashes."""
    return (len(pattern) - len(pattern.rstrip("\\"))) % 2 == 1


class _Part:
    """The part of a pattern between two `%`: literal texts, each at a distance from the part's beginning, and the
    part's `length` in characters."""

    __slots__ = ("_first", "_pieces", "_search", "_start", "length")

    def __init__(self, tokens: Sequence[str], compiles: bool) -> None:
        pieces: list[tuple[int, str]] = []
        literal: list[str] = []
        length = 0
        for token in tokens:
            if token[0] == "_":
                if literal:
                    text = "".join(literal)
                    pieces.append((length - len(text), text))
                    literal = []
                length += len(token)
            else:
                literal.append(token[1:] if token[0] == "\\" else token)
                length += len(literal[-1])
        if literal:
            text = "".join(literal)
            pieces.append((length - len(text), text))
        self.length = length
        self._first = pieces[0] if pieces else (0, "")
        self._pieces = pieces
        self._start: Callable[[str, int], re.Match[str] | None] | None = None
        self._search = self._start
        if compiles:
            compiled = re.compile(_expression(pieces, length), re.DOTALL)
            self._start, self._search = compiled.match, compiled.search

    def ends(self, text: str, start: int) -> int:
        """Returns the end of the part's match that begins at `start`; -1 if it does not match there."""
        if self._start is not None:
            found = self._start(text, start)
            return -1 if found is None else found.end()
        end = start + self.length
        if end > len(text):
            return -1
        starts = text.startswith
        return end if all(starts(literal, start + at) for at, literal in self._pieces) else -1

    def find_end(self, text: str, start: int) -> int:
        """Returns the end of the part's first match that begins at `start` or later; -1 if there is none."""
        if self._search is not None:
            match = self._search(text, start)
            return -1 if match is None else match.end()
        at, literal = self._first
        last = len(text) - self.length
        while start <= last:
            start = text.find(literal, start + at, last + at + len(literal)) - at
            if start + at < 0:
                return -1
            end = self.ends(text, start)
            if end >= 0:
                return end
            start += 1
        return -1


def _expression(pieces: Sequence[tuple[int, str]], length: int) -> str:
    written: list[str] = []
    at = 0
    for place, literal in pieces:
        written += (f".{{{place - at}}}" if place > at else "", re.escape(literal))
        at = place + len(literal)
    return "".join((*written, f".{{{length - at}}}" if length > at else ""))


def _parts(pattern: str) -> list[_Part]:
    """Returns the parts of a pattern between its `%`; the part between two adjacent `%` is empty."""
    parts: list[list[str]] = [[]]
    for token in _TOKENS.findall(pattern):
        if token[0] == "%":
            parts.append([])
        else:
            parts[-1].append(token)
    compiles = len(pattern) <= LONG
    return [_Part(tokens, compiles) for tokens in parts]


def _general_matcher(pattern: str) -> Match:
    """Returns a matcher that searches each part at its first match after the previous part; this leaves most text for
    the next parts. One regular expression for the whole pattern would also try all other places; its time is the
    text's length to the power of the number of parts."""
    first, *others = _parts(pattern)
    if not others:
        length, ends = first.length, first.ends
        return lambda text: len(text) == length and ends(text, 0) >= 0
    *middle, last = others
    searches = [part.find_end for part in middle]

    def match(text: str) -> bool:
        end = first.ends(text, 0)
        for search in searches:
            if end < 0:
                return False
            end = search(text, end)
        start = len(text) - last.length
        return 0 <= end <= start and last.ends(text, start) >= 0

    return match


@remembering(512)
def matcher(pattern: str) -> Match:
    """Returns the test of one pattern. The test may raise 22025."""
    plain = _PLAIN.fullmatch(pattern)
    if plain:
        return _plain_matcher(plain[2], bool(plain[1]), bool(plain[3]))
    if _ends_with_escape(pattern):
        return _dangling_matcher(pattern[:-1])
    return _general_matcher(pattern)


def _plain_matcher(literal: str, before: bool, after: bool) -> Match:
    if before and after:
        return lambda text: literal in text
    if before:
        return lambda text: text.endswith(literal)
    if after:
        return lambda text: text.startswith(literal)
    return lambda text: text == literal


def _dangling_matcher(before: str) -> Match:
    """Returns the test of a pattern that is `before` and a final escape character. As MatchText(), the test raises
    22025 if `before` matches a prefix of the text and some text is left. After a `%`, it requires the character after
    the wildcards even if no text is left."""
    kept = before.rstrip("%_")
    if (len(kept) - len(kept.rstrip("\\"))) % 2:
        kept = before[: len(kept) + 1]  # the first wildcard is escaped
    wildcards = before[len(kept) :]
    single, percent, more = wildcards.partition("%")
    first, *others = _parts(kept + single)
    searches = [part.find_end for part in others]
    taken = more.count("_") if percent else 0

    def match(text: str) -> bool:
        end = first.ends(text, 0)
        for search in searches:
            if end < 0:
                return False
            end = search(text, end)
        if 0 <= end < len(text) and end + taken <= len(text):
            raise _bad_end()
        return False

    return match


def like(text: str, pattern: str) -> bool:
    return matcher(pattern)(text)


def ilike(text: str, pattern: str) -> bool:
    return matcher(lower(pattern))(lower(text))


def ascii_ilike(text: str, pattern: str) -> bool:
    """ILIKE under a collation whose only letters are those of ASCII."""
    return matcher(ascii_lower(pattern))(ascii_lower(text))


def is_like(function: Function) -> bool:
    """Whether it is LIKE of text."""
    return function.source == "textlike"


def beginning(pattern: str) -> str:
    """The text with which every text begins that LIKE matches with the pattern: up to the first wildcard."""
    if "\\" not in pattern:
        return _WILDCARD.split(pattern, maxsplit=1)[0]
    found, characters = "", iter(pattern)
    for character in characters:
        if character in "%_":
            break
        found += next(characters, "") if character == "\\" else character
    return found


def like_escape(pattern: str, escape: str) -> str:
    """Replaces the pattern's escape character by the backslash; '' means no escape character. Raises 22025."""
    if not escape:
        return pattern.replace("\\", "\\\\")
    if len(escape) > 1:
        raise SqlError("22025", "invalid escape string", hint="Escape string must be empty or one character.")
    if escape == "\\":
        return pattern
    result, index = [], 0
    while index < len(pattern):
        char = pattern[index]
        if char == escape:
            result.append("\\")
            index += 1
            result.append(pattern[index : index + 1])
        else:
            result.append("\\\\" if char == "\\" else char)
        index += 1
    return "".join(result)


def _bytes_like(value: bytes, pattern: bytes) -> bool:
    return like(value.decode("latin-1"), pattern.decode("latin-1"))


# ---- the DuckDB side ----


def _retries(pattern: str) -> bool:
    """Whether DuckDB tries the parts of a pattern at every match of the earlier parts, as it does for patterns with `_`
    or escapes. Its time is then the text's length to the power of the number of `%`."""
    return pattern.strip("%").count("%") > 1 and ("_" in pattern or "\\" in pattern)


def _like_side(negated: bool, fold: bool) -> Side:
    """Returns DuckDB's LIKE for constant patterns only: DuckDB has no default escape character, and raises the error
    about a final escape character in other cases."""
    symbol = "NOT LIKE" if negated else "LIKE"

    def side(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql | None:
        pattern = constant_text(arguments[1])
        if pattern is None or _ends_with_escape(pattern) or _retries(pattern):
            return None
        escape = " ESCAPE '\\'" if "\\" in pattern else ""
        template = "(lower({}) {} lower({}){})" if fold else "({} {} {}{})"
        return fill(template, arguments[0], symbol, arguments[1], escape)

    return side


def _negate(function: Callable[[str, str], bool]) -> Callable[[str, str], bool]:
    return lambda text, pattern: not function(text, pattern)


def _register() -> None:
    for name in ("text", "name"):
        implement(f"{name}like", like, _like_side(negated=False, fold=False))
        implement(f"{name}nlike", _negate(like), _like_side(negated=True, fold=False))
        implement(f"{name}iclike", ilike, _like_side(negated=False, fold=True))
        implement(f"{name}icnlike", _negate(ilike), _like_side(negated=True, fold=True))
        mark(Trait.LIKE, f"{name}like", f"{name}nlike")
        mark(Trait.ILIKE, f"{name}iclike", f"{name}icnlike")
        implement(f"ascii_{name}iclike", ascii_ilike)
        implement(f"ascii_{name}icnlike", _negate(ascii_ilike))
    implement("like_escape", like_escape)
    implement("bytealike", _bytes_like)
    implement("byteanlike", lambda value, pattern: not _bytes_like(value, pattern))
    implement("like_escape_bytea", lambda pattern, escape: like_escape(
        pattern.decode("latin-1"), escape.decode("latin-1")).encode("latin-1"))  # fmt: skip


_register()
