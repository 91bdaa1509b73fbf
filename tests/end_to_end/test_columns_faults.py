"""Columns and what may happen to them: a full disk, a file that goes, queries that spill more than they may, a second
server, a directory that had none. Whatever it is, queries read the rows of their moment, and columns come back by
themselves."""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import signal
import time
from collections.abc import Callable, Iterator

import duckdb
import lmdb
import psycopg
import pytest

from tests import forks, small_disk
from tests.end_to_end.quick_saves import QuickServer
from tests.server import ShoalServer, gone
from tests.small_disk import without_room

Connection = psycopg.Connection[tuple[object, ...]]
SIZE = 500 << 20
LEFT = 20 << 20  # bytes: too few for columns
SUM = b"SELECT count(*), sum(n) FROM kept"
ROWS = 5000
FIRST = ROWS * (ROWS + 1) // 2
SAVED = b"SELECT coalesce(saved_lsn, 0) >= %s AND lag = 0 FROM shoal_columns WHERE table_name = 'kept'"
FROM_FILE = b"SELECT loaded_from = 'file' FROM shoal_columns WHERE table_name = 'kept'"


def connect(server: ShoalServer) -> Connection:
    return psycopg.connect(server.dsn, autocommit=True)


def until(holds: Callable[[], bool], what: object = "") -> None:
    deadline = time.monotonic() + 40
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def fill(connection: Connection) -> int:
    """A table whose columns are in the file, as of the LSN that this gives."""
    connection.execute("CREATE TABLE kept (id int PRIMARY KEY, n int)")
    connection.execute("INSERT INTO kept SELECT i, i FROM generate_series(1, %s::int) i", [ROWS])
    lsn = durable(connection)
    connection.execute("SET shoal.path = columnar")
    assert total(connection) == FIRST
    saved(connection, lsn)
    return lsn


def durable(connection: Connection) -> int:
    found = connection.execute("SELECT durable_lsn FROM shoal_log_status WHERE tablespace = 'pg_default'").fetchone()
    assert found is not None
    return int(str(found[0]))


def total(connection: Connection) -> int:
    """What the columns give."""
    found = connection.execute(SUM).fetchone()
    assert found is not None and found[0] == ROWS
    return int(str(found[1]))


def saved(connection: Connection, lsn: int) -> None:
    """Waits until the file has everything up to an LSN."""
    until(lambda: connection.execute(SAVED, [lsn]).fetchone() == (True,), "the columns are not saved")


def taken_from_file(connection: Connection) -> None:
    until(lambda: connection.execute(FROM_FILE).fetchone() == (True,), "the columns are not taken from the file")


def add(connection: Connection) -> int:
    """A hundred rows get one more. The LSN."""
    connection.execute("UPDATE kept SET n = n + 1 WHERE id <= 100")
    return durable(connection)


# ---- a full disk ----------------------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    with small_disk.mounted(tmp_path / "disk", SIZE) as place:
        yield place


def test_columns_without_room_go_on_and_are_saved_when_there_is_some(disk: pathlib.Path) -> None:
    with QuickServer(disk / "data") as server, connect(server) as connection:
        first = fill(connection)
        connection.execute("CREATE TABLE large (id int PRIMARY KEY, n int) WITH (columnar = off)")
        connection.execute("INSERT INTO large SELECT i, i FROM generate_series(1, 300000) i")
        connection.execute("CHECKPOINT")
        with without_room(disk, LEFT):
            for more in range(1, 4):  # with a delta each
                lsn = add(connection)
                assert total(connection) == FIRST + 100 * more
            with pytest.raises(psycopg.errors.DiskFull) as caught:
                connection.execute("SELECT count(*), sum(n) FROM large")
            assert caught.value.diag.message_hint
            until(lambda: "the columns cannot be saved" in server.log.read_text())
            time.sleep(2.0)  # it is tried again
            log = server.log.read_text()
            assert log.count("the columns cannot be saved") == 1
            assert "no space is left" in log and "Make space there" in log and "once there is room" in log
            assert connection.execute(SAVED, [lsn]).fetchone() == (False,)
            assert connection.execute(SAVED, [first]).fetchone() == (True,)
            status = os.statvfs(disk)
            assert status.f_bavail * status.f_frsize > LEFT // 2  # it is for transactions
            assert total(connection) == FIRST + 300
            workers = server.workers()
        saved(connection, lsn)
        assert "the columns are saved again" in server.log.read_text()
        assert connection.execute("SELECT count(*), sum(n) FROM large").fetchone() == (300_000, 45_000_150_000)
        assert server.workers() == workers  # none has ended
        server.kill()
        server.start()
        with connect(server) as again:
            taken_from_file(again)
            assert total(again) == FIRST + 300


