"""Tokens: operators, strings, identifiers, numbers and what cannot be scanned."""

from __future__ import annotations

import random
import threading
import time

import pytest

from catalog.errors import SqlError
from engine.sql.parser import escapes, lexer, parse
from engine.sql.parser.lexer import Scanner


def _tokens(sql: str) -> list[tuple[str, str]]:
    return [(token.key, token.text) for token in Scanner(sql).scan()[:-1]]


@pytest.mark.parametrize(
    ("sql", "texts"),
    [
        ("a<-1", ["a", "<", "-", "1"]),
        ("a@-1", ["a", "@-", "1"]),
        ("a+-1", ["a", "+", "-", "1"]),
        ("1*/*c*/2", ["1", "*", "2"]),
        ("1+--c\n2", ["1", "+", "2"]),
        ("a!=b<>c", ["a", "!=", "b", "<>", "c"]),
        ("a->>b#>>c", ["a", "->>", "b", "#>>", "c"]),
        ("x::int:=y=>z..", ["x", "::", "int", ":=", "y", "=>", "z", ".."]),
        ("/* a /* b */ c */ 1", ["1"]),
        ("1..2", ["1", "..", "2"]),
        ("$1 $$a'b$$ $x$ $$ $x$", ["1", "a'b", " $$ "]),
    ],
)
def test_operators_and_punctuation(sql: str, texts: list[str]) -> None:
    assert [text for _, text in _tokens(sql)] == texts


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("'it''s'", "it's"),
        ("'a'\n  'b'", "ab"),
        ("'a' -- c\n 'b'", "ab"),
        ("'a\\n'", "a\\n"),
        (r"E'a\n\t\\\'\x41\101\u00e9\U0001F600'", "a\n\t\\'AAé😀"),
        (r"e'\xc3\xa9'", "é"),
        (r"E'\ud83d\ude00'", "😀"),
        (r"U&'d\0061t\+000061'", "data"),
        (r"U&'d!0061' UESCAPE '!'", "da"),
        ("''", ""),
    ],
)
def test_strings(sql: str, value: str) -> None:
    assert _tokens(sql) == [("SCONST", value)]


def test_a_string_before_a_line_of_blanks_is_scanned_in_linear_time() -> None:
    blanks = " " * 200
    assert _tokens(f"'a'\n{blanks}'b' and") == [("SCONST", "ab"), ("and", "and")]
    assert _tokens(f"'a'\n{blanks}and") == [("SCONST", "a"), ("and", "and")]


def test_bit_strings() -> None:
    assert _tokens("B'01' x'1F'") == [("BCONST", "01"), ("XCONST", "1F")]


def test_identifiers_are_folded_and_cut_to_63_bytes() -> None:
    assert _tokens('Foo "Foo" "a""b" ÄB') == [("IDENT", "foo"), ("IDENT", "Foo"), ("IDENT", 'a"b'), ("IDENT", "Äb")]
    assert _tokens("x" * 70) == [("IDENT", "x" * 63)]
    assert _tokens("é" * 40) == [("IDENT", "é" * 31)]
    assert _tokens(r'U&"d\0061ta"') == [("IDENT", "data")]


@pytest.mark.parametrize(
    ("sql", "sqlstate", "message", "position"),
    [
        ("select 'abc", "42601", 'unterminated quoted string at or near "\'abc"', 8),
        ("select 'a''", "42601", "unterminated quoted string at or near \"'a''\"", 8),
        ("select $a$ x", "42601", 'unterminated dollar-quoted string at or near "$a$ x"', 8),
        ("select /* x", "42601", 'unterminated /* comment at or near "/* x"', 8),
        ('select ""', "42601", 'zero-length delimited identifier at or near """"', 8),
        ("select 1a", "42601", 'trailing junk after numeric literal at or near "1a"', 8),
        (r"select E'\u00'", "22025", "invalid Unicode escape", 10),
        (r"select E'\xff'", "22021", 'invalid byte sequence for encoding "UTF8": 0xff', None),
        ("selec 'abc", "42601", 'syntax error at or near "selec"', 1),
        ("select \\", "42601", 'syntax error at or near "\\"', 8),
    ],
)
def test_what_cannot_be_scanned(sql: str, sqlstate: str, message: str, position: int | None) -> None:
    with pytest.raises(SqlError) as caught:
        parse(sql)
    assert (caught.value.sqlstate, caught.value.message, caught.value.position) == (sqlstate, message, position)


@pytest.mark.parametrize("times", [49_999, 50_000, 50_001, 150_000])
@pytest.mark.parametrize(
    ("begin", "part", "value"), [("'", "''", "'"), ("E'", "''", "'"), ("E'", r"\n", "\n"), ("U&'", "''", "'")]
)
def test_strings_of_several_parts(begin: str, part: str, value: str, times: int) -> None:
    """Long ones are read in parts, so that no step holds other threads."""
    inside = part * times
    assert _tokens(f"{begin}a{inside}b' 1") == [("SCONST", f"a{value * times}b"), ("ICONST", "1")]
    assert _tokens(f"{begin}{inside}'\n'c'") == [("SCONST", f"{value * times}c")]
    assert Scanner(f"{begin}{inside}").scan()[-1].text == "unterminated quoted string"


@pytest.mark.parametrize("seed", range(4))
def test_long_texts_with_escapes_are_what_short_ones_are(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read in whole stretches, wherever one of them ends."""
    chance = random.Random(seed)
    simple = [r"\\", r"\n", r"\t", r"\b", r"\q", "a", "''", "é", "n", "\n", "\\\n"]
    for _ in range(2000):
        parts = simple if chance.randrange(4) else [*simple, r"\'", r"\101", r"\x41", r"\u00e4"]
        raw = "".join(chance.choices(parts, k=chance.randrange(40)))
        monkeypatch.setattr(escapes, "_LONG", 1 << 30)
        short = escapes.resolve_backslashes(raw)
        monkeypatch.setattr(escapes, "_LONG", 0)
        monkeypatch.setattr(escapes, "_AT_ONCE", chance.choice((3, 7, 50)))
        assert escapes.resolve_backslashes(raw) == short


@pytest.mark.parametrize("prefix", ["", "E", "U&", "N"])
@pytest.mark.parametrize("step", [2, 3, 7, 1 << 40])
def test_strings_are_read_in_steps_of_any_size(prefix: str, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a step ends: before, within and behind what stands for a quote or a backslash."""
    choose = random.Random(step)
    parts = ("a", "''", "ä", "\n", "b''''") + (("\\\\", "\\'", "\\n", "\\x41") if prefix == "E" else ())
    for count in (0, 1, 5, 40, 3000):
        inside = "".join(choose.choice(parts) for _ in range(count))
        sql = f"SELECT {prefix}'{inside}' AS a, {prefix}'x'\n'{inside}'"
        expected = parse(sql)
        with monkeypatch.context() as patch:
            patch.setattr(lexer, "_AT_ONCE_INSIDE", step)
            assert parse(sql) == expected


def test_a_long_string_does_not_hold_the_interpreter() -> None:
    """Threads take turns while it is read."""
    sql = f"SELECT E'{'x' * (40 << 20)}', '{'y' * (40 << 20)}'"
    over, longest = threading.Event(), 0.0

    def watch() -> None:
        nonlocal longest
        before = time.perf_counter()
        while not over.wait(0.001):
            now = time.perf_counter()
            longest, before = max(longest, now - before), now

    watching = threading.Thread(target=watch)
    watching.start()
    began = time.perf_counter()
    parse(sql)
    took = time.perf_counter() - began
    over.set()
    watching.join()
    assert longest < max(took / 3, 0.05)
