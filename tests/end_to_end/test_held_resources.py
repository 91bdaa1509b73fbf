"""What a server holds of the disk after each kind of work: nothing that is deleted, no old page.

The cyclic collector of these servers never runs. A real one's comes by after tens of millions of objects, so what only
it would find stays for hours.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests import resources
from tests.resources import WithoutCollector

Connection = psycopg.Connection
ROWS = 6000  # enough for a bulk run
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[WithoutCollector]:
    with WithoutCollector() as server:
        yield server


def connect(server: WithoutCollector, autocommit: bool = True) -> Connection:
    return psycopg.connect(server.dsn, autocommit=autocommit)


@pytest.fixture
def connection(server: WithoutCollector) -> Iterator[Connection]:
    """A connection that stays open and idle while others work."""
    with connect(server) as connection:
        yield connection


def table(connection: Connection) -> str:
    """A new table with ROWS rows."""
    name = f"r{next(_numbers)}"
    connection.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, v int, t text)")
    fill(connection, name)
    return name


def fill(connection: Connection, name: str, first: int = 1) -> None:
    last = first + ROWS - 1
    connection.execute(f"INSERT INTO {name} SELECT n, n % 7, md5(n::text) FROM generate_series({first}, {last}) n")


def flush_all(server: WithoutCollector) -> None:
    """Flushes with something between them: only the next flush makes the last one's pages old ones."""
    with connect(server) as other:
        other.execute("CREATE TABLE IF NOT EXISTS pulse (id int)")
        for number in range(3):
            other.execute("INSERT INTO pulse VALUES (%s)", [number])
            other.execute("CHECKPOINT")


def bulk_files_are_gone(server: WithoutCollector) -> bool:
    return resources.comes_true(lambda: not list(server.data.rglob("changelog/bulk/*")), within=5.0)


_told: set[str] = set()  # what earlier tests have left, and have failed for


def nothing_is_held(server: WithoutCollector, beside: str = "") -> None:
    """`beside`: what to tell where something is."""
    for _ in range(4):  # what was dropped is deleted after a flush, and the newest reader sees that after the next one
        flush_all(server)
        bulk_files_are_gone(server)
        if resources.comes_true(lambda: _told.issuperset(resources.held(server)), within=4.0):
            break
    left = [item for item in resources.held(server) if item not in _told]
    _told.update(left)
    assert not left, beside


# ---- kinds of work -------------------------------------------------------------------------------------------------


def insert_select(connection: Connection, name: str) -> None:
    fill(connection, name, ROWS + 1)


def copy_in(connection: Connection, name: str) -> None:
    with connection.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN") as copy:
        for number in range(ROWS + 1, 3 * ROWS):
            copy.write_row((number, 1, "x" * 30))


def copy_out(connection: Connection, name: str) -> None:
    with connection.cursor() as cursor, cursor.copy(f"COPY {name} TO STDOUT") as copy:
        for _ in copy:
            pass


def update(connection: Connection, name: str) -> None:
    connection.execute(f"UPDATE {name} SET v = v + 1")


def delete(connection: Connection, name: str) -> None:
    connection.execute(f"DELETE FROM {name}")


def truncate(connection: Connection, name: str) -> None:
    connection.execute(f"TRUNCATE {name}")


def drop(connection: Connection, name: str) -> None:
    connection.execute(f"DROP TABLE {name}")


def create_index(connection: Connection, name: str) -> None:
    connection.execute(f"CREATE INDEX ON {name} (t)")


def alter_type(connection: Connection, name: str) -> None:
    connection.execute(f"ALTER TABLE {name} ALTER v TYPE bigint USING v + 1")


def create_table_as(connection: Connection, name: str) -> None:
    connection.execute(f"CREATE TABLE {name}_copy AS SELECT * FROM {name}")


