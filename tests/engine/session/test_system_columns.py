"""ctid, xmin, xmax, cmin, cmax and tableoid of tables."""

from __future__ import annotations

import psycopg
import pytest

from tests.engine.session.conftest import SCHEMA, Pair

ROWS = (
    "CREATE TABLE plain (x int, y text)",
    "INSERT INTO plain VALUES (1, 'a'), (1, 'a'), (2, 'b'), (3, 'c'), (3, 'c'), (3, 'd')",
    "CREATE TABLE keyed (id int PRIMARY KEY, y text)",
    "INSERT INTO keyed SELECT n, 'y' || n FROM generate_series(1, 9) n",
    "CREATE TABLE whole (a bool, b int2, c int8, d float4, e float8, f numeric, g text, h varchar(9), i char(5), "
    "j bytea, k date, l time, m timetz, n timestamp, o timestamptz, p interval, q uuid, r json, s jsonb, t inet, "
    "u int[], v text[], w int4range, x point, y bit(3), z name)",
    "INSERT INTO whole VALUES (true, 2, 3, 1.5, -0.1, 1.50, 'g', 'h', 'i', '\\x00ff', '2020-02-02', '01:02', "
    "'01:02+03', '2020-02-02 01:02', '2020-02-02 01:02+03', '1 mon 2 days 03:04', "
    "'6d8f7a3e-0000-4000-8000-000000000001', '{\"a\": 1}', '{\"a\": 1.0}', '10.0.0.1/8', '{1,NULL}', '{a,\"b c\"}', "
    "'[1,5)', '(1,2)', B'101', 'z'), (false, NULL, NULL, 'NaN', 'Infinity', 'NaN', '', NULL, NULL, '', 'infinity', "
    "'24:00', NULL, '-infinity', NULL, '-1 us', NULL, NULL, 'null', NULL, '{}', NULL, 'empty', NULL, NULL, NULL)",
)  # fmt: skip

ALIKE = (
    "SELECT ctid, xmax, cmin, cmax, tableoid::regclass, x FROM plain",
    "SELECT ctid, y FROM plain WHERE ctid = '(0,3)'",
    "SELECT ctid, y FROM keyed WHERE ctid = '(0,3)'",
    "SELECT y FROM keyed WHERE ctid = '(0,99)' OR ctid = '(7,1)'",
    'SELECT y FROM plain WHERE ctid = ANY(\'{"(0,2)","(0,4)","(9,4)"}\')',
    "SELECT y FROM plain WHERE ctid IN ('(0,2)', '(0,6)')",
    "SELECT y FROM keyed WHERE ctid > '(0,3)' AND ctid <= '(0,6)'",
    "SELECT y FROM plain WHERE NOT ctid < '(0,5)'",
    "SELECT ctid, row_number() OVER (ORDER BY ctid DESC) FROM plain ORDER BY ctid",
    "SELECT min(ctid), max(ctid), x FROM plain GROUP BY x",
    "SELECT count(DISTINCT ctid) FROM plain",
    "SELECT k.ctid, p.ctid FROM keyed k LEFT JOIN plain p ON p.x = k.id AND p.y <> 'a'",
    "SELECT k.ctid FROM keyed k JOIN plain p ON p.ctid = k.ctid",
    "SELECT ctid FROM keyed JOIN plain ON true",
    "SELECT ctid FROM keyed, plain",
    "SELECT nothing.ctid FROM keyed",
    "SELECT ctid FROM generate_series(1, 2)",
    "SELECT (SELECT p.ctid FROM plain p WHERE p.ctid = k.ctid) FROM keyed k",
    "DELETE FROM plain WHERE ctid NOT IN (SELECT min(ctid) FROM plain GROUP BY x, y) RETURNING ctid, x",
    "DELETE FROM plain a USING plain b WHERE a.ctid > b.ctid AND a.x = b.x RETURNING a.ctid, a.y",
    "DELETE FROM keyed WHERE ctid IN (SELECT ctid FROM keyed WHERE id > 7 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) "
    "RETURNING ctid, y",
    "DELETE FROM keyed WHERE ctid = ANY(ARRAY(SELECT ctid FROM keyed WHERE id > 7 LIMIT 1 FOR UPDATE)) RETURNING y",
    "WITH gone AS (SELECT ctid FROM keyed WHERE id < 3) DELETE FROM keyed USING gone WHERE keyed.ctid = gone.ctid",
    "SELECT xmin = xmin, xmin <> '0' FROM keyed",
    "INSERT INTO keyed VALUES (4, 'new'), (10, 'ten') ON CONFLICT (id) DO UPDATE SET y = excluded.y "
    "RETURNING id, y, xmax = 0 AS inserted",
    "INSERT INTO keyed VALUES (11, 'k') RETURNING tableoid::regclass, xmax, cmax",
    "INSERT INTO keyed VALUES (11, 'k') ON CONFLICT DO NOTHING RETURNING xmax",
    "UPDATE keyed SET y = 'up' WHERE ctid = '(0,5)' RETURNING id, y, xmax",
    "CREATE VIEW places AS SELECT ctid, xmin = xmin AS same, y FROM plain",
    "SELECT pg_get_viewdef('places')",
    "SELECT same, y FROM places WHERE ctid = '(0,1)'",
    "SELECT xmin FROM places",
    "CREATE TABLE checked (a int CHECK (xmin::text <> ''))",
    "CREATE TABLE generated (a int, b text GENERATED ALWAYS AS (ctid::text) STORED)",
    "UPDATE keyed SET ctid = '(0,1)'",
    "INSERT INTO keyed (xmin) VALUES (1)",
    "CREATE TABLE tids (t tid PRIMARY KEY)",
    "INSERT INTO tids VALUES ('(0,1)'), ('(4294967295,65535)'), ('(7,0)')",
    "SELECT t, t = '(7,0)', t <> '(7,0)', t < '(7,0)', t >= '(7,0)' FROM tids ORDER BY t",
)


