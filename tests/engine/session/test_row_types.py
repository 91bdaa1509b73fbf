"""Row types of tables and views as types: casts, arguments of functions, t.f for f(t), JSON, arrays, and DROP."""

from __future__ import annotations

import pytest

from tests.engine.session.conftest import Pair

SETUP = """
CREATE TABLE people (id int PRIMARY KEY, first text, last text, born date, tags text[], extra jsonb);
INSERT INTO people VALUES (1, 'Ada', 'Lovelace', '1815-12-10', '{math,"poets, daughter"}', '{"a": 1}'),
    (2, 'Alan', NULL, NULL, NULL, NULL), (3, NULL, NULL, NULL, NULL, NULL);
CREATE TABLE pets (id int, owner int, name text);
INSERT INTO pets VALUES (10, 1, 'Rex'), (11, 2, 'Tom'), (12, NULL, 'Kit');
CREATE VIEW named AS SELECT id, first FROM people WHERE first IS NOT NULL;
CREATE FUNCTION full_name(people) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT $1.first || ' ' || $1.last $$;
CREATE FUNCTION label(p people) RETURNS text LANGUAGE sql STABLE AS $$ SELECT p.id || ':' || coalesce(p.first, '?') $$;
CREATE FUNCTION label(p pets) RETURNS text LANGUAGE sql STABLE AS $$ SELECT 'pet ' || p.name $$;
CREATE FUNCTION pets(p people) RETURNS SETOF pets LANGUAGE sql STABLE AS $$ SELECT * FROM pets WHERE owner = p.id $$;
CREATE FUNCTION shout(p people) RETURNS text LANGUAGE plpgsql AS $$
BEGIN IF p.first IS NULL THEN RETURN NULL; END IF; RETURN upper(p.first) || (p).id; END $$;
CREATE FUNCTION older(p people, years int DEFAULT 1) RETURNS people LANGUAGE plpgsql AS $$
BEGIN p.born := p.born - years * 365; RETURN p; END $$;
CREATE FUNCTION of_view(named) RETURNS text LANGUAGE sql AS $$ SELECT 'view ' || $1.first $$;
CREATE FUNCTION many(people[]) RETURNS int LANGUAGE sql AS $$ SELECT cardinality($1) $$;
"""

QUERIES = (
    "SELECT NULL::people", "SELECT ROW(1, 'a', 'b', NULL, NULL, NULL)::people", "SELECT (NULL::people).first",
    "SELECT (ROW(1, 'a', 'b', NULL, NULL, NULL)::people).*", "SELECT ROW(1, 'a')::people", "SELECT '(5,x)'::named",
    """SELECT '(1,a,b,2000-01-01,"{x}","{""k"":2}")'::people""", "SELECT ('(5,x)'::named).first",
    "SELECT 'nope'::named", "SELECT p::people FROM people p ORDER BY id", "SELECT p::named FROM people p",
    "SELECT id, full_name(p) FROM people p", "SELECT id, full_name(people) FROM people",
    "SELECT id, p.full_name FROM people p", "SELECT people.label, pets.label FROM pets JOIN people ON owner = 1",
    "SELECT label(p), label(t) FROM people p LEFT JOIN pets t ON t.owner = p.id", "SELECT p.nothing FROM people p",
    "SELECT p.id, t.name FROM people p, pets(p) t", "SELECT p.id, pets(p) FROM people p",
    "SELECT id, shout(p) FROM people p", "SELECT p.shout FROM people p WHERE p.shout IS NOT NULL",
    "SELECT (older(p)).* FROM people p", "SELECT o.id, o.born FROM people p, older(p, 2) o",
    "SELECT older(p) FROM people p",
    "SELECT of_view(n) FROM named n", "SELECT n.of_view FROM named n", "SELECT of_view(p) FROM people p",
    "SELECT many(ARRAY[ROW(1, 'a', NULL, NULL, NULL, NULL)::people])",
    "SELECT full_name(ROW(1, 'a', 'b', NULL, NULL, NULL))", "SELECT full_name(NULL)", "SELECT label(NULL)",
    "SELECT jsonb_populate_record(NULL::people, '{\"id\": 7, \"tags\": [\"x\", \"y\"], \"born\": \"2001-02-03\"}')",
    "SELECT * FROM jsonb_populate_record(NULL::people, '{\"id\": 7, \"extra\": {\"z\": [1]}}')",
    "SELECT (jsonb_populate_record(p, '{\"last\": \"X\"}')).last FROM people p",
    "SELECT * FROM json_populate_recordset(NULL::people, '[{\"id\": 1}, {\"id\": 2, \"first\": \"q\"}]')",
    "SELECT id, first FROM jsonb_populate_recordset(NULL::named, '[{\"id\": 1}, {\"first\": \"q\"}]') ORDER BY 1",
    "SELECT row_to_json(p::people), to_jsonb(ROW(1, 'a')::named) FROM people p",
    "SELECT p = p::people, p IS NULL, p::people IS NOT NULL FROM people p", "SELECT pg_typeof(NULL::people)",
    "SELECT coalesce(NULL::people, p) FROM people p", "SELECT CASE WHEN id = 1 THEN p END FROM people p",
    "SELECT ARRAY[NULL::named, ROW(1, 'x')::named]", "SELECT (ARRAY[ROW(1, 'x')::named])[1].first",
    "SELECT count(DISTINCT p::people) FROM people p", "SELECT p::people FROM people p ORDER BY p::people DESC",
    "SELECT unnest(ARRAY[ROW(1, 'x')::named, NULL])", "SELECT * FROM unnest(ARRAY[ROW(1, 'x')::named, NULL])",
    "SELECT u.first, u.a FROM unnest(ARRAY[ROW(1, 'x')::named]) u(a)",
    "SELECT * FROM unnest(ARRAY[ROW(1, 'x')::named, ROW(2, NULL)::named]) WITH ORDINALITY AS u(i, f, n) WHERE i > 1",
    "SELECT p.id, u.first FROM people p, unnest(ARRAY[ROW(p.id, p.last)::named]) u WHERE u.first IS NOT NULL",
    "SELECT proargtypes::text <> '' FROM pg_proc WHERE proname = 'shout'",
    "SELECT pg_get_function_arguments('shout'::regproc), 'label(pets)'::regprocedure",
    "INSERT INTO people SELECT (older(p)).* FROM people p WHERE id = 1", "SELECT full_name(pets) FROM pets",
    "SELECT f(1, 2)", "SELECT label(p, 1) FROM people p",
)  # fmt: skip