def failed_insert(connection: Connection, name: str) -> None:
    with pytest.raises(psycopg.errors.UniqueViolation):
        fill(connection, name, ROWS // 2)


def rolled_back(connection: Connection, name: str) -> None:
    with pytest.raises(ZeroDivisionError), connection.transaction():
        fill(connection, name, ROWS + 1)
        connection.execute("SAVEPOINT s")
        connection.execute(f"DELETE FROM {name}")
        connection.execute("ROLLBACK TO s")
        raise ZeroDivisionError


def columnar_reads(connection: Connection, name: str) -> None:
    for _ in range(2):
        connection.execute(f"SELECT v, count(*), sum(length(t)) FROM {name} GROUP BY v").fetchall()
        connection.execute(f"UPDATE {name} SET v = v + 1 WHERE id < 100")


def prepared(connection: Connection, name: str) -> None:
    for number in range(20):
        connection.execute(f"SELECT t FROM {name} WHERE id = %s", [number], prepare=True).fetchall()
        connection.execute(f"UPDATE {name} SET v = %s WHERE id = %s", [number, number], prepare=True)
    connection.execute(f"SELECT count(*) FROM {name} WHERE v > %s", [1], prepare=True).fetchall()


WORKS: list[Callable[[Connection, str], None]] = [
    insert_select, copy_in, copy_out, update, delete, truncate, drop, create_index, alter_type, create_table_as,
    failed_insert, rolled_back, columnar_reads, prepared,
]  # fmt: skip


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.__name__)
def test_work_leaves_nothing_open(server: WithoutCollector, connection: Connection, work: Callable[..., None]) -> None:
    name = table(connection)
    work(connection, name)
    nothing_is_held(server)


def test_the_last_bulk_write_is_let_go_of_without_another_one(server: WithoutCollector, connection: Connection) -> None:
    table(connection)
    connection.execute("CHECKPOINT")
    assert bulk_files_are_gone(server)
    assert resources.comes_true(lambda: _told.issuperset(resources.deleted_files(server.pid)), within=3.0)


# ---- transactions that see one moment ------------------------------------------------------------------------------

READS = {
    "point": "SELECT t FROM {} WHERE id = 5",
    "range": "SELECT t FROM {} WHERE id BETWEEN 5 AND 50",
    "columnar": "SELECT v, count(*) FROM {} GROUP BY v",
    "write": "UPDATE {} SET v = 0 WHERE id = 5",
    "bulk write": "UPDATE {} SET v = 0",
    "error": "SELECT 1 / (id - 5) FROM {} WHERE id = 5",
}


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_a_snapshot_goes_at_the_end_of_its_transaction(
    server: WithoutCollector, connection: Connection, isolation: str
) -> None:
    sessions = []
    for end in ("COMMIT", "ROLLBACK"):
        for read in READS.values():
            name = table(connection)
            session = connect(server)
            session.execute(f"BEGIN ISOLATION LEVEL {isolation}")
            sessions.append((session, read.format(name), end))
    for _ in range(2):
        for session, read, _ in sessions:
            with contextlib.suppress(psycopg.errors.DivisionByZero, psycopg.errors.InFailedSqlTransaction):
                session.execute(read)
        flush_all(server)
    for session, _, end in sessions:
        session.execute(end)
    nothing_is_held(server)  # while they are idle
    for session, _, _ in sessions:
        session.close()
    nothing_is_held(server)


def test_cursors_hold_nothing_once_they_are_closed(server: WithoutCollector, connection: Connection) -> None:
    name = table(connection)
    with connect(server) as session:
        session.execute("BEGIN")
        for cursor, read in enumerate(("id = 5", "id < 500", "v = 3")):
            for kind in ("CURSOR", "SCROLL CURSOR", "CURSOR WITH HOLD"):
                it = f"c{cursor}{kind[0]}{len(kind)}"
                session.execute(f"DECLARE {it} {kind} FOR SELECT * FROM {name} WHERE {read}")
                session.execute(f"FETCH 3 FROM {it}")
        fill(connection, name, ROWS + 1)
        flush_all(server)
        session.execute("COMMIT")
        session.execute("CLOSE ALL")
        nothing_is_held(server)
    nothing_is_held(server)


