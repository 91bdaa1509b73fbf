"""numeric arithmetic, rounding, comparison and conversions against PostgreSQL: values, scales and errors."""

from __future__ import annotations

import itertools
import random
from typing import Any

import psycopg

from tests.catalog.functions.calling import Call, check

VALUES = (
    "0", "0.00", "1", "-1", "1.10", "-2.5", "2.5", "0.5", "3.499", "9999", "10000", "10001.0001", "0.0001",
    "0.00001234",
    "123456789012345678901234567890.123456789", "-99999999999999999999999999999999999999", "1e-30", "7e20", "NaN",
    "Infinity", "-Infinity",
)  # fmt: skip


def random_numbers(count: int, seed: int = 7) -> list[str]:
    generator = random.Random(seed)
    numbers = []
    for _ in range(count):
        whole = generator.randrange(10 ** generator.randrange(1, 22))
        decimals = generator.randrange(0, 12)
        text = f"{whole}.{generator.randrange(10**decimals):0{decimals}d}" if decimals else str(whole)
        numbers.append(generator.choice(("", "-")) + text)
    return numbers


def test_arithmetic(postgres: psycopg.Connection[Any]) -> None:
    calls = [Call(op, ("numeric", "numeric"), pair) for op in "+-*/%" for pair in itertools.product(VALUES, repeat=2)]
    numbers = random_numbers(60)
    calls += [Call(op, ("numeric", "numeric"), pair) for op in "+-*/%" for pair in itertools.pairwise(numbers)]
    calls += [Call("div", ("numeric", "numeric"), pair) for pair in itertools.product(VALUES, repeat=2)]
    check(postgres, calls)


def test_comparison(postgres: psycopg.Connection[Any]) -> None:
    operators = ("=", "<>", "<", "<=", ">", ">=")
    calls = [Call(op, ("numeric", "numeric"), pair) for op in operators for pair in itertools.product(VALUES, repeat=2)]
    for name in ("numeric_larger", "numeric_smaller"):
        calls += [Call(name, ("numeric", "numeric"), pair) for pair in itertools.product(VALUES, repeat=2)]
    check(postgres, calls)


def test_rounding_and_scale(postgres: psycopg.Connection[Any]) -> None:
    names = ("round", "trunc", "ceil", "floor", "abs", "sign", "scale", "min_scale", "trim_scale")
    calls = [Call(name, ("numeric",), (value,)) for name in names for value in (*VALUES, "100.500", "-0.4", "-0.5")]
    calls += [Call(op, ("numeric",), (value,)) for op in ("+", "-", "@") for value in VALUES]
    digits = ("0", "1", "2", "5", "40", "-1", "-3", "-40", "2147483647", "-2147483648")
    for name in ("round", "trunc"):
        calls += [Call(name, ("numeric", "int4"), pair) for pair in itertools.product((*VALUES, "-55.555"), digits)]
    check(postgres, calls)


def test_conversions(postgres: psycopg.Connection[Any]) -> None:
    values = (
        *VALUES,
        "32767.4",
        "32767.5",
        "-32768.5",
        "2147483647.5",
        "2147483647.49",
        "9223372036854775807.5",
        "1e400",
    )
    calls = [Call(name, ("numeric",), (v,)) for name in ("int2", "int4", "int8", "float4", "float8") for v in values]
    calls += [Call("numeric", (name,), (v,)) for name in ("int2", "int4", "int8") for v in ("0", "-32768", "32767")]
    floats = ("0", "-0", "1.5", "1e300", "1e-300", "0.1", "123456789.123", "NaN", "Infinity", "-Infinity", "1e20")
    calls += [Call("numeric", ("float8",), (v,)) for v in floats]
    calls += [Call("numeric", ("float4",), (v,)) for v in ("0", "1.5", "1e30", "1e-30", "0.1", "16777217", "NaN")]
    check(postgres, calls)


MAGNITUDES = ("0", "1", "2", "10", "0.5", "0.1", "0.95", "1.05", "1.000001", "3.14159", "99.99", "1000", "12345.678",
              "1e20", "1e-20", "0.000012", "123456789012345678901234567890", "-1", "-2", "-0.5", "NaN", "Infinity",
              "-Infinity", "1.00", "9999", "0.9999", "7000")  # fmt: skip


def test_roots_logarithms_and_exponentials(postgres: psycopg.Connection[Any]) -> None:
    calls = [Call(f, ("numeric",), (v,)) for f in ["sqrt", "exp", "ln", "log", "log10"] for v in MAGNITUDES]
    calls += [Call("log", ("numeric", "numeric"), p) for p in itertools.product(MAGNITUDES[:14], MAGNITUDES)]
    positive = [number.lstrip("-") for number in random_numbers(60)]
    calls += [Call(f, ("numeric",), (v,)) for f in ("sqrt", "ln", "log") for v in positive]
    check(postgres, calls)


def test_powers(postgres: psycopg.Connection[Any]) -> None:
    exponents = ("0", "1", "2", "-1", "-2", "3", "10", "-10", "0.5", "-0.5", "1.5", "2.00", "33.3", "100", "-3.25",
                 "NaN",
                 "Infinity", "-Infinity", "3000000000", "0.001")  # fmt: skip
    pairs = [p for p in itertools.product(MAGNITUDES, exponents) if p[1] != "3000000000" or len(p[0]) < 3]
    check(postgres, [Call("^", ("numeric", "numeric"), pair) for pair in pairs])


def test_whole_number_functions(postgres: psycopg.Connection[Any]) -> None:
    calls = [Call(f, ("numeric", "numeric"), p) for f in ("gcd", "lcm") for p in itertools.product(VALUES, repeat=2)]
    calls += [Call("factorial", ("int8",), (v,)) for v in ("0", "1", "5", "30", "-1", "32178")]
    operands = ("-1", "0", "3.5", "5.35", "10", "11", "NaN", "Infinity", "-Infinity")
    bounds = (("0", "10"), ("10", "0"), ("1", "1"), ("0.024", "10.06"), ("NaN", "1"), ("Infinity", "1"))
    types = ("numeric", "numeric", "numeric", "int4")
    calls += [Call("width_bucket", types, (v, low, high, n)) for v in operands for low, high in bounds
              for n in ("5", "0", "2147483647")]  # fmt: skip
    check(postgres, calls)
