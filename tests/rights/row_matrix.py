"""The matrix of row security: sets of policies by actors by statements, on Shoal and on PostgreSQL.

    python -m tests.rights.row_matrix        shows every cell that differs

A cell has the SQLSTATE, the message, the detail and the rows of a statement, the number of rows that it has changed,
and all rows after it. Each cell is a block that is rolled back. Shoal runs all of them twice: with
queries on the path that it chooses, and with all queries on the columnar path.
"""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import psycopg
from psycopg import pq

from tests.oracle import PostgresServer
from tests.rights.matrix import statements_in
from tests.server import ShoalServer

Server = ShoalServer | PostgresServer
Cell = tuple[str, str, str]  # set of policies, actor, statement

SETUP = """
CREATE ROLE owner LOGIN; CREATE ROLE member LOGIN IN ROLE owner; CREATE ROLE idle LOGIN NOINHERIT IN ROLE owner;
CREATE ROLE team; CREATE ROLE alice LOGIN IN ROLE team; CREATE ROLE bob LOGIN; CREATE ROLE carol LOGIN;
CREATE ROLE bypass LOGIN BYPASSRLS; CREATE ROLE super LOGIN SUPERUSER;
CREATE ROLE reader LOGIN IN ROLE pg_read_all_data;
GRANT CREATE ON SCHEMA public TO owner; SET ROLE owner;
CREATE TABLE docs (id int PRIMARY KEY, who name NOT NULL, level int CHECK (level < 100), note text);
INSERT INTO docs VALUES (1, 'alice', 1, 'a'), (2, 'alice', 2, '2'), (3, 'bob', 1, 'b'), (4, 'bob', 4, NULL),
 (5, 'owner', 3, 'o'), (6, 'carol', NULL, 'c'), (7, 'alice', 7, 'x'), (8, 'bypass', 8, '8');
CREATE TABLE parted (id int, who name, level int, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE part_low PARTITION OF parted FOR VALUES FROM (0) TO (5);
CREATE TABLE part_high PARTITION OF parted FOR VALUES FROM (5) TO (100);
INSERT INTO parted SELECT id, who, level FROM docs;
CREATE TABLE levels (name name PRIMARY KEY, level int);
INSERT INTO levels VALUES ('alice', 2), ('bob', 1), ('owner', 3), ('member', 4);
CREATE TABLE secret (name name); INSERT INTO secret VALUES ('alice');
CREATE VIEW two AS SELECT i FROM (VALUES (1), (30)) x (i); GRANT SELECT ON two TO PUBLIC;
CREATE TABLE refers (id int PRIMARY KEY, doc int REFERENCES docs ON DELETE CASCADE);
INSERT INTO refers VALUES (1, 1), (3, 3);
CREATE VIEW of_owner AS SELECT id, who, level FROM docs;
CREATE VIEW checked AS SELECT id, who, level FROM docs WHERE level < 5 WITH CHECK OPTION;
CREATE VIEW of_invoker WITH (security_invoker) AS SELECT id, who, level FROM docs;
CREATE FUNCTION trusted() RETURNS boolean LANGUAGE sql SECURITY DEFINER
 AS 'SELECT count(*) > 0 FROM secret WHERE name = session_user';
CREATE FUNCTION counted() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS 'SELECT count(*) FROM docs';
CREATE FUNCTION seen() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM docs';
CREATE FUNCTION is_low(x int) RETURNS boolean LANGUAGE plpgsql AS
 'BEGIN IF x = 4 THEN RAISE EXCEPTION ''seen: %'', x; END IF; RETURN x < 5; END';
CREATE FUNCTION counts() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM docs); END';
CREATE FUNCTION counts_as_owner() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS
 'DECLARE n bigint; BEGIN SELECT count(*) INTO n FROM docs; RETURN n + counts(); END';
CREATE FUNCTION trusts(whom name) RETURNS boolean LANGUAGE plpgsql STABLE SECURITY DEFINER AS
 'BEGIN RETURN EXISTS (SELECT FROM secret s WHERE s.name = whom OR s.name = session_user); END';
GRANT ALL ON docs, parted, part_low, part_high, levels, refers, of_owner, checked, of_invoker
 TO team, bob, bypass, idle;
GRANT SELECT (id, who), UPDATE (level), INSERT (id, who, level) ON docs TO carol; GRANT SELECT ON levels TO carol;
RESET ROLE;
CREATE FUNCTION everything() RETURNS text LANGUAGE sql SECURITY DEFINER AS
 'SELECT string_agg(row, '' '' ORDER BY row) FROM (
   SELECT concat_ws('','', ''d'', id, who, level, note) AS row FROM docs
   UNION ALL SELECT concat_ws('','', ''p'', id, who, level) FROM parted
   UNION ALL SELECT concat_ws('','', ''l'', name, level) FROM levels) s'
"""

