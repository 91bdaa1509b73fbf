"""Reads the changelog of a running node, for backups and for its history: its own segments.

In a cluster the changelog is in the cluster's store already (shoal/archive/ledger_log.py).
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import Protocol

from engine.bulk.thread import BulkThread
from engine.checkpoint import EntryMark
from engine.priority import Pace
from replication.interface import ChangelogStore
from replication.local import EntryRun, LocalChangelog
from replication.segments import SegmentEntry
from shoal.archive.archived_log import ArchivedEntry

PIECE_BYTES = 8 << 20
ENTRIES = 500  # that are read at a time


class LogSource(Protocol):
    """The changelog of one tablespace. On the engine's thread."""

    def entry_mark(self, lsn: int) -> EntryMark:
        """Hash and commit time of the entry at a durable LSN."""

    def oldest(self) -> int | None:
        """The first LSN from which on everything can be read; None if there is none."""

    def hold(self, holder: str, after: int | None) -> None:
        """Keeps entries above an LSN, until the same holder passes None."""

    def entry_runs(self, after: int, upto: int) -> AsyncIterator[EntryRun]:
        """The entries above `after` up to a durable one, about PIECE_BYTES at a time. Raises XX001."""

    async def put_bulk(self, name: str, store: ChangelogStore, target: str) -> None:
        """Copies a bulk segment into a store. Raises ObjectExistsError."""


class SegmentLog:
    """LogSource over the segments of a single node."""

    def __init__(self, log: LocalChangelog) -> None:
        self._log = log

    def entry_mark(self, lsn: int) -> EntryMark:
        hash_, commit_time = self._log.mark(lsn)
        return EntryMark(hash_.hex() if commit_time else "", commit_time)

    def oldest(self) -> int | None:
        return self._log.first_complete_lsn()

    def hold(self, holder: str, after: int | None) -> None:
        self._log.hold(holder, after)

    async def entry_runs(self, after: int, upto: int) -> AsyncIterator[EntryRun]:
        found = self._log.entry_runs(after, upto, PIECE_BYTES, Pace().pause)
        thread = BulkThread("changelog")
        try:
            while (piece := await thread.run(next, found, None)) is not None:
                yield piece
        finally:
            thread.close()

    async def entries(self, after: int, upto: int) -> AsyncIterator[ArchivedEntry]:
        """The same entries one by one."""
        found = self._log.entries(after, upto)
        while part := await asyncio.to_thread(_next_entries, found):
            for entry in part:
                header = entry.header
                yield ArchivedEntry(
                    header.lsn, header.commit_time, entry.body, entry.parts, header.previous, entry.hash
                )

    async def lsn_at(self, time: int, upto: int) -> int | None:
        """The last LSN, up to a durable one, before the first commit that was later than a time; None if that is older
        than the log."""
        return await asyncio.to_thread(self._lsn_at, time, upto)

    def _lsn_at(self, time: int, upto: int) -> int | None:
        found = None
        for start, _ in self._log.segments():
            first = next(self._log.entries(start - 1, upto), None) if start <= upto else None
            if first is None or first.header.commit_time > time:
                break
            found = start
        if found is None:
            return None
        lsn = found
        for entry in self._log.entries(found - 1, upto):
            if entry.header.commit_time > time:
                break
            lsn = entry.header.lsn
        return lsn

    async def fetch_bulk(self, name: str, path: str) -> None:
        """A bulk segment as a file of its own."""
        with self._log.open_bulk(name) as segment:
            await asyncio.to_thread(shutil.copyfile, segment, path)

    async def put_bulk(self, name: str, store: ChangelogStore, target: str) -> None:
        with self._log.open_bulk(name) as segment:
            await store.put_file(target, segment)


def _next_entries(entries: Iterator[SegmentEntry]) -> list[SegmentEntry]:
    return list(islice(entries, ENTRIES))
