"""PREPARE TRANSACTION and what ends it, as in PostgreSQL, and over the end of the server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.engine.session.conftest import Pair
from tests.server import ShoalServer

SHOWN = "select gid, owner, database from pg_prepared_xacts order by gid"


@pytest.fixture(autouse=True)
def nothing_stays_prepared(pair: Pair) -> Iterator[None]:
    """Its locks would keep the tables from being dropped."""
    yield
    for connection in (pair.shoal, pair.postgres):
        connection.rollback()
        for (identifier,) in rows(connection, "select gid from pg_prepared_xacts"):
            connection.execute(f"rollback prepared '{identifier}'".encode())


def test_what_is_prepared_is_seen_when_it_is_committed(pair: Pair) -> None:
    pair.run("create table t (id int primary key, v text)", "insert into t values (1, 'a'), (2, 'b')")
    pair.run(
        "begin", "update t set v = 'c' where id = 1", "insert into t values (3, 'd')", "delete from t where id = 2"
    )
    pair.same("prepare transaction 'one'", "select * from t order by id", SHOWN)
    pair.same("commit prepared 'one'", "select * from t order by id", SHOWN)


def test_what_is_rolled_back_leaves_nothing(pair: Pair) -> None:
    pair.run("create table t (id int primary key)", "begin", "insert into t values (1)")
    pair.same("prepare transaction 'one'", "rollback prepared 'one'", "select * from t", SHOWN)
    pair.same("insert into t values (1)", "begin", "prepare transaction 'empty'", "commit prepared 'empty'")


def test_errors_are_those_of_postgresql(pair: Pair) -> None:
    pair.run("create table t (id int primary key)", "begin", "insert into t values (1)", "prepare transaction 'one'")
    pair.same(
        "commit prepared 'two'", "rollback prepared 'two'", "prepare transaction 'no block'", "begin",
        "commit prepared 'one'", "rollback", "begin", "prepare transaction 'one'", "select 1", "begin",
        f"prepare transaction '{'x' * 200}'", "begin", "select 1 / 0", "prepare transaction 'failed'", "begin",
        "listen a", "prepare transaction 'listens'", "begin",
        "declare c cursor with hold for select 1", "prepare transaction 'holds'", "create temp table tt (a int)",
        "begin", "insert into tt values (1)", "prepare transaction 'temporary'", "drop table tt", SHOWN,
        "create role finisher", "set role finisher", "commit prepared 'one'", "reset role", "drop role finisher",
        "rollback prepared 'one'",
    )  # fmt: skip


def test_deferred_constraints_are_checked_when_it_is_prepared(pair: Pair) -> None:
    pair.run(
        "create table p (id int primary key)",
        "create table c (id int references p deferrable initially deferred)",
        "begin",
        "insert into c values (1)",
    )
    pair.same("prepare transaction 'orphan'", "select * from c", SHOWN)


def test_a_schema_change_is_refused(shoal: ShoalServer) -> None:
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        connection.execute("begin")
        connection.execute("create table two_phase (a int)")
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            connection.execute("prepare transaction 'refused'")
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_it_survives_the_server_with_its_writes_and_its_locks(private_shoal: ShoalServer) -> None:
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        for sql in (
            "create table t (id int primary key, v text)", "create table nokey (v text)",
            "insert into t values (1, 'a'), (2, 'b')", "insert into nokey values ('first')",
            "begin", "update t set v = 'changed' where id = 1", "select * from t where id = 2 for share",
            "insert into nokey values ('prepared')", "copy_in", "prepare transaction 'kept'",
        ):  # fmt: skip
            if sql == "copy_in":
                with connection.cursor().copy("copy t from stdin") as copy:
                    copy.write("".join(f"{number}\tbulk\n" for number in range(10, 5010)))
            else:
                connection.execute(sql.encode())
    private_shoal.kill()
    private_shoal.start()
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        assert rows(connection, SHOWN) == [("kept", "postgres", "postgres")]
        assert rows(connection, "select * from t order by id") == [(1, "a"), (2, "b")]
        assert locked(connection, "update t set v = 'x' where id = 1")
        assert locked(connection, "update t set v = 'x' where id = 2")
        assert locked(connection, "alter table t add column w int")
        rows(connection, "select * from t where id = 2 for share nowait")
        connection.execute("insert into nokey values ('after')")
        connection.execute("commit prepared 'kept'")
        assert rows(connection, "select count(*), min(v) from t where id >= 10") == [(5000, "bulk")]
        assert rows(connection, "select v from t where id = 1") == [("changed",)]
        assert rows(connection, "select v from nokey order by v") == [("after",), ("first",), ("prepared",)]
        connection.execute("update t set v = 'x' where id = 2")
    private_shoal.restart()
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        assert rows(connection, SHOWN) == []
        assert rows(connection, "select v from t where id in (1, 2) order by id") == [("changed",), ("x",)]


def rows(connection: psycopg.Connection[Any], sql: str) -> list[tuple[Any, ...]]:
    return connection.execute(sql.encode()).fetchall()


def locked(connection: psycopg.Connection[Any], sql: str) -> bool:
    connection.execute("set lock_timeout = '50ms'")
    try:
        connection.execute(sql.encode())
    except psycopg.errors.LockNotAvailable:
        return True
    finally:
        connection.execute("reset lock_timeout")
    return False
