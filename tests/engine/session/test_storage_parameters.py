"""Storage parameters of tables: what there is, what each may be and what is shown of them, beside PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import psycopg
import pytest

from engine.ddl.storage_parameters import OF_TABLES
from tests.oracle import PostgresServer
from tests.server import ShoalServer

VALUES = (
    "",
    " = 1",
    " = 0",
    " = -1",
    " = 100",
    " = 1e9",
    " = 2000000001",
    " = 0.5",
    " = on",
    " = auto",
    " = 'x y'",
    " = OFF",
)
OTHERS = (
    "nothing",
    "toast.nothing",
    "toast.fillfactor",
    "other.fillfactor",
    "oids",
    "autovacuum_analyze",
    "toast.columnar",
)
NAMES = (*(name for name in OF_TABLES if name != "columnar"), *OTHERS)
WAYS = {
    "create": "CREATE TABLE made (a int) WITH ({0})",
    "set": "ALTER TABLE there SET ({0})",
    "reset": "ALTER TABLE there RESET ({0})",
    "partitioned": "CREATE TABLE made (a int) PARTITION BY LIST (a)",
}
SHOWN = "SELECT relname, reloptions FROM pg_class WHERE relname IN ('there', 'made') ORDER BY 1"


@pytest.fixture(scope="module")
def both(
    postgres_server: PostgresServer, shoal: ShoalServer
) -> Iterator[tuple[psycopg.Connection, psycopg.Connection]]:
    connections = [psycopg.connect(server.dsn) for server in (postgres_server, shoal)]
    for connection in connections:
        connection.execute("DROP SCHEMA IF EXISTS parameters CASCADE")
        connection.execute("CREATE SCHEMA parameters")
        connection.execute("SET search_path = parameters")
        connection.execute("CREATE TABLE there (a int) WITH (fillfactor = 70, autovacuum_enabled)")
        connection.commit()
    yield connections[0], connections[1]
    for connection in connections:
        connection.execute("DROP SCHEMA parameters CASCADE")
        connection.commit()
        connection.close()


def answer(connection: psycopg.Connection, sql: str) -> object:
    """What is shown after it, or its error; nothing is left of it."""
    try:
        connection.execute(sql.encode())
        return connection.execute(SHOWN).fetchall()
    except psycopg.Error as error:
        return error.sqlstate, error.diag.message_primary, error.diag.message_detail
    finally:
        connection.rollback()


@pytest.mark.parametrize("way", ["create", "set", "reset"])
def test_names_and_values_are_postgresqls(both: tuple[psycopg.Connection, psycopg.Connection], way: str) -> None:
    different = []
    for name, value in product(NAMES, VALUES):
        sql = WAYS[way].format(f"{name}{value}")
        theirs, ours = (answer(connection, sql) for connection in both)
        if ours != theirs:
            different.append((sql, ours, theirs))
    assert different == [], "\n".join(map(str, different))


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE there SET (fillfactor = 80), SET (parallel_workers = 2), RESET (autovacuum_enabled)",
        "ALTER TABLE there SET (fillfactor = 80, fillfactor = 90)",
        "ALTER TABLE there SET (toast.autovacuum_enabled = off, autovacuum_enabled = off)",
        "ALTER TABLE there RESET (fillfactor, autovacuum_enabled)",
        "ALTER TABLE there ALTER a SET (n_distinct = 5)",
        "CREATE TABLE made (a int) PARTITION BY LIST (a)",
        "CREATE TABLE made (a int) PARTITION BY LIST (a) WITH (fillfactor = 70)",
        "CREATE TABLE made WITH (fillfactor = 70) AS SELECT 1 AS a",
        "CREATE TABLE made WITH (nothing = 70) AS SELECT 1 AS a",
        "CREATE INDEX ON there (a) WITH (fillfactor = 101)",
        "CREATE INDEX ON there (a) WITH (nothing)",
        "CREATE INDEX ON there (a) WITH (deduplicate_items = maybe)",
    ],
)
def test_statements_are_postgresqls(both: tuple[psycopg.Connection, psycopg.Connection], sql: str) -> None:
    theirs, ours = (answer(connection, sql) for connection in both)
    assert ours == theirs


@pytest.mark.parametrize("value", ["on", "off", "auto", "OFF"])
def test_columnar_is_kept_and_shown(both: tuple[psycopg.Connection, psycopg.Connection], value: str) -> None:
    found = answer(both[1], f"ALTER TABLE there SET (columnar = {value})")
    assert found == [("there", ["fillfactor=70", "autovacuum_enabled=true", f"columnar={value.lower()}"])]


def test_columnar_takes_nothing_else(both: tuple[psycopg.Connection, psycopg.Connection]) -> None:
    detail = 'Valid values are "on", "off", and "auto".'
    expected = ("22023", 'invalid value for enum option "columnar": true', detail)
    assert answer(both[1], "ALTER TABLE there SET (columnar)") == expected
