"""float4 and float8 against PostgreSQL: IEEE's corners, overflow and underflow, and elementary functions."""

from __future__ import annotations

import itertools
from typing import Any

import psycopg

from tests.catalog.functions.calling import Call, check

VALUES8 = (
    "0",
    "-0",
    "1",
    "-1",
    "0.5",
    "-2.5",
    "3",
    "1e308",
    "-1e308",
    "1e-308",
    "4.9e-324",
    "NaN",
    "Infinity",
    "-Infinity",
)
VALUES4 = (
    "0",
    "-0",
    "1",
    "-1",
    "0.1",
    "-2.5",
    "3",
    "3e38",
    "-3e38",
    "1e-38",
    "1.4e-45",
    "NaN",
    "Infinity",
    "-Infinity",
)
OF = {"float8": VALUES8, "float4": VALUES4}
ROUNDED = ("0.4", "0.5", "1.5", "2.5", "-0.5", "-1.5", "-0.2", "1e20", "123456.789", *VALUES8)


def test_arithmetic_and_comparison(postgres: psycopg.Connection[Any]) -> None:
    calls = []
    for left, right in itertools.product(OF, OF):
        for symbol in ("+", "-", "*", "/", "=", "<>", "<", "<=", ">", ">="):
            calls += [Call(symbol, (left, right), pair) for pair in itertools.product(OF[left], OF[right])]
    check(postgres, calls)


def test_signs_and_rounding(postgres: psycopg.Connection[Any]) -> None:
    calls = [Call(op, (name,), (v,)) for name, values in OF.items() for op in "+-@" for v in values]
    calls += [Call(f, ("float8",), (v,)) for f in ["round", "ceil", "floor", "trunc", "sign", "abs"] for v in ROUNDED]
    calls += [Call(f, (n, n), p) for n, values in OF.items() for f in (f"{n}larger", f"{n}smaller")
              for p in itertools.product(values, repeat=2)]  # fmt: skip
    check(postgres, calls)


def test_powers_and_logarithms(postgres: psycopg.Connection[Any]) -> None:
    names = ["sqrt", "cbrt", "exp", "ln", "log", "degrees", "radians"]
    calls = [Call(f, ("float8",), (v,)) for f in names for v in (*VALUES8, "2", "10", "100", "-8", "750", "-800")]
    bases = ("0", "-0", "1", "-1", "2", "-2", "0.5", "-0.5", "1e200", "NaN", "Infinity", "-Infinity")
    exponents = ("0", "1", "-1", "2", "3", "-3", "0.5", "1e5", "NaN", "Infinity", "-Infinity")
    calls += [Call("power", ("float8", "float8"), pair) for pair in itertools.product(bases, exponents)]
    calls += [
        Call("^", ("float8", "float8"), ("2", "10")),
        Call("|/", ("float8",), ("2",)),
        Call("||/", ("float8",), ("27",)),
    ]
    check(postgres, calls)


def test_trigonometry(postgres: psycopg.Connection[Any]) -> None:
    names = ["sin", "cos", "tan", "cot", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"]
    angles = ("0", "-0", "1", "-1", "0.5", "-0.5", "2", "-2", "100", "1000", "-1000", "NaN", "Infinity", "-Infinity")
    calls = [Call(f, ("float8",), (v,)) for f in names for v in angles]
    degrees = ("0", "15", "30", "45", "60", "90", "120", "135", "180", "225", "270", "315", "330", "360", "-30", "-45",
               "-90", "-200", "725", "12.5", "NaN", "Infinity")  # fmt: skip
    calls += [Call(f, ("float8",), (v,)) for f in ("sind", "cosd", "tand", "cotd", "atand") for v in degrees]
    calls += [
        Call(f, ("float8",), (v,))
        for f in ("asind", "acosd")
        for v in ("0", "0.5", "-0.5", "1", "-1", "0.3", "-0.9", "2", "NaN")
    ]
    calls += [
        Call(f, ("float8", "float8"), p)
        for f in ("atan2", "atan2d")
        for p in itertools.product(("0", "1", "-1", "2", "NaN"), repeat=2)
    ]
    check(postgres, calls)


def test_width_bucket(postgres: psycopg.Connection[Any]) -> None:
    types = ("float8", "float8", "float8", "int4")
    rows = [
        (v, low, high, n)
        for v in ("-1", "0", "3.5", "5.35", "10", "11", "NaN", "Infinity")
        for low, high in (("0", "10"), ("10", "0"), ("1", "1"), ("0.024", "10.06"), ("NaN", "1"))
        for n in ("5", "0", "2147483647")
    ]
    check(postgres, [Call("width_bucket", types, row) for row in rows])


def test_conversions(postgres: psycopg.Connection[Any]) -> None:
    edges = (
        "32767.4",
        "32767.5",
        "-32768.5",
        "-32768.6",
        "2147483647.4",
        "2147483647.5",
        "-2147483648.5",
        "1e10",
        "9.3e18",
        "9223372036854775807",
        "-9223372036854775808",
    )
    calls = [
        Call(target, (name,), (v,))
        for name in OF
        for target in ("int2", "int4", "int8")
        for v in (*ROUNDED, *edges)
        if name == "float8" or v not in ("1e308", "-1e308", "1e-308", "4.9e-324")
    ]
    calls += [
        Call("float4", ("float8",), (v,)) for v in (*ROUNDED, "1e39", "1e-46", "7e-46", "3.4028235e38", "3.4028236e38")
    ]
    calls += [Call("float8", ("float4",), (v,)) for v in VALUES4]
    for target in ("float4", "float8"):
        calls += [Call(target, ("int2",), (v,)) for v in ("0", "-32768")]
        calls += [Call(target, ("int4",), (v,)) for v in ("0", "16777217", "2147483647")]
        calls += [
            Call(target, ("int8",), (v,)) for v in ("0", "9007199791611905", "9223372036854775807", "36028797018963969")
        ]
    calls += [Call("oid", ("int8",), (v,)) for v in ("0", "-1", "4294967295", "4294967296")]
    check(postgres, calls)
