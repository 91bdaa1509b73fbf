"""What READ ONLY refuses, and how long it lasts; beside PostgreSQL."""

from __future__ import annotations

import pytest

from tests.engine.session.conftest import Pair


@pytest.mark.parametrize(
    "sql",
    [
        "drop table kept",
        "create table q (i int)",
        "create table q as select 1",
        "create view q as select 1",
        "create index on kept (a)",
        "create sequence q",
        "drop sequence if exists q",
        "alter table kept add b int",
        "truncate kept",
        "grant select on kept to public",
        "comment on table kept is 'x'",
    ],
)
def test_schema_changes_are_refused_by_name(pair: Pair, sql: str) -> None:
    pair.run("create table kept (a int)")
    pair.same("begin read only", sql, "rollback", "select * from kept")


def test_a_savepoint_that_is_released_takes_its_read_only_with_it(pair: Pair) -> None:
    pair.run("create table kept (a int)")
    pair.same(
        "begin",
        "savepoint x",
        "set transaction read only",
        "release savepoint x",
        "show transaction_read_only",
        "insert into kept values (1)",
        "savepoint y",
        "savepoint z",
        "set transaction read only",
        "release y",
        "show transaction_read_only",
        "commit",
        "select * from kept",
    )


def test_temporary_tables_may_be_written_in_a_read_only_transaction(pair: Pair) -> None:
    pair.run("create table kept (a int)", "create temp table passing (a int)", "insert into kept values (1)")
    pair.same(
        "begin read only",
        "insert into passing select a from kept",
        "update passing set a = 2 from kept where kept.a = passing.a",
        "select * from passing",
        "delete from passing",
        "savepoint s",
        "delete from kept",
        "rollback to s",
        "with moved as (delete from kept returning a) insert into passing select a from moved",
        "rollback",
    )
