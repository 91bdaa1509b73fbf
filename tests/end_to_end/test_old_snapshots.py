"""What is kept in memory for snapshots that stay open has a limit: `memory`."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psycopg
import pytest

from tests.samples import some
from tests.server import ShoalServer

LIMIT = 48 << 20


@pytest.fixture(params=some(["5", "0"], 2), ids=["past", "no past"])
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ShoalServer]:
    monkeypatch.setitem(os.environ, "SHOAL_MEMORY", str(LIMIT))
    monkeypatch.setitem(os.environ, "SHOAL_PAST_WINDOW", request.param)
    with ShoalServer() as server:
        yield server


def test_the_oldest_snapshot_goes_when_it_keeps_too_much(server: ShoalServer) -> None:
    with (
        psycopg.connect(server.dsn, autocommit=True) as writer,
        psycopg.connect(server.dsn) as old,
        psycopg.connect(server.dsn) as young,
    ):
        writer.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
        for connection in (old, young):
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        assert old.execute("SELECT count(*) FROM t WHERE id = 1").fetchone() == (0,)
        for number in range(60):  # of 4 MB, each time other rows
            if number == 57:
                assert young.execute("SELECT count(*) FROM t WHERE id = 1").fetchone() == (1,)
            for row in range(4):
                writer.execute("INSERT INTO t VALUES (%s, repeat('x', 1000000))", [number * 4 + row])
            if number % 8 == 7:
                writer.execute("CHECKPOINT")
        with pytest.raises(psycopg.OperationalError) as caught:
            for _ in range(200):
                old.execute("SELECT pg_sleep(0.05)")
        assert caught.value.sqlstate in ("53200", None)
        assert "is ended" in server.log.read_text()
        assert writer.execute("SELECT count(*) FROM t").fetchone() == (240,)
        assert young.execute("SELECT count(*) FROM t WHERE id = 1").fetchone() == (1,)
