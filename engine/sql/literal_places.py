"""Positions of errors in a body that is a string of a statement (function_parse_error_transpose)."""

from __future__ import annotations

from catalog.errors import SqlError

Literal = tuple[int, str]
"""The offset of a string in its statement, and the string as it is written there."""


def move_to_statement(error: SqlError, literal: Literal | None, body: str) -> None:
    """Makes the position of an error in a body one in the statement. In a string with escapes it cannot be found: the
    error then has the body as its query."""
    if error.position is None or error.internal_query:  # the latter: it is a place in another text
        return
    place = None if literal is None else _place(error.position, *literal)
    if place is None:
        error.internal_query = body
    else:
        error.position = place


def _place(position: int, start: int, written: str) -> int | None:
    if written.startswith("$"):
        return start + written.index("$", 1) + 1 + position
    if not written.startswith("'"):
        return None
    at = 1
    for _ in range(position - 1):
        at += 2 if written[at] == "'" else 1
    return start + at + 1