ACTORS = ("owner", "member", "idle", "alice", "bob", "carol", "bypass", "super", "reader")

ENABLED = "ALTER TABLE docs ENABLE ROW LEVEL SECURITY; ALTER TABLE parted ENABLE ROW LEVEL SECURITY"
OWN = "who = current_user"

POLICIES: dict[str, str] = {
    "none": "",
    "not enabled": f"CREATE POLICY p ON docs USING ({OWN}); CREATE POLICY p ON parted USING ({OWN})",
    "default deny": ENABLED,
    "own rows": f"{ENABLED}; CREATE POLICY p ON docs USING ({OWN}); CREATE POLICY p ON parted USING ({OWN})",
    "own rows, forced": f"{ENABLED}; CREATE POLICY p ON docs USING ({OWN}); CREATE POLICY p ON parted USING ({OWN});"
    "ALTER TABLE docs FORCE ROW LEVEL SECURITY; ALTER TABLE parted FORCE ROW LEVEL SECURITY",
    "own rows, low levels": f"{ENABLED}; CREATE POLICY p ON docs USING ({OWN});"
    "CREATE POLICY low ON docs AS RESTRICTIVE USING (level < 3); CREATE POLICY p ON parted USING (level < 3)",
    "only restrictive": f"{ENABLED}; CREATE POLICY low ON docs AS RESTRICTIVE USING (level < 3)",
    "several": f"{ENABLED}; CREATE POLICY a ON docs FOR SELECT USING (level < 3);"
    f"CREATE POLICY b ON docs USING ({OWN});"
    "CREATE POLICY c ON docs AS RESTRICTIVE FOR UPDATE USING (id <> 2) WITH CHECK (level <> 9);"
    "CREATE POLICY d ON docs AS RESTRICTIVE FOR INSERT WITH CHECK (level <> 9);"
    "CREATE POLICY e ON docs AS RESTRICTIVE FOR DELETE USING (id <> 1)",
    "reads all, writes own": f"{ENABLED}; CREATE POLICY r ON docs FOR SELECT USING (true);"
    f"CREATE POLICY w ON docs FOR UPDATE USING ({OWN}) WITH CHECK (level < 5);"
    f"CREATE POLICY i ON docs FOR INSERT WITH CHECK ({OWN}); CREATE POLICY d ON docs FOR DELETE USING ({OWN});"
    f"CREATE POLICY r ON parted FOR SELECT USING (true); CREATE POLICY w ON parted FOR UPDATE USING ({OWN})",
    "writes all, reads own": f"{ENABLED}; CREATE POLICY r ON docs FOR SELECT USING ({OWN});"
    "CREATE POLICY w ON docs FOR UPDATE USING (true); CREATE POLICY i ON docs FOR INSERT WITH CHECK (true);"
    "CREATE POLICY d ON docs FOR DELETE USING (true); CREATE POLICY a ON parted USING (true)",
    "only select": f"{ENABLED}; CREATE POLICY r ON docs FOR SELECT USING (level < 5)",
    "only update": f"{ENABLED}; CREATE POLICY w ON docs FOR UPDATE USING (level < 5)",
    "only a check": f"{ENABLED}; CREATE POLICY c ON docs WITH CHECK ({OWN})",
    "select without condition": f"{ENABLED}; CREATE POLICY c ON docs FOR SELECT",
    "of a group": f"{ENABLED}; CREATE POLICY t ON docs TO team USING (level < 3);"
    "CREATE POLICY o ON docs TO owner, bob USING (id < 4);"
    "ALTER TABLE docs FORCE ROW LEVEL SECURITY; CREATE POLICY o ON parted TO bob USING (id < 7)",
    "sub-query": f"{ENABLED}; CREATE POLICY s ON docs USING "
    "(level <= (SELECT l.level FROM levels l WHERE l.name = current_user));"
    "CREATE POLICY s ON parted USING "
    "(EXISTS (SELECT FROM levels l WHERE l.name = current_user AND l.level >= parted.level))",
    "sub-query without rights": f"{ENABLED}; CREATE POLICY s ON docs USING (who IN (SELECT name FROM secret))",
    "recursion": f"{ENABLED}; CREATE POLICY s ON docs USING (EXISTS (SELECT FROM docs d WHERE d.id = docs.id))",
    "recursion of two": f"{ENABLED}; ALTER TABLE levels ENABLE ROW LEVEL SECURITY;"
    "CREATE POLICY s ON docs USING (EXISTS (SELECT FROM levels WHERE name = current_user));"
    "CREATE POLICY s ON levels USING (EXISTS (SELECT FROM docs))",
    "chain": f"{ENABLED}; ALTER TABLE levels ENABLE ROW LEVEL SECURITY;"
    "CREATE POLICY s ON docs USING (EXISTS (SELECT FROM levels l WHERE l.level >= docs.level));"
    "CREATE POLICY s ON levels USING (name = current_user)",
    "function": f"{ENABLED}; CREATE POLICY f ON docs USING (trusted() OR {OWN});"
    "CREATE POLICY f ON parted USING (trusted())",
    "function in PL/pgSQL": f"{ENABLED}; CREATE POLICY f ON docs USING (trusts(who));"
    f"CREATE POLICY f ON parted USING (trusts(who)) WITH CHECK (NOT trusts(who))",
    "low levels of all": f"{ENABLED}; CREATE POLICY l ON docs USING (level < 3);"
    "CREATE POLICY l ON parted USING (level < 3)",
    "null": f"{ENABLED}; CREATE POLICY l ON docs USING (NULL::boolean) WITH CHECK (level < 5)",
}

