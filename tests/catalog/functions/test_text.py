"""Text functions and LIKE against PostgreSQL, with empty strings, characters of four bytes and extreme positions."""

from __future__ import annotations

import itertools
from typing import Any

import psycopg
import pytest

from tests.catalog.functions.calling import Call, check
from tests.samples import Part, parts

TEXTS = ("", "a", "abc", "Hello, World", "  padded \t", "äöü€😀ß", "a%b_c\\d", "aaaa")
NUMBERS = ("0", "1", "2", "-1", "-2", "5", "100", "2147483647", "-2147483648")


def calls_of(names: str, *arguments: tuple[str, ...], types: tuple[str, ...] = ("text", "text", "text")) -> list[Call]:
    rows = list(itertools.product(*arguments))
    return [Call(name, types[: len(row)], row) for name in names.split() for row in rows]


def test_one_argument(postgres: psycopg.Connection[Any]) -> None:
    names = "length octet_length bit_length upper lower initcap ltrim rtrim btrim reverse ascii"
    calls = calls_of(names, TEXTS)
    calls += [
        Call(name, ("bpchar",), (v,)) for name in ("length", "octet_length", "text") for v in ("", "a  ", " a ", "é ")
    ]
    calls += [Call("chr", ("int4",), (v,)) for v in ("0", "65", "8364", "128512", "-1", "1114112", "55296")]
    calls += [
        Call("to_hex", (t,), (v,)) for t in ("int4", "int8") for v in ("0", "255", "-1", "2147483647", "-2147483648")
    ]
    check(postgres, calls)


@pytest.mark.parametrize("part", parts(3))
def test_parts(postgres: psycopg.Connection[Any], part: Part) -> None:
    types = ("text", "int4", "int4")
    calls = calls_of("left right", TEXTS, NUMBERS, types=types) + calls_of(
        "substr substring", TEXTS, NUMBERS, types=types
    )
    calls += calls_of("substr substring", TEXTS, NUMBERS, NUMBERS, types=types)
    calls += calls_of("strpos position starts_with", TEXTS, ("", "a", "b", "€", "World", "xyz"))
    calls += calls_of(
        "split_part", ("", "a,b,c", "a", "a,,b", "a€b€"), ("", ",", "€", "xx"), NUMBERS, types=("text", "text", "int4")
    )
    calls += calls_of(
        "overlay", ("abcdef", "é"), ("", "XX"), ("1", "3", "0", "-1", "100"), types=("text", "text", "int4")
    )
    calls += calls_of("overlay", ("abcdef", "é"), ("", "XX"), ("1", "3", "0"), ("0", "2", "-1", "100", "2147483647"),
                      types=("text", "text", "int4", "int4"))  # fmt: skip
    check(postgres, part.of(calls))


def test_padding_and_replacing(postgres: psycopg.Connection[Any]) -> None:
    numbers = ("0", "1", "2", "-1", "-2", "5", "20", "-2147483648")
    calls = calls_of("lpad rpad", TEXTS, numbers, types=("text", "int4"))
    calls += calls_of("lpad rpad", TEXTS, numbers, ("", "x", "xy", "€😀"), types=("text", "int4", "text"))
    calls += calls_of("repeat", TEXTS, ("0", "1", "3", "-1"), types=("text", "int4"))
    calls += calls_of("btrim ltrim rtrim", TEXTS, ("", "a", " ", "aH d", "€ßä"))
    calls += calls_of("replace translate", TEXTS, ("", "a", "aa", "ab", "äß"), ("", "x", "yz", "xyz"))
    calls += [Call("||", ("text", "text"), pair) for pair in itertools.product(TEXTS, repeat=2)]
    check(postgres, calls)


def test_comparison(postgres: psycopg.Connection[Any]) -> None:
    texts = ("", "a", "B", "b ", "b", "é", "\U0001f600", "\uffee", "b\t")
    calls = []
    for name in ("text", "bpchar", "name"):
        for symbol in ("=", "<>", "<", "<=", ">", ">="):
            calls += [Call(symbol, (name, name), pair) for pair in itertools.product(texts, repeat=2)]
    check(postgres, calls)


def test_like(postgres: psycopg.Connection[Any]) -> None:
    texts = ("", "a", "abc", "a%c", "a_c", "a\\c", "ÄBC", "äbc", "a\nc", "ab", "abcabc", "😀x")
    patterns = ("", "%", "_", "a%", "%c", "%b%", "a_c", "a\\%c", "a\\_c", "a\\\\c", "a\\bc", "a%b%c", "%%", "_%_", "ä%",
                "abc\\", "\\", "%\\", "zz\\", "😀_", "A%", "___", "a.c", "[a]bc")  # fmt: skip
    calls = [
        Call(op, ("text", "text"), pair)
        for op in ("~~", "!~~", "~~*", "!~~*")
        for pair in itertools.product(texts, patterns)
    ]
    calls += [
        Call("like_escape", ("text", "text"), pair) for pair in itertools.product(patterns, ("", "#", "a", "\\", "xx"))
    ]
    check(postgres, calls)
