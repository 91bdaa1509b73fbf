"""Branches of databases whose tables lie in several tablespaces: every one of them at the same moment, whatever happens
to either side later; compared with PostgreSQL's copies, and with what was recorded."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.engine.session.on_disk import storage_ids
from tests.engine.session.test_branches import (
    SCHEMA,
    Forgetful,
    Remembering,
    answers,
    at,
    gone,
    run,
    some_change,
)
from tests.oracle import PostgresServer
from tests.samples import some
from tests.server import ShoalServer

PLACES = ("pg_default", "apart", "third")


@pytest.fixture(scope="module")
def keeping(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShoalServer]:
    with Remembering(tmp_path_factory.mktemp("apart") / "data") as found:
        run(found, "postgres", "CREATE TABLESPACE apart", "CREATE TABLESPACE third")
        yield found


@pytest.fixture
def shoal(keeping: ShoalServer) -> ShoalServer:
    names = run(keeping, "postgres", "SELECT datname FROM pg_database WHERE datname LIKE 'branch%'")
    gone(keeping, *(name for (name,) in names))
    return keeping


def make_root(server: ShoalServer, *more: str) -> None:
    """The table with its indexes in one tablespace, the one without a key in another."""
    run(server, "postgres", "CREATE DATABASE branch_root")
    run(
        server, "branch_root", *SCHEMA, "ALTER TABLE t SET TABLESPACE apart", "ALTER TABLE heap SET TABLESPACE third",
        *more,
    )  # fmt: skip


def move(chance: random.Random) -> str:
    return f"ALTER TABLE {chance.choice(('t', 'heap'))} SET TABLESPACE {chance.choice(PLACES)}"


@pytest.mark.parametrize(("seed", "steps"), some([(1, 15), (1, 30), (2, 30)], 3))
def test_it_and_its_parent_go_their_own_ways(shoal: ShoalServer, seed: int, steps: int) -> None:
    chance = random.Random(seed)
    databases = ["branch_root"]
    with PostgresServer() as oracle:
        run(oracle, "postgres", "CREATE DATABASE branch_root")
        run(oracle, "branch_root", *SCHEMA)
        make_root(shoal)
        for step in range(steps):
            kind = chance.random()
            database = chance.choice(databases)
            if kind < 0.25 and len(databases) < 5:
                name = f"branch_{step}"
                run(oracle, "postgres", f"CREATE DATABASE {name} TEMPLATE {database}")
                run(shoal, "postgres", f"CREATE DATABASE {name} FROM {database}")
                databases.append(name)
            elif kind < 0.32 and len(databases) > 2:
                databases.remove(database)
                gone(shoal, database)
                gone(oracle, database)
            elif kind < 0.4:
                run(shoal, "postgres", "CHECKPOINT")
            elif kind < 0.45:
                shoal.kill()
                shoal.start()
            elif kind < 0.55:
                run(shoal, database, move(chance))
            else:
                statement = some_change(chance, step)
                run(shoal, database, statement)
                run(oracle, database, statement)
            if step % 5 == 4:
                for database in databases:
                    assert answers(shoal, database) == answers(oracle, database), (seed, step, database)


def _history(shoal: ShoalServer, chance: random.Random) -> dict[str, Any]:
    """What the parent was at some moments, by time: an LSN does not move while pg_default is not written to."""
    make_root(shoal, "CREATE SEQUENCE counted", "SELECT nextval('counted')")
    recorded = {}
    changes = [some_change(chance, step) for step in range(5)]
    changes += [
        "INSERT INTO t SELECT i, 1, 'm' || i FROM generate_series(600000, 604000) i",
        "WITH gone AS (DELETE FROM t WHERE id % 5 = 0 RETURNING id) INSERT INTO heap SELECT id FROM gone",
        "TRUNCATE heap", "INSERT INTO heap VALUES (9)", "ALTER TABLE t SET TABLESPACE third",
        "UPDATE t SET n = 8 WHERE id < 50", "ALTER TABLE heap SET TABLESPACE pg_default", "DELETE FROM heap",
    ]  # fmt: skip
    for step, statement in enumerate(changes):
        run(shoal, "branch_root", statement)
        found = answers(shoal, "branch_root")
        recorded[str(run(shoal, "postgres", "SELECT clock_timestamp()")[0][0])] = found
        if step == 4:
            run(shoal, "postgres", "CHECKPOINT")
    return recorded


def _branch_all(shoal: ShoalServer, recorded: dict[str, Any]) -> None:
    for number, (time, expected) in enumerate(recorded.items()):
        run(shoal, "postgres", f"CREATE DATABASE branch_{number} FROM branch_root AS OF TIMESTAMP '{time}'")
        assert answers(shoal, f"branch_{number}") == expected, number
    run(shoal, "branch_root", "UPDATE t SET n = -1", "INSERT INTO heap VALUES (1)")
    run(shoal, "postgres", "CHECKPOINT")
    shoal.kill()
    shoal.start()
    for number, expected in enumerate(recorded.values()):
        assert answers(shoal, f"branch_{number}") == expected, number
        assert run(shoal, f"branch_{number}", "SELECT nextval('counted') > 1") == [(True,)]


@pytest.mark.parametrize("one_in", [2, pytest.param(1, marks=pytest.mark.long)])
def test_a_branch_of_every_moment_is_what_was_recorded(shoal: ShoalServer, one_in: int) -> None:
    recorded = _history(shoal, random.Random(9))
    _branch_all(shoal, dict(list(recorded.items())[::one_in]))


@pytest.mark.long
def test_so_is_one_of_what_only_history_keeps(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Forgetful(tmp_path_factory.mktemp("far_apart") / "data") as shoal:
        run(shoal, "postgres", "CREATE TABLESPACE apart", "CREATE TABLESPACE third")
        recorded = _history(shoal, random.Random(10))
        shoal.restart()
        _branch_all(shoal, recorded)


def test_what_lies_where(shoal: ShoalServer) -> None:
    """A branch's tables are where its parent's are, cost nothing there, and are in nobody's way of dropping it."""
    make_root(shoal, "INSERT INTO t SELECT i, 1, 'more' || i FROM generate_series(10000, 60000) i")
    where = "SELECT relname, spcname FROM pg_class c LEFT JOIN pg_tablespace s ON s.oid = reltablespace "
    where += "WHERE relname IN ('t', 't_code', 'heap') ORDER BY 1"
    run(shoal, "postgres", "CHECKPOINT", "CREATE DATABASE branch_one FROM branch_root")
    assert run(shoal, "branch_one", where) == [("heap", "third"), ("t", "apart"), ("t_code", "apart")]
    sizes = dict(run(shoal, "postgres", "SELECT datname, pg_database_size(datname) FROM pg_database"))
    assert sizes["branch_one"] - sizes["postgres"] < 100_000
    gone(shoal, "branch_root")
    with pytest.raises(Exception, match='tablespace "apart" is not empty'):
        run(shoal, "postgres", "DROP TABLESPACE apart")
    assert run(shoal, "branch_one", "SELECT count(*) FROM t") == [(51001,)]


