"""DROP DATABASE while others are connected: it waits for those that leave, and ends the others if it is told to."""

from __future__ import annotations

import threading

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.samples import some
from tests.server import ShoalServer

NAME = "dropped"


def _prepared(server: ShoalServer | PostgresServer) -> tuple[psycopg.Connection, str]:
    connection = psycopg.connect(server.dsn, autocommit=True)
    connection.execute(f"DROP DATABASE IF EXISTS {NAME} WITH (FORCE)")
    connection.execute(f"CREATE DATABASE {NAME}")
    return connection, server.dsn.replace("dbname=postgres", f"dbname={NAME}")


def test_it_waits_for_a_session_that_leaves(server: ShoalServer | PostgresServer) -> None:
    connection, dsn = _prepared(server)
    with connection:
        other = psycopg.connect(dsn)
        leaving = threading.Timer(0.3, other.close)
        leaving.start()
        connection.execute(f"DROP DATABASE {NAME}")
        leaving.join()


def test_force_ends_the_sessions_that_stay(server: ShoalServer | PostgresServer) -> None:
    connection, dsn = _prepared(server)
    with connection:
        other = psycopg.connect(dsn, autocommit=True)
        connection.execute(f"DROP DATABASE {NAME} WITH (FORCE)")
        with pytest.raises(psycopg.OperationalError) as caught:
            other.execute("SELECT 1")
        assert caught.value.sqlstate == "57P01"


# PostgreSQL waits for five seconds, and so does Shoal.
@pytest.mark.parametrize("server", some(["shoal", "postgres"], 2), indirect=True)
def test_it_is_refused_while_a_session_is_connected(server: ShoalServer | PostgresServer) -> None:
    connection, dsn = _prepared(server)
    with connection, psycopg.connect(dsn), pytest.raises(psycopg.errors.ObjectInUse):
        connection.execute(f"DROP DATABASE {NAME}")
