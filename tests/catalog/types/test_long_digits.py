"""Runs of digits in the text of a value may be long: Python refuses to read more than 4300 as one number."""

from __future__ import annotations

import re

import psycopg
import pytest

from tests.samples import Part, parts
from tests.server import ShoalServer

SAMPLES = {
    "int2": ["12"],
    "int4": ["12", "0x12"],
    "int8": ["12"],
    "numeric": ["12.5e3", "1e12"],
    "float4": ["1.5e3"],
    "float8": ["1.5e3"],
    "bool": ["1"],
    "text[]": ["[0:1]={a,b}", "[7]", "{1}"],
    "int4[]": ["[1:2][0:0]={{1},{2}}", "{12}"],
    "date": ["2020-01-02", "20200102", "J2451187", "2020-123", "1/2/2020", "Jan 5 2020", "12 BC"],
    "time": ["12:34:56.789", "123456", "12:34 PM", "T123456"],
    "timetz": ["12:34:56+02:30", "12:34+0230"],
    "timestamp": ["2020-01-02 12:34:56.789", "2020.123", "20200102T123456", "1 Jan 99 BC"],
    "timestamptz": [
        "2020-01-02 12:34:56+02",
        "2020-01-02 12:34:56 America/New_York",
        "2020-01-02 12:34:56 GMT+5",
        "2020-01-02 12:34 <+03>-3",
    ],
    "interval": [
        "1 year 2 mons 3 days 04:05:06.789",
        "P1Y2M3DT4H5M6S",
        "P0001-02-03T04:05:06",
        "1-2",
        "@ 1.5 weeks ago",
        "1:2.5",
    ],
    "uuid": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    "json": ['{"a": 12}', "[1.5e3]"],
    "jsonb": ['{"a": 12}', "[1.5e3]"],
    "jsonpath": ["$.a[1 to 2] ? (@ > 1.5e3)", "$[12]", "$.x.decimal(3)"],
    "inet": ["10.1.2.3/24", "::1/64"],
    "cidr": ["10.0.0.0/8"],
    "macaddr": ["08:00:2b:01:02:03"],
    "point": ["(1,2.5e3)"],
    "box": ["(1,2),(3,4)"],
    "circle": ["<(1,2),3>"],
    "line": ["{1,2,3}"],
    "money": ["$1,234.56"],
    "bit(3)": ["101"],
    "varbit": ["101"],
    "oid": ["12"],
    "tid": ["(1,2)"],
    "xid": ["12"],
    "pg_lsn": ["16/B374D848"],
    "pg_snapshot": ["10:20:10,14"],
    "txid_snapshot": ["10:20:10,14"],
    "int4range": ["[1,2)"],
    "numrange": ["[1.5,2e3)"],
    "daterange": ["[2020-01-01,2020-02-02)"],
    "int4multirange": ["{[1,2)}"],
    "tsvector": ["a:1,2 b:3A"],
    "tsquery": ["a <2> b & c:*A"],
    "regclass": ["12"],
    "regproc": ["12"],
    "regtype": ["12", "varchar(12)", "numeric(1,2)", "bit(3)", "int[3]"],
    "char(12)": ["a"],
    "bytea": ["\\x1234", "\\123"],
    "name": ["a1"],
    "cstring": ["1"],
    "aclitem": ["a=r/b1"],
    "xid8": ["12"],
    "cid": ["12"],
}
DIGITS = "7" * 5000


@pytest.mark.parametrize("path", ["auto", "columnar"])
@pytest.mark.parametrize("part", parts(4))
def test_every_run_of_digits(shoal: ShoalServer, path: str, part: Part) -> None:
    cases = [
        (type_, text[: run.start()] + DIGITS + text[run.end() :])
        for type_, texts in SAMPLES.items()
        for text in texts
        for run in re.finditer(r"\d+", text)
    ]
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        connection.execute(f"SET shoal.path = {path}".encode())
        for type_, text in part.of(cases):
            for sql in (
                f"SELECT CAST('{text}' AS text)::{type_}::text",
                f"SELECT '{text}'::{type_}",
                f"SELECT {DIGITS}",
            ):
                try:
                    connection.execute(sql.encode())
                except psycopg.Error as error:
                    assert error.sqlstate != "XX000", (type_, text[:20], text[-20:], str(error)[:200])
