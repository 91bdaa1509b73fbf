"""Tables, and statements on them that get in each other's way."""

from __future__ import annotations

from dataclasses import dataclass

LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
STRENGTHS = ("KEY SHARE", "SHARE", "NO KEY UPDATE", "UPDATE")
MODES = (
    "ACCESS SHARE", "ROW SHARE", "ROW EXCLUSIVE", "SHARE UPDATE EXCLUSIVE", "SHARE", "SHARE ROW EXCLUSIVE", "EXCLUSIVE",
    "ACCESS EXCLUSIVE",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Theme:
    """`schema` makes the tables, whether or not they are there; `rows` fills them anew. `rows_alone`: the statements
    leave the tables' definitions as they are. `levels`: a statement that waits for a table takes its snapshot
    afterwards. `crowd`: more sessions and longer scripts; and since PostgreSQL looks for a deadlock when somebody has
    waited for `deadlock_timeout`, nobody begins to wait before all who wait have looked. `by_key`: PostgreSQL reads by
    its indexes, so that it locks rows in the order of their keys, not with those last that were changed."""

    name: str
    tables: tuple[str, ...]
    schema: str
    rows: str
    statements: tuple[str, ...]
    rows_alone: bool = True
    levels: tuple[str, ...] = LEVELS
    crowd: bool = False
    by_key: bool = False


ROWS = Theme(
    "rows",
    ("t",),
    "DROP TABLE IF EXISTS t CASCADE; CREATE TABLE t (id int PRIMARY KEY, u int UNIQUE, v int)",
    "TRUNCATE t; INSERT INTO t VALUES (1, 1, 10), (2, 2, 20), (3, 3, 30)",
    (
        "SELECT * FROM t ORDER BY id",
        "SELECT * FROM t WHERE u = 2",
        "SELECT count(*), sum(v) FROM t",
        *(f"SELECT * FROM t WHERE id = 1 FOR {strength}" for strength in STRENGTHS),
        *(f"SELECT * FROM t WHERE id > 0 AND v >= 20 ORDER BY id FOR {strength}" for strength in STRENGTHS),
        *(f"SELECT * FROM t ORDER BY id FOR {strength} SKIP LOCKED" for strength in STRENGTHS[1:]),
        *(f"SELECT * FROM t WHERE id < 3 FOR {strength} NOWAIT" for strength in STRENGTHS),
        "UPDATE t SET v = v + 1 WHERE id = 1 RETURNING *",
        "UPDATE t SET v = v + 10 WHERE id > 0",
        "UPDATE t SET v = v - 10 WHERE id > 0 AND v = 20 RETURNING *",
        "UPDATE t SET v = 20 WHERE id = 1",
        "UPDATE t SET u = u + 3 WHERE id <= 2 RETURNING *",
        "UPDATE t SET u = 4 WHERE id = 3",
        "UPDATE t SET id = 4 WHERE id = 1",
        "UPDATE t SET id = 1 WHERE id = 4",
        "UPDATE t SET v = s.v FROM (SELECT sum(v) AS v FROM t) s WHERE id = 2 RETURNING *",
        "DELETE FROM t WHERE id = 1 RETURNING *",
        "DELETE FROM t WHERE id > 0 AND v >= 20 RETURNING *",
        "INSERT INTO t VALUES (1, 1, 11)",
        "INSERT INTO t VALUES (4, 4, 40)",
        "INSERT INTO t VALUES (5, 4, 50)",
        "INSERT INTO t SELECT max(id) + 1, max(u) + 1, 0 FROM t RETURNING *",
    ),
    by_key=True,
)

CONFLICTS = Theme(
    "conflicts",
    ("t",),
    ROWS.schema,
    "TRUNCATE t; INSERT INTO t VALUES (1, 1, 10), (2, 2, 20)",
    (
        "SELECT * FROM t ORDER BY id",
        "INSERT INTO t VALUES (3, 3, 30)",
        "INSERT INTO t VALUES (1, 3, 30)",
        "INSERT INTO t VALUES (3, 1, 30)",
        "INSERT INTO t VALUES (3, 3, 31) ON CONFLICT DO NOTHING RETURNING *",
        "INSERT INTO t VALUES (1, 3, 31) ON CONFLICT DO NOTHING RETURNING *",
        "INSERT INTO t VALUES (1, 3, 31) ON CONFLICT (id) DO NOTHING RETURNING *",
        "INSERT INTO t VALUES (3, 1, 31) ON CONFLICT (u) DO NOTHING RETURNING *",
        "INSERT INTO t VALUES (1, 1, 1) ON CONFLICT (id) DO UPDATE SET v = t.v + 1 RETURNING *",
        "INSERT INTO t VALUES (3, 3, 1) ON CONFLICT (id) DO UPDATE SET v = t.v + excluded.v RETURNING *",
        "INSERT INTO t VALUES (3, 3, 1) ON CONFLICT (u) DO UPDATE SET v = t.v + 1, u = t.u + 1 RETURNING *",
        "INSERT INTO t VALUES (3, 1, 1) ON CONFLICT (u) DO UPDATE SET id = excluded.id RETURNING *",
        "INSERT INTO t VALUES (1, 9, 1) ON CONFLICT (id) DO UPDATE SET v = t.v + 1 WHERE t.v < 15 RETURNING *",
        "INSERT INTO t VALUES (1, 1, 5), (3, 3, 5) ON CONFLICT (id) DO UPDATE SET v = excluded.v",
        "UPDATE t SET v = v + 10 WHERE id = 1 RETURNING *",
        "UPDATE t SET u = 3 WHERE id = 1",
        "UPDATE t SET id = 3 WHERE id = 1",
        "UPDATE t SET u = u + 1 WHERE id = 2",
        "DELETE FROM t WHERE id = 1",
        "DELETE FROM t WHERE u = 1",
        "DELETE FROM t WHERE id = 3",
    ),
)

MERGES = Theme(
    "merges",
    ("t", "m"),
    f"{ROWS.schema}; DROP TABLE IF EXISTS m; CREATE TABLE m (id int PRIMARY KEY, v int)",
    "TRUNCATE t, m; INSERT INTO t VALUES (1, 1, 10), (2, 2, 20); INSERT INTO m VALUES (1, 100), (3, 300)",
    (
        "SELECT * FROM t ORDER BY id",
        "MERGE INTO t USING m ON t.id = m.id WHEN MATCHED THEN UPDATE SET v = t.v + m.v "
        "WHEN NOT MATCHED THEN INSERT VALUES (m.id, m.id, m.v)",
        "MERGE INTO t USING m ON t.id = m.id WHEN MATCHED AND t.v < 15 THEN UPDATE SET v = 15 "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (m.id, NULL, m.v)",
        "MERGE INTO t USING m ON t.id = m.id WHEN MATCHED AND t.v = 10 THEN DO NOTHING "
        "WHEN MATCHED THEN UPDATE SET v = 0",
        "MERGE INTO t USING m ON t.id = m.id WHEN MATCHED THEN DELETE",
        "MERGE INTO t USING (VALUES (3, 3)) s (id, v) ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.id, 7) WHEN MATCHED THEN UPDATE SET v = t.v + 1",
        "MERGE INTO t USING (VALUES (1)) s (id) ON t.id = s.id WHEN MATCHED AND t.v >= 20 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET v = v + 10 WHEN NOT MATCHED THEN INSERT VALUES (1, 1, 1)",
        "MERGE INTO t USING (VALUES (1)) s (id) ON t.id = s.id AND t.v = 10 WHEN MATCHED THEN UPDATE SET v = 11 "
        "WHEN NOT MATCHED THEN INSERT VALUES (5, 5, 5)",
        "MERGE INTO t USING (VALUES (2)) s (id) ON t.u = s.id WHEN MATCHED THEN UPDATE SET id = 6 "
        "WHEN NOT MATCHED THEN INSERT VALUES (7, 7, 7)",
        "UPDATE t SET v = v + 10 WHERE id = 1",
        "UPDATE t SET v = 20 WHERE id = 1",
        "UPDATE t SET id = 3 WHERE id = 1",
        "UPDATE t SET id = 8, u = 8 WHERE id = 1",
        "UPDATE m SET v = v + 1 WHERE id = 3",
        "DELETE FROM t WHERE id = 1",
        "DELETE FROM m WHERE id = 3",
        "INSERT INTO t VALUES (3, 3, 30)",
        "INSERT INTO t VALUES (1, 1, 12) ON CONFLICT (id) DO UPDATE SET v = t.v + 1",
        "SELECT * FROM t WHERE id = 1 FOR UPDATE",
        "SELECT * FROM t WHERE id = 1 FOR KEY SHARE",
    ),
)

REFERENCES = Theme(
    "references",
    ("p", "c", "cc", "cn"),
    "DROP TABLE IF EXISTS p, c, cc, cn CASCADE; CREATE TABLE p (id int PRIMARY KEY, k int UNIQUE, v int);"
    "CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p);"
    "CREATE TABLE cc (id int PRIMARY KEY, p int REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE);"
    "CREATE TABLE cn (id int PRIMARY KEY, p int REFERENCES p (k) ON DELETE SET NULL ON UPDATE SET NULL)",
    "TRUNCATE p, c, cc, cn; INSERT INTO p VALUES (1, 1, 0), (2, 2, 0), (3, 3, 0), (4, 4, 0), (5, 5, 0);"
    "INSERT INTO c VALUES (1, 1); INSERT INTO cc VALUES (1, 2); INSERT INTO cn VALUES (1, 3)",
    (
        *(f"INSERT INTO {child} VALUES (2, {parent})" for child in ("c", "cc", "cn") for parent in (2, 5, 6)),
        *(f"DELETE FROM p WHERE id = {parent}" for parent in (1, 2, 3, 4, 5)),
        *(f"UPDATE p SET id = 6 WHERE id = {parent}" for parent in (2, 3, 5)),
        *(f"UPDATE p SET v = v + 1 WHERE id = {parent}" for parent in (2, 3, 5)),
        "UPDATE p SET k = 6 WHERE id = 4",
        "UPDATE p SET k = 4 WHERE id = 5",
        "INSERT INTO p VALUES (6, 6, 0)",
        "INSERT INTO p VALUES (5, 5, 1) ON CONFLICT (id) DO UPDATE SET v = 1",
        "UPDATE c SET p = 5 WHERE id = 1",
        "UPDATE cc SET p = 5 WHERE id = 1",
        "UPDATE cn SET p = NULL",
        "DELETE FROM c",
        "DELETE FROM cc",
        *(f"SELECT * FROM p WHERE id IN (2, 5) FOR {strength}" for strength in STRENGTHS),
        *(f"SELECT * FROM cc FOR {strength}" for strength in ("SHARE", "UPDATE")),
        "SELECT p.id, cc.id FROM p JOIN cc ON cc.p = p.id",
        "TRUNCATE c",
        "TRUNCATE cc, cn",
    ),
)

DEFERRED = Theme(
    "deferred",
    ("d",),
    "DROP TABLE IF EXISTS d; CREATE TABLE d (id int PRIMARY KEY, "
    "u int UNIQUE DEFERRABLE INITIALLY IMMEDIATE, v int CHECK (v < 100))",
    "TRUNCATE d; INSERT INTO d VALUES (1, 1, 10), (2, 2, 20)",
    (
        "SELECT * FROM d ORDER BY id",
        "INSERT INTO d VALUES (1, 3, 30)",
        "INSERT INTO d VALUES (3, 3, 30)",
        "INSERT INTO d VALUES (3, 1, 30)",
        "INSERT INTO d VALUES (3, 4, 30) ON CONFLICT DO NOTHING",
        "UPDATE d SET u = 3 - u WHERE id > 0",
        "UPDATE d SET id = 2 WHERE id = 1",
        "UPDATE d SET u = 3 WHERE id = 1",
        "UPDATE d SET v = v + 1 WHERE id = 1",
        "DELETE FROM d WHERE id = 1",
        "DELETE FROM d WHERE u = 2",
        "SELECT * FROM d WHERE id = 1 FOR UPDATE",
        "SELECT * FROM d WHERE id = 1 FOR KEY SHARE",
    ),
)

PARTITIONS = Theme(
    "partitions",
    ("pt", "p0", "p1"),
    "DROP TABLE IF EXISTS pt, p0, p1, loose, free CASCADE;"
    "CREATE TABLE pt (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);"
    "CREATE TABLE p0 PARTITION OF pt FOR VALUES FROM (0) TO (10);"
    "CREATE TABLE p1 PARTITION OF pt FOR VALUES FROM (10) TO (20);"
    "CREATE TABLE loose (id int PRIMARY KEY, v int); CREATE TABLE pd PARTITION OF pt DEFAULT",
    "TRUNCATE pt; INSERT INTO pt VALUES (1, 10), (2, 20), (11, 110); INSERT INTO loose VALUES (21, 210)",
    (
        "SELECT * FROM pt ORDER BY id",
        "SELECT * FROM pt WHERE id = 1 FOR UPDATE",
        "SELECT * FROM pt WHERE id = 1 FOR KEY SHARE",
        "UPDATE pt SET v = v + 1 WHERE id = 1 RETURNING *",
        "UPDATE pt SET v = v + 1 WHERE id > 0 AND v >= 20",
        "UPDATE pt SET id = id + 11 WHERE id = 1",
        "UPDATE pt SET id = 3 WHERE id = 1",
        "UPDATE pt SET id = 1 WHERE id = 11",
        "DELETE FROM pt WHERE id = 1",
        "INSERT INTO pt VALUES (1, 11)",
        "INSERT INTO pt VALUES (12, 120)",
        "INSERT INTO pt VALUES (25, 250)",
        "INSERT INTO pt VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET v = pt.v + 1",
        "ALTER TABLE pt ATTACH PARTITION loose FOR VALUES FROM (20) TO (30)",
        "ALTER TABLE pt DETACH PARTITION p1",
        "DROP TABLE p1",
        "TRUNCATE p0",
        "TRUNCATE pt",
        "LOCK TABLE pt IN SHARE MODE",
    ),
    rows_alone=False,
    levels=LEVELS[:1],
)

DEFINITIONS = Theme(
    "definitions",
    ("a", "b", "va"),
    "DROP TABLE IF EXISTS a, a2, b CASCADE; DROP SEQUENCE IF EXISTS s; CREATE SEQUENCE s; "
    "CREATE TABLE a (id int PRIMARY KEY, v int);"
    "CREATE TABLE b (id int PRIMARY KEY, a int, CONSTRAINT known CHECK (a > 0) NOT VALID);"
    "CREATE VIEW va AS SELECT * FROM a WHERE v > 0; CREATE INDEX av ON a (v)",
    "INSERT INTO a VALUES (1, 10), (2, 20); INSERT INTO b VALUES (1, 1)",
    (
        "SELECT * FROM a ORDER BY id",
        "SELECT * FROM va ORDER BY id",
        "SELECT * FROM a WHERE id = 1 FOR UPDATE",
        "SELECT a.id, b.id FROM a JOIN b ON b.a = a.id",
        "INSERT INTO a VALUES (3, 30)",
        "INSERT INTO b VALUES (2, 2)",
        "INSERT INTO b VALUES (3, 4)",
        "UPDATE a SET v = v + 1 WHERE id > 0",
        "UPDATE va SET v = v + 1 WHERE id = 1",
        "DELETE FROM a WHERE id = 1",
        "TRUNCATE a",
        "TRUNCATE b",
        "DROP TABLE b",
        "DROP VIEW va",
        "DROP INDEX av",
        "ALTER TABLE a ADD COLUMN w int DEFAULT 5",
        "ALTER TABLE a ALTER v SET NOT NULL",
        "ALTER TABLE a ALTER v SET DEFAULT 3",
        "ALTER TABLE a ADD CHECK (v > 0)",
        "ALTER TABLE a RENAME v TO x",
        "ALTER TABLE b ADD FOREIGN KEY (a) REFERENCES a",
        "ALTER TABLE b VALIDATE CONSTRAINT known",
        "ALTER TABLE b DROP CONSTRAINT known",
        "COMMENT ON TABLE a IS 'told'",
        "CREATE TRIGGER tr BEFORE UPDATE ON a FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "VACUUM a",
        "ANALYZE a",
        "SELECT nextval('s')",
        "ALTER SEQUENCE s INCREMENT 5",
        "DROP SEQUENCE s",
        *(f"LOCK TABLE a IN {mode} MODE" for mode in MODES),
        "LOCK TABLE a IN SHARE MODE NOWAIT",
        "LOCK TABLE va IN ACCESS EXCLUSIVE MODE",
    ),
    rows_alone=False,
    levels=LEVELS[:1],
)  # fmt: skip

RIGHTS = Theme(
    "rights",
    (),
    "DROP TABLE IF EXISTS g CASCADE; DROP FUNCTION IF EXISTS f(); DROP TYPE IF EXISTS en; DROP DOMAIN IF EXISTS dom;"
    "CREATE TABLE g (id int PRIMARY KEY, v int); CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1';"
    "CREATE TYPE en AS ENUM ('one'); CREATE DOMAIN dom AS int",
    "INSERT INTO g VALUES (1, 1)",
    (
        "SELECT * FROM g",
        "UPDATE g SET v = 2",
        "GRANT SELECT ON g TO PUBLIC",
        "GRANT UPDATE ON g TO pg_monitor",
        "REVOKE SELECT ON g FROM PUBLIC",
        "REVOKE ALL ON FUNCTION f() FROM PUBLIC",
        "GRANT EXECUTE ON FUNCTION f() TO PUBLIC",
        "CREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 2'",
        "SELECT f()",
        "DROP FUNCTION f()",
        "ALTER TYPE en ADD VALUE 'two'",
        "ALTER TYPE en RENAME VALUE 'one' TO 'uno'",
        "SELECT 'one'::en",
        "ALTER DOMAIN dom SET DEFAULT 3",
        "ALTER TABLE g ADD w int",
        "DROP TABLE g",
        "SELECT has_table_privilege('pg_monitor', 'g', 'SELECT')",
    ),
    rows_alone=False,
    levels=LEVELS[:1],
)

DETACHES = Theme(
    "detaches",
    ("lp", "l1", "l2", "l3", "lr"),
    "DROP TABLE IF EXISTS lp, l1, l2, l3, lr CASCADE; CREATE TABLE lp (a int PRIMARY KEY, v int) PARTITION BY LIST (a);"
    "CREATE TABLE l1 PARTITION OF lp FOR VALUES IN (1); CREATE TABLE l2 PARTITION OF lp FOR VALUES IN (2);"
    "CREATE TABLE l3 PARTITION OF lp FOR VALUES IN (3, 4); CREATE TABLE lr (a int REFERENCES lp, v int)",
    "INSERT INTO lp VALUES (1, 10), (2, 20), (3, 30); INSERT INTO lr VALUES (2, 0)",
    (
        "SELECT * FROM lp ORDER BY a",
        "SELECT * FROM lp WHERE a = 1",
        "SELECT count(*), sum(v) FROM lp",
        "SELECT * FROM l1",
        "SELECT inhrelid::regclass::text, inhdetachpending FROM pg_inherits WHERE inhparent = 'lp'::regclass",
        "SELECT conname FROM pg_constraint WHERE conrelid = 'l1'::regclass",
        "INSERT INTO lp VALUES (4, 40)",
        "DELETE FROM l3",
        "UPDATE lp SET v = v + 1 WHERE a = 1 RETURNING *",
        "UPDATE lp SET v = v + 1",
        "UPDATE lp SET a = 4 WHERE a = 2",
        "DELETE FROM lp WHERE a = 3 RETURNING *",
        "INSERT INTO lr VALUES (1, 1)",
        "INSERT INTO lr VALUES (3, 1)",
        "UPDATE lr SET a = 1",
        "DELETE FROM lr",
        "LOCK TABLE l1 IN SHARE MODE",
        *(f"ALTER TABLE lp DETACH PARTITION {name} CONCURRENTLY" for name in ("l1", "l1", "l2", "l3")),
        "ALTER TABLE lp DETACH PARTITION l1",
        "ALTER TABLE lp ATTACH PARTITION l1 FOR VALUES IN (1)",
    ),
    rows_alone=False,
    levels=LEVELS[:2],
)

INDEXES = Theme(
    "indexes",
    ("a", "pa"),
    "DROP TABLE IF EXISTS a, a2, b, pa CASCADE; CREATE TABLE a (id int PRIMARY KEY, v int); CREATE INDEX av ON a (v);"
    "CREATE TABLE pa (id int, v int) PARTITION BY RANGE (id);"
    "CREATE TABLE pa1 PARTITION OF pa FOR VALUES FROM (0) TO (10); CREATE INDEX pav ON pa (v)",
    "INSERT INTO a VALUES (1, 10), (2, 20); INSERT INTO pa VALUES (1, 10)",
    (
        "SELECT * FROM a ORDER BY id",
        "SELECT * FROM a WHERE v = 20",
        "INSERT INTO a VALUES (3, 30)",
        "UPDATE a SET v = v + 1 WHERE id = 1",
        "DELETE FROM a WHERE id = 2",
        "INSERT INTO pa VALUES (2, 20)",
        "SELECT * FROM pa",
        "SELECT count(*) FROM pg_index WHERE indrelid = 'a'::regclass",
        "CREATE INDEX CONCURRENTLY ON a (v)",
        "CREATE UNIQUE INDEX CONCURRENTLY ON a (v, id)",
        "REINDEX TABLE CONCURRENTLY a",
        "REINDEX INDEX CONCURRENTLY av",
        "REINDEX (CONCURRENTLY) TABLE pa",
        "DROP INDEX CONCURRENTLY av",
        "DROP INDEX pav",
        "VACUUM pa",
        "ANALYZE pa",
        "VACUUM (SKIP_LOCKED) pa",
        "ANALYZE (SKIP_LOCKED) pa",
        *(f"LOCK TABLE {table} IN {mode} MODE" for table in ("a", "pa1") for mode in MODES[1:6:2]),
        "LOCK TABLE pa1 IN ACCESS EXCLUSIVE MODE",
    ),
    rows_alone=False,
    levels=LEVELS[:1],
)

QUEUES = Theme(
    "queues",
    (),
    "DROP TABLE IF EXISTS a, a2, b CASCADE; CREATE TABLE a (id int); CREATE TABLE b (id int)",
    "SELECT 1",
    (
        *(f"LOCK TABLE {table} IN {mode} MODE" for mode in MODES for table in "ab"),
        *(f"LOCK TABLE a IN {mode} MODE NOWAIT" for mode in MODES[::3]),
        *(f"SELECT pg_advisory_xact_lock{kind}({number})" for kind in ("", "_shared") for number in (1, 2)),
        "SELECT pg_try_advisory_xact_lock(1)",
        "SELECT pg_try_advisory_xact_lock_shared(1)",
    ),
    rows_alone=False,
    levels=LEVELS[:1],
    crowd=True,
)

SAFE = Theme(
    "safe",
    ("a", "b"),
    "DROP TABLE IF EXISTS a, a2, b CASCADE; CREATE TABLE a (id int, v int); CREATE TABLE b (id int, v int)",
    "TRUNCATE a, b; INSERT INTO a VALUES (1, 10), (2, 20); INSERT INTO b VALUES (1, 100)",
    (
        *(f"SELECT sum(v) FROM {table}" for table in "ab"),
        *(f"SELECT * FROM {table} ORDER BY id, v" for table in "ab"),
        "SELECT a.v + b.v FROM a, b WHERE a.id = b.id",
        *(f"INSERT INTO {table} VALUES (3, 30)" for table in "ab"),
        "INSERT INTO a SELECT id, v FROM b",
        "UPDATE b SET v = v + 1",
    ),
    rows_alone=False,
    levels=("SERIALIZABLE", "SERIALIZABLE READ ONLY DEFERRABLE"),
)

THEMES = {
    theme.name: theme
    for theme in (
        ROWS, CONFLICTS, MERGES, REFERENCES, DEFERRED, PARTITIONS, DEFINITIONS, RIGHTS, QUEUES, SAFE, DETACHES, INDEXES,
    )
}  # fmt: skip
