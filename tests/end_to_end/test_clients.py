"""Clients that go, are cancelled, come in numbers or ask for much."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from tests.oracle import PostgresServer
from tests.server import ShoalServer

LONG = b"SELECT count(*) FROM generate_series(1, 200000) a, generate_series(1, 200000) b WHERE a.a # b.b = 5"


@pytest.fixture
def table(shoal: ShoalServer) -> Iterator[str]:
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS clients")
        connection.execute("CREATE TABLE clients (a int PRIMARY KEY, b text)")
        connection.execute("INSERT INTO clients VALUES (1, 'one'), (2, 'two')")
        yield "clients"
        connection.execute("DROP TABLE clients")


def vanish(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """The client's process is gone: its socket closes without Terminate."""
    os.close(connection.pgconn.socket)


def test_a_client_that_vanishes_frees_its_locks(shoal: ShoalServer, table: str) -> None:
    leaver = psycopg.connect(shoal.dsn)
    leaver.execute("UPDATE clients SET b = 'never' WHERE a = 1")
    with psycopg.connect(shoal.dsn, autocommit=True) as other:
        other.execute("SET lock_timeout = '100ms'")
        with pytest.raises(errors.LockNotAvailable):
            other.execute("UPDATE clients SET b = 'mine' WHERE a = 1")
        other.execute("SET lock_timeout = '10s'")
        vanish(leaver)
        assert other.execute("UPDATE clients SET b = 'mine' WHERE a = 1").rowcount == 1
        assert other.execute("SELECT b FROM clients WHERE a = 1").fetchone() == ("mine",)


def test_a_client_that_vanishes_while_it_waits_gives_up_its_place(shoal: ShoalServer, table: str) -> None:
    holder, leaver, third = (psycopg.connect(shoal.dsn) for _ in range(3))
    holder.execute("UPDATE clients SET b = 'held' WHERE a = 1")
    leaver.execute("UPDATE clients SET b = 'x' WHERE a = 2")
    leaver.pgconn.send_query(b"UPDATE clients SET b = 'waiting' WHERE a = 1")
    leaver.pgconn.flush()
    time.sleep(0.2)
    vanish(leaver)
    third.execute("SET lock_timeout = '10s'")
    assert third.execute("UPDATE clients SET b = 'third' WHERE a = 2").rowcount == 1
    holder.commit()
    assert third.execute("UPDATE clients SET b = 'third' WHERE a = 1").rowcount == 1
    third.commit()
    assert third.execute("SELECT DISTINCT b FROM clients").fetchall() == [("third",)]
    holder.close()
    third.close()


def test_a_client_that_vanishes_mid_query_frees_the_worker(shoal: ShoalServer) -> None:
    leaver = psycopg.connect(shoal.dsn)
    leaver.pgconn.send_query(LONG)
    leaver.pgconn.flush()
    time.sleep(0.3)
    vanish(leaver)
    began = time.monotonic()
    with psycopg.connect(shoal.dsn) as other:
        assert other.execute("SELECT count(*) FROM generate_series(1, 100000)").fetchone() == (100_000,)
    assert time.monotonic() - began < 10


