"""Parameter values written into SQL come out of DuckDB as the same values."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import duckdb
import pytest

from catalog.errors import SqlError
from catalog.types import oids
from catalog.types.base import EMPTY_ARRAY, Array, Interval
from engine.columnar.literals import fill, literal
from engine.columnar.worker.values import from_arrow

CASES: list[tuple[int, str, list[Any]]] = [
    (oids.BOOL, "BOOLEAN", [True, False]),
    (oids.INT2, "SMALLINT", [-(2**15), 2**15 - 1]),
    (oids.INT4, "INTEGER", [-(2**31), 2**31 - 1, 0]),
    (oids.INT8, "BIGINT", [-(2**63), 2**63 - 1]),
    (oids.FLOAT4, "FLOAT", [1.5, -0.0, 3.4028234663852886e38, math.inf]),
    (oids.FLOAT8, "DOUBLE", [0.1, 5e-324, 1.7976931348623157e308, -math.inf, 1 / 3]),
    (oids.NUMERIC, "DECIMAL(10,2)", [Decimal("1.10"), Decimal("-99999999.99"), Decimal("0.00")]),
    (oids.NUMERIC, "VARCHAR", [Decimal("1.100"), Decimal("NaN"), Decimal("-Infinity"), Decimal("1" + "0" * 60)]),
    (oids.TEXT, "VARCHAR", ["", "it's", 'a "b" \\ $1 {x}', "žluťoučký\nkůň", "'; DROP TABLE pin; --"]),
    (oids.BYTEA, "BLOB", [b"", b"\0\xff'\\"]),
    (oids.UUID, "BLOB", [bytes(range(16))]),
    (oids.DATE, "DATE", [0, -10957, -730119, 2921939, 2**31 - 1, -(2**31), 2_000_000]),
    (oids.TIME, "TIME", [0, 86_399_999_999, 86_400_000_000, 1]),
    (oids.TIMESTAMP, "TIMESTAMP", [0, -1, 2**63 - 1, -(2**63), 9_000_000_000_000_000_000, -211_000_000_000_000_000]),
    (oids.INTERVAL, "INTERVAL", [Interval(0, 0, 0), Interval(-14, 3, -5_000_001), Interval(1, 0, 10**15)]),
    (oids.INT4_ARRAY, "INTEGER[]", [Array.of((1, None, 3)), EMPTY_ARRAY]),
    (oids.TEXT_ARRAY, "VARCHAR[]", [Array.of(("a'b", None, ""))]),
    (oids.INT8, "BIGINT", [None]),
    (oids.TEXT_ARRAY, "VARCHAR[]", [None]),
]


@pytest.mark.parametrize("oid, kind, given", CASES)
def test_values_come_back_in_their_type(oid: int, kind: str, given: list[Any]) -> None:
    connection = duckdb.connect()
    for value in given:
        sql = f"SELECT typeof(v), v FROM (SELECT {literal(value, kind)} AS v)"
        table = connection.sql(sql).to_arrow_table()
        assert str(table.column(0)[0]) == kind
        (back,) = from_arrow(table.column(1), oid)
        if isinstance(value, Decimal):
            assert str(back) == str(value)
        else:
            assert back == value
            assert math.copysign(1, back) == math.copysign(1, value) if isinstance(value, float) else True


def test_a_number_that_would_be_rounded_is_refused() -> None:
    for value in (Decimal("1.001"), Decimal("NaN"), Decimal(10) ** 9):
        with pytest.raises(SqlError) as caught:
            literal(value, "DECIMAL(10,2)")
        assert caught.value.sqlstate == "0A000"


def test_an_array_that_a_list_cannot_hold_is_refused() -> None:
    for value in (Array((1, 2), (1, 2), (1, 1)), Array((1, 2), (2,), (0,))):
        with pytest.raises(SqlError):
            literal(value, "INTEGER[]")


def test_only_what_stands_outside_of_quotes_is_replaced() -> None:
    sql = """SELECT $2, '$1 it''s {{x}}', "$1", $1 FROM {t5} AS a"""
    assert fill(sql, {"t5": "t5"}, ("1", "2")) == """SELECT 2, '$1 it''s {x}', "$1", 1 FROM t5 AS a"""


def test_parameters_may_hold_anything() -> None:
    assert fill("SELECT $1, $10", {}, ["'{t5} $2'", *["x"] * 8, "'}'"]) == "SELECT '{t5} $2', '}'"
