"""Splits SQL text into tokens, by the rules of PostgreSQL's scan.l (PostgreSQL 16 manual, 4.1; release 15 if they
differ).

A token's `key` is the terminal of the grammar:

    select, from, ...        a keyword, in lower case
    ( ) , ; :: .. := => <>   punctuation and the operators of the grammar, by their text
    Op                       any other operator
    IDENT ICONST FCONST SCONST BCONST XCONST PARAM
    ERROR                    a text that cannot be scanned; `text` is the message. It is the last token, and becomes an
                             error only when the parser reaches it, because PostgreSQL scans while it parses.
    ''                       the end
    INTEGERS                 the content of a long IN (1, 2, 3, ...), if the parser requests it

`start` and `end` are character offsets (`end` is after the token). sqlglot's scanner reads single characters, and has
neither operators of any length nor keyword categories, so this module uses one regular expression instead.
"""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
from sqlglot.tokens import Token as SqlglotToken
from sqlglot.tokens import TokenType

from catalog.errors import SqlError
from engine.sql.parser.escapes import EscapeError, resolve_backslashes, resolve_unicode
from engine.sql.parser.keywords import KEYWORDS

_IDENTIFIER_START: Final = r"A-Za-z_\x80-\U0010ffff"
_TOKEN: Final = re.compile(
    rf"""(?:[ \t\n\r\f]++|--[^\n\r]*+)*+(?:
    ([{_IDENTIFIER_START}][{_IDENTIFIER_START}0-9$]*)                      # 1 word
  | ((?:[0-9]+(?:\.(?!\.)[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)           # 2 number
  | ('[^']{{0,500000}}+(?:''[^']{{0,500}}+){{0,1000}}+'(?![ \t\f]*(?:[\n\r]|--)|'))  # 3 string, if short
  | ([~!@\#^&|`?+\-*/%<>=]{{1,256}})                                             # 4 operator characters
  | (::|:=|\.\.|[,()\[\].;:])                                              # 5 punctuation
  | ("(?:[^"]++|"")++")                                                    # 6 quoted identifier
  | \$([0-9]+)                                                             # 7 parameter
  | (\$(?:[{_IDENTIFIER_START}][{_IDENTIFIER_START}0-9]*)?\$)              # 8 dollar quote
  | (.)                                                                    # 9 anything else
  )""",
    re.VERBOSE | re.DOTALL,
)
# Without standard_conforming_strings the expression matches no string: each is read like E''.
_PLAIN_STRING: Final = "('[^']{0,500000}+"
_ESCAPING: Final = re.compile(_TOKEN.pattern.replace(_PLAIN_STRING, f"(?!){_PLAIN_STRING}"), re.VERBOSE | re.DOTALL)
assert _ESCAPING.pattern != _TOKEN.pattern
_WORD, _NUMBER, _STRING, _OPERATOR, _PUNCTUATION, _QUOTED, _PARAMETER, _DOLLAR, _OTHER = range(1, 10)

LONG_LIST = 2048  # characters
_AT_ONCE = 16_384  # characters of such a list in one step; other threads run between steps
_LONE_SIGN: Final = re.compile(rb"[-+](?![0-9])")
_BEGINS: Final = re.compile(rb"[ \t\n\r\f]*+[-+0-9]")
_SPACES: Final = b" \t\n\r\f"
_LARGEST: Final = (1 << 63) - 1  # NumPy's result for numbers out of the range of int8

