"""USAGE on a schema for whatever a text names in it: without it nothing there can be looked up."""

from __future__ import annotations

import pytest

from tests.engine.session.conftest import Pair, outcome

WORLD = """
CREATE SCHEMA priv;
CREATE TYPE priv.e AS ENUM ('a', 'b');
CREATE DOMAIN priv.d AS int CHECK (VALUE > 0);
CREATE TABLE priv.t (a int, k priv.e);
CREATE SEQUENCE priv.q;
CREATE COLLATION priv.c (provider = icu, locale = 'de');
CREATE FUNCTION priv.f(a int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT a + 1';
CREATE PROCEDURE priv.p(a int) LANGUAGE sql AS 'SELECT a + 1';
GRANT ALL ON ALL TABLES IN SCHEMA priv TO PUBLIC;
GRANT ALL ON ALL SEQUENCES IN SCHEMA priv TO PUBLIC;
CREATE TABLE uses (a int DEFAULT priv.f(1), e priv.e, d priv.d, g int GENERATED ALWAYS AS (priv.f(d)) STORED);
CREATE VIEW shows AS SELECT priv.f(1) AS f, 'a'::priv.e AS e, a FROM priv.t;
GRANT ALL ON uses, shows TO PUBLIC
"""

STATEMENTS = (
    "SELECT priv.f(1)", "SELECT * FROM priv.f(1)", "CALL priv.p(1)", "SELECT 'a'::priv.e", "SELECT priv.e 'a'",
    "SELECT CAST(NULL AS priv.e[])", "SELECT 1::priv.d", "SELECT 'priv.t'::regclass",
    "SELECT 'priv.e'::regtype", "SELECT 'priv.f'::regproc", "SELECT 'priv.f(int)'::regprocedure",
    "SELECT nextval('priv.q')",
    "SELECT currval('priv.q')", "SELECT * FROM priv.t", "INSERT INTO priv.t VALUES (1)", "SELECT * FROM priv.q",
    "SELECT 'a' COLLATE priv.c", "SELECT 'a' < 'b' COLLATE priv.c", "CREATE TEMP TABLE x (e priv.e)",
    "CREATE TEMP TABLE x (d priv.d)", "CREATE TEMP TABLE x (d int DEFAULT priv.f(1))",
    "SELECT to_regclass('priv.t')",
    "PREPARE one AS SELECT priv.f($1)", "PREPARE two(priv.e) AS SELECT $1",
    "INSERT INTO uses (d) VALUES (3) RETURNING a, g",
    "INSERT INTO uses (e) VALUES ('a') RETURNING e, g",
    "SELECT * FROM shows", "UPDATE uses SET d = 4", "SELECT nowhere.f(1)", "SELECT 'a'::nowhere.e",
    "SELECT 'nowhere.t'::regclass",
    # the system's schemas are everybody's
    "SELECT pg_catalog.now() IS NULL, extract(year FROM now()) IS NULL",
    "SELECT position('a' IN 'ba'), overlay('ab' PLACING 'c' FROM 1)",
    "SELECT 1::pg_catalog.int4, 'pg_catalog.pg_class'::regclass, 'pg_catalog.int4'::regtype",
    "SELECT 'a' COLLATE pg_catalog.\"C\"",
    "SELECT count(*) > 0 FROM information_schema.tables", "SELECT 'pg_catalog.now'::regproc",
    "SELECT 1 OPERATOR(pg_catalog.+) 1",
    "CREATE TEMP TABLE x (a pg_catalog.text COLLATE pg_catalog.\"C\" DEFAULT pg_catalog.lower('A'))",
)  # fmt: skip


@pytest.mark.parametrize("granted", [False, True])
def test_usage_is_checked_as_in_postgresql(both_paths: Pair, granted: bool) -> None:
    pair = both_paths
    pair.run(*WORLD.strip().split(";\n"), "CREATE ROLE r", "GRANT USAGE ON SCHEMA statements TO r")
    try:
        if granted:
            pair.run("GRANT USAGE ON SCHEMA priv TO r")
        pair.run("SET ROLE r")
        wrong, denied = [], 0
        for statement in STATEMENTS:
            pair.run("BEGIN")
            found = [outcome(connection, statement) for connection in (pair.shoal, pair.postgres)]
            pair.run("ROLLBACK")
            denied += "permission denied for schema priv" in str(found[1])
            if str(found[0])[:9] != str(found[1])[:9]:
                wrong.append(f"{statement}\n  Shoal      {found[0]}\n  PostgreSQL {found[1]}")
        assert not wrong, "\n".join(wrong)
        assert (denied > 20) is not granted
    finally:
        pair.run(
            "ROLLBACK",
            "RESET ROLE",
            "DROP TABLE uses CASCADE",
            "DROP SCHEMA priv CASCADE",
            "DROP OWNED BY r",
            "DROP ROLE r",
        )


