"""Helper processes that fail at any step: the statement that meets it ends in time, the next one is answered, others go
on meanwhile, and the server stops in good order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from tests.end_to_end import faulty_helpers
from tests.samples import some
from tests.server import ShoalServer

TIMEOUT = 2.0  # seconds
LATE = 20.0  # on a busy machine
WITHIN = 90.0  # with a start of another helper, and what is waited for
JSON = "[" + ", ".join(f'{{"a": {n}}}' for n in range(300_000)) + "]"  # read by a process of its own
ROWS = 25_000  # written by a process of their own
CASES = [
    *(("worker", step, fault) for step in ("load", "running") for fault in ("kill", "stop", "wait", "hold")),
    *(("reader", step, fault) for step in faulty_helpers.STEPS[faulty_helpers.READER] for fault in ("kill", "stop")),
    *(("writer", step, fault) for step in faulty_helpers.STEPS[faulty_helpers.WRITER] for fault in ("kill", "stop")),
    ("reader", "reader-reads", "slow"),
    ("writer", "writer-commits", "slow"),
]
"""Every step of the worker: tests/engine/columnar/test_faults.py."""

ENDS = {"worker": ("57014", "57P02"), "reader": ("57014", "53200"), "writer": ("57014",)}
"""How a statement may end that has met a fault of these, if it does not give its result."""


class FaultyServer(ShoalServer):
    """`wanted`: the file that asks for a fault."""

    @property
    def wanted(self) -> Path:
        return self.data.parent / "wanted"

    def command(self) -> list[str]:
        python, _, _, *arguments = super().command()
        return [python, "-m", faulty_helpers.MODULE, str(self.wanted), *arguments]


@pytest.fixture(scope="module")
def server() -> Iterator[FaultyServer]:
    with FaultyServer() as own:
        yield own
        own.kill()  # what is left to be written need not be


def worker(connection: psycopg.Connection) -> object:
    """A table that the worker does not have yet."""
    connection.execute("DROP TABLE IF EXISTS read")
    connection.execute("CREATE TABLE read AS SELECT n, n % 7 AS g FROM generate_series(1, 2000) AS n")
    found = connection.execute("SELECT g, count(*), sum(sum(n)) OVER () FROM read GROUP BY g ORDER BY g").fetchall()
    assert [(g, total) for g, _, total in found] == [(g, 2_001_000) for g in range(7)]
    return None


def reader(connection: psycopg.Connection) -> object:
    assert connection.execute("SELECT length(%s::jsonb::text)", (JSON,)).fetchone() == (len(JSON),)
    return None


def writer(connection: psycopg.Connection) -> object:
    """The worker loads what is in LMDB, so a bulk load is flushed first."""
    connection.execute("DROP TABLE IF EXISTS written")
    connection.execute("CREATE TABLE written (n int PRIMARY KEY)")
    with connection.cursor().copy("COPY written FROM STDIN") as copy:
        copy.write("\n".join(map(str, range(ROWS))))
    assert connection.execute("SELECT sum(n) FROM written WHERE n % 2 = 0").fetchone() == (156_237_500,)
    return None


STATEMENTS: dict[str, Callable[[psycopg.Connection], object]] = {"worker": worker, "reader": reader, "writer": writer}


def ended(connection: psycopg.Connection, run: Callable[[psycopg.Connection], object]) -> str | None:
    """How: an SQLSTATE, None for a result. Each of its statements has the timeout."""
    try:
        run(connection)
    except psycopg.Error as error:
        return error.sqlstate
    return None


@pytest.mark.parametrize(("helper", "step", "fault"), some(CASES, 6))
def test_a_statement_ends_and_the_next_one_is_answered(
    server: FaultyServer, helper: str, step: str, fault: str
) -> None:
    run = STATEMENTS[helper]
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        run(connection)
        connection.execute(f"SET statement_timeout = {int(TIMEOUT * 1000)}".encode())
        server.wanted.write_text(f"{step} {fault}")
        while server.wanted.exists():
            began = time.monotonic()
            assert ended(connection, run) in (None, *ENDS[helper])
            assert time.monotonic() - began < 4 * TIMEOUT + LATE  # it has some statements
        with psycopg.connect(server.dsn, autocommit=True) as other:
            assert other.execute("SELECT 1").fetchone() == (1,)
        connection.execute("SET statement_timeout = 0")
        began = time.monotonic()
        run(connection)
        assert time.monotonic() - began < WITHIN


@pytest.mark.parametrize("step", ["query", "writer-puts"])
def test_a_server_whose_helper_was_stopped_stops(step: str) -> None:
    helper = "writer" if step.startswith("writer") else "worker"
    with FaultyServer() as own:
        with psycopg.connect(own.dsn, autocommit=True) as connection:
            connection.execute(f"SET statement_timeout = {int(TIMEOUT * 1000)}".encode())
            own.wanted.write_text(f"{step} stop")
            while own.wanted.exists():
                ended(connection, STATEMENTS[helper])
        assert own.stop() == 0
