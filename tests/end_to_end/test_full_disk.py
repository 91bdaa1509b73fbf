"""A disk without room: statements fail with 53100 and say what to do, the server goes on, and all is well once there is
room again. As PostgreSQL: a checkpoint that cannot be written is an error of CHECKPOINT, not the end of the server."""

from __future__ import annotations

import pathlib
import resource
from collections.abc import Callable, Iterator

import psycopg
import pytest

from tests import resources, small_disk
from tests.samples import some
from tests.server import ShoalServer
from tests.small_disk import without_room

SIZE = 160 << 20
Connection = psycopg.Connection


@pytest.fixture
def disk(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A file system of SIZE bytes."""
    with small_disk.mounted(tmp_path / "disk", SIZE) as place:
        yield place


@pytest.fixture
def server(disk: pathlib.Path) -> Iterator[ShoalServer]:
    with ShoalServer(disk / "data") as server:
        yield server


def insert(connection: Connection, rows: int, first: int = 1) -> None:
    connection.execute(
        "INSERT INTO t SELECT n, repeat(md5(n::text), 10) FROM generate_series(%s::int, %s::int) n",
        [first, first + rows - 1],
    )


def copy(connection: Connection, rows: int, first: int = 1) -> None:
    with connection.cursor() as cursor, cursor.copy("COPY t FROM STDIN") as copying:
        for number in range(first, first + rows):
            copying.write_row((number, "y" * 320))


def update(connection: Connection, rows: int, first: int = 1) -> None:
    connection.execute("UPDATE t SET v = v || '.'")


def create_index(connection: Connection, rows: int, first: int = 1) -> None:
    connection.execute("CREATE INDEX ON t (v)")


@pytest.mark.parametrize("write", some([insert, copy, update, create_index], 4))
def test_a_bulk_write_without_room_fails_and_leaves_nothing(
    disk: pathlib.Path, server: ShoalServer, write: Callable[[Connection, int, int], None]
) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
        insert(connection, 20_000)
        connection.execute("CHECKPOINT")
        assert resources.comes_true(lambda: not list(disk.rglob("changelog/bulk/*")), 20.0)
        with without_room(disk, 1 << 20):
            with pytest.raises(psycopg.errors.DiskFull) as caught:
                write(connection, 20_000, 20_001)
            assert caught.value.diag.message_hint
            assert "No space left on device" in (caught.value.diag.message_primary or "")
            assert resources.comes_true(lambda: not list(disk.rglob("changelog/bulk/*")), 5.0)
            assert connection.execute("SELECT count(*) FROM t WHERE id < 100").fetchone() == (99,)
        write(connection, 20_000, 20_001)
        found = connection.execute("SELECT count(*) FROM t").fetchone()
        assert found in ((20_000,), (40_000,))


def test_a_checkpoint_without_room_is_an_error_and_comes_later(disk: pathlib.Path, server: ShoalServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
        connection.execute("CHECKPOINT")
        for number in range(3):  # some of it in memory, which LMDB has no pages for yet
            connection.execute("INSERT INTO t VALUES (%s, repeat('x', 3000000))", [number])
        with without_room(disk, 0):
            for _ in range(2):
                with pytest.raises(psycopg.errors.DiskFull) as caught:
                    connection.execute("CHECKPOINT")
                assert caught.value.diag.message_hint
            assert connection.execute("SELECT count(*), sum(length(v)) FROM t WHERE id >= 0").fetchone() == (3, 9000000)
        connection.execute("CHECKPOINT")
        connection.execute("INSERT INTO t VALUES (9, 'after')")
    server.kill()
    server.start()
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        assert connection.execute("SELECT count(*), sum(length(v)) FROM t").fetchone() == (4, 9000005)


def test_the_limit_of_open_files_is_raised_as_far_as_it_may_be() -> None:
    before = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (200, 3000))\n"
    with resources.WithoutCollector(before=before) as server:
        assert resource.prlimit(server.pid, resource.RLIMIT_NOFILE) == (3000, 3000)
        assert "open files" not in server.log.read_text()


def test_a_limit_of_open_files_that_is_short_is_told() -> None:
    before = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))\n"
    with resources.WithoutCollector(before=before) as server:
        assert "may open 200 files" in server.log.read_text()
