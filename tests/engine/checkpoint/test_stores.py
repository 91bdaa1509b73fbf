"""A store of changelog objects is what checkpoints need, as it is."""

from __future__ import annotations

from pathlib import Path

from engine.checkpoint import checkpoint_lsns, read_checkpoint, verify_checkpoint, write_checkpoint
from replication.stores.files import FileStore
from tests.engine.checkpoint.harness import contents, mark, opened


async def test_a_checkpoint_goes_into_a_changelog_store(samples: Path, tmp_path: Path) -> None:
    files = FileStore(str(tmp_path / "store"))
    (tmp_path / "scratch").mkdir()
    async with opened(samples) as store:
        root = store.tablespace_id.hex()
        manifest = await write_checkpoint(store, files, root, str(tmp_path / "scratch"), mark)
        assert await checkpoint_lsns(files, root) == [manifest.lsn]
        assert await verify_checkpoint(files, root, manifest, str(tmp_path / "verify")) == []
        await read_checkpoint(files, root, manifest, str(tmp_path / "again"))
        async with opened(tmp_path / "again") as again:
            assert contents(again) == contents(store)
    await files.close()
