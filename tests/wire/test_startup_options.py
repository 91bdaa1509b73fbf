"""The settings that a startup packet's `options` gives, beside PostgreSQL: '-' is '_' in a name, and itself in a
value."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

OPTIONS = (
    "--extra-float-digits=-3", "-c extra-float-digits=-3", "-cextra_float_digits=-3", "--application-name=a-b_c",
    "-c application_name=a-b", "--search-path=a-b,c-d", "-c search-path=a-b -c application-name=-x",
    "--log-min-duration-statement=-1", "--log_min_duration_statement=-1", "--my-own.set-ting=a-b", "-c my.own=-",
    "--application_name=a\\ -\\ b", "--statement-timeout=-5", "--no-such-thing=1", "--application-name", "-x",
)  # fmt: skip
SHOWN = (
    "extra_float_digits", "application_name", "search_path", "log_min_duration_statement", "my.own", "my_own.set_ting",
)  # fmt: skip


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[ShoalServer, PostgresServer]]:
    with ShoalServer() as shoal, PostgresServer() as postgres:
        yield shoal, postgres


def settings(server: ShoalServer | PostgresServer, options: str) -> object:
    try:
        with psycopg.connect(server.dsn, options=options) as connection:
            return [connection.execute("SELECT current_setting(%s, true)", (name,)).fetchone() for name in SHOWN]
    except psycopg.OperationalError as error:
        return str(error).rpartition("FATAL:")[2].strip().splitlines()[0][:24]


@pytest.mark.parametrize("options", OPTIONS)
def test_as_postgresql_reads_them(servers: tuple[ShoalServer, PostgresServer], options: str) -> None:
    ours, theirs = (settings(server, options) for server in servers)
    assert ours == theirs
