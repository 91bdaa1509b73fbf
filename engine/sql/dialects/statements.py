"""The statements of a query string in any dialect."""

from __future__ import annotations

import re

from catalog.errors import SqlError
from engine.sql import ast
from engine.sql.dialects.names import SHOAL
from engine.sql.parser import parse

LONGEST = 1 << 18  # characters of a text in another dialect; sqlglot needs almost a second for so many
# First words of statements about the session, which are PostgreSQL's in every dialect.
_OF_SESSION = frozenset((
    "SET", "RESET", "SHOW", "BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE", "DISCARD",
    "DEALLOCATE", "EXECUTE", "LISTEN", "UNLISTEN", "NOTIFY", "FETCH", "MOVE", "CLOSE",
))  # fmt: skip
_FIRST_WORD = re.compile(r"\s*([A-Za-z]+)")


def statements_in(text: str, dialect: str, conforming: bool = True) -> tuple[ast.Statement, ...]:
    """Returns the statements of a query string. Translated ones have `translation`.

    Raises 42601 with the position in the text, 0A000 for unsupported constructs, 54000 for a text that is too long, and
    errors of PostgreSQL's grammar. `conforming`: standard_conforming_strings, for a text in PostgreSQL's SQL."""
    if dialect == SHOAL or is_of_session(text):
        return parse(text, conforming)
    if len(text) > LONGEST:
        message = f"a text of {len(text)} characters is too long for the dialect {dialect}"
        raise SqlError("54000", message, hint=f"The most is {LONGEST}; SET sql_dialect = 'shoal' takes longer ones.")
    from engine.sql.dialects.translation import carry_over  # late: a server starts without it

    return carry_over(text, dialect)


def begins_for_session(text: str) -> bool:
    """Whether the first word of a statement is that of a statement about the session."""
    word = _FIRST_WORD.match(text)
    return word is not None and word[1].upper() in _OF_SESSION


def is_of_session(text: str) -> bool:
    """Whether a text is empty or one statement about the session. It is not parsed here."""
    if not text.strip(" \t\r\n;"):
        return True
    return begins_for_session(text) and ";" not in text.rstrip(" \t\r\n;")
