"""Which cases of a large matrix `make test` tries; the others are for `make test-long`."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


def some(cases: Iterable[Any], one_in: int) -> list[Any]:
    """Parameters for pytest.mark.parametrize: the first of each `one_in` cases as they are, the others marked as long.
    A case of several values is a tuple."""
    made = []
    for number, case in enumerate(cases):
        values = case if isinstance(case, tuple) else (case,)
        made.append(pytest.param(*values, marks=pytest.mark.long if number % one_in else ()))
    return made


@dataclass(frozen=True)
class Part:
    """A part of the cases that one test loops over: one in so many, or the others."""

    one_in: int
    is_rest: bool = False

    def of(self, cases: Iterable[T]) -> list[T]:
        """Its cases, in their order. They are drawn, the same each time: steps of one length through a product would
        always meet the same of its inner kinds."""
        every = list(cases)
        drawn = set(random.Random(len(every)).sample(range(len(every)), math.ceil(len(every) / self.one_in)))
        return [case for number, case in enumerate(every) if (number not in drawn) == self.is_rest]

    def __str__(self) -> str:
        return "rest" if self.is_rest else f"one in {self.one_in}"


def parts(one_in: int) -> list[Any]:
    """Parameters for pytest.mark.parametrize: one in so many of a test's cases for `make test`, the others as long."""
    first, rest = Part(one_in), Part(one_in, is_rest=True)
    return [pytest.param(first, id=str(first)), pytest.param(rest, id=str(rest), marks=pytest.mark.long)]
