"""Backups of a real server: every LSN comes back as it was recorded then; what is damaged or foreign is told."""

from __future__ import annotations

import asyncio
import contextlib
import io
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import psycopg
import pytest

from catalog.errors import SqlError
from replication.stores import open_store
from shoal.archive.contents import read_contents
from shoal.archive.restore import RestoreTarget, plan_restore, restore_directory
from shoal.cli import main
from tests.end_to_end.consistency import problems
from tests.server import ShoalServer
from tests.shoal.archive.history import STATEMENTS, Content, KeepingServer, record, shown, stored


@dataclass
class Made:
    """A database, its backups, and what it looked like at every LSN."""

    server: ShoalServer
    backups: Path
    recorded: dict[int, Content]
    reached: list[int]  # the LSNs of the backups


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    folder = tmp_path_factory.mktemp("backup")
    with KeepingServer(folder / "data") as server, psycopg.connect(server.dsn, autocommit=True) as connection:
        backups = folder / "backups"
        recorded: dict[int, Content] = {}
        reached = []
        for first, last in ((0, 5), (5, 11), (11, 99)):
            recorded.update(record(connection, STATEMENTS[first:last]))
            row = connection.execute("SELECT shoal_backup(%s)", (f"file://{backups}",)).fetchone()
            assert row is not None
            reached.append(row[0])
        yield Made(server, backups, recorded, reached)


@dataclass
class Told:
    returncode: int
    stdout: str
    stderr: str


