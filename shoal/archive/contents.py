"""Reads the content of a store of backups, and verifies it."""

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
from shoal.archive.archived_log import ArchivedEntry, entries_of
from shoal.archive.layout import (
    OWNER,
    RECORDS,
    BackupOwner,
    BackupRecord,
    PieceName,
    TablespaceRecord,
    bulk_name,
    damaged_backup_error,
    decode,
    log_folder,
    parse_piece,
    piece_name,
)


@dataclass(frozen=True, slots=True)
class BackupContents:
    """The backups in a store. `owner` is None for an empty store."""

    store: ChangelogStore
    owner: BackupOwner | None
    records: tuple[BackupRecord, ...]  # oldest first


async def read_contents(store: ChangelogStore) -> BackupContents:
    """Raises 22023 for a store with other content, XX001 for damage."""
    try:
        owner = decode(BackupOwner, await store.get(OWNER), OWNER)
    except ObjectMissingError:
        async for info in store.list(""):
            message = f'{store.url} holds no backup, but contains "{info.name}": choose another place'
            raise SqlError("22023", message) from None
        return BackupContents(store, None, ())
    records = [decode(BackupRecord, await store.get(info.name), info.name) async for info in store.list(RECORDS)]
    return BackupContents(store, owner, tuple(sorted(records, key=lambda record: record.created)))


class ArchivedTablespace:
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
            raise damaged_backup_error(f"the checkpoint at LSN {lsn} is missing") from None

    async def pieces(self) -> list[PieceName]:
        """The pieces of its changelog, in order."""
        names = [parse_piece(info.name) async for info in self.store.list(log_folder(self.tablespace))]
        return sorted(name for name in names if name is not None)

    async def entries(
        self, pieces: Sequence[PieceName], after: int, upto: int, previous: str = ""
    ) -> AsyncIterator[ArchivedEntry]:
        """The entries above `after` up to `upto`, verified; `previous`: the hash of the entry at `after`, hexadecimal,
        '' if unknown. Raises XX001 for damage, and for a gap in the archive."""
        known = bytes.fromhex(previous)
        lsn = after
        while lsn < upto:
            piece = find_next_piece(pieces, lsn)
            if piece is None:
                raise damaged_backup_error(f"the changelog has no entry {lsn + 1}")
            name = piece_name(self.tablespace, piece.first, piece.last)
            try:
                data = await self.store.get(name)
            except ObjectMissingError:
                raise damaged_backup_error(f'"{name}" is missing') from None
            try:
                found = await asyncio.to_thread(
                    lambda: list(entries_of(data, name, piece.first, piece.last, bytes.fromhex(self.tablespace)))  # noqa: B023
                )
            except (ValueError, struct.error):
                raise damaged_backup_error(f'"{name}" cannot be read') from None
            for entry in found:
                if lsn < entry.lsn <= upto:
                    if known and entry.previous != known:
                        raise damaged_backup_error(
                            f"entry {entry.lsn} does not continue the one before it: two histories are mixed"
                        )
                    yield entry
                    lsn, known = entry.lsn, entry.hash

    async def fetch_bulk(self, name: str, path: str) -> None:
        """A bulk segment as a file. Raises XX001."""
        if not is_part(name):
            raise damaged_backup_error("an entry refers to a file with an impossible name")
        try:
            await self.store.get_file(bulk_name(self.tablespace, name), path)
        except ObjectMissingError:
            raise damaged_backup_error(f'bulk segment "{name}" is missing') from None


def find_next_piece(pieces: Sequence[PieceName], lsn: int) -> PieceName | None:
    """The piece that has the entry after `lsn`."""
    return max((piece for piece in pieces if piece.first <= lsn + 1 <= piece.last), key=_last, default=None)


def last_reachable_lsn(pieces: Sequence[PieceName], lsn: int) -> int:
    """The last LSN that the pieces lead to from `lsn` without a gap."""
    while (piece := find_next_piece(pieces, lsn)) is not None:
        lsn = piece.last
    return lsn


def _last(piece: PieceName) -> int:
    return piece.last


@dataclass(slots=True)
class Verification:
    """The result of a verification: the amounts read, and the findings."""

    findings: list[str]
    checkpoints: int = 0
    rows: int = 0
    entries: int = 0
    bytes: int = 0


VerificationProgress = Callable[[str, int, int], None]
"""Called with (the objects that are being read, the amount that was read, the total amount)."""


async def verify_all(found: BackupContents, scratch: str, progress: VerificationProgress) -> Verification:
    """Reads every backup of a store whole. `scratch`: a local directory that does not exist. Errors of the store pass
    through; missing or damaged objects are findings."""
    result = Verification([])
    os.makedirs(scratch, 0o700)
    try:
        seen: set[tuple[str, int]] = set()
        for record in found.records:
            for space in record.spaces:
                archived = ArchivedTablespace(found.store, space.tablespace)
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
    archived: ArchivedTablespace, manifest: Manifest, scratch: str, result: Verification, progress: VerificationProgress
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
    archived: ArchivedTablespace,
    space: TablespaceRecord,
    manifest: Manifest,
    scratch: str,
    result: Verification,
    progress: VerificationProgress,
) -> None:
    """The part of the log that a backup has archived."""
    hashes = {manifest.lsn: manifest.entry_hash, space.lsn: space.hash}
    label = f"changelog to {space.lsn}"
    pieces = await archived.pieces()
    async for entry in archived.entries(pieces, space.after, space.lsn, hashes.get(space.after, "")):
        for run in runs_of(entry.body):
            await _verify_bulk(archived, run, os.path.join(scratch, "bulk"))
        if hashes.get(entry.lsn, "") not in ("", entry.hash.hex()):
            raise damaged_backup_error(f"entry {entry.lsn} is not the one that the backup was made of")
        result.entries += 1
        result.bytes += len(entry.body)
        if result.entries % 1000 == 0:
            progress(label, entry.lsn - space.after, space.lsn - space.after)
    progress(label, 1, 1)


async def _verify_bulk(archived: ArchivedTablespace, run: RunReference, path: str) -> None:
    await archived.fetch_bulk(run.name, path)
    crc = await asyncio.to_thread(file_crc, path)
    os.unlink(path)
    if crc != f"{run.checksum:08x}":
        raise damaged_backup_error(f'bulk segment "{run.name}" has another checksum')


def stored_bytes(manifest: Manifest) -> int:
    """The approximate bytes of a checkpoint's rows in LMDB."""
    return sum(item.stored_bytes for table in manifest.tables for item in table.files)
