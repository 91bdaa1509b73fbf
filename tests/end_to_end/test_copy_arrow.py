"""COPY in the format `arrow`: what comes out goes in again, what does not fit is said, nothing breaks the server."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from tests.samples import some
from tests.server import ShoalServer

DEFINITION = """(id int PRIMARY KEY, b bool, i2 int2, i8 int8, f4 float4, f8 float8, n numeric, n2 numeric(12, 3),
    t text, v varchar(40), c char(7), by bytea, d date, tm time, t3 time(3), tmz timetz, ts timestamp, ts3 timestamp(3),
    tsz timestamptz, u uuid, j json, jb jsonb, iv interval, o oid, p point, ai int[], at text[], an numeric(9, 2)[],
    au uuid[], ats timestamptz[], r int4range, m mood)"""
ROWS = (
    """(1, true, 1, 3, 1.5, 2.25, 1.10, 2.345, 'text', 'var', 'ch', '\\x00ff10', '2024-02-29', '12:34:56.789',
    '12:34:56.789', '12:34:56+02', '2024-02-29 23:59:59.999999', '2024-02-29 23:59:59.999', '2024-02-29 23:59:59.5+00',
    '00112233-4455-6677-8899-aabbccddeeff', '{"a":  1}', '{"a": [1, null]}', '1 year 2 days 03:04:05.6', 42, '(1,2)',
    '{1,2,NULL}', '{a,"b c",NULL}', '{1.50}', '{00112233-4455-6677-8899-aabbccddeeff}', '{2024-02-29 01:02:03+00}',
    '[1,5)', 'glad')""",
    f"(2{', NULL' * 31})",
    """(3, false, -32768, -9223372036854775808, 'NaN', '-Infinity', -0.000000000000000001, -2, 'Grüße 数据 🐟', '', '',
    '', '0044-03-15 BC', '23:59:59.999999', '00:00', '00:00-12', '1969-12-31 23:59:59.5', 'infinity', '-infinity', NULL,
    '[]', '{}', '0', 4294967295, NULL, '{}', '{}', '{}', '{}', '{}', 'empty', 'sad')""",
)


@pytest.fixture
def connection(shoal: ShoalServer) -> Iterator[psycopg.Connection]:
    with psycopg.connect(shoal.dsn, autocommit=True) as made:
        made.execute("DROP TABLE IF EXISTS target, source, types")
        made.execute("DROP TYPE IF EXISTS mood")
        made.execute("CREATE TYPE mood AS ENUM ('glad', 'sad')")
        yield made


def out(connection: psycopg.Connection, query: str) -> pa.Table:
    with connection.cursor().copy(f"COPY {query} TO STDOUT (FORMAT arrow)") as copy:
        return pa.ipc.open_stream(b"".join(map(bytes, copy))).read_all()


def stream_of(table: pa.Table, rows: int = 10_000, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, rows)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def put(connection: psycopg.Connection, target: str, data: bytes, piece: int = 1 << 20) -> int:
    with connection.cursor() as cursor:
        with cursor.copy(f"COPY {target} FROM STDIN (FORMAT arrow)") as copy:
            for start in range(0, len(data), piece):
                copy.write(data[start : start + piece])
        return cursor.rowcount


def _refused(connection: psycopg.Connection, target: str, data: bytes) -> psycopg.Error:
    with pytest.raises(psycopg.Error) as error:
        put(connection, target, data)
    return error.value


def test_every_type_comes_back(connection: psycopg.Connection) -> None:
    connection.execute(f"CREATE TABLE types {DEFINITION}")
    for row in ROWS:
        connection.execute(f"INSERT INTO types VALUES {row}")
    connection.execute(f"CREATE TABLE target {DEFINITION}")
    table = out(connection, "types")
    assert table.num_rows == 3
    assert put(connection, "target", stream_of(table)) == 3
    text = "SELECT t::text FROM {} t ORDER BY id"
    assert connection.execute(text.format("target")).fetchall() == connection.execute(text.format("types")).fetchall()


def test_the_arrow_types(connection: psycopg.Connection) -> None:
    query = """(SELECT 1::int2 a, 2 b, 3::int8 c, 1.5::numeric(10, 2) d, 'x'::text e, date '2024-01-02' f,
        timestamptz '2024-01-02 03:04:05+00' g, '{1,2}'::int[] h, NULL::float8 i, 7::numeric j, '{"a": 1}'::jsonb k,
        interval '1 day' l, '{00112233-4455-6677-8899-aabbccddeeff}'::uuid[] m, sum(i) n
        FROM generate_series(1, 3) i)"""
    table = out(connection, query)
    assert [str(kind) for kind in table.schema.types] == [
        "int16", "int32", "int64", "decimal128(10, 2)", "string", "date32[day]", "timestamp[us, tz=UTC]",
        "list<item: int32>", "double", table.schema.field("j").type.__str__(), "string", "string",
        "list<item: string>", "int64",
    ]  # fmt: skip
    (row,) = table.to_pylist()
    assert (row["d"], row["h"], row["k"], row["l"]) == (Decimal("1.50"), [1, 2], '{"a": 1}', "1 day")
    assert row["g"] == datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


def test_no_rows_still_have_a_schema(connection: psycopg.Connection) -> None:
    connection.execute(f"CREATE TABLE types {DEFINITION}")
    table = out(connection, "types")
    assert table.num_rows == 0 and len(table.schema) == 32
    assert put(connection, "types", stream_of(table)) == 0


@pytest.mark.parametrize("piece", some([1000, 13, 1 << 22], 3))
def test_many_rows_in_pieces_of_any_size(connection: psycopg.Connection, piece: int) -> None:
    rows = 2_000 if piece == 13 else 100_000
    connection.execute(
        f"CREATE TABLE source AS SELECT i AS id, i / 7.0 AS f, 'name ' || i AS t, i::numeric(9, 2) / 4 AS n"
        f" FROM generate_series(1, {rows}) i"
    )
    connection.execute("CREATE TABLE target (id int PRIMARY KEY, f numeric, t text, n numeric(12, 4))")
    data = stream_of(out(connection, "source"), 3_000)
    assert put(connection, "target", data, piece) == rows
    different = "SELECT count(*) FROM source s FULL JOIN target t USING (id) WHERE s.t IS DISTINCT FROM t.t"
    assert connection.execute(different).fetchone() == (0,)
    assert connection.execute("SELECT max(n) FROM target").fetchone() == (Decimal(rows) / 4,)


def test_streams_one_after_the_other(connection: psycopg.Connection) -> None:
    connection.execute("CREATE TABLE target (id int)")
    data = stream_of(pa.table({"id": pa.array([1, 2], pa.int32())}))
    assert put(connection, "target", data + data) == 4
    other = stream_of(pa.table({"id": pa.array([1, 2], pa.int64())}))
    assert "different schemas" in str(_refused(connection, "target", data + other))


def test_what_the_table_asks_for_holds(connection: psycopg.Connection) -> None:
    connection.execute(
        "CREATE TABLE target (id int PRIMARY KEY, t varchar(3) NOT NULL, made int GENERATED ALWAYS AS (id * 2) STORED,"
        " n int DEFAULT 7 CHECK (n > 0))"
    )

    def data(ids: list[int | None], texts: list[str | None]) -> bytes:
        return stream_of(pa.table({"id": pa.array(ids, pa.int32()), "t": pa.array(texts, pa.string())}))

    assert put(connection, "target (id, t)", data([1, 2], ["a", "b"])) == 2
    assert connection.execute("SELECT * FROM target ORDER BY 1").fetchall() == [(1, "a", 2, 7), (2, "b", 4, 7)]
    assert _refused(connection, "target (id, t)", data([3, 1], ["a", "b"])).sqlstate == "23505"
    assert _refused(connection, "target (id, t)", data([3], [None])).sqlstate == "23502"
    long = _refused(connection, "target (id, t)", data([3], ["abcd"]))
    assert long.sqlstate == "22001" and "column t" in str(long.diag.context)
    checked = stream_of(pa.table({"i": pa.array([9], pa.int32()), "t": ["x"], "n": pa.array([-1], pa.int32())}))
    assert _refused(connection, "target (id, t, n)", checked).sqlstate == "23514"
    assert connection.execute("SELECT count(*) FROM target").fetchone() == (2,)


def test_what_does_not_fit_names_the_column_and_both_types(connection: psycopg.Connection) -> None:
    connection.execute("CREATE TABLE target (id int, t text, n numeric(5, 2), d date, a int[])")

    def given(**columns: Any) -> psycopg.Error:
        table = pa.table(columns)
        return _refused(connection, f"target ({', '.join(columns)})", stream_of(table))

    wrong = given(id=["1"])
    assert wrong.sqlstate == "42804"
    assert (
        'column "id" is of type integer' in str(wrong)
        and "string" in str(wrong)
        and "int32" in str(wrong.diag.message_hint)
    )
    assert given(t=pa.array([1])).sqlstate == "42804"
    assert given(d=pa.array([datetime.datetime(2024, 1, 1)])).sqlstate == "42804"
    assert given(a=pa.array([["x"]])).sqlstate == "42804"
    assert given(id=pa.array([1 << 40])).sqlstate == "22003"
    assert given(n=pa.array([Decimal("1000.5")])).sqlstate == "22003"
    assert given(t=pa.array(["a\0b"])).sqlstate == "22021"
    put(connection, "target (n)", stream_of(pa.table({"n": pa.array([Decimal("1.255"), Decimal("-1.255")])})))
    assert connection.execute("SELECT n FROM target ORDER BY 1").fetchall() == [(Decimal("-1.26"),), (Decimal("1.26"),)]
    put(connection, "target (id, n)", stream_of(pa.table({"id": pa.array([8], pa.int8()), "n": pa.array([3])})))
    assert connection.execute("SELECT n FROM target WHERE id = 8").fetchall() == [(Decimal("3.00"),)]


def test_what_is_refused_by_name(connection: psycopg.Connection) -> None:
    connection.execute("CREATE TABLE target (t text)")
    words = pa.table({"t": ["x" * 100] * 100})
    assert "compressed" in str(_refused(connection, "target", stream_of(words, compression="zstd")))
    dictionary = pa.table({"t": pa.array(["a", "b"]).dictionary_encode()})
    assert _refused(connection, "target", stream_of(dictionary)).sqlstate in ("0A000", "42804")
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        out(connection, "(INSERT INTO target VALUES ('x') RETURNING t)")
    with pytest.raises(psycopg.errors.DatetimeFieldOverflow):
        out(connection, "(SELECT time '24:00')")
    with pytest.raises(psycopg.errors.SyntaxError):
        connection.execute("COPY target TO STDOUT (FORMAT arrow, DELIMITER ',')")


def test_broken_streams_break_nothing(connection: psycopg.Connection) -> None:
    """Cut short anywhere, and with random bytes changed: an error of COPY or rows, never the end of anything."""
    connection.execute("CREATE TABLE target (id int, t text, a int[])")
    table = pa.table(
        {
            "id": pa.array([1, None, 3], pa.int32()),
            "t": ["a", None, "ccc"],
            "a": pa.array([[1, 2], None, []], pa.list_(pa.int32())),
        }
    )
    data = stream_of(table)
    chance = random.Random(7)
    for _ in range(150):
        broken = bytearray(data)
        for _ in range(chance.randint(1, 3)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        try:
            put(connection, "target", bytes(broken))
        except psycopg.Error as error:
            assert error.sqlstate is not None and error.sqlstate[:2] in ("22", "42", "0A", "54"), error
    for length in range(4, len(data) - 8, 37):
        assert _refused(connection, "target", data[:length]).sqlstate == "22P04"
    assert connection.execute("SELECT 1").fetchone() == (1,)
    connection.execute("SELECT * FROM target").fetchall()
