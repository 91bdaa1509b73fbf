"""Where pg_temp stands in the search path: functions that run as their owners put it last, so that nobody's temporary
table takes the place of what they mean."""

from __future__ import annotations

import itertools

import pytest

from tests.engine.session.conftest import Pair, outcome

NAMES = ("pg_temp", "statements", "pg_catalog")
PATHS = [", ".join(path) for size in (1, 2, 3) for path in itertools.permutations(NAMES, size)]
STATEMENTS = (
    "SELECT * FROM shown", "SELECT count(*) FROM shown", "INSERT INTO shown VALUES ('new')", "TABLE pg_am LIMIT 0",
    "UPDATE shown SET v = 'changed' RETURNING v", "DELETE FROM shown RETURNING v", "SELECT v FROM pg_temp.shown",
    "SELECT relpersistence FROM pg_class WHERE oid = 'shown'::regclass", "SELECT v FROM only_temporary",
    "SELECT pg_table_is_visible('statements.shown'::regclass), pg_table_is_visible('pg_temp.shown'::regclass)",
    "DROP TABLE shown; SELECT v FROM shown", "ALTER TABLE shown ADD w int; SELECT * FROM shown",
)  # fmt: skip


@pytest.mark.parametrize("temporary", [True, False])
def test_tables_are_found_where_the_path_has_them(pair: Pair, temporary: bool) -> None:
    pair.run("CREATE TABLE shown (v text)", "INSERT INTO shown VALUES ('permanent')")
    if temporary:
        pair.run("CREATE TEMP TABLE shown (v text)", "INSERT INTO pg_temp.shown VALUES ('temporary')")
        pair.run("CREATE TEMP TABLE only_temporary (v text)", "CREATE TEMP TABLE pg_am (v text)")
    wrong = []
    for path, statement in itertools.product(PATHS, STATEMENTS):
        if not temporary and "pg_temp." in statement:
            continue  # the schema is made with its first table
        pair.run("BEGIN", f"SET LOCAL search_path = {path}")
        found = []
        for connection in (pair.shoal, pair.postgres):
            outcomes = [outcome(connection, part) for part in statement.split("; ")]
            found.append([one[:2] for one in outcomes])
            connection.execute("ROLLBACK")
        if found[0] != found[1]:
            wrong.append(f"{path}: {statement}\n  Shoal      {found[0]}\n  PostgreSQL {found[1]}")
    assert not wrong, "\n".join(wrong)


def test_a_function_of_its_owner_finds_what_it_means(pair: Pair) -> None:
    pair.run("CREATE ROLE caller", "GRANT ALL ON SCHEMA statements TO caller")
    pair.run("CREATE TABLE shown (v text)", "INSERT INTO shown VALUES ('meant')", "GRANT SELECT ON shown TO caller")
    pair.run("CREATE FUNCTION f() RETURNS text LANGUAGE sql SECURITY DEFINER AS 'SELECT max(v) FROM shown'")
    pair.run("SET ROLE caller", "CREATE TEMP TABLE shown (v text)", "INSERT INTO pg_temp.shown VALUES ('forged')")
    pair.run("GRANT SELECT ON pg_temp.shown TO PUBLIC", "SET search_path = statements, pg_temp")
    try:
        pair.same("SELECT f()", "SELECT f() FROM shown")
    finally:
        pair.run("RESET ROLE", "RESET search_path", "DROP OWNED BY caller", "DROP ROLE caller")
