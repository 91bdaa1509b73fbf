"""Batches (wire/batches.py): what is read is what the long way reads, and rows that have to wait do."""

from __future__ import annotations

import struct
import threading

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.server import ShoalServer
from tests.wire.test_core import message, ready
from wire import core

EXECUTE = message(b"E", b"\0" + bytes(4))
LIMITED = message(b"E", b"\0\0\0\0\x01")
DESCRIBE = message(b"D", b"P\0")
SYNC = message(b"S", b"")


def bind(values: list[bytes | None], name: bytes = b"s", code: int = 0) -> bytes:
    body = b"\0" + name + b"\0" + struct.pack(">HHH", 1, code, len(values))
    for value in values:
        body += struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
    return message(b"B", body + b"\0\0")


def first(data: bytes) -> tuple[core.ProtocolCore, core.Batch | None]:
    """What is made of the first message, a Bind."""
    machine = ready()
    machine.receive_data(data)
    event = machine.next_event()
    assert isinstance(event, core.Bind)
    return machine, machine.batch(event, 100)


def rows_of(batch: core.Batch, each: int) -> list[list[bytes | None]]:
    """The parameters, so many a row."""
    columns = [
        [
            None if length < 0 else values.data[at : at + length]
            for at, length in zip(values.first, values.lengths, strict=True)
        ]
        for values in batch.columns(each)
    ]
    return list(map(list, zip(*columns, strict=True)))


def test_a_batch_ends_where_something_else_comes() -> None:
    row = bind([b"1", None]) + DESCRIBE + LIMITED
    for rest in (
        SYNC,
        bind([b"1", None], b"t") + DESCRIBE + LIMITED,
        bind([b"1", None], code=1) + DESCRIBE + LIMITED,
        bind([b"1", None]) + LIMITED,
        bind([b"1", None]) + DESCRIBE + EXECUTE,
        row[:-1],
        row[:9],
        b"",
    ):
        machine, batch = first(row * 3 + rest)
        assert batch is not None and batch.described and rows_of(batch, 2) == [[b"1", None]] * 3
        machine.skip_batch(batch, 2)
        assert machine.buffered_bytes == len(row + rest)
        machine.skip_batch(batch, 3)
        assert machine.buffered_bytes == len(rest)
    assert first(row + SYNC)[1] is None
    machine, batch = first(row * 150)
    assert batch is not None and len(batch.ends) == 100


@settings(max_examples=300, deadline=None)
@given(
    st.integers(1, 12).flatmap(
        lambda each: st.lists(
            st.lists(st.one_of(st.none(), st.binary(max_size=6)), min_size=each, max_size=each), min_size=2, max_size=5
        )
    ),
    st.sampled_from([EXECUTE, LIMITED, DESCRIBE + EXECUTE]),
    st.data(),
)
def test_a_batch_is_read_as_the_long_way_reads_it(
    rows: list[list[bytes | None]], tail: bytes, data: st.DataObject
) -> None:
    """Whatever bytes come behind the first row: a batch has what the events have."""
    begin = bind(rows[0]) + tail
    rest = bytearray(b"".join(bind(row) + tail for row in rows[1:]))
    for _ in range(data.draw(st.integers(0, 2))):
        rest[data.draw(st.integers(0, len(rest) - 1))] = data.draw(st.integers(0, 255))
    machine, batch = first(begin + bytes(rest) + SYNC)
    if batch is None:
        return
    machine.skip_batch(batch, len(batch.ends))
    long = ready()
    long.receive_data(begin + bytes(rest) + SYNC)
    found = []
    while long.buffered_bytes > machine.buffered_bytes:
        event = long.next_event()
        if isinstance(event, core.Bind):
            assert (event.portal, event.statement, event.parameter_formats) == (b"", b"s", (0,))
            found.append(event.parameters)
        else:
            assert isinstance(event, core.Describe | core.Execute)
    assert long.buffered_bytes == machine.buffered_bytes and found == rows_of(batch, len(rows[0]))


