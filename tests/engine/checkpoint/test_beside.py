"""A tablespace beside pg_default, whose catalog lies elsewhere, has checkpoints that are as open and as exact."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import duckdb
import pandas
import psycopg
import pytest

from catalog import rows as system_rows
from catalog.schema import SchemaObject, Table
from catalog.schema import Tablespace as CatalogItem
from engine.checkpoint import Described, read_checkpoint, verify_checkpoint
from engine.storage.keys import prefix_range, storage_prefix
from engine.storage.rows import RowCodec
from engine.storage.tablespace import Tablespace
from shoal.data_directory import open_spaces
from tests.engine.checkpoint.conftest import SAMPLES
from tests.engine.checkpoint.harness import FolderFiles, checkpoint, commit, contents, opened
from tests.server import ShoalServer

PLAIN = """
CREATE TABLE moods (id int PRIMARY KEY, mood mood, short short, amount numeric(10,2));
CREATE INDEX moods_by_mood ON moods (mood, short);
INSERT INTO moods SELECT g, CASE g % 2 WHEN 0 THEN 'sad' ELSE 'glad' END::mood, 's' || g % 9, g / 4.0
  FROM generate_series(1, 1000) g;
CREATE TABLE elsewhere (id int PRIMARY KEY) TABLESPACE pg_default;
INSERT INTO elsewhere VALUES (1);
"""


@pytest.fixture(scope="module")
def beside_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Do not open it: copy it (`beside`)."""
    data = tmp_path_factory.mktemp("beside") / "data"
    with ShoalServer(data) as server, psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLESPACE beside")
        connection.execute("SET default_tablespace = beside")
        connection.execute("CREATE TYPE mood AS ENUM ('glad', 'sad'); CREATE DOMAIN short AS varchar(5)")
        connection.execute(SAMPLES.read_bytes())
        connection.execute(PLAIN.encode())
    return data


@pytest.fixture
def beside(beside_directory: Path, tmp_path: Path) -> Path:
    shutil.copytree(beside_directory, tmp_path / "data")
    return tmp_path / "data"


@asynccontextmanager
async def spaces_of(data: Path) -> AsyncIterator[tuple[Tablespace, Described]]:
    """The tablespace `beside` of a data directory, and what the catalog says."""
    loop = asyncio.get_running_loop()
    fatal: list[BaseException] = []
    spaces = open_spaces(data, loop.call_soon_threadsafe, fatal.append, loop)
    first = spaces.open()
    try:
        objects: list[SchemaObject] = []
        for number in system_rows.KINDS:
            objects += [
                system_rows.decode(key, value)
                for key, value in first.current.scan(*prefix_range(storage_prefix(number)))
            ]
        item = next(item for item in objects if isinstance(item, CatalogItem) and item.name == "beside")
        yield spaces.found[bytes.fromhex(item.identity)], Described(item.oid, objects)
    finally:
        spaces.close()
    assert not fatal


async def test_it_is_parquet_that_comes_back_bit_by_bit(beside: Path, tmp_path: Path) -> None:
    files = FolderFiles(tmp_path / "store")
    async with spaces_of(beside) as (space, described):
        manifest = await checkpoint(space, files, tmp_path / "scratch", described=described, target_rows=100)
        assert manifest.other is None
        names = {entry.name for entry in manifest.tables}
        assert {"types", "heap", "layouts", "moods"} <= names
        assert "elsewhere" not in names
        assert await verify_checkpoint(files, "", manifest, str(tmp_path / "verify")) == []
        await read_checkpoint(files, "", manifest, str(tmp_path / "again"))
        async with opened(tmp_path / "again") as again:
            assert (again.tablespace_id, again.durable_lsn) == (space.tablespace_id, manifest.lsn)
            assert contents(again) == contents(space)


async def test_pandas_and_duckdb_read_it_with_the_manifest_alone(beside: Path, tmp_path: Path) -> None:
    files = FolderFiles(tmp_path / "store")
    async with spaces_of(beside) as (space, described):
        made = await checkpoint(space, files, tmp_path / "scratch", described=described, target_rows=300)
    manifest = json.loads((files.folder / made.name()).read_text())
    table = next(table for table in manifest["tables"] if (table["schema"], table["name"]) == ("public", "moods"))
    paths = [str(files.folder / item["file"]["name"]) for item in table["files"]]
    assert len(paths) > 1
    query = "SELECT count(*), sum(amount), min(short) FROM read_parquet($1) WHERE mood = $2"
    catalog = json.loads((files.folder / manifest["catalog"]["name"]).read_text())
    labels = next(row["value"]["labels"] for row in catalog["schema"] if row["kind"] == "Enum")
    sad = next(label["position"] for label in labels if label["name"] == "sad")
    assert duckdb.execute(query, [paths, sad]).fetchone() == (500, 62625, "s0")
    frame = pandas.concat(map(pandas.read_parquet, paths))
    assert (len(frame), float(frame["amount"].sum())) == (1000, 125125.0)
    assert not any(row["kind"] == "Role" for row in catalog["schema"])
    assert catalog["rows"] == []


async def test_only_changed_ranges_are_written_again(beside: Path, tmp_path: Path) -> None:
    files = FolderFiles(tmp_path / "store")
    async with spaces_of(beside) as (space, described):
        first = await checkpoint(space, files, tmp_path / "scratch", described=described, target_rows=100)
        table = next(item for item in described.objects if isinstance(item, Table) and item.name == "plain_layouts")
        codec = RowCodec(table)
        key, value = next(iter(space.current.scan(*prefix_range(storage_prefix(table.storage_id)))))
        await commit(space, {key: codec.encode((1, "changed", 7))})
        assert value != codec.encode((1, "changed", 7))
        second = await checkpoint(space, files, tmp_path / "scratch", first, described=described, target_rows=100)
        fresh = [
            item.file.name
            for entry in second.tables
            for item in entry.files
            if item.file.name.startswith(second.folder)
        ]
        assert len(fresh) == 1
        assert "plain_layouts" in fresh[0]
        await read_checkpoint(files, "", second, str(tmp_path / "again"))
        async with opened(tmp_path / "again") as again:
            assert contents(again) == contents(space)


async def test_what_the_catalog_does_not_know_is_kept_as_it_is(beside: Path, tmp_path: Path) -> None:
    files = FolderFiles(tmp_path / "store")
    async with spaces_of(beside) as (space, described):
        heap = next(item for item in described.objects if isinstance(item, Table) and item.name == "heap")
        fewer = [item for item in described.objects if item is not heap]
        made = await checkpoint(space, files, tmp_path / "scratch", described=Described(described.tablespace, fewer))
        assert made.other_rows == 1800  # its rows, and the entries of its index
        await read_checkpoint(files, "", made, str(tmp_path / "again"))
        async with opened(tmp_path / "again") as again:
            assert contents(again) == contents(space)
