"""ATTACH PARTITION of filled tables: each index of the parent has all rows, whatever the order of indexes and
constraints; REINDEX builds what is wrong anew."""

from __future__ import annotations

from itertools import permutations

import pytest

from tests.engine.session.conftest import Pair, outcome
from tests.samples import some

KEYS = ("alter table p add primary key (a)", "alter table p add unique (a)", "alter table p add primary key (a, b)")
INDEXES = (
    "create index on p (b)",
    "create index on p ((b || '!'))",
    "create unique index on p (a) include (c)",
    "create index on p (c) where c > 1",
)
ORDERS = [order for key in KEYS for others in permutations(INDEXES, 2) for order in permutations((key, *others))]
LOOKS = (
    "select * from p where a = 7",
    "select * from p where b = 'k7'",
    "select * from p where b || '!' = 'k7!'",
    "select * from p where c > 1 and c = 7",
)


@pytest.mark.parametrize("part", some(range(8), 4))
def test_all_orders(pair: Pair, part: int) -> None:
    for order in ORDERS[part::8]:
        pair.run(
            "create table p (a int, b text, c int) partition by range (a)",
            *order,
            "create table p1 (a int not null, b text not null, c int)",
            "insert into p1 values (1, 'k1', 1), (7, 'k7', 7)",
            "alter table p attach partition p1 for values from (0) to (100)",
        )
        twice = "insert into p values (7, 'k7', 8)"
        assert [outcome(side, twice)[0] for side in (pair.shoal, pair.postgres)] == ["23505"] * 2
        pair.same(
            *LOOKS,
            "update p set b = 'k9' where b = 'k7'",
            *LOOKS,
            "delete from p where c > 1 and c = 7",
            "select * from p",
        )
        pair.run("drop table p")


@pytest.mark.parametrize("first", ["primary key (a)", "unique (a)", "check (a is not null)"])
def test_rows_are_checked_whatever_is_built(pair: Pair, first: str) -> None:
    """Bounds, foreign keys and unique keys of a table that is written anew for its primary key on the way."""
    pair.run(
        "create table n (a int primary key)",
        "insert into n values (1)",
        f"create table p (a int, b int references n, {first}) partition by range (a)",
        "create unique index on p (a, b)",
        "create table p1 (a int not null, b int)",
    )
    attach = "alter table p attach partition p1 for values from (0) to (100)"
    for row in ("(500, 1)", "(5, 2)", "(5, 1), (5, 1)", "(5, 1)"):
        pair.run(f"insert into p1 values {row}")
        pair.same(attach, "delete from p1", "select * from p")


def test_partitions_of_partitions(pair: Pair) -> None:
    pair.run(
        "create table p (a int primary key, b text) partition by range (a)",
        "create index on p (b)",
        "create table q (a int not null, b text) partition by range (a)",
        "create table q1 partition of q for values from (0) to (10)",
        "create table q2 partition of q for values from (10) to (20)",
        "insert into q select n, 'k' || n from generate_series(0, 19) n",
        "begin",
        "alter table p attach partition q for values from (0) to (20)",
    )
    looks = [f"select * from p where b = 'k{n}'" for n in (3, 13)]
    pair.same(*looks, "commit", *looks, "insert into p values (3, 'x')")
    pair.run("alter table p detach partition q", "create table d (like p)", "insert into d values (-1, 'k')")
    pair.run("alter table p attach partition d default")
    pair.same("select * from p where b = 'k'", "insert into p values (-1, 'x')")


def test_reindex_keeps_what_is_right(pair: Pair) -> None:
    pair.run(
        "create table p (a int primary key, b text) partition by range (a)",
        "create index p_b on p (b)",
        "create unique index on p (a, (b || '!')) where a > 5",
        "create table p1 partition of p for values from (0) to (1000)",
        "insert into p select n, 'k' || n from generate_series(0, 99) n",
    )
    looks = ("select * from p where b = 'k7'", "select * from p where a > 5 and b || '!' = 'k70!'")
    for what in ("table p", "table p1", "index p_b", "index p1_b_idx", "schema statements"):
        pair.same(f"reindex {what}", *looks)
    pair.same("reindex schema concurrently statements", *looks, "begin", "reindex table p1", "rollback", *looks)
