"""Unnamed statements of the extended protocol: which of them are planned to run once."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import shoal
from engine.statements import planning

SQL = "SELECT a + %s::int AS b FROM t ORDER BY 1"


@pytest.fixture
def connection(tmp_path: pathlib.Path) -> Iterator[psycopg.Connection[Any]]:
    """To a server of this process."""
    with shoal.open(tmp_path / "data") as db:
        db.execute("CREATE TABLE t (a int)")
        db.execute("INSERT INTO t VALUES (1), (2)")
        host, _, port = db.serve("127.0.0.1:0").removeprefix("//").rpartition("@")[2].rpartition(":")
        with psycopg.connect(
            host=host, port=int(port.partition("/")[0]), user="postgres", dbname="postgres", autocommit=True
        ) as connection:
            yield connection


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each row plan that was made was to run once."""
    made: list[bool] = []
    plan_row = planning.plan_row

    def noted(analyzed: Any, catalog: Any, settings: Any, brief: bool = False) -> Any:
        made.append(brief)
        return plan_row(analyzed, catalog, settings, brief)

    monkeypatch.setattr(planning, "plan_row", noted)
    return made


def test_a_text_is_planned_to_run_once_when_it_comes_first(
    connection: psycopg.Connection[Any], planned: list[bool]
) -> None:
    for given in (1, 2, 3):
        rows = connection.execute(SQL, (given,), prepare=False).fetchall()
        assert rows == [(1 + given,), (2 + given,)]
    assert planned == [True, False]  # the third time it is in the cache


def test_a_named_statement_is_not(connection: psycopg.Connection[Any], planned: list[bool]) -> None:
    assert connection.execute(SQL, (1,), prepare=True).fetchall() == [(2,), (3,)]
    assert planned == [False]


def test_an_unnamed_statement_runs_for_each_execute(connection: psycopg.Connection[Any], planned: list[bool]) -> None:
    assert connection.pgconn.prepare(b"", b"SELECT a, a * $1::int FROM t ORDER BY a").error_message == b""
    for binary in (0, 1, 1, 0):
        result = connection.pgconn.exec_prepared(b"", [b"3"], None, binary)
        two = b"\0\0\0\2" if binary else b"2"
        six = b"\0\0\0\6" if binary else b"6"
        assert (result.ntuples, result.get_value(1, 0), result.get_value(1, 1)) == (2, two, six)
    assert planned == [True]
