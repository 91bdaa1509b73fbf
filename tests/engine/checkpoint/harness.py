"""A folder as the store of checkpoints, with faults; and tablespaces on the test's own event loop."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from engine.checkpoint import Described, EntryMark, Manifest, Options, write_checkpoint
from engine.storage.edits import Edits
from engine.storage.keys import prefix_range, storage_prefix
from engine.storage.tablespace import Tablespace
from engine.txn.sequences import encode_state
from shoal.data_directory import open_store

SMALL = Options(target_rows=100, rest=0.0)


class FaultError(Exception):
    """The store's own error."""


@dataclass(frozen=True, slots=True)
class Info:
    name: str
    size: int


class FolderFiles:
    """engine.checkpoint.CheckpointFiles in a folder. `fail_at`: the number of the call (from 0) that fails; `after`:
    it does what it should and fails then. `log` has every call."""

    def __init__(self, folder: Path, fail_at: int | None = None, after: bool = False) -> None:
        self.folder = folder
        self.fail_at = fail_at
        self.after = after
        self.log: list[tuple[str, str]] = []
        folder.mkdir(exist_ok=True)

    def _begin(self, call: str, name: str) -> bool:
        """Whether this call fails at its end."""
        self.log.append((call, name))
        fails = len(self.log) - 1 == self.fail_at
        if fails and not self.after:
            raise FaultError(name)
        return fails

    @staticmethod
    def _end(fails: bool) -> None:
        if fails:
            raise FaultError

    def path(self, name: str) -> Path:
        return self.folder / name

    async def put(self, name: str, data: bytes) -> None:
        fails = self._begin("put", name)
        await asyncio.sleep(0)
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        with self.path(name).open("xb") as file:
            file.write(data)
        self._end(fails)

    async def put_file(self, name: str, path: str) -> None:
        fails = self._begin("put_file", name)
        await asyncio.sleep(0)
        assert not self.path(name).exists()
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, self.path(name))
        self._end(fails)

    async def get(self, name: str) -> bytes:
        fails = self._begin("get", name)
        data = self.path(name).read_bytes()
        self._end(fails)
        return data

    async def get_file(self, name: str, path: str) -> None:
        fails = self._begin("get_file", name)
        await asyncio.sleep(0)
        shutil.copyfile(self.path(name), path)
        self._end(fails)

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Info]:
        fails = self._begin("list", prefix)
        for name in self.names():
            if name.startswith(prefix) and name > after:
                yield Info(name, self.path(name).stat().st_size)
        self._end(fails)

    async def delete(self, name: str) -> None:
        fails = self._begin("delete", name)
        self.path(name).unlink(missing_ok=True)
        self._end(fails)

    def names(self) -> list[str]:
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file())


def mark(lsn: int) -> EntryMark:
    return EntryMark(f"{lsn:032x}", lsn * 1000)


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[Tablespace]:
    """The tablespace in a directory, with the running loop as the engine's thread."""
    loop = asyncio.get_running_loop()
    fatal: list[BaseException] = []
    store = open_store(path, loop.call_soon_threadsafe, fatal.append, loop)
    try:
        yield store
    finally:
        store.close()
    assert not fatal


async def commit(store: Tablespace, writes: dict[bytes, bytes | None], **parts: Any) -> int:
    """Sequences and waits until it is durable."""
    lsn = store.sequence(Edits(dict(writes), **parts), 0, 0)
    await durable(store, lsn)
    return lsn


async def durable(store: Tablespace, lsn: int) -> None:
    while store.durable_lsn < lsn:
        await asyncio.sleep(0)


async def flush(store: Tablespace) -> None:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    store.flush(partial(done.set_result, None))
    await done


async def checkpoint(
    store: Tablespace,
    files: FolderFiles,
    scratch: Path,
    previous: Manifest | None = None,
    described: Described | None = None,
    **options: Any,
) -> Manifest:
    scratch.mkdir(exist_ok=True)
    made = Options(**{"rest": 0.0, **options})
    return await write_checkpoint(
        store, files, "", str(scratch), mark, described=described, previous=previous, options=made
    )


def contents(store: Tablespace, storage_ids: range = range(1, 400)) -> dict[bytes, bytes]:
    """Every key with its value, as of now, but for what is dropped: its keys are deleted bit by bit."""
    found: dict[bytes, bytes] = {}
    layers, _ = store.newest_layers()
    dropped = {storage_id for layer in layers for storage_id in layer.dropped_upto(store.sequenced_lsn)}
    dropped.update(store.drops_in(store._generation))  # what LMDB holds by now is not what this view reads
    for storage_id in set(storage_ids) - dropped:
        found.update(store.current.scan(*prefix_range(storage_prefix(storage_id))))
    return found


def sequence_state(last: int) -> bytes:
    return encode_state(last, True)
