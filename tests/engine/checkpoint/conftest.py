"""A data directory with a bit of everything, made once through SQL by a real server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.server import ShoalServer

SAMPLES = Path(__file__).with_name("samples.sql")


@pytest.fixture(scope="session")
def sample_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Do not open it: copy it (`samples`)."""
    data = tmp_path_factory.mktemp("checkpoint") / "data"
    with ShoalServer(data) as server, psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(SAMPLES.read_bytes())
        connection.execute("CREATE DATABASE second")
        with psycopg.connect(server.dsn.replace("dbname=postgres", "dbname=second"), autocommit=True) as second:
            second.execute("CREATE TABLE here (id int PRIMARY KEY, x text); INSERT INTO here VALUES (1, 'second')")
    return data


@pytest.fixture
def samples(sample_directory: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of it."""
    copy = tmp_path / "data"
    shutil.copytree(sample_directory, copy)
    yield copy