STATEMENTS = """
SELECT * FROM docs ORDER BY id
SELECT count(*), sum(level), max(note) FROM docs
SELECT id, who FROM docs ORDER BY id
SELECT who FROM docs WHERE id = 3
SELECT id FROM docs WHERE id IN (1, 3, 5) ORDER BY id
SELECT id FROM docs WHERE who = 'alice' AND level > 0 ORDER BY id
SELECT id FROM docs WHERE 1 / (level - 4) < 5 ORDER BY id
SELECT id FROM docs WHERE note::int > 0 ORDER BY id
SELECT id FROM docs WHERE CASE WHEN level > 3 THEN 1 / (level - level) > 0 ELSE true END ORDER BY id
SELECT y FROM (SELECT 1 / (level - 4) AS y, id FROM docs) s WHERE y < 5 ORDER BY id
SELECT d.id, l.name FROM docs d JOIN levels l ON l.level = d.level ORDER BY 1, 2
SELECT d.id FROM docs d JOIN levels l ON 1 / (d.level - 4) = l.level - l.level ORDER BY 1
SELECT l.name, d.id FROM levels l LEFT JOIN docs d ON d.level = l.level ORDER BY 1, 2
SELECT d FROM levels l LEFT JOIN docs d ON d.who = l.name AND d.level = 1 ORDER BY l.name
SELECT who, count(*) FROM docs GROUP BY who ORDER BY who
SELECT id FROM docs UNION ALL SELECT id FROM parted ORDER BY 1
SELECT name FROM levels WHERE EXISTS (SELECT FROM docs WHERE who = name) ORDER BY 1
SELECT (SELECT count(*) FROM docs), (SELECT min(id) FROM parted)
WITH d AS (SELECT * FROM docs) SELECT id FROM d ORDER BY id
SELECT id FROM docs TABLESAMPLE bernoulli (100) ORDER BY id
SELECT tableoid::regclass, id FROM docs ORDER BY id LIMIT 3
SELECT docs FROM docs ORDER BY id
SELECT id FROM docs ORDER BY id FOR UPDATE
SELECT id FROM docs WHERE id = 3 FOR SHARE
SELECT id FROM docs WHERE 1 / (level - 4) < 5 ORDER BY id FOR NO KEY UPDATE
SELECT * FROM parted ORDER BY id
SELECT id FROM parted WHERE id = 3
SELECT id FROM parted ORDER BY id FOR UPDATE
SELECT id FROM parted WHERE 1 / (level - 4) < 5 ORDER BY id FOR NO KEY UPDATE
SELECT * FROM part_low ORDER BY id
SELECT * FROM of_owner ORDER BY id
SELECT * FROM of_invoker ORDER BY id
SELECT id FROM of_invoker WHERE 1 / (level - 4) < 5 ORDER BY id
SELECT counted(), seen()
SELECT seen()
SELECT counts_as_owner(), counts()
SELECT counts() FROM levels ORDER BY 1
SELECT id FROM docs WHERE is_low(level) ORDER BY id
SELECT id FROM docs WHERE is_low(level) ORDER BY id FOR UPDATE
SELECT l.name FROM levels l LEFT JOIN docs d ON is_low(d.level) ORDER BY 1
UPDATE docs SET level = 1 WHERE is_low(level)
DELETE FROM docs WHERE is_low(level)
DO 'BEGIN UPDATE docs SET level = 2; PERFORM id FROM docs WHERE is_low(level); END'
DO 'DECLARE r record; BEGIN FOR r IN SELECT * FROM docs LOOP UPDATE docs SET level = 3 WHERE id = r.id; END LOOP; END'
SELECT row_security_active('docs'), row_security_active('docs'::regclass), row_security_active('levels')
SELECT row_security_active(oid) FROM pg_class WHERE relname IN ('docs', 'levels') ORDER BY relname
INSERT INTO docs (id, who, level) VALUES (20, current_user, 1)
INSERT INTO docs (id, who, level) VALUES (20, 'alice', 1), (21, 'bob', 9)
INSERT INTO docs (id, who, level) VALUES (20, current_user, 9) RETURNING id
INSERT INTO docs (id, who, level) VALUES (20, 'bob', 1) RETURNING 1
INSERT INTO docs (id, who, level) SELECT id + 20, who, level FROM parted
INSERT INTO docs (id, who, level) SELECT n, 'alice', 1 FROM generate_series(20, 22) n RETURNING id
INSERT INTO docs VALUES (1, 'alice', 1, 'a')
INSERT INTO docs VALUES (20, NULL, 9, 'a')
INSERT INTO docs VALUES (20, 'alice', 100, 'a')
INSERT INTO docs VALUES (20, current_user, 100, 'a')
INSERT INTO docs (id, who, level) VALUES (3, 'bob', 1) ON CONFLICT DO NOTHING
INSERT INTO docs (id, who, level) VALUES (3, current_user, 1) ON CONFLICT (id) DO NOTHING
INSERT INTO docs (id, who, level) VALUES (3, current_user, 1) ON CONFLICT (id) DO UPDATE SET level = 2
INSERT INTO docs (id, who, level) VALUES (1, current_user, 1) ON CONFLICT (id) DO UPDATE SET level = excluded.level + 8
INSERT INTO docs (id, who, level) VALUES (1, 'alice', 1) ON CONFLICT (id) DO UPDATE SET who = 'bob' RETURNING id
INSERT INTO docs (id, who, level) VALUES (7, 'alice', 1) ON CONFLICT (id) DO UPDATE SET level = 1 WHERE docs.level > 9
INSERT INTO refers VALUES (20, 7)
INSERT INTO refers VALUES (20, 99)
INSERT INTO parted VALUES (20, current_user, 1)
INSERT INTO parted VALUES (20, 'alice', 8) RETURNING id
INSERT INTO parted SELECT n, 'alice', 1 FROM generate_series(20, 22) n
INSERT INTO parted VALUES (200, 'bob', 9)
INSERT INTO part_low VALUES (0, 'x', 9)
INSERT INTO of_owner VALUES (20, 'x', 9)
INSERT INTO of_invoker VALUES (20, 'x', 9)
INSERT INTO of_invoker VALUES (20, current_user, 1) RETURNING id
INSERT INTO checked VALUES (20, current_user, 7)
UPDATE docs SET level = 2
UPDATE docs SET level = 9 WHERE id = 1
UPDATE docs SET level = 1 WHERE id = 3
UPDATE docs SET level = level + 1 RETURNING id, level
UPDATE docs SET who = 'bob' WHERE who = 'alice'
UPDATE docs SET who = NULL WHERE id = 1
UPDATE docs SET level = 1 WHERE 1 / (level - 4) < 5
UPDATE docs SET level = 1 WHERE note::int > 0
UPDATE docs SET level = l.level FROM levels l WHERE l.name = docs.who
UPDATE docs SET level = d.level FROM docs d WHERE d.id = docs.id + 1 RETURNING docs.id
UPDATE docs SET level = (SELECT max(level) FROM levels) WHERE id < 4
UPDATE levels SET level = (SELECT count(*) FROM docs)
UPDATE parted SET level = 2
UPDATE parted SET id = id + 4 WHERE id < 5 AND id > 4 - id
UPDATE parted SET id = 50 WHERE id = 3
UPDATE parted SET id = 200, level = 9 WHERE id = 3
UPDATE of_owner SET level = 2 WHERE id = 3
UPDATE of_invoker SET level = 2 WHERE id < 4
UPDATE of_invoker SET level = 9
UPDATE checked SET level = 4
DELETE FROM docs
DELETE FROM docs WHERE id = 3
DELETE FROM docs WHERE who = 'alice' RETURNING id
DELETE FROM docs WHERE 1 / (level - 4) < 5
DELETE FROM docs USING levels l WHERE l.name = who AND l.level = docs.level
DELETE FROM parted WHERE id > 2
DELETE FROM of_invoker WHERE level = 1
WITH d AS (DELETE FROM docs WHERE level = 1 RETURNING id) SELECT count(*) FROM d
WITH d AS (INSERT INTO docs (id, who, level) VALUES (20, 'bob', 1) RETURNING id) SELECT count(*) FROM d
MERGE INTO docs USING levels l ON l.name = who WHEN MATCHED AND docs.level = 1 THEN UPDATE SET level = 2
MERGE INTO docs USING two ON i = id WHEN MATCHED THEN UPDATE SET level = 9 WHEN NOT MATCHED THEN INSERT VALUES (i, user)
MERGE INTO docs USING (VALUES (3)) x (i) ON i = id WHEN MATCHED THEN DELETE
MERGE INTO docs USING (VALUES (2)) x (i) ON i = id WHEN MATCHED THEN UPDATE SET who = 'bob'
MERGE INTO docs USING (VALUES (20)) x (i) ON i = id WHEN NOT MATCHED THEN INSERT VALUES (i, 'bob', 1)
MERGE INTO docs USING (VALUES (2)) x (i) ON i = id AND 1 / (level - 4) < 5 WHEN MATCHED THEN DO NOTHING
MERGE INTO levels USING docs ON name = who AND docs.level = 1 WHEN MATCHED THEN UPDATE SET level = 50
MERGE INTO parted p USING levels l ON l.name = who WHEN MATCHED AND p.level = 1 THEN UPDATE SET level = 2
MERGE INTO parted USING two ON i = id WHEN MATCHED THEN UPDATE SET level=9 WHEN NOT MATCHED THEN INSERT VALUES (i, user)
MERGE INTO parted USING (VALUES (3), (7)) x (i) ON i = id WHEN MATCHED THEN DELETE
MERGE INTO parted USING (VALUES (1), (8)) x (i) ON i = id WHEN MATCHED THEN UPDATE SET id = 21 - i, who = 'bob'
MERGE INTO parted USING (VALUES (20)) x (i) ON i = id WHEN NOT MATCHED THEN INSERT VALUES (i, 'bob', 1)
MERGE INTO parted USING (VALUES (200)) x (i) ON i = id WHEN NOT MATCHED THEN INSERT VALUES (i, 'bob', 9)
MERGE INTO parted USING (VALUES (3)) x (i) ON i = id WHEN MATCHED THEN UPDATE SET id = 200, level = 9
MERGE INTO parted USING (VALUES (2)) x (i) ON i = id AND 1 / (level - 4) < 5 WHEN MATCHED THEN DO NOTHING
COPY docs TO STDOUT
COPY docs (id, who) TO STDOUT
COPY (SELECT id FROM docs ORDER BY id) TO STDOUT
COPY docs FROM STDIN
COPY levels FROM STDIN
TRUNCATE docs CASCADE
CREATE TEMP TABLE kept AS SELECT id FROM docs
SET LOCAL row_security = off; SELECT count(*) FROM docs
SET LOCAL row_security = off; SELECT count(*) FROM levels
SET LOCAL row_security = off; UPDATE docs SET level = 1 WHERE id = 1
SET LOCAL row_security = off; COPY docs FROM STDIN
SET LOCAL row_security = off; SELECT counted()
SET ROLE team; SELECT count(*) FROM docs
SET ROLE owner; SELECT count(*) FROM docs
PREPARE z AS SELECT count(*) FROM docs; EXECUTE z
DECLARE z CURSOR FOR SELECT id FROM docs ORDER BY id; FETCH ALL FROM z
DELETE FROM docs WHERE id = 1 AND false
SELECT policyname, roles, cmd, qual, with_check FROM pg_policies ORDER BY tablename, policyname
"""

