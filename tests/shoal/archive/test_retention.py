"""What a node alone keeps of its past: within its limits, and everything that it says it keeps can be read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from engine.columnar.client import WorkerClient
from engine.node.node import Node
from engine.past.far import FarPast
from engine.storage.directories import LocalTablespaces
from engine.storage.keys import prefix_range, storage_prefix
from replication.local import LocalChangelog
from shoal.history import HOLDER, LocalHistory

SEGMENT = 256 << 10
STORAGE_ID = 5000


class Kept:
    """A node with small segments, its history, and what it looked like at some LSNs."""

    def __init__(self, data: Path, retention: float, limit: int) -> None:
        loop = asyncio.get_running_loop()
        self.logs: dict[bytes, LocalChangelog] = {}

        def open_log(
            directory: str, tablespace: bytes, committed: Callable[[int], None], failed: Callable[[BaseException], None]
        ) -> LocalChangelog:
            path = str(Path(directory) / "changelog")
            made = LocalChangelog(
                path, loop.call_soon_threadsafe, committed, failed, tablespace=tablespace, segment_bytes=SEGMENT
            )
            made.hold(HOLDER, 0)
            self.logs[tablespace] = made
            return made

        def failed(error: BaseException) -> None:
            raise AssertionError(error)

        self.spaces = LocalTablespaces(str(data), open_log, loop.call_soon_threadsafe, failed)
        self.space = self.spaces.open()
        self.now = 1000
        self.node = Node(self.space, WorkerClient(self.space, str(data / "columnar")), lambda: self.now, self.spaces)
        self.node.bootstrap()
        self.log = self.logs[self.space.tablespace_id]
        self.history = LocalHistory(self.node, self.logs.__getitem__, data, retention, limit, self.spaces)
        self.far = FarPast(self.node, self.history.past, str(data / "past"))
        self.recorded: dict[int, dict[bytes, bytes]] = {}

    async def write(self, count: int) -> None:
        for number in range(count):
            self.now += 1_000_000
            key = storage_prefix(STORAGE_ID) + (number % 7).to_bytes(4, "big")
            lsn = self.node.commits.sequence({key: b"%d" % self.now + b"x" * 10_000})
            while self.space.durable_lsn < lsn:
                await asyncio.sleep(0)
        self.recorded[lsn] = dict(self.space.current.scan(*prefix_range(storage_prefix(STORAGE_ID))))
        await self.node.flush()

    def kept_bytes(self) -> int:
        return sum(size for _, size in self.log.segments())


@asynccontextmanager
async def kept(data: Path, retention: float, limit: int) -> AsyncIterator[Kept]:
    made = Kept(data, retention, limit)
    try:
        yield made
    finally:
        await made.far.close()
        await made.history.close()
        made.spaces.close()


async def _reads_as_recorded(made: Kept) -> int:
    """How many of the recorded LSNs can be read."""
    oldest = await made.far.oldest()
    assert oldest is not None
    found = 0
    for lsn, content in made.recorded.items():
        node = await made.far.node_at(lsn)
        assert (node is not None) == (lsn >= oldest[0]), lsn
        if node is not None:
            assert dict(node.store.current.scan(*prefix_range(storage_prefix(STORAGE_ID)))) == content
            assert await made.far.lsn_at(await made.far.time_of(lsn) or 0) == lsn
            node.close()
            found += 1
    return found


async def test_a_chain_that_has_not_begun_is_looked_at(tmp_path: Path) -> None:
    async with kept(tmp_path / "data", 1e9, 1 << 30) as made:
        assert made.log.segments() == []
        await made.history.run_once()
        await made.write(1)
        await made.history.run_once()
        assert await _reads_as_recorded(made) == 1


async def test_the_changelog_stays_within_its_limit(tmp_path: Path) -> None:
    limit = 16 * SEGMENT
    async with kept(tmp_path / "data", 1e9, limit) as made:
        for _ in range(12):
            await made.write(100)
            await made.history.run_once()
        made.log.retire(0)
        await asyncio.to_thread(made.log._file_tasks.put, None)  # what was asked of its thread is done
        await asyncio.to_thread(made.log._file_thread.join)
        assert made.kept_bytes() <= limit * 1.5
        assert (made.log.oldest_lsn() or 0) > 200
        assert len(await made.history.checkpoints(made.space.tablespace_id)) >= 2
        found = await _reads_as_recorded(made)
        assert 2 <= found < len(made.recorded)


async def test_what_is_older_than_the_retention_goes(tmp_path: Path) -> None:
    async with kept(tmp_path / "data", 400.0, 1 << 30) as made:
        for _ in range(12):
            await made.write(100)  # 100 seconds
            await made.history.run_once()
        assert await _reads_as_recorded(made) >= 4


async def test_a_whole_log_needs_no_checkpoint(tmp_path: Path) -> None:
    async with kept(tmp_path / "data", 1e9, 1 << 30) as made:
        await made.write(30)
        await made.write(30)
        await made.history.run_once()
        assert await made.history.checkpoints(made.space.tablespace_id) == []
        assert await _reads_as_recorded(made) == 2
