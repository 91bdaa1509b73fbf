"""Prepared statements after the schema has changed: one session plans them again, for all that have the same plan."""

from __future__ import annotations

import gc
import pathlib
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

import shoal
from engine.statements import planning

Connect = Callable[[], psycopg.Connection[Any]]
SQL = "SELECT b FROM t WHERE a = %s"


@pytest.fixture
def connect(tmp_path: pathlib.Path) -> Iterator[Connect]:
    """Gives connections to a server of this process."""
    with shoal.open(tmp_path / "data") as db, ExitStack() as stack:
        db.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
        db.execute("INSERT INTO t VALUES (1, 'one')")
        db.execute("CREATE TABLE other (a int)")
        host, _, port = db.serve("127.0.0.1:0").removeprefix("//").rpartition("@")[2].rpartition(":")

        def connected() -> psycopg.Connection[Any]:
            return stack.enter_context(
                psycopg.connect(
                    host=host, port=int(port.partition("/")[0]), user="postgres", dbname="postgres", autocommit=True
                )
            )

        yield connected


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[weakref.ref[Any]]:
    """Every row plan that is made."""
    made: list[weakref.ref[Any]] = []
    plan_row = planning.plan_row

    def noted(*args: Any) -> Any:
        plan = plan_row(*args)
        if plan is not None:
            made.append(weakref.ref(plan))
        return plan

    monkeypatch.setattr(planning, "plan_row", noted)
    return made


def read(connection: psycopg.Connection[Any]) -> object:
    return connection.execute(SQL, (1,), prepare=True).fetchall()


def test_one_session_plans_for_all(connect: Connect, plans: list[weakref.ref[Any]]) -> None:
    sessions = [connect() for _ in range(8)]
    for session in sessions:
        assert read(session) == [("one",)]
    made = 2  # what comes once is its session's own, from the second time on it is everybody's
    for change, answer in (
        ("TRUNCATE other", "one"),
        ("ALTER TABLE t ALTER b SET DEFAULT 'x'", "one"),
        ("UPDATE t SET b = 'two'", "two"),
        ("ALTER TABLE t ALTER b TYPE varchar(10)", "two"),
    ):
        connect().execute(change)
        plans.clear()
        if "varchar" in change:
            for session in sessions:
                with pytest.raises(psycopg.errors.FeatureNotSupported, match="must not change result type"):
                    read(session)
        else:
            assert [read(session) for session in sessions] == [[(answer,)]] * 8
            assert len(plans) == (0 if change.startswith("UPDATE") else made)


def test_who_reads_other_tables_has_plans_of_its_own(connect: Connect) -> None:
    one, two = connect(), connect()
    one.execute("CREATE SCHEMA s")
    assert read(one) == read(two) == [("one",)]
    two.execute("SET search_path = s, public")
    assert read(two) == [("one",)]
    one.execute("CREATE TABLE s.t (a int, b text)")
    for _ in range(2):
        assert read(one) == [("one",)]
        assert read(two) == []


def test_who_has_changed_the_schema_itself_has_plans_of_its_own(connect: Connect) -> None:
    one, two = connect(), connect()
    assert read(one) == read(two) == [("one",)]
    with one.transaction():
        one.execute("ALTER TABLE t RENAME TO u")
        one.execute("CREATE TABLE t (a int, b text)")
        assert read(one) == []
        two.execute("ALTER TABLE other ADD b int")
        raise psycopg.Rollback
    assert read(one) == read(two) == [("one",)]


def test_plans_without_references_are_removed(connect: Connect, plans: list[weakref.ref[Any]]) -> None:
    """One session keeps the statement and is idle, another one runs it under one schema after the other."""
    idle, busy, other = connect(), connect(), connect()  # after an ALTER of its own psycopg prepares anew
    assert read(idle) == read(busy) == [("one",)]
    plans.clear()
    for number in range(20):
        other.execute(f"ALTER TABLE other ADD c{number} int".encode())
        assert read(busy) == [("one",)]
    gc.collect()
    assert len(plans) == 20 and sum(plan() is not None for plan in plans) <= 2  # and what the protocol's reader has
    assert read(idle) == [("one",)]