@pytest.fixture
def filled(both_paths: Pair) -> Pair:
    both_paths.run(SETUP)
    return both_paths


def test_queries(filled: Pair) -> None:
    for sql in QUERIES:
        filled.same(sql)


def test_prepared(filled: Pair) -> None:
    filled.run("PREPARE q (people) AS SELECT ($1).first, full_name($1)")
    filled.same("EXECUTE q ('(1,a,b,,,)')", "EXECUTE q (NULL)", "EXECUTE q (ROW(1, 'x', 'y', NULL, NULL, NULL))")


def test_the_table_changes(filled: Pair) -> None:
    filled.same(
        "ALTER TABLE people ADD COLUMN email text DEFAULT 'e'", "SELECT label(p) FROM people p ORDER BY 1",
        "SELECT ROW(1, 'a', 'b', NULL, NULL, NULL)::people", "SELECT ROW(1, 'a', 'b', NULL, NULL, NULL, 'm')::people",
        "ALTER TABLE people RENAME first TO given", "ALTER TABLE people RENAME given TO first",
        "ALTER TABLE people DROP COLUMN tags",
        "SELECT p.label FROM people p",
        "SELECT shout(p) FROM people p", "ALTER TABLE people RENAME TO humans", "SELECT h.label FROM humans h",
        "SELECT pg_get_function_identity_arguments('shout'::regproc)", "SELECT NULL::people", "SELECT NULL::humans",
    )  # fmt: skip
    filled.same(
        "CREATE VIEW labels AS SELECT h.label AS l, full_name(h) AS f FROM humans h", "SELECT * FROM labels",
        "ALTER TABLE humans ADD COLUMN more int", "SELECT * FROM labels", "SELECT pg_get_viewdef('labels'::regclass)",
    )  # fmt: skip


def test_drop(filled: Pair) -> None:
    filled.same(
        "DROP VIEW named", "DROP VIEW named CASCADE", "SELECT of_view(NULL)", "DROP TABLE pets",
        "DROP FUNCTION label(pets)",
        "DROP FUNCTION shout(people)", "DROP TABLE people CASCADE",
        "SELECT proname FROM pg_proc WHERE proname IN ('label', 'full_name', 'pets', 'shout', 'older', 'many')",
    )  # fmt: skip


@pytest.mark.parametrize(
    "sql", ["CREATE TABLE x (p people)", "CREATE TYPE x AS (p people[])", "CREATE DOMAIN x AS people"]
)
def test_rows_of_tables_are_not_stored(filled: Pair, sql: str) -> None:
    with pytest.raises(Exception, match="row of a table"):
        filled.shoal.execute(sql.encode())
