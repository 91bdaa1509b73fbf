"""inet, uuid, counts of NULLs, sizes, Unicode forms, identifiers and sleep against PostgreSQL."""

from __future__ import annotations

import random
import time
import unicodedata
from typing import Any

import psycopg

from catalog.functions.various import is_normalized, normalize
from tests.catalog.functions.expressions import Comparison, check

ADDRESSES = ("10.0.0.1", "10.0.0.1/8", "192.168.1.0/24", "0.0.0.0/0", "255.255.255.255", "::1", "2001:db8::/32",
             "::ffff:1.2.3.4", "fe80::1/64", None)  # fmt: skip


def test_network(postgres: psycopg.Connection[Any]) -> None:
    functions = ("host", "text", "abbrev", "family", "masklen", "broadcast", "netmask", "hostmask")
    check(postgres, [*(f"{name}({{a}})" for name in functions), "~ {a}"], a=("inet", ADDRESSES))
    operators = ("=", "<>", "<", "<=", ">", ">=", "<<", "<<=", ">>", ">>=", "&&", "&", "|", "-")
    check(postgres, [f"{{a}} {name} {{b}}" for name in operators], a=("inet", ADDRESSES), b=("inet", ADDRESSES))
    check(postgres, ["inet_same_family({a}, {b})", "network_larger({a}, {b})",
                     "network_smaller({a}, {b})"], a=("inet", ADDRESSES), b=("inet", ADDRESSES))  # fmt: skip
    check(postgres, ["{a} + {b}", "{b} + {a}", "{a} - {b}"], a=("inet", ADDRESSES),
          b=("int8", ("0", "1", "-1", "4294967296", None)))  # fmt: skip
    check(postgres, ["set_masklen({a}, {b})"], a=("inet", ADDRESSES), b=("int4", ("0", "8", "-1", "33", "129", "-2")))


def test_uuid(postgres: psycopg.Connection[Any]) -> None:
    check(postgres, ["length(gen_random_uuid()::text)", "substr(gen_random_uuid()::text, 15, 1)",
                     "uuid_cmp({a}, {a})"], a=("uuid", ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",)))  # fmt: skip
    comparison = Comparison(postgres, {"a": ("int4", ("1", "2", "3"))})
    for answers in (comparison.row_path("gen_random_uuid()"), comparison.columnar("gen_random_uuid()", [""] * 3)):
        assert len(set(answers)) == 3
    comparison.close()


def test_counts_of_nulls(postgres: psycopg.Connection[Any]) -> None:
    check(postgres, ["num_nulls({a}, {b}, NULL, 1)", "num_nonnulls({a}, {b}, NULL, 1)", "num_nulls({a})"],
          a=("int4", ("1", None)), b=("text", ("x", None)))  # fmt: skip


def test_sizes(postgres: psycopg.Connection[Any]) -> None:
    sizes = ("1", "1kB", " 1.5 GB ", "-3 mb", "1e3", "0x10", "1 xB", "", "kB", "1 bytes", "10 PB", "1e100", ".5kb",
             "1.", "1B", "8192 PB", None)  # fmt: skip
    check(postgres, ["pg_size_bytes({a})"], a=("text", sizes))
    check(postgres, ["pg_size_pretty({a})"], a=("int8", ("0", "10239", "10240", "-10240", "9223372036854775807", None)))
    check(postgres, ["pg_size_pretty({a})"], a=("numeric", ("0", "10239.5", "10240", "-1e15", "1e25", None)))


def test_unicode(postgres: psycopg.Connection[Any]) -> None:
    texts = ("é", "e\u0301", "ﬁ", "Å", "abc", "")
    check(postgres, [f"normalize({{a}}, {form})" for form in ("NFC", "NFD", "NFKC", "NFKD")], a=("text", texts))
    check(postgres, ["normalize({a})", "{a} IS NORMALIZED", "{a} IS NFKD NORMALIZED", "is_normalized({a}, 'nfx')"],
          a=("text", texts))  # fmt: skip
    escapes = ("d\\0061t\\+000061", "\\u0041\\U00000042", "\\\\", "\\d83d\\de00", "\\d83d", "\\de00", "\\x", "\\12",
               "x\\", "\\d83dx\\de00", "\\+110000")  # fmt: skip
    check(postgres, ["unistr({a})"], a=("text", escapes))


def test_identifiers(postgres: psycopg.Connection[Any]) -> None:
    names = ("a", "Schema.Table", '"Quoted".x', ' "a""b" . c ', "a.", ".a", "a..b", '"open', '""', "1a", "", "a b",
             "a.b(c)", "é.x$1", None)  # fmt: skip
    check(postgres, ["parse_ident({a})", "parse_ident({a}, false)"], a=("text", names))


def test_sleep_does_not_block_other_sessions(postgres: psycopg.Connection[Any]) -> None:
    comparison = Comparison(postgres, {"a": ("int4", ("1",))})
    start = time.monotonic()
    assert comparison.columnar("pg_sleep(0.12)", [""]) == ["value "]
    assert 0.1 < time.monotonic() - start < 5
    assert comparison.columnar("pg_sleep({a})", [""])[0].startswith("error 0A000")
    comparison.close()


def test_long_runs_of_marks() -> None:
    """Those that are put into order beforehand become what unicodedata makes of them."""
    chance = random.Random(1)
    parts = "aé\u0301\u0316\u0344\u0f73\u0f75\u3099か\uac00\u1161\u11a8\ufe71"
    texts = ["a" + "\u0301\u0316" * 400, "\u0344" * 700 + "a", "\u0316" * 200 + "\u0301" * 200]
    texts += ["".join(chance.choice(parts) * chance.choice((1, 1, 300)) for _ in range(200)) for _ in range(5)]
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        for text in texts:
            expected = unicodedata.normalize(form, text)  # type: ignore[arg-type]
            assert normalize(text, form) == expected
            assert is_normalized(text, form) == (text == expected)
            assert is_normalized(expected, form)


def test_many_marks_take_no_quadratic_time() -> None:
    began = time.thread_time()
    normalize("a" + "\u0301\u0316" * 100_000)  # 20 s where they are put into order one by one
    assert time.thread_time() - began < 2
