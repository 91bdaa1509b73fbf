"""A short run of families.py, and planted faults that it notices."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import shoal
from tests.differential.compare import Outcome
from tests.differential.families import Connection, Family, damage, run_families
from tests.differential.planted_families import FAULTS, noticed
from tests.oracle import PostgresServer
from tests.server import ShoalServer

Two = tuple[Connection, Connection]
SECONDS = 5


@contextlib.contextmanager
def two(dsn: str) -> Iterator[Two]:
    with psycopg.connect(dsn, autocommit=True) as first, psycopg.connect(dsn, autocommit=True) as second:
        yield first, second


def test_families_agree(shoal: ShoalServer, postgres_server: PostgresServer) -> None:
    with two(postgres_server.dsn) as theirs, two(shoal.dsn) as ours:
        tally = run_families(1, SECONDS, theirs, ours)
    assert tally.compared > 20
    assert not tally.failures, "\n".join(tally.failures)


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(postgres_server: PostgresServer, fault: str) -> None:
    """Two databases of PostgreSQL, one of which is told something else."""
    with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS faulty WITH (FORCE)")
        connection.execute("CREATE DATABASE faulty")
    other = postgres_server.dsn.replace("dbname=postgres", "dbname=faulty")
    with two(postgres_server.dsn) as theirs, two(other) as ours:
        assert noticed(FAULTS[fault], theirs, ours)


def test_an_index_left_empty_is_noticed(tmp_path: Path) -> None:
    """As ATTACH had left one: its entries are not there."""
    from tests.shoal.test_check_indexes import plant

    directory = tmp_path / "data"
    with shoal.open(directory) as database:
        database.execute("CREATE SCHEMA families")
        database.execute("CREATE TABLE families.f (a int, b text)")
        database.execute("CREATE INDEX emptied ON families.f (b)")
        database.execute("INSERT INTO families.f SELECT n, 'k' || n FROM generate_series(1, 50) n")
        plant(database, "emptied", lambda pairs: dict.fromkeys([key for key, _ in pairs]))

        def run(sql: str) -> Outcome:
            cursor = database.execute(sql)
            rows = tuple(tuple(map(str, row)) for row in cursor.fetchall()) if cursor.description else ()
            return Outcome("", rows=rows)

        (found,) = damage(run)
    assert "'emptied'" in found and "'missing': 50" in found


def test_a_seed_gives_one_family() -> None:
    first, second = Family(7), Family(7)
    assert first.setup() == second.setup()
    assert list(first.steps()) == list(second.steps())
    assert Family(8).setup() != first.setup()
