"""A statement that waited for a change of the schema goes on with the schema that there is then; as in PostgreSQL."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.samples import some
from tests.server import ShoalServer

WAITS = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s"
MADE = (
    "CREATE SCHEMA met",
    "CREATE TABLE a (id int PRIMARY KEY, v int, w text)",
    "CREATE INDEX av ON a (v)",
    "CREATE VIEW va AS SELECT id, v FROM a",
    "CREATE TABLE r (id int REFERENCES a)",
    "INSERT INTO a VALUES (1, 10, 'x'), (2, 20, 'y')",
)
GONE = ("DROP SCHEMA IF EXISTS met CASCADE",)
OPTIONS = "-c search_path=met"
CHANGES = (
    *(
        "DROP INDEX av",
        "DROP VIEW va",
        "DROP TABLE a CASCADE",
        "ALTER TABLE a RENAME TO b",
        "ALTER TABLE a ADD z int DEFAULT 7",
    ),
    *(
        "ALTER TABLE a DROP COLUMN w",
        "ALTER TABLE a RENAME v TO u",
        "CREATE UNIQUE INDEX aw ON a (w)",
        "TRUNCATE a CASCADE",
    ),
    *("DROP TABLE a CASCADE; CREATE TABLE a (id int, v text)", "ALTER TABLE a ALTER w TYPE varchar(1)"),
    *(
        "DROP VIEW va; CREATE VIEW va AS SELECT 1 AS id",
        "ALTER TABLE a ADD CHECK (v < 25)",
        "ALTER INDEX av RENAME TO other",
    ),
    *("ALTER VIEW va RENAME TO other", "DROP TABLE r", "ALTER TABLE r DROP CONSTRAINT r_id_fkey"),
)
STATEMENTS = (
    *(
        "VACUUM a",
        "VACUUM FULL a",
        "VACUUM ANALYZE a",
        "ANALYZE a",
        "REINDEX TABLE a",
        "REINDEX INDEX av",
        "TRUNCATE a",
    ),
    *(
        "LOCK TABLE a",
        "LOCK TABLE va",
        "SELECT * FROM a ORDER BY id",
        "SELECT * FROM va ORDER BY id",
        "SELECT count(w) FROM a",
    ),
    *(
        "INSERT INTO a VALUES (3, 30)",
        "UPDATE a SET v = 30 WHERE id = 1",
        "UPDATE va SET v = 5 WHERE id = 1",
        "DELETE FROM a",
    ),
    *(
        "SELECT id FROM a WHERE v = 10 FOR UPDATE",
        "CREATE INDEX ON a (w)",
        "ALTER TABLE a ADD y int",
        "DROP TABLE a",
        "DROP VIEW va",
    ),
    *(
        "DROP INDEX av",
        "CREATE VIEW other AS SELECT v FROM a",
        "CREATE TABLE c (LIKE a INCLUDING ALL)",
        "ALTER TABLE a DROP v",
    ),
    *("CREATE TABLE c (id int REFERENCES a)", "CREATE TABLE c () INHERITS (a)", "ALTER TABLE a RENAME TO b"),
    *(
        "MERGE INTO a USING (VALUES (1), (3)) s (k) ON id = k WHEN MATCHED THEN UPDATE SET v = k "
        "WHEN NOT MATCHED THEN INSERT VALUES (k, k)",
    ),
    *(
        "COPY a TO STDOUT",
        "COPY (SELECT * FROM a) TO STDOUT",
        "CREATE MATERIALIZED VIEW c AS SELECT * FROM a",
        "CREATE TABLE c AS SELECT * FROM a",
        "ALTER TABLE a ADD UNIQUE (v)",
        "ALTER TABLE a ALTER v SET NOT NULL",
        "ALTER TABLE a DROP CONSTRAINT a_pkey",
    ),
)


def _met(dsn: str, change: str, statement: str, end: str) -> tuple[object, ...]:
    """What the statement gives that waits for the transaction that changes the schema, and the rows after it."""
    with (
        psycopg.connect(dsn, options=OPTIONS) as first,
        psycopg.connect(dsn, options=OPTIONS, autocommit=True) as second,
        psycopg.connect(dsn, options=OPTIONS, autocommit=True) as watch,
        ThreadPoolExecutor(1) as beside,
    ):
        try:
            for made in (*GONE, *MADE):
                watch.execute(made.encode())
            first.execute(change.encode())
            if statement.startswith("LOCK"):
                second.execute("BEGIN")
            second.execute("SET lock_timeout = '20s'")
            waits = beside.submit(_run, second, statement)
            while not waits.done() and watch.execute(WAITS, (second.info.backend_pid,)).fetchone() != (True,):
                time.sleep(0.002)
            first.execute(end.encode())
            given = waits.result(30)
            second.execute("ROLLBACK")
            return *given, _run(watch, "SELECT * FROM a ORDER BY id"), _run(watch, "SELECT * FROM va ORDER BY id")
        finally:
            first.rollback()
            second.execute("ROLLBACK")
            for gone in GONE:
                watch.execute(gone.encode())


def _run(connection: psycopg.Connection, statement: str) -> tuple[object, ...]:
    try:
        if statement.startswith("COPY"):
            with connection.cursor().copy(statement.encode()) as copy:
                return ("COPY", b"".join(map(bytes, copy)))
        cursor = connection.execute(statement.encode())
    except psycopg.Error as error:
        return (error.sqlstate,)
    return cursor.statusmessage, cursor.fetchall() if cursor.description else ()


# The catalog's unique index tells of the name; a table that was rewritten is empty to an older snapshot (in the manual:
# Caveats of concurrency control); which error of two comes first.
KNOWN = {
    ("ALTER INDEX av RENAME TO other", "CREATE VIEW other AS SELECT v FROM a"),
    ("ALTER VIEW va RENAME TO other", "CREATE VIEW other AS SELECT v FROM a"),
    ("ALTER TABLE a ALTER w TYPE varchar(1)", "COPY a TO STDOUT"),
    ("ALTER TABLE a ALTER w TYPE varchar(1)", "COPY (SELECT * FROM a) TO STDOUT"),
    ("DROP VIEW va; CREATE VIEW va AS SELECT 1 AS id", "UPDATE va SET v = 5 WHERE id = 1"),
}
CASES = [case for case in product(CHANGES, STATEMENTS) if case not in KNOWN]


@pytest.mark.parametrize(("change", "statement"), some(CASES, 6))
def test_the_statement_goes_on_with_the_schema_of_then(
    shoal: ShoalServer, postgres_server: PostgresServer, change: str, statement: str
) -> None:
    for end in ("COMMIT", "ROLLBACK"):
        wanted = _met(postgres_server.dsn, change, statement, end)
        if wanted[0] != "XX000":  # "tuple concurrently updated" and the like
            assert _met(shoal.dsn, change, statement, end) == wanted, end
