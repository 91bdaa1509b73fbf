"""Large objects as clients meet them, on Shoal and on PostgreSQL: libpq's functions and those of SQL."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import psycopg2
import pytest
from psycopg import errors

from tests.oracle import PostgresServer
from tests.server import ShoalServer

Connection = psycopg.Connection[tuple[object, ...]]
READ, WRITE = 0x40000, 0x20000


@pytest.fixture
def connection(server: ShoalServer | PostgresServer) -> Iterator[Connection]:
    with psycopg.connect(server.dsn, autocommit=True) as found:
        yield found


def value(connection: Connection, sql: str, *parameters: object) -> object:
    row = connection.execute(sql.encode(), parameters).fetchone()
    assert row is not None
    return row[0]


def test_a_driver_writes_reads_seeks_and_cuts(server: ShoalServer | PostgresServer) -> None:
    connection = psycopg2.connect(server.dsn)
    made = connection.lobject(0, "wb")
    data = bytes(range(256)) * 40  # five pages
    assert made.write(data) == len(data)
    oid = made.oid
    assert made.tell() == len(data)
    assert made.seek(-10, 2) == len(data) - 10
    made.write(b"overwritten, and longer")
    made.close()
    connection.commit()
    wanted = data[:-10] + b"overwritten, and longer"
    again = connection.lobject(oid, "rb")
    assert again.read() == wanted
    assert again.seek(2040) == 2040
    assert again.read(20) == wanted[2040:2060]
    assert again.read(0) == b""
    connection.rollback()
    again = connection.lobject(oid, "wb")
    again.truncate(3000)
    again.seek(5000)
    again.write(b"end")
    again.seek(0)
    assert connection.lobject(oid, "rb").read() == wanted[:3000] + bytes(2000) + b"end"
    connection.rollback()
    assert connection.lobject(oid, "rb").read() == wanted
    connection.lobject(oid).unlink()
    connection.commit()
    with pytest.raises(psycopg2.OperationalError, match=f"large object {oid} does not exist"):
        connection.lobject(oid)
    connection.close()


def test_functions_of_sql(connection: Connection) -> None:
    oid = value(connection, "SELECT lo_from_bytea(0, %s)", b"0123456789")
    assert value(connection, "SELECT lo_get(%s)", oid) == b"0123456789"
    connection.execute("SELECT lo_put(%s, 8, %s)", (oid, b"abcdef"))
    assert value(connection, "SELECT lo_get(%s, 7, 3)", oid) == b"7ab"
    assert value(connection, "SELECT lo_get(%s, 100, 3)", oid) == b""
    assert value(connection, "SELECT lo_unlink(%s)", oid) == 1
    assert value(connection, "SELECT lo_create(12345)") == 12345
    with pytest.raises(errors.UniqueViolation, match="pg_largeobject_metadata_oid_index"):
        connection.execute("SELECT lo_create(12345)")
    assert value(connection, "SELECT lo_get(12345)") == b""
    assert value(connection, "SELECT lomowner FROM pg_largeobject_metadata WHERE oid = 12345") == 10
    connection.execute("SELECT lo_unlink(12345)")


def test_descriptors_live_as_long_as_their_transaction(connection: Connection) -> None:
    oid = value(connection, "SELECT lo_from_bytea(0, 'x')")
    connection.execute("BEGIN")
    assert value(connection, "SELECT lo_open(%s, %s)", oid, READ) == 0
    assert value(connection, "SELECT lo_open(%s, %s)", oid, READ | WRITE) == 1
    assert value(connection, "SELECT lo_close(0)") == 0
    assert value(connection, "SELECT lo_open(%s, %s)", oid, WRITE) == 0
    assert value(connection, "SELECT lowrite(1, 'abc')") == 3
    assert value(connection, "SELECT loread(0, 10)") == b"abc"
    assert value(connection, "SELECT lo_tell64(0)") == 3
    connection.execute("COMMIT")
    with pytest.raises(errors.UndefinedObject, match="invalid large-object descriptor: 0"):
        connection.execute("SELECT loread(0, 10)")
    connection.execute("SELECT lo_unlink(%s)", (oid,))


@pytest.mark.parametrize(
    ("sql", "sqlstate"),
    [
        ("SELECT lo_open(1, 262144)", "42704"),
        ("SELECT lo_unlink(1)", "42704"),
        ("SELECT lo_get(1)", "42704"),
        ("SELECT lo_open(777, 1)", "22023"),
        ("SELECT lo_close(7)", "42704"),
        ("SELECT lo_lseek(lo_open(777, 262144), -1, 0)", "22023"),
        ("SELECT lo_lseek(lo_open(777, 262144), 1, 9)", "22023"),
        ("SELECT lo_lseek(lo_open(777, 262144), 2147483647, 0)", None),
        ("SELECT lowrite(lo_open(777, 262144), 'x')", "55000"),
        ("SELECT lo_truncate(lo_open(777, 131072), -1)", "22023"),
        ("SELECT lo_get(777, 0, -1)", "22023"),
    ],
)
def test_errors(connection: Connection, sql: str, sqlstate: str | None) -> None:
    connection.execute("SELECT lo_create(777)")
    try:
        connection.execute(sql.encode())
        found = None
    except psycopg.Error as error:
        found = error.sqlstate
    connection.execute("SELECT lo_unlink(777)")
    assert found == sqlstate
