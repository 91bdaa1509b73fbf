"""`shoal doctor`: a healthy directory, and each kind of damage; it changes nothing."""

from __future__ import annotations

import hashlib
import pathlib
import shutil
from collections.abc import Iterator

import psycopg
import pytest

from tests import forks
from tests.server import ShoalServer


def doctor(data: pathlib.Path, *options: str) -> tuple[int, str]:
    done = forks.run("doctor", str(data), *options)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pathlib.Path]:
    """The directory of a server that was killed: two tablespaces, a bulk file, entries that are in no table yet."""
    with ShoalServer(tmp_path_factory.mktemp("doctor") / "data") as server:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLESPACE second")
            connection.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
            connection.execute("CREATE TABLE u (id int PRIMARY KEY) TABLESPACE second")
            with connection.transaction():
                connection.execute("INSERT INTO t VALUES (0, 'both')")
                connection.execute("INSERT INTO u VALUES (0)")
        server.restart()
        assert "is in use by a server" in doctor(server.data)[1]
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            # So many rows are flushed by a process that has hardly started when the server is killed.
            connection.execute("INSERT INTO t SELECT g, repeat('x', 200) FROM generate_series(1, 30000) g")
            connection.execute("INSERT INTO t VALUES (-1, 'canary')")
        server.kill()
        yield server.data


@pytest.fixture
def data(killed: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    shutil.copytree(killed, tmp_path / "data")
    return tmp_path / "data"


def contents(data: pathlib.Path) -> dict[str, str]:
    files = [path for path in data.rglob("*") if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_healthy_directory_stays_as_it_is(data: pathlib.Path) -> None:
    before = contents(data)
    status, told = doctor(data)
    assert status == 0 and told.endswith("Nothing is wrong.\n")
    assert "pg_default" in told and "acknowledged up to" in told and told.count("changelog:") == 2
    assert contents(data) == before


def damage_entry(data: pathlib.Path) -> str:
    path = max((data / "changelog").glob("*.segment"))
    text = bytearray(path.read_bytes())
    text[text.rindex(b"canary")] ^= 1
    path.write_bytes(text)
    return "cannot be read"


def damage_header(data: pathlib.Path) -> str:
    path = max((data / "changelog").glob("*.segment"))
    text = bytearray(path.read_bytes())
    text[3] ^= 1
    path.write_bytes(text)
    return "has a broken header"


def lose_segments(data: pathlib.Path) -> str:
    for path in (data / "changelog").glob("*.segment"):
        path.unlink()
    return "acknowledged and cannot be read"


def lose_bulk(data: pathlib.Path) -> str:
    next((data / "changelog" / "bulk").iterdir()).unlink()
    return "is missing"


def damage_bulk(data: pathlib.Path) -> str:
    path = next((data / "changelog" / "bulk").iterdir())
    text = bytearray(path.read_bytes())
    text[len(text) // 2] ^= 1
    path.write_bytes(text)
    return "is damaged"


def damage_mark(data: pathlib.Path) -> str:
    (data / "changelog" / "durable").write_bytes(b"\xff" * 4096)
    return "the file 'durable' is missing or broken"


def cut_tables(data: pathlib.Path) -> str:
    path = data / "rows" / "data.mdb"
    path.write_bytes(path.read_bytes()[:5000])
    return "the tables cannot be read"


def lose_tables(data: pathlib.Path) -> str:
    (data / "rows" / "data.mdb").unlink()
    return "are missing"


def swap_tablespace(data: pathlib.Path) -> str:
    space = next((data / "tablespaces").iterdir())
    space.rename(space.with_name("0" * 32))
    return "it holds another tablespace"


@pytest.mark.parametrize(
    "harm",
    [
        damage_entry,
        damage_header,
        lose_segments,
        lose_bulk,
        damage_bulk,
        damage_mark,
        cut_tables,
        lose_tables,
        swap_tablespace,
    ],
)
def test_damage_is_named_with_what_can_be_done(data: pathlib.Path, harm: object) -> None:
    expected = harm(data)  # type: ignore[operator]
    status, told = doctor(data)
    assert status == 1
    assert expected in told, told
    assert "shoal restore BACKUP --data NEW" in told


def test_a_replica_is_bootstrapped_again(data: pathlib.Path) -> None:
    damage_entry(data)
    (data / "cluster.json").write_text("{}")
    status, told = doctor(data, "--json")
    assert status == 1 and "start the node again" in told and '"healthy": false' in told


def test_what_is_no_directory_of_a_server(tmp_path: pathlib.Path) -> None:
    status, told = doctor(tmp_path)
    assert status == 1 and told == f"shoal: {tmp_path} is not the data directory of a Shoal server: it has no rows/\n"
