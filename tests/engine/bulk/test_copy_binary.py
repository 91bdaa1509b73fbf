"""COPY in binary format beside PostgreSQL: the same bytes out, the same rows and errors for bytes in."""

from __future__ import annotations

import struct

import pytest

from engine.bulk.copy_binary import HEADER, SIGNATURE, TRAILER, TupleReader
from tests.engine.bulk.conftest import Connection, Pair

COLUMNS = (
    "a int4 PRIMARY KEY, b bool, c int2, d int8, e float4, f float8, g numeric, h numeric(9, 2), i text, j varchar(5),"
    " k char(3), l bytea, m date, n time, o timetz, p timestamp, q timestamptz, r interval, s uuid, t jsonb, u json,"
    " v int4[], w text[], x inet, y oid, z name"
)
ROWS = [
    "(1, true, -2, 3000000000, 1.5, -2.5e300, 12345678901234567890.123, -1.5, 'ä\t\n', 'five5', 'a', '\\x00ff0a',"
    " '2024-02-29', '12:34:56.789', '12:00+02', '1999-12-31 23:59:59', '2000-01-01 00:00+01', '1 mon -2 days 3 s',"
    " 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{\"a\": [1, null]}', '{ }', '{1,NULL,{3}}'::text::text, '{}', '::1/64',"
    " 17, 'name')".replace("'{1,NULL,{3}}'::text::text", "'{1,NULL,3}'"),
    "(2" + ", NULL" * 25 + ")",
    "(3, false, 0, 0, 'NaN', '-Infinity', 'NaN', 0, '', '', '', '', 'infinity', '24:00', '00:00-15', '-infinity',"
    " 'infinity', '-1 year', '00000000-0000-0000-0000-000000000000', '1', '\"x\"', '{{1,2},{3,4}}', '{a,NULL,\"b c\"}',"
    " '10.0.0.1', 0, '')",
]


@pytest.fixture
def table(pair: Pair) -> Pair:
    pair.run(f"CREATE TABLE t ({COLUMNS})")
    pair.run(f"INSERT INTO t VALUES {', '.join(ROWS)}")
    return pair


def test_every_type_goes_out_and_in_again(table: Pair) -> None:
    data = table.same_copy_out("COPY t TO STDOUT (FORMAT binary)")
    table.run("CREATE TABLE again (LIKE t)")
    table.same_copy_in("COPY again FROM STDIN (FORMAT binary)", data, "again")
    assert table.same_copy_out("COPY again TO STDOUT BINARY") == data
    table.same_copy_out("COPY (SELECT a, i FROM t WHERE a = 1) TO STDOUT (FORMAT binary)")
    table.same_copy_out("COPY (SELECT a, count(*), max(i) FROM t GROUP BY a ORDER BY a) TO STDOUT (FORMAT binary)")
    table.same_copy_out("COPY (SELECT a FROM t WHERE a > 100) TO STDOUT (FORMAT binary)")
    table.same_copy_out("COPY (DELETE FROM t WHERE a = 1 RETURNING a, i) TO STDOUT (FORMAT binary)")


def fields(*values: bytes | None) -> bytes:
    cells = [struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value for value in values]
    return struct.pack(">h", len(values)) + b"".join(cells)


FOUR = struct.pack(">i", 4)
GOOD = fields(FOUR, b"four")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PGCOPY",
        SIGNATURE,
        SIGNATURE + bytes(4),
        SIGNATURE + struct.pack(">ii", 1 << 16, 0),
        SIGNATURE + struct.pack(">ii", 1 << 20, 0),
        SIGNATURE + struct.pack(">ii", 1, 0) + GOOD + TRAILER,
        SIGNATURE + struct.pack(">ii", 0, -1),
        SIGNATURE + struct.pack(">ii", 0, 3) + b"abc" + GOOD + TRAILER,
        SIGNATURE + struct.pack(">ii", 0, 9) + b"abc",
        HEADER,
        HEADER + TRAILER,
        HEADER + GOOD,
        HEADER + GOOD + b"\0",
        HEADER + GOOD + TRAILER + GOOD,
        HEADER + fields(FOUR) + TRAILER,
        HEADER + fields(FOUR, b"a", b"b") + TRAILER,
        HEADER + struct.pack(">h", -2),
        HEADER + GOOD[:-1],
        HEADER + GOOD[:5],
        HEADER + struct.pack(">hi", 2, -2),
        HEADER + fields(b"\0\4", b"x") + TRAILER,
        HEADER + fields(FOUR + b"\0", b"x") + TRAILER,
        HEADER + fields(FOUR, b"\xff\xfe") + TRAILER,
        HEADER + fields(FOUR, b"too long") + TRAILER,
        HEADER + fields(None, b"null") + TRAILER,
        HEADER + GOOD + GOOD + TRAILER,
    ],
)
def test_errors_are_those_of_postgresql(pair: Pair, data: bytes) -> None:
    pair.run("CREATE TABLE t (a int PRIMARY KEY, b varchar(5))")
    pair.same_copy_in("COPY t FROM STDIN (FORMAT binary)", data, "t")


@pytest.mark.parametrize(
    "options", ["DELIMITER ','", "NULL 'x'", "HEADER", "QUOTE '\"'", "FORCE_NULL (a)", "FREEZE false"]
)
def test_options_that_do_not_go_together(pair: Pair, options: str) -> None:
    pair.run("CREATE TABLE t (a int)")
    pair.same_copy_in(f"COPY t FROM STDIN (FORMAT binary, {options})", HEADER + TRAILER, "t")


def test_many_rows_in_many_pieces(ours: Connection) -> None:
    ours.execute("CREATE TABLE big (a int, b text)")
    rows = 40_000
    with ours.cursor().copy("COPY big FROM STDIN (FORMAT binary)") as copy:
        copy.write(HEADER)
        for first in range(0, rows, 1000):
            numbers = range(first, first + 1000)  # 100 and its kin look like the heads of messages
            copy.write(b"".join(fields(struct.pack(">i", item), b"d\n\1x" if item % 7 else None) for item in numbers))
        copy.write(TRAILER)
    found = ours.execute("SELECT count(*), sum(a), count(b), min(b) FROM big").fetchone()
    assert found == (rows, rows * (rows - 1) // 2, rows - (rows + 6) // 7, "d\n\1x")
    with ours.cursor().copy("COPY big TO STDOUT (FORMAT binary)") as copy:
        copy.set_types(["int4", "text"])
        assert sum(row[0] for row in copy.rows()) == rows * (rows - 1) // 2


def test_pieces_are_cut_between_tuples() -> None:
    data = HEADER + GOOD + fields(None, b"") + TRAILER
    ends = [0, *[len(HEADER + GOOD)] * 1, len(data) - 2]
    reader = TupleReader(2)
    for size in range(len(data)):
        assert reader.cut(data[:size]) in (*ends, len(HEADER))
    assert reader.cut(data[: len(HEADER + GOOD) + 3]) == len(HEADER + GOOD)
