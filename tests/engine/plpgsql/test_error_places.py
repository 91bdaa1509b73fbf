"""Where errors in a body are, when CREATE FUNCTION and DO check it: in the statement, or in the body if that is written
with escapes."""

from __future__ import annotations

import pytest

from tests.engine.session.conftest import Pair
from tests.outcome import full_outcome

SQL = "CREATE FUNCTION g() RETURNS int LANGUAGE sql AS "
PLPGSQL = "CREATE FUNCTION g() RETURNS int LANGUAGE plpgsql AS "
STATEMENTS = (
    SQL + "'SELECT n FROM nothing'", SQL + "$$SELECT 1; SELECT n FROM nothing$$", SQL + "'SELECT ''a'' || x'",
    SQL + "$a$ SELECT foo( $a$", SQL + "$a$ SELECT 'x'::text $a$", SQL + "E'SELECT\\n nope'",
    "CREATE PROCEDURE g(a int) LANGUAGE sql AS 'INSERT INTO zz VALUES (1)'",
    PLPGSQL + "$a$ BEGIN x := 1; END $a$", PLPGSQL + "$a$\nDECLARE x int; y nope;\nBEGIN RETURN 1; END $a$",
    PLPGSQL + "'BEGIN RETURN 1; SELEC ''a''; END'", PLPGSQL + "'BEGIN IF true THEN RETURN 1; END'",
    PLPGSQL + "E'BEGIN\\n RETURN 1 1; END'", PLPGSQL + "'BEGIN RETURN SELECT FROM; END'",
    PLPGSQL + "'DECLARE a int; a text; BEGIN RETURN; END'", PLPGSQL + "'BEGIN EXIT foo; END'",
    "CREATE FUNCTION g() RETURNS void LANGUAGE plpgsql AS 'BEGIN RETURN 5; END'", "DO $$ BEGIN x := 1; END $$",
    "DO LANGUAGE plpgsql 'BEGIN PERFORM ''a'' nope(; END'", "SELECT 1; DO $$ BEGIN x := 1; END $$",
)  # fmt: skip


@pytest.mark.parametrize("sql", STATEMENTS)
def test_places(pair: Pair, sql: str) -> None:
    assert full_outcome(pair.shoal, sql) == full_outcome(pair.postgres, sql)
