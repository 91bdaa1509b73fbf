"""float4 and float8 against PostgreSQL: IEEE's corners, overflow and underflow, and elementary functions."""

from __future__ import annotations

import itertools
from typing import Any

import psycopg
import pytest

from tests.catalog.functions.calling import Call, calls, check
from tests.samples import Part, parts

SPECIAL = ("NaN", "Infinity", "-Infinity")
VALUES8 = ("0", "-0", "1", "-1", "0.5", "-2.5", "3", "1e308", "-1e308", "1e-308", "4.9e-324", *SPECIAL)
VALUES4 = ("0", "-0", "1", "-1", "0.1", "-2.5", "3", "3e38", "-3e38", "1e-38", "1.4e-45", *SPECIAL)
OF = {"float8": VALUES8, "float4": VALUES4}
ROUNDED = ("0.4", "0.5", "1.5", "2.5", "-0.5", "-1.5", "-0.2", "1e20", "123456.789", *VALUES8)


@pytest.mark.parametrize("part", parts(4))
def test_arithmetic_and_comparison(postgres: psycopg.Connection[Any], part: Part) -> None:
    calls = []
    for left, right in itertools.product(OF, OF):
        for symbol in ("+", "-", "*", "/", "=", "<>", "<", "<=", ">", ">="):
            calls += [Call(symbol, (left, right), pair) for pair in itertools.product(OF[left], OF[right])]
    check(postgres, part.of(calls))


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
    angles = ("0", "-0", "1", "-1", "0.5", "-0.5", "2", "-2", "100", "1000", "-1000", *SPECIAL)
    found = calls("sin cos tan cot asin acos atan sinh cosh tanh asinh acosh atanh", "float8", angles)
    degrees = ("0", "15", "30", "45", "60", "90", "120", "135", "180", "225", "270", "315", "330", "360", "-30", "-45",
               "-90", "-200", "725", "12.5", "NaN", "Infinity")  # fmt: skip
    found += calls("sind cosd tand cotd atand", "float8", degrees)
    found += calls("asind acosd", "float8", ("0", "0.5", "-0.5", "1", "-1", "0.3", "-0.9", "2", "NaN"))
    found += calls("atan2 atan2d", "float8 float8", *[("0", "1", "-1", "2", "NaN")] * 2)
    check(postgres, found)


def test_width_bucket(postgres: psycopg.Connection[Any]) -> None:
    types = ("float8", "float8", "float8", "int4")
    operands = ("-1", "0", "3.5", "5.35", "10", "11", "NaN", "Infinity")
    bounds = (("0", "10"), ("10", "0"), ("1", "1"), ("0.024", "10.06"), ("NaN", "1"))
    counts = ("5", "0", "2147483647")
    check(postgres, [Call("width_bucket", types, (v, *b, n)) for v in operands for b in bounds for n in counts])


def test_conversions(postgres: psycopg.Connection[Any]) -> None:
    edges = ("32767.4", "32767.5", "-32768.5", "-32768.6", "2147483647.4", "2147483647.5", "-2147483648.5", "1e10",
             "9.3e18", "9223372036854775807", "-9223372036854775808")  # fmt: skip
    singles = tuple(value for value in ROUNDED if value not in ("1e308", "-1e308", "1e-308", "4.9e-324"))
    found = calls("int2 int4 int8", "float8", (*ROUNDED, *edges)) + calls(
        "int2 int4 int8", "float4", (*singles, *edges)
    )
    found += calls("float4", "float8", (*ROUNDED, "1e39", "1e-46", "7e-46", "3.4028235e38", "3.4028236e38"))
    found += calls("float8", "float4", VALUES4)
    found += calls("float4 float8", "int2", ("0", "-32768"))
    found += calls("float4 float8", "int4", ("0", "16777217", "2147483647"))
    found += calls("float4 float8", "int8", ("0", "9007199791611905", "9223372036854775807", "36028797018963969"))
    found += calls("oid", "int8", ("0", "-1", "4294967295", "4294967296"))
    check(postgres, found)
