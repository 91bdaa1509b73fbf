"""Integer arithmetic, bits and comparisons against PostgreSQL, at the edges of every width."""

from __future__ import annotations

import itertools
from typing import Any

import psycopg

from tests.catalog.functions.calling import calls, check

VALUES = {
    "int2": ("0", "1", "-1", "7", "-7", "32767", "-32768"),
    "int4": ("0", "1", "-1", "7", "-7", "2147483647", "-2147483648"),
    "int8": ("0", "1", "-1", "7", "-7", "9223372036854775807", "-9223372036854775808"),
}


def test_arithmetic_and_comparison_of_every_pair_of_widths(postgres: psycopg.Connection[Any]) -> None:
    found = []
    for left, right in itertools.product(VALUES, VALUES):
        found += calls("+ - * / = <> < <= > >=", f"{left} {right}", VALUES[left], VALUES[right])
    check(postgres, found)


def test_bits_modulo_and_signs(postgres: psycopg.Connection[Any]) -> None:
    found = []
    for name, values in VALUES.items():
        found += calls("% & | #", f"{name} {name}", values, values)
        found += calls("<< >>", f"{name} int4", values, ("0", "1", "5", "15", "31", "33", "63", "64", "-1"))
        found += calls("- + ~ @", name, values)
        if name != "int2":
            found += calls("gcd lcm", f"{name} {name}", values, values)
    check(postgres, found)


def test_conversions_among_widths(postgres: psycopg.Connection[Any]) -> None:
    found = []
    for source, target in itertools.permutations(VALUES, 2):
        found += calls(target, source, VALUES[source])
    check(postgres, found)
