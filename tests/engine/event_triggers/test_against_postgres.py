"""Event triggers are defined, fire and see of a command what they do in PostgreSQL.

A script is a file of statements, each ended by `;;`: `definitions` with the errors of each, `effects` with what
triggers do, and `reported` with commands on every kind of object, of which triggers tell all that they see.
"""

from __future__ import annotations

import pathlib

import psycopg
import pytest

from tests.engine.triggers.script import outcomes
from tests.server import ShoalServer

HERE = pathlib.Path(__file__).parent
SCRIPTS = sorted(item.stem for item in HERE.glob("*.sql"))


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_are_answered_as_by_postgresql(postgres: psycopg.Connection, shoal: ShoalServer, script: str) -> None:
    statements = [item.strip() for item in (HERE / f"{script}.sql").read_text(encoding="utf-8").split(";;")]
    database = f"of_events_{script}"
    theirs_dsn = f"host=127.0.0.1 port={postgres.info.port} user=postgres dbname=postgres"
    found = []
    for dsn in (shoal.dsn, theirs_dsn):
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {database}".encode())
            within = dsn.replace("dbname=postgres", f"dbname={database}")
            with psycopg.connect(within, autocommit=True) as inside:
                found.append(outcomes(inside, [item for item in statements if item]))
            connection.execute(f"DROP DATABASE {database}".encode())
    wrong = [f"Shoal      {one}\nPostgreSQL {other}" for one, other in zip(*found, strict=True) if one != other]
    assert not wrong, f"{len(wrong)} of {len(found[0])}:\n" + "\n".join(wrong[:20])


def test_event_triggers_outlive_a_kill(private_shoal: ShoalServer) -> None:
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        for statement in (
            "CREATE TABLE seen (tag text)",
            "CREATE FUNCTION note() RETURNS event_trigger LANGUAGE plpgsql AS"
            " 'BEGIN INSERT INTO seen VALUES (tg_tag); END'",
            "CREATE EVENT TRIGGER noted ON ddl_command_end EXECUTE FUNCTION note()",
            "CREATE TABLE before (a int)",
        ):
            connection.execute(statement)
    private_shoal.kill()
    private_shoal.start()
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE VIEW after AS SELECT * FROM before")
        assert connection.execute("SELECT * FROM seen").fetchall() == [("CREATE TABLE",), ("CREATE VIEW",)]
