"""Matches a tsvector with a tsquery (TS_execute), phrases by positions (TS_phrase_execute).

A lexeme without positions (of a stripped vector) has unknown places (None), and no phrase matches it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from catalog.text_search.queries import AND, OR, PHRASE, Operand, Operation, Query
from catalog.text_search.vectors import Vector


@dataclass(slots=True)
class _Places:
    """The ends of a phrase part's matches, and its width beyond one word; `negated`: all other places."""

    found: list[int] = field(default_factory=list)
    width: int = 0
    negated: bool = False

    @property
    def there(self) -> bool:
        return self.negated or bool(self.found)


def matches(vector: Vector, query: Query | None) -> bool:
    return query is not None and _holds(vector, query)


def _holds(vector: Vector, query: Query) -> bool:
    if isinstance(query, Operand):
        return _has(vector, query)
    assert isinstance(query, Operation)
    if query.left is None:
        return not _holds(vector, query.right)
    if query.operator == AND:
        return _holds(vector, query.left) and _holds(vector, query.right)
    if query.operator == OR:
        return _holds(vector, query.left) or _holds(vector, query.right)
    places = _places(vector, query)
    return places is not None and places.there


def entries(vector: Vector, operand: Operand) -> list[str]:
    """Returns the lexemes of the vector that an operand matches."""
    if not operand.prefix:
        return [operand.lexeme] if operand.lexeme in vector else []
    return [lexeme for lexeme in vector if lexeme.startswith(operand.lexeme)]


def _has(vector: Vector, operand: Operand) -> bool:
    for lexeme in entries(vector, operand):
        positions = vector[lexeme]
        if not positions or not operand.weights:
            return True
        if any(operand.weights & 1 << weight for _, weight in positions):
            return True
    return False


def _places(vector: Vector, query: Query) -> _Places | None:
    """Returns the places that match a query; None if they are unknown."""
    if isinstance(query, Operand):
        return _places_of(vector, query)
    assert isinstance(query, Operation)
    if query.left is None:
        inner = _places(vector, query.right)
        if inner is not None:
            inner.negated = not inner.negated
        return inner
    left = _places(vector, query.left)
    if query.operator != OR and left is not None and not left.there:
        return _Places()
    right = _places(vector, query.right)
    if query.operator != OR and right is not None and not right.there:
        return _Places()
    if left is None or right is None:
        return None
    if query.operator == OR:
        return _either(left, right)
    if query.operator == PHRASE:
        shifts = query.distance + right.width, 0
        return _both(left, right, shifts, query.distance + left.width + right.width)
    return _both(left, right, *_align(left, right))


def _places_of(vector: Vector, operand: Operand) -> _Places | None:
    found: set[int] = set()
    unknown = False
    for lexeme in entries(vector, operand):
        positions = vector[lexeme]
        unknown = unknown or not positions
        found.update(number for number, weight in positions if not operand.weights or operand.weights & 1 << weight)
    return None if unknown else _Places(sorted(found))


def _align(left: _Places, right: _Places) -> tuple[tuple[int, int], int]:
    """Returns the shifts of both sides after which both have the same end, and the common width."""
    width = max(left.width, right.width)
    return (width - left.width, width - right.width), width


def _both(left: _Places, right: _Places, shifts: tuple[int, int], width: int) -> _Places:
    """Returns the places that both sides match."""
    ours, theirs = ({place + shift for place in side.found} for side, shift in zip((left, right), shifts, strict=True))
    if left.negated and right.negated:
        return _Places(_sort(ours | theirs), width, True)
    if left.negated:
        return _Places(_sort(theirs - ours), width)
    if right.negated:
        return _Places(_sort(ours - theirs), width)
    return _Places(_sort(ours & theirs), width)


def _either(left: _Places, right: _Places) -> _Places:
    """Returns the places that any side matches."""
    for side in (left, right):
        if not side.there:
            side.width = 0
    shifts, width = _align(left, right)
    ours, theirs = ({place + shift for place in side.found} for side, shift in zip((left, right), shifts, strict=True))
    if left.negated and right.negated:
        return _Places(_sort(ours & theirs), width, True)
    if left.negated:
        return _Places(_sort(ours - theirs), width, True)
    if right.negated:
        return _Places(_sort(theirs - ours), width, True)
    return _Places(_sort(ours | theirs), width)


def _sort(places: set[int]) -> list[int]:
    return sorted(place for place in places if place > 0)
