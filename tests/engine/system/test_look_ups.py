"""Look-ups in pg_catalog on the row path: they find what a walk over everything finds, and no whole table is made."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from catalog.system.object_search import look_ups
from engine.system_views.rows import SMALL_ITEMS, WHOLE_ITEMS
from tests.samples import some
from tests.server import ShoalServer

DATABASE = "looked_up"
TABLES = SMALL_ITEMS + 20  # beyond this look-ups go by object
COLUMNS = sorted({(relation, column) for relation, column in look_ups() if relation.startswith("pg_")})


@pytest.fixture(scope="module")
def database(shoal: ShoalServer) -> Iterator[str]:
    """A database with more objects than go into a list for each statement."""
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {DATABASE}")
        dsn = shoal.dsn.replace("dbname=postgres", f"dbname={DATABASE}")
        with psycopg.connect(dsn) as inside:
            inside.execute("CREATE SCHEMA aside")
            inside.execute("CREATE VIEW one AS SELECT 1 AS a")
            inside.execute("COMMENT ON VIEW one IS 'the one'")
            inside.execute("CREATE TYPE mood AS ENUM ('good', 'bad')")
            inside.execute("CREATE DOMAIN aside.positive AS int CHECK (VALUE > 0)")
            inside.execute("COMMENT ON DOMAIN aside.positive IS 'more than nothing'")
            inside.execute("CREATE TABLE ancestor (a int)")
            inside.execute("CREATE TABLE aside.ancestor (b int)")
            inside.execute("CREATE TABLE parts (a int PRIMARY KEY, b text) PARTITION BY RANGE (a)")
            inside.execute("CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (10)")
            inside.execute("CREATE TABLE aside.rest PARTITION OF parts DEFAULT")
            inside.execute("CREATE TABLE heir (c int) INHERITS (aside.ancestor, ancestor)")
            for number in range(TABLES):
                schema = "aside" if number % 3 == 0 else "public"
                inside.execute(
                    f"CREATE TABLE {schema}.t{number} (id serial PRIMARY KEY, a int DEFAULT {number} CHECK (a >= 0), "
                    "b text UNIQUE, other int REFERENCES aside.t0 (id))"
                )
                inside.execute(f"COMMENT ON COLUMN {schema}.t{number}.a IS 'number {number}'")
                inside.execute(f"COMMENT ON CONSTRAINT t{number}_pkey ON {schema}.t{number} IS 'key {number}'")
        yield dsn
        connection.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")


@pytest.mark.parametrize(("relation", "column"), some(COLUMNS, 5))
def test_a_look_up_finds_what_a_walk_finds(database: str, relation: str, column: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        query = f"SELECT * FROM pg_catalog.{relation} WHERE {column} = %s"
        plan = "\n".join(row[0] for row in connection.execute(f"EXPLAIN {query}".replace("%s", "'16400'")).fetchall())
        assert f"Index Scan on {relation}" in plan
        connection.execute("SET shoal.path = 'columnar'")
        values = connection.execute(f"SELECT DISTINCT {column}::text FROM pg_catalog.{relation} ORDER BY 1").fetchall()
        chosen = [value for (value,) in values if value is not None][:: max(1, len(values) // 40)]
        walked = [sorted(map(str, connection.execute(query, (value,)).fetchall())) for value in chosen]
        connection.execute("SET shoal.path = DEFAULT")
        found = [sorted(map(str, connection.execute(query, (value,)).fetchall())) for value in chosen]
        assert found == walked
        assert any(walked)


def test_a_member_of_a_list_or_a_sub_query_is_looked_up(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        for condition in (
            "attrelid IN ('t1'::regclass, 't2'::regclass, 't1'::regclass)",
            "attrelid = ANY (ARRAY['t1'::regclass, 't2'::regclass]::oid[])",
            "attrelid IN (SELECT oid FROM pg_class WHERE relname IN ('t1', 't2'))",
        ):
            query = f"SELECT count(*), min(attname), max(attnum) FROM pg_attribute WHERE {condition} AND attnum > 0"
            assert connection.execute(query).fetchone() == (8, "a", 4)
            plan = "\n".join(row[0] for row in connection.execute(f"EXPLAIN {query}").fetchall())
            assert "Index Scan on pg_attribute" in plan


def test_the_parameters_of_a_routine_are_looked_up(database: str) -> None:
    """As tools ask that read the catalog one routine after the other."""
    with psycopg.connect(database, autocommit=True) as connection:
        query = "SELECT unnest(proargtypes) FROM pg_proc WHERE oid = 'substring(text,int,int)'::regprocedure"
        assert connection.execute(query).fetchall() == [(25,), (23,), (23,)]
        plan = [row[0].strip() for row in connection.execute(f"EXPLAIN (COSTS OFF) {query}").fetchall()]
        assert plan[:2] == ["ProjectSet", "->  Index Scan on pg_proc"]


def test_a_pattern_of_one_name_is_a_look_up_and_others_are_not(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        query = "SELECT count(*) FROM pg_class WHERE relname ~ %s"
        for pattern, count in (("^(t1)$", 1), ("^t1$", 1), ("^(T1)$", 0), ("^(t.)$", 10), ("1_pkey$", 12), (None, 0)):
            assert connection.execute(query, (pattern,)).fetchone() == (count,), pattern


def test_a_change_shows_in_the_next_look_up(database: str) -> None:
    query = "SELECT relname, relnatts, relhastriggers FROM pg_class WHERE oid = %s"
    with psycopg.connect(database, autocommit=True) as one, psycopg.connect(database) as other:
        one.execute("CREATE TABLE changing (a int PRIMARY KEY)")
        found = one.execute("SELECT 'changing'::regclass::oid").fetchone()
        assert one.execute(query, found).fetchone() == ("changing", 1, False)
        other.execute("ALTER TABLE changing ADD b int")
        assert other.execute(query, found).fetchone() == ("changing", 2, False)
        assert one.execute(query, found).fetchone() == ("changing", 1, False)
        other.commit()
        assert one.execute(query, found).fetchone() == ("changing", 2, False)
        one.execute("ALTER TABLE changing RENAME TO changed")
        one.execute("CREATE TABLE referring (a int REFERENCES changed)")
        assert one.execute(query, found).fetchone() == ("changed", 2, True)
        one.execute("DROP TABLE referring, changed")
        assert one.execute(query, found).fetchone() is None


def test_relations_of_many_objects_are_left_to_the_columnar_path(database: str) -> None:
    """All of pg_class is beyond the row path's limit here or not: the answer is the same."""
    with psycopg.connect(database, autocommit=True) as connection:
        count = connection.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 't%'").fetchone()
        connection.execute("SET shoal.path = 'columnar'")
        assert connection.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 't%'").fetchone() == count
        assert WHOLE_ITEMS > TABLES


def test_system_columns_and_characters_of_names(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        query = "SELECT tableoid::regclass::text, typname[0], typname[1] = '', typname[64] FROM pg_type WHERE oid = 16"
        assert connection.execute(query).fetchone() == ("pg_type", "b", False, None)
