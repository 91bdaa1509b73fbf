"""Arrays on both paths against PostgreSQL: bounds, dimensions, NULL, elements with an order of their own."""

from __future__ import annotations

from typing import Any

import psycopg

from catalog.types.base import FormatSettings
from tests.catalog.functions.expressions import check

INTEGERS = ("{}", "{1}", "{1,2,3,2}", "{NULL}", "{1,NULL,2}", "{{1,2},{3,4}}", "{{1,2,3}}", "[0:2]={7,8,9}",
            "[-2147483648:-2147483647]={1,2}", "[2147483646:2147483646]={1}", "[2:3][5:6]={{1,2},{3,4}}", "{{{1}}}",
            "{{5,6}}", None)  # fmt: skip
TEXTS = ("{}", '{a,"b c",NULL,""}', "{a,a}", "{{x,y},{z,NULL}}", None)
NUMERICS = ("{1.0,1.00,2}", "{NaN,Infinity}", "{1}", None)
NUMBERS = ("0", "1", "2", "-1", "7", None)


def test_sizes(postgres: psycopg.Connection[Any]) -> None:
    check(postgres, ["cardinality({a})", "array_ndims({a})", "array_dims({a})", "{a}::text", "{a}::int8[]"],
          a=("_int4", INTEGERS))  # fmt: skip
    check(postgres, ["array_length({a}, {b})", "array_lower({a}, {b})", "array_upper({a}, {b})"], a=("_int4", INTEGERS),
          b=("int4", NUMBERS))  # fmt: skip
    small = tuple(a for a in INTEGERS if a is None or "21474" not in a)
    check(postgres, ["trim_array({a}, {b})"], a=("_int4", small), b=("int4", NUMBERS))
    check(postgres, ["generate_subscripts({a}, {b})", "generate_subscripts({a}, {b}, true)"], returns_set=True,
          a=("_int4", small), b=("int4", ("0", "1", "2", "3")))  # fmt: skip
    check(postgres, ["unnest({a})"], returns_set=True, a=("_int4", INTEGERS))


def test_putting_together(postgres: psycopg.Connection[Any]) -> None:
    check(postgres, ["{a} || {b}", "array_cat({a}, {b})", "array_larger({a}, {b})", "{a} < {b}"],
          a=("_int4", INTEGERS), b=("_int4", INTEGERS))  # fmt: skip
    check(postgres, ["{a} || {b}", "{b} || {a}", "array_append({a}, {b})", "array_prepend({b}, {a})"],
          a=("_int4", INTEGERS), b=("int4", ("5", None)))  # fmt: skip
    check(postgres, ["{a} || {b}", "{b} || {a}"], a=("_text", TEXTS), b=("text", ("t", "", None)))
    check(postgres, ["{a} || {b}", "{b} || {a}"], a=("_numeric", NUMERICS), b=("numeric", ("1.50", None)))
    sizes = ("{}", "{2}", "{2,3}", "{0}", "{-1}", "{1,1,1,1,1,1,1}", "{2000000000}", "{NULL}", "{{1,2}}", None)
    check(postgres, ["array_fill(7, {a})", "array_fill(NULL::text, {a})"], a=("_int4", sizes))
    check(postgres, ["array_fill(7, {a}, {b})"], a=("_int4", ("{2}", "{2,3}", "{}", None)),
          b=("_int4", ("{5}", "{-1,1}", "{}", "{2147483647}", None)))  # fmt: skip


def test_searching(postgres: psycopg.Connection[Any]) -> None:
    calls = ["array_position({a}, {b})", "array_positions({a}, {b})", "array_remove({a}, {b})",
             "array_position({a}, {b}, 2)", "array_position({a}, {b}, NULL)"]  # fmt: skip
    check(postgres, [*calls, "array_replace({a}, {b}, 9)", "array_replace({a}, {b}, NULL)", "width_bucket({b}, {a})"],
          a=("_int4", INTEGERS), b=("int4", ("1", "2", "8", None)))  # fmt: skip
    check(postgres, calls, a=("_text", TEXTS), b=("text", ("a", "", "x", None)))
    check(postgres, calls, a=("_numeric", NUMERICS), b=("numeric", ("1", "NaN", "5", None)))
    thresholds = ("{1,3,5}", "{}", "{NULL}", "{{1}}", "{5}")
    check(postgres, ["width_bucket({b}, {a})"], a=("_float8", thresholds), b=("float8", ("0", "3", "NaN", "5", None)))


def test_containment(postgres: psycopg.Connection[Any]) -> None:
    calls = ["{a} @> {b}", "{a} <@ {b}", "{a} && {b}", "{a} = {b}"]
    check(postgres, calls, a=("_int4", INTEGERS), b=("_int4", INTEGERS))
    check(postgres, calls, a=("_text", TEXTS), b=("_text", TEXTS))
    check(postgres, calls[:3], a=("_numeric", NUMERICS), b=("_numeric", NUMERICS))


def test_text(postgres: psycopg.Connection[Any]) -> None:
    settings = FormatSettings(timezone="America/New_York")
    for type_name, arrays in (("_int4", INTEGERS), ("_text", TEXTS), ("_numeric", NUMERICS), ("_bool", ("{t,f,NULL}",)),
                              ("_timestamptz", ('{"2024-07-01 00:00+00",NULL}',))):  # fmt: skip
        check(postgres, ["array_to_string({a}, {b})", "array_to_string({a}, {b}, '*')",
                         "array_to_string({a}, {b}, NULL)"], settings, a=(type_name, arrays), b=("text", (",", "", None)))  # fmt: skip  # noqa: E501
