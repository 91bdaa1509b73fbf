"""Caches of results by text: patterns, templates, queries, time zones.

A cache that counts its entries only would hold gigabytes of a user who sends texts of megabytes. So of long texts the
last one is remembered, which serves a statement that uses it for every row, and of very long ones none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar, TypeVarTuple

R = TypeVar("R")
More = TypeVarTuple("More")

LONG = 4096  # characters; of longer texts one is remembered
LONGEST = 1 << 16  # of longer ones none


def remembering(count: int) -> Callable[[Callable[[str, *More], R]], Callable[[str, *More], R]]:
    """Keeps the last `count` values of a function of a text, and of what else is short. What it raises is not kept."""

    def wrap(function: Callable[[str, *More], R]) -> Callable[[str, *More], R]:
        short, long = lru_cache(count)(function), lru_cache(1)(function)

        @wraps(function)
        def look_up(text: str, *more: *More) -> R:
            if len(text) <= LONG:
                return short(text, *more)
            return long(text, *more) if len(text) <= LONGEST else function(text, *more)

        return look_up

    return wrap
