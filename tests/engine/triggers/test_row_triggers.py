"""Row and statement triggers fire as in PostgreSQL: for every timing, level, event and kind of statement, in the same
order, with the same rows, and with the same effect."""

from __future__ import annotations

from itertools import product

import pytest

from tests.engine.session.conftest import Pair
from tests.engine.triggers.script import TRACE, compare

TABLES = {
    "plain": "CREATE TABLE t (a int PRIMARY KEY, note text, n int)",
    "without a key": "CREATE TABLE t (a int, note text, n int); CREATE INDEX ON t (a)",
    "generated": "CREATE TABLE t (a int PRIMARY KEY, note text NOT NULL, n int, g int GENERATED ALWAYS AS"
    " (length(note) + a) STORED, CHECK (length(note) < 30))",
    "partitioned": "CREATE TABLE t (a int PRIMARY KEY, note text, n int) PARTITION BY RANGE (a);"
    "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (5); CREATE TABLE t2 (n int, a int NOT NULL, note text);"
    "ALTER TABLE t ATTACH PARTITION t2 FOR VALUES FROM (5) TO (100)",
}
STATEMENTS = {
    "insert": "INSERT INTO t VALUES (20, 'new', 1), (23, 'skipped', 2), (24, 'x', 3) RETURNING *",
    "insert default": "INSERT INTO t (a, note) VALUES (28, 'd')",
    "insert select": "INSERT INTO t (a, note, n) SELECT a + 30, note, n FROM t ORDER BY a",
    "insert a null": "INSERT INTO t (a, n) VALUES (21, 1)",
    "a duplicate": "INSERT INTO t VALUES (2, 'again', 1)",
    "do nothing": "INSERT INTO t VALUES (2, 'again', 1), (40, 'y', 1) ON CONFLICT DO NOTHING",
    "do update": "INSERT INTO t VALUES (2, 'again', 1), (40, 'y', 1) ON CONFLICT (a) DO UPDATE SET n = excluded.n + 7"
    " RETURNING *",
    "update": "UPDATE t SET n = n + 1 WHERE a IN (1, 2, 3, 6) RETURNING *",
    "update a key": "UPDATE t SET a = a + 100 WHERE a = 2",
    "update of note": "UPDATE t SET note = 'changed' WHERE a < 3",
    "update nothing": "UPDATE t SET n = 1 WHERE a = 77",
    "update from": "UPDATE t SET n = v.n FROM (VALUES (1, 11), (2, 22)) v (a, n) WHERE t.a = v.a",
    "delete": "DELETE FROM t WHERE a < 5 RETURNING *",
    "delete by key": "DELETE FROM t WHERE a = 6",
    "merge": "MERGE INTO t USING (VALUES (1, 5), (2, 0), (50, 1), (51, 2)) v (a, n) ON t.a = v.a"
    " WHEN MATCHED AND v.n = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET n = v.n"
    " WHEN NOT MATCHED THEN INSERT (a, note, n) VALUES (v.a, 'm', v.n)",
    "with": "WITH d AS (DELETE FROM t WHERE a = 1 RETURNING *) INSERT INTO t (a, note, n) SELECT a + 60, note, n FROM "
    "d",
    "truncate": "TRUNCATE t",
}
CONDITIONS = {
    "": "",
    "always": "WHEN (true)",
    "never": "WHEN (1 = 2)",
}
FILL = "INSERT INTO t (a, note, n) SELECT i, 'r' || i, i FROM generate_series(1, 7) i"


def _triggers(events: str, condition: str) -> list[str]:
    """Triggers of every timing and level, two of each."""
    made = []
    for timing, level in product(("BEFORE", "AFTER"), ("ROW", "STATEMENT")):
        for name in ("b", "a", "Z"):
            made.append(
                f'CREATE TRIGGER "{name}_{timing}_{level}" {timing} {events} ON t FOR EACH {level} {condition}'
                " EXECUTE FUNCTION trace('x', 2)"
            )
    return made


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements_fire_the_same_triggers(pair: Pair, table: str, statement: str) -> None:
    if (table, statement) in (("without a key", "do update"), ("partitioned", "merge")):
        pytest.skip("no such statement")
    whole = "TRUNCATE" if statement == "truncate" else "INSERT OR UPDATE OR DELETE"
    triggers = [text for text in _triggers(whole, "") if statement != "truncate" or "ROW" not in text]
    compare(
        pair,
        [
            *TABLES[table].split(";"),
            FILL,
            TRACE,
            *triggers,
            STATEMENTS[statement],
            "SELECT * FROM t ORDER BY a",
            "SELECT pg_trigger_depth()",
        ],
    )


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("event", ["INSERT", "UPDATE", "DELETE", "UPDATE OF note", "UPDATE OF n, a OR DELETE"])
def test_conditions_and_columns(pair: Pair, condition: str, event: str) -> None:
    changes = [STATEMENTS[name] for name in ("insert", "update", "update of note", "do update", "merge", "delete")]
    compare(
        pair,
        [
            TABLES["plain"],
            FILL,
            TRACE,
            *_triggers(event, CONDITIONS[condition]),
            *changes,
            "SELECT * FROM t ORDER BY a",
        ],
    )


def test_conditions_over_rows(pair: Pair) -> None:
    compare(
        pair,
        [
            TABLES["generated"],
            FILL,
            TRACE,
            "CREATE TRIGGER one BEFORE UPDATE ON t FOR EACH ROW WHEN (OLD.n IS DISTINCT FROM NEW.n AND new.a > 2)"
            " EXECUTE FUNCTION trace()",
            "CREATE TRIGGER two AFTER UPDATE ON t FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*)"
            " EXECUTE FUNCTION trace()",
            "CREATE TRIGGER three AFTER INSERT ON t FOR EACH ROW WHEN (new.g > 20) EXECUTE FUNCTION trace()",
            "UPDATE t SET n = n",
            "UPDATE t SET n = n + 1 WHERE a < 5",
            "INSERT INTO t VALUES (24, 'x', 1), (1000, 'y')",
            "SELECT tgname, tgtype, tgattr, tgenabled, pg_get_triggerdef(oid), pg_get_triggerdef(oid, true) FROM"
            " pg_trigger WHERE tgrelid = 't'::regclass AND NOT tgisinternal ORDER BY 1",
            "SELECT trigger_name, event_manipulation, event_object_table, action_order, action_condition,"
            " action_statement, action_orientation, action_timing FROM information_schema.triggers"
            " WHERE event_object_table = 't' ORDER BY 1, 2",
            "ALTER TABLE t RENAME n TO number",
            "UPDATE t SET number = 9 WHERE a = 4",
            "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname = 'one'",
        ],
    )