def test_a_worker_that_starts_without_room_keeps_columns_when_there_is_some(disk: pathlib.Path) -> None:
    with QuickServer(disk / "data") as server, connect(server) as connection:
        connection.execute("CREATE TABLE kept (id int PRIMARY KEY, n int)")
        connection.execute("INSERT INTO kept SELECT i, i FROM generate_series(1, %s::int) i", [ROWS])
        connection.execute("CHECKPOINT")
        lsn = durable(connection)
        for worker in server.workers():  # the series in INSERT was made by one
            os.kill(worker, signal.SIGKILL)
            assert gone(worker)
        shutil.rmtree(disk / "data" / "columnar")
        with without_room(disk, 8192):
            assert total(connection) == FIRST
            until(lambda: "the columns cannot be saved" in server.log.read_text())
            assert connection.execute("SELECT saved_lsn FROM shoal_columns").fetchone() == (None,)
        until(lambda: "has no file for its columns" in server.log.read_text())
        assert total(connection) == FIRST
        saved(connection, lsn)


class CarelessServer(QuickServer):
    careless = True


def test_a_save_that_fails_half_way_ends_the_worker_and_nothing_else(tmp_path: pathlib.Path) -> None:
    """DuckDB takes no more statements after it: another worker begins with what was saved before. The columns are on a
    file system of their own."""
    (tmp_path / "data").mkdir(mode=0o700)
    with (
        small_disk.mounted(tmp_path / "data" / "columnar", 8 << 20) as disk,
        CarelessServer(tmp_path / "data") as server,
        connect(server) as connection,
    ):
        fill(connection)
        connection.execute("CHECKPOINT")
        with without_room(disk, 100_000):  # less than a block
            (worker,) = server.workers()
            for more in range(1, 4):
                lsn = add(connection)
                assert total(connection) == FIRST + 100 * more
            assert gone(worker)
            until(lambda: "begins again with what was last saved: no space is left" in server.log.read_text())
            assert total(connection) == FIRST + 300
        assert total(connection) == FIRST + 300
        saved(connection, lsn)


def test_a_table_that_is_to_have_columns_gets_them_when_there_is_room(disk: pathlib.Path) -> None:
    with QuickServer(disk / "data") as server, connect(server) as connection:
        fill(connection)
        connection.execute("CREATE TABLE large (id int PRIMARY KEY, n int) WITH (columnar = off)")
        connection.execute("INSERT INTO large SELECT i, i FROM generate_series(1, 300000) i")
        connection.execute("CHECKPOINT")
        with without_room(disk, LEFT):
            connection.execute("ALTER TABLE large SET (columnar = on)")
            until(lambda: 'the columns of "large" are not ready' in server.log.read_text())
            assert total(connection) == FIRST
        state = "SELECT state FROM shoal_columns WHERE table_name = 'large'"
        until(lambda: connection.execute(state).fetchone() == ("ready",))