def _run(*arguments: str) -> Told:
    """`shoal ...`, in this process: a new one takes its time to start."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(arguments)
    return Told(status, out.getvalue(), err.getvalue())


async def _restore(backups: Path, data: Path, target: RestoreTarget) -> None:
    store = open_store(f"file://{backups}")
    try:
        await restore_directory(await plan_restore(await read_contents(store), target), str(data), lambda *_: None)
    finally:
        await store.close()


async def test_every_lsn_comes_back_as_it_was(made: Made, tmp_path: Path) -> None:
    first = made.reached[0]
    wanted = {lsn: content for lsn, content in made.recorded.items() if lsn >= first}
    assert len(wanted) > 8
    for lsn, content in wanted.items():
        data = tmp_path / str(lsn)
        await _restore(made.backups, data, RestoreTarget(lsn))
        assert stored(data) == content, lsn
    assert await problems(data) == []


def test_the_newest_is_the_default_and_starts_as_a_database_of_its_own(made: Made, tmp_path: Path) -> None:
    data = tmp_path / "restored"
    told = _run("restore", str(made.backups), "--data", str(data))
    assert told.returncode == 0, told.stderr
    assert f"as of LSN {made.reached[-1]}" in told.stdout
    with ShoalServer(data) as server, psycopg.connect(server.dsn, autocommit=True) as connection:
        assert shown(connection) == made.recorded[max(made.recorded)]
        connection.execute("INSERT INTO a VALUES (8)")
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="backups of another database"):
            connection.execute("SELECT shoal_backup(%s)", (f"file://{made.backups}",))
        connection.execute("SELECT shoal_backup(%s)", (f"file://{tmp_path}/others",))
    again = _run("restore", str(made.backups), "--data", str(data))
    assert again.returncode == 1
    assert "already exists: a restore never overwrites" in again.stderr
    assert len(again.stderr.splitlines()) == 1


async def test_a_time_is_everything_that_was_committed_by_then(made: Made, tmp_path: Path) -> None:
    store = open_store(f"file://{made.backups}")
    found = await read_contents(store)
    (whole,) = await plan_restore(found, RestoreTarget())
    times = {
        entry.lsn: entry.commit_time async for entry in whole.archived.entries(whole.pieces, made.reached[0], whole.lsn)
    }
    lsn = sorted(times)[len(times) // 2]
    for moment, expected in ((times[lsn], lsn), (times[lsn] - 1, lsn - 1)):
        (planned,) = await plan_restore(found, RestoreTarget(time=moment))
        assert planned.lsn == expected
    with pytest.raises(SqlError, match="no backup is as old"):
        await plan_restore(found, RestoreTarget(time=0))
    with pytest.raises(SqlError, match="the newest backup is older"):
        await plan_restore(found, RestoreTarget(time=found.records[-1].created + 3_600_000_000))
    with pytest.raises(SqlError, match="LSN 1 cannot be restored") as error:
        await plan_restore(found, RestoreTarget(lsn=1))
    assert f"LSN {made.reached[0]} to {made.reached[-1]}" in (error.value.hint or "")
    await store.close()


def test_what_has_not_changed_is_not_written_again(private_shoal: ShoalServer, tmp_path: Path) -> None:
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE a AS SELECT generate_series(1, 6000) AS n")
    written = []
    for _ in range(2):
        told = _run("backup", str(tmp_path / "backups"), "--dsn", private_shoal.dsn, "--json")
        assert told.returncode == 0, told.stderr
        written.append(orjson.loads(told.stdout)["bytes"])
    assert written[0] > 6000 and written[1] == 0


def test_verify_reads_all_of_it(made: Made) -> None:
    told = _run("verify", str(made.backups), "--json")
    assert told.returncode == 0, told.stdout + told.stderr
    found = orjson.loads(told.stdout)
    assert found["whole"]
    assert [item["lsn"] for item in found["backups"]] == made.reached
    assert found["checkpoints"] == 3
    assert found["entries"] > 0


@pytest.mark.parametrize(
    "pattern", ["*/log/*", "*/bulk/*", "*/checkpoint-*/*/*.parquet", "*/checkpoint-*/manifest.json"]
)
def test_damage_is_found(made: Made, tmp_path: Path, pattern: str) -> None:
    """In one byte of the file, or the whole file gone."""
    copy = tmp_path / "copy"
    shutil.copytree(made.backups, copy)
    victim = max(copy.glob(pattern), key=lambda path: path.stat().st_size)
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)
    told = _run("verify", str(copy))
    assert told.returncode == 1
    assert "WRONG: " in told.stdout
    assert "Traceback" not in told.stderr
    victim.unlink()
    told = _run("verify", str(copy))
    assert told.returncode == 1
    assert "WRONG: " in told.stdout


def test_a_restore_of_what_is_damaged_says_what_to_do(made: Made, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(made.backups, copy)
    for victim in copy.glob("*/checkpoint-*/**/*.parquet"):
        victim.write_bytes(victim.read_bytes()[::-1])
    told = _run("restore", str(copy), "--data", str(tmp_path / "again"))
    assert told.returncode == 1 and not (tmp_path / "again").exists()
    (line,) = told.stderr.splitlines()
    assert line.startswith("shoal: checkpoint is damaged: ") and f"`shoal verify {copy}`" in line


def test_a_place_without_a_backup_is_a_one_line_error(made: Made, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("x")
    for command in (["verify", str(tmp_path / "other")], ["restore", str(tmp_path / "other"), "--data", "never"]):
        told = _run(*command)
        assert told.returncode == 1
        assert "holds no backup" in told.stderr
        assert len(told.stderr.splitlines()) == 1
    told = _run("verify", str(tmp_path / "nowhere"))
    assert (told.returncode, "is not a directory" in told.stderr) == (1, True)
    told = _run("backup", str(tmp_path / "other"), "--dsn", f"host=127.0.0.1 port={made.server.port}")
    assert (told.returncode, "holds no backup, but" in told.stderr) == (1, True)


async def test_a_bulk_load_between_two_backups_of_a_node_that_keeps_nothing(tmp_path: Path) -> None:
    """By the time of the second one its rows are in the tables and nowhere else."""
    backups = tmp_path / "backups"
    recorded: dict[int, Content] = {}
    reached = []
    with ShoalServer(tmp_path / "data") as server:
        for statements in (
            ["CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a SELECT generate_series(1, 6000)"],
            ["DELETE FROM a WHERE id = 1", "DELETE FROM a WHERE id = 2"],
            ["INSERT INTO a SELECT generate_series(7000, 13000)", "DELETE FROM a WHERE id = 3"],
        ):
            with psycopg.connect(server.dsn, autocommit=True) as connection:
                recorded |= record(connection, statements)
            server.restart()
            with psycopg.connect(server.dsn, autocommit=True) as connection:
                row = connection.execute("SELECT shoal_backup(%s)", (f"file://{backups}",)).fetchone()
                assert row is not None
                reached.append(row[0])
    assert reached[1] - reached[0] > 1 and reached[2] - reached[1] > 1
    for number, lsn in enumerate((*reached, reached[1] - 1)):
        data = tmp_path / f"restored-{number}"
        await _restore(backups, data, RestoreTarget(lsn))
        assert stored(data) == recorded[max(known for known in recorded if known <= lsn)], lsn
    with pytest.raises(SqlError, match=f"LSN {reached[2] - 1} cannot be restored") as told:
        await _restore(backups, tmp_path / "none", RestoreTarget(reached[2] - 1))
    assert told.value.hint is not None and f"{reached[0]} to {reached[1]}, {reached[2]}" in told.value.hint
    assert (await asyncio.to_thread(_run, "verify", str(backups))).returncode == 0


def test_backups_are_for_superusers(made: Made) -> None:
    with psycopg.connect(made.server.dsn, autocommit=True) as connection:
        connection.execute("CREATE ROLE somebody")
        connection.execute("SET ROLE somebody")
        for call in ("shoal_backup('file:///tmp/never')", "shoal_backup_progress()"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"SELECT {call}")


def test_a_killed_backup_does_not_hinder_the_next_one(tmp_path: Path) -> None:
    backups = tmp_path / "backups"
    query = "SELECT shoal_backup(%s)", (f"file://{backups}",)
    with KeepingServer(tmp_path / "data") as server:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE big (id int PRIMARY KEY, x text)")
            connection.execute("INSERT INTO big SELECT n, repeat('x', 50) FROM generate_series(1, 400000) n")

            def back_up() -> None:
                with contextlib.suppress(psycopg.Error), psycopg.connect(server.dsn, autocommit=True) as other:
                    other.execute(*query)

            thread = threading.Thread(target=back_up)
            thread.start()
            while not list(backups.glob("*/checkpoint-*/*/*.parquet")):  # until some of it is there
                assert thread.is_alive()
                time.sleep(0.01)
            server.kill()
            thread.join()
        assert not list(backups.glob("backups/*"))
        assert "holds no complete backup" in _run("verify", str(backups)).stderr
        server.start()
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("DELETE FROM big WHERE id > 399000")
            connection.execute(*query)
            expected = shown(connection)
    assert _run("verify", str(backups)).returncode == 0
    assert _run("restore", str(backups), "--data", str(tmp_path / "restored")).returncode == 0
    assert stored(tmp_path / "restored") == expected


async def test_an_interrupted_restore_continues(made: Made, tmp_path: Path) -> None:
    data = tmp_path / "data"
    lsn = sorted(made.recorded)[-2]
    store = open_store(f"file://{made.backups}")
    planned = await plan_restore(await read_contents(store), RestoreTarget(lsn))

    class Broken(Exception):  # noqa: N818 - a test's
        pass

    def fail(what: str, done: int, total: int) -> None:
        if what.startswith("changelog"):
            raise Broken

    with pytest.raises(Broken):
        await restore_directory(planned, str(data), fail)
    assert not data.exists()
    with pytest.raises(SqlError, match="restore of something else"):
        await restore_directory(
            await plan_restore(await read_contents(store), RestoreTarget()), str(data), lambda *_: None
        )
    steps: list[str] = []
    await restore_directory(planned, str(data), lambda what, *_: steps.append(what))
    assert not any(step.startswith("checkpoint") for step in steps)
    assert stored(data) == made.recorded[lsn]
    await store.close()
    await asyncio.sleep(0)
