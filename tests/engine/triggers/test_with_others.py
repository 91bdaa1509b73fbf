"""Triggers together with foreign keys, schema changes, defaults of views, row security and other users, beside
PostgreSQL."""

from __future__ import annotations

import pytest

from tests.engine.session.conftest import Pair
from tests.engine.triggers.script import compare

SAY = """
CREATE FUNCTION say() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE NOTICE '% % % % % as %: % -> %', TG_NAME, TG_WHEN, TG_LEVEL, TG_OP, TG_TABLE_NAME, current_user, OLD, NEW;
  IF TG_LEVEL = 'STATEMENT' OR TG_WHEN = 'AFTER' THEN RETURN NULL; END IF;
  RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$
"""


def _all_triggers(table: str) -> list[str]:
    """A trigger of each kind, with names that surround those of foreign keys."""
    return [
        f'CREATE TRIGGER "{name} {when} {level}" {when} INSERT OR UPDATE OR DELETE ON {table} '
        f"FOR EACH {level} EXECUTE FUNCTION say()"
        for name in ("A", "z")  # RI_ConstraintTrigger_... is between them
        for when in ("BEFORE", "AFTER")
        for level in ("ROW", "STATEMENT")
    ]


def _keys(action: str) -> list[str]:
    return [
        SAY,
        "CREATE TABLE p (a int PRIMARY KEY, b int)",
        f"CREATE TABLE c (a int PRIMARY KEY, r int DEFAULT 9 REFERENCES p ON DELETE {action} ON UPDATE {action})",
        "CREATE TABLE g (a int PRIMARY KEY, r int REFERENCES c ON DELETE CASCADE ON UPDATE CASCADE)",
        *_all_triggers("p"),
        *_all_triggers("c"),
        *_all_triggers("g"),
        "INSERT INTO p SELECT i, i FROM generate_series(1, 9) i",
        "INSERT INTO c SELECT i, i / 10 FROM generate_series(10, 45, 5) i",
        "INSERT INTO g SELECT i, i FROM generate_series(10, 45, 5) i",
    ]


@pytest.mark.parametrize("action", ["CASCADE", "SET NULL", "SET DEFAULT", "NO ACTION"])
def test_foreign_keys_fire_statement_triggers(pair: Pair, action: str) -> None:
    compare(
        pair,
        [
            *_keys(action),
            "DELETE FROM p WHERE a = 1",
            "DELETE FROM p WHERE a IN (2, 3)",
            "DELETE FROM p WHERE a = 7",
            "UPDATE p SET a = 40 WHERE a = 4",
            "UPDATE p SET b = 1 WHERE a = 8",
            "WITH x AS (DELETE FROM p WHERE a = 5 RETURNING a), y AS (DELETE FROM p WHERE a = 6) TABLE x",
            "SELECT * FROM p ORDER BY a",
            "SELECT * FROM c ORDER BY a",
            "SELECT * FROM g ORDER BY a",
        ],
    )