def test_a_load_without_room_for_its_columns_is_kept_and_has_them_when_there_is_room(disk: pathlib.Path) -> None:
    with QuickServer(disk / "data") as server, connect(server) as connection:
        fill(connection)
        connection.execute("CREATE TABLE loaded (id int PRIMARY KEY, n int)")
        with without_room(disk, 100 << 20):  # enough for the rows
            connection.execute("INSERT INTO loaded SELECT i, i FROM generate_series(1, 300000) i")
            until(lambda: "the columns of a bulk load are made after it" in server.log.read_text())
            with pytest.raises(psycopg.errors.DiskFull):
                connection.execute("SELECT count(*), sum(n) FROM loaded")
            assert total(connection) == FIRST
        assert connection.execute("SELECT count(*), sum(n) FROM loaded").fetchone() == (300_000, 45_000_150_000)


# ---- the file goes --------------------------------------------------------------------------------------------------


def remove(path: pathlib.Path) -> None:
    path.unlink()


def remove_directory(path: pathlib.Path) -> None:
    shutil.rmtree(path.parent)
    path.parent.mkdir(mode=0o700)


def replace(path: pathlib.Path) -> None:
    """By a copy of itself, which will be of before."""
    shutil.copyfile(path, path.with_name("copy"))
    path.with_name("copy").rename(path)


@pytest.mark.parametrize("go", [remove, remove_directory, replace])
def test_a_file_that_goes_while_the_server_runs_is_made_anew(go: Callable[[pathlib.Path], None]) -> None:
    with QuickServer() as server, connect(server) as connection:
        fill(connection)
        path = server.data / "columnar" / "columns.duckdb"
        (worker,) = server.workers()
        go(path)
        for more in range(1, 4):
            lsn = add(connection)
            assert total(connection) == FIRST + 100 * more
        assert gone(worker)
        until(lambda: "has no file for its columns" in server.log.read_text())
        assert total(connection) == FIRST + 300
        saved(connection, lsn)
        assert path.exists()
        server.kill()
        server.start()
        with connect(server) as again:
            taken_from_file(again)
            assert total(again) == FIRST + 300


# ---- spilling -------------------------------------------------------------------------------------------------------


class SpillingServer(QuickServer):
    settings = f"columnar_memory = {100 << 20}\ncolumnar_spill = {200 << 20}\n"


TOO_MUCH = b"""
SELECT max(x) FROM (SELECT md5((a.i * 1000000 + b.i)::text) AS x, row_number() OVER (ORDER BY md5(a.i::text || b.i)) r
                    FROM generate_series(1, 1000000) a(i), generate_series(1, 100000) b(i)) q WHERE r > 0"""
"""Some 10 TB."""


def test_a_query_that_spills_more_than_it_may_ends_and_leaves_nothing() -> None:
    with SpillingServer() as server:
        spill = server.data / "columnar" / "spill"
        with connect(server) as connection:
            fill(connection)
            with pytest.raises(psycopg.errors.DiskFull) as caught:
                connection.execute(TOO_MUCH)
            assert caught.value.diag.message_hint is not None and "columnar_spill" in caught.value.diag.message_hint
            assert sum(item.stat().st_blocks * 512 for item in spill.iterdir()) <= 200 << 20
            until(lambda: spilled(spill) == [], spilled(spill))
            assert total(connection) == FIRST
        server.kill()
        spill.joinpath("duckdb_temp_storage-0.tmp").write_bytes(b"x" * 100_000)
        spill.joinpath("left").mkdir()
        server.start()
        with connect(server) as connection:
            taken_from_file(connection)
            assert spilled(spill) == []


def spilled(spill: pathlib.Path) -> list[str]:
    """What queries have put there; DuckDB keeps an empty file, by which it knows whose directory it is."""
    return [item.name for item in spill.iterdir() if not item.name.endswith("_owner") or item.stat().st_size > 1000]


# ---- two servers ----------------------------------------------------------------------------------------------------


def fingerprint(directory: pathlib.Path) -> dict[str, tuple[int, int, int, str]]:
    """What is there: inodes, sizes, times and contents."""
    found = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            status = path.stat()
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            found[path.name] = (status.st_ino, status.st_size, status.st_mtime_ns, content)
    return found