def test_client_min_messages(server: ShoalServer | PostgresServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        heard: list[str | None] = []
        connection.add_notice_handler(lambda diagnostic: heard.append(diagnostic.severity))
        for level in ("notice", "warning", "error"):
            connection.execute(f"SET client_min_messages = {level}".encode())
            connection.execute("DROP TABLE IF EXISTS nothing_here")
            connection.execute("COMMIT")
        assert heard == ["NOTICE", "WARNING", "WARNING"]


def test_psql_cancels_with_control_c(shoal: ShoalServer) -> None:
    process = subprocess.Popen(
        ["psql", "-X", shoal.dsn, "-c", LONG.decode()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=30)
    assert "canceling statement due to user request" in complaint


def test_cancelling_a_wait_for_a_lock(shoal: ShoalServer, table: str) -> None:
    with psycopg.connect(shoal.dsn) as holder, psycopg.connect(shoal.dsn) as waiter:
        holder.execute("UPDATE clients SET b = 'held' WHERE a = 1")
        timer = threading.Timer(0.2, waiter.cancel)
        timer.start()
        with pytest.raises(errors.QueryCanceled):
            waiter.execute("UPDATE clients SET b = 'x' WHERE a = 1")
        timer.join()
        waiter.rollback()
        assert waiter.execute("SELECT 1").fetchone() == (1,)


def test_a_cancel_with_a_wrong_key_does_nothing(shoal: ShoalServer) -> None:
    with psycopg.connect(shoal.dsn, autocommit=True) as connection, psycopg.connect(shoal.dsn) as other:
        assert connection.info.backend_pid != other.info.backend_pid
        other.cancel()
        assert connection.execute("SELECT count(*) FROM generate_series(1, 100000)").fetchone() == (100_000,)


def test_a_copy_that_fails_midway_leaves_nothing(shoal: ShoalServer, table: str) -> None:
    rows = "".join(f"{number}\trow\n" for number in range(10, 50_010))
    for last in ("x\tbad\n", "10\tduplicate\n", "99999\n", "1\tthere already\n"):
        with psycopg.connect(shoal.dsn, autocommit=True) as connection:
            with pytest.raises(psycopg.Error), connection.cursor() as cursor:  # noqa: SIM117
                with cursor.copy("COPY clients FROM STDIN") as copy:
                    copy.write(rows + last)
            assert connection.execute("SELECT count(*) FROM clients").fetchone() == (2,)
            assert connection.execute("SELECT count(*) FROM clients WHERE a = 10").fetchone() == (0,)


def test_a_client_that_vanishes_mid_copy_leaves_nothing(shoal: ShoalServer, table: str) -> None:
    leaver = psycopg.connect(shoal.dsn, autocommit=True)
    result = leaver.pgconn.exec_(b"COPY clients FROM STDIN")
    assert result.status == psycopg.pq.ExecStatus.COPY_IN
    leaver.pgconn.put_copy_data(b"".join(b"%d\trow\n" % number for number in range(10, 20_010)))
    leaver.pgconn.flush()
    vanish(leaver)
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        connection.execute("SET lock_timeout = '10s'")
        with connection.transaction():
            connection.execute("LOCK TABLE clients")
            assert connection.execute("SELECT count(*) FROM clients").fetchone() == (2,)


def test_a_bulk_load_and_a_rollback(shoal: ShoalServer, table: str) -> None:
    rows = "".join(f"{number}\trow\n" for number in range(10, 30_010))
    with psycopg.connect(shoal.dsn) as connection:
        with connection.cursor() as cursor, cursor.copy("COPY clients FROM STDIN") as copy:
            copy.write(rows)
        assert connection.execute("SELECT count(*), sum(a) FROM clients").fetchone() == (
            30_002,
            3 + sum(range(10, 30_010)),
        )
        assert connection.execute("SELECT b FROM clients WHERE a = 12345").fetchone() == ("row",)
        connection.execute("UPDATE clients SET b = 'changed' WHERE a = 12345")
        assert connection.execute("SELECT count(*) FROM clients WHERE b = 'changed'").fetchone() == (1,)
        connection.rollback()
        assert connection.execute("SELECT count(*) FROM clients").fetchone() == (2,)
        connection.rollback()


def test_many_connections(shoal: ShoalServer, table: str) -> None:
    connections = [psycopg.connect(shoal.dsn, autocommit=True) for _ in range(200)]
    try:
        for number, connection in enumerate(connections):
            assert connection.execute("SELECT %s + a FROM clients WHERE a = 1", (number,)).fetchone() == (number + 1,)
    finally:
        for connection in connections:
            connection.close()


def test_big_values_go_both_ways(shoal: ShoalServer, table: str) -> None:
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        text = "äx" * 4_000_000
        connection.execute("INSERT INTO clients VALUES (3, %s)", (text,))
        assert connection.execute("SELECT b FROM clients WHERE a = 3").fetchone() == (text,)
        assert connection.execute("SELECT max(length(b)), count(*) FROM clients").fetchone() == (8_000_000, 3)


def test_a_slow_reader_holds_up_nobody(shoal: ShoalServer) -> None:
    with psycopg.connect(shoal.dsn) as slow, psycopg.connect(shoal.dsn, autocommit=True) as other:
        slow.pgconn.send_query(b"SELECT g, repeat('x', 100) FROM generate_series(1, 300000) g")
        slow.pgconn.flush()
        time.sleep(0.3)
        began = time.monotonic()
        assert other.execute("SELECT count(*) FROM generate_series(1, 100000)").fetchone() == (100_000,)
        assert other.execute("SELECT 1").fetchone() == (1,)
        assert time.monotonic() - began < 10
        rows = 0
        slow.pgconn.set_single_row_mode()
        while (result := slow.pgconn.get_result()) is not None:
            rows += result.ntuples
        assert rows == 300_000


def test_nesting_is_limited_not_fatal(shoal: ShoalServer) -> None:
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        for depth in (500, 5000, 50_000):
            query = "SELECT " + "(" * depth + "1" + ")" * depth
            with contextlib.suppress(errors.StatementTooComplex):
                assert connection.execute(query.encode()).fetchone() == (1,)
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_queries_within_one_another_are_limited(shoal: ShoalServer) -> None:
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        for before, after in (("(SELECT ", ")"), ("1 FROM (SELECT ", ") x"), ("EXISTS (SELECT 1 WHERE ", ")")):
            query = "SELECT " + before * 501 + "true" + after * 501
            with pytest.raises(errors.StatementTooComplex) as refused:
                connection.execute(query.encode())
            assert refused.value.diag.message_hint == "At most 500 queries can stand within one another."
            query = "SELECT " + before * 90 + "true" + after * 90
            assert connection.execute(query.encode()).fetchone() in ((True,), (1,))
        union = " UNION ALL ".join(["SELECT 1"] * 600)
        assert len(connection.execute(union.encode()).fetchall()) == 600


def test_a_long_in_list(shoal: ShoalServer, table: str) -> None:
    items = ", ".join(map(str, range(1, 50_001)))
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        found = connection.execute(f"SELECT count(*) FROM clients WHERE a IN ({items})".encode()).fetchone()
        assert found == (2,)