def test_nothing_is_left_of_what_is_gone(shoal: ShoalServer) -> None:
    """The parent first, then its branches: the last of them takes along what they shared."""
    make_root(shoal)
    run(shoal, "postgres", "CREATE DATABASE branch_one FROM branch_root", "CREATE DATABASE branch_two FROM branch_one")
    run(shoal, "branch_root", "UPDATE t SET n = 5", "TRUNCATE heap")
    run(shoal, "branch_one", "DELETE FROM t WHERE id < 500")
    expected = answers(shoal, "branch_two")
    gone(shoal, "branch_root", "branch_one")
    shoal.restart()
    assert answers(shoal, "branch_two") == expected
    gone(shoal, "branch_two")
    run(shoal, "postgres", "CHECKPOINT")
    shoal.restart()
    shoal.stop()
    try:
        folders = [shoal.data, *(shoal.data / "tablespaces").iterdir()]
        left = {number for folder in folders for number in storage_ids(str(folder / "rows"))}
    finally:
        shoal.start()
    assert len(folders) == 3
    assert not {number for number in left if number in (16, 17) or number >= 1 << 31}


def test_a_writer_elsewhere_is_in_both_or_in_none(shoal: ShoalServer) -> None:
    """Transactions over both tablespaces are in the branch whole, or not at all, while branches are made."""
    make_root(shoal)
    with at(shoal, "branch_root") as writer:
        for number in range(4):
            writer.execute("BEGIN")
            writer.execute("INSERT INTO heap VALUES (%s)", (700 + number,))
            writer.execute("INSERT INTO t (id, n, code) VALUES (%s, 0, %s)", (70000 + number, f"both{number}"))
            writer.execute("COMMIT")
            run(shoal, "postgres", f"CREATE DATABASE branch_{number} FROM branch_root")
    for number in range(4):
        counted = "SELECT (SELECT count(*) FROM heap WHERE x >= 700), (SELECT count(*) FROM t WHERE id >= 70000)"
        assert run(shoal, f"branch_{number}", counted) == [(number + 1, number + 1)]
