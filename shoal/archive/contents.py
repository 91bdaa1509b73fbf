"""What a store of backups holds, and whether it is whole."""

from __future__ import annotations

import asyncio
import os
import shutil
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from catalog.errors import SqlError
from engine.checkpoint import Manifest, checkpoint_lsns, read_manifest, verify_checkpoint
from engine.checkpoint.range_files import file_crc
from engine.storage.edits import RunReference, runs_of
from replication.interface import ChangelogStore, ObjectMissingError
from replication.stores.names import is_part
from shoal.archive.layout import (
    OWNER,
    RECORDS,
    Owner,
    PieceName,
    Record,
    SpaceRecord,
    bulk_name,
    damaged,
    decode,
    log_folder,
    parse_piece,
    piece_name,
)
from shoal.archive.pieces import ArchivedEntry, entries_of


@dataclass(frozen=True, slots=True)
class Found:
    """What a look at a store of backups has found. `owner` is None for an empty store."""

    store: ChangelogStore
    owner: Owner | None
    records: tuple[Record, ...]  # oldest first


async def look(store: ChangelogStore) -> Found:
    """Raises 22023 for a store that holds something else, XX001 for damage."""
    try:
        owner = decode(Owner, await store.get(OWNER), OWNER)
    except ObjectMissingError:
        async for info in store.list(""):
            raise SqlError("22023", f'{store.url} holds no backup, but "{info.name}": choose another place') from None
        return Found(store, None, ())
    records = [decode(Record, await store.get(info.name), info.name) async for info in store.list(RECORDS)]
    return Found(store, owner, tuple(sorted(records, key=lambda record: record.created)))


class ArchivedSpace:
    """A tablespace in a store of backups."""

    def __init__(self, store: ChangelogStore, tablespace: str) -> None:
        self.store = store
        self.tablespace = tablespace

    async def checkpoints(self) -> list[int]:
        """The LSNs of its checkpoints, in order."""
        return await checkpoint_lsns(self.store, self.tablespace)

    async def manifest(self, lsn: int) -> Manifest:
        """Raises XX001."""
        try:
            return await read_manifest(self.store, self.tablespace, lsn)
        except ObjectMissingError:
            raise damaged(f"the checkpoint at LSN {lsn} is missing") from None

    async def pieces(self) -> list[PieceName]:
        """Of its changelog, in order."""
        names = [parse_piece(info.name) async for info in self.store.list(log_folder(self.tablespace))]
        return sorted(name for name in names if name is not None)

    async def entries(
        self, pieces: Sequence[PieceName], after: int, upto: int, previous: str = ""
    ) -> AsyncIterator[ArchivedEntry]:
        """The entries above `after` up to `upto`, verified; `previous`: the hash of the entry at `after`, hexadecimal,
        '' for not known. Raises XX001 for damage, and where the archive has a gap."""
        known = bytes.fromhex(previous)
        lsn = after
        while lsn < upto:
            piece = following(pieces, lsn)
            if piece is None:
                raise damaged(f"the changelog has no entry {lsn + 1}")
            name = piece_name(self.tablespace, piece.first, piece.last)
            try:
                data = await self.store.get(name)
            except ObjectMissingError:
                raise damaged(f'"{name}" is missing') from None
            try:
                found = await asyncio.to_thread(
                    lambda: list(entries_of(data, name, piece.first, piece.last, bytes.fromhex(self.tablespace)))  # noqa: B023
                )
            except (ValueError, struct.error):
                raise damaged(f'"{name}" cannot be read') from None
            for entry in found:
                if lsn < entry.lsn <= upto:
                    if known and entry.previous != known:
                        raise damaged(f"entry {entry.lsn} does not continue the one before it: two histories are mixed")
                    yield entry
                    lsn, known = entry.lsn, entry.hash

    async def fetch_bulk(self, name: str, path: str) -> None:
        """A bulk segment as a file. Raises XX001."""
        if not is_part(name):
            raise damaged("an entry refers to a file with an impossible name")
        try:
            await self.store.get_file(bulk_name(self.tablespace, name), path)
        except ObjectMissingError:
            raise damaged(f'bulk segment "{name}" is missing') from None