def test_a_second_server_does_not_touch_the_file() -> None:
    with QuickServer() as server, connect(server) as connection:
        fill(connection)
        workers, before = server.workers(), fingerprint(server.data / "columnar")
        second = forks.run("serve", "--data", str(server.data), "--listen", "127.0.0.1:0")
        assert second.returncode != 0
        assert "is in use by another process" in second.stderr, second.stderr
        assert fingerprint(server.data / "columnar") == before
        assert server.workers() == workers
        lsn = add(connection)
        assert total(connection) == FIRST + 100
        saved(connection, lsn)


# ---- directories of earlier releases --------------------------------------------------------------------------------


def test_a_directory_that_never_had_columns_is_taken_over() -> None:
    """Of releases without a file: the worker's directory had what spilled, and no list of changed keys is in LMDB."""
    with QuickServer() as server:
        with connect(server) as connection:
            fill(connection)
            lsn = add(connection)
        server.stop()
        shutil.rmtree(server.data / "columnar")
        (server.data / "columnar").mkdir()
        (server.data / "columnar" / "duckdb_temp_storage-0.tmp").write_bytes(b"of before")
        forget_lists(next(server.data.rglob("data.mdb")).parent)
        server.start()
        with connect(server) as connection:
            assert connection.execute("SELECT * FROM shoal_columns").fetchall() == []
            assert total(connection) == FIRST + 100
            saved(connection, lsn)
        server.kill()
        server.start()
        with connect(server) as connection:
            taken_from_file(connection)
            assert total(connection) == FIRST + 100
            assert sorted(os.listdir(server.data / "columnar")) == ["columns.duckdb", "spill"]


def forget_lists(rows: pathlib.Path) -> None:
    with lmdb.open(str(rows), max_dbs=4, map_size=1 << 40) as environment:
        meta = environment.open_db(b"meta", create=False)
        with environment.begin(db=meta, write=True) as transaction:
            for name in [bytes(name) for name, _ in transaction.cursor()]:
                if name.startswith((b"noted", b"keys")):
                    transaction.delete(name)


# ---- columns that are not what they say -----------------------------------------------------------------------------


def test_columns_that_are_one_lsn_behind_what_they_say_are_noticed() -> None:
    with QuickServer() as server:
        with connect(server) as connection:
            fill(connection)
        lie(server, lambda: change(server))
        done = forks.run("check", "--dsn", server.dsn)
        assert done.returncode == 1, done.stdout
        assert "public.kept" in done.stdout and "other values in n" in done.stdout
        assert "ALTER TABLE" in done.stdout
        with connect(server) as connection:
            connection.execute("ALTER TABLE kept SET (columnar = off)")
            connection.execute("ALTER TABLE kept RESET (columnar)")
            connection.execute("SET shoal.path = columnar")
            assert total(connection) == FIRST + 1
        done = forks.run("check", "--dsn", server.dsn)
        assert (done.returncode, "1 analytic copies" in done.stdout) == (0, True), done.stdout


def change(server: ShoalServer) -> None:
    """One LSN more than the file has, in LMDB."""
    with connect(server) as connection:
        connection.execute("UPDATE kept SET n = n + 1 WHERE id = 17")


def lie(server: ShoalServer, change: Callable[[], None]) -> None:
    """The columns of `kept` lack a change, and the file says that they have it."""
    path = server.data / "columnar" / "columns.duckdb"
    of_before = path.with_name("of_before")
    (worker,) = server.workers()
    shutil.copyfile(path, of_before)
    change()
    with connect(server) as connection:
        connection.execute("CHECKPOINT")
        lsn = durable(connection)
    server.kill()
    assert gone(worker)
    with duckdb.connect(str(of_before)) as file:
        ((saved,),) = file.execute("SELECT max(lsn) FROM saved").fetchall()
        assert saved == lsn - 1
        file.execute("UPDATE saved SET lsn = lsn + 1")
    of_before.rename(path)
    server.start()
    with connect(server) as connection:
        taken_from_file(connection)