# The inside of a string, in steps, because no other thread runs during a step of `re`.
_AT_ONCE_INSIDE: Final = 1 << 20  # characters
_STRING_BODY: Final = re.compile(r"[^']*+(?:''[^']*+){0,50000}+")
_ESCAPED_BODY: Final = re.compile(r"[^'\\]*+(?:(?:''|\\.)[^'\\]*+){0,50000}+", re.DOTALL)
_QUOTED_BODY: Final = re.compile(r'[^"]*+(?:""[^"]*+)*+"')
_CONTINUATION: Final = re.compile(r"[ \t\f]*+(?:--[^\n\r]*+)?+[\n\r](?:[ \t\n\r\f]++|--[^\n\r]*+[\n\r])*+'")
_SPACE: Final = r"(?:[ \t\n\r\f]++|--[^\n\r]*+)*+"
_UESCAPE: Final = re.compile(rf"{_SPACE}uescape\b{_SPACE}('(?:[^']|'')*')?", re.IGNORECASE)
_BITS_BODY: Final = re.compile(r"[^']*+")
_JUNK: Final = re.compile(rf"[eE][+-]|[{_IDENTIFIER_START}][{_IDENTIFIER_START}0-9$]*")
_COMMENT_EDGE: Final = re.compile(r"/\*|\*/")

