"""AS OF and SET as_of over several tablespaces: every moment reads as it was recorded, and no transaction is ever seen
in half, by rows nor by columns."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.engine.session.test_past import Remembering, lsn
from tests.server import ShoalServer

TABLES = ("home", "one", "two")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShoalServer]:
    with Remembering(tmp_path_factory.mktemp("moments") / "data") as found:
        with psycopg.connect(found.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLESPACE one")
            connection.execute("CREATE TABLESPACE two")
        yield found


@pytest.fixture
def connection(server: ShoalServer) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.dsn, autocommit=True) as found:
        for name in TABLES:
            place = "" if name == "home" else f" TABLESPACE {name}"
            found.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, n int){place}")
            found.execute(f"INSERT INTO {name} SELECT i, 0 FROM generate_series(1, 800) i")
        yield found
        found.execute("RESET as_of")
        for name in TABLES:
            found.execute(f"DROP TABLE IF EXISTS {name}")


def answers(connection: psycopg.Connection, of: str = "") -> list[Any]:
    found: list[Any] = []
    for path in ("auto", "columnar"):
        connection.execute(f"SET shoal.path = {path}")
        for name in TABLES:
            found.append(connection.execute(f"SELECT * FROM {name}{of} WHERE id = 3").fetchall())
            found.append(connection.execute(f"SELECT count(*), sum(n), max(id) FROM {name}{of}").fetchall())
        query = f"SELECT a.n, b.n, c.n FROM home{of} a JOIN one{of} b USING (id) JOIN two{of} c USING (id) WHERE id = 7"
        found.append(connection.execute(query).fetchall())
    connection.execute("RESET shoal.path")
    return found


@pytest.mark.parametrize("steps", [8, pytest.param(14, marks=pytest.mark.long)])
def test_every_moment_reads_as_it_did(connection: psycopg.Connection, steps: int) -> None:
    chance = random.Random(5)
    by_time: dict[Any, Any] = {}
    by_lsn: dict[int, Any] = {}
    for step in range(steps):
        changed = chance.sample(TABLES, chance.randrange(1, 4))
        with connection.transaction():
            for name in changed:
                connection.execute(chance.choice([
                    f"UPDATE {name} SET n = {step} WHERE id % 50 = {chance.randrange(50)}",
                    f"DELETE FROM {name} WHERE id % 97 = {chance.randrange(97)}",
                    f"INSERT INTO {name} VALUES ({1000 + step}, {step})",
                    f"UPDATE {name} SET n = n + 1",
                ]))  # fmt: skip
        row = connection.execute("SELECT clock_timestamp()").fetchone()
        assert row is not None
        by_time[row[0]] = answers(connection)
        if "home" in changed:  # nothing else was committed elsewhere at its LSN's time
            by_lsn[lsn(connection)] = by_time[row[0]]
        if step % 5 == 2:
            connection.execute("CHECKPOINT")
    assert len(by_lsn) > steps / 4
    for time, expected in by_time.items():
        assert answers(connection, f" AS OF TIMESTAMP '{time}'") == expected, time
        connection.execute(f"SET as_of = '{time}'")
        assert answers(connection) == expected, time
        connection.execute("RESET as_of")
    for at, expected in by_lsn.items():
        assert answers(connection, f" AS OF LSN {at}") == expected, at
        connection.execute(f"SET as_of = '{at}'")
        with connection.transaction():
            assert answers(connection) == expected, at
        connection.execute("RESET as_of")


def test_dropped_and_younger_tables(connection: psycopg.Connection) -> None:
    row = connection.execute("SELECT clock_timestamp()").fetchone()
    assert row is not None
    before = f"TIMESTAMP '{row[0]}'"
    connection.execute("CREATE TABLE late (id int) TABLESPACE one")
    connection.execute("INSERT INTO late VALUES (1)")
    connection.execute("ALTER TABLE two SET TABLESPACE one")
    connection.execute("UPDATE two SET n = 9")
    connection.execute("DROP TABLE one")
    few = connection.execute(f"SELECT count(*), sum(n) FROM one AS OF {before} WHERE id < 40").fetchall()
    assert few == [(39, 0)]
    assert connection.execute(f"SELECT n FROM two AS OF {before} WHERE id = 7").fetchall() == [(0,)]
    with pytest.raises(psycopg.errors.UndefinedTable):
        connection.execute(f"SELECT * FROM late AS OF {before}")
    connection.execute("DROP TABLE late")
    connection.execute("CREATE TABLESPACE three")
    connection.execute("CREATE TABLE there (id int) TABLESPACE three")
    connection.execute("INSERT INTO there VALUES (1)")
    row = connection.execute("SELECT clock_timestamp()").fetchone()
    assert row is not None
    assert connection.execute(f"SELECT * FROM there AS OF TIMESTAMP '{row[0]}'").fetchall() == [(1,)]
    connection.execute("DROP TABLE there")
    connection.execute("DROP TABLESPACE three")
    with pytest.raises(psycopg.Error) as error:
        connection.execute(f"SELECT * FROM there AS OF TIMESTAMP '{row[0]}'")
    assert error.value.sqlstate == "72000"


@pytest.mark.long
def test_no_transaction_is_seen_in_half(server: ShoalServer, connection: psycopg.Connection) -> None:
    """Writers move amounts between tables of different tablespaces; whoever reads any moment finds the sum, by whatever
    of the two a moment is said, on both paths, and finds the same again."""
    total = 800 * len(TABLES) * 100
    for name in TABLES:
        connection.execute(f"UPDATE {name} SET n = 100")
    row = connection.execute("SELECT clock_timestamp()").fetchone()
    assert row is not None
    first, first_time = lsn(connection), row[0]
    over, moved = threading.Event(), []

    def write(seed: int) -> None:
        chance = random.Random(seed)
        with psycopg.connect(server.dsn, autocommit=True) as other:
            while not over.is_set():
                source, target = chance.sample(TABLES, 2)
                amount = chance.randrange(50)
                low = 1 + 200 * seed
                with other.transaction():
                    for name, sign in ((source, "-"), (target, "+")):
                        at = low + chance.randrange(200)
                        other.execute(f"UPDATE {name} SET n = n {sign} {amount} WHERE id = {at}")
                moved.append(amount)

    writers = [threading.Thread(target=write, args=(seed,)) for seed in range(3)]
    for writer in writers:
        writer.start()
    chance = random.Random(8)
    sums = "SELECT (SELECT sum(n) FROM home{of}) + (SELECT sum(n) FROM one{of}) + (SELECT sum(n) FROM two{of})"
    seen: dict[str, Any] = {}
    try:
        while len(moved) < 50:
            assert all(writer.is_alive() for writer in writers)
        for number in range(3):
            newest = lsn(connection)
            row = connection.execute("SELECT clock_timestamp()").fetchone()
            assert row is not None
            moments = [
                f"LSN {chance.randrange(first, newest + 1)}",
                f"LSN {newest}",
                f"TIMESTAMP '{first_time + (row[0] - first_time) * chance.random()}'",
            ]
            connection.execute(f"SET shoal.path = {'columnar' if number % 4 == 1 else 'auto'}")
            for moment in moments:
                found = connection.execute(sums.format(of=f" AS OF {moment}")).fetchall()
                assert found == [(total,)], moment
                rows = " UNION ALL ".join(f"SELECT id, n FROM {name} AS OF {moment}" for name in TABLES)
                seen[moment] = connection.execute(f"SELECT sum(n), sum(n::bigint * n * id) FROM ({rows}) x").fetchall()
                assert seen[moment][0][0] == total
        for _ in range(4):
            connection.execute(f"SET as_of = '{chance.choice(list(seen)).split(' ', 1)[1].strip(chr(39))}'")
            assert connection.execute(sums.format(of="")).fetchall() == [(total,)]
            connection.execute("RESET as_of")
    finally:
        over.set()
        for writer in writers:
            writer.join()
    connection.execute("RESET shoal.path")
    for moment, expected in seen.items():
        rows = " UNION ALL ".join(f"SELECT id, n FROM {name} AS OF {moment}" for name in TABLES)
        assert connection.execute(f"SELECT sum(n), sum(n::bigint * n * id) FROM ({rows}) x").fetchall() == expected


def test_a_block_in_the_past_stays_there_when_the_node_gets_a_second_tablespace(tmp_path: Path) -> None:
    with (
        Remembering(tmp_path / "data") as server,
        psycopg.connect(server.dsn, autocommit=True) as present,
        psycopg.connect(server.dsn, autocommit=True) as past,
    ):
        present.execute("CREATE TABLE t (id int PRIMARY KEY, n int)")
        present.execute("INSERT INTO t VALUES (1, 10)")
        then = lsn(present)
        present.execute("UPDATE t SET n = 20")
        past.execute(f"SET as_of = 'lsn {then}'")
        past.execute("BEGIN")
        assert past.execute("SELECT n FROM t").fetchall() == [(10,)]
        present.execute("CREATE TABLESPACE one")
        present.execute("UPDATE t SET n = 30")
        assert past.execute("SELECT n FROM t").fetchall() == [(10,)]
        past.execute("COMMIT")
        assert past.execute("SELECT n FROM t").fetchall() == [(10,)]
        past.execute("RESET as_of")
        assert past.execute("SELECT n FROM t").fetchall() == [(30,)]
