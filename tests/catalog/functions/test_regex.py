"""Regular expressions against PostgreSQL: which texts match, what the groups get, what the functions make of it."""

from __future__ import annotations

import gc
import itertools
import random
import tracemalloc
from typing import Any

import psycopg
import pytest

from catalog.errors import SqlError
from catalog.functions import patterns, regex, regex_engine, registry
from catalog.functions.regex_syntax import Options
from tests.catalog.functions.calling import Call, check, decode, encode, find, postgres_answers, quote
from tests.samples import some

TEXTS = ("", "a", "abc", "abab", "foobarbaz", "Hello World 42", "aaa", "a\nb", "x=1, y=22", "äÖü ß", "a.b",
         "2024-01-31",
         "the quick  brown fox", "a{2}", "[x]")  # fmt: skip
PATTERNS = (
    "", "a", "^a", "c$", "^$", ".", "a.b", "a*", "a+", "a?", "(a|ab)(c|bcd)?", "[a-c]+", "[^a-c]+", "\\d+", "\\w+",
    "\\s+",
    "\\D", "\\W", "(\\w+) (\\w+)", "(\\d+)-(\\d+)-(\\d+)", "(a|b|ab)*", "(a|ab|b)+", "(ab){2}", "a{2}", "a{2,}",
    "a{1,2}",
    "b(..)", "foo(.*?)b", "(.*?)(\\d+)", "(\\w+?)(\\w*)", "(?i)hello", "(?:ab)+", "(a)(b)?", "\\mb", "o\\M", "\\yW",
    "\\Y",
    "\\Aa", "b\\Z", "(.)\\1", "(a+)b?\\1", "o(?=o)", "o(?!o)", "(?<=o)o", "(?<!o)b", "[[:alpha:]]+", "[[:space:]]",
    "[[:upper:]][[:lower:]]+", "[]x]", "[^]x]", "a|b|", "(|a)b", "()", "x*?", "(x*?)(.)", "[a\\]]", "[\\d-]+", "\\.",
    "\\x61",
    "\\u00e4", "[.]", "a{", "a{x", "***=a.b", "(?n)^b", "(?x)a b # c", "(?q)a.b", "((a)|(b))*", "(a*)*", "(a*)+",
    "(ab?)*?b",
    "(?:(a)|b)*", "[ä-ü]+", "\\t|\\n", "(a|b)*?c", "([a-z]+,? ?)+", "(y|x)=(\\d+)",
    "^(?:a*){1,1}?(.*){1,1}(?:c*)$", "(?:a*){1,1}?(a*)", "(a{2,2}?)(a*)", "(a{1,1}?b*)", "(a{1,1}b*?)", "(a+?){1}(a*)",
)  # fmt: skip
BAD = ("(", ")", "a)", "[", "[a", "[b-a]", "a**", "*a", "a{2,1}", "a{256}", "a{1", "\\", "\\q", "\\1", "(a)\\2",
       "[[:foo:]]",
       "(?z)a", "(?", "^*", "a|*b", "[[.zz.]]", "[a-[:alpha:]]", "\\x", "[a-b-c]", "+", "?", "(?:a",
       "(a\\1)")  # fmt: skip


def test_matching(postgres: psycopg.Connection[Any]) -> None:
    calls = [Call(op, ("text", "text"), pair) for op in ("~", "!~*") for pair in itertools.product(TEXTS, PATTERNS)]
    calls += [Call("~", ("text", "text"), ("a", pattern)) for pattern in BAD]
    check(postgres, calls)


@pytest.mark.parametrize("literal", (False, True))
@pytest.mark.parametrize(
    "part, count",
    [
        *((part, count) for part in ("a", ".", "a|") for count in (20_000, 400_000)),
        *(pytest.param(part, 100_000, marks=pytest.mark.long) for part in ("a", ".", "a|")),
        ("(a)", 10_000),
    ],
)
def test_too_complex(postgres: psycopg.Connection[Any], part: str, count: int, literal: bool) -> None:
    """What PostgreSQL takes is taken, however long it is, and what is far too long for it is refused."""
    check(postgres, [Call("~", ("text", "text"), ("abc", "***=" * literal + part * count))])


@pytest.mark.parametrize("pattern", some(("a" * 10_000, r"\w" * 10, "a|" * 4000), 3))
@pytest.mark.long
def test_few_long_patterns_are_remembered(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex_engine, "REMEMBERED", 100_000)
    tracemalloc.start()
    try:
        sizes = []
        for number in range(8):
            regex.matches("b", f"{number}{pattern}")
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert max(sizes[4:]) - sizes[3] < max(sizes[3] - sizes[0], len(pattern))