BY_PATH = (
    "SELECT f(1)", "SELECT * FROM f(1)", "CALL p(1)", "SELECT 'a'::e", "SELECT 1::d", "SELECT * FROM t",
    "SELECT * FROM q", "INSERT INTO t VALUES (1)", "SELECT 't'::regclass", "SELECT 'e'::regtype", "SELECT 'f'::regproc",
    "SELECT to_regclass('t')", "SELECT nextval('q')", "SELECT 'a' < 'b' COLLATE c", "SELECT current_schema",
    "SELECT current_schemas(false)", "SELECT current_schemas(true)", "CREATE TABLE made (a int)",
    "CREATE TEMP TABLE x (e e)", "SELECT abs(-1)",
    "SELECT pg_table_is_visible(c.oid) FROM pg_class c JOIN pg_namespace "
    "n ON n.oid = relnamespace WHERE nspname = 'priv' AND relname = 't'", "DROP TABLE t", "ALTER TABLE t ADD b int",
    "SELECT k FROM both_have", "PREPARE one AS SELECT f($1)", "SHOW search_path", "SELECT 1 OPERATOR(priv.+) 1",
    "SELECT OPERATOR(priv.-) 1", "SELECT 1 FROM statements.both_have ORDER BY k USING OPERATOR(priv.<)",
    "SELECT 1 OPERATOR(priv.=) ANY (ARRAY[1])", "SELECT 1 OPERATOR(nowhere.+) 1",
)  # fmt: skip


@pytest.mark.parametrize("granted", [False, True])
@pytest.mark.parametrize("path", ["priv, statements", "statements, priv", "priv", '"$user", priv'])
def test_schemas_without_usage_are_no_part_of_the_path(both_paths: Pair, granted: bool, path: str) -> None:
    pair = both_paths
    pair.run(
        *WORLD.strip().split(";\n"), "CREATE TABLE priv.both_have (k text)", "CREATE TABLE both_have (k int)",
        "CREATE FUNCTION priv.abs(a int) RETURNS int LANGUAGE sql AS 'SELECT 99'", "CREATE ROLE r",
        "GRANT USAGE, CREATE ON SCHEMA statements TO r", "GRANT ALL ON both_have, priv.both_have TO r",
    )  # fmt: skip
    try:
        if granted:
            pair.run("GRANT USAGE ON SCHEMA priv TO r")
        pair.run(f"SET search_path = {path}", "SET ROLE r")
        wrong, skipped = [], 0
        for statement in BY_PATH:
            pair.run("BEGIN")
            found = [outcome(connection, statement) for connection in (pair.shoal, pair.postgres)]
            pair.run("ROLLBACK")
            skipped += "does not exist" in str(found[1])
            if str(found[0])[:12] != str(found[1])[:12] or (found[0] != found[1] and len(found[1]) == 3):
                wrong.append(f"{statement}\n  Shoal      {found[0]}\n  PostgreSQL {found[1]}")
        assert not wrong, "\n".join(wrong)
        assert (skipped > 12) is not granted
    finally:
        pair.run(
            "ROLLBACK", "RESET ROLE", "SET search_path = statements", "DROP TABLE uses CASCADE",
            "DROP SCHEMA priv CASCADE", "DROP OWNED BY r", "DROP ROLE r",
        )  # fmt: skip


def test_plans_follow_usage(both_paths: Pair) -> None:
    """What was planned with the schema in the path is planned again without it, and the other way round."""
    pair = both_paths
    pair.run(
        "CREATE SCHEMA priv", "CREATE TABLE priv.t (a text)", "CREATE TABLE statements.t (a int)", "CREATE ROLE r",
        "GRANT SELECT ON priv.t, statements.t TO r", "GRANT USAGE ON SCHEMA priv, statements TO r",
        "INSERT INTO priv.t VALUES ('far')", "INSERT INTO statements.t VALUES (1)",
        "SET search_path = priv, statements",
    )  # fmt: skip
    try:
        pair.run("SET ROLE r")
        pair.same("SELECT a FROM t")
        for change in ("REVOKE USAGE ON SCHEMA priv FROM r", "GRANT USAGE ON SCHEMA priv TO r"):
            pair.run("RESET ROLE", change, "SET ROLE r")
            pair.same("SELECT a FROM t", "SELECT current_schemas(false)")
    finally:
        pair.run(
            "RESET ROLE", "SET search_path = statements", "DROP SCHEMA priv CASCADE", "DROP OWNED BY r", "DROP ROLE r"
        )
