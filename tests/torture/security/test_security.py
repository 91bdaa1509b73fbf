"""Fuzzed frames and attempts to escape, in short; and servers that the checks must not be content with."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer
from tests.torture.planted import FAULTS
from tests.torture.security import fuzz
from tests.torture.security.escapes import attempt
from tests.torture.security.trials import planted

CASES = 300


def test_fuzzed_frames_end_in_good_order(shoal: ShoalServer) -> None:
    problems = [problem for number in range(CASES) if (problem := fuzz.attempt(shoal.dsn, fuzz.made(number)))]
    assert not problems
    assert not fuzz.alive(shoal.dsn)


@contextmanager
def answering(answer: bytes | None) -> Iterator[str]:
    """A server that answers everything with the same bytes, or with silence."""
    over = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection:
            if answer is None:
                over.wait(10)
            else:
                connection.sendall(answer)
                while connection.recv(1 << 16):
                    pass

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            connection, _ = listener.accept()
            serve(connection)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"host=127.0.0.1 port={listener.getsockname()[1]}"
        over.set()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"E\0\0\0\x0cCXX000\0\0", "a defect"),
        (b"Z\0\0\0\x05I\xff\0\0\0\x05I", "no message"),
        (b"T\0\0\0\x02", "no message"),
        (None, "no end after"),
    ],
)
def test_faults_of_a_server_are_noticed(answer: bytes | None, expected: str) -> None:
    with answering(answer) as dsn:
        assert expected in fuzz.attempt(dsn, fuzz.made(3), 0.5)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_server_is_noticed(fault: str) -> None:
    assert planted(fault, 7)


def test_no_statement_gets_at_the_machine(shoal: ShoalServer) -> None:
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE ROLE ordinary")
        try:
            for role, path in itertools.product(("ordinary", "postgres"), ("auto", "columnar")):
                _, succeeded = attempt(shoal.dsn, role, path)
                assert succeeded == [], (role, path)
        finally:
            connection.execute("DROP ROLE ordinary")


def test_a_server_that_can_be_attacked_is_found(postgres_server: PostgresServer) -> None:
    """PostgreSQL lets its superuser read and write files, and run programs."""
    _, succeeded = attempt(postgres_server.dsn, "postgres", "auto")
    assert any("pg_read_file" in text and "the secret" in text for text in succeeded)
    assert any("COPY stolen TO" in text and "wrote" in text for text in succeeded)
