"""Rows of no declared type in binary: the bytes of their fields, with the types that they are told to be of."""

from __future__ import annotations

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

_FIELDS = ("'foo'", "'foo'::text", "1", "NULL", "NULL::int", "1.50", "'2024-01-01'::date", "ARRAY[1, 2]", "ROW('x', 2)",
           "true", "'{\"a\": 1}'::jsonb", "'12:00'::time", "'a'::varchar(3)", "'1 day'::interval")  # fmt: skip
_ROWS = [f"ROW({one})" for one in _FIELDS] + ["ROW('a', 'b', NULL)", f"ROW({', '.join(_FIELDS)})", "ROW()"]


def _sent(connection: psycopg.Connection, sql: str) -> object:
    with connection.cursor(binary=True) as cursor:
        cursor.execute(sql.encode())
        assert cursor.pgresult is not None
        return cursor.pgresult.ftype(0), cursor.pgresult.get_value(0, 0)


@pytest.mark.parametrize("path", ["auto", "columnar"])
def test_rows_are_sent_as_in_postgresql(shoal: ShoalServer, postgres_server: PostgresServer, path: str) -> None:
    with psycopg.connect(shoal.dsn) as ours, psycopg.connect(postgres_server.dsn) as theirs:
        ours.execute(f"SET shoal.path = {path}")
        for row in (
            _ROWS if path == "auto" else [row for row in _ROWS if "interval" not in row]
        ):  # refused there by name
            for query in ("SELECT {0}", "SELECT record_send({0})", "SELECT record_send(r) FROM (SELECT {0} AS r) q"):
                sql = query.format(row)
                assert _sent(ours, sql) == _sent(theirs, sql), sql
