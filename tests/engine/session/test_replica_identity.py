"""ALTER TABLE ... REPLICA IDENTITY beside PostgreSQL."""

from __future__ import annotations

from tests.engine.session.conftest import Pair

IDENTITY = "SELECT relname, relreplident FROM pg_class WHERE relname IN ('t', 'p', 'p1')"
INDEXES = "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indisreplident"


def test_it_is_kept(pair: Pair) -> None:
    pair.run(
        "CREATE TABLE t (a int NOT NULL, b int, c int NOT NULL, d int UNIQUE DEFERRABLE)",
        "CREATE UNIQUE INDEX t_a ON t (a)",
        "CREATE UNIQUE INDEX t_b ON t (b)",
        "CREATE INDEX t_c ON t (c)",
        "CREATE UNIQUE INDEX t_e ON t ((a + 1))",
        "CREATE UNIQUE INDEX t_p ON t (a) WHERE a > 1",
        "CREATE UNIQUE INDEX t_ac ON t (a, c)",
        "CREATE TABLE other (a int PRIMARY KEY)",
        "CREATE TABLE p (a int) PARTITION BY LIST (a)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1)",
        "CREATE VIEW v AS SELECT 1",
    )
    for how in ("FULL", "NOTHING", "DEFAULT", "FULL", "USING INDEX t_a", "USING INDEX t_ac", "USING INDEX missing",
                "USING INDEX other_pkey", "USING INDEX t", "USING INDEX t_b", "USING INDEX t_c", "USING INDEX t_e",
                "USING INDEX t_p", "USING INDEX t_d_key"):  # fmt: skip
        pair.same(f"ALTER TABLE t REPLICA IDENTITY {how}", IDENTITY, INDEXES)
    pair.same(
        "ALTER TABLE t ALTER c DROP NOT NULL",
        "ALTER TABLE p REPLICA IDENTITY FULL",
        IDENTITY,
        "ALTER TABLE v REPLICA IDENTITY FULL",
        "ALTER TABLE t REPLICA IDENTITY DEFAULT",
        "ALTER TABLE t ALTER c DROP NOT NULL",
        INDEXES,
        "ALTER TABLE t REPLICA IDENTITY USING INDEX t_a",
        "DROP INDEX t_a",
        IDENTITY,
        "SET ROLE pg_monitor",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "RESET ROLE",
    )
