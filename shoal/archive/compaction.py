"""Compacts a store of backups, so that it is smaller and quicker to read.

    retired     backups beyond the newest `keep`, with the checkpoint files, changelog and bulk loads that no other one
                needs: first the record, so that no backup is incomplete
    merged      consecutive small pieces of the changelog, as frequent backups leave them, into pieces of about
                TARGET_BYTES: the new one is durable before the old ones are deleted; readers prefer the longest one

Checkpoint files are not rewritten, because every checkpoint keeps its ranges between a quarter and twice their usual
size (engine/checkpoint/ranges.py). Neither step affects a running backup: it refers to the newest one's files, and adds
pieces after the last. Compaction can be interrupted at any time and run again.

`merge_group` is a separate task: it verifies everything that it reads, and runs in any process, also on Spark.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from catalog.errors import SqlError
from engine.checkpoint import leftovers, removable
from engine.storage.edits import runs_of
from replication.interface import ChangelogStore, ObjectExistsError
from replication.stores import open_store
from shoal.archive.archived_log import ArchivedEntry, entries_of
from shoal.archive.contents import ArchivedTablespace, BackupContents
from shoal.archive.layout import (
    BackupRecord,
    PieceName,
    bulk_name,
    damaged_backup_error,
    log_folder,
    parse_piece,
    piece_name,
    record_name,
)

TARGET_BYTES = 64 << 20  # of a merged piece
TIMEOUT = 60.0  # seconds for a call of the store


@dataclass(frozen=True, slots=True)
class MergeGroup:
    """Consecutive pieces that become one."""

    tablespace: str
    pieces: tuple[PieceName, ...]
    bytes: int

    @property
    def whole(self) -> PieceName:
        return PieceName(self.pieces[0].first, self.pieces[-1].last)


@dataclass(slots=True)
class CompactionSummary:
    """The results of a compaction."""

    retired: int = 0  # backups
    deleted: int = 0  # objects, without the merged pieces
    freed: int = 0  # bytes of them
    merged: int = 0  # pieces
    into: int = 0  # pieces
    entries: int = 0
    bytes: int = 0  # of merged pieces


# ---- objects that are no longer needed -------------------------------------------------------------------------------


async def retire(found: BackupContents, keep: int, result: CompactionSummary) -> tuple[BackupRecord, ...]:
    """Deletes all but the newest `keep` backups, and returns those that stay. Raises XX001, and errors of the store."""
    stay, gone = found.records[-keep:], found.records[:-keep]
    if not gone:
        return stay
    sizes = {info.name: info.size async for info in found.store.list("")}
    # All manifests are read before the first backup is deleted, so that a damaged store stays unchanged.
    plans = {
        tablespace: await _unneeded_objects(ArchivedTablespace(found.store, tablespace), stay, gone, sizes)
        for tablespace in dict.fromkeys(space.tablespace for record in gone for space in record.spaces)
    }
    for record in gone:
        await _delete(found.store, [record_name(record.created)], sizes, result)
        result.retired += 1
    for names in plans.values():
        await _delete(found.store, names, sizes, result)
    return stay


async def _delete(
    store: ChangelogStore, names: Iterable[str], sizes: dict[str, int], result: CompactionSummary
) -> None:
    for name in dict.fromkeys(names):
        await store.delete(name)
        if name in sizes:
            result.deleted += 1
            result.freed += sizes[name]


async def _unneeded_objects(
    space: ArchivedTablespace, stay: Sequence[BackupRecord], gone: Sequence[BackupRecord], sizes: dict[str, int]
) -> list[str]:
    """The objects of a tablespace that only the deleted backups need, in the order of their deletion."""
    prefix = f"{space.tablespace}/"
    kept = [item for record in stay for item in record.spaces if item.tablespace == space.tablespace]
    if not kept:  # it was dropped before the oldest backup that stays
        return [name for name in sizes if name.startswith(prefix)]
    needed = {item.checkpoint for item in kept}
    dropped = {item.checkpoint for record in gone for item in record.spaces if item.tablespace == space.tablespace}
    manifests = {lsn: await space.manifest(lsn) for lsn in await space.checkpoints()}
    others = [manifest for lsn, manifest in manifests.items() if lsn in needed or lsn not in dropped]
    names = removable([manifests[lsn] for lsn in sorted(dropped - needed) if lsn in manifests], others)
    there = [name.removeprefix(prefix) for name in sizes if name.startswith(f"{prefix}checkpoint-")]
    names += leftovers(there, list(manifests.values()), below=min(needed))
    return [prefix + name for name in names] + await _unneeded_log(space, min(item.after for item in kept))


async def _unneeded_log(space: ArchivedTablespace, floor: int) -> list[str]:
    """Pieces that end at or before an LSN, and the bulk loads that their entries refer to."""
    pieces = await space.pieces()
    old = [piece for piece in pieces if piece.last <= floor]
    left = [piece for piece in pieces if piece.last > floor]
    names, bulk = [], []
    for piece in old:
        names.append(piece_name(space.tablespace, piece.first, piece.last))
        for entry in await _entries(space.store, space.tablespace, piece):
            if not any(other.first <= entry.lsn <= other.last for other in left):
                bulk += [bulk_name(space.tablespace, run.name) for run in runs_of(entry.body)]
    return names + bulk


# ---- the changelog ---------------------------------------------------------------------------------------------------


async def plan_merges(
    store: ChangelogStore, tablespaces: Iterable[str], target: int = TARGET_BYTES
) -> list[MergeGroup]:
    """The groups of pieces to be merged."""
    groups = []
    for tablespace in tablespaces:
        sizes = await _sizes(store, tablespace)
        longest = _without_nested(sizes)
        groups += _groups(tablespace, longest, sizes, target)
    return groups


async def delete_nested(store: ChangelogStore, tablespaces: Iterable[str], result: CompactionSummary) -> None:
    """Deletes pieces within another one, which an interrupted merge has left."""
    for tablespace in tablespaces:
        sizes = await _sizes(store, tablespace)
        longest = _without_nested(sizes)
        needless = [name for name in sizes if name not in longest]
        for whole in longest:
            if any(whole.first <= name.first and name.last <= whole.last for name in needless):
                await _entries(store, tablespace, whole)  # raises if it is damaged
        for name in needless:
            await store.delete(piece_name(tablespace, name.first, name.last))
            result.deleted += 1
            result.freed += sizes[name]


async def _sizes(store: ChangelogStore, tablespace: str) -> dict[PieceName, int]:
    """Bytes of each piece."""
    listed = store.list(log_folder(tablespace))
    return {name: info.size async for info in listed if (name := parse_piece(info.name)) is not None}


def _without_nested(names: Iterable[PieceName]) -> list[PieceName]:
    """The pieces that are within no other one, in order."""
    found: list[PieceName] = []
    for name in sorted(names, key=lambda item: (item.first, -item.last)):
        if not found or name.last > found[-1].last:
            found.append(name)
    return found


def _groups(tablespace: str, names: Sequence[PieceName], sizes: dict[PieceName, int], target: int) -> list[MergeGroup]:
    groups: list[list[PieceName]] = []
    for name in names:
        last = groups[-1] if groups else []
        follows = bool(last) and last[-1].last + 1 == name.first
        if follows and sum(sizes[item] for item in last) + sizes[name] <= target:
            last.append(name)
        else:
            groups.append([name])
    return [
        MergeGroup(tablespace, tuple(group), sum(sizes[item] for item in group)) for group in groups if len(group) > 1
    ]


def merge_group(url: str, group: MergeGroup) -> int:
    """Makes one piece of a group, durable; the originals stay. Returns the number of entries. Raises XX001, and errors
    of the store."""

    async def run() -> int:
        store = open_store(url, timeout=TIMEOUT)
        try:
            return await merge_in_store(store, group)
        finally:
            await store.close()

    return asyncio.run(run())


async def merge_in_store(store: ChangelogStore, group: MergeGroup) -> int:
    """Does the work of `merge_group` in an open store."""
    parts: list[bytes] = []
    count, known = 0, b""
    for piece in group.pieces:
        name = piece_name(group.tablespace, piece.first, piece.last)
        data = await store.get(name)
        entries = await asyncio.to_thread(_read_entries, data, name, piece, group.tablespace)
        if known and entries[0].previous != known:
            raise damaged_backup_error(f'"{name}" does not continue the piece before it: two histories are mixed')
        known = entries[-1].hash
        count += len(entries)
        parts.append(data)
    whole = b"".join(parts)
    name = piece_name(group.tablespace, group.whole.first, group.whole.last)
    with suppress(ObjectExistsError):  # of a run that was broken off
        await store.put(name, whole)
    if await store.get(name) != whole:
        raise damaged_backup_error(f'"{name}" differs from the files that it was merged from')
    return count


async def drop_originals(store: ChangelogStore, group: MergeGroup) -> None:
    """Deletes the originals of a group whose merged piece is durable."""
    for piece in group.pieces:
        await store.delete(piece_name(group.tablespace, piece.first, piece.last))


async def _entries(store: ChangelogStore, tablespace: str, piece: PieceName) -> list[ArchivedEntry]:
    name = piece_name(tablespace, piece.first, piece.last)
    return await asyncio.to_thread(_read_entries, await store.get(name), name, piece, tablespace)


def _read_entries(data: bytes, name: str, piece: PieceName, tablespace: str) -> list[ArchivedEntry]:
    try:
        return list(entries_of(data, name, piece.first, piece.last, bytes.fromhex(tablespace)))
    except SqlError:
        raise
    except Exception:  # whatever bytes that are none lead to
        raise damaged_backup_error(f'"{name}" cannot be read') from None


CompactionProgress = Callable[[str, int, int], None]
"""Called with (the present step, the amount that is done, the total amount)."""


async def compact(
    store: ChangelogStore, groups: Sequence[MergeGroup], result: CompactionSummary, progress: CompactionProgress
) -> None:
    """Merges groups one by one, here."""
    total = sum(group.bytes for group in groups)
    for group in groups:
        await record_merge(store, group, await merge_in_store(store, group), result)
        progress("changelog", result.bytes, total)


async def record_merge(store: ChangelogStore, group: MergeGroup, entries: int, result: CompactionSummary) -> None:
    """Deletes the originals of a merged group, and adds it to the summary."""
    await drop_originals(store, group)
    result.merged += len(group.pieces)
    result.into += 1
    result.entries += entries
    result.bytes += group.bytes
