"""What a node alone has is brought along whole, however often the attempt was broken off."""

from __future__ import annotations

import shutil
from pathlib import Path

import psycopg
import pytest

from catalog import rows as system_rows
from catalog.schema import Tablespace
from engine.storage.keys import prefix_range, storage_prefix
from shoal.cluster import cluster_creation
from shoal.cluster.cluster_creation import flush_local_changelogs
from shoal.cluster.replica_bootstrap import own_tables
from shoal.config import ConfigError
from tests.server import ShoalServer


def fail(error: BaseException) -> None:
    raise error


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Of a node that was killed: its changelogs hold what its tables do not."""
    with ShoalServer(tmp_path / "data") as server, psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLESPACE one")
        connection.execute("CREATE TABLESPACE two")
        connection.execute("CREATE TABLE near (id int PRIMARY KEY)")
        connection.execute("CREATE TABLE far (id int PRIMARY KEY) TABLESPACE one")
        with connection.transaction():
            connection.execute("INSERT INTO near SELECT generate_series(1, 100)")
            connection.execute("INSERT INTO far SELECT generate_series(1, 100)")
        server.kill()
    return tmp_path / "data"


def keys(directory: Path) -> int:
    """How many keys the tables of a tablespace hold, the system's not counted."""
    with own_tables(directory) as tables, tables.environment.begin(db=tables.rows) as transaction:
        return sum(key >= storage_prefix(system_rows.FIRST_USER_STORAGE) for key, _ in transaction.cursor())


def spaces(data: Path) -> list[Path]:
    return sorted((data / "tablespaces").iterdir())


async def test_every_tablespace_is_brought_along(data: Path) -> None:
    await flush_local_changelogs(data, fail)
    assert not list(data.rglob("changelog"))
    assert keys(data) == 100
    assert sorted(map(keys, spaces(data))) == [0, 100]
    low, high = prefix_range(storage_prefix(system_rows.SYSTEM_TABLES[Tablespace]))
    with own_tables(data) as tables, tables.environment.begin(db=tables.rows) as transaction:
        found = [key for key, _ in transaction.cursor() if low <= key < high]
    assert len(found) == 4  # pg_default and pg_global too
    await flush_local_changelogs(data, fail)  # there is nothing left to do


async def test_an_interrupted_attempt_is_repeated(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = shutil.rmtree
    left = 1

    def breaks_off(path: Path, ignore_errors: bool = False) -> None:
        nonlocal left
        if not left:
            raise InterruptedError
        left -= 1
        real(path)

    with monkeypatch.context() as patch, pytest.raises(InterruptedError):
        patch.setattr(cluster_creation.shutil, "rmtree", breaks_off)
        await flush_local_changelogs(data, fail)
    assert len(list(data.rglob("changelog"))) == 2
    await flush_local_changelogs(data, fail)
    assert not list(data.rglob("changelog"))
    assert keys(data) == 100
    assert sorted(map(keys, spaces(data))) == [0, 100]


async def test_a_tablespace_without_a_catalog_row_is_not_changed(data: Path) -> None:
    with ShoalServer(data.parent / "other") as server, psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLESPACE other")
    (other,) = spaces(data.parent / "other")
    shutil.copytree(other, data / "tablespaces" / other.name)
    with pytest.raises(ConfigError, match=f"knows no tablespace {other.name}"):
        await flush_local_changelogs(data, fail)
    assert (data / "changelog").exists()
    assert (data / "tablespaces" / other.name / "rows").exists()
