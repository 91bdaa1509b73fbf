"""EXPLAIN of a text with $1: a simple Query has no parameters, on both servers."""

from __future__ import annotations

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

_QUERIES = (
    "SELECT $1",
    "SELECT $1::int",
    "SELECT relname FROM pg_class WHERE oid = $1",
    "SELECT '$2', relname FROM pg_class WHERE oid IN (SELECT $1::oid)",
    "WITH a AS (SELECT $1::int) SELECT * FROM a",
    "VALUES ($1::text)",
    "DECLARE c CURSOR FOR SELECT $1::int",
)


@pytest.mark.parametrize("options", ["", "ANALYZE ", "(VERBOSE) ", "(FORMAT json) "])
@pytest.mark.parametrize("query", _QUERIES)
def test_there_is_no_parameter(server: ShoalServer | PostgresServer, options: str, query: str) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        text = f"EXPLAIN {options}{query}"
        with pytest.raises(psycopg.errors.UndefinedParameter, match=r"there is no parameter \$1") as raised:
            connection.execute(text.encode())
        assert raised.value.diag.statement_position == str(text.index("$1") + 1)


def test_a_dollar_in_a_literal_is_none(server: ShoalServer | PostgresServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        assert connection.execute("EXPLAIN SELECT '$1', $$ $1 $$").fetchall()


def test_a_prepared_one_has_parameters(server: ShoalServer | PostgresServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        assert connection.execute("EXPLAIN SELECT %s::int", (1,)).fetchall()
