"""CREATE DATABASE ... FROM another one: what is read in both, whatever happens to either; compared with PostgreSQL's
copies (TEMPLATE), and with what was recorded at earlier moments."""

from __future__ import annotations

import pathlib
import random
import re
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import psycopg
import pytest

from catalog import schema
from engine.ddl import branches
from tests.engine.session.on_disk import storage_ids
from tests.oracle import PostgresServer
from tests.samples import some
from tests.server import ShoalServer

QUERIES = (
    "SELECT * FROM t WHERE id = 17",
    "SELECT * FROM t WHERE code = 'c42'",
    "SELECT id FROM t WHERE n = 3 ORDER BY id LIMIT 20",
    "SELECT * FROM t WHERE id > 990 ORDER BY id DESC LIMIT 7",
    "SELECT count(*), sum(n), min(code), max(code), sum(id) FROM t",
    "SELECT x, count(*) FROM heap GROUP BY x ORDER BY x",
    "SELECT sum(n) FROM seen",
    "SELECT mood, count(*) FROM t GROUP BY mood ORDER BY mood",
)
SCHEMA = (
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')",
    "CREATE TABLE t (id int PRIMARY KEY, n int, code text, mood mood DEFAULT 'ok')",
    "CREATE UNIQUE INDEX t_code ON t (code)",
    "CREATE INDEX t_n ON t (n)",
    "CREATE TABLE heap (x int)",
    "CREATE VIEW seen AS SELECT id, n FROM t WHERE mood = 'ok'",
    "INSERT INTO t SELECT i, i % 50, 'c' || i FROM generate_series(1, 1000) i",
    "INSERT INTO heap SELECT i % 3 FROM generate_series(1, 30) i",
)


EVERYTHING = pathlib.Path(__file__).parents[2] / "end_to_end" / "dumped.sql"
NOT_COPIED = ("Role", "Tablespace", "Parameter", "ChangeStream", "VirtualTable", "ExtensionType")
PLAIN_NUMBERS = {
    "cache", "columns", "connection_limit", "database", "derived", "direct", "expression_columns", "include",
    "increment",
    "inherited", "key_columns", "location", "maximum", "minimum", "modulus", "moving_space", "next_column", "number",
    "position", "referenced_columns", "remainder", "space", "start", "statistics_target", "template", "typmod",
    "version",
}  # fmt: skip
"""Fields of schema objects that are not OIDs of objects in the same database."""


class Remembering(ShoalServer):
    """Keeps minutes in memory."""

    def command(self) -> list[str]:
        config = self.data.parent / "shoal.toml"
        config.write_text("past_window = 300.0\n")
        return [*super().command(), "--config", str(config)]


@pytest.fixture(scope="module")
def shoal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShoalServer]:
    with Remembering(tmp_path_factory.mktemp("branches") / "data") as found:
        yield found


@pytest.fixture(autouse=True)
def _tidy(shoal: ShoalServer) -> None:
    names = run(shoal, "postgres", "SELECT datname FROM pg_database WHERE datname LIKE 'branch%'")
    gone(shoal, *(name for (name,) in names))


@pytest.fixture(scope="module")
def oracle() -> Iterator[PostgresServer]:
    with PostgresServer() as found:
        yield found


def at(server: ShoalServer | PostgresServer, database: str) -> psycopg.Connection:
    return psycopg.connect(server.dsn.replace("dbname=postgres", f"dbname={database}"), autocommit=True)


def run(server: ShoalServer | PostgresServer, database: str, *statements: str) -> list[Any]:
    """The rows of the last one."""
    with at(server, database) as connection:
        for statement in statements:
            cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description is not None else []


def answers(server: ShoalServer | PostgresServer, database: str, paths: bool = True) -> list[Any]:
    found: list[Any] = []
    with at(server, database) as connection:
        if not isinstance(server, ShoalServer):
            return [connection.execute(query).fetchall() for query in QUERIES]
        for path in ("auto", "columnar") if paths else ("auto",):
            connection.execute(f"SET shoal.path = {path}")
            found.append([connection.execute(query).fetchall() for query in QUERIES])
    assert all(item == found[0] for item in found), database
    return list(found[0])


