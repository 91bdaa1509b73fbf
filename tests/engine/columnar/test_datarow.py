"""Encoded rows against the bytes that PostgreSQL sends for the same values."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from catalog import types
from catalog.types.base import FormatSettings
from engine.columnar.datarow import RowEncoder
from engine.columnar.worker.values import from_arrow, to_arrow

VALUES: dict[str, list[str]] = {
    "bool": ["t", "f"],
    "int2": ["0", "-32768", "32767", "12"],
    "int4": ["0", "-2147483648", "2147483647"],
    "int8": ["0", "-9223372036854775808", "9223372036854775807"],
    "oid": ["0", "4294967295"],
    "float4": [
        "0",
        "-0",
        "1",
        "0.1",
        "1.5",
        "123456",
        "1e6",
        "1234567",
        "0.0001",
        "0.00001",
        "1e10",
        "16777216",
        "3.4e38",
        "NaN",
        "Infinity",
        "-Infinity",
        "1e-45",
    ],
    "float8": [
        "0",
        "-0",
        "1",
        "0.1",
        "1e14",
        "123456789012345",
        "1e15",
        "1.5e15",
        "1e16",
        "1e20",
        "1e21",
        "9999999999",
        "10000000000.5",
        "0.0001",
        "0.00015",
        "0.00001",
        "1e-7",
        "NaN",
        "Infinity",
        "-Infinity",
        "5e-324",
        "1.7976931348623157e308",
        "0.3333333333333333",
        "100",
    ],
    "text": ["", "a", "žluťoučký", "tab\there", "back\\slash", "new\nline", '"quoted", comma', "\\.", "\\N"],
    "bytea": ["\\x", "\\x00", "\\x0001feff"],
    "uuid": ["00000000-0000-0000-0000-000000000000", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    "date": [
        "2000-01-01",
        "1969-12-31",
        "0001-01-01",
        "9999-12-31",
        "10000-01-01",
        "0001-12-31 BC",
        "infinity",
        "-infinity",
    ],
    "time": ["00:00:00", "23:59:59.999999", "24:00:00", "12:30:00.5", "01:02:03.000001"],
    "timetz": ["00:00:00+00", "23:59:59.25-03:30"],
    "timestamp": [
        "2000-01-01 00:00:00",
        "1969-12-31 23:59:59.999999",
        "2024-02-29 12:00:00.25",
        "0001-01-01 00:00:00",
        "0044-03-15 12:00:00 BC",
        "20000-01-01 00:00:00",
        "infinity",
        "-infinity",
    ],
    "timestamptz": ["2000-01-01 00:00:00+00", "2024-07-01 12:00:00.5+00", "infinity", "1900-01-01 00:00:00+00"],
    "interval": ["0", "1 year 2 months 3 days 04:05:06.789", "-1 days +02:03:00", "-00:00:01.5"],
    "numeric": ["0", "1.10", "-0.5", "NaN", "Infinity", "123456789012345678901234567890.12345", "0.00000001"],
    "json": ['{"a": 1}', "[1,\n2]"],
    "jsonb": ['{"a": 1}', "[1, 2]"],
    "int4[]": ["{}", "{1,2,3}", "{NULL,5}"],
    "text[]": ["{}", '{a,"b c",NULL,"NULL","q\\"uote","back\\\\slash"}'],
}


def rows_of(chunks: Sequence[tuple[memoryview, int]]) -> list[list[bytes | None]]:
    """The cells of DataRow messages."""
    rows = []
    for chunk, count in chunks:
        data = bytes(chunk)
        place = 0
        for _ in range(count):
            kind, length, columns = struct.unpack_from("!cIH", data, place)
            assert kind == b"D"
            end = place + 1 + length
            place += 7
            row: list[bytes | None] = []
            for _ in range(columns):
                (size,) = struct.unpack_from("!i", data, place)
                place += 4
                row.append(None if size < 0 else data[place : place + size])
                place += max(size, 0)
            assert place == end
            rows.append(row)
        assert place == len(data)
    return rows


def column_of(name: str, texts: Sequence[str | None]) -> tuple[int, pa.Array]:
    """The Arrow column of the values whose text forms these are."""
    sql_type = types.by_name["_" + name[:-2] if name.endswith("[]") else name]
    decode = sql_type.text_decoder()
    internal = [None if text is None else decode(text) for text in texts]
    array = to_arrow(internal, sql_type.oid, sql_type.duckdb_type())
    assert from_arrow(array, sql_type.oid)[: len(internal)] == internal or "NaN" in texts
    return sql_type.oid, array


def asked(connection: psycopg.Connection, name: str, texts: Sequence[str | None], binary: bool) -> list[bytes | None]:
    sql = f"SELECT v::{name} FROM unnest(%s::text[]) WITH ORDINALITY AS u (v, n) ORDER BY n"
    cursor = connection.cursor(binary=binary)
    cursor.execute(sql, [list(texts)])
    assert cursor.pgresult is not None
    return [cursor.pgresult.get_value(row, 0) for row in range(len(texts))]


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("name", VALUES)
def test_cells_are_postgresql_s_bytes(postgres: psycopg.Connection, name: str, binary: bool) -> None:
    postgres.execute("SET timezone = 'UTC'")
    texts = [None, *VALUES[name], None, *VALUES[name]]
    oid, array = column_of(name, texts)
    batch = pa.record_batch([array, array.slice(0)], names=["a", "b"])
    encoder = RowEncoder("datarow", [oid, oid], [int(binary)] * 2, FormatSettings())
    got = rows_of(list(encoder.encode(batch)))
    expected = asked(postgres, name, texts, binary)
    assert [row[0] for row in got] == expected
    assert [row[1] for row in got] == expected


@pytest.mark.parametrize("name", VALUES)
def test_a_slice_without_nulls_is_encoded_alike(postgres: psycopg.Connection, name: str) -> None:
    postgres.execute("SET timezone = 'UTC'")
    texts = [None, *VALUES[name], None]
    oid, array = column_of(name, texts)
    batch = pa.record_batch([array], names=["a"]).slice(1, len(VALUES[name]))
    for code in (0, 1):
        encoder = RowEncoder("datarow", [oid], [code], FormatSettings())
        expected = asked(postgres, name, texts[1:-1], bool(code))
        assert [row[0] for row in rows_of(list(encoder.encode(batch)))] == expected


@pytest.mark.parametrize("zone", ["Europe/Prague", "America/New_York", "Asia/Kolkata"])
@pytest.mark.parametrize("style", ["ISO, MDY", "SQL, DMY", "German", "Postgres, MDY"])
def test_date_styles_and_zones(postgres: psycopg.Connection, style: str, zone: str) -> None:
    postgres.execute(f"SET timezone = '{zone}'")
    postgres.execute(f"SET datestyle = '{style}'")
    kind, _, order = style.partition(", ")
    settings = FormatSettings(date_style=kind, date_order=order or "DMY", timezone=zone)
    for name in ("date", "timestamp", "timestamptz"):
        oid, array = column_of(name, VALUES[name])
        sql = f"SELECT v FROM unnest(%s::{name}[]) WITH ORDINALITY AS u (v, n) ORDER BY n"
        postgres.execute("SET datestyle = 'ISO, MDY'")
        cursor = postgres.cursor()
        postgres.execute(f"SET datestyle = '{style}'")
        cursor.execute(sql, ["{" + ",".join(f'"{text}"' for text in VALUES[name]) + "}"])
        assert cursor.pgresult is not None
        expected = [cursor.pgresult.get_value(row, 0) for row in range(len(VALUES[name]))]
        batch = pa.record_batch([array], names=["a"])
        got = rows_of(list(RowEncoder("datarow", [oid], [0], settings).encode(batch)))
        assert [row[0] for row in got] == expected


@pytest.mark.parametrize("precision, scale", [(4, 0), (9, 2), (18, 18), (18, 6), (38, 0), (38, 10), (38, 38)])
def test_decimals_print_their_scale(postgres: psycopg.Connection, precision: int, scale: int) -> None:
    step = 10**-scale if scale == 0 else f"1e-{scale}"
    largest = ("9" * (precision - scale) or "0") + ("." + "9" * scale if scale else "")
    texts = ["0", "-0", str(step), f"-{step}", largest, f"-{largest}", "0.5" if scale else "5"]
    oid = types.by_name["numeric"].oid
    internal = [types.lookup(oid).text_decoder()(text) for text in texts]
    array = pa.array([None, *internal], type=pa.decimal128(precision, scale))
    for code in (0, 1):
        got = rows_of(
            list(RowEncoder("datarow", [oid], [code], FormatSettings()).encode(pa.record_batch([array], ["v"])))
        )
        expected = asked(postgres, f"numeric({precision},{scale})", [None, *texts], bool(code))
        assert [row[0] for row in got] == expected


def test_chunks_hold_whole_rows_and_are_bounded() -> None:
    array = pa.array(["x" * 1000] * 5000)
    chunks = list(RowEncoder("datarow", [25], [0], FormatSettings()).encode(pa.record_batch([array], ["v"])))
    assert sum(rows for _, rows in chunks) == 5000
    assert len(chunks) > 10
    assert all(chunk.nbytes <= 256 << 10 for chunk, _ in chunks)
    assert len(rows_of(chunks)) == 5000


def test_a_result_without_columns_has_rows() -> None:
    batch = pa.RecordBatch.from_struct_array(pa.array([{}, {}], type=pa.struct([])))
    assert rows_of(list(RowEncoder("datarow", [], [], FormatSettings()).encode(batch))) == [[], []]


def copied(connection: psycopg.Connection, options: str, source: str) -> bytes:
    with connection.cursor().copy(f"COPY ({source}) TO STDOUT {options}") as copy:
        return b"".join(bytes(data) for data in copy)


COPIES: list[tuple[str, str, tuple[tuple[str, str], ...]]] = [
    ("copy_text", "", ()),
    ("copy_text", "(DELIMITER '|', NULL 'nothing')", (("delimiter", "|"), ("null", "nothing"))),
    ("copy_csv", "(FORMAT csv)", (("format", "csv"),)),
    ("copy_csv", "(FORMAT csv, NULL 'a', FORCE_QUOTE (v))", (("null", "a"), ("force_quote", "v"))),
    ("copy_csv", "(FORMAT csv, FORCE_QUOTE *)", (("force_quote", "*"),)),
    (
        "copy_csv",
        "(FORMAT csv, QUOTE '''', ESCAPE '\\', DELIMITER ';')",
        (("quote", "'"), ("escape", "\\"), ("delimiter", ";")),
    ),
]


@pytest.mark.parametrize("kind, options, given", COPIES)
@pytest.mark.parametrize("columns", [1, 2])
def test_copy_lines_are_postgresql_s(
    postgres: psycopg.Connection, kind: str, options: str, given: Any, columns: int
) -> None:
    texts = [None, *VALUES["text"], "a|b;c", "it's", "\x08\x0b\x0c\r", None]
    _, array = column_of("text", texts)
    other = pa.array(range(len(texts)), type=pa.int32())
    names = ["v", "w"][:columns]
    batch = pa.record_batch([array, other][:columns], names=names)
    encoder = RowEncoder(kind, [25, 23][:columns], (), FormatSettings(), options=given, names=names)
    lines = b""
    for chunk, _ in encoder.encode(batch):
        place = 0
        while place < chunk.nbytes:
            code, length = struct.unpack_from("!cI", chunk, place)
            assert code == b"d"
            lines += bytes(chunk[place + 5 : place + 1 + length])
            place += 1 + length
    literals = ", ".join(
        f"({'NULL' if text is None else psycopg.sql.Literal(text).as_string(postgres)}::text, {i})"
        for i, text in enumerate(texts)
    )
    source = f"SELECT {', '.join(names)} FROM (VALUES {literals}) AS t (v, w) ORDER BY w"
    assert lines == copied(postgres, options, source)


def test_copy_binary_rows() -> None:
    batch = pa.record_batch([pa.array([1, None], type=pa.int32())], names=["a"])
    chunks = list(RowEncoder("copy_binary", [23], (), FormatSettings()).encode(batch))
    expected = b"d" + struct.pack("!IHII", 14, 1, 4, 1) + b"d" + struct.pack("!IHi", 10, 1, -1)
    assert b"".join(bytes(chunk) for chunk, _ in chunks) == expected
