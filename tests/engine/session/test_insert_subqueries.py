"""Sub-queries, WITH and whole rows in ON CONFLICT and RETURNING of INSERT, beside PostgreSQL."""

from __future__ import annotations

from tests.engine.session.conftest import Pair

TABLES = (
    "create table z (k int primary key, v text default 'd')",
    "insert into z select i, 'v' || i from generate_series(1, 16, 3) i",
    "create table y (a int, b text)",
    "insert into y values (1, 'one'), (4, 'four'), (5, null)",
)


def test_subqueries_and_with_in_on_conflict_and_returning(pair: Pair) -> None:
    pair.run(*TABLES)
    pair.same(
        "with aa as (select 1 a, 2 b) insert into z values (1, 'new') on conflict (k) do update "
        "set v = (select b || ' update' from aa where a = 1 limit 1) returning *",
        "with aa as (select 1 a) insert into z values (1, 'new'), (4, 'new') on conflict (k) do update set v = 'seen' "
        "where z.k = (select a from aa)",
        "with aa as (select 2 b) insert into z values (2, (select b || ' new' from aa)) on conflict (k) "
        "do update set v = 'never' returning *, (select count(*) from aa)",
        "insert into z values (51, 'x'), (52, 'w'), (51, 'u') on conflict (k) do nothing "
        "returning k, (select string_agg(b, ',') from y where y.a < k)",
        "insert into z select a, b from y on conflict (k) do update "
        "set v = (select 'n' || count(*) from y where y.a < excluded.k) || z.v || (select max(b) from y) returning *",
        "insert into z (k) values (60) returning (select a from y)",
        "select * from z",
    )


def test_what_reads_the_changed_table_is_refused_or_sees_it_as_it_was(pair: Pair) -> None:
    pair.run(*TABLES)
    pair.same("insert into z select k + 100, v from z where v = (select min(v) from z) returning k")
    ours = pair.shoal.execute
    try:
        rows = ours(b"insert into z values (200) returning (select count(*) from z)").fetchall()
    except Exception as error:
        assert "is not supported" in str(error)
    else:
        assert rows == [(7,)]


def test_whole_rows_are_compared_and_shown(pair: Pair) -> None:
    pair.run(*TABLES)
    pair.same(
        "insert into z values (7, 'x') on conflict (k) do update set v = excluded.v where z.* <> excluded.*",
        "insert into z values (7, 'x') on conflict (k) do update set v = 'same' where z.* is distinct from excluded.* "
        "returning *",
        "insert into z values (7, null) on conflict (k) do update set v = excluded.v where z is distinct from excluded "
        "returning *",
        "insert into z values (7, 'y') on conflict (k) do update set v = excluded.*::text returning *",
        "select z.*::text, row(k, null, 'a b')::text from z where z < (select row(5, 'a'))",
        "select k from z where row(z.k, z.v) = row(4, 'v4')",
        "select y.a from y, y as x where y = x",
        "select (select z::text from y where y.a = z.k) from z",
    )
