"""The past of what lay in a tablespace that was dropped: read, and branched from, for as long as history reaches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.server import ShoalServer

QUERIES = (
    "SELECT * FROM t{0} WHERE id = 7",
    "SELECT count(*), sum(n), max(id) FROM t{0}",
    "SELECT t.n, h.n, o.n FROM t{0} JOIN h{0} USING (id) JOIN o{0} USING (id) WHERE t.id = 3",
    "SELECT id FROM t{0} WHERE n = 5 ORDER BY id LIMIT 3",
)


class Forgetful(ShoalServer):
    """Keeps nothing in memory, and its history for some seconds."""

    retention = 3600.0

    def command(self) -> list[str]:
        config = self.data.parent / "shoal.toml"
        config.write_text(f"past_window = 0.0\nhistory_retention = {self.retention}\n")
        return [*super().command(), "--config", str(config)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Forgetful]:
    with Forgetful(tmp_path / "data") as found:
        yield found


def connected(server: ShoalServer, database: str = "postgres") -> psycopg.Connection[Any]:
    return psycopg.connect(server.dsn.replace("dbname=postgres", f"dbname={database}"), autocommit=True)


def answers(connection: psycopg.Connection[Any], of: str = "") -> list[Any]:
    found = []
    for path in ("auto", "columnar"):
        connection.execute(f"SET shoal.path = {path}")
        found += [connection.execute(query.format(of)).fetchall() for query in QUERIES]
    return found


def live_and_drop(server: ShoalServer) -> dict[str, list[Any]]:
    """What was there at some times; then the tablespace of `t` is dropped."""
    recorded = {}
    with connected(server) as connection:
        for statement in (
            "CREATE TABLESPACE gone", "CREATE TABLESPACE other", "CREATE TABLE h (id int PRIMARY KEY, n int)",
            "CREATE TABLE t (id int PRIMARY KEY, n int) TABLESPACE gone", "CREATE INDEX ON t (n)",
            "CREATE TABLE o (id int PRIMARY KEY, n int) TABLESPACE other",
            *(f"INSERT INTO {name} SELECT i, i % 9 FROM generate_series(1, 3000) i" for name in ("t", "h", "o")),
        ):  # fmt: skip
            connection.execute(statement)
        for step in range(4):
            with connection.transaction():  # one commit over all of them
                for name in ("t", "h", "o"):
                    connection.execute(f"UPDATE {name} SET n = {10 + step} WHERE id % 4 = {step}")
            connection.execute(f"DELETE FROM t WHERE id % 50 = {step}")
            found = answers(connection)
            row = connection.execute("SELECT clock_timestamp()").fetchone()
            assert row is not None
            recorded[str(row[0])] = found
            if step == 1:
                connection.execute("CHECKPOINT")
        connection.execute("DROP TABLE t")
        connection.execute("DROP TABLESPACE gone")
        connection.execute("UPDATE h SET n = 0")
    return recorded


def test_it_is_read_and_branched_from(server: Forgetful) -> None:
    recorded = live_and_drop(server)
    for restarted in (False, True):
        with connected(server) as connection:
            for moment, expected in recorded.items():
                assert answers(connection, f" AS OF TIMESTAMP '{moment}'") == expected, (restarted, moment)
            assert connection.execute("SELECT count(*) FROM h WHERE n = 0").fetchone() == (3000,)
        if not restarted:
            server.kill()
            server.start()
    moment, expected = list(recorded.items())[2]
    with connected(server) as connection:
        notices: list[str] = []
        connection.add_notice_handler(lambda told: notices.append(told.message_primary or ""))
        connection.execute(f"CREATE DATABASE b FROM postgres AS OF TIMESTAMP '{moment}'")
        assert notices == ['there is no tablespace "gone" here: what lay in it comes to pg_default']
    with connected(server, "b") as connection:
        assert answers(connection) == expected
        connection.execute("UPDATE t SET n = 1")


def test_it_goes_when_history_does(server: Forgetful) -> None:
    moment = list(live_and_drop(server))[1]
    dropped = server.data / "dropped"
    assert len(list(dropped.iterdir())) == 1
    server.stop()
    server.retention = 2.0
    server.start()
    deadline = time.monotonic() + 60
    while list(dropped.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not list(dropped.iterdir())
    with connected(server) as connection:
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(f"SELECT * FROM t AS OF TIMESTAMP '{moment}'")
        assert caught.value.sqlstate == "72000"
    server.retention = 3600.0
    server.restart()
    with connected(server) as connection:
        assert connection.execute("SELECT count(*) FROM o").fetchone() == (3000,)
