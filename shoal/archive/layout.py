"""The objects of a store of backups.

    shoal-backup.json                            BackupOwner: the database of these backups; written first
    backups/<created:020>.json                   BackupRecord: one backup; written last, so that it is complete
    <ts>/checkpoint-<lsn:020>/...                engine/checkpoint/manifest.py
    <ts>/log/<first:020>-<last:020>              entries of the changelog, back to back (replication/entry.py)
    <ts>/bulk/<name>                             a bulk segment that one of them refers to

`<ts>` is a tablespace's id. Checkpoints share files, and the log continues from backup to backup. So a second backup
adds only changes, and states between two backups can be restored if the log has no gap.

The small objects are JSON whose first field is the CRC32C of the rest. No object is ever changed or written twice.
"""

from __future__ import annotations

import dataclasses
import re
import typing
from dataclasses import dataclass

from catalog.errors import SqlError
from engine.checkpoint.manifest import build, seal, unseal

FORMAT = 1
OWNER = "shoal-backup.json"
RECORDS = "backups/"
_PIECE = re.compile(r"([0-9a-f]{32})/log/([0-9]{20})-([0-9]{20})\Z")


@dataclass(frozen=True, slots=True)
class BackupOwner:
    """All backups in a store belong to one history: that of the database with this pg_default."""

    format: int
    tablespace: str  # id, 32 hexadecimal digits
    created: int  # microseconds since 2000-01-01 UTC


@dataclass(frozen=True, slots=True)
class TablespaceRecord:
    """A tablespace in a backup."""

    name: str
    tablespace: str
    checkpoint: int  # its LSN
    after: (
        int  # behind which it has archived the log: not above the checkpoint's LSN, where the last one ended if it can
    )
    lsn: int  # to which the backup reaches, by that log
    time: int  # commit time of the entry there, microseconds since 2000-01-01 UTC; 0: there is none
    hash: str  # of that entry, hexadecimal


@dataclass(frozen=True, slots=True)
class BackupRecord:
    """A backup; pg_default is its first tablespace. The LSNs of all of them are of one moment."""

    format: int
    created: int  # microseconds since 2000-01-01 UTC
    release: str
    written: int  # bytes that it has added to the store
    spaces: tuple[TablespaceRecord, ...]


@dataclass(frozen=True, slots=True, order=True)
class PieceName:
    first: int
    last: int


Kind = typing.TypeVar("Kind", BackupOwner, BackupRecord)


def encode(item: BackupOwner | BackupRecord) -> bytes:
    return seal(dataclasses.asdict(item))


def decode(kind: type[Kind], data: bytes, name: str) -> Kind:
    """Raises XX001 for a damaged object, or one of a newer format."""
    try:
        version, right, found = unseal(data)
    except ValueError as error:
        raise damaged_backup_error(f'"{name}" cannot be read') from error
    if version > FORMAT:
        raise SqlError("XX001", f"the backup has format {version}, this release reads up to {FORMAT}")
    if not right:
        raise damaged_backup_error(f'"{name}" has another checksum')
    return typing.cast(Kind, build(kind, found))


def damaged_backup_error(what: str) -> SqlError:
    """The error (XX001) for a backup that differs from the written one."""
    return SqlError("XX001", f"backup is damaged: {what}")


def record_name(created: int) -> str:
    return f"{RECORDS}{created:020}.json"


def piece_name(tablespace: str, first: int, last: int) -> str:
    return f"{log_folder(tablespace)}{first:020}-{last:020}"


def log_folder(tablespace: str) -> str:
    return f"{tablespace}/log/"


def parse_piece(name: str) -> PieceName | None:
    match = _PIECE.match(name)
    return None if match is None else PieceName(int(match[2]), int(match[3]))


def bulk_name(tablespace: str, name: str) -> str:
    return f"{tablespace}/bulk/{name}"