def gone(server: ShoalServer | PostgresServer, *databases: str) -> None:
    with at(server, "postgres") as connection:
        for database in databases:
            connection.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")


def some_change(chance: random.Random, step: int) -> str:
    low = chance.randrange(1000)
    new = 2000 + step * 10
    return chance.choice([
        f"UPDATE t SET n = n + 1, mood = 'happy' WHERE id = {low}",
        f"UPDATE t SET code = 's{step}' || id WHERE id BETWEEN {low} AND {low + 3}",
        f"DELETE FROM t WHERE id % 97 = {low % 97}",
        f"INSERT INTO t SELECT i, 3, 'n' || i FROM generate_series({new}, {new + 4}) i",
        f"UPDATE t SET n = n + {step}",
        f"UPDATE t SET id = id + 100000 WHERE id = {low}",
        f"INSERT INTO heap SELECT {step % 5} FROM generate_series(1, {1 + low})",
        "DELETE FROM heap WHERE x = 1",
        "TRUNCATE heap",
        "DELETE FROM t",
        "REINDEX TABLE t",
        f"ALTER TABLE t ADD COLUMN IF NOT EXISTS extra{step} int DEFAULT {step}",
        f"INSERT INTO t SELECT i, i % 7, 'big' || i FROM generate_series({10000 + low * 3000}, "
        f"{12500 + low * 3000}) i ON CONFLICT DO NOTHING",
    ])  # fmt: skip


@pytest.mark.parametrize(("seed", "steps"), some([(1, 20), (1, 40), (2, 40), (3, 40)], 4))
def test_it_and_its_parent_go_their_own_ways(shoal: ShoalServer, oracle: PostgresServer, seed: int, steps: int) -> None:
    chance = random.Random(seed)
    servers: tuple[ShoalServer | PostgresServer, ...] = (shoal, oracle)
    databases = ["branch_root"]
    for server in servers:
        gone(server, *[f"branch_{number}" for number in range(40)], "branch_root")
        run(server, "postgres", "CREATE DATABASE branch_root")
        run(server, "branch_root", *SCHEMA)
    for step in range(steps):
        kind = chance.random()
        database = chance.choice(databases)
        if kind < 0.2 and len(databases) < 6:
            name = f"branch_{step}"
            run(oracle, "postgres", f"CREATE DATABASE {name} TEMPLATE {database}")
            run(shoal, "postgres", f"CREATE DATABASE {name} FROM {database}")
            databases.append(name)
        elif kind < 0.27 and len(databases) > 2:
            databases.remove(database)
            for server in servers:
                gone(server, database)
        elif kind < 0.35:
            run(shoal, "postgres", "CHECKPOINT")
        elif kind < 0.38:
            shoal.kill()
            shoal.start()
        else:
            statement = some_change(chance, step)
            for server in servers:
                run(server, database, statement)
        if step % 4 == 3:
            for database in databases:
                assert answers(shoal, database) == answers(oracle, database), (seed, step, database)
    for server in servers:
        gone(server, *databases)


def test_nothing_is_left_of_what_is_gone(shoal: ShoalServer) -> None:
    """The parent first, then its branches: the last of them takes along what they shared."""
    size = "SELECT pg_database_size('postgres')"
    run(shoal, "postgres", "CREATE DATABASE branch_root")
    run(shoal, "branch_root", *SCHEMA)
    run(shoal, "postgres", "CREATE DATABASE branch_one FROM branch_root", "CREATE DATABASE branch_two FROM branch_one")
    run(shoal, "branch_root", "UPDATE t SET n = 5", "TRUNCATE heap")
    run(shoal, "branch_one", "DELETE FROM t WHERE id < 500")
    expected = answers(shoal, "branch_two")
    gone(shoal, "branch_root")
    assert answers(shoal, "branch_two") == expected
    gone(shoal, "branch_one")
    run(shoal, "postgres", "CHECKPOINT")
    assert answers(shoal, "branch_two") == expected
    gone(shoal, "branch_two")
    run(shoal, "postgres", "CHECKPOINT", size)
    shoal.restart()
    shoal.stop()
    try:
        left = storage_ids(str(shoal.data / "rows"))
    finally:
        shoal.start()
    assert not {number for number in left if number in (16, 17) or number >= 1 << 31}


