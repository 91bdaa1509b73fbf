"""Sessions that are canceled and terminated, by themselves and by others, on Shoal and on PostgreSQL."""

from __future__ import annotations

import concurrent.futures
import time

import psycopg
import pytest
from psycopg import errors

from tests.oracle import PostgresServer
from tests.server import ShoalServer

Connection = psycopg.Connection[tuple[object, ...]]
PATIENCE = 20.0  # seconds


def ends(connection: Connection) -> bool:
    """Whether the server has closed it."""
    try:
        connection.execute("SELECT 1")
    except psycopg.OperationalError:
        return True
    return False


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELECT pg_terminate_backend(pg_backend_pid())", None),
        ("SELECT pg_terminate_backend(pg_backend_pid()) WHERE %s", (True,)),
        ("BEGIN; SELECT pg_terminate_backend(pg_backend_pid())", None),
    ],
)
def test_a_session_that_terminates_itself(
    server: ShoalServer | PostgresServer, sql: str, parameters: tuple[bool] | None
) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        with pytest.raises(errors.AdminShutdown):
            connection.execute(sql.encode(), parameters)
        assert ends(connection)


def test_a_session_that_cancels_itself_goes_on(server: ShoalServer | PostgresServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        with pytest.raises(errors.QueryCanceled):
            connection.execute("SELECT pg_cancel_backend(pg_backend_pid())")
        assert not ends(connection)


@pytest.mark.parametrize("parameters", [None, (20,)])
def test_a_statement_whose_session_is_terminated(
    server: ShoalServer | PostgresServer, parameters: tuple[int] | None
) -> None:
    sql = "SELECT pg_sleep(20)" if parameters is None else "SELECT pg_sleep(%s)"
    with (
        psycopg.connect(server.dsn, autocommit=True) as connection,
        psycopg.connect(server.dsn, autocommit=True) as other,
        concurrent.futures.ThreadPoolExecutor(1) as thread,
    ):
        future = thread.submit(connection.execute, sql.encode(), parameters)
        running = "SELECT FROM pg_stat_activity WHERE pid = %s AND query LIKE 'SELECT pg_sleep%%' AND state = 'active'"
        deadline = time.monotonic() + PATIENCE
        while other.execute(running, (connection.info.backend_pid,)).fetchone() is None:
            assert time.monotonic() < deadline
        other.execute("SELECT pg_terminate_backend(%s)", (connection.info.backend_pid,))
        with pytest.raises(errors.AdminShutdown):
            future.result(PATIENCE)
        assert ends(connection)
