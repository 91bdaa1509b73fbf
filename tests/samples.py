"""Which cases of a large matrix `make test` tries; the others are for `make test-long`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def some(cases: Iterable[Any], one_in: int) -> list[Any]:
    """Parameters for pytest.mark.parametrize: the first of each `one_in` cases as they are, the others marked as long.
    A case of several values is a tuple."""
    made = []
    for number, case in enumerate(cases):
        values = case if isinstance(case, tuple) else (case,)
        made.append(pytest.param(*values, marks=pytest.mark.long if number % one_in else ()))
    return made