def lsn_now(server: ShoalServer) -> int:
    return int(run(server, "postgres", "SELECT pg_current_wal_lsn() - '0/0'")[0][0])


class Forgetful(ShoalServer):
    """Keeps nothing in memory, and its history."""

    def command(self) -> list[str]:
        config = self.data.parent / "shoal.toml"
        config.write_text("past_window = 0.0\nhistory_retention = 3600.0\n")
        return [*super().command(), "--config", str(config)]


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShoalServer]:
    with Forgetful(tmp_path_factory.mktemp("far_branches") / "data") as found:
        yield found


@pytest.mark.long
def test_a_branch_reaches_as_far_as_history(forgetful: ShoalServer) -> None:
    """Also of a parent that is a branch itself, whose tables have been truncated or rewritten, or that is gone."""
    shoal = forgetful
    chance = random.Random(12)
    run(shoal, "postgres", "CREATE DATABASE branch_root")
    run(shoal, "branch_root", *SCHEMA, "CREATE SEQUENCE counted", "SELECT nextval('counted')")
    run(shoal, "postgres", "CREATE DATABASE branch_between FROM branch_root")
    recorded: dict[tuple[str, int], Any] = {}
    changes = [some_change(chance, step) for step in range(8)]
    changes += ["DELETE FROM heap", "INSERT INTO heap VALUES (9)", "REINDEX TABLE t", "TRUNCATE heap"]
    for step, change in enumerate(changes):
        database = ("branch_root", "branch_between")[step % 2]
        run(shoal, database, change)
        recorded[database, lsn_now(shoal)] = answers(shoal, database)
        if step == 5:
            run(shoal, "postgres", "CHECKPOINT")
            shoal.restart()
    made = {}
    for number, ((database, lsn), expected) in enumerate(recorded.items()):
        name = made[database, lsn] = f"branch_{number}"
        run(shoal, "postgres", f"CREATE DATABASE {name} FROM {database} AS OF LSN {lsn}")
        assert answers(shoal, name) == expected, (number, lsn)
    run(shoal, "branch_root", "UPDATE t SET n = -1", "DELETE FROM heap")
    run(shoal, "branch_between", "DELETE FROM t WHERE id % 2 = 0")
    last = max(lsn for database, lsn in recorded if database == "branch_between")
    gone(shoal, "branch_between")
    run(shoal, "postgres", f"CREATE DATABASE branch_again FROM branch_between AS OF LSN {last}", "CHECKPOINT")
    shoal.kill()
    shoal.start()
    for (database, lsn), expected in recorded.items():
        assert answers(shoal, made[database, lsn]) == expected, (database, lsn)
    assert answers(shoal, "branch_again") == recorded["branch_between", last]
    run(shoal, "branch_again", "UPDATE t SET n = 1", "INSERT INTO heap VALUES (1)")
    gone(shoal, "branch_again", "branch_root", *made.values())


