"""Checkpoints of a tablespace in the cluster's store: written by the leader, listed in ZooKeeper, the old ones removed.

The newest KEPT stay. A checkpoint counts once it is listed. The next checkpoint removes the folders of unlisted ones,
which a crash may leave. The log below the oldest listed checkpoint may then be dropped (replication/log/ledgers.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from pathlib import Path

from catalog.errors import SqlError
from engine.checkpoint import Described, EntryMark, Manifest, leftovers, read_manifest, removable, write_checkpoint
from engine.storage.tablespace import Tablespace
from replication.background import BackgroundTask
from replication.interface import (
    ChangelogStore,
    Checkpoint,
    ConflictError,
    Coordination,
    CoordinationUnavailableError,
    ObjectMissingError,
    StoreUnavailableError,
)
from replication.log.layout import decode_checkpoints, encode_checkpoints, paths, tablespace_folder
from replication.log.settings import Clock

log = logging.getLogger("shoal.cluster")

KEPT = 2
LOOK = 30.0  # seconds, at most, between two looks whether it is time for a checkpoint
LOOK_FOR_LEADING = 1.0  # the same while another node leads


class CheckpointKeeper(BackgroundTask):
    """`store` and `coordination` return the present store and session; `mark` the log's data on the entry at an LSN;
    `leads` whether this node must write checkpoints; `described` the catalog's present description of another
    tablespace than pg_default. `scratch` is a local directory with room for two files."""

    def __init__(
        self,
        tablespace: Tablespace,
        store: Callable[[], ChangelogStore],
        coordination: Callable[[], Coordination],
        mark: Callable[[int], EntryMark],
        leads: Callable[[], bool],
        scratch: Path,
        interval: float,
        clock: Clock,
        describe: Callable[[], Described | None] = lambda: None,
    ) -> None:
        self._tablespace = tablespace
        self._store = store
        self._coordination = coordination
        self._mark = mark
        self._leads = leads
        self._scratch = scratch
        self._interval = interval
        self._clock = clock
        self._describe = describe
        self._root = tablespace_folder(tablespace.tablespace_id).rstrip("/")
        self._writing = asyncio.Lock()
        self._checked_store = ""  # the URL of the store that is known to have the newest checkpoint

    async def _run(self) -> None:
        while True:
            try:
                if self._leads():
                    newest = max(await self._read_list(), key=lambda item: item.lsn, default=None)
                    age = float("inf") if newest is None else (self._clock.wall() - newest.created) / 1e6
                    changed = newest is None or newest.lsn < self._tablespace.durable_lsn
                    if (changed and age >= self._interval) or newest is None or await self._is_elsewhere(newest.lsn):
                        await self.write()
            except (SqlError, StoreUnavailableError, CoordinationUnavailableError, ConflictError) as error:
                log.warning("no checkpoint was written: %s", error)
            # A new leader soon writes the first one, because it costs least while there are few rows.
            await asyncio.sleep(min(self._interval, LOOK if self._leads() else LOOK_FOR_LEADING))

    async def write(self) -> int:
        """Writes a checkpoint, lists it, and removes those that it replaces. Returns its LSN.

        Raises 55000 when this node does not lead, and errors of the store and the coordination.
        """
        if not self._leads():
            raise SqlError("55000", "this node is not the leader of the tablespace, so it cannot write a checkpoint")
        async with self._writing:
            listed = await self._read_list()
            known = [manifest for item in listed if (manifest := await self._manifest(item.lsn)) is not None]
            previous = max(known, key=lambda manifest: manifest.lsn, default=None)
            self._scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
            # In the same turn as the checkpoint's snapshot, because then this node needs nothing of the log below it,
            # and the next checkpoint finds the changes since in memory.
            self._tablespace.flush()
            manifest = await write_checkpoint(
                self._tablespace,
                self._store(),
                self._root,
                str(self._scratch),
                self._mark,
                described=self._describe(),
                previous=previous,
            )
            entry = Checkpoint(
                manifest.lsn,
                manifest.entry_hash,
                manifest.folder,
                manifest.total_bytes(),
                self._clock.wall(),
            )
            kept = await self._add_to_list(entry)
            log.info("checkpoint at LSN %d: %d rows", manifest.lsn, manifest.table_rows())
            await self._remove_unlisted(kept, [*known, manifest])
            return manifest.lsn

    async def _is_elsewhere(self, lsn: int) -> bool:
        """Whether the present store lacks the newest checkpoint, because the tablespace has moved to it since."""
        url = self._store().url
        if url != self._checked_store and await self._manifest(lsn) is not None:
            self._checked_store = url
        return url != self._checked_store

    async def _read_list(self) -> tuple[Checkpoint, ...]:
        found = await self._coordination().get(paths(self._tablespace.tablespace_id).checkpoints)
        return decode_checkpoints(found.data) if found is not None else ()

    async def _manifest(self, lsn: int) -> Manifest | None:
        with contextlib.suppress(ObjectMissingError):
            return await read_manifest(self._store(), self._root, lsn)
        return None

    async def _add_to_list(self, entry: Checkpoint) -> tuple[Checkpoint, ...]:
        """The list with the new entry and without surplus ones."""
        path = paths(self._tablespace.tablespace_id).checkpoints
        while True:
            found = await self._coordination().get(path)
            assert found is not None
            others = [item for item in decode_checkpoints(found.data) if item.lsn != entry.lsn]
            kept = tuple(sorted([*others, entry], key=lambda item: item.lsn)[-KEPT:])
            with contextlib.suppress(ConflictError):
                await self._coordination().set(path, encode_checkpoints(kept), found.version)
                return kept

    async def _remove_unlisted(self, kept: tuple[Checkpoint, ...], manifests: list[Manifest]) -> None:
        lsns = {item.lsn for item in kept}
        stay = [manifest for manifest in manifests if manifest.lsn in lsns]
        gone = [manifest for manifest in manifests if manifest.lsn not in lsns]
        names = removable(gone, stay)
        prefix = self._root + "/"
        objects = [info.name async for info in self._store().list(prefix)]
        relative = [name[len(prefix) :] for name in objects if name.startswith(prefix + "checkpoint-")]
        names += leftovers(relative, stay, below=max(lsns))
        for name in dict.fromkeys(names):
            await self._store().delete(prefix + name)
