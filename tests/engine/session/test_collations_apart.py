"""Collations of one name in two databases have nothing to do with each other."""

from __future__ import annotations

import psycopg

from tests.oracle import PostgresServer
from tests.server import ShoalServer

USERS = """
CREATE COLLATION german (provider = icu, locale = 'de-u-co-phonebk');
CREATE TABLE t (id int PRIMARY KEY, name text COLLATE german, CHECK (name > 'a' COLLATE german));
CREATE INDEX ON t (lower(name) COLLATE german);
CREATE VIEW v AS SELECT name FROM t WHERE name < 'z' COLLATE german;
CREATE DOMAIN d AS text CHECK (VALUE > 'a' COLLATE german);
"""


def test_what_another_database_has_is_not_in_the_way(server: ShoalServer | PostgresServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for name in ("collating", "collating_too"):
            connection.execute(f"DROP DATABASE IF EXISTS {name}".encode())
            connection.execute(f"CREATE DATABASE {name}".encode())
    with psycopg.connect(server.dsn, dbname="collating", autocommit=True) as connection:
        connection.execute(USERS.encode())
    with psycopg.connect(server.dsn, dbname="collating_too", autocommit=True) as connection:
        connection.execute("CREATE COLLATION german (provider = icu, locale = 'de-u-co-phonebk')")
        connection.execute("ALTER COLLATION german RENAME TO deutsch")
        connection.execute("ALTER COLLATION deutsch RENAME TO german")
        connection.execute("DROP COLLATION german")
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for name in ("collating", "collating_too"):
            connection.execute(f"DROP DATABASE {name}".encode())
