"""The process that reads long JSON for a statement ends with it, however the value comes and however it is ended."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from itertools import product

import psutil  # type: ignore[import-untyped]
import psycopg
import pytest

from tests.samples import some
from tests.server import ShoalServer

JSON = "[" + "[1, 2], " * 6_000_000 + "1]"
GONE = 1.0  # seconds after which nothing of it runs


def by_copy(connection: psycopg.Connection) -> None:
    with connection.cursor().copy("COPY beside FROM STDIN") as copy:
        for start in range(0, len(JSON), 1 << 20):
            copy.write(JSON[start : start + (1 << 20)])


def by_bind(connection: psycopg.Connection) -> None:
    connection.execute("INSERT INTO beside VALUES (%s::jsonb)", (JSON,))


def by_literal(connection: psycopg.Connection) -> None:
    connection.execute(f"INSERT INTO beside VALUES ('{JSON}')".encode())


@pytest.fixture(scope="module")
def server() -> Iterator[ShoalServer]:
    with ShoalServer() as own:
        with psycopg.connect(own.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE beside (x jsonb)")
        yield own


def readers(server: ShoalServer) -> list[psutil.Process]:
    found = []
    for process in psutil.Process(server.pid).children():
        with contextlib.suppress(psutil.Error):
            if "catalog.types.beside" in process.cmdline():
                found.append(process)
    return found


def until(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < end:
        time.sleep(0.01)
    return met


@pytest.mark.parametrize(
    ("give", "end"),
    some(
        product((by_copy, by_bind, by_literal), ("pg_cancel_backend", "pg_terminate_backend", "statement_timeout")), 4
    ),
)
def test_it_ends_with_its_statement(server: ShoalServer, give: Callable[[psycopg.Connection], None], end: str) -> None:
    states: list[str | None] = []
    with (
        psycopg.connect(server.dsn, autocommit=True) as connection,
        psycopg.connect(server.dsn, autocommit=True) as other,
    ):
        backend = connection.info.backend_pid

        def run() -> None:
            try:
                give(connection)
            except psycopg.Error as error:
                states.append(error.sqlstate)

        connection.execute("SET query_memory_limit = 0")  # a fast machine would meet it before the end
        if end == "statement_timeout":
            connection.execute("SET statement_timeout = '3s'")
        thread = threading.Thread(target=run)
        thread.start()
        assert until(lambda: bool(readers(server)) or not thread.is_alive(), 60)
        found = readers(server)
        if end != "statement_timeout":
            assert found
            other.execute(f"SELECT {end}(%s)".encode(), (backend,))
        thread.join(60)
        assert states == ["57P01" if end == "pg_terminate_backend" else "57014"]
        before = sum(map(worked, found))
        assert until(lambda: not readers(server), 30)
        assert sum(map(worked, found)) - before < GONE


def worked(process: psutil.Process) -> float:
    """Seconds of processor; 0 where it has gone."""
    with contextlib.suppress(psutil.Error):
        return float(sum(process.cpu_times()[:2]))
    return 0.0


def test_it_has_the_memory_of_its_statement(server: ShoalServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("SET query_memory_limit = '128MB'")
        for give in (by_copy, by_bind, by_literal):
            with pytest.raises(psycopg.errors.OutOfMemory):
                give(connection)
        connection.execute("SELECT 1")
