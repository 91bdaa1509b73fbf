"""Statements that come once: what parsing, analysing and planning cost, with tables too small to matter.

No two statements have one form, so no plan cache helps: column lists are shuffled, and every name of an output is new.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

import psycopg

from bench.measures import Result, Server

STATEMENTS = 500
COLUMNS = 8
TABLES = ("bench_left", "bench_right")
JOIN = "FROM bench_left l JOIN bench_right r ON r.c0 = l.c1 WHERE l.c0 = {}"


def _make_tables(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    columns = ", ".join(f"c{number} int" for number in range(1, COLUMNS))
    values = ", ".join("g" for _ in range(1, COLUMNS))
    for table in TABLES:
        connection.execute(f"DROP TABLE IF EXISTS {table}".encode())
        connection.execute(f"CREATE TABLE {table} (c0 int PRIMARY KEY, {columns})".encode())
        connection.execute(f"INSERT INTO {table} SELECT g, {values} FROM generate_series(1, 30) g".encode())


def _names(chance: random.Random, count: int) -> list[str]:
    every = [f"{side}.c{number}" for side in "lr" for number in range(COLUMNS)]
    return [f"{name} AS n{chance.randrange(10**9)}" for name in chance.sample(every, count)]


def joins(chance: random.Random) -> Iterator[str]:
    """SELECTs of ten columns with one join, by key."""
    for number in range(STATEMENTS):
        yield f"SELECT {', '.join(_names(chance, 10))} {JOIN.format(number % 30 + 1)}"


def expressions(chance: random.Random) -> Iterator[str]:
    """Expressions and aggregates over thirty rows, as SQLite's sqllogictest is full of."""
    for _ in range(STATEMENTS):
        a, b, c = chance.sample([f"c{number}" for number in range(COLUMNS)], 3)
        name = f"n{chance.randrange(10**9)}"
        if chance.random() < 0.5:
            least = chance.randrange(30)
            yield f"SELECT count(*), sum({a} + {b}) AS {name}, max({c}) FROM bench_left WHERE {b} > {least}"
        else:
            case = f"CASE WHEN {a} > {b} + 3 THEN {c} * 2 ELSE -{a} END AS {name}"
            yield f"SELECT {case}, {b} FROM bench_left WHERE {a} BETWEEN 3 AND 20 ORDER BY 2, 1"


def uncached(texts: Callable[[random.Random], Iterator[str]]) -> Callable[[Server], Result]:
    """Statements a second on one connection, none of which came before."""

    def run(server: Server) -> Result:
        chance = random.Random()
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            _make_tables(connection)
            statements = [text.encode() for text in texts(chance)]
            began = time.perf_counter()
            for statement in statements:
                connection.pgconn.exec_(statement)
            seconds = time.perf_counter() - began
            for table in TABLES:
                connection.execute(f"DROP TABLE {table}".encode())
        return Result(STATEMENTS / seconds)

    return run
