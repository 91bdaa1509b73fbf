"""UPDATE of a unique key: what is in a row's way does not depend on how many rows there are."""

from __future__ import annotations

from itertools import product

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.samples import some
from tests.server import ShoalServer

FEW, MANY = 4, 4000
KEYS = ("primary key", "primary key deferrable initially immediate", "unique", "unique deferrable")
CHANGES = (
    "id + 1", "id - 1", "case id when 1 then 2 when 2 then 1 else id end", "-id", "id + 5000",
    "case when id % 2 = 1 then id + 1 else id + 6000 end", "case when id % 2 = 0 then id - 1 else id + 6000 end",
    "case when id % 2 = 0 then id - 1 else -id end", "case when id = 3 then 4 when id = 4 then 9000 else id end",
    "case when id = 4 then 3 when id = 3 then 9000 else id end", "id + 0", "case when id = 2 then 1 else id end",
)  # fmt: skip


def outcome(connection: psycopg.Connection, change: str, rows: int, key: str, source: str) -> object:
    """The SQLSTATE of an UPDATE of so many rows, which lie in the order of their keys, or the least keys after it."""
    connection.execute("drop table if exists moving")
    connection.execute(f"create table moving (id int {key}, v text)".encode())
    connection.execute(f"insert into moving select g, 'v' from generate_series(1, {rows}) g".encode())
    try:
        with connection.transaction():
            connection.execute(f"update moving set id = {change} {source}".encode())
    except psycopg.Error as error:
        return error.sqlstate
    return connection.execute("select id from moving order by id limit 4").fetchall()


@pytest.mark.parametrize(("change", "rows", "key"), some(product(CHANGES, (FEW, MANY), KEYS), 5))
def test_rows_change_in_the_order_of_their_keys(
    postgres_server: PostgresServer, shoal: ShoalServer, change: str, rows: int, key: str
) -> None:
    found = []
    for server in (postgres_server, shoal):
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            found.append(outcome(connection, change, rows, key, ""))
            connection.execute("drop table moving")
    assert found[0] == found[1]
