"""A store that fails, a process that ends, bytes that flip: at every step."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from catalog.errors import SqlError
from engine.checkpoint import (
    Progress,
    checkpoint_lsns,
    half_restored,
    leftovers,
    read_checkpoint,
    read_manifest,
    verify_checkpoint,
    write_checkpoint,
)
from tests.engine.checkpoint.harness import FaultError, FolderFiles, checkpoint, contents, mark, opened
from tests.samples import some


async def calls_of_a_write(samples: Path, tmp_path: Path) -> int:
    files = FolderFiles(tmp_path / "counting")
    async with opened(samples) as store:
        await checkpoint(store, files, tmp_path / "scratch", target_rows=300)
    return len(files.log)


@pytest.mark.parametrize("after", some([True, False], 2))
async def test_a_store_that_fails_at_any_step_leaves_no_half_checkpoint(
    samples: Path, tmp_path: Path, after: bool
) -> None:
    calls = await calls_of_a_write(samples, tmp_path)
    assert calls > 20
    async with opened(samples) as store:
        for step in sorted({*range(0, calls, 3), calls - 2, calls - 1}):
            files = FolderFiles(tmp_path / f"store{step}", fail_at=step, after=after)
            try:
                manifest = await checkpoint(store, files, tmp_path / "scratch", target_rows=300)
                assert after and step == calls - 1  # the manifest's reply was lost, and it was read back
            except FaultError:
                files.fail_at = None
                assert await checkpoint_lsns(files, "") == []
                if step < calls - 1:
                    assert files.names() == []  # it has cleaned up
                manifest = await checkpoint(store, files, tmp_path / "scratch", target_rows=300)
            assert await checkpoint_lsns(files, "") == [manifest.lsn]
            if step % 6 == 0 or step == calls - 1:
                assert await verify_checkpoint(files, "", manifest, str(tmp_path / f"verify{step}")) == []
        assert list((tmp_path / "scratch").iterdir()) == []


class DyingFiles(FolderFiles):
    """From one call on nothing works, as for a process that has ended: nobody cleans up."""

    def _begin(self, call: str, name: str) -> bool:
        if self.fail_at is not None and len(self.log) >= self.fail_at:
            self.log.append((call, name))
            raise FaultError
        return super()._begin(call, name)


async def test_files_of_a_dead_process_do_not_hinder_the_next_one(samples: Path, tmp_path: Path) -> None:
    calls = await calls_of_a_write(samples, tmp_path)
    async with opened(samples) as store:
        for step in range(0, calls, 5):
            files = DyingFiles(tmp_path / f"store{step}", fail_at=step)
            with pytest.raises(FaultError):
                await checkpoint(store, files, tmp_path / "scratch", target_rows=300)
            files.fail_at = None
            left = files.names()
            assert await checkpoint_lsns(files, "") == []
            manifest = await checkpoint(store, files, tmp_path / "scratch", target_rows=300)
            assert await verify_checkpoint(files, "", manifest, str(tmp_path / f"verify{step}")) == []
            assert leftovers(files.names(), [manifest], manifest.lsn + 1) == left


async def test_cancelling_leaves_no_checkpoint(samples: Path, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    async with opened(samples) as store:
        for turns in (0, 1, 3, 10, 40):
            files = FolderFiles(tmp_path / f"store{turns}")
            task = asyncio.create_task(write_checkpoint(store, files, "ts", str(tmp_path / "scratch"), mark))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert files.names() == []
        assert not store._snapshots  # nothing is held for its sake any more


class Racing(FolderFiles):
    """Somebody else puts the manifest first."""

    rival: FolderFiles

    async def put(self, name: str, data: bytes) -> None:
        for other in self.rival.names():
            self.path(other).parent.mkdir(parents=True, exist_ok=True)
            self.path(other).write_bytes(self.rival.path(other).read_bytes())
        await super().put(name, data)


async def test_of_two_writers_at_one_lsn_one_wins(samples: Path, tmp_path: Path) -> None:
    files = Racing(tmp_path / "store")
    files.rival = FolderFiles(tmp_path / "rival")
    async with opened(samples) as store:
        theirs = await checkpoint(store, files.rival, tmp_path / "scratch")
        assert await checkpoint(store, files, tmp_path / "scratch") == theirs
        assert files.names() == files.rival.names()
        with pytest.raises(SqlError, match="another history"):
            await write_checkpoint(store, files, "", str(tmp_path / "scratch"), lambda lsn: type(mark(lsn))("other", 0))


async def test_a_restore_that_fails_at_any_step_is_known_and_wiped(samples: Path, tmp_path: Path) -> None:
    whole = FolderFiles(tmp_path / "store")
    async with opened(samples) as store:
        manifest = await checkpoint(store, whole, tmp_path / "scratch", target_rows=300)
        expected = contents(store)
    files = FolderFiles(tmp_path / "store")
    await read_checkpoint(files, "", manifest, str(tmp_path / "counting"))
    for step in range(0, len(files.log), 5):
        target = tmp_path / f"again{step}"
        failing = FolderFiles(tmp_path / "store", fail_at=step)
        with pytest.raises(FaultError):
            await read_checkpoint(failing, "", manifest, str(target))
        assert half_restored(str(target)) and not (target / "rows").exists()
        (target / "restoring" / "left over").mkdir()
        while True:
            try:
                await read_checkpoint(whole, "", manifest, str(target))
                break
            except SqlError as error:  # the broken one's thread still holds the lock for a moment
                assert error.sqlstate == "55006"
        assert not half_restored(str(target))
        if step % 10 == 0:
            async with opened(target) as again:
                assert contents(again) == expected


async def test_a_directory_with_a_tablespace_is_not_overwritten(samples: Path, tmp_path: Path) -> None:
    files = FolderFiles(tmp_path / "store")
    async with opened(samples) as store:
        manifest = await checkpoint(store, files, tmp_path / "scratch")
        with pytest.raises(SqlError) as caught:
            await read_checkpoint(files, "", manifest, str(samples))
        assert caught.value.sqlstate == "55006"
    with pytest.raises(SqlError, match="already holds a tablespace") as caught:
        await read_checkpoint(files, "", manifest, str(samples))
    assert caught.value.sqlstate == "55000"


async def test_a_flipped_byte_in_any_file_is_found(samples: Path, tmp_path: Path) -> None:
    files = FolderFiles(tmp_path / "store")
    async with opened(samples) as store:
        manifest = await checkpoint(store, files, tmp_path / "scratch", target_rows=300)
    every = list(manifest.files())
    companions = [file for file in every if file.name.endswith(".exact")]
    for number, stored in enumerate([every[0], *companions[:2], *every[1::5]]):
        path = files.path(stored.name)
        whole = path.read_bytes()
        damaged = bytearray(whole)
        damaged[len(whole) * (number % 7) // 7] ^= 0x10
        path.write_bytes(damaged)
        found = await verify_checkpoint(files, "", manifest, str(tmp_path / f"verify{number}"))
        assert len(found) == 1 and stored.name in found[0]
        with pytest.raises(SqlError, match="checkpoint is damaged") as caught:
            await read_checkpoint(files, "", manifest, str(tmp_path / f"again{number}"))
        assert caught.value.sqlstate == "XX001"
        path.unlink()
        found = await verify_checkpoint(files, "", manifest, str(tmp_path / f"missing{number}"))
        assert len(found) == 1 and "is missing" in found[0]
        path.write_bytes(whole)
    manifest_path = files.path(manifest.name())
    manifest_path.write_bytes(manifest_path.read_bytes().replace(b'"rows": 1,', b'"rows": 2,'))
    with pytest.raises(SqlError, match="another checksum"):
        await read_manifest(files, "", manifest.lsn)


async def test_progress_counts_tables_rows_and_bytes(samples: Path, tmp_path: Path) -> None:
    files = FolderFiles(tmp_path / "store")
    (tmp_path / "scratch").mkdir()
    told: list[Progress] = []
    async with opened(samples) as store:
        manifest = await write_checkpoint(store, files, "ts", str(tmp_path / "scratch"), mark, progress=told.append)
    assert told[-1].tables_done == told[-1].tables == len(manifest.tables)
    assert told[-1].rows == manifest.table_rows() and told[-1].bytes > 0
    assert [item.rows for item in told] == sorted(item.rows for item in told)
    told.clear()
    await read_checkpoint(files, "ts", manifest, str(tmp_path / "again"), progress=told.append)
    assert told[-1] == Progress(len(manifest.tables), len(manifest.tables), manifest.table_rows(), told[-1].bytes)
    assert "public.heap" in {item.table for item in told}
    assert all(name.startswith("ts/") for name in files.names())
