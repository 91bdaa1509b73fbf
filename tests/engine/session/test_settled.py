"""On the columnar path parameters are constants: literals that were lifted, and those of Bind."""

from __future__ import annotations

from decimal import Decimal

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

TABLE = """
DROP TABLE IF EXISTS settled;
CREATE TABLE settled (id int PRIMARY KEY, price numeric(10, 2), name text, at timestamp, j jsonb);
INSERT INTO settled SELECT i, i * 1.25, 'name ' || i, timestamp '2024-01-01' + i * interval '1 hour',
    jsonb_build_object('k', i % 7) FROM generate_series(1, 2000) i;
"""
QUERIES = [
    ("SELECT count(*) FROM settled WHERE price * %s > %s", [(1.19, 1000.555), (2, 700), (None, 1)]),
    ("SELECT sum(price * %s), sum(price / %s) FROM settled WHERE name LIKE %s",
     [("1.10", "4", "name 1%"), ("1.1", "4.00", "%99"), ("0", "3", "x")]),
    ("SELECT date_trunc(%s, at), count(*), string_agg(DISTINCT j ->> %s, %s) FROM settled GROUP BY 1 ORDER BY 1",
     [("month", "k", ","), ("year", "k", "-"), ("month", "nothing", None)]),
    ("SELECT to_char(at, %s) AS d, round(avg(price), %s) FROM settled GROUP BY d ORDER BY d",
     [("YYYY-MM", 2), ("YYYY", 0)]),
    ("SELECT id FROM settled WHERE at BETWEEN %s AND %s AND price > %s ORDER BY id LIMIT %s",
     [("2024-01-05", "2024-01-06", 10, 3)]),
]  # fmt: skip


@pytest.mark.parametrize("binds", [psycopg.Cursor, psycopg.ClientCursor])
def test_values_mean_the_same(
    shoal: ShoalServer, postgres_server: PostgresServer, binds: type[psycopg.Cursor[tuple[object, ...]]]
) -> None:
    answers = []
    for server in (shoal, postgres_server):
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute(TABLE.encode())
            cursor = binds(connection)
            found: list[object] = []
            for sql, rows in QUERIES:
                for row in (*rows, *rows):  # the second time from what was kept
                    try:
                        found.append(cursor.execute(sql.encode(), row).fetchall())
                    except psycopg.Error as error:
                        found.append(error.sqlstate)
            connection.execute("DROP TABLE settled")
        answers.append(found)
    assert answers[0] == answers[1]


def test_a_number_s_scale_is_that_of_each_execution(shoal: ShoalServer) -> None:
    """1.1 and 1.10 are equal, and their products are not shown alike."""
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        connection.execute(TABLE.encode())
        cursor = psycopg.ClientCursor(connection)
        sums = [
            str(cursor.execute("SELECT sum(price * %s) FROM settled WHERE id > 0", (number,)).fetchall())
            for number in map(Decimal, ("1.1", "1.10", "1.1"))
        ]
        connection.execute("DROP TABLE settled")
    assert sums[0] == sums[2] != sums[1]
