"""Long values of every kind of type hold nobody while they come, and are what PostgreSQL makes of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

import psycopg
import pytest

from catalog.types.long_values import LONG, LONG_SORTED
from tests.oracle import PostgresServer
from tests.samples import some
from tests.server import ShoalServer
from tests.torture.holding.values import (
    MAKERS,
    MEGABYTE,
    TYPES,
    UNITS,
    WAYS,
    Value,
    copied,
    prepare,
    send_beside,
    sent,
    table_of,
)
from tests.torture.holding.watching import HELD, Watch

LARGE = (
    *(("int4[][]", "copy"), ("held_pair[]", "parameter"), ("int4multirange", "literal"), ("varbit", "copy")),
    *(("oidvector", "parameter"), ("int2vector", "copy"), ("numeric", "parameter"), ("oidvector", "literal")),
)
LATE = "8s"  # after which a value of tens of megabytes may be given up
REFUSED = ("22001", "22003", "54000", "54001", "53200")  # what may be too long for its type, or for the memory


@pytest.fixture(scope="module")
def watched() -> Iterator[tuple[psycopg.Connection, Watch]]:
    with ShoalServer() as own, psycopg.connect(own.dsn, autocommit=True) as connection, Watch(own) as watch:
        prepare(connection)
        yield connection, watch


@pytest.fixture(scope="module")
def beside(postgres_server: PostgresServer) -> Iterator[psycopg.Connection]:
    """A connection to PostgreSQL in a schema of its own."""
    with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA held_values")
        connection.execute("SET search_path = held_values, public")
        had = connection.execute("SELECT count(*) FROM pg_extension WHERE extname = 'hstore'").fetchone()
        prepare(connection)
        yield connection
        connection.execute("DROP SCHEMA held_values CASCADE")
        if had == (0,):
            connection.execute("DROP EXTENSION IF EXISTS hstore CASCADE")


def copied_out(connection: psycopg.Connection, type_: str, form: str = "text") -> bytes:
    """What has come of a value."""
    statement = f"COPY {table_of(type_)} TO STDOUT (FORMAT {form})"
    with connection.cursor().copy(statement.encode()) as copy:
        return b"".join(map(bytes, copy))


def given(connection: psycopg.Connection, type_: str, way: str, size: int) -> bytes | str | None:
    """What has come of a value, or how it was refused."""
    connection.execute(f"TRUNCATE {table_of(type_)}".encode())
    try:
        WAYS[way](connection, type_, MAKERS[type_](size))
    except psycopg.Error as error:
        return error.sqlstate
    return copied_out(connection, type_)


@pytest.mark.parametrize("type_", some(MAKERS, 6))
def test_they_are_what_postgresql_makes_of_them(
    watched: tuple[psycopg.Connection, Watch], beside: psycopg.Connection, type_: str
) -> None:
    """At a size that brings along what is stored."""
    wanted = given(beside, type_, "parameter", MEGABYTE // 32)
    if wanted != "54000":  # where PostgreSQL has less room
        for way in WAYS:
            assert given(watched[0], type_, way, MEGABYTE // 32) == wanted, way


@pytest.mark.parametrize(
    "type_", some(["int4[][]", "held_pair[]", "held_outer", "int4multirange", "path", "hstore"], 8)
)
def test_they_are_so_where_a_process_reads_them(
    watched: tuple[psycopg.Connection, Watch], beside: psycopg.Connection, type_: str
) -> None:
    size = LONG_SORTED + 30_000 if type_ in ("int4multirange", "hstore") else LONG + 30_000
    assert given(watched[0], type_, "copy", size) == given(beside, type_, "copy", size)


@pytest.mark.parametrize("type_", some(MAKERS, 32))
def test_a_megabyte(watched: tuple[psycopg.Connection, Watch], type_: str) -> None:
    held = {}
    for way in ("literal", "parameter", "copy"):
        held[way], state = send_beside(*watched, Value(type_, "", way, MEGABYTE))
        assert state in (None, *REFUSED)
    assert max(held.values()) <= HELD, held


@pytest.mark.parametrize(("type_", "way"), some(LARGE, 16))
def test_sixty_megabytes(watched: tuple[psycopg.Connection, Watch], type_: str, way: str) -> None:
    connection, watch = watched
    connection.execute(f"SET statement_timeout = '{LATE}'")
    held, state = send_beside(connection, watch, Value(type_, "", way, 60 * MEGABYTE))
    connection.execute("RESET statement_timeout")
    assert state in (None, "57014", *REFUSED)
    assert held <= HELD


ANY = [Value(type_, unit, way, 60 * MEGABYTE) for type_ in TYPES for unit in UNITS for way in ("parameter", "copy")]


@pytest.mark.parametrize("value", some(random.Random(1).sample(ANY, 240), 120), ids=str)
def test_sixty_megabytes_of_anything(watched: tuple[psycopg.Connection, Watch], value: Value) -> None:
    """A text that is no value of the type, or a long way to one."""
    connection, watch = watched
    connection.execute(f"SET statement_timeout = '{LATE}'")
    held, state = send_beside(connection, watch, value)
    connection.execute("RESET statement_timeout")
    assert state != "XX000"
    assert held <= HELD


@pytest.mark.parametrize("type_", ["int4[][]", "held_pair[]", "int4multirange", "polygon", "path", "varbit", "hstore"])
@pytest.mark.parametrize(("way", "size"), some(product(("parameter", "copy"), (MEGABYTE // 32, MEGABYTE)), 2))
def test_binary_forms(watched: tuple[psycopg.Connection, Watch], type_: str, way: str, size: int) -> None:
    connection, watch = watched
    table = table_of(type_)
    wanted = given(connection, type_, "copy", size)
    data = copied_out(connection, type_, "binary")
    connection.execute(f"TRUNCATE {table}".encode())
    with watch.beside() as seen:
        if way == "copy":
            copied(connection, f"COPY {table} FROM STDIN (FORMAT binary)", data)
        else:
            sent(connection, type_, data[19 + 6 : -2], 1)  # behind the header, the number of fields and a length
    assert seen.held <= HELD
    assert copied_out(connection, type_) == wanted


def test_a_word_for_a_time_means_the_transaction_in_a_process_too(watched: tuple[psycopg.Connection, Watch]) -> None:
    connection, _ = watched
    table, many = table_of("timestamptz[]"), "{" + '"2020-01-31 12:00:00+00",' * 60_000 + "now}"
    for way in (1, 2, 3):
        connection.execute(f"TRUNCATE {table}".encode())
        with connection.transaction():
            connection.execute("SELECT 1")
            if way == 1:
                sent(connection, "timestamptz[]", many.encode(), 0)
            else:
                WAYS["literal" if way == 2 else "copy"](connection, "timestamptz[]", many)
            same = connection.execute(f"SELECT x[60001] = now() FROM {table}".encode()).fetchone()
        assert same == (True,), way
