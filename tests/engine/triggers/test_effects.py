"""What triggers do is PostgreSQL's: visibility, errors and their context, recursion, cascades, deferral, COPY, "
"users."""

from __future__ import annotations

import pytest

from tests.engine.session.conftest import Pair
from tests.engine.triggers.script import TRACE, compare

T = "CREATE TABLE t (a int PRIMARY KEY, note text, n int)"
FILL = "INSERT INTO t (a, note, n) SELECT i, 'r' || i, i FROM generate_series(1, 5) i"


def _function(name: str, body: str, more: str = "") -> str:
    return f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql {more} AS $${body}$$"


def _trigger(name: str, when: str, function: str, table: str = "t", level: str = "ROW") -> str:
    return f"CREATE TRIGGER {name} {when} ON {table} FOR EACH {level} EXECUTE FUNCTION {function}()"


SCRIPTS = {
    "rows written before are visible": [
        _function(
            "f", "DECLARE c int; BEGIN SELECT count(*) INTO c FROM t; RAISE NOTICE '% %', TG_WHEN, c; RETURN NEW; END"
        ),
        _trigger("x", "BEFORE INSERT", "f"),
        _trigger("y", "AFTER INSERT", "f"),
        "INSERT INTO t VALUES (10), (11), (12)",
        "INSERT INTO t SELECT a + 20 FROM t",
    ],
    "each row is tested when the triggers of the rows before it have fired": [
        "CREATE FUNCTION noisy(x text) RETURNS boolean LANGUAGE plpgsql AS "
        "$$BEGIN RAISE NOTICE 'noisy % %', pg_typeof(x), x; RETURN x <> 'r2'; END$$",
        _function("f", "BEGIN RAISE NOTICE '% % %', TG_WHEN, OLD, NEW; RETURN coalesce(NEW, OLD); END"),
        _trigger("x", "BEFORE UPDATE OR DELETE", "f"),
        _trigger("y", "AFTER UPDATE OR DELETE", "f"),
        "DELETE FROM t WHERE noisy(note) AND noisy(note || n) AND a > 3",
        "UPDATE t SET n = n + 1 WHERE (noisy(note) OR a = 2) AND a < 4 RETURNING *",
    ],
    "records without a value": [
        _function(
            "f",
            "DECLARE r record; BEGIN IF TG_WHEN = 'BEFORE' AND NEW.a <> 11 THEN r := NEW; ELSE r := NULL; END IF;"
            "RAISE NOTICE '%', TG_WHEN; RETURN r; END",
        ),
        _trigger("x", "BEFORE INSERT", "f"),
        _trigger("y", "AFTER INSERT", "f"),
        "INSERT INTO t VALUES (10, 'x', 1), (11, 'y', 2), (12, 'z', 3) RETURNING *",
        "DO $$DECLARE r record; BEGIN r := NULL; PERFORM r.*; END$$",
        "DO $$DECLARE r record; BEGIN r := NULL; RAISE NOTICE '%', r.a; END$$",
        "CREATE FUNCTION nothing() RETURNS t LANGUAGE plpgsql AS $$DECLARE r record; BEGIN RETURN r; END$$",
        "SELECT nothing()",
        "SELECT * FROM nothing()",
        "CREATE FUNCTION nones() RETURNS SETOF t LANGUAGE plpgsql AS $$DECLARE r record; BEGIN RETURN NEXT r; END$$",
        "SELECT * FROM nones()",
    ],
    "an audit table": [
        "CREATE TABLE log (id serial, op text, old jsonb, new jsonb, who name DEFAULT current_user)",
        _function(
            "f", "BEGIN INSERT INTO log (op, old, new) VALUES (TG_OP, to_jsonb(OLD), to_jsonb(NEW)); RETURN NULL; END"
        ),
        _trigger("x", "AFTER INSERT OR UPDATE OR DELETE", "f"),
        "INSERT INTO t VALUES (10, 'x', 1)",
        "UPDATE t SET n = 9 WHERE a = 10",
        "DELETE FROM t WHERE a = 10",
        "SELECT id, op, old, new FROM log ORDER BY id",
    ],
    "errors have their context": [
        _function(
            "f",
            "BEGIN\n IF NEW.n > 3 THEN\n  RAISE EXCEPTION 'too much: %', NEW.n USING HINT = 'less';\n END IF;\n "
            "RETURN NEW; END",
        ),
        _function("g", "BEGIN\n UPDATE t SET n = n + 1 WHERE a = NEW.a + 1; RETURN NULL; END"),
        _trigger("x", "BEFORE UPDATE", "f"),
        _trigger("y", "AFTER UPDATE", "g"),
        "UPDATE t SET n = 2 WHERE a = 1",
        "UPDATE t SET n = 100 WHERE a = 5",
        "SELECT * FROM t ORDER BY a",
    ],
    "an end without return": [
        _function("f", "BEGIN NULL; END"),
        _trigger("x", "BEFORE UPDATE", "f"),
        "UPDATE t SET n = 2 WHERE a = 1",
    ],
    "a row of another form": [
        _function("f", "DECLARE r record; BEGIN SELECT 1, 2 INTO r; RETURN r; END"),
        _trigger("x", "BEFORE UPDATE", "f"),
        "UPDATE t SET n = 2 WHERE a = 1",
        "CREATE OR REPLACE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN 1; END$$",
        "UPDATE t SET n = 2 WHERE a = 1",
        "CREATE OR REPLACE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS"
        " $$DECLARE r record; BEGIN SELECT 90, 'made'::text, 7 INTO r; RETURN r; END$$",
        "UPDATE t SET n = 2 WHERE a = 1 RETURNING *",
    ],
    "statement triggers have no rows": [
        _function("f", "BEGIN RAISE NOTICE '%', NEW.a; RETURN NULL; END"),
        _trigger("x", "BEFORE UPDATE", "f", level="STATEMENT"),
        "UPDATE t SET n = 2 WHERE a = 1",
    ],
    "the row itself changes": [
        _function("f", "BEGIN UPDATE t SET note = 'from the trigger' WHERE a = OLD.a; RETURN NEW; END"),
        "CREATE TRIGGER x BEFORE UPDATE ON t FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION f()",
        "UPDATE t SET n = 2 WHERE a = 1",
    ],
    "a later row changes": [
        _function("f", "BEGIN IF OLD.a = 1 THEN UPDATE t SET note = 'changed' WHERE a = 2; END IF; RETURN NEW; END"),
        _trigger("x", "BEFORE UPDATE", "f"),
        "UPDATE t SET n = n + 1 WHERE a < 3",
        _function("g", "BEGIN IF OLD.a = 3 THEN DELETE FROM t WHERE a = 4; END IF; RETURN OLD; END"),
        _trigger("y", "BEFORE DELETE", "g"),
        "DELETE FROM t WHERE a > 2",
        "SELECT * FROM t ORDER BY a",
    ],
    "a deleted row cannot be deleted again": [
        _function("g", "BEGIN DELETE FROM t WHERE a = OLD.a; RETURN OLD; END"),
        "CREATE TRIGGER y BEFORE DELETE ON t FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION g()",
        "DELETE FROM t WHERE a = 2",
        "SELECT * FROM t ORDER BY a",
    ],
    "records as rows": [
        "CREATE TABLE u (LIKE t)",
        _function(
            "f",
            "BEGIN IF NEW.* IS DISTINCT FROM OLD.* THEN INSERT INTO u VALUES (NEW.*); RAISE NOTICE '% %',"
            " row_to_json(NEW), to_jsonb(OLD); END IF; INSERT INTO u SELECT OLD.*; RETURN NEW; END",
        ),
        _trigger("x", "BEFORE UPDATE", "f"),
        "UPDATE t SET n = 7 WHERE a = 1",
        "UPDATE t SET n = n WHERE a = 2",
        "SELECT * FROM u",
    ],
    "a recursion without an end": [
        _function("f", "BEGIN UPDATE t SET n = 1 WHERE a = OLD.a; RETURN NEW; END"),
        _trigger("x", "BEFORE UPDATE", "f"),
        "DO $$BEGIN UPDATE t SET n = 2 WHERE a = 1; EXCEPTION WHEN OTHERS THEN RAISE NOTICE '% %', SQLSTATE, SQLERRM; "
        "END$$",
    ],
    "depth": [
        "CREATE TABLE u (a int)",
        _function(
            "f", "BEGIN RAISE NOTICE '% %', TG_NAME, pg_trigger_depth(); INSERT INTO u VALUES (NEW.a); RETURN NEW; END"
        ),
        _function("g", "BEGIN RAISE NOTICE '% %', TG_NAME, pg_trigger_depth(); RETURN NULL; END"),
        _trigger("x", "BEFORE INSERT", "f"),
        _trigger("y", "AFTER INSERT", "g", "u"),
        "INSERT INTO t VALUES (10)",
        "SELECT * FROM u",
    ],
    "cascades": [
        "CREATE TABLE c (id int PRIMARY KEY, t int REFERENCES t ON DELETE CASCADE ON UPDATE CASCADE)",
        "CREATE TABLE d (id int PRIMARY KEY, c int REFERENCES c ON DELETE SET NULL, note text DEFAULT '')",
        "INSERT INTO c SELECT i, i FROM generate_series(1, 4) i",
        "INSERT INTO d SELECT i, i FROM generate_series(1, 4) i",
        TRACE.replace("OLD.a % 4 = 3", "false")
        .replace("NEW.a % 4 = 3", "false")
        .replace("NEW.note := coalesce(NEW.note, '') || '+' || TG_NAME;", ""),
        *(
            _trigger(f"{w[0]}_{t}", f"{w} INSERT OR UPDATE OR DELETE", "trace", t)
            for w in ("BEFORE", "AFTER")
            for t in ("t", "c", "d")
        ),
        "DELETE FROM t WHERE a = 2",
        "UPDATE t SET a = 30 WHERE a = 3",
        "SELECT * FROM c ORDER BY 1",
        "SELECT * FROM d ORDER BY 1",
    ],
    "names around foreign keys": [
        "CREATE TABLE c (t int REFERENCES t)",
        _function("f", "BEGIN RAISE NOTICE '%', TG_NAME; RETURN NULL; END"),
        'CREATE TRIGGER "A" AFTER INSERT ON c FOR EACH ROW EXECUTE FUNCTION f()',
        _trigger("z", "AFTER INSERT", "f", "c"),
        "INSERT INTO c VALUES (1)",
        "INSERT INTO c VALUES (99)",
        _function("h", "BEGIN INSERT INTO t VALUES (NEW.t); RETURN NULL; END"),
        'CREATE TRIGGER "B" AFTER INSERT ON c FOR EACH ROW EXECUTE FUNCTION h()',
        "INSERT INTO c VALUES (77)",
    ],
    "deferred": [
        _function(
            "f",
            "BEGIN RAISE NOTICE '% % -> %', TG_NAME, OLD, NEW; IF NEW.n < 0 THEN RAISE EXCEPTION 'negative'; END IF; "
            "RETURN NULL; END",
        ),
        "CREATE CONSTRAINT TRIGGER x AFTER INSERT OR UPDATE ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE "
        "FUNCTION f()",
        "CREATE CONSTRAINT TRIGGER y AFTER INSERT OR UPDATE ON t DEFERRABLE FOR EACH ROW EXECUTE FUNCTION f()",
        "BEGIN",
        "INSERT INTO t VALUES (10, 'x', 1)",
        "UPDATE t SET n = 2 WHERE a = 10",
        "COMMIT",
        "BEGIN",
        "INSERT INTO t VALUES (11, 'x', 1)",
        "SET CONSTRAINTS y DEFERRED",
        "UPDATE t SET n = 2 WHERE a = 11",
        "SET CONSTRAINTS ALL IMMEDIATE",
        "UPDATE t SET n = 3 WHERE a = 11",
        "COMMIT",
        "BEGIN",
        "SAVEPOINT s",
        "INSERT INTO t VALUES (12, 'x', 1)",
        "ROLLBACK TO s",
        "INSERT INTO t VALUES (13, 'x', 1)",
        "COMMIT",
        "BEGIN",
        "ALTER TABLE t DISABLE TRIGGER y",
        "INSERT INTO t VALUES (14, 'x', -1)",
        "COMMIT",
        "SELECT * FROM t ORDER BY a",
        "INSERT INTO t VALUES (15, 'x', 1)",
        "SET CONSTRAINTS missing DEFERRED",
    ],
    "replication role": [
        TRACE,
        _trigger("o", "BEFORE UPDATE", "trace"),
        _trigger("r", "BEFORE UPDATE", "trace"),
        _trigger("w", "BEFORE UPDATE", "trace"),
        "ALTER TABLE t ENABLE REPLICA TRIGGER r",
        "ALTER TABLE t ENABLE ALWAYS TRIGGER w",
        "UPDATE t SET n = 1 WHERE a = 1",
        "SET session_replication_role = replica",
        "UPDATE t SET n = 2 WHERE a = 1",
        "SET session_replication_role = local",
        "UPDATE t SET n = 3 WHERE a = 1",
        "RESET session_replication_role",
    ],
    "redundant updates": [
        "CREATE TRIGGER z BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "UPDATE t SET n = 1",
        "UPDATE t SET n = n",
        "CREATE TRIGGER y AFTER UPDATE ON t FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "UPDATE t SET n = 7",
    ],
    "text search": [
        "CREATE TABLE doc (a int, title text, body varchar, v tsvector, c regconfig)",
        "CREATE TRIGGER x BEFORE INSERT OR UPDATE ON doc FOR EACH ROW EXECUTE FUNCTION"
        " tsvector_update_trigger(v, 'pg_catalog.english', title, body)",
        "INSERT INTO doc (a, title, body) VALUES (1, 'Cats running', 'the dogs sleep'), (2, NULL, 'x y')",
        "UPDATE doc SET body = 'changed words' WHERE a = 1 RETURNING *",
        "CREATE TRIGGER y BEFORE UPDATE ON doc FOR EACH ROW EXECUTE FUNCTION"
        " tsvector_update_trigger_column(v, c, title)",
        "UPDATE doc SET c = 'simple'",
        "SELECT * FROM doc ORDER BY a",
        "CREATE TRIGGER z BEFORE UPDATE ON doc FOR EACH ROW EXECUTE FUNCTION"
        " tsvector_update_trigger(title, 'pg_catalog.english', body)",
        "UPDATE doc SET a = 3",
    ],
    "a handler undoes": [
        "CREATE TABLE log (a int)",
        _function(
            "f",
            "BEGIN BEGIN INSERT INTO log VALUES (NEW.a); INSERT INTO log VALUES (1 / (NEW.a - 2));"
            " EXCEPTION WHEN division_by_zero THEN NEW.note := SQLERRM; END; RETURN NEW; END",
        ),
        _trigger("x", "BEFORE UPDATE", "f"),
        "UPDATE t SET n = 0 WHERE a < 4 RETURNING *",
        "SELECT * FROM log ORDER BY 1",
    ],
    "what fails is undone": [
        "CREATE TABLE log (a int)",
        _function(
            "f", "BEGIN INSERT INTO log VALUES (NEW.a); IF NEW.a = 3 THEN RAISE 'three'; END IF; RETURN NEW; END"
        ),
        _trigger("x", "BEFORE UPDATE", "f"),
        "UPDATE t SET n = 0",
        "SELECT * FROM log",
        "BEGIN",
        "UPDATE t SET n = 0 WHERE a = 1",
        "SAVEPOINT s",
        "UPDATE t SET n = 0 WHERE a > 1",
        "ROLLBACK TO s",
        "SELECT * FROM log",
        "COMMIT",
        "SELECT * FROM t ORDER BY a",
    ],
    "moves between partitions": [
        "CREATE TABLE p (a int, note text, n int) PARTITION BY LIST (n)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1)",
        "CREATE TABLE p2 (note text, n int, a int)",
        "ALTER TABLE p ATTACH PARTITION p2 FOR VALUES IN (2)",
        "INSERT INTO p VALUES (1, 'x', 1), (3, 'y', 1), (2, 'z', 2)",
        TRACE,
        _trigger("b", "BEFORE INSERT OR UPDATE OR DELETE", "trace", "p"),
        _trigger("a", "AFTER INSERT OR UPDATE OR DELETE", "trace", "p"),
        _trigger("s", "AFTER INSERT OR UPDATE OR DELETE", "trace", "p", "STATEMENT"),
        _trigger("own", "AFTER INSERT", "trace", "p2"),
        "UPDATE p SET n = 2 WHERE a = 1",
        "UPDATE p SET n = 2 WHERE a = 3",
        "UPDATE p SET note = 'w' RETURNING *",
        "SELECT tableoid::regclass, * FROM p ORDER BY a",
        _function("mover", "BEGIN NEW.n := 3 - NEW.n; RETURN NEW; END"),
        _trigger("m", "BEFORE INSERT", "mover", "p"),
        "INSERT INTO p VALUES (8, 'q', 1)",
    ],
    "inheritance": [
        "CREATE TABLE c () INHERITS (t)",
        "INSERT INTO c VALUES (20, 'child', 1)",
        TRACE,
        _trigger("b", "BEFORE UPDATE OR DELETE", "trace"),
        _trigger("s", "AFTER UPDATE OR DELETE", "trace", "t", "STATEMENT"),
        _trigger("b", "AFTER UPDATE", "trace", "c"),
        "UPDATE t SET n = 7 WHERE a > 4",
        "DELETE FROM t WHERE a > 4",
        "SELECT * FROM t ORDER BY a",
    ],
    "a change through a view": [
        "CREATE VIEW v AS SELECT a, note FROM t WHERE a < 10 WITH CHECK OPTION",
        TRACE,
        _trigger("b", "BEFORE INSERT OR UPDATE", "trace"),
        "INSERT INTO v VALUES (8, 'x')",
        "UPDATE v SET note = 'y' WHERE a = 8 RETURNING *",
        "INSERT INTO v VALUES (12, 'x')",
    ],
    "a security definer": [
        "CREATE ROLE tr_owner",
        "CREATE ROLE tr_user",
        "GRANT USAGE, CREATE ON SCHEMA statements TO tr_owner, tr_user",
        "GRANT ALL ON t TO tr_user",
        _function(
            "f",
            "BEGIN RAISE NOTICE '% %', current_user, session_user = current_user; RETURN NEW; END",
            "SECURITY DEFINER",
        ),
        "ALTER FUNCTION f() OWNER TO tr_owner",
        _function("g", "BEGIN RAISE NOTICE '%', current_user; RETURN NEW; END"),
        _trigger("x", "BEFORE UPDATE", "f"),
        _trigger("y", "AFTER UPDATE", "g"),
        "SET ROLE tr_user",
        "UPDATE t SET n = 1 WHERE a = 1",
        _trigger("z", "BEFORE UPDATE", "g"),
        "DROP TRIGGER z ON t",
        "RESET ROLE",
        "REVOKE TRIGGER ON t FROM tr_user",
        "REVOKE EXECUTE ON FUNCTION g() FROM public",
        "SET ROLE tr_user",
        _trigger("z2", "BEFORE UPDATE", "g"),
        "RESET ROLE",
        "GRANT TRIGGER ON t TO tr_user",
        "SET ROLE tr_user",
        _trigger("z2", "BEFORE UPDATE", "g"),
        "UPDATE t SET n = 2 WHERE a = 1",
        "RESET ROLE",
        "DROP OWNED BY tr_owner, tr_user CASCADE",
        "DROP ROLE tr_owner",
        "DROP ROLE tr_user",
    ],
    "a bulk insert": [
        _function("f", "BEGIN NEW.n := NEW.n + 1; IF NEW.a % 1000 = 0 THEN RETURN NULL; END IF; RETURN NEW; END"),
        _trigger("x", "BEFORE INSERT OR UPDATE OR DELETE", "f"),
        "INSERT INTO t SELECT i, 'r', i FROM generate_series(10, 20000) i",
        "SELECT count(*), sum(n) FROM t",
        "UPDATE t SET note = 'u'",
        "SELECT count(*), sum(n) FROM t WHERE note = 'u'",
    ],
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_effects(pair: Pair, name: str) -> None:
    compare(pair, [T, FILL, *SCRIPTS[name]])


def test_copy(pair: Pair) -> None:
    for connection in (pair.shoal, pair.postgres):
        for statement in (
            T,
            FILL,
            TRACE,
            _trigger("b", "BEFORE INSERT", "trace"),
            _trigger("a", "AFTER INSERT", "trace"),
            _trigger("s", "AFTER INSERT", "trace", "t", "STATEMENT"),
        ):
            connection.execute(statement.encode())
    found = []
    for connection in (pair.shoal, pair.postgres):
        notices: list[str] = []
        handler = lambda message, notices=notices: notices.append(message.message_primary)  # noqa: E731
        connection.add_notice_handler(handler)
        with connection.cursor() as cursor:
            with cursor.copy("COPY t (a, note) FROM STDIN") as copy:
                copy.write("20\tx\n23\ty\n24\t\\N\n")
            status = cursor.statusmessage
        connection.remove_notice_handler(handler)
        found.append((status, notices, connection.execute("SELECT * FROM t ORDER BY a").fetchall()))
    assert found[0] == found[1]


TRANSITIONS = (
    T,
    FILL,
    "CREATE TABLE log (who text, o text, n text)",
    _function(
        "f",
        "BEGIN INSERT INTO log SELECT TG_NAME, (SELECT string_agg(t::text, ' ' ORDER BY a) FROM o t),"
        " (SELECT string_agg(t::text, ' ' ORDER BY a) FROM n t); RAISE NOTICE '%', (SELECT count(*) FROM n); RETURN "
        "NULL; END",
    ),
    _function(
        "g",
        "BEGIN INSERT INTO log SELECT TG_NAME, 'none', string_agg(n.a::text || n.note, ' ' ORDER BY a) FROM n; RETURN "
        "NULL; END",
    ),
    _function(
        "h",
        "BEGIN INSERT INTO log SELECT TG_NAME, string_agg(o.a::text, ' ' ORDER BY a), 'none' FROM o; RETURN NULL; END",
    ),
)


@pytest.mark.parametrize("level", ["ROW", "STATEMENT"])
def test_transition_tables(pair: Pair, level: str) -> None:
    compare(
        pair,
        [
            *TRANSITIONS,
            f"CREATE TRIGGER u AFTER UPDATE ON t REFERENCING OLD TABLE AS o NEW TABLE AS n FOR EACH {level} EXECUTE "
            f"FUNCTION f()",
            f"CREATE TRIGGER i AFTER INSERT ON t REFERENCING NEW TABLE AS n FOR EACH {level} EXECUTE FUNCTION g()",
            f"CREATE TRIGGER d AFTER DELETE ON t REFERENCING OLD TABLE AS o FOR EACH {level} EXECUTE FUNCTION h()",
            "INSERT INTO t VALUES (10, 'x', 1), (11, 'y', 2)",
            "UPDATE t SET n = n + 1 WHERE a > 9",
            "UPDATE t SET n = 0 WHERE a = 77",
            "INSERT INTO t VALUES (10, 'z', 1), (12, 'w', 2) ON CONFLICT (a) DO UPDATE SET note = excluded.note",
            "DELETE FROM t WHERE a > 9",
            "SELECT * FROM log ORDER BY 1, 2, 3",
            "SELECT * FROM o",
            "SELECT pg_get_triggerdef(oid), tgoldtable, tgnewtable FROM pg_trigger WHERE tgrelid = 't'::regclass "
            "ORDER BY 1",
        ],
    )


def test_transition_tables_of_partitions(pair: Pair) -> None:
    compare(
        pair,
        [
            "CREATE TABLE t (a int, note text, n int) PARTITION BY LIST (n)",
            "CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1)",
            "CREATE TABLE t2 (n int, note text, a int)",
            "ALTER TABLE t ATTACH PARTITION t2 FOR VALUES IN (2)",
            *TRANSITIONS[2:],
            "CREATE TRIGGER u AFTER UPDATE ON t REFERENCING OLD TABLE AS o NEW TABLE AS n EXECUTE FUNCTION f()",
            "CREATE TRIGGER i AFTER INSERT ON t REFERENCING NEW TABLE AS n EXECUTE FUNCTION g()",
            "INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 2)",
            "UPDATE t SET n = 2 WHERE a = 1",
            "UPDATE t SET note = 'q'",
            "SELECT * FROM log ORDER BY 1, 2, 3",
        ],
    )


def test_views(pair: Pair) -> None:
    compare(
        pair,
        [
            T,
            FILL,
            "CREATE VIEW v AS SELECT a, note || '!' AS loud, n FROM t WHERE n < 100",
            _function(
                "f",
                "BEGIN RAISE NOTICE '% % % % -> %', TG_NAME, TG_WHEN, TG_OP, OLD, NEW;"
                " IF TG_OP = 'DELETE' THEN DELETE FROM t WHERE a = OLD.a; RETURN OLD; END IF;"
                " IF NEW.a = 13 THEN RETURN NULL; END IF; NEW.n := coalesce(NEW.n, 0) + 1;"
                " IF TG_OP = 'INSERT' THEN INSERT INTO t VALUES (NEW.a, NEW.loud, NEW.n);"
                " ELSE UPDATE t SET note = NEW.loud, n = NEW.n WHERE a = OLD.a; END IF; RETURN NEW; END",
            ),
            _function("s", "BEGIN RAISE NOTICE '% %', TG_NAME, TG_LEVEL; RETURN NULL; END"),
            _trigger("x", "INSTEAD OF INSERT OR UPDATE OR DELETE", "f", "v"),
            _trigger("b", "BEFORE INSERT", "s", "v", "STATEMENT"),
            _trigger("a", "AFTER UPDATE", "s", "v", "STATEMENT"),
            "INSERT INTO v VALUES (20, 'twenty', 5), (13, 'none', 1), (21, DEFAULT, NULL)",
            "INSERT INTO v (n, a) VALUES ('7', 22) RETURNING *, a + n AS s",
            "INSERT INTO v (a) SELECT a + 30 FROM t WHERE a < 3 RETURNING a",
            "UPDATE v SET loud = 'x', n = n * 2 WHERE a < 3 RETURNING *",
            "UPDATE v w SET n = x.n FROM (VALUES (4, 44)) x (a, n) WHERE w.a = x.a",
            "DELETE FROM v WHERE a IN (1, 22) RETURNING loud",
            "UPDATE v SET missing = 1",
            "SELECT * FROM t ORDER BY a",
            "SELECT pg_get_triggerdef(oid), tgtype FROM pg_trigger WHERE tgrelid = 'v'::regclass ORDER BY 1",
            "SELECT is_trigger_updatable, is_trigger_deletable, is_trigger_insertable_into FROM "
            "information_schema.views WHERE table_name = 'v'",
        ],
    )