SCRIPTS = {
    "two changes of one table in a statement": [
        SAY,
        "CREATE TABLE t (a int PRIMARY KEY, b int)",
        "INSERT INTO t SELECT i, i FROM generate_series(1, 4) i",
        *_all_triggers("t"),
        "WITH x AS (UPDATE t SET b = 0 WHERE a = 1 RETURNING a), y AS (UPDATE t SET b = 5 WHERE a = 2) TABLE x",
    ],
    "a table that refers to itself": [
        SAY,
        "CREATE TABLE t (a int PRIMARY KEY, r int REFERENCES t ON DELETE CASCADE)",
        "INSERT INTO t VALUES (1, NULL), (2, 1), (3, 2), (4, NULL)",
        *_all_triggers("t"),
        "DELETE FROM t WHERE a = 1",
        "SELECT * FROM t",
    ],
    "transition tables of cascades": [
        "CREATE TABLE p (a int PRIMARY KEY)",
        "CREATE TABLE c (a int PRIMARY KEY, r int REFERENCES p ON DELETE CASCADE)",
        "INSERT INTO p VALUES (1), (2), (3)",
        "INSERT INTO c VALUES (10, 1), (11, 1), (20, 2), (30, 3)",
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '% %', TG_TABLE_NAME, "
        "(SELECT string_agg(o::text, ' ' ORDER BY a) FROM o); RETURN NULL; END $$",
        "CREATE TRIGGER x AFTER DELETE ON c REFERENCING OLD TABLE AS o EXECUTE FUNCTION f()",
        "DELETE FROM p WHERE a < 3",
        "CREATE TRIGGER x AFTER DELETE ON p REFERENCING OLD TABLE AS o EXECUTE FUNCTION f()",
        "DELETE FROM p",
    ],
    "foreign keys of a replica": [
        "CREATE TABLE p (a int PRIMARY KEY)",
        "CREATE TABLE c (a int PRIMARY KEY, r int REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE)",
        "CREATE TABLE d (a int PRIMARY KEY, r int REFERENCES p DEFERRABLE INITIALLY DEFERRED)",
        "INSERT INTO p VALUES (1), (2), (3)",
        "INSERT INTO c VALUES (1, 1), (2, 2)",
        "SET session_replication_role = replica",
        "INSERT INTO c VALUES (3, 77)",
        "INSERT INTO d VALUES (3, 77)",
        "UPDATE c SET r = 78 WHERE a = 3",
        "DELETE FROM p WHERE a = 1",
        "UPDATE p SET a = 20 WHERE a = 2",
        "SET session_replication_role = origin",
        "INSERT INTO c VALUES (4, 77)",
        "UPDATE c SET r = 79 WHERE a = 3",
        "SELECT * FROM c ORDER BY a",
        "SELECT * FROM d ORDER BY a",
        "ALTER TABLE c ADD CONSTRAINT other FOREIGN KEY (r) REFERENCES p",
        "SET session_replication_role = replica",
        "ALTER TABLE c ADD CONSTRAINT other FOREIGN KEY (r) REFERENCES p",
        "RESET session_replication_role",
        "BEGIN",
        "SET LOCAL session_replication_role = replica",
        "INSERT INTO c VALUES (5, 77)",
        "COMMIT",
        "INSERT INTO c VALUES (6, 77)",
    ],
    "all triggers of a table disabled": [
        SAY,
        "CREATE TABLE p (a int PRIMARY KEY)",
        "CREATE TABLE c (a int PRIMARY KEY, r int REFERENCES p ON DELETE CASCADE)",
        "CREATE TRIGGER x BEFORE INSERT ON c FOR EACH ROW EXECUTE FUNCTION say()",
        "INSERT INTO p VALUES (1), (2)",
        "ALTER TABLE c DISABLE TRIGGER USER",
        "INSERT INTO c VALUES (1, 5)",
        "ALTER TABLE c DISABLE TRIGGER ALL",
        "INSERT INTO c VALUES (1, 5), (2, 2)",
        "DELETE FROM p WHERE a = 2",
        "SELECT * FROM c ORDER BY a",
        "ALTER TABLE c ENABLE TRIGGER USER",
        "INSERT INTO c VALUES (3, 6)",
        "ALTER TABLE c ENABLE TRIGGER ALL",
        "INSERT INTO c VALUES (4, 6)",
        "INSERT INTO c VALUES (4, 1)",
        "ALTER TABLE p DISABLE TRIGGER ALL",
        "DELETE FROM p WHERE a = 1",
        "SELECT * FROM c ORDER BY a",
        "INSERT INTO c VALUES (5, 6)",
    ],
    "schema changes in a trigger": [
        "CREATE TABLE t (a int PRIMARY KEY, b int)",
        "CREATE TABLE o (a int)",
        "CREATE INDEX i ON t (b)",
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN EXECUTE TG_ARGV[0]; RETURN NEW; END $$",
        *(
            statement
            for number, change in enumerate(
                (
                    "ALTER TABLE t ADD COLUMN c int",
                    "ALTER TABLE t DISABLE TRIGGER USER",
                    "DROP TABLE t",
                    "DROP INDEX i",
                    "TRUNCATE t",
                    "DROP TRIGGER x0 ON t",
                    "ALTER TABLE o ADD COLUMN d int",
                    "TRUNCATE o",
                    "DROP TABLE o",
                    "CREATE TABLE o (a int)",
                    "CREATE TABLE q (a int); ALTER TABLE q ADD COLUMN b int; DROP TABLE q",
                )
            )
            for statement in (
                f"CREATE TRIGGER x{number} {'AFTER' if number % 2 else 'BEFORE'} INSERT ON t FOR EACH ROW "
                f"EXECUTE FUNCTION f('{change}')",
                f"INSERT INTO t VALUES ({number}, 1)",
                f"DROP TRIGGER x{number} ON t",
            )
        ),
        "SELECT * FROM t ORDER BY a",
    ],
    "schema changes in a function of a query": [
        "CREATE TABLE t (a int PRIMARY KEY, b int)",
        "INSERT INTO t VALUES (1, 1)",
        "CREATE FUNCTION f(s text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN EXECUTE s; RETURN 1; END $$",
        "SELECT f('ALTER TABLE t ADD COLUMN c int') FROM t",
        "SELECT f('DROP TABLE t') FROM t",
        "SELECT f('ALTER TABLE t ADD COLUMN c int')",
        "SELECT * FROM t",
    ],
    "schema changes with pending triggers": [
        "CREATE TABLE t (a int PRIMARY KEY, b int)",
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '%', NEW; RETURN NULL; END $$",
        "CREATE CONSTRAINT TRIGGER x AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION f()",
        "BEGIN",
        "INSERT INTO t VALUES (1, 1)",
        "SAVEPOINT s",
        "ALTER TABLE t ADD COLUMN c int",
        "ROLLBACK TO s",
        "DROP TABLE t",
        "ROLLBACK TO s",
        "TRUNCATE t",
        "ROLLBACK TO s",
        "SET CONSTRAINTS ALL IMMEDIATE",
        "ALTER TABLE t ADD COLUMN c int",
        "COMMIT",
        "SELECT * FROM t",
    ],
    "defaults of a view's columns": [
        SAY,
        "CREATE SEQUENCE s",
        "CREATE DOMAIN d AS int DEFAULT 70",
        "CREATE TABLE t (a int PRIMARY KEY, b int DEFAULT 5, c text DEFAULT 'base', d d)",
        "CREATE VIEW v AS SELECT * FROM t",
        "ALTER VIEW v ALTER COLUMN a SET DEFAULT nextval('s') + 100",
        "ALTER TABLE v ALTER c SET DEFAULT 'view'",
        "INSERT INTO v DEFAULT VALUES",
        "INSERT INTO v (a) VALUES (1), (DEFAULT), (3)",
        "INSERT INTO v (c, b) SELECT 'x', 7",
        "INSERT INTO v VALUES (DEFAULT, DEFAULT, DEFAULT, DEFAULT)",
        "SELECT * FROM t ORDER BY a",
        "SELECT column_name, column_default FROM information_schema.columns WHERE table_name = 'v' ORDER BY 1",
        "SELECT adnum, pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'v'::regclass ORDER BY 1",
        "SELECT attname, atthasdef FROM pg_attribute WHERE attrelid = 'v'::regclass AND attnum > 0 ORDER BY 1",
        "CREATE TRIGGER i INSTEAD OF INSERT OR UPDATE ON v FOR EACH ROW EXECUTE FUNCTION say()",
        "INSERT INTO v DEFAULT VALUES",
        "INSERT INTO v (a) VALUES (1), (DEFAULT), (3)",
        "INSERT INTO v (c, b) SELECT 'x', 7 RETURNING *",
        "INSERT INTO v VALUES (DEFAULT, DEFAULT, DEFAULT, DEFAULT), (1, 2, 'x', 3)",
        "INSERT INTO v VALUES (1, 2)",
        "INSERT INTO v VALUES (1, 2, 'x', 3, 4)",
        "INSERT INTO v (a, b) VALUES (1)",
        "UPDATE v SET c = DEFAULT, b = DEFAULT WHERE a = 1",
        "CREATE OR REPLACE VIEW v AS SELECT a, b, c, d, a + 1 AS e FROM t",
        "INSERT INTO v (b) VALUES (1)",
        "DROP SEQUENCE s",
        "ALTER SEQUENCE s RENAME TO s2",
        "INSERT INTO v (b) VALUES (1)",
        "DROP SEQUENCE s2 CASCADE",
        "INSERT INTO v (b) VALUES (1)",
        "ALTER VIEW v ALTER c DROP DEFAULT",
        "ALTER VIEW v ALTER missing SET DEFAULT 1",
        "ALTER VIEW v ALTER b SET DEFAULT 'x'",
        "INSERT INTO v (b) VALUES (1)",
    ],
    "a view over a view with defaults": [
        "CREATE TABLE t (a int, b int DEFAULT 5, c int DEFAULT 6)",
        "CREATE VIEW v AS SELECT b AS x, a AS y, c AS z FROM t",
        "CREATE VIEW w AS SELECT z, x, y FROM v",
        "ALTER VIEW v ALTER x SET DEFAULT 50",
        "ALTER VIEW v ALTER y SET DEFAULT 40",
        "ALTER VIEW w ALTER y SET DEFAULT 400",
        "INSERT INTO w DEFAULT VALUES",
        "INSERT INTO v DEFAULT VALUES",
        "INSERT INTO w (z) VALUES (DEFAULT), (1)",
        "SELECT * FROM t",
    ],
    "row security and triggers": [
        "DROP ROLE IF EXISTS tr_reader",
        "CREATE ROLE tr_reader",
        "CREATE TABLE t (a int PRIMARY KEY, b int NOT NULL, owner text)",
        "CREATE POLICY p ON t USING (owner = 'me') WITH CHECK (owner = 'me' AND b < 100)",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
        "GRANT ALL ON t TO tr_reader",
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.a % 2 = 0 THEN NEW.owner := 'me'; "
        "ELSE NEW.owner := 'you'; END IF; IF NEW.b = 50 THEN NEW.b := 500; END IF; IF NEW.b = 60 THEN NEW.b := NULL; "
        "END IF; RAISE NOTICE '% sees %', current_user, (SELECT count(*) FROM t); RETURN NEW; END $$",
        "CREATE TRIGGER x BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION f()",
        "INSERT INTO t VALUES (1, 1, 'me'), (2, 1, 'you')",
        "SET ROLE tr_reader",
        "INSERT INTO t VALUES (3, 1, 'me')",
        "INSERT INTO t VALUES (4, 1, 'you')",
        "INSERT INTO t VALUES (6, 50, 'me')",
        "INSERT INTO t VALUES (6, 60, 'me')",
        "INSERT INTO t VALUES (7, 60, 'me')",
        "UPDATE t SET b = 50 WHERE a = 4",
        "UPDATE t SET b = b + 1",
        "UPDATE t SET a = 5 WHERE a = 4",
        "INSERT INTO t VALUES (4, 2, 'me') ON CONFLICT (a) DO UPDATE SET b = 50",
        "INSERT INTO t VALUES (4, 2, 'me') ON CONFLICT (a) DO UPDATE SET b = 7 RETURNING *",
        "MERGE INTO t USING (VALUES (4), (8), (9)) s (a) ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = 8 "
        "WHEN NOT MATCHED THEN INSERT VALUES (s.a, 1, 'me')",
        "MERGE INTO t USING (VALUES (4), (8)) s (a) ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = 8 "
        "WHEN NOT MATCHED THEN INSERT VALUES (s.a, 1, 'you')",
        "RESET ROLE",
        "SELECT * FROM t ORDER BY a",
        "DROP TABLE t",
        "DROP ROLE tr_reader",
    ],
    "users of triggers": [
        "DROP ROLE IF EXISTS tr_owner",
        "DROP ROLE IF EXISTS tr_user",
        "CREATE ROLE tr_owner",
        "CREATE ROLE tr_user",
        "CREATE TABLE p (a int PRIMARY KEY)",
        "CREATE TABLE c (a int PRIMARY KEY, r int REFERENCES p ON DELETE CASCADE ON UPDATE SET NULL)",
        "CREATE TABLE log (who text, what text)",
        SAY,
        *_all_triggers("p"),
        *_all_triggers("c"),
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN INSERT INTO log VALUES "
        "(current_user, session_user = current_user); RETURN NULL; END $$",
        "CREATE TRIGGER note AFTER DELETE ON p FOR EACH ROW EXECUTE FUNCTION note()",
        "ALTER TABLE c OWNER TO tr_owner",
        "GRANT SELECT ON p TO tr_owner",
        "GRANT ALL ON p TO tr_user",
        "REVOKE EXECUTE ON FUNCTION say() FROM PUBLIC",
        "INSERT INTO p VALUES (1), (2)",
        "INSERT INTO c VALUES (10, 1), (20, 2)",
        "SET ROLE tr_user",
        "DELETE FROM p WHERE a = 1",
        "UPDATE p SET a = 3 WHERE a = 2",
        "DELETE FROM c",
        "RESET ROLE",
        "SELECT what FROM log",
        "DROP TABLE c, p",
        "DROP ROLE tr_owner",
        "DROP ROLE tr_user",
    ],
    "a trigger function that is not volatile": [
        "CREATE TABLE t (a int PRIMARY KEY)",
        "CREATE TABLE o (a int)",
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql STABLE AS "
        "$$ BEGIN INSERT INTO o VALUES (NEW.a); RETURN NEW; END $$",
        "CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
        "INSERT INTO t VALUES (1)",
    ],
    "what a BEFORE STATEMENT trigger writes": [
        "CREATE TABLE t (a int PRIMARY KEY, b int)",
        "INSERT INTO t VALUES (1, 1), (2, 2)",
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN EXECUTE TG_ARGV[0]; RETURN NULL; END $$",
        "CREATE TRIGGER x BEFORE UPDATE ON t EXECUTE FUNCTION f('INSERT INTO t SELECT max(a) + 1, 0 FROM t')",
        "UPDATE t SET b = b + 1 RETURNING *",
        "SELECT * FROM t ORDER BY a",
        "CREATE TRIGGER x BEFORE DELETE ON t EXECUTE FUNCTION f('UPDATE t SET b = 9 WHERE a = 2')",
        "DELETE FROM t WHERE a = 1",
        "DELETE FROM t WHERE b = 9",
        "DELETE FROM t WHERE a = 2",
        "SELECT * FROM t ORDER BY a",
    ],
    "many rows": [
        "CREATE TABLE t (a int PRIMARY KEY, b int DEFAULT 7, c text, d int GENERATED ALWAYS AS (b + a) STORED)",
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.a = 30001 THEN RAISE EXCEPTION "
        "'no more'; END IF; IF NEW.a % 5 = 0 THEN RETURN NULL; END IF; NEW.b := NEW.b + 1; NEW.c := 'x'; "
        "RETURN NEW; END $$",
        "CREATE FUNCTION g() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.a % 5000 = 1 THEN NEW.b := "
        "(SELECT count(*) FROM t); END IF; RETURN NEW; END $$",
        "CREATE TRIGGER f BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
        "INSERT INTO t (a) SELECT i FROM generate_series(1, 30000) i",
        "SELECT count(*), sum(a), sum(b), sum(d), min(c) FROM t",
        "INSERT INTO t (a) SELECT i FROM generate_series(30002, 50000) i UNION ALL SELECT 1 UNION ALL SELECT 30001",
        "INSERT INTO t (a) SELECT i FROM generate_series(30002, 50000) i UNION ALL SELECT 30001 UNION ALL SELECT 1",
        "DELETE FROM t WHERE a > 10",
        "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION g()",
        "INSERT INTO t (a) SELECT i FROM generate_series(30002, 50000) i",
        "SELECT a, b FROM t WHERE a % 5000 = 1 ORDER BY a",
        "UPDATE t SET b = b + 1",
        "SELECT count(*), sum(b) FROM t",
    ],
    "what a statement sees in a transaction that has written": [
        "CREATE TABLE t (a int PRIMARY KEY, b int)",
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "BEGIN UPDATE t SET b = -1 WHERE a = NEW.a - 10; RAISE EXCEPTION 'no'; EXCEPTION WHEN raise_exception THEN "
        "NULL; END; UPDATE t SET b = b + 1000 WHERE a = NEW.a - 10; "
        "RAISE NOTICE '%', (SELECT string_agg(t::text, ' ' ORDER BY a) FROM t); RETURN NEW; END $$",
        "BEGIN",
        "INSERT INTO t SELECT i, i FROM generate_series(1, 3) i",
        "DELETE FROM t WHERE a = 2",
        "CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
        "INSERT INTO t SELECT a + 10, b FROM t",
        "INSERT INTO t SELECT a + 20, b FROM t WHERE b > 1000 RETURNING *",
        "SELECT * FROM t ORDER BY a",
        "COMMIT",
    ],
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_effects(pair: Pair, name: str) -> None:
    compare(pair, SCRIPTS[name])
