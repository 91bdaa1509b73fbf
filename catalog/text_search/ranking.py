"""ts_rank: how well a tsvector meets a tsquery (tsrank.c). All of it is computed in single precision, as there."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from catalog.text_search.matching import entries
from catalog.text_search.queries import AND, PHRASE, Operand, Operation, Query, operands
from catalog.text_search.vectors import Vector
from catalog.text_search.words import LAST_POSITION, Position

WEIGHTS = (0.1, 0.2, 0.4, 1.0)  # of D, C, B, A
_LOG_LENGTH, _LENGTH, _UNIQUE, _LOG_UNIQUE, _TO_ONE = 1, 2, 8, 16, 32
_SUM_OF_SQUARES = 1.64493406685  # pi * pi / 6
_NOWHERE: tuple[Position, ...] = ((LAST_POSITION - 1, 0),)
_one = np.float32(1.0)


def rank(weights: Sequence[float], vector: Vector, query: Query | None, method: int) -> float:
    """ts_rank. `method`: bits that say what the rank is divided by."""
    if not vector or query is None:
        return 0.0
    own = [np.float32(weight) for weight in weights]
    together = isinstance(query, Operation) and query.operator in (AND, PHRASE)
    found = _rank_together(own, vector, query) if together else _rank_any(own, vector, query)
    result = np.float32(1e-20) if found < 0 else found
    length = sum(len(positions) or 1 for positions in vector.values())
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


__all__ = ["WEIGHTS", "Operand", "rank"]
