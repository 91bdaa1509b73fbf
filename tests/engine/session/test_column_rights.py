"""Rights on columns: what errors show of rows to those who may read some of their columns only, and what changes need.

Each statement is tried by roles with other rights, on both servers and both paths: answers and errors are the same.
"""

from __future__ import annotations

import pytest

from tests.engine.session.conftest import Pair, outcome
from tests.samples import Part, parts

WORLD = """
CREATE TABLE parent (id int PRIMARY KEY);
INSERT INTO parent VALUES (1), (2), (77);
CREATE TABLE t (id int PRIMARY KEY, pub int NOT NULL CHECK (pub < 100), "Sec" text UNIQUE, num int DEFAULT 10,
    tid int REFERENCES parent DEFAULT 1, span int4range, EXCLUDE USING gist (span WITH &&));
CREATE UNIQUE INDEX ON t ((num + id));
INSERT INTO t VALUES (1, 1, 's1', 10, 1, '[1,2)'), (2, 2, 's2', 20, 2, '[2,3)');
CREATE TABLE child (cid int PRIMARY KEY, t_id int REFERENCES t, sec text REFERENCES t ("Sec"));
INSERT INTO child VALUES (1, 1, 's1');
CREATE VIEW positive AS SELECT id, pub, num FROM t WHERE pub > 0 WITH CHECK OPTION;
CREATE TABLE parts (id int, pub int NOT NULL CHECK (pub < 100), sec text) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
CREATE TABLE parts_2 (sec text, pub int NOT NULL CONSTRAINT parts_pub_check CHECK (pub < 100), id int);
ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM (10) TO (20);
INSERT INTO parts VALUES (1, 1, 'p');
CREATE TABLE s (id int, v text);
INSERT INTO s VALUES (1, 'x'), (5, 'y');
GRANT ALL ON s TO PUBLIC
"""

GRANTS = {
    "reads some": 'GRANT INSERT, UPDATE, DELETE, SELECT (id, pub) ON {t} TO r',
    "reads none": 'GRANT INSERT, UPDATE, DELETE ON {t} TO r',
    "reads all": 'GRANT ALL ON {t} TO r',
    "reads each": 'GRANT INSERT, UPDATE, DELETE, SELECT (id), SELECT (pub) ON {t} TO r',
    "inserts some": 'GRANT INSERT (id, pub), SELECT, UPDATE (id, pub) ON {t} TO r',
    "nothing": "GRANT TRIGGER ON {t} TO r",
}  # fmt: skip

STATEMENTS = (
    "UPDATE t SET pub = NULL WHERE id = 1", "UPDATE t SET pub = NULL", "UPDATE t SET pub = 200 WHERE id = 1",
    "UPDATE t SET num = 5, pub = NULL WHERE id = 2", "INSERT INTO t (id) VALUES (5)",
    "INSERT INTO t (id, pub) VALUES (5, 200)", "INSERT INTO t (id, pub, num) VALUES (5, NULL, 7)",
    "INSERT INTO t (id, pub) VALUES (1, 1)", "INSERT INTO t (id, pub) SELECT 1, 1",
    "INSERT INTO t (id, pub, \"Sec\", span) VALUES (5, 1, 's2', '[8,9)')",
    "UPDATE t SET \"Sec\" = 's2' WHERE id = 1", "UPDATE t SET tid = 99 WHERE id = 1", "UPDATE t SET span = '[1,9)'",
    "INSERT INTO t (id, pub, tid, span) VALUES (5, 1, 99, '[8,9)')", "INSERT INTO t (id, pub) VALUES (5, 1)",
    "UPDATE t SET num = 21 WHERE id = 1", "DELETE FROM t WHERE id = 1", "DELETE FROM t",
    "UPDATE t SET id = 9 WHERE id = 1",
    "UPDATE positive SET pub = -1", "UPDATE positive SET num = 1, pub = -1",
    "INSERT INTO parts (id, pub, sec) VALUES (12, 200, 'q')", "INSERT INTO parts (id) VALUES (12)",
    "INSERT INTO parts (id, pub) VALUES (50, 1)", "UPDATE parts SET pub = NULL", "UPDATE parts SET id = 12, pub = 300",
    "UPDATE parts SET id = 50", "INSERT INTO parts_1 (id, pub) VALUES (12, 1)", "UPDATE parts_2 SET pub = NULL",
    "INSERT INTO t (id, pub) VALUES (1, 5) ON CONFLICT (id) DO UPDATE SET pub = excluded.pub",
    "INSERT INTO t (id, pub, num) VALUES (1, 5, 6) ON CONFLICT (id) DO UPDATE SET num = excluded.num",
    "INSERT INTO t (id, pub) VALUES (1, 5) ON CONFLICT (id) DO UPDATE SET pub = 7",
    "INSERT INTO t (id, pub) VALUES (1, 5) ON CONFLICT (id) DO UPDATE SET pub = 7 WHERE excluded.num = 1",
    "INSERT INTO t (id, pub) VALUES (1, 5) ON CONFLICT (id) DO UPDATE SET pub = (SELECT excluded.num)",
    "INSERT INTO t (id, pub) VALUES (1, 5) ON CONFLICT DO NOTHING",
    "MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, pub) VALUES (s.id, NULL)",
    "MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, pub, \"Sec\") VALUES (s.id, 3, v)",
    "MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (s.id, NULL)",
    "MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (s.id, NULL, 'q')",
    "MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT DEFAULT VALUES",
    "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET pub = 500",
    "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET num = 500",
    "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN DO NOTHING",
    "MERGE INTO t USING s ON true WHEN MATCHED THEN DO NOTHING",
    "MERGE INTO t USING s ON false WHEN NOT MATCHED THEN DO NOTHING",
    "MERGE INTO t USING s ON t.num = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (9)",
    "WITH x AS (UPDATE t SET pub = NULL RETURNING 1) SELECT * FROM x",
)  # fmt: skip


@pytest.mark.parametrize("grant", GRANTS)
@pytest.mark.parametrize("part", parts(2))
def test_details_and_rights_are_those_of_postgresql(both_paths: Pair, grant: str, part: Part) -> None:
    pair = both_paths
    pair.run(*WORLD.strip().split(";\n"), "CREATE ROLE r", "GRANT USAGE ON SCHEMA statements TO r")
    try:
        for table in ("t", "parts", "parts_1", "parts_2"):
            pair.run(GRANTS[grant].format(t=table))
        pair.run("GRANT ALL ON positive TO r")
        pair.run("SET ROLE r")
        wrong = []
        for statement in part.of(STATEMENTS):
            pair.run("BEGIN")
            found = [outcome(connection, statement) for connection in (pair.shoal, pair.postgres)]
            pair.run("ROLLBACK")
            if found[0] != found[1]:
                wrong.append(f"{statement}\n  Shoal      {found[0]}\n  PostgreSQL {found[1]}")
        assert not wrong, "\n".join(wrong)
    finally:
        pair.run("ROLLBACK", "RESET ROLE", "DROP OWNED BY r", "DROP ROLE r")
