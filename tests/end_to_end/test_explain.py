"""EXPLAIN ANALYZE tells what has run."""

from __future__ import annotations

import psycopg
import pytest

from tests.server import ShoalServer

GIVEN_UP = "  Row Path: abandoned, too many rows"


@pytest.mark.parametrize(
    ("statement", "plan", "rows"),
    [
        ("SELECT * FROM explained WHERE id = 5", ["Index Scan using explained_pkey on explained"], 1),
        (
            "SELECT n, count(*) FROM explained WHERE id < 5000 GROUP BY n",
            ["Columnar Query", "  Tables: explained", GIVEN_UP],
            7,
        ),
        (
            "UPDATE explained SET n = n + 1 WHERE id < 9000",
            ["Update through Columnar Query", "  Tables: explained", GIVEN_UP],
            8999,
        ),
    ],
)
def test_the_plan_is_the_one_that_ran(statement: str, plan: list[str], rows: int) -> None:
    """What gave up the row path is not shown as a plan of it."""
    with ShoalServer() as server, psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE explained (id int PRIMARY KEY, n int)")
        connection.execute("INSERT INTO explained SELECT i, i % 7 FROM generate_series(1, 20000) i")
        found = [line for (line,) in connection.execute(f"EXPLAIN ANALYZE {statement}".encode())]
    assert found[: len(plan)] == plan
    path = "columnar" if GIVEN_UP in plan else "row"
    assert found[-3:-1] == [f"Path: {path}", f"Actual Rows: {rows}"]


@pytest.mark.parametrize(
    ("call", "plan"), [("SELECT nothing()", "Result"), ("SELECT * FROM several()", "Function Scan on several")]
)
def test_a_call_of_a_function_with_a_body_of_statements(call: str, plan: str) -> None:
    """The body has no plan there; ANALYZE runs it."""
    with ShoalServer() as server, psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE FUNCTION nothing() RETURNS void LANGUAGE sql AS 'SELECT 1'")
        connection.execute("CREATE TABLE noted (n int)")
        connection.execute("CREATE FUNCTION several() RETURNS SETOF int LANGUAGE sql AS 'DELETE FROM noted; SELECT 2'")
        for options in ("", "ANALYZE"):
            connection.execute("INSERT INTO noted VALUES (1)")
            assert connection.execute(f"EXPLAIN {options} {call}".encode()).fetchone() == (plan,)
        left = connection.execute("SELECT count(*) FROM noted").fetchone()
        assert left == (0 if "several" in call else 2,)
