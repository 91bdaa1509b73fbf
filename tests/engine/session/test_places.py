"""Every function that runs natively in DuckDB, in every place where an expression can stand: DuckDB binds
some places in ways of its own."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from catalog.functions import registry
from catalog.types import format_type
from tests.server import ShoalServer

_COLUMNS = {
    "boolean": "true", "smallint": "2", "integer": "3", "bigint": "4", "real": "0.5", "double precision": "0.25",
    "numeric": "1.50", "text": "'ab'", "character varying": "'ab'", "character": "'a'", "name": "'ab'",
    "bytea": "'ab'", "date": "'2024-02-03'", "time without time zone": "'10:00'", "interval": "'1 day'",
    "timestamp without time zone": "'2024-02-03 10:00'", "timestamp with time zone": "'2024-02-03 10:00Z'",
    "uuid": "'00000000-0000-0000-0000-000000000001'", "jsonb": "'{\"a\": [1]}'", "json": "'{\"a\": [1]}'",
    "integer[]": "'{1,2}'", "text[]": "'{a,b}'", "bit": "'1'", "bit varying": "'101'", "inet": "'10.0.0.1'",
    "money": "'1.50'", "oid": "23", "\"char\"": "'a'",
}  # fmt: skip
_PLACES = {
    "HAVING": "SELECT count(*) FROM placed GROUP BY {columns} HAVING ({call}) IS NULL OR true",
    "HAVING over aggregates": "SELECT count(*) FROM placed HAVING ({aggregated}) IS NULL OR true",
    "GROUP BY, FILTER": "SELECT count(*) FILTER (WHERE ({call}) IS NULL) FROM placed GROUP BY ({call}) IS NULL",
    "ORDER BY, windows": "SELECT count(*) OVER (PARTITION BY ({call}) IS NULL) FROM placed ORDER BY ({call}) IS NULL",
    "JOIN": "SELECT count(*) FROM placed LEFT JOIN (VALUES (true), (false)) v(b) ON v.b = (({call}) IS NULL)",
    "sub-query": "SELECT count(*) FROM (VALUES (1), (NULL)) v(b) WHERE"
    " EXISTS (SELECT FROM placed WHERE ({call}) IS NULL OR v.b = 1)",
}
SHARE = {place: 5 if place == "HAVING" else 12 for place in _PLACES}
"""Of the functions, one in so many is tried in a place by `make test`, and the others by `make test-long`."""
_LEFT_OUT = frozenset(("pg_sleep", "pg_sleep_for", "pg_sleep_until"))


def _calls() -> list[tuple[str, list[str]]]:
    """Calls with a place for each argument, and the types of these."""
    found = []
    for oid in registry.function_oids():
        function = registry.function(oid)
        types = [format_type(item) for item in function.argument_types]
        known = registry.implementation(function.source)
        if known is None or known.duckdb is None or function.returns_set or function.kind != "f":
            continue
        if types and set(types) <= _COLUMNS.keys() and function.name not in _LEFT_OUT and not registry.is_inner(oid):
            found.append((f'pg_catalog."{function.name}"({", ".join(["{}"] * len(types))})', types))
    return found


@pytest.fixture(scope="module")
def connection() -> Iterator[psycopg.Connection]:
    with ShoalServer() as own, psycopg.connect(own.dsn, autocommit=True) as opened:
        opened.execute(f"CREATE TABLE placed ({', '.join(f'c{n} {name}' for n, name in enumerate(_COLUMNS))})".encode())
        opened.execute(f"INSERT INTO placed VALUES ({', '.join(_COLUMNS.values())})".encode())
        opened.execute("INSERT INTO placed DEFAULT VALUES")
        opened.execute("SET shoal.path = columnar")
        yield opened


@pytest.mark.parametrize("long", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("place", _PLACES)
def test_it_runs_there(connection: psycopg.Connection, place: str, long: bool) -> None:
    numbers = {name: n for n, name in enumerate(_COLUMNS)}
    defects = []
    calls = _calls()
    assert len(calls) > 400
    first = list(_PLACES).index(place)
    for number, (call, types) in enumerate(calls, first):
        if bool(number % SHARE[place]) != long:
            continue
        columns = [f"c{numbers[name]}" for name in types]
        sql = _PLACES[place].format(
            call=call.format(*columns),
            columns=", ".join(dict.fromkeys(columns)),
            aggregated=call.format(*(f"(array_agg({column}))[1]" for column in columns)),
        )
        try:
            connection.execute(sql.encode()).fetchall()
        except psycopg.errors.InternalError_ as error:
            defects.append(f"{sql}: {error}")
        except psycopg.Error:
            pass  # what it refuses, and why, is compared elsewhere
    assert not defects, "\n".join(defects)
