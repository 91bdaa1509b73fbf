"""Statements that applications send (tests/applications), reduced to what Shoal once answered otherwise."""

from __future__ import annotations

import pytest

from tests.engine.session.conftest import Pair

STATEMENTS = {
    "functions of pg_temp": (
        "CREATE TABLE pg_temp.kept (id int PRIMARY KEY, t text)",
        "CREATE FUNCTION pg_temp.keep(OUT response pg_temp.kept, OUT caught text) LANGUAGE plpgsql AS $$ BEGIN "
        "INSERT INTO kept VALUES (1, 'a') RETURNING * INTO response; EXCEPTION WHEN unique_violation THEN "
        "GET STACKED DIAGNOSTICS caught = PG_EXCEPTION_DETAIL; END $$",
        "SELECT (keep.response).t, keep.caught FROM pg_temp.keep()",
        "SELECT (keep.response).t, keep.caught FROM pg_temp.keep()",
        "SELECT pg_temp.keep()",
        "SELECT keep()",
        "SELECT pg_temp.absent()",
        "SELECT 'pg_temp.keep'::regproc::oid > 0",
        "DROP FUNCTION pg_temp.keep()",
        "DROP TABLE pg_temp.kept",
    ),
    "arrays of names": (
        "CREATE TABLE named (id int, t text, x int8)",
        "SELECT attname, CASE WHEN atttypid = ANY ('{int,int8}'::regtype[]) THEN 'number' END FROM pg_attribute a "
        "JOIN pg_class c ON c.oid = a.attrelid LEFT JOIN information_schema.columns i ON i.column_name = a.attname "
        "AND i.table_name = c.relname WHERE c.relname = 'named' AND attnum > 0",
        "SELECT '{int,text}'::regtype[] FROM generate_series(1, 3000) GROUP BY 1",
        "SELECT count(*) FROM pg_attribute a JOIN named ON false OR a.atttypid = ANY ('{int,nothing}'::regtype[])",
        "DROP TABLE named",
    ),
}


@pytest.mark.parametrize("title", STATEMENTS)
def test_they_are_answered_as_by_postgresql(both_paths: Pair, title: str) -> None:
    both_paths.same(*STATEMENTS[title])
