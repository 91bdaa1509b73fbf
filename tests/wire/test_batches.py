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
        assert batch is not None and batch.described and batch.rows == [[b"1", None]] * 3
        machine.skip_batch(batch, 2)
        assert machine.buffered == len(row + rest)
        machine.skip_batch(batch, 3)
        assert machine.buffered == len(rest)
    assert first(row + SYNC)[1] is None
    machine, batch = first(row * 150)
    assert batch is not None and len(batch.rows) == 100


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.lists(st.one_of(st.none(), st.binary(max_size=6)), min_size=2, max_size=2), min_size=2, max_size=5),
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
    machine.skip_batch(batch, len(batch.rows))
    long = ready()
    long.receive_data(begin + bytes(rest) + SYNC)
    found = []
    while long.buffered > machine.buffered:
        event = long.next_event()
        if isinstance(event, core.Bind):
            assert (event.portal, event.statement, event.parameter_formats) == (b"", b"s", (0,))
            found.append(event.parameters)
        else:
            assert isinstance(event, core.Describe | core.Execute)
    assert long.buffered == machine.buffered and found == batch.rows


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


def test_a_batch_is_counted_row_by_row(private_shoal: ShoalServer) -> None:
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE counted (id int)")
        connection.execute("CREATE EXTENSION pg_stat_statements")
        with connection.transaction():
            connection.cursor().executemany("INSERT INTO counted VALUES (%s)", [(n,) for n in range(300)])
        calls = "SELECT calls, rows FROM pg_stat_statements WHERE query LIKE 'INSERT INTO counted%'"
        assert connection.execute(calls).fetchall() == [(300, 300)]
