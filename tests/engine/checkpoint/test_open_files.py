"""pandas and DuckDB read the files with no help from us, and see what SQL sees."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import uuid
from pathlib import Path
from typing import Any

import duckdb
import pandas
import psycopg
import pyarrow.parquet as pq
import pytest

from engine.checkpoint import Manifest
from tests.engine.checkpoint.harness import FolderFiles, checkpoint, opened
from tests.server import ShoalServer

PLAIN = """
CREATE TABLE plain (
  id int PRIMARY KEY, b boolean, i2 smallint, i8 bigint, f4 real, f8 double precision, n numeric(10,2), exact numeric,
  t text, c char(4), by bytea, u uuid, j jsonb, d date, ti time, ts timestamp, tstz timestamptz, iv interval,
  ia int[], ta text[]
);
INSERT INTO plain SELECT g, g % 2 = 0, g, g * 1000000000000, g / 4.0, g / 3.0, g / 7.0, g / 7.0, 'row ' || g, 'x',
  decode(lpad(to_hex(g), 4, '0'), 'hex'), 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', ('{"a": ' || g || '}')::jsonb,
  date '2024-01-01' + g, time '00:00' + g * interval '1 min', timestamp '1969-12-31' + g * interval '1 hour',
  timestamptz '1969-12-31 00:00+03' + g * interval '1 hour', g * interval '1 mon 1 day 1 sec', array[g, NULL, g + 1],
  array['a', 'b ' || g]
FROM generate_series(1, 500) g;
INSERT INTO plain (id) VALUES (0);
CREATE TABLE numbered (a int, b text);
INSERT INTO numbered SELECT g, 'b' || g FROM generate_series(1, 300) g;
"""


@pytest.fixture(scope="module")
def plain_directory(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[tuple[Any, ...]]]]:
    """A data directory that nobody has open, and what SQL says is in it."""
    data = tmp_path_factory.mktemp("plain") / "data"
    with ShoalServer(data) as server, psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(PLAIN.encode())
        connection.execute("SET timezone = 'UTC'")
        found = {
            name: connection.execute(f"SELECT * FROM {name} ORDER BY 1".encode()).fetchall()
            for name in ("plain", "numbered")
        }
        # psycopg adds the months of an interval up as 30 days each: its parts are asked for.
        found["parts"] = connection.execute(
            "SELECT extract(year FROM iv)::int * 12 + extract(month FROM iv)::int, extract(day FROM iv)::int,"
            " extract(hour FROM iv)::bigint * 3600000000 + extract(minute FROM iv)::bigint * 60000000"
            " + extract(microsecond FROM iv)::bigint FROM plain ORDER BY id"
        ).fetchall()
    return data, found


async def written(plain_directory: tuple[Path, Any], tmp_path: Path) -> tuple[FolderFiles, Manifest]:
    files = FolderFiles(tmp_path / "store")
    async with opened(plain_directory[0]) as store:
        return files, await checkpoint(store, files, tmp_path / "scratch", target_rows=128)


def paths(files: FolderFiles, manifest: Manifest, name: str) -> list[str]:
    entry = next(entry for entry in manifest.tables if entry.name == name)
    assert all(item.exact is None for item in entry.files)
    return [str(files.path(item.file.name)) for item in entry.files]


def with_intervals(rows: list[tuple[Any, ...]], parts: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows with an interval as {months, days, microseconds}, and the time zone taken off."""
    made = []
    for row, (months, days, microseconds) in zip(rows, parts, strict=True):
        interval = None if months is None else {"months": months, "days": days, "microseconds": microseconds}
        made.append((*row[:17], interval, *row[18:]))
    return made


async def test_duckdb_reads_what_sql_says(plain_directory: Any, tmp_path: Path) -> None:
    files, manifest = await written(plain_directory, tmp_path)
    expected = with_intervals(plain_directory[1]["plain"], plain_directory[1]["parts"])
    with duckdb.connect() as connection:
        kinds = connection.execute("DESCRIBE FROM read_parquet(?)", [paths(files, manifest, "plain")]).fetchall()
        assert [kind[1] for kind in kinds] == [
            "INTEGER", "BOOLEAN", "SMALLINT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10,2)", "VARCHAR", "VARCHAR",
            "VARCHAR", "BLOB", "UUID", "JSON", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE",
            'STRUCT("months" INTEGER, "days" INTEGER, "microseconds" BIGINT)', "INTEGER[]", "VARCHAR[]",
        ]  # fmt: skip
        rows = connection.execute(
            "SELECT * REPLACE (epoch_us(tstz) AS tstz) FROM read_parquet(?) ORDER BY id",
            [paths(files, manifest, "plain")],
        ).fetchall()
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    step = datetime.timedelta(microseconds=1)
    for row, like in zip(rows, expected, strict=True):
        right = list(like)
        if right[16] is not None:
            right[7] = str(right[7])
            right[12] = json.dumps(right[12])
            right[16] = (right[16] - epoch) // step
        assert row == tuple(right)


async def test_pandas_reads_what_sql_says(plain_directory: Any, tmp_path: Path) -> None:
    files, manifest = await written(plain_directory, tmp_path)
    expected = with_intervals(plain_directory[1]["plain"], plain_directory[1]["parts"])
    frame = pandas.concat([pandas.read_parquet(path) for path in paths(files, manifest, "plain")])
    frame = frame.sort_values("id")
    assert len(frame) == 501
    for place, name in enumerate(frame.columns):
        for value, like in zip(frame[name].tolist(), (row[place] for row in expected), strict=True):
            if like is None:
                assert value is None or value is pandas.NaT or math.isnan(value)
            elif name == "exact":
                assert decimal.Decimal(value) == like
            elif name == "j":
                assert json.loads(value) == like
            elif name == "ia":
                assert [None if math.isnan(item) else item for item in value] == like
            elif name == "ta":
                assert list(value) == like
            elif name == "u":
                assert uuid.UUID(str(value)) == like
            else:
                assert value == like, name


async def test_rows_without_a_key_have_their_number(plain_directory: Any, tmp_path: Path) -> None:
    files, manifest = await written(plain_directory, tmp_path)
    entry = next(entry for entry in manifest.tables if entry.name == "numbered")
    assert entry.row_number == "_shoal_row_number" and entry.key == ()
    with duckdb.connect() as connection:
        rows = connection.execute(
            "SELECT a, b FROM read_parquet(?) ORDER BY _shoal_row_number", [paths(files, manifest, "numbered")]
        ).fetchall()
    assert rows == plain_directory[1]["numbered"]


async def test_files_say_what_sql_calls_their_columns(plain_directory: Any, tmp_path: Path) -> None:
    files, manifest = await written(plain_directory, tmp_path)
    entry = next(entry for entry in manifest.tables if entry.name == "plain")
    schema = pq.read_schema(paths(files, manifest, "plain")[0])
    assert [field.metadata[b"shoal.type"].decode() for field in schema] == [column.type for column in entry.columns]
    assert (entry.columns[6].name, entry.columns[6].type) == ("n", "numeric(10,2)")
    assert [column.not_null for column in entry.columns] == [True] + [False] * 19
    manifest_text = json.loads(files.path(manifest.name()).read_text())
    assert manifest_text["tables"][0]["name"] == "plain" and manifest_text["lsn"] == manifest.lsn
