"""FOR UPDATE and its kin over joins: which rows come, which are locked, what a change meanwhile does; as PostgreSQL."""

from __future__ import annotations

import psycopg
import pytest

from tests.engine.session.conftest import SCHEMA, Pair, outcome

TABLES = (
    "create table item (id int primary key, kind text, n int)",
    "create table part (item int references item, what text)",
    "insert into item values (1, 'a', 10), (2, 'b', 20), (3, 'a', 30)",
    "insert into part values (1, 'x'), (1, 'y'), (2, 'x'), (null, 'z')",
    "create view items as select * from item",
)


def test_rows_of_joins_with_row_locks(pair: Pair) -> None:
    pair.run(*TABLES)
    pair.same(
        "select i.id, p.what from item i join part p on p.item = i.id order by p.what, i.id for update",
        "select i.id, p.what from item i join part p on p.item = i.id where n > 10 for share of i",
        "select i.id, p.what from item i left join part p on p.item = i.id order by 1, 2 limit 2 for update of i",
        "select * from item i left join part p on p.item = i.id for update",
        "select * from part p right join item i on p.item = i.id for no key update of p",
        "select i.id, g from item i, generate_series(1, 2) g where i.id = g for update",
        "select i.id, v.c from item i, (values (1), (3)) v(c) where v.c = i.id for key share skip locked",
        "select count(*) from (select i.id from item i join part p on p.item = i.id for update) s",
        "select a.id, b.id from item a, item b where a.kind = b.kind and a.id < b.id for update of a for share of b",
        "select i.id, p.what from items i, part p where p.item = i.id order by 1, 2 for update of p",
        "update item set n = n + 1 where id in (select i.id from item i join part p on p.item = i.id for update)",
        "select * from item",
    )


@pytest.mark.parametrize("marked, free", [("i", "part"), ("p", "item")])
def test_only_the_rows_of_the_named_table_are_locked(pair: Pair, marked: str, free: str) -> None:
    pair.run(*TABLES)
    locked = "item" if free == "part" else "part"
    found = []
    for connection in (pair.shoal, pair.postgres):
        with psycopg.connect(connection.info.dsn, autocommit=True) as other:
            other.execute(f"SET search_path = {SCHEMA}".encode())
            connection.execute(b"begin")
            connection.execute(
                f"select 1 from item i join part p on p.item = i.id where i.id = 1 for update of {marked}".encode()
            )
            found.append(
                [
                    outcome(other, f"select * from {locked} for update nowait"),
                    outcome(other, f"select * from {locked} for update skip locked"),
                    outcome(other, f"select * from {free} for update nowait"),
                ]
            )
            connection.execute(b"commit")
    assert found[0] == found[1]