CLEAN = """
ALTER TABLE docs DISABLE ROW LEVEL SECURITY; ALTER TABLE parted DISABLE ROW LEVEL SECURITY;
ALTER TABLE levels DISABLE ROW LEVEL SECURITY; ALTER TABLE docs NO FORCE ROW LEVEL SECURITY;
ALTER TABLE parted NO FORCE ROW LEVEL SECURITY
"""

# What differs and must: the pattern of the cell's statement, and the pattern of what Shoal answers.
DIFFERENCES: tuple[tuple[str, str], ...] = (
    (r"PREPARE .*", r"^42501"),  # a statement is planned, and its privileges are checked, when it is prepared
    (r"MERGE .*", r"^0A000 \| MERGE with a sub-query in a row security policy"),
    (r"MERGE .*", r"^0A000 \| a function in PL/pgSQL in a statement of this kind"),
    (r"SELECT .* FROM parted .* FOR .*", r"^0A000 \| FOR UPDATE on this query is not supported"),  # with a sub-query
)


def is_sampled(cell: Cell) -> bool:
    """Whether `make test` tries a cell: one in sixty."""
    return zlib.crc32(repr(cell).encode()) % 60 == 0


def statements() -> list[str]:
    return [line for line in STATEMENTS.splitlines() if line]


