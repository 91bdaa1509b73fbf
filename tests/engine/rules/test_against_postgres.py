"""Rules are defined, shown and applied as in PostgreSQL: rows, tags, errors and the texts of definitions.

A script is a file of statements, each ended by `;;`. The generated tests make random rules on a table or a view and run
random statements on it.
"""

from __future__ import annotations

import pathlib
import random
from collections.abc import Iterator

import psycopg
import pytest

from tests.engine.triggers.script import Outcome, outcomes
from tests.server import ShoalServer

HERE = pathlib.Path(__file__).parent
SCRIPTS = sorted(item.stem for item in HERE.glob("*.sql"))
ROUNDS = 40
ON_COLUMNS = 4

CONDITIONS = {
    "INSERT": ("new.a > 2", "new.b IS NULL", "new.a IN (SELECT a FROM o)"),
    "UPDATE": ("new.c IS DISTINCT FROM old.c", "old.a < 3", "new.b > old.b", "old.c + new.c > 20"),
    "DELETE": ("old.a % 2 = 0", "EXISTS (SELECT 1 FROM o WHERE o.a = old.a)"),
}
ACTIONS = {
    "INSERT": (
        "INSERT INTO log VALUES ('i', new.a, new.b, new.c)",
        "INSERT INTO log (what, c) SELECT 'many' || g, new.c FROM generate_series(1, 2) g",
        "UPDATE o SET b = new.b WHERE o.a = new.a",
        "DELETE FROM o WHERE a = new.a + 1",
        "INSERT INTO o (a, b) VALUES (new.a + 50, DEFAULT)",
        "INSERT INTO base VALUES (new.a + 20, new.b, new.c)",
    ),
    "UPDATE": (
        "INSERT INTO log VALUES ('u', old.a, old.b || '>' || new.b, new.c - old.c)",
        "UPDATE o SET b = new.b, c = o.c + old.c WHERE o.a = old.a",
        "DELETE FROM o USING log WHERE o.a = new.a AND log.a = o.a",
        "UPDATE base SET c = new.c + 1 WHERE a = old.a",
        "INSERT INTO o SELECT l.a + 70, max(l.b), count(*) FROM log l GROUP BY l.a",
    ),
    "DELETE": (
        "INSERT INTO log (a, b) VALUES (old.a, old.b)",
        "UPDATE o SET c = -old.c WHERE a = old.a",
        "DELETE FROM base WHERE a = old.a + 1",
        "DELETE FROM o WHERE o.b = old.b",
    ),
}
STATEMENTS = (
    "INSERT INTO {t} VALUES (10, 'ten', 1)",
    "INSERT INTO {t} (a, b) VALUES (11, 'x'), (1, 'twice'), (12, NULL)",
    "INSERT INTO {t} (b, a) SELECT b || 'o', a + 30 FROM o",
    "INSERT INTO {t} (a, c) VALUES (14, DEFAULT)",
    "UPDATE {t} SET c = c + 10 WHERE a < 4",
    "UPDATE {t} SET b = o.b, c = DEFAULT FROM o WHERE {t}.a = o.a",
    "UPDATE {t} SET b = 'same'",
    "UPDATE {t} x SET c = (SELECT max(a) FROM o) WHERE x.b IS NOT NULL",
    "UPDATE {t} SET c = 2 WHERE a = 77",
    "DELETE FROM {t} WHERE a = 2",
    "DELETE FROM {t} USING o WHERE {t}.a = o.a AND o.b > 'b'",
    "DELETE FROM {t}",
    "UPDATE {t} SET c = 1 WHERE a = 3 RETURNING a, c",
    "INSERT INTO {t} VALUES (15, 'r', 2) RETURNING *",
)
TABLES = (
    "CREATE TABLE base (a int, b text, c int DEFAULT 7)",
    "CREATE TABLE t (a int, b text, c int DEFAULT 7)",
    "CREATE VIEW v AS SELECT a, b, c FROM t WHERE a < 100",
    "CREATE TABLE o (a int, b text DEFAULT 'o', c int DEFAULT 0)",
    "CREATE TABLE log (what text DEFAULT 'd', a int, b text, c int)",
    "INSERT INTO t SELECT i, chr(96 + i), i FROM generate_series(1, 5) i",
    "INSERT INTO base SELECT * FROM t",
    "INSERT INTO o SELECT i, chr(95 + i), i FROM generate_series(2, 4) i",
)
LOOK = tuple(f"SELECT * FROM {name} r ORDER BY r.*::text" for name in ("t", "base", "o", "log"))


def _rules(chance: random.Random, relation: str) -> Iterator[str]:
    """Two or three rules."""
    for number in range(chance.choice((2, 3))):
        event = chance.choice(tuple(ACTIONS))
        condition = f" WHERE {chance.choice(CONDITIONS[event])}" if chance.random() < 0.5 else ""
        kind = chance.choice(("", "ALSO", "INSTEAD", "INSTEAD"))
        actions = chance.sample(ACTIONS[event], chance.choice((0, 1, 1, 1, 2)))
        done = "NOTHING" if not actions else actions[0] if len(actions) == 1 else f"({'; '.join(actions)})"
        yield f"CREATE RULE r{number} AS ON {event} TO {relation}{condition} DO {kind} {done}"


