"""Row security beside PostgreSQL: statements about policies, their dependents and their texts; conditions that fail for
rows which policies hide, in generated places on both paths; plans that must end. tests/rights/row_matrix.py has sets of
policies by roles by statements."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest

from tests.engine.session.conftest import Pair, outcome
from tests.engine.session.test_barriers import CHANGES, CONDITIONS, PLACES

READER = "rls_reader"
ROLES = (READER, "rls_other", "rls_group")
SAMPLE = 60  # of some 700 on each path
SHOWN = """SELECT tablename, policyname, permissive, roles::text, cmd, qual, with_check FROM pg_policies
 WHERE schemaname = current_schema"""
FLAGS = "SELECT relname, relrowsecurity, relforcerowsecurity FROM pg_class WHERE relname IN ('t', 'u')"
DESCRIBED = """SELECT DISTINCT pg_describe_object(d.classid, d.objid, 0),
 pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid), d.deptype
 FROM pg_depend d JOIN pg_policy p ON p.oid = d.objid AND d.classid = 'pg_policy'::regclass"""
IDENTIFIED = "SELECT i.* FROM pg_policy p, pg_identify_object('pg_policy'::regclass, p.oid, 0) i"
COMMENTED = "SELECT polname, obj_description(oid, 'pg_policy') FROM pg_policy"


@pytest.fixture
def world(pair: Pair) -> Iterator[Pair]:
    for connection in (pair.shoal, pair.postgres):
        for role in ROLES:
            connection.execute(f"CREATE ROLE {role}".encode())
        connection.execute(f"GRANT USAGE ON SCHEMA statements TO {', '.join(ROLES)}".encode())
    pair.run("CREATE TABLE t (a int PRIMARY KEY, b text, who name)", "CREATE TABLE u (a int, b text)")
    yield pair
    for connection in (pair.shoal, pair.postgres):
        connection.rollback()
        connection.execute(b"RESET ROLE; RESET row_security; DROP SCHEMA statements CASCADE; CREATE SCHEMA statements")
        connection.execute(f"DROP OWNED BY {', '.join(ROLES)}; DROP ROLE {', '.join(ROLES)}".encode())


def same(world: Pair, *statements: str) -> None:
    """Runs statements on both servers, and compares all of their outcomes."""
    wrong = []
    for number, sql in enumerate(statements):
        ours, theirs = outcome(world.shoal, sql), outcome(world.postgres, sql)
        if ours != theirs:
            wrong.append(f"{number}. {sql}\n  Shoal      {ours}\n  PostgreSQL {theirs}")
    assert not wrong, "\n".join(wrong)


def test_statements_about_policies(world: Pair) -> None:
    same(
        world,
        "CREATE POLICY p ON t",
        "CREATE POLICY p ON t",
        "CREATE POLICY q ON nowhere",
        "CREATE POLICY q ON t AS permissive FOR SELECT TO rls_reader, rls_other USING (b = 'x') WITH CHECK (true)",
        "CREATE POLICY q ON t AS RESTRICTIVE FOR INSERT USING (true)",
        "CREATE POLICY q ON t AS something",
        "CREATE POLICY q ON t FOR TRUNCATE",
        "CREATE POLICY q ON t TO nobody",
        "CREATE POLICY q ON t USING (a)",
        "CREATE POLICY q ON t USING (count(*) > 1)",
        "CREATE POLICY q ON t USING (row_number() OVER () > 1)",
        "CREATE POLICY q ON t USING (generate_series(1, 2) > 1)",
        "CREATE POLICY q ON t USING (c = 1)",
        "CREATE POLICY q ON t AS restrictive FOR UPDATE TO rls_reader, CURRENT_USER USING (a > 1 AND b = 'x') "
        "WITH CHECK (a > 2)",
        "CREATE POLICY r ON t FOR DELETE TO public, rls_reader USING (EXISTS (SELECT 1 FROM u WHERE u.a = t.a))",
        "CREATE POLICY s ON t FOR INSERT WITH CHECK (who = current_user AND a IN (SELECT a FROM u x WHERE x.b = t.b))",
        SHOWN,
        "ALTER POLICY q ON t TO rls_other",
        "ALTER POLICY q ON t USING (a > 5)",
        "ALTER POLICY q ON t WITH CHECK (a > 6)",
        "ALTER POLICY r ON t WITH CHECK (true)",
        "ALTER POLICY s ON t USING (true)",
        "ALTER POLICY nothing ON t USING (true)",
        "ALTER POLICY q ON t RENAME TO r",
        "ALTER POLICY nothing ON t RENAME TO x",
        "ALTER POLICY q ON t RENAME TO x",
        "ALTER POLICY IF EXISTS q ON nowhere RENAME TO x",
        "COMMENT ON POLICY x ON t IS 'seen'",
        "COMMENT ON POLICY nothing ON t IS 'seen'",
        SHOWN,
        COMMENTED,
        DESCRIBED,
        IDENTIFIED,
        "SELECT classid::regclass, objsubid FROM pg_get_object_address('policy', '{t,x}', '{}')",
        "DROP POLICY nothing ON t",
        "DROP POLICY IF EXISTS nothing ON t",
        "DROP POLICY IF EXISTS x ON nowhere",
        "DROP POLICY x ON t",
        SHOWN,
    )


def test_row_security_of_tables(world: Pair) -> None:
    world.run("CREATE VIEW v AS SELECT * FROM t", "CREATE SEQUENCE s", "CREATE MATERIALIZED VIEW m AS SELECT * FROM t")
    same(
        world,
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY", FLAGS, "ALTER TABLE t FORCE ROW LEVEL SECURITY", FLAGS,
        "ALTER TABLE t DISABLE ROW LEVEL SECURITY, ADD COLUMN z int", FLAGS,
        "ALTER TABLE t NO FORCE ROW LEVEL SECURITY", FLAGS, "ALTER TABLE v ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY p ON v", "CREATE POLICY p ON m", "CREATE POLICY p ON s",
        "SELECT tablename, rowsecurity FROM pg_tables WHERE schemaname = current_schema",
    )  # fmt: skip


def test_conditions_follow_new_names(world: Pair) -> None:
    world.run(
        "CREATE POLICY p ON t USING (b = 'x' AND a IN (SELECT u.a FROM u WHERE u.b = t.b)) WITH CHECK (a > 1)",
        "CREATE POLICY q ON t USING (EXISTS (SELECT FROM u AS s (x, y) WHERE s.x = t.a))",
    )
    same(world, SHOWN)
    for change in (
        "ALTER TABLE t RENAME COLUMN b TO c", "ALTER TABLE u RENAME COLUMN b TO d", "ALTER TABLE u RENAME TO w",
        "ALTER TABLE t RENAME TO tt", "ALTER TABLE w RENAME COLUMN a TO e",
    ):  # fmt: skip
        world.run(change)
        same(world, SHOWN)
    same(world, "SELECT count(*) FROM tt")


def test_what_depends_on_what(world: Pair) -> None:
    world.run(
        "CREATE FUNCTION fine(text) RETURNS boolean LANGUAGE sql AS 'SELECT $1 IS NOT NULL'",
        "CREATE VIEW v AS SELECT * FROM u",
        "CREATE POLICY p ON t TO rls_reader USING (fine(b))",
        "CREATE POLICY q ON t TO rls_reader, rls_other USING (a IN (SELECT u.a FROM u))",
        "CREATE POLICY r ON t USING (a IN (SELECT v.a FROM v))",
    )
    same(
        world,
        "DROP TABLE u", "DROP VIEW v", "DROP FUNCTION fine(text)", "DROP ROLE rls_reader",
        "ALTER TABLE t DROP COLUMN b", "ALTER TABLE t DROP COLUMN a", "ALTER TABLE u DROP COLUMN a",
        "ALTER TABLE t ALTER COLUMN b TYPE varchar(5)",
        "ALTER TABLE u ALTER COLUMN a TYPE bigint", "ALTER TABLE t DROP COLUMN who", SHOWN,
        "DROP VIEW v CASCADE", SHOWN, "DROP FUNCTION fine(text) CASCADE", SHOWN,
        "DROP OWNED BY rls_reader", SHOWN, "ALTER TABLE u DROP COLUMN a CASCADE", SHOWN,
        "CREATE POLICY s ON t TO rls_other USING (b = 'x')", "ALTER TABLE t DROP COLUMN b CASCADE", SHOWN,
        "CREATE POLICY s ON t TO rls_other", "DROP OWNED BY rls_other", SHOWN, "DROP TABLE t", SHOWN,
    )  # fmt: skip


ROWS = (
    "CREATE TABLE hidden (id int PRIMARY KEY, s text, n int)",
    "INSERT INTO hidden VALUES (1, 'secret-1', 0), (2, '2', 5), (3, 'secret-3', 0), (4, '4', 6)",
    "CREATE TABLE allowed (id int PRIMARY KEY); INSERT INTO allowed VALUES (2), (4)",
    "GRANT ALL ON hidden, allowed TO rls_reader", "ALTER TABLE hidden ENABLE ROW LEVEL SECURITY",
)  # fmt: skip
USING = ("id = 2", "n > 0", "id IN (SELECT id FROM allowed)", "10 / (n + 1) < 5 AND n <> 0")


def barred() -> list[str]:
    places = (*itertools.product(PLACES, CONDITIONS), *itertools.product(CHANGES, CONDITIONS))
    return list(dict.fromkeys(place.format(v="hidden", c=condition) for place, condition in places))


@pytest.mark.parametrize("using", USING)
@pytest.mark.parametrize("path", ["auto", "columnar"])
def test_no_error_tells_of_rows_that_a_policy_hides(world: Pair, path: str, using: str) -> None:
    world.shoal.execute(f"SET shoal.path = {path}".encode())
    world.run(*ROWS, f"CREATE POLICY p ON hidden USING ({using})", f"SET ROLE {READER}")
    wrong = []
    for sql in random.Random(using + path).sample(barred(), SAMPLE):
        found = []
        for connection in (world.shoal, world.postgres):
            connection.execute(b"BEGIN")
            found.append(outcome(connection, sql))
            connection.rollback()
        if found[0] != found[1] and found[0][0] != "0A000":
            wrong.append((sql, *found))
    assert not wrong, wrong[0]


def test_a_plan_ends_with_the_policies_that_it_has(world: Pair) -> None:
    world.run(
        "INSERT INTO t VALUES (1, 'a', 'rls_reader'), (2, 'b', 'rls_other')", "GRANT ALL ON t TO rls_reader, rls_other",
        "CREATE POLICY p ON t USING (who = current_user)", "PREPARE z AS SELECT a FROM t",
    )  # fmt: skip
    look = ("EXECUTE z", "SELECT a FROM t", "SELECT a FROM t WHERE a = 1", "SELECT a FROM t WHERE a = 1")
    for change in (
        "SELECT", "SET ROLE rls_reader", "RESET ROLE", "ALTER TABLE t ENABLE ROW LEVEL SECURITY", "SET ROLE rls_reader",
        "SET ROLE rls_other", "SET row_security = off", "RESET row_security", "RESET ROLE",
        "ALTER POLICY p ON t USING (true)", "SET ROLE rls_reader", "RESET ROLE", "DROP POLICY p ON t",
        "SET ROLE rls_reader", "RESET ROLE", "ALTER ROLE rls_reader BYPASSRLS", "SET ROLE rls_reader", "RESET ROLE",
        "ALTER ROLE rls_reader NOBYPASSRLS", "CREATE POLICY q ON t TO rls_group USING (true)", "SET ROLE rls_reader",
        "RESET ROLE", "GRANT rls_group TO rls_reader", "SET ROLE rls_reader", "RESET ROLE",
        "REVOKE rls_group FROM rls_reader", "SET ROLE rls_reader", "RESET ROLE",
        "ALTER TABLE t DISABLE ROW LEVEL SECURITY", "SET ROLE rls_reader",
    ):  # fmt: skip
        same(world, change, *look, *look)


def test_errors_do_not_show_rows_of_restricted_tables(world: Pair) -> None:
    world.run(
        "CREATE TABLE r (id int PRIMARY KEY, a int REFERENCES t, n int NOT NULL CHECK (n > 0), UNIQUE (n))",
        "INSERT INTO t VALUES (1)", "INSERT INTO r VALUES (1, 1, 1)", "GRANT ALL ON r, t TO rls_reader",
        "CREATE POLICY p ON r USING (true)", "CREATE POLICY p ON t USING (true)",
    )  # fmt: skip
    failing = (
        "INSERT INTO r VALUES (1, 1, 2)", "INSERT INTO r VALUES (2, 1, 1)", "INSERT INTO r VALUES (2, 1, NULL)",
        "INSERT INTO r VALUES (2, 1, -1)", "INSERT INTO r VALUES (2, 7, 5)", "DELETE FROM t", "UPDATE r SET n = -1",
        "UPDATE r SET n = NULL", "UPDATE t SET a = 2",
    )  # fmt: skip
    world.run(f"SET ROLE {READER}")
    same(world, *failing)
    world.run("RESET ROLE", "ALTER TABLE r ENABLE ROW LEVEL SECURITY", f"SET ROLE {READER}")
    same(world, *failing)
    world.run("RESET ROLE", "ALTER TABLE t ENABLE ROW LEVEL SECURITY", f"SET ROLE {READER}")
    same(world, *failing)


def test_many_rows_in_bulk(world: Pair) -> None:
    world.run(
        "INSERT INTO t SELECT n, 'b', 'rls_reader' FROM generate_series(1, 5000) n", "GRANT ALL ON t, u TO rls_reader",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY", "CREATE POLICY p ON t USING (a % 2 = 0) WITH CHECK (a < 20000)",
        f"SET ROLE {READER}",
    )  # fmt: skip
    same(
        world,
        "INSERT INTO t SELECT n, 'c' FROM generate_series(10001, 14000) n",
        "INSERT INTO t SELECT n, 'c' FROM generate_series(16001, 20001) n", "UPDATE t SET b = 'd'",
        "UPDATE t SET a = a + 20000", "UPDATE t SET a = a + 20000 WHERE a > 13990", "DELETE FROM t WHERE a > 100",
        "SELECT count(*), sum(a) FROM t", "RESET ROLE",
        "SELECT count(*), sum(a), count(*) FILTER (WHERE b = 'd') FROM t",
    )  # fmt: skip
