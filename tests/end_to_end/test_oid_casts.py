"""int4 and the types of OIDs are cast by their bits: -1 is 4294967295, whichever way a query runs, on both servers."""

from __future__ import annotations

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

_TYPES = ("oid", "regproc", "regprocedure", "regclass", "regtype", "regnamespace", "regrole", "regconfig")
_NUMBERS = (-(1 << 31), -1, (1 << 31) - 1)
_WAYS = {
    "constant": "SELECT ({0})::{1}::oid::int8",
    "row": "SELECT a::{1}::oid::int8 FROM (VALUES ({0})) v(a)",
    "table": "SELECT a::{1}::oid::int8 FROM pg_temp.numbers WHERE a = {0}",
    "many rows": "SELECT DISTINCT a::{1}::oid::int8 FROM (SELECT {0} AS a FROM generate_series(1, 3000)) v",
    "array": "SELECT (ARRAY[{0}]::{1}[])[1]::oid::int8",
    "NULL": "SELECT coalesce(a::{1}::oid::int8, ({0})::{1}::oid::int8) FROM (VALUES (NULL::int)) v(a)",
}


@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize("type_", _TYPES)
def test_numbers_keep_their_bits(server: ShoalServer | PostgresServer, type_: str, way: str) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(
            "CREATE TEMPORARY TABLE numbers AS SELECT * FROM (VALUES (-2147483648), (-1), (2147483647)) v(a)"
        )
        for number in _NUMBERS:
            rows = connection.execute(_WAYS[way].format(number, type_).encode()).fetchall()
            assert rows == [(number & 0xFFFFFFFF,)]


@pytest.mark.parametrize("number", [0, 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1])
@pytest.mark.parametrize("many", [False, True])
def test_and_back(server: ShoalServer | PostgresServer, number: int, many: bool) -> None:
    source = f"(SELECT {number}::int8::oid AS a FROM generate_series(1, {3000 if many else 1})) v"
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        rows = connection.execute(f"SELECT DISTINCT a::int4 FROM {source}".encode()).fetchall()
    assert rows == [(number - (1 << 32) if number > 0x7FFFFFFF else number,)]


def test_a_large_number_is_found(server: ShoalServer | PostgresServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        assert connection.execute("SELECT -1 = 4294967295::oid, oidsend(-1)").fetchone() == (True, b"\xff" * 4)
        with pytest.raises(psycopg.errors.UndefinedObject, match="large object 4294967295 does not exist"):
            connection.execute("SELECT lo_unlink(-1)")
