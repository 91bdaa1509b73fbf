"""LIKE and ILIKE: patterns of literal characters, `_` and `%`, with an escape character (PostgreSQL 16 manual, 9.7.1).

A pattern is translated once into a compiled expression, or into a plain comparison where it is only a prefix, a suffix
or a substring; translations are cached by pattern. As in PostgreSQL, a pattern that ends with the escape character is
an error (22025) only when the match gets that far. The escape character of the operators is the backslash;
LIKE ... ESCAPE c goes through like_escape(), which rewrites the pattern.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from catalog.errors import SqlError
from catalog.functions.case_mapping import lower
from catalog.functions.registry import implement
from catalog.remembering import remembering
from catalog.types.base import TypeRef

Match = Callable[[str], bool]
_ENDS_WITH_ESCAPE = re.compile(r"(?:[^\\]|\\.)*\\", re.DOTALL)
_PLAIN = re.compile(r"(%*)([^%_\\]*)(%*)")


def _bad_end() -> SqlError:
    return SqlError("22025", "LIKE pattern must not end with escape character")


def _parts(pattern: str) -> list[str]:
    """What stands between the `%` of a pattern, as Python regular expressions of fixed length."""
    parts, index = [""], 0
    while index < len(pattern):
        char = pattern[index]
        if char == "%":
            parts.append("")
        else:
            if char == "\\":
                index += 1
                char = re.escape(pattern[index])
            else:
                char = "." if char == "_" else re.escape(char)
            parts[-1] += char
        index += 1
    return parts


def _general_matcher(pattern: str) -> Match:
    """Each part where it is found first behind the one before it, which leaves most to those that follow: one regular
    expression of them all would try every other place too, in time of the power of the number of parts."""
    first, *others = [re.compile(part, re.DOTALL) for part in _parts(pattern)]
    if not others:
        return lambda text: first.fullmatch(text) is not None
    *middle, last = others
    searches = [part.search for part in middle if part.pattern]
    tail = re.compile(f"(?:{last.pattern})\\Z", re.DOTALL)
    length = sum(1 for _ in re.finditer(r"\\.|.", last.pattern, re.DOTALL))

    def match(text: str) -> bool:
        found = first.match(text)
        for search in searches:
            if found is None:
                return False
            found = search(text, found.end())
        return found is not None and tail.match(text, max(found.end(), len(text) - length)) is not None

    return match


@remembering(512)
def matcher(pattern: str) -> Match:
    """Makes the test of one pattern. What it makes may raise 22025."""
    plain = _PLAIN.fullmatch(pattern)
    if plain:
        return _plain_matcher(plain[2], bool(plain[1]), bool(plain[3]))
    if _ENDS_WITH_ESCAPE.fullmatch(pattern):
        return _dangling_matcher(pattern)
    return _general_matcher(pattern)


def _plain_matcher(literal: str, before: bool, after: bool) -> Match:
    if before and after:
        return lambda text: literal in text
    if before:
        return lambda text: text.endswith(literal)
    if after:
        return lambda text: text.startswith(literal)
    return lambda text: text == literal


def _dangling_matcher(pattern: str) -> Match:
    """For a pattern that ends with its escape character: an error if the part before it matches a prefix of the text
    with something left over, as MatchText() finds out."""
    before = re.compile(".*".join(_parts(pattern[:-1])), re.DOTALL)

    def match(text: str) -> bool:
        if any(before.fullmatch(text, 0, end) for end in range(len(text))):
            raise _bad_end()
        return False

    return match


def like(text: str, pattern: str) -> bool:
    return matcher(pattern)(text)


def ilike(text: str, pattern: str) -> bool:
    return matcher(lower(pattern))(lower(text))


def like_escape(pattern: str, escape: str) -> str:
    """The pattern with its own escape character turned into the backslash; '' means no escaping. Raises 22025."""
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

_CONSTANT = re.compile(r"(?:CAST\()?'((?:[^']|'')*)'(?:::VARCHAR| AS VARCHAR\))?")


def _like_side(negated: bool, fold: bool) -> Callable[[Sequence[str], Sequence[TypeRef]], str | None]:
    """DuckDB's LIKE has no escape character of its own accord, and complains of a dangling one at other times: so only
    for constant patterns, where both can be seen."""
    symbol = "NOT LIKE" if negated else "LIKE"

    def side(arguments: Sequence[str], types: Sequence[TypeRef]) -> str | None:
        constant = _CONSTANT.fullmatch(arguments[1])
        if constant is None or _ENDS_WITH_ESCAPE.fullmatch(constant[1]):
            return None
        escape = " ESCAPE '\\'" if "\\" in constant[1] else ""
        left, right = (f"lower({argument})" for argument in arguments) if fold else arguments
        return f"({left} {symbol} {right}{escape})"

    return side


def _negated(function: Callable[[str, str], bool]) -> Callable[[str, str], bool]:
    return lambda text, pattern: not function(text, pattern)


def _register() -> None:
    for name in ("text", "name"):
        implement(f"{name}like", like, _like_side(negated=False, fold=False))
        implement(f"{name}nlike", _negated(like), _like_side(negated=True, fold=False))
        implement(f"{name}iclike", ilike, _like_side(negated=False, fold=True))
        implement(f"{name}icnlike", _negated(ilike), _like_side(negated=True, fold=True))
    implement("like_escape", like_escape)
    implement("bytealike", _bytes_like)
    implement("byteanlike", lambda value, pattern: not _bytes_like(value, pattern))
    implement("like_escape_bytea", lambda pattern, escape: like_escape(
        pattern.decode("latin-1"), escape.decode("latin-1")).encode("latin-1"))  # fmt: skip


_register()
