"""SEARCH and CYCLE of WITH RECURSIVE, beside PostgreSQL."""

from __future__ import annotations

import pytest

from tests.engine.session.conftest import Pair

TABLE = (
    "create table arc (f int, t int, l text)",
    "insert into arc values (1, 2, 'a'), (1, 3, 'b'), (2, 3, null), (1, 4, 'd'), (4, 5, 'e'), (5, 1, 'x')",
)
FINITE = (
    "with recursive s(f, t, l) as (select * from arc where t < 4 union all "
    "select arc.* from arc, s where arc.f = s.t and arc.t < 4) "
)
ENDLESS = "with recursive s(f, t, l) as (select * from arc union all select arc.* from arc, s where arc.f = s.t) "


@pytest.mark.parametrize(
    "sql",
    [
        FINITE + "search depth first by f, t set way select * from s order by way",
        FINITE + "search breadth first by l, t set way select * from s order by way desc",
        ENDLESS + "cycle f, t set again using path select * from s order by path",
        ENDLESS + "cycle f, t set again to 'Y' default 'N' using path select again, path from s order by path",
        ENDLESS + "search breadth first by f set q cycle f, t set c using p select f, t, c, q from s order by q, t, c",
        "with recursive n as (select 0 as x union all select (x + 3) % 9 from n) cycle x set c using p select * from n",
        "with recursive n as (select 0 as x union select (x + 3) % 4 from n) cycle x set c using p select * from n",
    ],
)
def test_rows_with_the_added_columns(pair: Pair, sql: str) -> None:
    pair.run(*TABLE)
    assert pair.shoal.execute(sql.encode()).fetchall() == pair.postgres.execute(sql.encode()).fetchall()


def test_what_cannot_be_said(pair: Pair) -> None:
    pair.run(*TABLE)
    pair.same(
        ENDLESS + "cycle missing set c using p select * from s",
        ENDLESS + "cycle f set c to true default 55 using p select * from s",
        ENDLESS + "cycle f set c using c select * from s",
        ENDLESS + "cycle f set c to point '(1,1)' default point '(0,0)' using p select * from s",
        ENDLESS + "cycle f set l using c select * from s",
        ENDLESS + "cycle f set c using l select * from s",
        ENDLESS + "cycle f, f set c using p select * from s",
        ENDLESS + "search depth first by f set l select * from s",
        ENDLESS + "search depth first by f, f set q select * from s",
        ENDLESS + "search depth first by f set q cycle f set q using p select * from s",
        ENDLESS + "search depth first by f set p cycle f set q using p select * from s",
        "with s(f) as (select 1) search depth first by f set q select * from s",
        "with recursive n as (select 1 as x union all (select 2 union all select x from n)) "
        "search depth first by x set q select * from n",
        "with recursive n as (select 1 as x union all select 2 union all select x from n) "
        "search depth first by x set q select * from n",
    )


def test_views_keep_the_clauses(pair: Pair) -> None:
    pair.run(*TABLE)
    pair.run(
        f"create view one as {ENDLESS} cycle f, t set c using p select f, t, c from s",
        f"create view two as {ENDLESS} search depth first by f set q cycle f, t set c to 'Y' default 'N' using p "
        "select f, c from s",
    )
    pair.same(
        "select pg_get_viewdef('one'), pg_get_viewdef('two')",
        "select * from one",
        "select * from two",
    )
