"""ON CONFLICT over partial indexes whose predicate is told with parameters: which index arbitrates is found with their
values, as PostgreSQL's planner does, on both servers."""

from __future__ import annotations

from itertools import product

import psycopg
import pytest

from tests.engine.session.conftest import Pair

_TYPES = {
    "text": ("'u'", "'w'"),
    "int": ("1", "2"),
    "date": ("'2024-01-01'", "'2024-01-02'"),
    "bool": ("true", "false"),
}
_PREDICATES = ("l = {0}", "l = {0} AND name <> 'q'", "l IS NOT NULL AND l = {0}", "l > {0}")
_WRITTEN = ("l = $3", "l = $3 AND name <> 'q'", "l IS NOT NULL AND l = $3", "l > $3", "name <> 'q' AND l = $3")


@pytest.mark.parametrize("type_", _TYPES)
def test_parameters_make_a_predicate(pair: Pair, type_: str) -> None:
    one, other = _TYPES[type_]
    pair.run(f"CREATE TABLE ox (name text, l {type_}, n int DEFAULT 0)")
    for place, (predicate, written) in enumerate(product(_PREDICATES, _WRITTEN)):
        pair.run(f"CREATE UNIQUE INDEX oi ON ox (name, l) WHERE {predicate.format(one)}")
        prepare = (
            f"PREPARE o{place} (text, {type_}, {type_}) AS INSERT INTO ox VALUES ($1, $2) ON CONFLICT (name, l)"
            f" WHERE {written} DO UPDATE SET n = ox.n + 1 RETURNING *"
        )
        prepared = [_tried(connection, prepare) for connection in (pair.shoal, pair.postgres)]
        for value in (one, one, other, "NULL"):
            execute = f"EXECUTE o{place} ('a', {one}, {value})"
            ours, theirs = (
                told if told is not None else _run(connection, execute)
                for told, connection in zip(prepared, (pair.shoal, pair.postgres), strict=True)
            )
            assert ours == theirs, (predicate, written, value)
        pair.same("SELECT * FROM ox", "DELETE FROM ox", "DROP INDEX oi")


def _tried(connection: psycopg.Connection, sql: str) -> object:
    """The SQLSTATE of what fails: PostgreSQL tells it when it plans, here it may be told at PREPARE."""
    try:
        connection.execute(sql.encode())
    except psycopg.Error as error:
        return error.sqlstate
    return None


def _run(connection: psycopg.Connection, sql: str) -> object:
    try:
        return connection.execute(sql.encode()).fetchall()
    except psycopg.Error as error:
        return error.sqlstate


def test_literals_of_one_text_stay_apart(pair: Pair) -> None:
    pair.run("CREATE TABLE ox (name text, l text)", "CREATE UNIQUE INDEX ON ox (name, l) WHERE l = 'u'")
    text = "INSERT INTO ox VALUES ('a', 'u') ON CONFLICT (name, l) WHERE l = '{0}' DO NOTHING"
    pair.same(text.format("u"), text.format("w"), text.format("u"), "SELECT * FROM ox")
    inside = f"WITH i AS ({text.format('{0}')} RETURNING 1) SELECT count(*) FROM i"
    pair.same(inside.format("u"), inside.format("w"), inside.format("u"), "SELECT * FROM ox")
