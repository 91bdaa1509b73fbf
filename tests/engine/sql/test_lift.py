"""Lifting: what is lifted, what is left alone, and that nothing is lost on the way."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.sql.lift import lift
from engine.sql.normalize import describe_statement
from engine.sql.parser import parse
from engine.sql.parser.lexer import Scanner


@pytest.mark.parametrize(
    ("sql", "template", "literals", "kinds"),
    [
        ("SELECT a FROM t1 WHERE id = 17", "SELECT a FROM t1 WHERE id = $1", ["17"], "i"),
        ("update t set a = a + -12 where b = 'it''s';", "update t set a = a + -$1 where b = $2;", ["12", "it's"], "is"),
        ("select 2147483647, 9999999999, 1.5, 1e3, .5", "select $1, $2, $3, $4, $5",
         ["2147483647", "9999999999", "1.5", "1e3", ".5"], "ilnnn"),
        ("insert into t (c2) values ('$1', 5)", "insert into t (c2) values ($1, $2)", ["$1", "5"], "si"),
        ('select "a1""2", 3 from "t 4"', 'select "a1""2", $1 from "t 4"', ["3"], "i"),
        ("select a from t where b like 'x%' order by a limit 10", "select a from t where b like $1 order by a limit $2",
         ["x%", "10"], "si"),
        ("select 'a'::text, f('b', 1)", "select $1::text, f($2, $3)", ["a", "b", "1"], "ssi"),
        ("delete from t where a in (1, 'b') and é2 = 3", "delete from t where a in ($1, $2) and é2 = $3",
         ["1", "b", "3"], "isi"),
        ("select a from t where b > 5 order by b, 2 desc limit 3",
         "select a from t where b > $1 order by b, 2 desc limit $2", ["5", "3"], "ii"),
        ("select a + 7 from t group by 1, a + 7 having sum(b) > 9 order by 2",
         "select a + $1 from t group by 1, a + 7 having sum(b) > $2 order by 2", ["7", "9"], "ii"),
    ],
)  # fmt: skip
def test_literals_become_parameters(sql: str, template: str, literals: list[str], kinds: str) -> None:
    assert lift(sql.encode()) == (template.encode(), [text.encode() for text in literals], kinds.encode())


@pytest.mark.parametrize(
    "sql",
    [
        "select 1 -- c",
        "select /* c */ 1",
        "select $1, 2",
        "select $$a$$, 2",
        "select E'a\\'b'",
        "select e'a'",
        "select U&'a'",
        "select B'1'",
        "select x'1'",
        "select N'a'",
        "select date '2020-01-01'",
        "select interval '1' day",
        "select \"char\" 'a'",
        "select varchar(3) 'a'",
        "select a::varchar(10)",
        "select cast(a as numeric(10, 2))",
        "select a::s.mytype(1)",
        "select a::int[3]",
        "select a::int[][3]",
        "select current_timestamp(2)",
        "select extract('year' from a)",
        "select a from t order by 1",
        "select a from t group by 1 order by 2, 1",
        "select distinct on (1) a from t",
        "insert into t values (1) on conflict ((a + 1)) do nothing",
        "select 1; select 2",
        "select 'a'\n'b'",
        "select 'a'b",
        "select 'a'1",
        "select 1a",
        "select 'a",
        "select 1 into t",
        "select -2147483648",
        "select -9223372036854775808",
        "select a",
        "create table t (a int default 1)",
        "with w as (select 1) select 2",
        "set a = 1",
        "select " + ",".join(["1"] * 101),
        "select 1 " + " " * 8200,
    ],
)
def test_what_a_parameter_would_change_is_left_alone(sql: str) -> None:
    assert lift(sql.encode()) is None


_LITERALS = st.one_of(
    st.integers(0, 10**21).map(str),
    st.sampled_from(("0", "1.5", ".5", "2e3", "1e-3", "10.", "007")),
    st.text("ab'\"$\\-;/*1é ", max_size=6).map(lambda text: "'" + text.replace("'", "''") + "'"),
)
_WORDS = "select|a|b1|,|(|)| |=|-|+|*|/| where | and | in |;| like | order by | limit |::|int"
_MORE_WORDS = "as |.|[|]|E|$|$1|--|/*|\n|é|'|\"q'1\"| date |numeric(|x|U&|1| values | from | t"
_PIECES = st.one_of(_LITERALS, st.sampled_from(_WORDS.split("|") + _MORE_WORDS.split("|")))


@given(st.lists(_PIECES, max_size=14).map("".join))
@example("a = 1 and b = 'x'")
@example("'a''b', 1")
@example("1e-31.5")
def test_literals_put_back_give_the_same_tokens(tail: str) -> None:
    sql = "select " + tail
    lifted = lift(sql.encode())
    if lifted is None:
        return
    template, literals, kinds = lifted
    original = [(token.key, token.text) for token in Scanner(sql).scan()]
    restored = []
    for token in Scanner(template.decode()).scan():
        if token.key != "PARAM":
            restored.append((token.key, token.text))
            continue
        text = literals[int(token.text) - 1].decode()
        kind = kinds[int(token.text) - 1 : int(token.text)]
        is_int4 = text.isdigit() and int(text) < 2**31
        restored.append(("SCONST" if kind == b"s" else "ICONST" if is_int4 else "FCONST", text))
    assert restored == original


def test_kinds_tell_statements_apart_that_share_a_template() -> None:
    first, second = lift(b"select 1"), lift(b"select '1'")
    assert first is not None
    assert second is not None
    assert first[0] == second[0]
    assert first[0] + first[2] != second[0] + second[2]


FRAGMENTS = ("a", " ", "(", ";", "$", "::a ", "interval ", "as of ", "order by ", "conflict ", "on ", "'", '"', "1",
             ".", "-", "é", "''", "1::a", "a(", "[ ", "distinct on ")  # fmt: skip


@pytest.mark.parametrize("fragment", FRAGMENTS)
def test_no_text_takes_long(fragment: str) -> None:
    """Nothing that repeats takes time that grows with the square of the text: 8 kB are a step of some milliseconds."""
    for begin, end in (("SELECT ", "+ 'x'"), ("SELECT 'y' ", "! 1"), ("SELECT 1::a", "z 'x'")):
        sql = (begin + fragment * (8000 // len(fragment.encode())) + end).encode()
        began = time.thread_time()
        lift(sql)
        assert time.thread_time() - began < 0.15


def test_no_space_takes_long_to_be_left_out() -> None:
    for sql in (
        "SELECT" + " " * 200_000 + "1",
        "SELECT 1" + " \n" * 100_000 + "AS a",
        "SELECT 1" + "\t" * 200_000 + "+ 2",
    ):
        (statement,) = parse(sql)
        began = time.thread_time()
        describe_statement(statement, (), True)
        assert time.thread_time() - began < 1