@dataclass(slots=True)
class Actor:
    """One actor's connection."""

    connection: psycopg.Connection

    @property
    def raw(self) -> pq.abc.PGconn:
        return self.connection.pgconn

    def run(self, text: str) -> list[str]:
        """What the statements of a text come to."""
        found: list[str] = []
        for part in statements_in(text):
            found.append(self._one(part))
        return found

    def _one(self, text: str) -> str:
        result = self.raw.exec_(text.encode())
        shown: list[str] = []
        if result.status == pq.ExecStatus.COPY_OUT:
            while (taken := self.raw.get_copy_data(False))[0] > 0:
                shown.append(bytes(taken[1]).decode().strip())
            result = self._last()
            shown.sort()
        elif result.status == pq.ExecStatus.COPY_IN:
            self.raw.put_copy_end()
            result = self._last()
        error = [result.error_field(field) for field in _FIELDS]
        if error[0] is not None:
            return " | ".join((item or b"").decode() for item in error)
        for row in range(result.ntuples):
            values = [result.get_value(row, column) for column in range(result.nfields)]
            shown.append(",".join("NULL" if value is None else value.decode() for value in values))
        if " RETURNING " in text:
            shown.sort()
        return f"{(result.command_status or b'').decode()}: {'; '.join(shown)}"

    def _last(self) -> pq.abc.PGresult:
        found = self.raw.get_result()
        assert found is not None
        while (more := self.raw.get_result()) is not None:
            found = more
        return found


