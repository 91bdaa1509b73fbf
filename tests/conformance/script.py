"""psql scripts: text -> statements, cut as psql cuts them (PostgreSQL's psqlscan.l).

A statement ends at a semicolon outside quotes, comments, parentheses and BEGIN ATOMIC bodies. `\\;` joins statements
into one message. Backslash commands: `\\set`, `\\getenv` and `\\gset` work on variables, `\\gexec` runs what came back,
`\\g` sends; all others concern psql alone and are left out. `:name`, `:'name'` and `:"name"` are replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<comment>--[^\n]*)
      | (?P<block>/\*)
      | (?P<quoted>[eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | [uU]&"(?:[^"]|"")*" | "(?:[^"]|"")*")
      | (?P<dollar>\$(?:[A-Za-z_\x80-\uffff][A-Za-z0-9_\x80-\uffff]*)?\$)
      | (?P<variable>(?<!:):(?:[A-Za-z_0-9]+|'[A-Za-z_0-9]+'|"[A-Za-z_0-9]+"))
      | (?P<cast>::)
      | (?P<word>[A-Za-z_\x80-\uffff][A-Za-z0-9_$\x80-\uffff]*)
      | (?P<backslash>\\;|\\[^\s;\\]*[^\n\\]*)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_COPY_IN = re.compile(r"\s*copy\b(?!.*\bto\s+stdout).*\bfrom\s+stdin\b", re.IGNORECASE | re.DOTALL)
_TRAILING = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*", re.DOTALL)


@dataclass(slots=True)
class Statement:
    """One message. `data`: what follows COPY FROM STDIN. `after`: gset or gexec, with `prefix` of \\gset's variables.
    `line` counts from 1."""

    sql: str
    line: int
    data: str = ""
    after: str = ""
    prefix: str = ""


class Script:
    """A script that is read statement by statement, for what is read may depend on variables set by what ran."""

    def __init__(self, text: str, environment: Mapping[str, str]) -> None:
        self._text = text
        self._environment = environment
        self.variables: dict[str, str] = {}

    def __iter__(self) -> Iterator[Statement]:
        position, parts, start = 0, [], 0
        depth = atomic = 0
        text = self._text
        while position < len(text):
            match = _TOKEN.match(text, position)
            assert match is not None
            kind, piece, begun = match.lastgroup, match[0], position
            position = match.end()
            if kind == "block":
                position = _block_end(text, begun)
                piece = text[begun:position]
            elif kind == "dollar":
                stop = text.find(piece, position)
                position = len(text) if stop < 0 else stop + len(piece)
                piece = text[begun:position]
            elif kind == "variable":
                piece = self._value(piece)
            elif kind == "word":
                lowered = piece.lower()
                begins = lowered == "atomic" and re.search(r"\bbegin\s+$", "".join(parts), re.IGNORECASE)
                if begins or (atomic and lowered == "case"):
                    atomic += 1
                elif atomic and lowered == "end":
                    atomic -= 1
            elif kind == "backslash":
                if piece == "\\;":
                    parts.append(";")
                    continue
                if piece.startswith("\\"):
                    found = self._command(piece, "".join(parts), start or begun)
                    if found is not None:
                        yield found
                        parts, start = [], 0
                    continue
            elif piece == "(":
                depth += 1
            elif piece == ")":
                depth = max(depth - 1, 0)
            elif piece == ";" and not depth and not atomic:
                sql = "".join(parts)
                parts = []
                if not _empty(sql):
                    line = text.count("\n", 0, start) + 1
                    statement = Statement(sql.strip() + ";", line)
                    if _COPY_IN.match(sql):
                        statement.data, position = _copy_data(text, position)
                    yield statement
                start = 0
                continue
            if not start and not piece.isspace() and kind not in ("comment", "block"):
                start = begun
            parts.append(piece)
        sql = "".join(parts)
        if not _empty(sql):
            yield Statement(sql.strip(), text.count("\n", 0, start) + 1)

    def _value(self, piece: str) -> str:
        name = piece[1:].strip("'\"")
        value = self.variables.get(name)
        if value is None:
            return piece
        if piece[1] == "'":
            return "'" + value.replace("'", "''") + "'"
        return '"' + value.replace('"', '""') + '"' if piece[1] == '"' else value

    def _command(self, piece: str, sql: str, start: int) -> Statement | None:
        name, _, rest = piece[1:].partition(" ")
        words = re.findall(r"'[^']*'|\S+", rest)
        if name == "getenv" and len(words) == 2 and words[1] in self._environment:
            self.variables[words[0]] = self._environment[words[1]]
        elif name == "set" and words:
            self.variables[words[0]] = "".join(
                self._value(word) if word.startswith(":") else word.strip("'") for word in words[1:]
            )
        elif name in ("g", "gset", "gexec") and not _empty(sql):
            after = "" if name == "g" else name
            line = self._text.count("\n", 0, start) + 1
            return Statement(sql.strip(), line, after=after, prefix=words[0] if words else "")
        return None


def _empty(sql: str) -> bool:
    match = _TRAILING.match(sql)
    return match is not None and match.end() == len(sql)


def _block_end(text: str, position: int) -> int:
    """Block comments nest."""
    depth = 0
    for match in re.compile(r"/\*|\*/").finditer(text, position):
        depth += 1 if match[0] == "/*" else -1
        if depth == 0:
            return match.end()
    return len(text)


def _copy_data(text: str, position: int) -> tuple[str, int]:
    """The lines behind the statement's own, up to a line of `\\.`."""
    begin = text.find("\n", position) + 1
    end = re.compile(r"^\\\.[^\n]*\n?", re.MULTILINE).search(text, begin)
    if end is None:
        return text[begin:], len(text)
    return text[begin : end.start()], end.end()
