"""The history of a single node: it keeps changelog and checkpoints as long as its settings require.

    DATA/changelog/                            the segments, which are not removed
    DATA/history/<ts>/checkpoint-<lsn>/...     checkpoints to start from, which share files (engine/checkpoint)
    DATA/dropped/<ts>/changelog/               the segments of a tablespace that was dropped within that time

An LSN can be read from an earlier checkpoint if the log continues after that checkpoint. So the oldest kept checkpoint
limits the past. It is the newest checkpoint that is older than `retention`, or a later one if the log after it has more
than `limit` bytes. A checkpoint is written when a quarter of either limit has passed since the last one. A log that
still has its first entry needs no checkpoint.

In a cluster the store keeps ledgers and checkpoints for the same purpose.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from engine.checkpoint import (
    Described,
    Manifest,
    Options,
    checkpoint_lsns,
    leftovers,
    read_manifest,
    removable,
    write_checkpoint,
)
from engine.cluster_view import spaces_of
from engine.past.far import Gone
from replication.background import BackgroundTask, end_task
from replication.interface import StoreUnavailableError
from replication.local import LocalChangelog
from replication.stores.files import FileStore
from shoal.archive.archived_log import ArchivedEntry
from shoal.archive.log_source import SegmentLog

if TYPE_CHECKING:
    from engine.node.node import Node
    from engine.storage.directories import LocalTablespaces
    from engine.storage.tablespace import Tablespace

log = logging.getLogger("shoal.history")

FOLDER = "history"
HOLDER = "history"
LOOK_SECONDS = 10.0
PARTS = 4  # number of checkpoints in the kept time, or in the kept bytes


class LocalHistory(BackgroundTask):
    """`retention` in seconds, more than 0; `limit` in bytes of changelog, for each tablespace. `log_of` returns the
    changelog of a tablespace by id, and `spaces` has the dropped tablespaces. Used on the engine's thread."""

    def __init__(
        self,
        node: Node,
        log_of: Callable[[bytes], LocalChangelog],
        data: Path,
        retention: float,
        limit: int,
        spaces: LocalTablespaces,
    ) -> None:
        self.node = node
        self.log_of = log_of
        self._spaces = spaces
        self._scratch = str(data / "scratch")
        self._retention = round(retention * 1_000_000)
        self._limit = limit
        self.files = FileStore(str(data / FOLDER))
        self._checkpoints: dict[bytes, list[Manifest]] = {}  # by tablespace, oldest first

    async def close(self) -> None:
        """Stops, and abandons a checkpoint that is being written."""
        await end_task(self._task)
        await self.files.close()

    async def _run(self) -> None:
        while True:
            try:
                await self.run_once()
            except (SqlError, StoreUnavailableError, OSError) as error:
                log.warning("cannot maintain the history now: %s", error)
            await asyncio.sleep(min(LOOK_SECONDS, self._retention / 1e6 / PARTS))

    async def run_once(self) -> None:
        """Writes the checkpoints that are due, and removes history that is older than the settings require."""
        for name, space in spaces_of(self.node).items():
            await self._keep_history(name, space)
        now = time.time_ns() // 1000
        for identity in [key for key, item in self._spaces.dropped.items() if item.time <= now - self._retention]:
            await self._remove_dropped(identity)

    async def _remove_dropped(self, identity: bytes) -> None:
        """Removes the history of a dropped tablespace."""
        self._checkpoints.pop(identity, None)
        await self.files.delete_folder(identity.hex() + "/")
        self._spaces.forget(identity)

    def dropped_tablespaces(self) -> Sequence[Gone]:
        """The dropped tablespaces whose history is kept."""
        dropped = self._spaces.dropped.items()
        return [Gone(identity, item.lsn, self.log_of(identity).last_lsn or 0) for identity, item in dropped]

    async def checkpoints(self, tablespace: bytes) -> Sequence[Manifest]:
        """The checkpoints from which every later LSN can be read, oldest first."""
        known = self._checkpoints.get(tablespace)
        if known is None:
            root = tablespace.hex()
            known = [await read_manifest(self.files, root, lsn) for lsn in await checkpoint_lsns(self.files, root)]
            self._checkpoints[tablespace] = known
        oldest = self.log_of(tablespace).first_complete_lsn()
        return [manifest for manifest in known if oldest is None or oldest <= manifest.lsn + 1]

    def past(self, tablespace: bytes) -> LocalPast:
        """The past of a tablespace, by id."""
        return LocalPast(self, tablespace)

    async def _keep_history(self, name: str, space: Tablespace) -> None:
        identity = space.tablespace_id
        changelog = self.log_of(identity)
        usable = list(await self.checkpoints(identity))
        now = self.node.clock()
        oldest = changelog.first_complete_lsn()
        whole = oldest is None or oldest == 1  # no part of the log was removed yet
        newest = usable[-1] if usable else None
        start = newest.lsn if newest is not None else 0 if whole else None
        since = now - (newest.created if newest is not None else self.node.started)
        changed = space.durable_lsn > (start or 0)
        due = since >= self._retention // PARTS or self._bytes_after(changelog, start or 0) >= self._limit // PARTS
        if start is None or (changed and due):
            usable.append(await self._write(name, space, newest))
        first = self._oldest_needed(changelog, usable, now)
        if first is None:
            return
        changelog.hold(HOLDER, first.lsn)
        kept = [manifest for manifest in usable if manifest.lsn >= first.lsn]
        gone = [manifest for manifest in self._checkpoints[identity] if manifest.lsn < first.lsn]
        self._checkpoints[identity] = kept
        await self._remove(identity.hex(), gone, kept)

    def _oldest_needed(self, changelog: LocalChangelog, usable: Sequence[Manifest], now: int) -> Manifest | None:
        """The oldest checkpoint that is needed. None while everything is needed, from the first entry."""
        old = [manifest for manifest in usable if manifest.created <= now - self._retention]
        first = old[-1] if old else None
        wanted = 0 if first is None else first.lsn
        for manifest in usable:
            if self._bytes_after(changelog, wanted) <= self._limit:
                break
            if manifest.lsn > wanted:
                first, wanted = manifest, manifest.lsn
        return first

    def _bytes_after(self, changelog: LocalChangelog, lsn: int) -> int:
        """The approximate number of bytes of changelog after an LSN."""
        segments = changelog.segments()  # there is none before the chain begins
        following = (start for start, _ in segments[1:])
        return sum(size for (_, size), end in zip_longest(segments, following) if end is None or end > lsn + 1)

    async def _write(self, name: str, space: Tablespace, previous: Manifest | None) -> Manifest:
        catalog = self.node.shared_catalog
        described = None
        if name != "pg_default":
            described = Described(catalog.tablespaces[name], catalog.objects.values())
        os.makedirs(self._scratch, 0o700, exist_ok=True)
        made = await write_checkpoint(
            space,
            self.files,
            space.tablespace_id.hex(),
            self._scratch,
            SegmentLog(self.log_of(space.tablespace_id)).entry_mark,
            described=described,
            previous=previous,
            options=Options(resumable=True),
        )
        known = self._checkpoints[space.tablespace_id]
        if not known or known[-1].lsn < made.lsn:
            known.append(made)
        log.info("checkpoint of the past at LSN %d: %d rows", made.lsn, made.table_rows())
        return made

    async def _remove(self, root: str, gone: Sequence[Manifest], kept: Sequence[Manifest]) -> None:
        if not gone:
            return
        prefix = root + "/"
        names = removable(gone, kept)
        present = [info.name.removeprefix(prefix) async for info in self.files.list(prefix)]
        names += leftovers(present, kept, below=kept[-1].lsn)
        for name in dict.fromkeys(names):
            await self.files.delete(prefix + name)


class LocalPast:
    """An engine.past.far.Source of a single node's tablespace."""

    def __init__(self, history: LocalHistory, tablespace: bytes) -> None:
        self._history = history
        self._tablespace = tablespace

    @property
    def _log(self) -> SegmentLog:
        return SegmentLog(self._history.log_of(self._tablespace))

    @property
    def files(self) -> FileStore:
        return self._history.files

    @property
    def root(self) -> str:
        return self._tablespace.hex()

    async def checkpoints(self) -> Sequence[Manifest]:
        return await self._history.checkpoints(self._tablespace)

    async def oldest_entry(self) -> int | None:
        return self._log.oldest()

    def hold(self, holder: str, after: int | None) -> None:
        self._log.hold(holder, after)

    def entries(self, after: int, upto: int) -> AsyncIterator[ArchivedEntry]:
        return self._log.entries(after, upto)

    async def fetch_bulk(self, name: str, path: str) -> None:
        await self._log.fetch_bulk(name, path)

    async def lsn_at(self, time: int) -> int | None:
        return await self._log.lsn_at(time, self._history.log_of(self._tablespace).last_lsn or 0)
