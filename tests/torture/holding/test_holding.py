"""Statements that once held everybody, in short; and a server that the watch must not be content with."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import psycopg
import pytest

from tests.samples import some
from tests.server import ShoalServer
from tests.torture.holding.calls import statements
from tests.torture.holding.trials import ENDLESS, planted, planted_stay
from tests.torture.holding.watching import ENDS, Watch, one_of_tries

SELECTED = (
    r"SELECT repeat('a', 45) ~ '^(a*)*\1\1x$'",
    r"SELECT count(*) FROM pg_class WHERE relname || repeat('a', 40) ~ '^[a-z_]*(a*)*\1\1x$'",
    "SELECT length(to_tsvector(repeat('abc def ', 3000000))::text)",
    "SELECT length(to_char(1, repeat('9', 100000000)))",
    "SELECT length(to_char(now(), repeat('Month ', 1000000)))",
    "SELECT length(to_char(12.5, repeat('UTC', 333333)))",
    "SELECT length(to_char(now(), repeat('year ', 200000)))",
    "SELECT length(to_timestamp(repeat('9', 1000000), repeat('9', 1000000))::text)",
    "SELECT length(jsonb_pretty((repeat('[', 1000) || repeat(']', 1000))::jsonb))",
    "SELECT length(ts_headline(repeat('abc def ', 20000), 'abc'::tsquery))",
    "SELECT length(plainto_tsquery(repeat('abcd ', 80000))::text)",
    "SELECT length(sqrt(10::numeric ^ 100000)::text)",
    "SELECT length(quote_literal(repeat('''', 20000000)))",
    "SELECT md5(repeat('a', 100000000))",
    "SELECT length((repeat('a & ', 20000) || 'a')::tsquery::text)",
    "SELECT length(repeat('[', 10000)::json::text)",
    "SELECT length(repeat('(1,2),', 300000)::path::text)",
    r"SELECT length(normalize('a' || repeat(U&'\0301\0316', 300000), NFC))",
    r"SELECT (repeat('a', 1000) || repeat(U&'\0301\0316', 300000)) IS NFD NORMALIZED",
    "SELECT length(factorial(32000)::text)",
    "SELECT repeat('9', 1000000)::xid8",
    "SELECT gcd(repeat('7', 130000)::numeric, (repeat('3', 130000) || '1')::numeric) > 0",
    "SELECT 'abc' ~ repeat('a', 3000000)",
    "SELECT 'abc' ~ repeat('(a|b)*', 1000000)",
    "SELECT regexp_count(repeat('abc def ', 300000), repeat('a', 40000))",
    r"SELECT repeat('abc', 200000) ~ repeat('\w', 500)",
    "SELECT lcm(repeat('7', 65000)::numeric, (repeat('3', 65000) || '1')::numeric) > 0",
)


@pytest.fixture(scope="module")
def watched() -> Iterator[tuple[ShoalServer, Watch]]:
    with ShoalServer() as own:
        with Watch(own) as watch:
            yield own, watch
        own.kill()  # what was left to the worker may go on for long


@pytest.mark.parametrize("number", some(range(len(SELECTED)), 3))
@one_of_tries
def test_others_are_answered(watched: tuple[ShoalServer, Watch], number: int) -> None:
    assert not watched[1].statement(SELECTED[number], "auto").problem()


@pytest.mark.parametrize("end", ENDS[1:])
@pytest.mark.parametrize("number", (0, 2, 5, 8))
@one_of_tries
def test_it_can_be_ended(watched: tuple[ShoalServer, Watch], number: int, end: str) -> None:
    assert not watched[1].statement(SELECTED[number], "auto", end).problem()


@pytest.mark.parametrize("path", ["auto", "columnar"])
def test_one_that_never_ends_is_ended(watched: tuple[ShoalServer, Watch], path: str) -> None:
    """With what each of the ends says."""
    states = [watched[1].statement(ENDLESS[2], path, end).sqlstate for end in ENDS]
    assert states == ["57014", "57014", "57P01"]


@pytest.mark.parametrize("path", ["auto", "columnar"])
@one_of_tries
def test_others_are_answered_beside_any_call(watched: tuple[ShoalServer, Watch], path: str) -> None:
    shoal, watch = watched
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        problems = {sql: watch.statement(sql, path).problem() for sql in islice(statements(connection, 5), 8)}
    assert not any(problems.values()), problems


@pytest.mark.long
def test_a_function_that_continues_after_a_cancel_is_found() -> None:
    assert planted_stay()


def test_a_function_that_holds_everybody_is_noticed() -> None:
    assert planted()
