"""Statements that applications send (tests/applications), reduced to what Shoal once answered otherwise."""

from __future__ import annotations

import pytest

from tests.engine.session.conftest import Pair

_LOCKS = (  # a row and its parent refer to each other
    "CREATE TABLE mode (id int PRIMARY KEY, token int)",
    "CREATE TABLE locks (id int PRIMARY KEY REFERENCES mode)",
    "ALTER TABLE mode ADD CONSTRAINT held FOREIGN KEY (token) REFERENCES locks DEFERRABLE INITIALLY DEFERRED",
)

STATEMENTS = {
    "constraints are deferred to the end of the statement around a trigger": (
        *_LOCKS,
        "CREATE FUNCTION add_mode() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO mode VALUES (NEW.id, "
        "NEW.id) ON CONFLICT (id) DO UPDATE SET token = NEW.id; RETURN NEW; END $$",
        "CREATE TRIGGER t BEFORE INSERT ON locks FOR EACH ROW EXECUTE FUNCTION add_mode()",
        "INSERT INTO locks VALUES (1)",
        "INSERT INTO locks SELECT g FROM generate_series(2, 20) g",
        "INSERT INTO mode VALUES (21, 21)",
        "SELECT count(*) FROM mode",
        "DROP TABLE mode, locks",
        "DROP FUNCTION add_mode",
    ),
    "constraints are deferred in DO, in functions and in several statements at once": (
        *_LOCKS,
        "DO $$ BEGIN INSERT INTO mode VALUES (1, 1); INSERT INTO locks VALUES (1); END $$",
        "DO $$ BEGIN INSERT INTO mode VALUES (2, 2); END $$",
        "INSERT INTO mode VALUES (3, 3); INSERT INTO locks VALUES (3)",
        "INSERT INTO mode VALUES (4, 4); SELECT 4",
        "DO $$ BEGIN SET CONSTRAINTS held IMMEDIATE; INSERT INTO mode VALUES (5, 5); END $$",
        "CREATE FUNCTION take(int) RETURNS int LANGUAGE sql AS $$ INSERT INTO mode VALUES ($1, $1); "
        "INSERT INTO locks VALUES ($1) RETURNING id $$",
        "SELECT take(6)",
        "SELECT sum(take(g)) FROM generate_series(7, 30) g",
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NOT EXISTS (SELECT FROM locks WHERE "
        "id = NEW.id) THEN RAISE 'no lock %', NEW.id; END IF; RETURN NULL; END $$",
        "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON mode DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
        "EXECUTE FUNCTION refuse()",
        "SELECT take(31)",
        "INSERT INTO mode VALUES (32, NULL)",
        "DO $$ BEGIN INSERT INTO mode VALUES (33, NULL); INSERT INTO locks VALUES (33); END $$",
        "SELECT * FROM mode",
        "DROP TABLE mode, locks",
        "DROP FUNCTION take, refuse",
    ),
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
    "tables with arrays of several dimensions are written anew": (
        "CREATE TABLE shaped (id int PRIMARY KEY, name varchar(80), grid int[], t text[])",
        "INSERT INTO shaped VALUES (1, 'a', '{{1,2},{3,4}}', '[3:4]={x,NULL}'), (2, 'b', NULL, '{}')",
        "ALTER TABLE shaped ALTER name TYPE text, ALTER id TYPE bigint",
        "ALTER TABLE shaped ALTER grid TYPE text[] USING grid::text[]",
        "ALTER TABLE shaped ADD g text GENERATED ALWAYS AS (lower(name)) STORED, ADD h text[] DEFAULT '{{a},{b}}'",
        "CREATE INDEX ON shaped (lower(name))",
        "CREATE UNIQUE INDEX ON shaped (grid)",
        "ALTER TABLE shaped ADD CHECK (grid[1][1] = '1')",
        "ALTER TABLE shaped DROP CONSTRAINT shaped_pkey, ADD PRIMARY KEY (name)",
        "SELECT * FROM shaped",
        "SELECT id FROM shaped WHERE grid = '{{1,2},{3,4}}'",
        "DROP TABLE shaped",
    ),
    "the type of a column that others were analysed with": (
        "CREATE TABLE typed (id int, t varchar(80) DEFAULT 'x', g text GENERATED ALWAYS AS (lower(t)) STORED)",
        "CREATE VIEW seen AS SELECT id FROM typed",
        "ALTER TABLE typed ALTER t TYPE varchar(100)",
        "ALTER TABLE typed ALTER t TYPE int",
        "ALTER TABLE typed ALTER t TYPE int USING 1",
        "ALTER TABLE typed ALTER id TYPE int8",
        "ALTER TABLE typed ALTER id TYPE date",
        "ALTER TABLE typed ALTER g TYPE varchar(20)",
        "DROP VIEW seen",
        "ALTER TABLE typed ALTER id TYPE int8",
        "DROP TABLE typed",
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
