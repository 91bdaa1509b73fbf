"""What is wrong with a body is told by CREATE FUNCTION as PostgreSQL tells it: SQLSTATE, message, context."""

from __future__ import annotations

import psycopg
import pytest

from tests.engine.session.conftest import Pair

BODIES = {
    "nothing": "",
    "no begin": "x := 1;",
    "no end": "BEGIN NULL;",
    "text behind the end": "BEGIN NULL; END; x",
    "no semicolon": "BEGIN NULL END",
    "no semicolon behind a value": "BEGIN RETURN 1 END",
    "no semicolon behind an expression": "DECLARE x int; BEGIN x := 1 END",
    "no semicolon behind a declaration": "DECLARE x int := 1 BEGIN END",
    "no semicolon behind a message": "BEGIN RAISE NOTICE '%', 1 END",
    "no semicolon behind a text": "BEGIN EXECUTE 'x' END",
    "the end behind IF": "BEGIN IF",
    "the end behind a condition": "BEGIN WHILE true",
    "the end in an expression": "DECLARE x int; BEGIN x := 1 +",
    "the end behind PERFORM": "BEGIN PERFORM",
    "an unknown type": "DECLARE x nonsense; BEGIN END",
    "an unknown table": "DECLARE x nonsense%ROWTYPE; BEGIN END",
    "an unknown column": "DECLARE x nonsense.a%TYPE; BEGIN END",
    "twice the same name": "DECLARE x int; x int; BEGIN END",
    "not null without a value": "DECLARE x int NOT NULL; BEGIN END",
    "an alias of nothing": "DECLARE x ALIAS FOR y; BEGIN END",
    "a label behind declare": "DECLARE <<l>> x int; BEGIN END",
    "an end label without a label": "BEGIN NULL; END l",
    "another end label": "<<a>> BEGIN NULL; END b",
    "an assignment to nothing": "BEGIN x := 1; END",
    "an assignment to a constant": "DECLARE x CONSTANT int := 1; BEGIN x := 2; END",
    "a missing expression": "DECLARE x int; BEGIN x := ; END",
    "a broken expression": "DECLARE x int; BEGIN x := 1 +; END",
    "open parentheses": "DECLARE x int; BEGIN x := (1; END",
    "no then": "BEGIN IF true NULL; END IF; END",
    "no end if": "BEGIN IF true THEN NULL; END; END",
    "no loop": "BEGIN WHILE true NULL; END LOOP; END",
    "exit outside": "BEGIN EXIT; END",
    "continue outside": "BEGIN CONTINUE; END",
    "exit of an unknown label": "BEGIN LOOP EXIT q; END LOOP; END",
    "continue of a block": "<<b>> BEGIN LOOP CONTINUE b; END LOOP; END",
    "for over rows into nothing": "BEGIN FOR r IN SELECT 1 LOOP NULL; END LOOP; END",
    "for over integers of several": "DECLARE a int; b int; BEGIN FOR a, b IN 1..2 LOOP NULL; END LOOP; END",
    "reverse of rows": "DECLARE r record; BEGIN FOR r IN REVERSE SELECT 1 LOOP NULL; END LOOP; END",
    "foreach into nothing": "BEGIN FOREACH x IN ARRAY ARRAY[1] LOOP NULL; END LOOP; END",
    "into nothing": "BEGIN SELECT 1 INTO x; END",
    "into twice": "DECLARE x int; BEGIN SELECT 1 INTO x INTO x; END",
    "into a record and more": "DECLARE r record; x int; BEGIN SELECT 1 INTO r, x; END",
    "into a record behind": "DECLARE r record; x int; BEGIN SELECT 1 INTO x, r; END",
    "broken SQL": "BEGIN SELEC 1; END",
    "broken SQL within": "BEGIN INSERT INTO t VALUES (1; END",
    "return next": "BEGIN RETURN NEXT 1; END",
    "return query": "BEGIN RETURN QUERY SELECT 1; END",
    "return without a value": "BEGIN RETURN; END",
    "raise with too few": "BEGIN RAISE NOTICE '%'; END",
    "raise with too many": "BEGIN RAISE NOTICE 'x', 1; END",
    "raise of an unknown condition": "BEGIN RAISE nonsense; END",
    "raise of a wrong sqlstate": "BEGIN RAISE SQLSTATE 'abc'; END",
    "raise with an unknown option": "BEGIN RAISE EXCEPTION USING colour = 'red'; END",
    "a handler of an unknown condition": "BEGIN NULL; EXCEPTION WHEN nonsense THEN NULL; END",
    "a handler without then": "BEGIN NULL; EXCEPTION WHEN others NULL; END",
    "unknown diagnostics": "DECLARE x int; BEGIN GET DIAGNOSTICS x = colour; END",
    "stacked diagnostics that are not": "DECLARE x int; BEGIN GET DIAGNOSTICS x = MESSAGE_TEXT; END",
    "current diagnostics that are not": "DECLARE x int; BEGIN GET STACKED DIAGNOSTICS x = ROW_COUNT; END",
    "open of no cursor": "DECLARE x int; BEGIN OPEN x FOR SELECT 1; END",
    "open of nothing": "BEGIN OPEN x FOR SELECT 1; END",
    "fetch of several rows": "DECLARE c refcursor; x int; BEGIN FETCH ALL FROM c INTO x; END",
    "cursor without its arguments": "DECLARE c CURSOR (a int) FOR SELECT a; BEGIN OPEN c; END",
    "cursor with arguments that it has not": "DECLARE c CURSOR FOR SELECT 1; BEGIN OPEN c(1); END",
    "cursor with too many": "DECLARE c CURSOR (a int) FOR SELECT a; BEGIN OPEN c(1, 2); END",
    "cursor with another name": "DECLARE c CURSOR (a int) FOR SELECT a; BEGIN OPEN c(b := 2); END",
    "for over an unbound cursor": "DECLARE c refcursor; BEGIN FOR r IN c LOOP NULL; END LOOP; END",
    "an unknown option": "#colour red\nBEGIN NULL; END",
    "execute into twice": "DECLARE x int; BEGIN EXECUTE 'a' INTO x INTO x; END",
}


def told(connection: psycopg.Connection[tuple[object, ...]], body: str) -> tuple[object, ...]:
    sql = f"CREATE FUNCTION broken(a int) RETURNS int LANGUAGE plpgsql AS $body$\n{body}\n$body$"
    try:
        connection.execute(sql.encode())
    except psycopg.Error as error:
        known = error.diag
        return known.sqlstate, known.message_primary, known.message_hint, known.context
    connection.execute("DROP FUNCTION broken(int)")
    return ("made",)


@pytest.mark.parametrize("name", BODIES)
def test_bodies(pair: Pair, name: str) -> None:
    assert told(pair.shoal, BODIES[name]) == told(pair.postgres, BODIES[name])