# Operators that are terminals of the grammar, by their text.
_KNOWN_OPERATORS: Final = {op: op for op in ("=", "<", ">", "+", "-", "*", "/", "%", "^", "<=", ">=", "<>", "=>")} | {
    "!=": "<>"
}
_KEEPS_TRAILING_SIGN: Final = frozenset("~!@#^&|`?%")
_TO_LOWER: Final = {ord(letter): letter.lower() for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_MAX_INT4: Final = 2147483647
_IDENTIFIER_BYTES: Final = 63


class Token(SqlglotToken):  # type: ignore[misc]  # sqlglot is untyped here
    """One terminal; `text` is its value: folded identifier, string with escapes resolved, text of a number."""

    __slots__ = ("key",)
    key: str
    text: str
    start: int
    end: int
    # Attributes of sqlglot's tokens that are not used here; class attributes have no cost for each token.
    token_type = TokenType.VAR
    line = 1
    col = 1
    comments: list[str] = []

    def __init__(self, key: str, text: str, start: int, end: int) -> None:
        self.key = key
        self.text = text  # type: ignore[misc]  # a slot of sqlglot's Token
        self.start = start  # type: ignore[misc]
        self.end = end  # type: ignore[misc]


def cut_identifier(name: str) -> str:
    """Truncates a name to 63 bytes (NAMEDATALEN - 1), between characters."""
    if len(name) <= _IDENTIFIER_BYTES // 4 or len(name.encode("utf-8", "surrogatepass")) <= _IDENTIFIER_BYTES:
        return name
    return name.encode("utf-8", "surrogatepass")[:_IDENTIFIER_BYTES].decode("utf-8", "ignore")


def fold_identifier(word: str) -> str:
    """Converts ASCII letters to lower case, as PostgreSQL does in a multi-byte encoding, and truncates to 63 bytes."""
    return cut_identifier(word.lower() if word.isascii() else word.translate(_TO_LOWER))


class _LexicalError(Exception):
    """A lexical error. The message quotes the text from `start` to `end` (None: from the token's start, to the end of
    the input)."""

    def __init__(
        self,
        message: str,
        end: int | None = None,
        *,
        start: int | None = None,
        quotes: bool = True,
        sqlstate: str = "42601",
        hint: str | None = None,
        detail: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.start = start
        self.end = end
        self.quotes = quotes
        self.sqlstate = sqlstate
        self.hint = hint
        self.detail = detail


def _unsafe() -> _LexicalError:
    return _LexicalError(
        "unsafe use of string constant with Unicode escapes",
        quotes=False,
        sqlstate="0A000",
        detail="String constants with Unicode escapes cannot be used when standard_conforming_strings is off.",
    )


class ErrorToken(Token):
    """A text that cannot be scanned, with its error."""

    __slots__ = ("error",)

    def __init__(self, sql: str, start: int, error: _LexicalError) -> None:
        super().__init__("ERROR", error.message, start, len(sql))
        at = start if error.start is None else error.start
        message = f'{error.message} at or near "{sql[at : error.end]}"' if error.quotes else error.message
        position = at + 1 if at >= 0 else None
        self.error = SqlError(error.sqlstate, message, detail=error.detail, hint=error.hint, position=position)


class IntegersToken(Token):
    """The text of a long list of integers, and its `numbers` (int64)."""

    __slots__ = ("numbers",)

    def __init__(self, text: str, numbers: np.ndarray[Any, np.dtype[np.int64]], start: int, end: int) -> None:
        super().__init__("INTEGERS", text, start, end)
        self.numbers = numbers


def _integers(sql: str, start: int) -> IntegersToken | None:
    """Reads a long list of integers that fit int8, up to the next closing parenthesis; None for other lists."""
    end = sql.find(")", start)
    if end - start < LONG_LIST:
        return None
    parts, position = [], start
    while position <= end:
        stop = sql.find(",", position + _AT_ONCE, end)
        stop = end if stop < 0 else stop
        piece = sql[position:stop].encode("utf-8", "replace")
        try:
            some = np.fromstring(piece, np.int64, sep=" , ")
        except ValueError:  # it contains other tokens
            return None
        if not _BEGINS.match(piece) or not piece.rstrip(_SPACES)[-1:].isdigit() or b"\v" in piece:
            return None  # a missing or an additional comma, or another kind of space
        if not -_LARGEST < some.min() <= some.max() < _LARGEST:
            return None
        if (b"-" in piece or b"+" in piece) and _LONE_SIGN.search(piece):
            return None  # NumPy reads a sign without digits as 0
        parts.append(some)
        position = stop + 1
    text = sql[start:end].rstrip()
    return IntegersToken(text, np.concatenate(parts), start, start + len(text))


class Scanner:
    """Scans one string once; `scan` returns all its tokens, the last of which is the end or an error. `conforming`: a
    backslash in a plain string is an ordinary character (standard_conforming_strings). `lists`: a long list of integers
    after IN is one token (INTEGERS)."""

    def __init__(self, sql: str, conforming: bool = True, lists: bool = False) -> None:
        self._sql = sql
        self._conforming = conforming
        self._lists = lists and len(sql) > LONG_LIST
        self._tokens: list[Token] = []

    def scan(self) -> list[Token]:
        sql, tokens, lists = self._sql, self._tokens, self._lists
        match_at, keywords, size = (_TOKEN if self._conforming else _ESCAPING).match, KEYWORDS, len(sql)
        new = Token.__new__  # without __init__, whose call takes as long as all other steps
        position = 0
        while found := match_at(sql, position):
            group = found.lastindex
            position = found.end()  # the end of the group, which is the last part of the match
            if group == _WORD:
                word = found[1]
                start = position - len(word)
                if position < size and sql[position] in "'&\"" and (end := self._read_prefixed(word, start, position)):
                    if end < 0:
                        return tokens
                    position = end
                    continue
                if not word.isascii() or position - start > _IDENTIFIER_BYTES:
                    key, text = "IDENT", fold_identifier(word)
                else:
                    text = word.lower()
                    key = text if text in keywords else "IDENT"
            elif group == _PUNCTUATION:
                key = text = found[5]
                start = position - len(text)
            elif group == _STRING:
                string = found[3]
                key, text, start = "SCONST", string[1:-1].replace("''", "'"), position - len(string)
            elif group == _OPERATOR and (text := found[4]) in _KNOWN_OPERATORS:
                key, start = _KNOWN_OPERATORS[text], position - len(text)
            else:
                start = found.start(group)  # type: ignore[arg-type]
                if group == _PARAMETER:
                    start -= 1
                try:
                    position = self._scan_rarer(group, found, start, position)  # type: ignore[arg-type]
                except _LexicalError as error:
                    tokens.append(ErrorToken(sql, start, error))
                    return tokens
                continue
            token = new(Token)
            token.key = key
            token.text = text  # type: ignore[misc]  # a slot of sqlglot's Token
            token.start = start  # type: ignore[misc]
            token.end = position  # type: ignore[misc]
            tokens.append(token)
            if lists and key == "(" and tokens[-2:-1] and tokens[-2].key == "in":
                integers = _integers(sql, position)
                if integers is not None:
                    tokens.append(integers)
                    position = integers.end
        tokens.append(Token("", "", size, size))
        return tokens

    def _scan_rarer(self, group: int, found: re.Match[str], start: int, position: int) -> int:
        sql, text = self._sql, found[group]
        if group == _NUMBER:
            if junk := _JUNK.match(sql, position):
                raise _LexicalError("trailing junk after numeric literal", junk.end())
            is_int4 = text.isdigit() and int(text) <= _MAX_INT4 if len(text) < 4000 else False
            return self._add("ICONST" if is_int4 else "FCONST", text, start, position)
        if group == _OPERATOR:
            return self._operator(text, start)
        if group == _QUOTED:
            return self._add("IDENT", cut_identifier(text[1:-1].replace('""', '"')), start, position)
        if group == _PARAMETER:
            if junk := _JUNK.match(sql, position):
                raise _LexicalError("trailing junk after parameter", junk.end())
            return self._add("PARAM", text, start, position)
        if group == _DOLLAR:
            end = sql.find(text, position)
            if end < 0:
                raise _LexicalError("unterminated dollar-quoted string")
            return self._add("SCONST", sql[position:end], start, end + len(text))
        if text == "'":
            if not self._conforming:
                return self._read_escape(start, position)
            value, end = self._read_continuation(_STRING_BODY, position, "unterminated quoted string")
            return self._add("SCONST", value.replace("''", "'"), start, end)
        if text == '"':
            return self._quoted_identifier(start, position)
        return self._add("OTHER", text, start, position)

    def _add(self, key: str, text: str, start: int, end: int) -> int:
        self._tokens.append(Token(key, text, start, end))
        return end

    def _operator(self, run: str, start: int) -> int:
        """Reads a run of operator characters, up to a comment, and without trailing signs unless the operator may end
        with one."""
        length = min((at for at in (run.find("/*"), run.find("--")) if at >= 0), default=len(run))
        if length == 0:
            if run.startswith("/*"):
                return self._block_comment(start)
            raise AssertionError("a line comment is skipped with the space before a token")
        text = run[:length]
        if length > 1 and text[-1] in "+-" and not _KEEPS_TRAILING_SIGN.intersection(text):
            text = text[0] + text[1:].rstrip("+-")
        if len(text) > _IDENTIFIER_BYTES:
            raise _LexicalError("operator too long", start + len(text))
        return self._add(_KNOWN_OPERATORS.get(text, "Op"), text, start, start + len(text))

    def _block_comment(self, start: int) -> int:
        depth, position = 1, start + 2
        while edge := _COMMENT_EDGE.search(self._sql, position):
            position = edge.end()
            depth += 1 if edge[0] == "/*" else -1
            if depth == 0:
                return position
        raise _LexicalError("unterminated /* comment")

    def _pieces(self, body: re.Pattern[str], position: int, complaint: str) -> tuple[list[tuple[int, str]], int]:
        """Reads the inside of a string from `position`, and its continuations on later lines. Returns (position, raw
        text) of each, and the end of the last one."""
        pieces: list[tuple[int, str]] = []
        while self._sql[(end := self._end(body, position)) : end + 1] == "'":
            pieces.append((position, self._sql[position:end]))
            position = end + 1
            more = _CONTINUATION.match(self._sql, position)
            if more is None:
                return pieces, position
            position = more.end()
        raise _LexicalError(complaint)

    def _end(self, body: re.Pattern[str], position: int) -> int:
        """Returns the end of the inside of a string."""
        sql = self._sql
        while (found := body.match(sql, position, position + _AT_ONCE_INSIDE)) and found.end() > position:
            position = found.end()
        return position

    def _read_continuation(self, body: re.Pattern[str], position: int, complaint: str) -> tuple[str, int]:
        pieces, end = self._pieces(body, position, complaint)
        return "".join(raw for _, raw in pieces), end

    def _quoted_identifier(self, start: int, position: int) -> int:
        found = _QUOTED_BODY.match(self._sql, position)
        if found is None:
            raise _LexicalError("unterminated quoted identifier")
        if found[0] == '"':
            raise _LexicalError("zero-length delimited identifier", found.end())
        return self._add("IDENT", cut_identifier(found[0][:-1].replace('""', '"')), start, found.end())

    def _read_prefixed(self, word: str, start: int, position: int) -> int:
        """Reads a string with the prefix `word`. Returns its end, 0 if there is no such string, -1 for an error."""
        sql, prefix = self._sql, word.lower()
        try:
            if sql[position] == "'":
                if prefix == "e":
                    return self._read_escape(start, position + 1)
                if prefix == "n":  # nchar 'abc'
                    self._add("nchar", "nchar", start, position)
                    return position
                if prefix in ("b", "x"):
                    kind = "bit string" if prefix == "b" else "hexadecimal string"
                    raw, end = self._read_continuation(_BITS_BODY, position + 1, f"unterminated {kind} literal")
                    return self._add(f"{prefix.upper()}CONST", raw, start, end)
            elif prefix == "u" and sql[position : position + 2] == "&'":
                if not self._conforming:
                    raise _unsafe()
                raw, end = self._read_continuation(_STRING_BODY, position + 2, "unterminated quoted string")
                return self._unicode("SCONST", raw.replace("''", "'"), start, end)
            elif prefix == "u" and sql[position : position + 2] == '&"':
                found = _QUOTED_BODY.match(sql, position + 2)
                if found is None:
                    raise _LexicalError("unterminated quoted identifier")
                if found[0] == '"':
                    raise _LexicalError("zero-length delimited identifier", found.end())
                return self._unicode("IDENT", found[0][:-1].replace('""', '"'), start, found.end())
        except _LexicalError as error:
            self._tokens.append(ErrorToken(sql, start, error))
            return -1
        return 0

    def _read_escape(self, start: int, position: int) -> int:
        pieces, end = self._pieces(_ESCAPED_BODY, position, "unterminated quoted string")
        try:
            return self._add("SCONST", resolve_backslashes("".join(raw for _, raw in pieces)), start, end)
        except EscapeError as error:
            at = error.index
            for offset, raw in pieces:
                if at <= len(raw):
                    at += offset
                    break
                at -= len(raw)
            raise self._escape_error(error, at if error.index >= 0 else -1) from None

    def _escape_error(self, error: EscapeError, at: int) -> _LexicalError:
        return _LexicalError(
            error.message,
            at + (error.length or 0),
            start=at,
            quotes=error.length is not None,
            sqlstate=error.sqlstate,
            hint=error.hint,
        )

    def _unicode(self, key: str, raw: str, start: int, end: int) -> int:
        escape = "\\"
        if found := _UESCAPE.match(self._sql, end):
            if found[1] is None:
                message = "UESCAPE must be followed by a simple string literal"
                following = _TOKEN.match(self._sql, found.end())
                at, until = following.span(following.lastindex or 0) if following else (found.end(), found.end())
                raise _LexicalError(message, until, start=at)
            end, escape = found.end(), found[1][1:-1].replace("''", "'")
            if len(escape) != 1 or escape in "+'\" \t\n\r\f" or escape in "0123456789abcdefABCDEF":
                raise _LexicalError("invalid Unicode escape character", end, start=found.start(1))
        try:
            value = resolve_unicode(raw, escape)
        except EscapeError as error:
            raise self._escape_error(error, start + 3 + error.index) from None
        return self._add(key, cut_identifier(value) if key == "IDENT" else value, start, end)
