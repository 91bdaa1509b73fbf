"""Caches of results by text: patterns, templates, queries, time zones.

A cache with a limit of entries only could hold gigabytes if a user sends texts of megabytes. So these caches keep only
the last long text, for statements that use it for every row, and no very long text.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar, TypeVarTuple

R = TypeVar("R")
More = TypeVarTuple("More")

LONG = 4096  # characters; only the last longer text is kept
LONGEST = 1 << 16  # characters; longer texts are not kept


def remembering(count: int) -> Callable[[Callable[[str, *More], R]], Callable[[str, *More], R]]:
    """Caches the last `count` results of a function, whose first argument is a text and whose other arguments are
    short. Exceptions are not cached."""

    def wrap(function: Callable[[str, *More], R]) -> Callable[[str, *More], R]:
        short, long = lru_cache(count)(function), lru_cache(1)(function)

        @wraps(function)
        def look_up(text: str, *more: *More) -> R:
            if len(text) <= LONG:
                return short(text, *more)
            return long(text, *more) if len(text) <= LONGEST else function(text, *more)

        return look_up

    return wrap
