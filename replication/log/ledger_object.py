"""One object of a ledger: entries (replication/entry.py) back to back, in LSN order.

    entry  entry  entry ...        no header of its own: its name has its LSNs, every entry has the rest

An entry that refers to bulk files has the flag HAS_FILES, and before its body their names: u16 count, then for each of
them u16 length and the name in UTF-8, little-endian. So a follower can fetch the files without knowing what the body
means. One that is a part of a transaction over several tablespaces has the flag JOINT, and all the parts between those
names and its body (replication/commit_parts.py): a follower shows them together.

Reading trusts nothing: checksum, tablespace, epoch, LSNs without gaps, and the hash chain from the entry before.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from catalog.errors import SqlError
from replication.commit_parts import Parts, encode_parts, split_parts
from replication.entry import (
    HAS_FILES,
    HEADER_SIZE,
    JOINT,
    EntryHeader,
    decode_header,
    encode_entry,
    entry_hash,
    verify,
)
from replication.interface import HeadObject, LogEntry
from replication.log.interface import MultiTablespaceCommit
from replication.stores.names import is_part

MAX_FILES = 0xFFFF
_COUNT = struct.Struct("<H")


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a reader of the log: after the entry `lsn`, whose hash is `hash` (None: unknown)."""

    lsn: int
    hash: bytes | None


@dataclass(frozen=True, slots=True)
class VerifiedEntry:
    entry: LogEntry
    hash: bytes


def encode_log_entry(
    lsn: int,
    body: bytes,
    commit_time: int,
    schema_version: int,
    files: Sequence[str],
    committed: int,
    epoch: int,
    tablespace: bytes,
    previous: bytes,
    joint: MultiTablespaceCommit | None = None,
) -> tuple[bytes, bytes]:
    """The entry's bytes, and its hash for the next entry's `previous`."""
    flags = 0
    if joint is not None:
        flags |= JOINT
        body = encode_parts(joint.tablespaces, joint.lsns) + body
    if files:
        flags |= HAS_FILES
        names = [name.encode() for name in files]
        parts = [_COUNT.pack(len(names))]
        for name in names:
            parts += (_COUNT.pack(len(name)), name)
        body = b"".join((*parts, body))
    return encode_entry(lsn, body, commit_time, schema_version, committed, epoch, tablespace, previous, flags)


def decode_object(
    data: bytes, item: HeadObject, tablespace: bytes, epoch: int, after: Position
) -> Iterator[VerifiedEntry]:
    """The entries of an object after `after.lsn`, one at a time, each verified before it is returned.

    `epoch` is the ledger's. Raises SqlError XX001 for damage, for entries of another tablespace or epoch, and for a
    history to which `after` does not belong.
    """
    view = memoryview(data)
    offset, lsn = 0, item.first
    known = after.hash if after.lsn == item.first - 1 else None
    while lsn <= item.last:
        header = decode_header(view, offset)
        if header is None or not verify(view, offset, header):
            raise _damaged_object_error(item, f"entry {lsn} cannot be read")
        _check(item, header, lsn, tablespace, epoch)
        if known is not None and header.previous != known:
            raise _damaged_object_error(item, f"entry {lsn} does not continue entry {lsn - 1}")
        end = offset + HEADER_SIZE + header.length
        known = entry_hash(view[offset:end])
        if lsn > after.lsn:
            yield VerifiedEntry(_log_entry(item, header, data[offset + HEADER_SIZE : end]), known)
        elif lsn == after.lsn and after.hash is not None and known != after.hash:
            raise _damaged_object_error(item, f"its entry {lsn} is not the one that this replica has applied")
        offset, lsn = end, lsn + 1
    if offset != len(data):
        raise _damaged_object_error(item, "it is longer than its entries")


def _check(item: HeadObject, header: EntryHeader, lsn: int, tablespace: bytes, epoch: int) -> None:
    if header.lsn != lsn:
        raise _damaged_object_error(item, f"entry {header.lsn} where {lsn} belongs")
    if header.tablespace != tablespace:
        raise _damaged_object_error(item, "it belongs to another tablespace")
    if header.epoch != epoch:
        raise _damaged_object_error(item, f"entry {lsn} is of epoch {header.epoch}, its ledger of epoch {epoch}")


def _log_entry(item: HeadObject, header: EntryHeader, body: bytes) -> LogEntry:
    files: tuple[str, ...] = ()
    joint: Parts = ()
    if header.flags & HAS_FILES:
        try:
            files, body = split_files(body)
        except (struct.error, ValueError):
            raise _damaged_object_error(item, f"entry {header.lsn} has no list of files") from None
    if header.flags & JOINT:
        joint, body = split_parts(body)
        if (header.tablespace, header.lsn) not in joint:
            raise _damaged_object_error(item, f"entry {header.lsn} is not part of its own transaction")
    return LogEntry(header.lsn, header.epoch, header.commit_time, header.schema_version, files, body, joint)


def split_files(body: bytes) -> tuple[tuple[str, ...], bytes]:
    """The names of the files at the beginning of a body with the flag HAS_FILES, and the rest. Raises ValueError or
    struct.error for damage."""
    (count,) = _COUNT.unpack_from(body, 0)
    offset, files = _COUNT.size, []
    for _ in range(count):
        (length,) = _COUNT.unpack_from(body, offset)
        offset += _COUNT.size
        name = body[offset : offset + length].decode()
        if not is_part(name):  # it becomes the name of a local file
            raise ValueError(name)
        files.append(name)
        offset += length
    return tuple(files), body[offset:]


def _damaged_object_error(item: HeadObject, what: str) -> SqlError:
    return SqlError(
        "XX001",
        f"object {item.first}-{item.last} of ledger {item.ledger} is damaged: {what}",
        hint="Restore it from another member of the store, or this replica from a checkpoint.",
    )