@pytest.mark.parametrize("rows", [100_000, pytest.param(200_000, marks=pytest.mark.long)])
def test_a_branch_of_long_ago_shares_what_has_not_changed(forgetful: ShoalServer, rows: int) -> None:
    """And is made while others write."""
    shoal = forgetful
    run(shoal, "postgres", "CREATE DATABASE branch_root")
    run(shoal, "branch_root", *SCHEMA, f"INSERT INTO heap SELECT i FROM generate_series(1, {rows}) i")
    lsn = lsn_now(shoal)
    expected = answers(shoal, "branch_root")
    over = threading.Event()

    def write() -> None:
        with at(shoal, "branch_root") as connection:
            number = 0
            while not over.is_set():
                number += 1
                connection.execute("UPDATE t SET n = n + 1 WHERE id = %s", (number % 1000 + 1,))
                connection.execute("INSERT INTO heap VALUES (%s)", (number,))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        run(shoal, "postgres", "CHECKPOINT", f"CREATE DATABASE branch_one FROM branch_root AS OF LSN {lsn}")
    finally:
        over.set()
        writer.join()
    assert answers(shoal, "branch_one") == expected
    run(shoal, "postgres", "CHECKPOINT")
    assert answers(shoal, "branch_one") == expected
    sizes = dict(run(shoal, "postgres", "SELECT datname, pg_database_size(datname) FROM pg_database"))
    assert sizes["branch_one"] < sizes["branch_root"] / 4
    gone(shoal, "branch_one", "branch_root")


@pytest.mark.parametrize("one_in", [2, pytest.param(1, marks=pytest.mark.long)])
def test_a_branch_of_every_moment_is_what_was_recorded(shoal: ShoalServer, one_in: int) -> None:
    chance = random.Random(9)
    run(shoal, "postgres", "CREATE DATABASE branch_root")
    run(shoal, "branch_root", *SCHEMA, "CREATE SEQUENCE counted", "SELECT nextval('counted')")
    recorded = {}
    times = {}
    changes = [some_change(chance, step) for step in range(9)]
    changes += ["TRUNCATE heap", "INSERT INTO heap VALUES (9)", "REINDEX TABLE t", "ALTER TABLE t ADD COLUMN more int"]
    changes += ["INSERT INTO t (id, n, code) VALUES (77777, 3, 'last')", "ALTER TABLE heap ALTER x TYPE bigint"]
    for step, change in enumerate(changes):
        run(shoal, "branch_root", change)
        recorded[lsn_now(shoal)] = answers(shoal, "branch_root")
        times[lsn_now(shoal)] = run(shoal, "postgres", "SELECT clock_timestamp()")[0][0]
        if step == 5:
            run(shoal, "postgres", "CHECKPOINT")
    recorded = dict(list(recorded.items())[::one_in])
    for number, (lsn, expected) in enumerate(recorded.items()):
        moment = f"LSN {lsn}" if number % 2 else f"TIMESTAMP '{times[lsn]}'"
        run(shoal, "postgres", f"CREATE DATABASE branch_{lsn} FROM branch_root AS OF {moment}")
        assert answers(shoal, f"branch_{lsn}") == expected, lsn
    run(shoal, "branch_root", "UPDATE t SET n = -1", "DELETE FROM heap")
    run(shoal, "postgres", "CHECKPOINT")
    shoal.kill()
    shoal.start()
    for lsn, expected in recorded.items():
        assert answers(shoal, f"branch_{lsn}") == expected, lsn
        assert run(shoal, f"branch_{lsn}", "SELECT nextval('counted') > 1") == [(True,)]
    gone(shoal, "branch_root", *[f"branch_{lsn}" for lsn in recorded])


@pytest.mark.parametrize(
    ("statement", "sqlstate", "message"),
    [
        ("CREATE DATABASE branch_x FROM nowhere", "3D000", 'database "nowhere" does not exist'),
        ("CREATE DATABASE branch_x FROM nowhere AS OF LSN 1", "72000", "the state at LSN 1 is no longer kept"),
        ("CREATE DATABASE branch_x FROM postgres AS OF LSN 999999999", "22023", "there is no LSN 999999999"),
        ("CREATE DATABASE branch_x FROM postgres AS OF TIMESTAMP now() + interval '1 day'", "22023", "the future"),
        ("CREATE DATABASE branch_x FROM postgres TEMPLATE postgres", "42601", "FROM and TEMPLATE exclude each other"),
        ("CREATE DATABASE postgres FROM postgres", "42P04", 'database "postgres" already exists'),
        ("BEGIN; CREATE DATABASE branch_x FROM postgres", "25001", "cannot run inside a transaction block"),
        ("SET ROLE branch_nobody; CREATE DATABASE branch_x FROM postgres", "42501", "permission denied"),
    ],
)
def test_refusals(shoal: ShoalServer, statement: str, sqlstate: str, message: str) -> None:
    with at(shoal, "postgres") as connection:
        connection.execute("DROP ROLE IF EXISTS branch_nobody")
        connection.execute("CREATE ROLE branch_nobody")
        connection.execute("CHECKPOINT")
        with pytest.raises(psycopg.Error, match=message) as caught:
            for part in statement.split("; "):
                connection.execute(part)
        assert caught.value.sqlstate == sqlstate
        assert run(shoal, "postgres", "SELECT FROM pg_database WHERE datname = 'branch_x'") == []