def test_streams_the_past_and_branches_hold_nothing(server: WithoutCollector, connection: Connection) -> None:
    name = table(connection)
    connection.execute(f"CREATE CHANGE STREAM s_{name} FOR TABLE {name}")
    connection.execute(f"UPDATE {name} SET v = 1 WHERE id < 10")
    moment = connection.execute("SELECT now()::text").fetchone()
    assert moment is not None
    update(connection, name)
    connection.execute(f"DROP CHANGE STREAM s_{name}")
    for read in ("id = 5", "v = 1"):
        connection.execute(f"SELECT count(*) FROM {name} AS OF TIMESTAMP '{moment[0]}' WHERE {read}").fetchall()
    connection.execute(f"CREATE DATABASE b_{name} FROM postgres")
    with psycopg.connect(server.dsn.replace("dbname=postgres", f"dbname=b_{name}"), autocommit=True) as branch:
        update(branch, name)
        branch.execute(f"SELECT v, count(*) FROM {name} GROUP BY v").fetchall()
    fill(connection, name, 2 * ROWS)
    connection.execute(f"DROP DATABASE b_{name}")
    nothing_is_held(server)


def test_connections_that_are_lost_hold_nothing(server: WithoutCollector, connection: Connection) -> None:
    name = table(connection)
    for read in READS.values():
        session = connect(server)
        session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        with contextlib.suppress(psycopg.errors.DivisionByZero):
            session.execute(read.format(name))
        session.close()
    nothing_is_held(server)


# ---- processes that are killed -------------------------------------------------------------------------------------


def test_a_worker_that_is_killed_while_it_loads_leaves_no_reader() -> None:
    with WithoutCollector() as server, connect(server) as connection:
        connection.execute("CREATE TABLE large (id int PRIMARY KEY, t text)")
        connection.execute("INSERT INTO large SELECT n, repeat(md5(n::text), 4) FROM generate_series(1, 200000) n")
        connection.execute("CHECKPOINT")
        server.stop()
        (server.data / "columnar" / "columns.duckdb").unlink(missing_ok=True)
        server.start()
        with connect(server) as other, ThreadPoolExecutor(1) as thread:
            answer = thread.submit(lambda: other.execute("SELECT count(*), max(t) FROM large").fetchone())
            assert resources.comes_true(lambda: bool(killed_while_it_reads(server)), within=30.0)
            found = answer.result(60)  # by the next worker
            assert found is not None
            assert found[0] == 200000
        nothing_is_held(server)


def killed_while_it_reads(server: WithoutCollector) -> list[int]:
    """Kills the worker if it has a reader; its process id."""
    with resources.opened_tables(server) as environment:
        readers = [int(line.split()[0]) for line in environment.readers().splitlines()[1:] if line.split()[2] != "-"]
    killed = [pid for pid in server.workers() if pid in readers]
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    return killed


# ---- that it would be noticed --------------------------------------------------------------------------------------

CYCLE_OF_A_LAYER = """
from engine.storage.runs import BulkLayer
make = BulkLayer.__init__
def make_with_cycle(self, *arguments):
    make(self, *arguments)
    self.itself = self
BulkLayer.__init__ = make_with_cycle
"""
SNAPSHOT_THAT_KEEPS_ITS_PAGES = """
from engine.storage import views
close = views.Snapshot.close
kept = []
def close_late(self):
    kept.append(self._generation)
    close(self)
views.Snapshot.close = close_late
"""


@pytest.mark.parametrize("fault", [CYCLE_OF_A_LAYER, SNAPSHOT_THAT_KEEPS_ITS_PAGES], ids=["layer", "snapshot"])
def test_a_planted_fault_is_noticed(fault: str) -> None:
    with WithoutCollector(before=fault) as server, connect(server) as connection:
        name = table(connection)
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        connection.execute(f"SELECT t FROM {name} WHERE id = 5")
        connection.execute("COMMIT")
        flush_all(server)
        assert bulk_files_are_gone(server)
        assert not resources.comes_true(lambda: not resources.held(server), within=3.0)