def following(pieces: Sequence[PieceName], lsn: int) -> PieceName | None:
    """The piece that has the entry after `lsn`."""
    return max((piece for piece in pieces if piece.first <= lsn + 1 <= piece.last), key=_last, default=None)


def reach(pieces: Sequence[PieceName], lsn: int) -> int:
    """The last LSN that the pieces lead to from `lsn` without a gap."""
    while (piece := following(pieces, lsn)) is not None:
        lsn = piece.last
    return lsn


def _last(piece: PieceName) -> int:
    return piece.last


@dataclass(slots=True)
class Verified:
    """What a verification has read, and what is wrong."""

    findings: list[str]
    checkpoints: int = 0
    rows: int = 0
    entries: int = 0
    bytes: int = 0


OnVerified = Callable[[str, int, int], None]
"""(what is being read, how much of it, of how much)"""


async def verify_all(found: Found, scratch: str, progress: OnVerified) -> Verified:
    """Reads every backup of a store whole. `scratch`: a local directory that does not exist. Errors of the store pass
    through; what is missing or damaged is a finding."""
    result = Verified([])
    os.makedirs(scratch, 0o700)
    try:
        seen: set[tuple[str, int]] = set()
        for record in found.records:
            for space in record.spaces:
                archived = ArchivedSpace(found.store, space.tablespace)
                try:
                    manifest = await archived.manifest(space.checkpoint)
                    if (space.tablespace, space.checkpoint) not in seen:
                        seen.add((space.tablespace, space.checkpoint))
                        await _verify_checkpoint(archived, manifest, scratch, result, progress)
                    await _verify_log(archived, space, manifest, scratch, result, progress)
                except SqlError as error:
                    if error.sqlstate != "XX001":
                        raise
                    result.findings.append(error.message)
    finally:
        await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)
    return result


async def _verify_checkpoint(
    archived: ArchivedSpace, manifest: Manifest, scratch: str, result: Verified, progress: OnVerified
) -> None:
    total = stored_bytes(manifest)
    label = f"checkpoint {manifest.lsn}"
    findings = await verify_checkpoint(
        archived.store,
        archived.tablespace,
        manifest,
        os.path.join(scratch, f"{archived.tablespace}-{manifest.lsn}"),  # it is emptied behind our back
        progress=lambda now: progress(label, now.bytes, total),
    )
    result.findings += [f"{label}: {finding}" for finding in findings]
    result.checkpoints += 1
    result.rows += manifest.table_rows()
    result.bytes += total
    progress(label, total, total)


async def _verify_log(
    archived: ArchivedSpace,
    space: SpaceRecord,
    manifest: Manifest,
    scratch: str,
    result: Verified,
    progress: OnVerified,
) -> None:
    """The part of the log that a backup has archived."""
    hashes = {manifest.lsn: manifest.entry_hash, space.lsn: space.hash}
    label = f"changelog to {space.lsn}"
    pieces = await archived.pieces()
    async for entry in archived.entries(pieces, space.after, space.lsn, hashes.get(space.after, "")):
        for run in runs_of(entry.body):
            await _verify_bulk(archived, run, os.path.join(scratch, "bulk"))
        if hashes.get(entry.lsn, "") not in ("", entry.hash.hex()):
            raise damaged(f"entry {entry.lsn} is not the one that the backup was made of")
        result.entries += 1
        result.bytes += len(entry.body)
        if result.entries % 1000 == 0:
            progress(label, entry.lsn - space.after, space.lsn - space.after)
    progress(label, 1, 1)


async def _verify_bulk(archived: ArchivedSpace, run: RunReference, path: str) -> None:
    await archived.fetch_bulk(run.name, path)
    crc = await asyncio.to_thread(file_crc, path)
    os.unlink(path)
    if crc != f"{run.checksum:08x}":
        raise damaged(f'bulk segment "{run.name}" has another checksum')


def stored_bytes(manifest: Manifest) -> int:
    """What a checkpoint's rows take in LMDB, about."""
    return sum(item.stored_bytes for table in manifest.tables for item in table.files)
