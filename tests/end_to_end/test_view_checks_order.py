"""WITH CHECK OPTION is asked of rows that have been written: after NOT NULL, CHECK and unique keys, and not of those
that give way on conflict. Foreign keys come last. On both servers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

_SETUP = """
    CREATE TEMPORARY TABLE other (a int PRIMARY KEY);
    CREATE TEMPORARY TABLE t (a int PRIMARY KEY, b int NOT NULL CHECK (b < 100), c int UNIQUE, d int REFERENCES other);
    CREATE TEMPORARY TABLE p (a int PRIMARY KEY, b int NOT NULL CHECK (b < 100), c int, d int) PARTITION BY RANGE (a);
    CREATE TEMPORARY TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (2);
    CREATE TEMPORARY TABLE p2 PARTITION OF p FOR VALUES FROM (2) TO (10);
    INSERT INTO other VALUES (1);
    INSERT INTO t VALUES (1, 1, 1, 1), (3, 3, 3, 1);
    INSERT INTO p VALUES (1, 1, 1, 1), (3, 3, 3, 1);
    CREATE TEMPORARY VIEW vt AS SELECT * FROM t WHERE b > 0 WITH CHECK OPTION;
    CREATE TEMPORARY VIEW vp AS SELECT * FROM p WHERE b > 0 WITH CHECK OPTION;
"""
_FAULTS = {  # what a row may break, in each of its columns
    "a": {"": "2", "key": "1"},
    "b": {"": "5", "NULL": "NULL", "CHECK": "100", "view": "-1"},
    "c": {"": "5", "unique": "1"},
    "d": {"": "1", "foreign key": "7"},
}
_ROWS = [tuple(row) for row in itertools.product(*(column.values() for column in _FAULTS.values()))]
_FORMS = {
    "INSERT": "INSERT INTO {view} VALUES ({a}, {b}, {c}, {d})",
    "INSERT of many": "INSERT INTO {view} VALUES (8, 8, 8, 1), ({a}, {b}, {c}, {d})",
    "INSERT SELECT": "INSERT INTO {view} SELECT {a}, {b}, {c}, {d}",
    "DO NOTHING": "INSERT INTO {view} VALUES ({a}, {b}, {c}, {d}) ON CONFLICT DO NOTHING",
    "DO UPDATE": "INSERT INTO {view} VALUES ({a}, {b}, {c}, {d}) ON CONFLICT (a) DO UPDATE SET b = excluded.b - 1",
    "UPDATE": "UPDATE {view} SET a = {a}, b = {b}, c = {c}, d = {d} WHERE a = 3",
}


@pytest.fixture(scope="module")
def connections(shoal: ShoalServer, postgres_server: PostgresServer) -> Iterator[tuple[psycopg.Connection, ...]]:
    with (
        psycopg.connect(shoal.dsn, autocommit=True) as here,
        psycopg.connect(postgres_server.dsn, autocommit=True) as there,
    ):
        for connection in (here, there):
            connection.execute(_SETUP)
        yield here, there


def _outcome(connection: psycopg.Connection, statement: str, table: str) -> object:
    connection.execute("BEGIN")
    try:
        tag = connection.execute(statement.encode()).statusmessage
        rows = connection.execute(f"SELECT * FROM {table} ORDER BY a".encode()).fetchall()
        return tag, rows
    except psycopg.Error as error:
        return error.sqlstate, error.diag.constraint_name
    finally:
        connection.execute("ROLLBACK")


@pytest.mark.parametrize("table", ["t", "p"])
@pytest.mark.parametrize("form", _FORMS)
def test_the_first_fault_is_told(connections: tuple[psycopg.Connection, ...], form: str, table: str) -> None:
    seen = set()
    for a, b, c, d in _ROWS:
        statement = _FORMS[form].format(view=f"v{table}", a=a, b=b, c=c, d=d)
        here, there = (_outcome(connection, statement, table) for connection in connections)
        assert here == there, statement
        seen.add(there[0] if isinstance(there, tuple) else there)
    assert {"23502", "23514", "44000"} <= seen