def test_queries_and_changes_use_them_as_in_postgresql(both_paths: Pair) -> None:
    both_paths.run(*ROWS)
    both_paths.same(*ALIKE)


def test_the_same_row_has_the_same_values_on_both_paths(pair: Pair) -> None:
    for statement in ROWS:
        pair.shoal.execute(statement.encode())
    pair.shoal.execute("CREATE TABLE named (n text, u uuid, PRIMARY KEY (n, u))")
    pair.shoal.execute("INSERT INTO named SELECT 'n' || n, gen_random_uuid() FROM generate_series(1, 50) n")
    pair.shoal.execute("CREATE TABLE big (n int8 PRIMARY KEY)")
    pair.shoal.execute("INSERT INTO big VALUES (-1), (0), (65536), (9223372036854775807), (-9223372036854775808)")
    for table in ("plain", "keyed", "whole", "named", "big"):
        found = []
        for path in ("auto", "columnar"):
            pair.shoal.execute(f"SET shoal.path = {path}".encode())
            found.append(pair.shoal.execute(f"SELECT ctid, xmin, t FROM {table} t ORDER BY ctid".encode()).fetchall())
        assert found[0] == found[1]
        places = [row[0] for row in found[0]]
        assert len({*places}) == len(places) > 1
        for place in places:
            query = f"SELECT count(*) FROM {table} WHERE ctid = '{place}'".encode()
            assert pair.shoal.execute(query).fetchall() == [(1,)]


def test_a_row_with_another_value_has_another_xmin(pair: Pair) -> None:
    """Optimistic locking, as Entity Framework does it: a writer that has read an old version changes nothing."""
    pair.run(*ROWS[2:4])
    for connection in (pair.shoal, pair.postgres):
        with psycopg.connect(connection.info.dsn, options=f"-c search_path={SCHEMA}") as other:
            read = "SELECT xmin FROM keyed WHERE id = 1"
            update = "UPDATE keyed SET y = %s WHERE id = 1 AND xmin = %s RETURNING xmin"
            [(first,)] = connection.execute(read).fetchall()
            [(second,)] = other.execute(update, ("second", first)).fetchall()
            assert second != first
            other.commit()
            assert connection.execute(update, ("lost", first)).fetchall() == []
            assert connection.execute(read).fetchall() == [(second,)]
            [(third,)] = connection.execute(update, ("third", second)).fetchall()
            assert third not in (first, second)


def test_rows_of_families_without_a_common_key_have_no_ctid(pair: Pair) -> None:
    pair.shoal.execute("CREATE TABLE parent (x int)")
    pair.shoal.execute("CREATE TABLE child () INHERITS (parent)")
    assert pair.shoal.execute("SELECT ctid FROM ONLY parent").fetchall() == []
    with pytest.raises(psycopg.errors.FeatureNotSupported, match='system column "ctid" of an inherited table'):
        pair.shoal.execute("SELECT ctid FROM parent")


def test_policies_restrict_rows_that_are_found_by_ctid(both_paths: Pair) -> None:
    both_paths.run(
        *ROWS[:2],
        "ALTER TABLE plain ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY larger ON plain USING (x > 1)",
        "GRANT ALL ON plain TO pg_monitor",
        f"GRANT USAGE ON SCHEMA {SCHEMA} TO pg_monitor",
        "SET ROLE pg_monitor",
    )
    both_paths.same(
        "SELECT ctid, tableoid::regclass, x FROM plain",
        "SELECT ctid FROM plain WHERE ctid = '(0,1)'",
        "DELETE FROM plain WHERE ctid IN ('(0,1)', '(0,4)') RETURNING ctid, x",
        "RESET ROLE",
    )
