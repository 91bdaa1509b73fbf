"""hstore over the rows of triggers: the usual audit of changes, on PostgreSQL and on Shoal."""

from __future__ import annotations

import psycopg

from tests.oracle import PostgresServer
from tests.server import ShoalServer

STATEMENTS = (
    "CREATE EXTENSION hstore",
    "CREATE TABLE people (id int PRIMARY KEY, name text, born date, good bool)",
    "CREATE TABLE audit (n serial, before hstore, after hstore, changes hstore)",
    """CREATE FUNCTION write_audit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO audit (before, after, changes) VALUES (hstore(OLD), hstore(NEW.*), hstore(NEW) - hstore(OLD));
        RETURN NULL; END $$""",
    """CREATE FUNCTION set_name() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        NEW := NEW #= hstore('name', upper(NEW.name)); NEW := NEW #= 'good=>t'; RETURN NEW; END $$""",
    "CREATE TRIGGER a AFTER UPDATE ON people FOR EACH ROW EXECUTE FUNCTION write_audit()",
    "CREATE TRIGGER b BEFORE INSERT ON people FOR EACH ROW EXECUTE FUNCTION set_name()",
    "INSERT INTO people VALUES (1, 'ada', '1815-12-10', NULL), (2, NULL, NULL, false)",
    "UPDATE people SET name = 'Ada', born = NULL WHERE id = 1",
    "UPDATE people SET good = NOT good",
)
QUERIES = ("SELECT * FROM people ORDER BY id", "SELECT before, after, changes FROM audit ORDER BY before -> 'id', n")


def test_audit_triggers_write_what_they_write_in_postgresql(
    shoal: ShoalServer, postgres_server: PostgresServer
) -> None:
    found = []
    for server in (shoal, postgres_server):
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE DATABASE extensions_records")
        dsn = server.dsn.replace("dbname=postgres", "dbname=extensions_records")
        with psycopg.connect(dsn, autocommit=True) as connection:
            for statement in STATEMENTS:
                connection.execute(statement.encode())
            found.append([connection.execute(query.encode()).fetchall() for query in QUERIES])
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("DROP DATABASE extensions_records WITH (FORCE)")
    assert found[0] == found[1]
    assert len(found[0][1]) == 3
