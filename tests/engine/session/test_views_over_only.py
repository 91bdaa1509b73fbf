"""Changes through views over ONLY a table leave the tables below it alone, beside PostgreSQL."""

from __future__ import annotations

from itertools import product

import pytest

from tests.engine.session.conftest import Pair
from tests.samples import some

TABLES = {
    "inherited": ("create table p (a int, b int)", "create table c () inherits (p)"),
    "deep": (
        "create table p (a int, b int)",
        "create table m (x int) inherits (p)",
        "create table c (y int) inherits (m)",
    ),
    "partitioned": (
        "create table p (a int, b int) partition by range (a)",
        "create table c partition of p default",
    ),
}
VIEWS = {
    "view": ("create view v as select * from only p",),
    "renamed": ("create view v (b, a) as select b, a from only p where a < 100",),
    "nested": ("create view w as select * from only p", "create view v as select * from w where a > 0"),
    "all": ("create view v as select * from p",),
    "checked": ("create view v as select * from only p where a < 50 with check option",),
}
CHANGES = (
    "update v set b = b + 1",
    "update v set b = 7 where a = 2",
    "update v set a = a + 10 from (values (1), (2)) q(k) where a = k returning *",
    "insert into v (a, b) values (3, 3)",
    "delete from v where a = 2",
    "delete from v using (values (1), (2)) q(k) where a = k",
    "delete from v",
)


@pytest.mark.parametrize(("tables", "view"), some(product(TABLES, VIEWS), 4))
def test_changes(both_paths: Pair, tables: str, view: str) -> None:
    both_paths.run(
        *TABLES[tables],
        *VIEWS[view],
        "insert into c (a, b) values (2, 2), (4, 4)",
    )
    if tables != "partitioned":
        both_paths.run("insert into p values (1, 1), (2, 22)")
    for change in CHANGES:
        both_paths.same(change, "select tableoid::regclass::text, a, b from p", "select * from v")
