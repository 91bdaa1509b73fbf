"""Generated statements answered alike by both paths and by PostgreSQL; and faults that the comparison must notice."""

from __future__ import annotations

import itertools
import os
import pathlib
from collections.abc import Callable, Iterator

import psycopg
import pytest

from tests.differential.compare import Outcome, Side, difference, prepare, run_scenario, runner
from tests.differential.generate import ONE, Scenario, Statement
from tests.differential.partition import in_schema, run_partitions
from tests.differential.sides import Connection, open_sides, partition_sides, run_seeds
from tests.oracle import PostgresServer
from tests.server import ShoalServer

SECONDS = float(os.environ.get("SHOAL_DIFFERENTIAL_SECONDS", "8"))
FIRST_SEED = int(os.environ.get("SHOAL_DIFFERENTIAL_SEED", "1"))
FOUND = pathlib.Path(__file__).with_name("found.sql")


@pytest.fixture
def connections(postgres_server: PostgresServer, shoal: ShoalServer) -> Iterator[list[Connection]]:
    """PostgreSQL, then two sessions of Shoal."""
    opened = [psycopg.connect(dsn, autocommit=True) for dsn in (postgres_server.dsn, shoal.dsn, shoal.dsn)]
    yield opened
    for connection in opened:
        connection.close()


def test_generated_statements(connections: list[Connection]) -> None:
    tally = run_seeds(FIRST_SEED, SECONDS, *connections)
    assert tally.compared > 0
    assert not tally.failures, "\n".join([*tally.failures[:10], "again: python -m tests.differential --seed N"])
    assert tally.refused.total() < tally.compared / 20
    assert sum(count for code, count in tally.errors.items() if code.startswith("42")) < tally.statements / 50


def test_what_was_found_before(connections: list[Connection]) -> None:
    oracle, others = open_sides(*connections)
    text = "\n".join(line for line in FOUND.read_text().splitlines() if not line.startswith("--"))
    failures = []
    for sql in text.split("\n\n"):
        want = oracle.run(sql)
        for side in others:
            got = side.run(sql)
            if got.sqlstate != "0A000" and (found := difference(Statement(sql, exact=True), want, got)):
                failures.append(f"{side.name}: {sql}: {found}")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("sqlstate", ["22012", "0A000"])
def test_only_postgres_computes_constants_that_no_row_asks_for(sqlstate: str) -> None:
    statement = Statement("", exact=True)
    fails, empty, row = Outcome(sqlstate), Outcome(""), Outcome("", types=(23,), rows=(("1",),))
    assert not difference(statement, fails, empty)
    assert difference(statement, fails, row)
    assert difference(statement, empty, fails)


def planted(run: Callable[[str], Outcome], old: str, new: str) -> Callable[[str], Outcome]:
    """A server that means something else by a piece of SQL."""
    return lambda sql: run(sql.replace(old, new) if sql.startswith(("SELECT", "(SELECT", "WITH", "UPDATE")) else sql)


SOON = {f"({ONE} IN (0, 1))": (159,), f"nullif({ONE}, 0)": (27,)}
"""Seeds that met a fault when this was written, to be tried before all others."""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (" < ", " <= "),
        ("LEFT JOIN", "JOIN"),
        ("UNION ALL", "UNION"),
        (" DESC", ""),
        ("coalesce(", "greatest("),
        (" / 3)", " / 3.0)"),
        ("NOT IN (SELECT", "IN (SELECT"),
        ("count(DISTINCT ", "count("),
        ("UPDATE t1 SET", "UPDATE t1 AS t1 SET"),
        ("SELECT id, ", "SELECT id, 1 + "),
        (f"({ONE} IN (0, 1))", f"({ONE} = 0 OR {ONE} = 1)"),
        (f"nullif({ONE}, 0)", f"CASE WHEN {ONE} = 0 THEN NULL ELSE {ONE} END"),
        (f"CASE {ONE} WHEN 0 THEN true WHEN 1 ", f"CASE WHEN {ONE} = 0 THEN true WHEN {ONE} = 1 "),
        ("(SELECT nextval('drawn'))", "nextval('drawn')"),
        ("count(DISTINCT (SELECT random()))", "count(DISTINCT random())"),
    ],
)
def test_planted_faults_are_found(postgres_server: PostgresServer, old: str, new: str) -> None:
    with (
        psycopg.connect(postgres_server.dsn, autocommit=True) as first,
        psycopg.connect(postgres_server.dsn, autocommit=True) as second,
    ):
        oracle, faulty = Side("PostgreSQL", runner(first)), Side("faulty", planted(runner(second), old, new))
        harmless = old.startswith("UPDATE")  # the fault changes nothing: nothing is to be found
        for seed in itertools.chain(SOON.get(old, ()), range(1, 16 if harmless else 200)):
            prepare(oracle.run, "planted_oracle")
            prepare(faulty.run, "planted_faulty")
            if run_scenario(seed, oracle, [faulty]).failures:
                assert not harmless
                return
        assert harmless


def test_partitions_of_a_query_are_the_whole(shoal: ShoalServer) -> None:
    with (
        psycopg.connect(shoal.dsn, autocommit=True) as first,
        psycopg.connect(shoal.dsn, autocommit=True) as second,
    ):
        found = run_partitions(FIRST_SEED, SECONDS / 3, lambda: partition_sides(first, second))
    assert found.checked > 0
    assert not found.failures, "\n".join(found.failures[:10])


@pytest.mark.parametrize(
    ("old", "new"), [(") IS NULL", ") IS NULL AND false"), ("CASE WHEN ", "CASE WHEN NOT "), ("WHERE NOT ", "WHERE ")]
)
def test_faults_of_a_part_are_found(postgres_server: PostgresServer, old: str, new: str) -> None:
    with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
        faulty = Side("faulty", planted(runner(connection), old, new))
        for seed in range(1, 60):
            if run_partitions(seed, 0, lambda: [in_schema(faulty, "planted_partitions")]).failures:
                return
    pytest.fail("nothing was noticed")


def test_a_seed_gives_one_scenario() -> None:
    first, second = Scenario(17), Scenario(17)
    assert first.setup() == second.setup()
    assert list(first.statements()) == list(second.statements())
    assert Scenario(18).setup() != first.setup()