_FIELDS = (pq.DiagnosticField.SQLSTATE, pq.DiagnosticField.MESSAGE_PRIMARY, pq.DiagnosticField.MESSAGE_DETAIL)


def outcomes(server: Server, settings: str = "", chosen: Callable[[Cell], bool] = lambda _: True) -> dict[Cell, str]:
    """The cells of one server."""
    found: dict[Cell, str] = {}
    with psycopg.connect(server.dsn, autocommit=True) as admin:
        for part in statements_in(SETUP):
            admin.execute(part.encode())
        actors = {}
        for actor in ACTORS:
            connection = psycopg.connect(server.dsn.replace("user=postgres", f"user={actor}"), autocommit=True)
            actors[actor] = Actor(connection)
            actors[actor].run(f"{settings}; SET statement_timeout = '20s'")
        for name, policies in POLICIES.items():
            _enact(admin, policies)
            for actor, runner in actors.items():
                for statement in statements():
                    cell = (name, actor, statement)
                    if chosen(cell):
                        found[cell] = _cell(runner, statement)
        for runner in actors.values():
            runner.connection.close()
    return found


def _enact(admin: psycopg.Connection, policies: str) -> None:
    for part in statements_in(CLEAN):
        admin.execute(part.encode())
    for table, name in admin.execute("SELECT polrelid::regclass::text, polname FROM pg_policy").fetchall():
        admin.execute(f'DROP POLICY "{name}" ON {table}'.encode())
    for part in statements_in(policies):
        admin.execute(part.encode())


