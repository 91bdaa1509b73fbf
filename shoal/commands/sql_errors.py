"""Formats an error of the database for `shoal sql`."""

from __future__ import annotations

import re

from catalog.errors import SqlError

LINE = 60  # characters of a line that are shown around the error position
RIGHT = 10  # of them at least after the position


def format_error(error: SqlError, statement: str) -> str:
    """The database's error, with the position in the statement, the detail and the hint on lines of their own."""
    said = (("DETAIL", error.detail), ("HINT", error.hint), ("QUERY", error.internal_query))
    more = [f"{name}: {text}" for name, text in said if text]
    place = _error_position_lines(error.internal_query or statement, error.position or 0)
    return "\n".join([f"{error.message} ({error.sqlstate})", *place, *more])


def _error_position_lines(statement: str, position: int) -> list[str]:
    """The line of the statement at a position (from 1), and a caret below it, as libpq formats them (PostgreSQL 15,
    reportErrorPosition). Empty for a position outside of the statement."""
    if not statement or not 1 <= position <= len(statement) + 1:
        return []
    number, start = 1, 0
    for end in re.finditer(r"\r\n|\r|\n", statement[: position - 1]):
        number, start = number + 1, end.end()
    line = re.split(r"[\r\n]", statement[start:], maxsplit=1)[0].replace("\t", " ")
    at, first, last = position - 1 - start, 0, len(line)
    if len(line) > LINE:
        if at + RIGHT <= LINE:
            last = LINE
        else:
            last = min(last, at + RIGHT)
            first = max(0, last - LINE)
    head = f"LINE {number}: {'...' if first else ''}"
    return [f"{head}{line[first:last]}{'...' if last < len(line) else ''}", " " * (len(head) + at - first) + "^"]
