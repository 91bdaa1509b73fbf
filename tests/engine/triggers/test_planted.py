"""A fault in the triggers is noticed by what the other tests compare."""

from __future__ import annotations

import psycopg
import pytest

from tests.engine.session.conftest import Pair
from tests.engine.triggers.planted import FAULTS
from tests.engine.triggers.script import TRACE, compare, outcomes
from tests.oracle import PostgresServer
from tests.torture.planted import PlantedServer

SCRIPT = [
    "CREATE TABLE t (a int PRIMARY KEY, note text, n int)",
    "INSERT INTO t (a, note, n) SELECT i, 'r' || i, i FROM generate_series(1, 7) i",
    TRACE,
    *(
        f"CREATE TRIGGER {name}_{timing} {timing} {event} ON t FOR EACH ROW {condition} EXECUTE FUNCTION trace()"
        for name, event, condition in (
            ("a", "UPDATE OR INSERT", ""),
            ("b", "UPDATE OF note", ""),
            ("c", "UPDATE", "WHEN (new.n > 3)"),
        )
        for timing in ("BEFORE", "AFTER")
    ),
    "UPDATE t SET n = n + 1 WHERE a IN (1, 2, 3)",
    "INSERT INTO t VALUES (20, 'new', 1), (23, 'skipped', 2)",
    "SELECT * FROM t ORDER BY a",
    "CREATE TABLE c (a int PRIMARY KEY REFERENCES t ON DELETE CASCADE, note text)",
    "CREATE TRIGGER s AFTER DELETE ON c EXECUTE FUNCTION trace()",
    "INSERT INTO c VALUES (1), (2)",
    "DELETE FROM t WHERE a = 1",
    "CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN ALTER TABLE c ADD COLUMN more int; RETURN NEW; END $$",
    "CREATE TRIGGER x BEFORE UPDATE ON c FOR EACH ROW EXECUTE FUNCTION change()",
    "UPDATE c SET note = 'x'",
    "CREATE VIEW v AS SELECT a, note FROM t",
    "ALTER VIEW v ALTER note SET DEFAULT 'given'",
    "INSERT INTO v (a) VALUES (30) RETURNING *",
    "SET session_replication_role = replica",
    "INSERT INTO c VALUES (99)",
]


def test_without_a_fault_there_is_nothing_to_notice(pair: Pair) -> None:
    compare(pair, SCRIPT)


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_noticed(fault: str, postgres_server: PostgresServer) -> None:
    with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA planted; SET search_path = planted")
        theirs = outcomes(connection, SCRIPT)
        connection.execute("DROP SCHEMA planted CASCADE")
    with PlantedServer("triggers", fault) as server, psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA planted; SET search_path = planted")
        assert outcomes(connection, SCRIPT) != theirs
