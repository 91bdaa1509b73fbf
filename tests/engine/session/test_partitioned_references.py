"""Foreign keys that refer to partitioned tables: both sides, rows that move, partitions that come and go."""

from __future__ import annotations

from tests.engine.session.conftest import Pair, outcome


def assert_violated(pair: Pair, sql: str) -> None:
    """Refused by both. PostgreSQL names the copy of the constraint that it keeps for each partition."""
    ours, theirs = outcome(pair.shoal, sql), outcome(pair.postgres, sql)
    assert ours[0] == theirs[0] == "23503", (ours, theirs)  # type: ignore[index]
    for connection in (pair.shoal, pair.postgres):
        connection.rollback()


def test_rows_and_partitions(pair: Pair) -> None:
    pair.same(
        "create table pk (a int, b text, primary key (a)) partition by range (a); create table pk1 partition "
        "of pk for values from (0) to (100); create table pk2 (b text, a int not null); alter table pk "
        "attach partition pk2 for values from (100) to (200); create table pkd partition of pk default",
        "create table fk (id int primary key, a int references pk on update cascade on delete cascade)",
        "insert into pk select g, 'x' || g from generate_series(1, 300) g",
        "insert into fk select g, g from generate_series(1, 250) g",
        "insert into fk values (1000, 999)",
        "insert into fk values (1000, null), (1001, 5), (1002, 150)",
        "delete from pk where a = 5",
        "select count(*) from fk",
        "update pk set a = 1150 where a = 150",
        "select * from fk where a = 1150 order by id",
        "update pk set a = 60 where a = 160",
        "delete from pk1 where a = 7",
        "delete from pk2 where a = 107; select * from fk where a in (7, 107)",
        "truncate pk1",
        "truncate pk",
        "drop table pk1",
    )
    assert_violated(pair, "alter table pk detach partition pk1")
    pair.same(
        "delete from fk where a < 100; alter table pk detach partition pk1",
    )


def test_several_levels(pair: Pair) -> None:
    pair.same(
        "create table deep (a int, b int, primary key (a, b)) partition by range (a); create table deep1 "
        "partition of deep for values from (0) to (100) partition by range (b); create table deep11 "
        "partition of deep1 for values from (0) to (10); create table deep12 partition of deep1 for values "
        "from (10) to (20); create table fd (b int, a int, foreign key (a, b) references deep); create table "
        "fe (b int, a int, foreign key (a, b) references deep1 (a, b))",
        "insert into deep values (1, 1), (2, 12); insert into fd values (1, 1), (12, 2); insert into fd values (5, 1)",
        "insert into fe values (1, 1); insert into fe values (2, 1)",
        "update deep set b = 15 where b = 1",
        "delete from fe; delete from fd; update deep set b = 15 where b = 1",
        "insert into fd select 12, 2 from generate_series(1, 3000)",
        "insert into fd select g, 2 from generate_series(10, 3000) g",
    )
