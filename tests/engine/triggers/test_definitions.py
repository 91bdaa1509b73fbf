"""CREATE, ALTER and DROP TRIGGER, their errors, dependencies and catalogs are PostgreSQL's."""

from __future__ import annotations

from tests.engine.session.conftest import Pair
from tests.engine.triggers.script import TRACE, compare

TABLES = (
    "CREATE TABLE t (a int PRIMARY KEY, note text, n int, g int GENERATED ALWAYS AS (a * 2) STORED)",
    "CREATE TABLE p (a int PRIMARY KEY, note text) PARTITION BY RANGE (a)",
    "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
    "CREATE VIEW v AS SELECT * FROM t",
    "CREATE SEQUENCE s",
    "CREATE MATERIALIZED VIEW m AS SELECT * FROM t",
    "CREATE FUNCTION other() RETURNS int LANGUAGE sql AS 'SELECT 1'",
)
SHOWN = (
    "SELECT tgrelid::regclass, tgname, tgtype, tgenabled, tgparentid <> 0, tgnargs, tgattr, tgargs, tgdeferrable,"
    " tginitdeferred, tgconstraint <> 0, tgfoid::regproc, pg_get_triggerdef(oid), pg_get_triggerdef(oid, true)"
    " FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1, 2",
    "SELECT relname, relhastriggers FROM pg_class WHERE relname IN ('t', 'p', 'p1', 'v') ORDER BY 1",
    "SELECT conname, contype, condeferrable, condeferred FROM pg_constraint WHERE contype = 't' ORDER BY 1",
    "SELECT * FROM information_schema.triggered_update_columns ORDER BY 3, 7",
)
GOOD = (
    "a BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION trace()",
    "b AFTER INSERT OR DELETE OR UPDATE OF n, a ON t EXECUTE PROCEDURE trace(1, 'it''s', 2.5, word)",
    "c AFTER UPDATE ON t FOR EACH ROW WHEN (OLD.n > 1 OR (NEW.note <> 'x' AND new.g IS NULL)) EXECUTE FUNCTION trace()",
    "d BEFORE TRUNCATE ON t FOR EACH STATEMENT EXECUTE FUNCTION trace()",
    "e BEFORE UPDATE ON p FOR EACH ROW EXECUTE FUNCTION trace()",
    "f AFTER DELETE ON v FOR EACH STATEMENT EXECUTE FUNCTION trace()",
)
CONSTRAINTS = (
    "k1 AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION trace()",
    "k2 AFTER INSERT ON t DEFERRABLE FOR EACH ROW EXECUTE FUNCTION trace()",
    "k3 AFTER UPDATE OF n ON t FROM p INITIALLY DEFERRED FOR EACH ROW WHEN (new.n > 3) EXECUTE FUNCTION trace()",
)
BAD = (
    "a BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION trace()",
    "x BEFORE INSERT ON nowhere FOR EACH ROW EXECUTE FUNCTION trace()",
    "x BEFORE INSERT ON s FOR EACH ROW EXECUTE FUNCTION trace()",
    "x BEFORE INSERT ON m FOR EACH ROW EXECUTE FUNCTION trace()",
    "x BEFORE INSERT ON pg_class FOR EACH ROW EXECUTE FUNCTION trace()",
    "x INSTEAD OF INSERT ON t FOR EACH ROW EXECUTE FUNCTION trace()",
    "x INSTEAD OF INSERT ON v EXECUTE FUNCTION trace()",
    "x BEFORE INSERT ON v FOR EACH ROW EXECUTE FUNCTION trace()",
    "x BEFORE TRUNCATE ON v EXECUTE FUNCTION trace()",
    "x BEFORE TRUNCATE ON t FOR EACH ROW EXECUTE FUNCTION trace()",
    "x BEFORE INSERT OR INSERT ON t EXECUTE FUNCTION trace()",
    "x BEFORE INSERT ON t EXECUTE FUNCTION missing()",
    "x BEFORE INSERT ON t EXECUTE FUNCTION other()",
    "x BEFORE UPDATE OF missing ON t EXECUTE FUNCTION trace()",
    "x BEFORE UPDATE OF n, n ON t EXECUTE FUNCTION trace()",
    "x BEFORE INSERT ON t FOR EACH ROW WHEN (old.a = 1) EXECUTE FUNCTION trace()",
    "x BEFORE DELETE ON t FOR EACH ROW WHEN (new.a = 1) EXECUTE FUNCTION trace()",
    "x BEFORE INSERT ON t FOR EACH ROW WHEN (new.g = 1) EXECUTE FUNCTION trace()",
    "x BEFORE INSERT ON t FOR EACH STATEMENT WHEN (new.a = 1) EXECUTE FUNCTION trace()",
    "x BEFORE UPDATE ON t FOR EACH ROW WHEN (a = 1) EXECUTE FUNCTION trace()",
    "x BEFORE UPDATE ON t FOR EACH ROW WHEN (new.a) EXECUTE FUNCTION trace()",
    "x BEFORE UPDATE ON t FOR EACH ROW WHEN (new.missing = 1) EXECUTE FUNCTION trace()",
    "x AFTER UPDATE ON t REFERENCING OLD ROW AS o FOR EACH ROW EXECUTE FUNCTION trace()",
    "x BEFORE UPDATE ON t REFERENCING OLD TABLE AS o EXECUTE FUNCTION trace()",
    "x AFTER INSERT ON t REFERENCING OLD TABLE AS o EXECUTE FUNCTION trace()",
    "x AFTER INSERT OR UPDATE ON t REFERENCING NEW TABLE AS o EXECUTE FUNCTION trace()",
    "x AFTER UPDATE OF n ON t REFERENCING NEW TABLE AS o EXECUTE FUNCTION trace()",
    "x AFTER UPDATE ON t REFERENCING NEW TABLE AS o OLD TABLE AS o EXECUTE FUNCTION trace()",
    "e BEFORE UPDATE ON p1 FOR EACH ROW EXECUTE FUNCTION trace()",
)