@pytest.mark.parametrize("ends", ["COMMIT", "ROLLBACK"])
def test_a_row_in_the_middle_waits_for_another_transaction(private_shoal: ShoalServer, ends: str) -> None:
    dsn = private_shoal.dsn
    outcome: list[object] = []
    with psycopg.connect(dsn, autocommit=True) as first, psycopg.connect(dsn, autocommit=True) as second:
        first.execute("CREATE TABLE waiting (id int PRIMARY KEY, v text)")
        first.execute("BEGIN")
        first.execute("INSERT INTO waiting VALUES (70, 'other')")

        def write() -> None:
            try:
                with second.transaction():
                    second.cursor().executemany(
                        "INSERT INTO waiting VALUES (%s, 'batch')", [(number,) for number in range(200)]
                    )
                outcome.append("done")
            except psycopg.Error as error:
                outcome.append(error.sqlstate)

        thread = threading.Thread(target=write)
        thread.start()
        waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        with psycopg.connect(dsn, autocommit=True) as watcher:
            while thread.is_alive() and watcher.execute(waits).fetchone() == (0,):
                pass
        assert not outcome
        first.execute(ends.encode())
        thread.join(30)
        rows = first.execute("SELECT count(*), count(*) FILTER (WHERE v = 'batch') FROM waiting").fetchone()
    assert (outcome, rows) == ((["23505"], (1, 0)) if ends == "COMMIT" else (["done"], (200, 200)))


def test_executions_of_several_rows_give_their_rows_in_order() -> None:
    executions: list[list[bytes | None]] = [[b"%d" % number, None, b"x" * number, b""] for number in range(20)]
    _, batch = first(b"".join(bind(values) + EXECUTE for values in executions))
    assert batch is not None
    assert rows_of(batch, 2) == [half for values in executions for half in (values[:2], values[2:])]


def test_nulls_among_the_rows_of_a_batch(private_shoal: ShoalServer) -> None:
    rows = [(n, n if n % 3 else None, None, f"text {n}" if n % 5 else None, "ü" if n % 7 else "\\") for n in range(300)]
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE with_nulls (id int PRIMARY KEY, a bigint, b date, c text, d text)")
        insert = "INSERT INTO with_nulls VALUES (%s, %s, %s, %s, %s)"
        for binary in (False, True):
            with connection.transaction():
                connection.cursor(binary=binary).executemany(insert, rows)
            assert connection.execute("SELECT * FROM with_nulls ORDER BY id").fetchall() == rows
            connection.execute("DELETE FROM with_nulls")


def test_what_a_batch_wrote_is_undone_to_a_savepoint(private_shoal: ShoalServer) -> None:
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE undone (id int PRIMARY KEY, v int)")
        with connection.transaction():
            connection.cursor().executemany("INSERT INTO undone VALUES (%s, 0)", [(n,) for n in range(100)])
            with connection.transaction(force_rollback=True):
                connection.cursor().executemany("UPDATE undone SET v = 1 WHERE id = %s", [(n,) for n in range(50)])
                connection.execute("DELETE FROM undone WHERE id < 10")
                connection.cursor().executemany("INSERT INTO undone VALUES (%s, 2)", [(n,) for n in range(5, 10)])
                connection.cursor().executemany("INSERT INTO undone VALUES (%s, 2)", [(n,) for n in range(100, 200)])
            with connection.transaction():
                connection.execute("UPDATE undone SET v = 3 WHERE id = 99")
        found = connection.execute("SELECT v, count(*) FROM undone GROUP BY v ORDER BY v").fetchall()
        assert found == [(0, 99), (3, 1)]


def test_a_batch_is_counted_row_by_row(private_shoal: ShoalServer) -> None:
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE counted (id int)")
        connection.execute("CREATE EXTENSION pg_stat_statements")
        with connection.transaction():
            connection.cursor().executemany("INSERT INTO counted VALUES (%s)", [(n,) for n in range(300)])
        calls = "SELECT calls, rows FROM pg_stat_statements WHERE query LIKE 'INSERT INTO counted%'"
        assert connection.execute(calls).fetchall() == [(300, 300)]
