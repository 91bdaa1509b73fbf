"""A resumable checkpoint that was broken off leaves what it has written, and the next one takes it over."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.checkpoint import verify_checkpoint, write
from tests.engine.checkpoint.harness import FaultError, FolderFiles, checkpoint, commit, opened
from tests.engine.checkpoint.test_incremental import heap_rows, table_of


async def test_the_next_attempt_continues_from_existing_files(
    samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "PARTIAL_BYTES", 2000)
    files = FolderFiles(tmp_path / "files")
    async with opened(samples) as store:
        heap = table_of(store, "heap")
        await commit(store, heap_rows(heap, range(10_000, 13_000), "more"))
        files.fail_at = 60
        with pytest.raises(FaultError):
            await checkpoint(store, files, tmp_path / "scratch", target_rows=100, resumable=True)
        files.fail_at = None
        there = {name for name in files.names() if name.endswith(".parquet")}
        assert there
        assert any("/partial-" in name for name in files.names())
        await commit(store, heap_rows(heap, range(20_000, 20_001), "later"))
        made = await checkpoint(store, files, tmp_path / "scratch", target_rows=100, resumable=True)
    used = {file.name for file in made.files()}
    assert len(used & there) >= len(there) - 3  # what was written behind the last partial manifest is not known
    assert not any("/partial-" in name for name in files.names())
    assert await verify_checkpoint(files, "", made, str(tmp_path / "verify")) == []
