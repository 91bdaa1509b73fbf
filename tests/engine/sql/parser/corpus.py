"""Statements out of psql scripts, and what PostgreSQL's parser says of one without running it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import psycopg

_PIECE = re.compile(
    r"""[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$|--[^\n]*
    |/\*.*?\*/|\\(?:gset|gexec|g|gx|gdesc|crosstabview|watch|bind|;)[^\n]*|[();]|\bbegin\s+atomic\b|\bend\b|\bcase\b
    |\w+|[^\w'"$/\\();-]+|.""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


def corpora() -> Path | None:
    """Where the test corpora are, if SHOAL_CORPORA says so."""
    place = os.environ.get("SHOAL_CORPORA")
    return Path(place) if place and (Path(place) / "pg_regress").is_dir() else None


def statements_of(script: str) -> list[str]:
    """The statements of a psql script: without its meta-commands and the data of its COPY FROM stdin."""
    script = re.sub(r"(?m)^\\[a-z!?].*\n", "", script)
    found, start, depth, body, skip_until = [], 0, 0, 0, 0
    for piece in _PIECE.finditer(script):
        if piece.start() < skip_until:
            start = skip_until
            continue
        text = piece[0].lower()
        depth += (text == "(") - (text == ")")
        if (text.startswith("begin") and len(text) > 5) or (body and text == "case"):
            body += 1
        elif body and text == "end":
            body -= 1
        if (text == ";" and depth <= 0 and body == 0) or text[0] == "\\":
            statement = script[start : piece.start()].strip()
            start, depth = piece.end(), 0
            if statement:
                found.append(statement)
            if re.match(r"(?is)copy\b.*\bfrom\s+stdin\b", statement):
                end = script.find("\n\\.", piece.end())
                skip_until = script.find("\n", end + 1) + 1 if end >= 0 else len(script)
    return [each for each in found if not re.search(r"(?<![:\w]):['\"]?[a-z_]\w*", each)]


@dataclass(frozen=True)
class Verdict:
    """What the parser said: sqlstate None where it had nothing against the text."""

    sqlstate: str | None
    message: str = ""
    position: int | None = None


class ParserOracle:
    """PostgreSQL in a failed transaction block, where it parses a statement and then refuses to run it (25P02)."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._raw = connection.pgconn
        self._enter()

    def _enter(self) -> None:
        self._raw.exec_(b"rollback")
        self._raw.exec_(b"begin")
        self._raw.exec_(b"select 1/0")

    def ask(self, sql: str) -> Verdict:
        result = self._raw.exec_(sql.encode())
        state = (result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) or b"").decode()
        if self._raw.transaction_status != psycopg.pq.TransactionStatus.INERROR:
            self._enter()
        if state in ("", "25P02", "3B001", "25P01"):
            return Verdict(None)
        message = result.error_field(psycopg.pq.DiagnosticField.MESSAGE_PRIMARY) or b""
        position = result.error_field(psycopg.pq.DiagnosticField.STATEMENT_POSITION)
        return Verdict(state, message.decode(), int(position) if position else None)

    def close(self) -> None:
        self._raw.exec_(b"rollback")
