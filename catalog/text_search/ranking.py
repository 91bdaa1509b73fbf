"""Ranks of a tsvector for a tsquery, computed as in tsrank.c.

ts_rank counts words, in single precision, as in PostgreSQL. ts_rank_cd uses *covers*, the shortest sequences of
positions that match the query: shorter covers have higher ranks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from catalog.text_search.queries import AND, PHRASE, Operand, Operation, Query, nodes, operands
from catalog.text_search.query_matches import entries, matches
from catalog.text_search.vectors import Vector
from catalog.text_search.words import LAST_POSITION, Position

WEIGHTS = (0.1, 0.2, 0.4, 1.0)  # of D, C, B, A
_LOG_LENGTH, _LENGTH, _DISTANCE, _UNIQUE, _LOG_UNIQUE, _TO_ONE = 1, 2, 4, 8, 16, 32
_SUM_OF_SQUARES = 1.64493406685  # pi * pi / 6
_NOWHERE: tuple[Position, ...] = ((LAST_POSITION - 1, 0),)
_one = np.float32(1.0)


def rank(weights: Sequence[float], vector: Vector, query: Query | None, method: int) -> float:
    """ts_rank. `method`: bits that select the divisors of the rank."""
    if not vector or query is None:
        return 0.0
    own = [np.float32(weight) for weight in weights]
    together = isinstance(query, Operation) and query.operator in (AND, PHRASE)
    found = _rank_together(own, vector, query) if together else _rank_any(own, vector, query)
    result = np.float32(1e-20) if found < 0 else found
    length = _length(vector)
    if method & _LOG_LENGTH:
        result = np.float32(float(result) / (math.log(length + 1) / math.log(2.0)))
    if method & _LENGTH:
        result = np.float32(result / np.float32(length))
    if method & _UNIQUE:
        result = np.float32(result / np.float32(len(vector)))
    if method & _LOG_UNIQUE:
        result = np.float32(float(result) / (math.log(len(vector) + 1) / math.log(2.0)))
    if method & _TO_ONE:
        result = np.float32(result / (result + _one))
    return float(result)


def _length(vector: Vector) -> int:
    return sum(len(positions) or 1 for positions in vector.values())


def rank_of_covers(weights: Sequence[float], vector: Vector, query: Query | None, method: int) -> float:
    """ts_rank_cd. `method` as in `rank`; 4 also divides by the mean distance between covers."""
    places = _places(vector, query)
    if query is None or not places:
        return 0.0
    costs = [1.0 / float(np.float32(weight)) for weight in weights]
    result = distances = last = 0.0
    covers = begin = 0
    while (cover := _cover(places, query, begin)) is not None:
        first, end = cover
        inverse = sum(costs[weight] for _, (_, weight) in places[first : end + 1])
        low, high = places[first][1][0], places[end][1][0]
        noise = (high - low) - (end - first)
        if noise < 0:
            noise = (end - first) // 2
        result += (end - first + 1) / inverse / (1 + noise)
        middle = (low + high) / 2.0
        if covers and middle > last:
            distances += 1.0 / (middle - last)
        last = middle
        covers += 1
        begin = first + 1
    if method & _LOG_LENGTH:
        result /= math.log(_length(vector) + 1)
    if method & _LENGTH:
        result /= _length(vector)
    if method & _DISTANCE and covers and distances > 0:
        result /= covers / distances
    if method & _UNIQUE:
        result /= len(vector)
    if method & _LOG_UNIQUE:
        result /= math.log(len(vector) + 1) / math.log(2.0)
    if method & _TO_ONE:
        result /= result + 1
    return float(np.float32(result))


_Place = tuple[str, Position]


def _places(vector: Vector, query: Query | None) -> list[_Place]:
    """Returns every occurrence of the query's words in the vector, in the order of positions."""
    found = {
        (lexeme, position)
        for operand in _every_operand(query)
        for lexeme in entries(vector, operand)
        for position in vector[lexeme]
        if not operand.weights or operand.weights & 1 << position[1]
    }
    return sorted(found, key=lambda place: (place[1], place[0].encode()))


def _every_operand(query: Query | None) -> list[Operand]:
    return [node for node in nodes(query) if isinstance(node, Operand)]


def _cover(places: list[_Place], query: Query, begin: int) -> tuple[int, int] | None:
    """Returns the next cover that begins at place `begin` or later, as its first and last place; None if there is
    none."""
    found: Vector = {}
    for end in range(begin, len(places)):
        _add(found, places[end])
        if matches(found, query):
            break
    else:
        return None
    found = {}
    for first in range(end, begin - 1, -1):
        _add(found, places[first])
        if matches(found, query):
            return first, end
    return _cover(places, query, begin + 1)


def _add(vector: Vector, place: _Place) -> None:
    lexeme, position = place
    vector[lexeme] = (*vector.get(lexeme, ()), position)


def _rank_any(weights: list[np.float32], vector: Vector, query: Query) -> np.float32:
    result = np.float32(0.0)
    wanted = operands(query)
    for operand in wanted:
        for lexeme in entries(vector, operand):
            total, best, place = np.float32(0.0), np.float32(-1.0), 0
            for number, (_, weight) in enumerate(vector[lexeme] or ((0, 0),)):
                own = weights[weight]
                total = np.float32(total + own / np.float32((number + 1) * (number + 1)))
                if own > best:
                    best, place = own, number
            part = np.float32(np.float32(best + total) - best / np.float32((place + 1) * (place + 1)))
            result = np.float32(float(result) + float(part) / _SUM_OF_SQUARES)
    return np.float32(result / np.float32(len(wanted))) if wanted else result


def _rank_together(weights: list[np.float32], vector: Vector, query: Query) -> np.float32:
    wanted = operands(query)
    if len(wanted) < 2:
        return _rank_any(weights, vector, query)
    result = np.float32(-1.0)
    known: list[tuple[Position, ...] | None] = []
    for operand in wanted:
        known.append(None)
        for lexeme in entries(vector, operand):
            known[-1] = vector[lexeme] or _NOWHERE
            for other in known[:-1]:
                if other is not None:
                    result = _with_pairs(result, weights, known[-1] or (), other)
    return result


def _with_pairs(
    result: np.float32, weights: list[np.float32], ours: tuple[Position, ...], others: tuple[Position, ...]
) -> np.float32:
    for at, weight in ours:
        for other_at, other_weight in others:
            distance = abs(at - other_at)
            if not distance:
                if ours is not _NOWHERE and others is not _NOWHERE:
                    continue
                distance = LAST_POSITION + 1
            near = np.float32(weights[weight] * weights[other_weight]) * _nearness(distance)
            pair = np.float32(math.sqrt(float(np.float32(near))))
            if result < 0:
                result = pair
            else:
                result = np.float32(1.0 - (1.0 - float(result)) * (1.0 - float(pair)))
    return result


def _nearness(distance: int) -> np.float32:
    if distance > 100:
        return np.float32(1e-30)
    return np.float32(1.0 / (1.005 + 0.05 * math.exp(float(np.float32(distance)) / 1.5 - 2)))


__all__ = ["WEIGHTS", "Operand", "rank", "rank_of_covers"]
