"""Queries of operands with & | ! and parentheses: query_int and ltxtquery. (tsquery has a parser of its own.)

A query is an operand, ("!", (query,)), or ("&" or "|", queries), whose operators associate to the left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from catalog.errors import SqlError

Query = Any
_DEEPEST = 150  # parentheses and negations within each other


class QueryReader:
    """Reads a query. A subclass reads the operands."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._depth = 0

    def operand(self) -> object:
        """Reads an operand at `at`. Raises an error if there is none."""
        raise NotImplementedError

    def whole(self) -> Query:
        found = self._alternatives()
        if self._next():
            raise SqlError("42601", "syntax error")
        return found

    def _next(self) -> str:
        while self.at < len(self.text) and self.text[self.at] == " ":
            self.at += 1
        return self.text[self.at : self.at + 1]

    def _alternatives(self) -> Query:
        return self._chain("|", lambda: self._chain("&", self._term))

    def _chain(self, sign: str, part: Callable[[], Query]) -> Query:
        parts = [part()]
        while self._next() == sign:
            self.at += 1
            parts.append(part())
        if len(parts) == 1:
            return parts[0]
        if isinstance(parts[0], tuple) and parts[0][0] == sign:
            parts[:1] = parts[0][1]
        return sign, tuple(parts)

    def _term(self) -> Query:
        char = self._next()
        if char not in ("!", "("):
            return self.operand()
        self.at += 1
        self._depth += 1
        if self._depth > _DEEPEST:
            raise SqlError("54001", "stack depth limit exceeded")
        found: Query = ("!", (self._term(),)) if char == "!" else self._alternatives()
        if char == "(":
            if self._next() != ")":
                raise SqlError("42601", "syntax error")
            self.at += 1
        self._depth -= 1
        return found


def show(query: Query, operand: Callable[[Any], str], is_first: bool = True) -> str:
    """The query as text. As in PostgreSQL, an alternative within another one is in parentheses, also on the left."""
    if not isinstance(query, tuple) or query[0] not in ("!", "&", "|"):
        return operand(query)
    sign, parts = query
    if sign == "!":
        inner = show(parts[0], operand)
        return f"!( {inner} )" if isinstance(parts[0], tuple) and parts[0][0] in ("!", "&", "|") else f"!{inner}"
    shown = [show(part, operand, False) for part in parts]
    if sign == "&":
        return " & ".join(shown)
    text = "( " * (len(shown) - 2) + shown[0]
    text += "".join(f" | {part} )" for part in shown[1:-1]) + f" | {shown[-1]}"
    return text if is_first else f"( {text} )"


def holds(query: Query, operand: Callable[[Any], bool]) -> bool:
    """Whether the query is true if `operand` says which operands are."""
    if not isinstance(query, tuple) or query[0] not in ("!", "&", "|"):
        return operand(query)
    sign, parts = query
    if sign == "!":
        return not holds(parts[0], operand)
    found = (holds(part, operand) for part in parts)
    return all(found) if sign == "&" else any(found)
