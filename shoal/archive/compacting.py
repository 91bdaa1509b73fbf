"""Making a store of backups smaller, and quicker to read.

    retired     backups beyond the newest `keep`, with the checkpoint files, changelog and bulk loads that no other one
                needs: first the record, so that nobody finds a backup that has lost something
    merged      pieces of the changelog that follow each other, small as frequent backups leave them, into pieces
                of about TARGET_BYTES: the new one is durable before the old ones go; readers prefer the longest one

Checkpoint files are not rewritten: their ranges are kept between a quarter and twice their size by every checkpoint
(engine/checkpoint/ranges.py). What belongs to a backup that is being made now is touched by neither: it refers to the
newest one's files, and adds pieces behind the last. It can be interrupted at any time and run again.

`merge` is one task: it trusts nothing that it reads, runs by itself in any process, and so on Spark too.
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
from shoal.archive.contents import ArchivedSpace, Found
from shoal.archive.layout import (
    PieceName,
    Record,
    bulk_name,
    damaged,
    log_folder,
    parse_piece,
    piece_name,
    record_name,
)
from shoal.archive.pieces import ArchivedEntry, entries_of

TARGET_BYTES = 64 << 20  # of a merged piece
TIMEOUT = 60.0  # seconds for a call of the store


@dataclass(frozen=True, slots=True)
class Group:
    """Pieces that follow each other and become one."""

    tablespace: str
    pieces: tuple[PieceName, ...]
    bytes: int

    @property
    def whole(self) -> PieceName:
        return PieceName(self.pieces[0].first, self.pieces[-1].last)


@dataclass(slots=True)
class Compacted:
    """What was done."""

    retired: int = 0  # backups
    deleted: int = 0  # objects, without the merged pieces
    freed: int = 0  # bytes of them
    merged: int = 0  # pieces
    into: int = 0  # pieces
    entries: int = 0
    bytes: int = 0  # of merged pieces


# ---- what is no longer needed ----------------------------------------------------------------------------------------


async def retire(found: Found, keep: int, result: Compacted) -> tuple[Record, ...]:
    """Gives up all but the newest `keep` backups; those that stay. Raises XX001, and what the store raises."""
    stay, gone = found.records[-keep:], found.records[:-keep]
    if not gone:
        return stay
    sizes = {info.name: info.size async for info in found.store.list("")}
    # Manifests are read before the first backup goes: a damaged store is left as it is.
    plans = {
        tablespace: await _unneeded(ArchivedSpace(found.store, tablespace), stay, gone, sizes)
        for tablespace in dict.fromkeys(space.tablespace for record in gone for space in record.spaces)
    }
    for record in gone:
        await _delete(found.store, [record_name(record.created)], sizes, result)
        result.retired += 1
    for names in plans.values():
        await _delete(found.store, names, sizes, result)
    return stay


async def _delete(store: ChangelogStore, names: Iterable[str], sizes: dict[str, int], result: Compacted) -> None:
    for name in dict.fromkeys(names):
        await store.delete(name)
        if name in sizes:
            result.deleted += 1
            result.freed += sizes[name]


async def _unneeded(
    space: ArchivedSpace, stay: Sequence[Record], gone: Sequence[Record], sizes: dict[str, int]
) -> list[str]:
    """The objects of a tablespace that only backups that go have needed, in the order in which to delete them."""
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


async def _unneeded_log(space: ArchivedSpace, floor: int) -> list[str]:
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


async def plan(store: ChangelogStore, tablespaces: Iterable[str], target: int = TARGET_BYTES) -> list[Group]:
    """Which pieces are to be merged."""
    groups = []
    for tablespace in tablespaces:
        sizes = await _sizes(store, tablespace)
        longest = _uncovered(sizes)
        groups += _groups(tablespace, longest, sizes, target)
    return groups


async def tidy(store: ChangelogStore, tablespaces: Iterable[str], result: Compacted) -> None:
    """Deletes pieces that lie within another one: a merge was broken off before it had done that."""
    for tablespace in tablespaces:
        sizes = await _sizes(store, tablespace)
        longest = _uncovered(sizes)
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


def _uncovered(names: Iterable[PieceName]) -> list[PieceName]:
    """Without those within another one, in order."""
    found: list[PieceName] = []
    for name in sorted(names, key=lambda item: (item.first, -item.last)):
        if not found or name.last > found[-1].last:
            found.append(name)
    return found


def _groups(tablespace: str, names: Sequence[PieceName], sizes: dict[PieceName, int], target: int) -> list[Group]:
    groups: list[list[PieceName]] = []
    for name in names:
        last = groups[-1] if groups else []
        follows = bool(last) and last[-1].last + 1 == name.first
        if follows and sum(sizes[item] for item in last) + sizes[name] <= target:
            last.append(name)
        else:
            groups.append([name])
    return [Group(tablespace, tuple(group), sum(sizes[item] for item in group)) for group in groups if len(group) > 1]


def merge(url: str, group: Group) -> int:
    """Makes one piece of a group, durable; the originals stay. The number of entries. Raises XX001, and what the store
    raises."""

    async def run() -> int:
        store = open_store(url, timeout=TIMEOUT)
        try:
            return await merge_in(store, group)
        finally:
            await store.close()

    return asyncio.run(run())


async def merge_in(store: ChangelogStore, group: Group) -> int:
    """`merge` in a store that is open."""
    parts: list[bytes] = []
    count, known = 0, b""
    for piece in group.pieces:
        name = piece_name(group.tablespace, piece.first, piece.last)
        data = await store.get(name)
        entries = await asyncio.to_thread(_read, data, name, piece, group.tablespace)
        if known and entries[0].previous != known:
            raise damaged(f'"{name}" does not continue the piece before it: two histories are mixed')
        known = entries[-1].hash
        count += len(entries)
        parts.append(data)
    whole = b"".join(parts)
    name = piece_name(group.tablespace, group.whole.first, group.whole.last)
    with suppress(ObjectExistsError):  # of a run that was broken off
        await store.put(name, whole)
    if await store.get(name) != whole:
        raise damaged(f'"{name}" is not what it is made of')
    return count


async def drop_originals(store: ChangelogStore, group: Group) -> None:
    """When the whole is there."""
    for piece in group.pieces:
        await store.delete(piece_name(group.tablespace, piece.first, piece.last))


async def _entries(store: ChangelogStore, tablespace: str, piece: PieceName) -> list[ArchivedEntry]:
    name = piece_name(tablespace, piece.first, piece.last)
    return await asyncio.to_thread(_read, await store.get(name), name, piece, tablespace)


def _read(data: bytes, name: str, piece: PieceName, tablespace: str) -> list[ArchivedEntry]:
    try:
        return list(entries_of(data, name, piece.first, piece.last, bytes.fromhex(tablespace)))
    except SqlError:
        raise
    except Exception:  # whatever bytes that are none lead to
        raise damaged(f'"{name}" cannot be read') from None


OnCompacted = Callable[[str, int, int], None]
"""(what is being done, how much of it, of how much)"""


async def compact(store: ChangelogStore, groups: Sequence[Group], result: Compacted, progress: OnCompacted) -> None:
    """Merges groups one by one, here."""
    total = sum(group.bytes for group in groups)
    for group in groups:
        await count(store, group, await merge_in(store, group), result)
        progress("changelog", result.bytes, total)


async def count(store: ChangelogStore, group: Group, entries: int, result: Compacted) -> None:
    """A group whose whole is there: its originals go."""
    await drop_originals(store, group)
    result.merged += len(group.pieces)
    result.into += 1
    result.entries += entries
    result.bytes += group.bytes