def test_definitions_and_their_catalogs(pair: Pair) -> None:
    compare(
        pair,
        [
            *TABLES,
            TRACE,
            *(f"CREATE TRIGGER {text}" for text in GOOD),
            *(f"CREATE CONSTRAINT TRIGGER {text}" for text in CONSTRAINTS),
            *SHOWN,
        ],
    )


def test_errors(pair: Pair) -> None:
    compare(
        pair,
        [
            *TABLES,
            TRACE,
            f"CREATE TRIGGER {GOOD[0]}",
            f"CREATE TRIGGER {GOOD[4]}",
            *(f"CREATE TRIGGER {text}" for text in BAD),
            "CREATE OR REPLACE CONSTRAINT TRIGGER x AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION trace()",
            "CREATE FUNCTION f(int) RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
            "SELECT trace()",
            *SHOWN,
        ],
    )


def test_changes(pair: Pair) -> None:
    made = [f"CREATE TRIGGER {text}" for text in GOOD]
    compare(
        pair,
        [
            *TABLES,
            TRACE,
            *made,
            "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20)",
            "CREATE TABLE p3 (note text, a int NOT NULL)",
            "ALTER TABLE p ATTACH PARTITION p3 FOR VALUES FROM (20) TO (30)",
            *SHOWN,
            "ALTER TRIGGER e ON p RENAME TO e2",
            "ALTER TRIGGER e2 ON p1 RENAME TO e3",
            "ALTER TRIGGER a ON t RENAME TO b",
            "ALTER TRIGGER z ON t RENAME TO y",
            "ALTER TRIGGER a ON t RENAME TO a2",
            "CREATE OR REPLACE TRIGGER a2 BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION trace('new')",
            *SHOWN,
            "ALTER TABLE t DISABLE TRIGGER a2",
            "ALTER TABLE t ENABLE REPLICA TRIGGER b",
            "ALTER TABLE p ENABLE ALWAYS TRIGGER e2",
            "ALTER TABLE t ENABLE TRIGGER missing",
            *SHOWN,
            "ALTER TABLE t DISABLE TRIGGER USER",
            *SHOWN,
            "ALTER TABLE t ENABLE TRIGGER ALL",
            "COMMENT ON TRIGGER a2 ON t IS 'words'",
            "SELECT obj_description(oid, 'pg_trigger') FROM pg_trigger WHERE tgname = 'a2'",
            "DROP TRIGGER e2 ON p1",
            "ALTER TABLE p DETACH PARTITION p3",
            SHOWN[0],
            "DROP TRIGGER e2 ON p",
            SHOWN[0],
            "DROP TRIGGER e2 ON p",
            "DROP TRIGGER IF EXISTS e2 ON p",
            "DROP MATERIALIZED VIEW m",
            "ALTER TABLE t DROP COLUMN n",
            "DROP FUNCTION trace()",
            "ALTER TABLE t RENAME COLUMN note TO remark",
            SHOWN[0],
            "ALTER TABLE t DROP COLUMN n CASCADE",
            SHOWN[0],
            "DROP FUNCTION trace() CASCADE",
            SHOWN[0],
        ],
    )
