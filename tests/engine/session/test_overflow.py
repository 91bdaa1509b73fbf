"""Queries that the row path gives up again and again stay away from it, until it may be the better place again."""

from __future__ import annotations

import pathlib
from typing import Any, cast

import psycopg
import pytest

import shoal as shoal_package
from engine.session.prepared import Prepared
from engine.session.row_runner import RowRunner
from engine.sql import ast, tree
from engine.statements.rows_plan import MOST_ELSEWHERE, RowsPlan
from engine.statistics.statements import Tally
from tests.server import ShoalServer


@pytest.fixture
def prepared() -> Prepared:
    """A query that has both plans."""
    none = cast(Any, None)
    plan = RowsPlan(tree.Analyzed(tree.Query(()), (), ()), none, none, writes=False)
    plan.set_row(cast(Any, object()))
    plan.columnar = cast(Any, object())
    prepared = Prepared.of(ast.Statement(ast.Node(), ""), (), none, none, plan)
    prepared.tally = Tally(0, 0, 0, "", "", [])
    return prepared


def plan_of(prepared: Prepared) -> RowsPlan:
    assert isinstance(prepared.plan, RowsPlan)
    return prepared.plan


def spared(prepared: Prepared) -> int:
    """How many executions go elsewhere after one that overflowed, that one not counted."""
    plan = plan_of(prepared)
    plan.note_overflow(prepared)
    count = -1
    while not plan.at_once:
        plan.ran_elsewhere()
        count += 1
    return count


def test_each_time_it_stays_away_longer(prepared: Prepared) -> None:
    found = [spared(prepared) for _ in range(8)]
    assert found[:4] == [0, 2, 6, 14] and found[-1] == MOST_ELSEWHERE - 1


def test_an_execution_that_the_row_path_finished_starts_again(prepared: Prepared) -> None:
    assert [spared(prepared) for _ in range(3)][-1] > 0
    assert prepared.tally is not None
    prepared.tally.alone.append(0.001)
    assert spared(prepared) == 0


def test_without_another_plan_and_for_writes_it_stays(prepared: Prepared) -> None:
    plan = plan_of(prepared)
    for columnar, writes in ((None, False), (plan.columnar, True)):
        plan.columnar, plan.writes = columnar, writes
        plan.note_overflow(prepared)
        assert plan.at_once and not plan.elsewhere


@pytest.mark.parametrize("prepare", [True, False])
def test_answers_stay_right_whichever_path_it_is(shoal: ShoalServer, prepare: bool) -> None:
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE overflow_t (id int PRIMARY KEY, part int)")
        connection.execute("INSERT INTO overflow_t SELECT i, i % 10 FROM generate_series(1, 6000) i")
        try:
            for number in range(1, 12):
                sql = "SELECT count(*), sum(part) FROM overflow_t WHERE id > %s"
                for least in (0, 5990, 6000 - number):
                    row = connection.execute(sql, (least,), prepare=prepare).fetchone()
                    whole = range(least + 1, 6001)
                    assert row == (len(whole), sum(i % 10 for i in whole))
                text = f"SELECT count(*) FROM overflow_t WHERE part >= {number % 10}"
                assert connection.execute(text.encode()).fetchone() == (6000 - 600 * (number % 10),)
        finally:
            connection.execute("DROP TABLE overflow_t")


@pytest.mark.parametrize("prepare", [None, True, False])
def test_rows_already_sent_remain_valid_when_the_schema_changes(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, prepare: bool | None
) -> None:
    tried: list[str] = []
    execute = RowRunner.run

    def noted(self: RowRunner, prepared: Prepared, *args: Any) -> Any:
        if "sum(a)" in prepared.statement.text:
            tried.append(prepared.statement.text)
        return execute(self, prepared, *args)

    monkeypatch.setattr(RowRunner, "run", noted)
    with shoal_package.open(tmp_path / "data") as db:
        db.execute("CREATE TABLE other (a int)")
        db.execute("CREATE TABLE t (a int)")
        db.execute("INSERT INTO t SELECT generate_series(1, 6000)")
        uri = db.serve("127.0.0.1:0")
        with psycopg.connect(uri, autocommit=True) as reader, psycopg.connect(uri, autocommit=True) as changer:

            def times() -> int:
                """How often the row path is tried in one execution."""
                tried.clear()
                if prepare is None:
                    cursor = reader.execute("SELECT sum(a) FROM t WHERE a > 0", prepare=False)
                else:
                    cursor = reader.execute("SELECT sum(a) FROM t WHERE a > %s", (0,), prepare=prepare)
                assert cursor.fetchone() == (18003000,)
                return len(tried)

            for _ in range(4):
                assert times() <= 1
            while not times():  # then it stays away for several executions
                pass
            changer.execute("TRUNCATE other")
            assert times() == 0
