"""LIKE beside PostgreSQL: short patterns, generated, and long ones, which take time in proportion to their length."""

from __future__ import annotations

import itertools
import random
import time
from typing import Any

import psycopg
import pytest

from catalog.errors import SqlError
from catalog.functions import patterns
from tests.catalog.functions.calling import Call, check
from tests.samples import Part, parts, some

TEXTS = ("", "a", "ab", "aba", "abab", "aab", "b\\", "a%b", "a_b", "xaby", "aXbXa", "äb", "a\nb", "aaab")


def generated() -> list[str]:
    """All patterns of up to three parts, and some longer ones."""
    parts = ("a", "b", "%", "_", "\\", "\\%", "\\_", "\\\\")
    found = ["".join(each) for length in range(4) for each in itertools.product(parts, repeat=length)]
    choose = random.Random(17)
    found += ["".join(choose.choices(parts, k=choose.randint(4, 9))) for _ in range(400)]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("part", parts(3))
def test_like(postgres: psycopg.Connection[Any], part: Part) -> None:
    patterns_of = part.of(generated())
    for start in range(0, len(patterns_of), 250):
        patterns = patterns_of[start : start + 250]
        check(postgres, [Call("~~", ("text", "text"), pair) for pair in itertools.product(TEXTS, patterns)])


def outcome(pattern: str, text: str) -> object:
    try:
        return patterns.like(text, pattern)
    except SqlError as error:
        return error.sqlstate


def test_long_patterns_match_as_short_ones_do(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = list(itertools.product(generated(), TEXTS))
    short = [outcome(*pair) for pair in pairs]
    monkeypatch.setattr(patterns, "LONG", -1)
    longer = []
    for pattern, text in pairs:
        try:
            longer.append(patterns._dangling_matcher(pattern[:-1])(text) if patterns._ends_with_escape(pattern)
                          else patterns._general_matcher(pattern)(text))  # fmt: skip
        except SqlError as error:
            longer.append(error.sqlstate)
    assert longer == short


LONG = ("_b", "a_", "%_a", "a\\%_", "_", "%a", "%a%b\\_", "\\\\_%")


@pytest.mark.parametrize(("part", "ending"), some(itertools.product(LONG, ("", "%", "\\")), 16))
def test_time_is_linear(part: str, ending: str) -> None:
    def seconds(count: int) -> float:
        text, pattern = "ab" * count, part * count + ending
        began = time.process_time()
        outcome(pattern, text)
        return time.process_time() - began

    few, many = min(seconds(20_000) for _ in range(3)), min(seconds(160_000) for _ in range(2))
    assert many < 30 * few + 4