def _program(seed: int) -> list[str]:
    chance = random.Random(seed)
    found = [
        "SET client_min_messages = warning",
        "DROP SCHEMA IF EXISTS ruled CASCADE",
        "CREATE SCHEMA ruled",
        "SET search_path = ruled",
        *TABLES,
    ]
    relation = "v" if seed % 3 == 0 else "t"
    found += _rules(chance, relation)
    found.append("SELECT definition FROM pg_rules WHERE schemaname = 'ruled' ORDER BY rulename")
    for statement in chance.sample(STATEMENTS, 4):
        found += [statement.format(t=relation), *LOOK]
    return found


def _compare(found: list[list[Outcome]]) -> None:
    wrong = [f"Shoal      {one}\nPostgreSQL {other}" for one, other in zip(*found, strict=True) if one != other]
    assert not wrong, f"{len(wrong)} of {len(found[0])}:\n" + "\n".join(wrong[:20])


def _run(ours: str, theirs: str, database: str, statements: list[str]) -> list[list[Outcome]]:
    """What each statement gives in a new database of each server."""
    found = []
    for dsn in (ours, theirs):
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {database}".encode())
            with psycopg.connect(dsn.replace("dbname=postgres", f"dbname={database}"), autocommit=True) as inside:
                found.append(outcomes(inside, statements))
            connection.execute(f"DROP DATABASE {database}".encode())
    return found


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_are_answered_as_by_postgresql(postgres: psycopg.Connection, shoal: ShoalServer, script: str) -> None:
    statements = [item.strip() for item in (HERE / f"{script}.sql").read_text(encoding="utf-8").split(";;")]
    theirs = f"host=127.0.0.1 port={postgres.info.port} user=postgres dbname=postgres"
    _compare(_run(shoal.dsn, theirs, f"of_rules_{script}", [item for item in statements if item]))


@pytest.mark.parametrize("path", ["auto", "columnar"])
def test_random_rules_do_what_they_do_in_postgresql(
    postgres: psycopg.Connection, shoal: ShoalServer, path: str
) -> None:
    theirs = f"host=127.0.0.1 port={postgres.info.port} user=postgres dbname=postgres"
    seeds = range(ROUNDS) if path == "auto" else range(ROUNDS, ROUNDS + ON_COLUMNS)
    statements = [statement for seed in seeds for statement in _program(seed)]
    ours = f"{shoal.dsn} options='-c shoal.path={path}'"
    _compare(_run(ours, theirs, "of_random_rules", statements))


def test_rules_outlive_a_kill(private_shoal: ShoalServer) -> None:
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        for statement in (
            "CREATE TABLE t (a int)",
            "CREATE TABLE log (a int)",
            "CREATE RULE r AS ON INSERT TO t DO INSTEAD INSERT INTO log VALUES (new.a)",
            "INSERT INTO t VALUES (1)",
        ):
            connection.execute(statement)
    private_shoal.kill()
    private_shoal.start()
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        connection.execute("INSERT INTO t VALUES (2)")
        assert connection.execute("SELECT * FROM log ORDER BY a").fetchall() == [(1,), (2,)]
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE RULE x AS ON SELECT TO t DO INSTEAD SELECT 1 AS a",
        "CREATE RULE x AS ON INSERT TO t DO SELECT 1",
        "CREATE RULE x AS ON INSERT TO t DO (SELECT 1; SELECT 2)",
        "CREATE RULE x AS ON INSERT TO t DO NOTIFY x",
        "CREATE RULE x AS ON INSERT TO t DO INSERT INTO log VALUES (1), (2)",
        "CREATE RULE x AS ON INSERT TO pairs DO INSERT INTO more VALUES (new.*, 1)",
        "CREATE RULE x AS ON INSERT TO t DO INSERT INTO log VALUES (1) ON CONFLICT DO NOTHING",
        "CREATE RULE x AS ON INSERT TO t DO INSERT INTO seen VALUES (1)",
        "WITH w AS (INSERT INTO t VALUES (1) RETURNING a) SELECT * FROM w",
        "INSERT INTO seen VALUES (1)",
        "SELECT in_sql()",
        "EXPLAIN INSERT INTO t VALUES (1)",
        "ALTER TABLE log RENAME TO logs",
        "ALTER TABLE log RENAME COLUMN a TO b",
        "ALTER TABLE log ALTER COLUMN a TYPE bigint",
    ],
)
def test_what_rules_do_not_do_is_refused_by_name(shoal: ShoalServer, statement: str) -> None:
    with psycopg.connect(shoal.dsn) as connection:
        for made in (
            "CREATE TABLE t (a int)",
            "CREATE TABLE log (a int)",
            "CREATE TABLE pairs (a int, b int)",
            "CREATE TABLE more (a int, b int, c int)",
            "CREATE VIEW seen AS SELECT a FROM t",
            "CREATE FUNCTION in_sql() RETURNS void LANGUAGE sql AS 'INSERT INTO t VALUES (1)'",
            "CREATE RULE r AS ON INSERT TO t DO INSERT INTO log VALUES (new.a)",
        ):
            connection.execute(made)
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="is not supported"):
            connection.execute(statement.encode())
        connection.rollback()
