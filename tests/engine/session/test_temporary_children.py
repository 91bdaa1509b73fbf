"""Temporary tables that inherit from a table that all sessions share: others reach their rows neither by the parent nor
by a view of it."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

Sessions = tuple[psycopg.Connection, psycopg.Connection]


@pytest.fixture(params=["auto", "columnar"])
def sessions(server: ShoalServer | PostgresServer, request: pytest.FixtureRequest) -> Iterator[Sessions]:
    """Two sessions, each with temporary children of `parent` that hold rows."""
    first, second = (psycopg.connect(server.dsn, autocommit=True) for _ in range(2))
    with first, second:
        first.execute("drop schema if exists shared cascade")
        first.execute("create schema shared")
        first.execute("create table shared.parent (a int, b text)")
        first.execute("create table shared.child () inherits (shared.parent)")
        first.execute("create view shared.view as select * from shared.parent where a > 0")
        first.execute("insert into shared.parent values (1, 'parent')")
        first.execute("insert into shared.child values (2, 'child')")
        for number, session in ((3, first), (4, second)):
            if isinstance(server, ShoalServer):
                session.execute(f"set shoal.path = {request.param}".encode())
            session.execute("set search_path = shared")
            session.execute("create temp table below (c int) inherits (parent)")
            session.execute("create temp table further () inherits (below)")
            session.execute("create index on below (a)")
            session.execute(f"insert into below values ({number}, 'below')".encode())
            session.execute(f"insert into further values ({number + 10}, 'further')".encode())
        yield first, second
        first.execute("drop schema shared cascade")


def numbers(session: psycopg.Connection, sql: str) -> list[int]:
    return sorted(row[0] for row in session.execute(sql.encode()))


@pytest.mark.parametrize("name", ["parent", "view"])
def test_reading(sessions: Sessions, name: str) -> None:
    first, second = sessions
    for session, own in ((first, [3, 13]), (second, [4, 14])):
        assert numbers(session, f"select a from {name}") == [1, 2, *own]
        assert numbers(session, f"select a from {name} where a in (2, 3, 4)") == [2, *own[:1]]
        assert numbers(session, f"select count(*) from {name}") == [4]


@pytest.mark.parametrize("name", ["parent", "view"])
@pytest.mark.parametrize("change", ["update {} set a = a + 100", "delete from {}", "update {} set b = 'x' where a = 4"])
def test_changes(sessions: Sessions, name: str, change: str) -> None:
    first, second = sessions
    expected = {"update {} set a = a + 100": 4, "delete from {}": 4}.get(change, 0)
    assert first.execute(change.format(name).encode()).rowcount == expected
    assert numbers(second, "select a from below") == [4, 14]
    assert numbers(second, "select a from below where a = 4") == [4]
    assert numbers(second, "select a from below where b = 'x'") == []


def test_truncate(sessions: Sessions) -> None:
    first, second = sessions
    first.execute("truncate parent")
    assert numbers(first, "select a from parent") == []
    assert numbers(second, "select a from parent") == [4, 14]


def test_no_session_waits_for_temporary_rows_of_another(sessions: Sessions) -> None:
    first, second = sessions
    with second.transaction():
        second.execute("update below set a = a")
        first.execute("set statement_timeout = '5s'")
        assert first.execute("update parent set b = b").rowcount == 4
        first.execute("reset statement_timeout")


def test_schema_changes(sessions: Sessions) -> None:
    first, second = sessions
    for change in ("add column d int default 7", "add check (a < 1000)", "drop column b cascade"):
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="cannot alter temporary tables of other sessions"):
            first.execute(f"alter table parent {change}".encode())
    first.execute("alter table parent set (fillfactor = 90)")
    assert numbers(second, "select a from parent") == [1, 2, 4, 14]


def test_sessions_without_temporary_tables(server: ShoalServer | PostgresServer, sessions: Sessions) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as third:
        for _ in range(3):
            assert numbers(third, "select a from shared.parent") == [1, 2]
            assert third.execute("update shared.parent set b = b where a = 3").rowcount == 0