def test_matching_in_linear_time(postgres: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """RE2, which is asked about long texts, finds the same."""
    monkeypatch.setattr(regex_engine, "MANY", -1)
    regex_engine.compile_regex.cache_clear()
    test_matching(postgres)
    test_groups(postgres)
    asked = [regex_engine.regex(pattern, Options()) for pattern in PATTERNS if not pattern.startswith("***")]
    assert sum(expression.linear() is not None for expression in asked) > len(asked) // 2


def test_what_backtracking_would_take_for_ever() -> None:
    for pattern, text in (("a*a*a*a*b", "a" * 20_000), ("(a|b)*c", "ab" * 500_000), ("(a*)*b", "a" * 20_000)):
        assert not regex.matches(text, pattern) and regex.regexp_match(text, pattern) is None
        assert regex.matches(text + pattern[-1], pattern)
    assert not patterns.like("a" * 20_000, "%a%_a%a%a_%a%a%b")


def test_like_finds_what_postgresql_finds(postgres: psycopg.Connection[Any]) -> None:
    generator = random.Random(7)

    def some(letters: str, most: int) -> str:
        return "".join(generator.choices(letters, k=generator.randrange(most)))

    pairs = [(some("ab._", 9), some("ab%%__.", 8)) for _ in range(2000)]
    check(postgres, [Call("~~", ("text", "text"), pair) for pair in pairs])


def test_groups(postgres: psycopg.Connection[Any]) -> None:
    check(postgres, [Call("regexp_match", ("text", "text"), pair) for pair in itertools.product(TEXTS, PATTERNS)])


def test_random_expressions_find_the_same_groups(postgres: psycopg.Connection[Any]) -> None:
    generator = random.Random(20)

    def expression(depth: int) -> str:
        kind = generator.randrange(9 if depth else 3)
        if kind < 3:
            return generator.choice("aab.c") if kind else generator.choice(("[ab]", "[^a]", "\\w"))
        if kind < 5:
            return expression(depth - 1) + expression(depth - 1)
        if kind == 5:
            return f"({expression(depth - 1)}|{expression(depth - 1)})"
        if kind == 6:
            return f"({expression(depth - 1)})"
        quantifier = generator.choice(("*", "+", "?", "{2}", "{1,2}", "*?", "+?", "??", "{0,2}"))
        return f"({expression(depth - 1)}){quantifier}"

    subjects = ["".join(generator.choice("abc") for _ in range(generator.randrange(8))) for _ in range(6)]
    patterns = [expression(4) for _ in range(250)]
    check(postgres, [Call("regexp_match", ("text", "text"), pair) for pair in itertools.product(subjects, patterns)])


def test_replacing_splitting_and_counting(postgres: psycopg.Connection[Any]) -> None:
    calls = []
    templates = ("", "X", "<\\1>", "[\\&]", "\\\\", "\\2\\1", "a\\q")
    for text, pattern in itertools.product(
        TEXTS, ("", "a", "b*", "(\\w)(\\w)?", "\\s+", "a|ab", "x*", "^", "$", "[^a]+?")
    ):
        calls += [Call("regexp_replace", ("text",) * 3, (text, pattern, template)) for template in templates]
        calls += [
            Call("regexp_replace", ("text",) * 4, (text, pattern, t, f)) for t in templates for f in ("g", "gi", "i")
        ]
        calls += [Call("regexp_split_to_array", ("text",) * 2, (text, pattern))]
        calls += [
            Call(name, ("text",) * 2, (text, pattern))
            for name in ("regexp_count", "regexp_instr", "regexp_substr", "substring", "regexp_like")
        ]
        calls += [
            Call("regexp_instr", ("text", "text", "int4", "int4", "int4"), (text, pattern, "2", n, e))
            for n in "12"
            for e in "01"
        ]
        calls += [
            Call("regexp_replace", ("text", "text", "text", "int4", "int4"), (text, pattern, "-", "2", n))
            for n in "012"
        ]
        calls += [
            Call("regexp_substr", ("text", "text", "int4", "int4", "text", "int4"), (text, pattern, "1", "1", "i", n))
            for n in "012"
        ]
    for letters in ("x1", "g", "z", "1", "n", "p", "w", "x"):
        for name in ("regexp_match", "regexp_split_to_array", "regexp_like"):
            calls.append(Call(name, ("text",) * 3, ("a\nb", "^ b.?", letters)))
        calls.append(Call("regexp_replace", ("text",) * 4, ("a\nb", "^ b.?", "y", letters)))
    check(postgres, calls)


def test_all_matches(postgres: psycopg.Connection[Any]) -> None:
    pairs = list(itertools.product(TEXTS, ("a", "", "(\\w)(\\d)?", "b*", "\\s")))
    sql = [f"ARRAY(SELECT regexp_matches({quote(text)}, {quote(p)}, 'g')::text)" for text, p in pairs]
    found = registry.implementation("regexp_matches")
    assert found is not None and found.python is not None
    mine = []
    for text, pattern in pairs:
        rows: Any = found.python(text, pattern, "g")
        mine.append(encode(1009, decode("_text", None)) if rows is None else [encode(1009, row)[6:] for row in rows])
    expected = [decode("_text", answer[6:]).elements for answer in postgres_answers(postgres, sql)]  # type: ignore[attr-defined]
    assert [tuple(rows) for rows in mine] == expected


def test_similar_to(postgres: psycopg.Connection[Any]) -> None:
    patterns = ("abc", "a%", "%b_", "(a|b)%", "[a-c]+", "a\\%", "a.c", "^a", "a{2,3}", '%#"o_b#"%', "")
    calls = [Call("similar_to_escape", ("text",), (p,)) for p in patterns]
    calls += [
        Call("similar_to_escape", ("text", "text"), pair) for pair in itertools.product(patterns, ("#", "", "\\", "xx"))
    ]
    calls += [
        Call("substring", ("text",) * 3, ("foobar", p, "#"))
        for p in ('f*#"%#"r*', '%#"o_b#"%', '#"o_b#"%', "foobar", '%#"b%#"')
    ]
    check(postgres, calls)


def test_patterns_that_explode_elsewhere_do_not() -> None:
    function = find(Call("~", ("text", "text"), ("", "")))
    found = registry.implementation(function.source)
    assert found is not None and found.python is not None
    assert found.python("a" * 200 + "b", "^(a+)+$") is False
    assert found.python("a" * 200, "^(a|aa)+$") is True
    try:
        found.python("a", "(")
    except SqlError as error:
        assert error.sqlstate == "2201B"
