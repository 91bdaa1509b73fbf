"""What a transaction sees of commits that are sequenced and not durable yet, while the changelog writes nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.end_to_end.held_changelog import HoldingServer
from tests.end_to_end.test_synchronous_commit import Asked, connect

Client = psycopg.Connection[Any]


@pytest.fixture(scope="module", params=["one tablespace", "two tablespaces"])
def holding(request: pytest.FixtureRequest) -> Iterator[HoldingServer]:
    with HoldingServer() as server:
        if request.param == "two tablespaces":
            with connect(server) as connection:
                connection.execute("CREATE TABLESPACE second")
        yield server


@pytest.fixture
def clients(holding: HoldingServer, request: pytest.FixtureRequest) -> Iterator[tuple[Client, Client]]:
    """Two connections. Table t: (id, kind, v) = (1, 1, 'old'), with an index on kind."""
    with connect(holding) as one, connect(holding) as two:
        with contextlib.suppress(psycopg.errors.UndefinedTable):
            one.execute("DROP TABLE t")
        second = one.execute("SELECT 1 FROM pg_tablespace WHERE spcname = 'second'").fetchone()
        one.execute(f"CREATE TABLE t (id int PRIMARY KEY, kind int, v text) {'TABLESPACE second' if second else ''}")
        one.execute("CREATE INDEX ON t (kind)")
        one.execute("INSERT INTO t VALUES (1, 1, 'old')")
        yield one, two
        holding.release()


def test_what_was_seen_once_does_not_go_away(holding: HoldingServer, clients: tuple[Client, Client]) -> None:
    one, two = clients
    holding.hold()
    first = Asked(one, "UPDATE t SET v = 'new' WHERE id = 1")
    assert first.waits()
    two.execute("BEGIN")
    assert two.execute("SELECT v FROM t WHERE id = 1").fetchall() == [("old",)]
    assert two.execute("SELECT v FROM t WHERE id = 1 FOR UPDATE").fetchall() == [("new",)]
    assert two.execute("SELECT v FROM t WHERE id = 1").fetchall() == [("new",)]
    assert two.execute("SELECT v FROM t WHERE kind = 1").fetchall() == [("new",)]
    commit = Asked(two, "COMMIT")  # it has told its client of what the other one has not been told yet
    assert commit.waits()
    holding.release()
    commit.answer()
    first.answer()


def test_own_changes_of_new_rows_are_found_by_indexes(holding: HoldingServer, clients: tuple[Client, Client]) -> None:
    one, two = clients
    holding.hold()
    first = Asked(one, "INSERT INTO t VALUES (2, 7, 'a')")
    assert first.waits()
    two.execute("BEGIN")
    assert two.execute("UPDATE t SET v = v || 'b' WHERE id = 2").rowcount == 0  # nothing was locked: not seen yet
    two.execute("INSERT INTO t VALUES (2, 7, 'b') ON CONFLICT (id) DO UPDATE SET v = t.v || excluded.v")
    assert two.execute("SELECT v FROM t WHERE kind = 7").fetchall() == [("ab",)]
    two.execute("SET LOCAL shoal.path = columnar")
    columnar = Asked(two, "SELECT kind, max(v) FROM t WHERE kind = 7 GROUP BY kind")
    assert columnar.waits()
    holding.release()
    assert columnar.answer() == [(b"7", b"ab")]
    two.execute("COMMIT")
    first.answer()


def test_an_error_is_told_when_its_reason_can_be_seen(holding: HoldingServer, clients: tuple[Client, Client]) -> None:
    one, two = clients
    holding.hold()
    first = Asked(one, "INSERT INTO t VALUES (2, 7, 'a')")
    assert first.waits()
    duplicate = Asked(two, "INSERT INTO t VALUES (2, 7, 'b')")
    nothing = connect(holding)
    skipped = Asked(nothing, "INSERT INTO t VALUES (2, 7, 'b') ON CONFLICT DO NOTHING")
    assert duplicate.waits() and skipped.waits()
    holding.release()
    with pytest.raises(psycopg.OperationalError, match="duplicate key"):
        duplicate.answer()
    assert two.execute("SELECT v FROM t WHERE id = 2").fetchall() == [("a",)]
    skipped.answer()
    assert nothing.execute("SELECT v FROM t WHERE id = 2").fetchall() == [("a",)]
    nothing.close()
    first.answer()


def test_serializable_remembers_what_is_not_durable(holding: HoldingServer, clients: tuple[Client, Client]) -> None:
    """A reads x and writes y; then, while that is not durable, nobody else being there, B reads y and writes x."""
    one, two = clients
    one.execute("INSERT INTO t VALUES (2, 2, 'old')")
    holding.hold()
    one.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
    one.execute("SELECT v FROM t WHERE id = 1").fetchall()
    one.execute("UPDATE t SET v = 'new' WHERE id = 2")
    first = Asked(one, "COMMIT")
    assert first.waits()
    two.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
    assert two.execute("SELECT v FROM t WHERE id = 2").fetchall() == [("old",)]
    with pytest.raises(psycopg.errors.SerializationFailure):
        two.execute("UPDATE t SET v = 'new' WHERE id = 1")
        second = Asked(two, "COMMIT")
        holding.release()
        second.answer()
    holding.release()
    first.answer()
