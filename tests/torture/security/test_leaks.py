"""Functions whose bodies read what their callers may not: a part of the trial, and servers that it must not be content
with."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator
from itertools import product

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.samples import some
from tests.server import ShoalServer
from tests.torture.planted import UNASKED
from tests.torture.security import leaks
from tests.torture.security.trials import leaking

SAMPLE = 20  # of 2,000; `make torture` tries as many as its time lets it


@pytest.fixture(scope="module")
def worlds(shoal: ShoalServer, postgres_server: PostgresServer) -> Iterator[tuple[str, str]]:
    yield shoal.dsn, postgres_server.dsn
    for dsn in (shoal.dsn, postgres_server.dsn):
        with psycopg.connect(dsn, autocommit=True) as connection:
            leaks.demolish(connection)


@pytest.mark.parametrize(("function", "path"), some(product(leaks.FUNCTIONS, ("auto", "columnar")), 5))
def test_no_function_tells_a_secret(worlds: tuple[str, str], function: str, path: str) -> None:
    always = [
        (user, statement)
        for user in ("bob", "postgres")
        for statement in (
            "INSERT INTO made (a) VALUES (7)", "INSERT INTO given (a) SELECT 7", "UPDATE made SET a = a + 100",
            "INSERT INTO checked (a, s) VALUES (7, 't'), (8, 't')", "SELECT * FROM of_postgres",
            "REFRESH MATERIALIZED VIEW kept",
        )
    ]  # fmt: skip
    every = list(itertools.product(leaks.USERS, leaks.statements()))
    with leaks.open_world(worlds[0], path) as connection:
        chosen = always + random.Random(function + path).sample(every, SAMPLE)
        found = leaks.compared(connection, worlds[1], function, chosen)
    assert not found.problems and found.tried == len(chosen)


def test_no_attempt_begins_when_the_time_is_over(worlds: tuple[str, str]) -> None:
    chosen = [("bob", "SELECT h('q')")] * 50
    with leaks.open_world(worlds[0]) as connection:
        assert leaks.compared(connection, worlds[1], "a body that reads", chosen, time.monotonic()).tried == 1


def test_a_told_secret_is_noticed() -> None:
    for found in (("x", leaks.SECRET), ()), ((), ("made (1, '" + leaks.SECRET + "')",)):
        assert leaks.Outcome("", *found, "").tells()
    assert leaks.Outcome("23514", (), (), f"Failing row contains ({leaks.SECRET}).").tells()
    assert not leaks.Outcome("", ("x",), (), "").tells()


@pytest.mark.parametrize("fault", UNASKED)
def test_a_server_that_asks_for_less_is_noticed(fault: str, postgres_server: PostgresServer) -> None:
    try:
        assert leaking(fault, postgres_server.dsn)
    finally:
        with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
            leaks.demolish(connection)
