"""Foreign keys that change a partition key: the row goes where it belongs, beside PostgreSQL."""

from __future__ import annotations

from itertools import product

import pytest

from tests.engine.session.conftest import Pair, outcome
from tests.samples import some

LAYOUTS = {
    "range": (
        "create table f (a int default 7 references n {}, b int) partition by range (a)",
        "create table f1 partition of f for values from (0) to (1000)",
        "create table f2 partition of f default",
    ),
    "list": (
        "create table f (b int, a int default 7 references n {}) partition by list (a)",
        "create table f2 partition of f for values in (null, 7)",
        "create table f3 (a int, x int, b int)",
        "alter table f3 drop x",
        "alter table f attach partition f3 default",
    ),
    "hash": (
        "create table f (a int default 7 references n {}, b int) partition by hash (a)",
        *(f"create table f{n} partition of f for values with (modulus 3, remainder {n})" for n in range(3)),
    ),
    "nested": (
        "create table f (a int default 7 references n {}, b int, unique (a, b)) partition by range (a)",
        "create index on f (b)",
        "create table f1 partition of f for values from (0) to (1000) partition by list (a)",
        "create table f11 partition of f1 for values in (5, 6)",
        "create table f12 partition of f1 default",
        "create table f2 partition of f default partition by hash (b)",
        "create table f21 partition of f2 for values with (modulus 2, remainder 0)",
        "create table f22 partition of f2 for values with (modulus 2, remainder 1)",
    ),
    "expression": (
        "create table f (a int default 7 references n {}, b int) partition by list ((a % 10))",
        "create table f1 partition of f for values in (5, 6)",
        "create table f2 partition of f default",
    ),
    "below": (
        "create table f (a int default 7, b int) partition by range (a)",
        "create table f1 partition of f for values from (0) to (1000) partition by range (a)",
        "create table f11 partition of f1 for values from (0) to (6)",
        "create table f12 partition of f1 for values from (6) to (1000)",
        "create table f2 partition of f default",
        "alter table f1 add foreign key (a) references n {}",
    ),
}
SHOWN = (
    "select tableoid::regclass::text, a, b from f",
    *(f"select a, b from f where {test}" for test in ("a = 3000", "a = 16", "a is null", "a = 7", "a = 8", "b = 60")),
    "select a from n",
)


def same(pair: Pair, *statements: str) -> None:
    """As Pair.same, without the text of PostgreSQL's inner statements, which stands in the context of errors."""
    for sql in statements:
        ours, theirs = (
            tuple(str(item).partition("SQL statement")[0] if item else "" for item in outcome(side, sql))
            for side in (pair.shoal, pair.postgres)
        )
        assert ours == theirs, sql


@pytest.mark.parametrize(
    ("layout", "action", "both_paths"),
    some(product(LAYOUTS, ("cascade", "set null", "set default"), ("auto", "columnar")), 5),
    indirect=["both_paths"],
)
def test_rows_move(both_paths: Pair, layout: str, action: str) -> None:
    actions = f"on update {action} on delete {action}"
    both_paths.run(
        "create table n (a int primary key)",
        "insert into n values (5), (6), (7), (8), (3000)",
        *(statement.format(actions) for statement in LAYOUTS[layout]),
        "insert into f (a, b) values (5, 50), (5, 51), (6, 60), (7, 70)",
    )
    same(
        both_paths,
        "update n set a = a + 10 where a in (5, 6)",
        *SHOWN,
        "delete from n where a = 3000",
        "update n set a = 3000 where a = 15",
        *SHOWN,
        "delete from n where a = 16",
        *SHOWN,
        "delete from n where a = 7",
        "delete from n",
        *SHOWN,
    )


def test_cascades_that_go_on(both_paths: Pair) -> None:
    """A row that has moved is referred to itself, by partitioned tables too."""
    statements = []
    for table, above in (("k1", ""), ("k2", "k1"), ("k3", "k2")):
        parent = above and f"references {above} on update cascade"
        statements += [
            f"create table {table} (a int primary key {parent}) partition by range (a)",
            f"create table {table}_low partition of {table} for values from (0) to (2000)",
            f"create table {table}_high partition of {table} default",
            f"insert into {table} select generate_series(1, 1500)",
        ]
    both_paths.run(*statements)
    look = "select tableoid::regclass::text, count(*), min(a), max(a) from {} group by 1"
    for change in ("where a = 3", "where a % 2 = 0", ""):
        same(
            both_paths,
            f"update k1 set a = a + 2000 {change}",
            *(look.format(table) for table in ("k1", "k2", "k3")),
            "select * from k3 where a in (2003, 2002, 4003)",
        )


def test_what_holds_of_changed_rows(pair: Pair) -> None:
    pair.run(
        "create table n (a int primary key)",
        "insert into n values (1), (2), (3), (4)",
        "create domain small as int check (value < 100)",
        "create table checked (a int references n on update cascade check (a < 1000))",
        "create table made (a int references n on update cascade, b int generated always as (a * 2) stored)",
        "create index on made (b)",
        "create table typed (a small references n on update cascade)",
        "create table full_ (a int not null references n on update set null)",
        "insert into checked values (1)",
        "insert into made values (2)",
        "insert into typed values (3)",
        "insert into full_ values (4)",
    )
    same(
        pair,
        *(f"update n set a = {new} where a = {old}" for new, old in ((1000, 1), (10, 1), (20, 2), (99, 3), (40, 4))),
        "select * from made where b = 40",
        "select * from made where b = 4",
        "select * from checked",
        "select * from typed",
        "select * from full_",
    )