def test_a_transaction_that_writes_is_in_both_or_in_none(shoal: ShoalServer) -> None:
    """CREATE waits for it; its rows are in the branch, those of the next one are not."""
    run(shoal, "postgres", "CREATE DATABASE branch_root")
    run(shoal, "branch_root", *SCHEMA)
    with at(shoal, "branch_root") as writer, at(shoal, "postgres") as maker:
        writer.execute("BEGIN")
        writer.execute("INSERT INTO t SELECT i, 0, 'w' || i FROM generate_series(5000, 8999) i")
        writer.execute("DELETE FROM heap WHERE x = 2")
        maker.execute("SET lock_timeout = '200ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            maker.execute("CREATE DATABASE branch_one FROM branch_root")
        writer.execute("COMMIT")
        maker.execute("RESET lock_timeout")
        maker.execute("CREATE DATABASE branch_one FROM branch_root")
    expected = answers(shoal, "branch_root")
    assert answers(shoal, "branch_one") == expected
    run(shoal, "branch_root", "DELETE FROM t WHERE id >= 5000", "INSERT INTO heap VALUES (2)")
    assert answers(shoal, "branch_one") == expected
    gone(shoal, "branch_one", "branch_root")


def dump(shoal: ShoalServer, database: str) -> list[str]:
    dsn = shoal.dsn.replace("dbname=postgres", f"dbname={database}")
    done = subprocess.run(["pg_dump", dsn], capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if not line.startswith("\\")]


def test_pg_dump_of_a_branch_is_that_of_its_parent(shoal: ShoalServer) -> None:
    run(shoal, "postgres", "CREATE DATABASE branch_root")
    run(
        shoal, "branch_root", *SCHEMA,
        "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
        "CREATE TYPE pair AS (a int, b positive)",
        "CREATE SCHEMA inner_schema",
        "CREATE TABLE inner_schema.parts (id serial, at date, p positive, pairs pair) PARTITION BY RANGE (at)",
        "CREATE TABLE inner_schema.first PARTITION OF inner_schema.parts "
        "FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')",
        "CREATE TABLE child (LIKE t, CHECK (n > -5)) INHERITS (heap)",
        "ALTER TABLE child ADD CONSTRAINT to_t FOREIGN KEY (id) REFERENCES t ON DELETE CASCADE",
        "INSERT INTO inner_schema.parts (at, p, pairs) VALUES ('2026-05-05', 3, (1, 2))",
        "INSERT INTO child (id, n) VALUES (3, 1)",
        "CREATE FUNCTION doubled(x int) RETURNS int LANGUAGE SQL RETURN x * 2",
        "CREATE FUNCTION of_t() RETURNS SETOF t LANGUAGE SQL BEGIN ATOMIC SELECT * FROM t; END",
        "CREATE MATERIALIZED VIEW summed AS SELECT mood, count(*) FROM t GROUP BY mood",
        "CREATE INDEX t_doubled ON t (doubled(n))",
        "ALTER DEFAULT PRIVILEGES IN SCHEMA inner_schema GRANT SELECT ON TABLES TO PUBLIC",
        "GRANT SELECT ON t TO PUBLIC",
        "COMMENT ON COLUMN t.n IS 'a number'",
    )  # fmt: skip
    run(shoal, "postgres", "CREATE DATABASE branch_one TEMPLATE branch_root")

    assert dump(shoal, "branch_one") == dump(shoal, "branch_root")
    run(shoal, "branch_one", "DELETE FROM t WHERE id = 3")
    assert run(shoal, "branch_one", "SELECT count(*) FROM child") == [(0,)]
    assert run(shoal, "branch_root", "SELECT count(*) FROM child") == [(1,)]
    assert run(shoal, "branch_one", "SELECT count(*), max((pairs).b) FROM inner_schema.parts") == [(1, 2)]
    assert run(shoal, "branch_one", "DROP TABLE t CASCADE", "SELECT count(*) FROM heap") == [(30,)]
    gone(shoal, "branch_root")
    assert run(shoal, "branch_one", "SELECT doubled(4)") == [(8,)]
    gone(shoal, "branch_one")


def test_a_branch_with_every_kind_of_object_stands_without_its_parent(shoal: ShoalServer) -> None:
    """An object of the branch that referred to one of its parent would have lost it."""
    run(shoal, "postgres", "CREATE DATABASE branch_root")
    dsn = shoal.dsn.replace("dbname=postgres", "dbname=branch_root")
    with psycopg.connect(dsn, autocommit=True) as maker:
        maker.execute(EVERYTHING.read_bytes())
    run(shoal, "postgres", "CREATE DATABASE branch_one TEMPLATE branch_root")
    before = dump(shoal, "branch_one")
    gone(shoal, "branch_root")
    assert dump(shoal, "branch_one") == before
    changed = "UPDATE shop.birds SET legs = legs + 1"
    run(shoal, "branch_one", "ALTER TABLE shop.birds ENABLE TRIGGER noted", changed)
    count = "SELECT count(*) > 0 FROM shop.seen WHERE what LIKE 'UPDATE %'"
    assert run(shoal, "branch_one", count) == [(True,)]
    assert run(shoal, "branch_one", "SELECT total <> '' FROM shop.legs") == [(True,)]
    gone(shoal, "branch_one")


def test_every_number_of_an_object_is_known_as_a_reference_or_as_none() -> None:
    kinds = {kind for kind in vars(schema).values() if isinstance(kind, type) and is_dataclass(kind)}
    found = {
        item.name for kind in kinds for item in fields(kind)
        if re.search(r"\bint\b", str(item.type)) and kind.__name__ not in NOT_COPIED
    }  # fmt: skip
    references = branches._REFERENCES | branches._ROLES | {"storage_id", "tablespace", "owned_by"}
    assert found - references == PLAIN_NUMBERS


def test_a_branch_costs_what_is_changed(shoal: ShoalServer) -> None:
    run(shoal, "postgres", "CREATE DATABASE branch_root")
    run(shoal, "branch_root", *SCHEMA, "INSERT INTO heap SELECT i FROM generate_series(1, 200000) i")
    run(shoal, "postgres", "CHECKPOINT")
    before = shoal.data.joinpath("rows/data.mdb").stat().st_blocks
    run(shoal, "postgres", "CREATE DATABASE branch_one FROM branch_root")
    run(shoal, "branch_one", "UPDATE t SET n = 7 WHERE id = 1")
    run(shoal, "postgres", "CHECKPOINT")
    sizes = dict(run(shoal, "postgres", "SELECT datname, pg_database_size(datname) FROM pg_database"))
    assert sizes["branch_one"] - sizes["postgres"] < 100_000
    assert sizes["branch_root"] > 4_000_000
    assert shoal.data.joinpath("rows/data.mdb").stat().st_blocks - before < 2000
    assert run(shoal, "branch_one", "SELECT count(*) FROM heap") == [(200030,)]
    rows = "SELECT relname, n_live_tup FROM pg_stat_user_tables ORDER BY relname"
    known = dict(run(shoal, "branch_one", "DELETE FROM t WHERE id < 11", "INSERT INTO t VALUES (0, 1, 'zero')", rows))
    assert known["t"] == 991
    assert abs(known["heap"] - 200030) < 20000  # judged by some of its pages
    gone(shoal, "branch_one", "branch_root")