def _cell(runner: Actor, statement: str) -> str:
    runner.run("BEGIN")
    found = runner.run(statement)
    changes = any(word in statement for word in ("INSERT ", "UPDATE ", "DELETE ", "MERGE "))
    if changes and runner.raw.transaction_status == pq.TransactionStatus.INTRANS:
        found += runner.run("SELECT everything()")
    runner.run("ROLLBACK")
    if statement.startswith("PREPARE"):
        runner.run("DEALLOCATE ALL")
    return " // ".join(found)


def differing(shoal: dict[Cell, str], postgres: dict[Cell, str]) -> list[str]:
    """The cells that differ and must not."""
    wrong = []
    for cell, ours in shoal.items():
        theirs = postgres[cell]
        if ours != theirs and not any(
            re.fullmatch(statement, cell[2]) and re.search(answer, ours) for statement, answer in DIFFERENCES
        ):
            wrong.append(f"[{cell[0]}] {cell[1]}: {cell[2]}\n    shoal      {ours}\n    postgresql {theirs}")
    return wrong


COLUMNAR = "SET shoal.path = columnar"


def run(
    shoal: Server, columnar: Server, postgres: Server, chosen: Callable[[Cell], bool] = lambda _: True
) -> tuple[int, list[str]]:
    """The number of cells on both paths, and those that differ."""
    with ThreadPoolExecutor(3) as pool:
        theirs = pool.submit(outcomes, postgres, "", chosen)
        ours = [pool.submit(outcomes, shoal, "", chosen), pool.submit(outcomes, columnar, COLUMNAR, chosen)]
        found = [one.result() for one in ours]
        wrong = [text for one in found for text in differing(one, theirs.result())]
    return sum(map(len, found)), wrong


def main() -> int:
    with ShoalServer() as shoal, ShoalServer() as columnar, PostgresServer() as postgres:
        count, wrong = run(shoal, columnar, postgres)
    print(*wrong, sep="\n")
    print(f"{count} cells, {len(wrong)} differ")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
