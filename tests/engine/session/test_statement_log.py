"""What a server's log says of statements and connections, and what it never says."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.server import ShoalServer


class LoggingServer(ShoalServer):
    """Its log is JSON."""

    def command(self) -> list[str]:
        return [*super().command(), "--log-format", "json"]

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.fixture(scope="module")
def server() -> Iterator[LoggingServer]:
    with LoggingServer() as running:
        yield running


@pytest.fixture
def shoal(server: LoggingServer) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.dsn, autocommit=True, application_name="tests") as connection:
        yield connection


def _fails(connection: psycopg.Connection, sql: str, parameters: tuple[object, ...] = ()) -> None:
    with pytest.raises(psycopg.Error):
        connection.execute(sql.encode(), parameters or None)


def _new(server: LoggingServer, before: int) -> list[dict[str, Any]]:
    return server.lines()[before:]


def test_an_error_is_logged_with_its_statement_and_session(server: LoggingServer, shoal: psycopg.Connection) -> None:
    before = len(server.lines())
    _fails(shoal, "SELECT relname FROM nowhere WHERE a = 5")
    (line,) = _new(server, before)
    assert line["level"] == "error" and line["logger"] == "shoal.statement" and line["node"] == "local"
    assert line["message"] == 'relation "nowhere" does not exist' and line["sqlstate"] == "42P01"
    assert line["statement"] == "SELECT relname FROM nowhere WHERE a = $1"
    assert line["session"] == shoal.info.backend_pid and line["user"] == line["database"] == "postgres"
    assert line["application"] == "tests" and line["client"].startswith("127.0.0.1:")
    assert len(line["trace_id"]) == 32 and line["time"].endswith("Z")


def test_no_value_gets_into_the_log(server: LoggingServer, shoal: psycopg.Connection) -> None:
    before = len(server.lines())
    shoal.execute("SET log_min_duration_statement = 0")
    _fails(shoal, "SELECT 'hidden-1'::int")
    _fails(shoal, "SELECT %s::int", ("hidden-2",))
    _fails(shoal, "SELEC 'hidden-3'")
    _fails(shoal, "SELECT 'hidden-4")
    shoal.execute("CREATE ROLE logged PASSWORD 'hidden-5'")
    shoal.execute("SET my.secret = 'hidden-6'")
    shoal.execute("PREPARE p AS SELECT $1::text, 'hidden-7'")
    shoal.execute("EXECUTE p('hidden-8')")
    shoal.execute("CREATE TABLE kept (a text PRIMARY KEY)")
    shoal.execute("INSERT INTO kept VALUES ('hidden-9')")
    _fails(shoal, "INSERT INTO kept VALUES ('hidden-9')")
    shoal.execute("EXPLAIN SELECT * FROM kept WHERE a = 'hidden-10'")
    shoal.execute("DROP ROLE logged")
    lines = _new(server, before)
    assert len(lines) >= 13
    assert "hidden" not in json.dumps(lines)
    assert any(line.get("statement") == "INSERT INTO kept VALUES ($1)" for line in lines)


def test_statements_that_take_long_are_logged(server: LoggingServer, shoal: psycopg.Connection) -> None:
    shoal.execute("SET log_min_duration_statement = '50ms'")
    before = len(server.lines())
    shoal.execute("SELECT 1")
    shoal.execute("SELECT 'slow', pg_sleep(0.06)")
    (line,) = _new(server, before)
    assert line["level"] == "info" and line["statement"] == "SELECT $1, pg_sleep($2)"
    assert 60 <= line["duration_ms"] < 10_000


def test_a_wait_for_a_lock_makes_a_statement_long(server: LoggingServer, shoal: psycopg.Connection) -> None:
    shoal.execute("CREATE TABLE held (a int PRIMARY KEY, b int)")
    shoal.execute("INSERT INTO held VALUES (1, 1)")
    shoal.execute("SET log_min_duration_statement = '50ms'")
    before = len(server.lines())
    with psycopg.connect(server.dsn) as holder:
        holder.execute("UPDATE held SET b = 2")
        thread = threading.Thread(target=shoal.execute, args=("UPDATE held SET b = b + 1 WHERE a = 1",))
        thread.start()
        time.sleep(0.1)
        holder.commit()
        thread.join(20)
    assert [line["statement"] for line in _new(server, before)] == ["UPDATE held SET b = b + $1 WHERE a = $2"]


def test_a_trace_id_comes_from_the_client(server: LoggingServer, shoal: psycopg.Connection) -> None:
    before = len(server.lines())
    trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    _fails(shoal, f"SELECT 1 / 0 /*route='%2Fx',traceparent='00-{trace}-{span}-01'*/")
    shoal.execute(f"SET application_name = '00-{span}{span}-{span}-00'")
    _fails(shoal, "SELECT 2 / 0")
    first, second = _new(server, before)
    assert (first["trace_id"], first["span_id"]) == (trace, span)
    assert second["trace_id"] == span + span


def test_connections_are_logged_where_that_is_said(server: LoggingServer, shoal: psycopg.Connection) -> None:
    shoal.execute("CREATE ROLE seen LOGIN")
    shoal.execute("ALTER ROLE seen SET log_connections = on")
    shoal.execute("ALTER ROLE seen SET log_disconnections = on")
    before = len(server.lines())
    dsn = server.dsn.replace("user=postgres", "user=seen")
    with psycopg.connect(dsn) as connection:
        pid = connection.info.backend_pid
    deadline = time.monotonic() + 20
    while len(found := _new(server, before)) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [(line["message"], line["session"], line["user"]) for line in found] == [
        ("connection authorized", pid, "seen"),
        ("disconnected", pid, "seen"),
    ]


def test_only_superusers_decide_what_is_logged(server: LoggingServer, shoal: psycopg.Connection) -> None:
    shoal.execute("CREATE ROLE plain LOGIN")
    dsn = server.dsn.replace("user=postgres", "user=plain")
    with psycopg.connect(dsn, autocommit=True) as connection:
        for sql in ("SET log_min_messages = panic", "SELECT set_config('log_min_duration_statement', '0', false)"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied to set parameter"):
                connection.execute(sql)
    with pytest.raises(psycopg.OperationalError, match="permission denied to set parameter"):
        psycopg.connect(dsn, options="-c log_connections=on")


def test_log_min_messages_silences_errors(server: LoggingServer, shoal: psycopg.Connection) -> None:
    shoal.execute("SET log_min_error_statement = panic")
    before = len(server.lines())
    _fails(shoal, "SELECT 1 / 0")
    shoal.execute("SET log_min_messages = panic")
    _fails(shoal, "SELECT 1 / 0")
    (line,) = _new(server, before)
    assert line["sqlstate"] == "22012" and "statement" not in line
