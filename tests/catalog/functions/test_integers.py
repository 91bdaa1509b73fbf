"""Integer arithmetic, bits and comparisons against PostgreSQL, at the edges of every width."""

from __future__ import annotations

import itertools
from typing import Any

import psycopg

from tests.catalog.functions.calling import Call, check

VALUES = {
    "int2": ("0", "1", "-1", "7", "-7", "32767", "-32768"),
    "int4": ("0", "1", "-1", "7", "-7", "2147483647", "-2147483648"),
    "int8": ("0", "1", "-1", "7", "-7", "9223372036854775807", "-9223372036854775808"),
}


def binary(symbols: str, left: str, right: str) -> list[Call]:
    return [
        Call(symbol, (left, right), arguments)
        for symbol in symbols.split()
        for arguments in itertools.product(VALUES[left], VALUES[right])
    ]


def test_arithmetic_and_comparison_of_every_pair_of_widths(postgres: psycopg.Connection[Any]) -> None:
    calls = []
    for left, right in itertools.product(VALUES, VALUES):
        calls += binary("+ - * / = <> < <= > >=", left, right)
    check(postgres, calls)


def test_bits_modulo_and_signs(postgres: psycopg.Connection[Any]) -> None:
    calls = []
    for name in VALUES:
        calls += binary("% & | #", name, name)
        calls += [Call(op, (name, "int4"), (v, n)) for op in ("<<", ">>") for v in VALUES[name]
                  for n in ("0", "1", "5", "15", "31", "33", "63", "64", "-1")]  # fmt: skip
        calls += [Call(op, (name,), (v,)) for op in ("-", "+", "~", "@") for v in VALUES[name]]
    for name in ("int4", "int8"):
        calls += [
            Call(f, (name, name), pair) for f in ("gcd", "lcm") for pair in itertools.product(VALUES[name], repeat=2)
        ]
    check(postgres, calls)


def test_conversions_among_widths(postgres: psycopg.Connection[Any]) -> None:
    calls = [
        Call(target, (source,), (v,)) for source, target in itertools.permutations(VALUES, 2) for v in VALUES[source]
    ]
    check(postgres, calls)
