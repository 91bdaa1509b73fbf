"""ATTACH, CREATE and DETACH PARTITION beside writers whose transactions are open, beside PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import product

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.samples import some
from tests.server import ShoalServer

NESTED = (
    "drop schema if exists beside cascade",
    "create schema beside",
    "set search_path = beside",
    "create table tp (i int, j text) partition by range (i)",
    "create table tp1 partition of tp for values from (0) to (100)",
    "create table tpd partition of tp default partition by list (j)",
    "create table tpdd partition of tpd default partition by hash (j)",
    "create table tpddd partition of tpdd for values with (modulus 1, remainder 0)",
    "create table tp2 (i int, j text)",
    "create table tp3 (i int, j text) partition by list (j)",
    "create table tp3d partition of tp3 default",
)
WRITES = (
    "insert into tp values (110, 'x')",
    "insert into tpd values (110, 'x')",
    "insert into tpddd values (110, 'x')",
    "insert into tp select i, 'x' from generate_series(110, 1110) i",
    "update tp set i = 110",
    "insert into tp values (110, 'x') on conflict do nothing",
)
CHANGES = (
    "alter table tp attach partition tp2 for values from (100) to (2000)",
    "create table tp4 partition of tp for values from (100) to (2000)",
    "alter table tp attach partition tp3 for values from (100) to (2000)",
)
Connect = Callable[[], psycopg.Connection]


@pytest.fixture
def connect(server: ShoalServer | PostgresServer) -> Iterator[Connect]:
    opened: list[psycopg.Connection] = []

    def connected() -> psycopg.Connection:
        connection = psycopg.connect(server.dsn, autocommit=True)
        opened.append(connection)
        connection.execute("set search_path = beside")
        return connection

    first = connected()
    for statement in NESTED:
        first.execute(statement.encode())
    yield connected
    for connection in opened:
        connection.rollback()
    first.execute("drop schema beside cascade")
    for connection in opened:
        connection.close()


class Waiting:
    """A statement in a thread of its own; `beside` looks whether it waits."""

    def __init__(self, connection: psycopg.Connection, sql: str, beside: psycopg.Connection) -> None:
        self.sqlstate: str | None = None
        self._pid, self._beside = connection.info.backend_pid, beside
        self._thread = threading.Thread(target=self._run, args=(connection, sql))
        self._thread.start()

    def _run(self, connection: psycopg.Connection, sql: str) -> None:
        try:
            connection.execute(sql.encode())
        except psycopg.Error as error:
            self.sqlstate = error.sqlstate

    def waits(self) -> bool:
        """Whether it comes to wait for a lock, rather than to its end."""
        look = f"SELECT FROM pg_stat_activity WHERE pid = {self._pid} AND wait_event_type = 'Lock'"
        while not self._beside.execute(look.encode()).rowcount:
            self._thread.join(0.002)
            if not self._thread.is_alive():
                return False
        self._thread.join(0.02)
        return self._thread.is_alive()

    def outcome(self) -> str | None:
        self._thread.join(30)
        assert not self._thread.is_alive()
        return self.sqlstate


@pytest.mark.parametrize(("change", "write"), some(product(CHANGES, WRITES), 5))
def test_a_new_partition_waits_for_writers_of_the_default_one(connect: Connect, write: str, change: str) -> None:
    writer, other = connect(), connect()
    if write.startswith("update"):
        writer.execute("insert into tp values (1, 'x')")
    writer.execute("begin")
    writer.execute(write.encode())
    changing = Waiting(other, change, connect())
    assert changing.waits()
    writer.execute("commit")
    assert changing.outcome() == "23514"
    found = writer.execute("select count(*) from tp where i = 110").fetchall()
    assert found == [(1,)]


@pytest.mark.parametrize(("change", "write"), some(product(CHANGES, WRITES), 5))
def test_writers_wait_for_a_new_partition(connect: Connect, write: str, change: str) -> None:
    """Then the row goes where it belongs, or nowhere; it never stays where nobody looks for it."""
    writer, other = connect(), connect()
    if write.startswith("update"):
        writer.execute("insert into tp values (1, 'x')")
    other.execute("begin")
    other.execute(change.encode())
    writing = Waiting(writer, write, connect())
    assert writing.waits()
    other.execute("commit")
    went = writing.outcome()
    assert went in (None, "23514")
    (everywhere,) = other.execute("select count(*) from tp where i + 0 = 110").fetchall()
    assert other.execute("select count(*) from tp where i = 110").fetchall() == [everywhere]
    assert other.execute("select count(*) from tpd where i + 0 >= 100").fetchall() == [(0,)]


def test_attach_waits_for_writers_of_the_tables_below(connect: Connect) -> None:
    writer, other = connect(), connect()
    writer.execute("begin")
    writer.execute("insert into tp3d values (5000, 'x')")
    changing = Waiting(other, CHANGES[2], connect())
    assert changing.waits()
    writer.execute("commit")
    assert changing.outcome() == "23514"


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_detach_waits_for_writers_below(connect: Connect, end: str) -> None:
    writer, other = connect(), connect()
    writer.execute("begin")
    writer.execute("insert into tp values (110, 'x')")
    changing = Waiting(other, "alter table tp detach partition tpd", connect())
    assert changing.waits()
    writer.execute(end.encode())
    assert changing.outcome() is None
    assert other.execute("select count(*) from tpd").fetchall() == [(int(end == "commit"),)]
