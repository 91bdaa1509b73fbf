"""What a constant says decides nothing about the plan around it."""

from __future__ import annotations

import contextlib

import pytest

import shoal
from tests.golden.record import record

TABLE = "CREATE TABLE t (id int PRIMARY KEY, v text)"
WORDS = ["get(", "scan(", "n += 1", "nonlocal n", "memory.", "large", "context"]


@pytest.mark.parametrize("word", WORDS)
def test_plans_are_those_of_another_constant(word: str) -> None:
    other = "x" * len(word)
    selects = [f"SELECT v, '{text}' FROM t WHERE id = 1" for text in (word, other)]
    found, expected = record([TABLE, *selects])[1:]
    assert found.texts["row"] == expected.texts["row"].replace(other, word)


def test_a_constant_in_parentheses_is_no_call() -> None:
    found, expected = record([TABLE, "SELECT v ~ '(a)' FROM t", "SELECT v ~ 'aaa' FROM t"])[1:]
    assert found.texts["row"] == expected.texts["row"].replace("aaa", "(a)")


def test_an_index_may_have_the_word_context() -> None:
    with contextlib.closing(shoal.open(":memory:")) as database:
        connection = database.connect(autocommit=True)
        connection.execute(TABLE)
        connection.execute("CREATE INDEX ON t ((v || 'context'))")
        connection.execute("INSERT INTO t VALUES (1, 'a')")
        assert connection.execute("SELECT id FROM t WHERE v || 'context' = 'acontext'").fetchall() == [(1,)]
