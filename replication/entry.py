"""One changelog entry as bytes: a fixed header, then the body, which is opaque here.

    0  magic       4s   b'SHLE'
    4  crc         u32  CRC32C of everything after this field, body included
    8  format      u16  version of this header; a newer one is refused, never guessed at
    10 flags       u16  1: the body is preceded by the names of the files that the entry refers to
                        (replication/log/ledger_object.py)
                     2: and by the parts of its transaction over several tablespaces (replication/commit_parts.py)
                        any other flag is refused
    12 length      u32  bytes of the body
    16 epoch       u64  the leader's epoch
    24 lsn         u64  counts from 1 without gaps
    32 committed   u64  the last LSN that was durable when this entry was written
    40 commit time i64  microseconds since 2000-01-01 UTC
    48 schema      u64  catalog version
    56 tablespace  16s
    72 previous    16s  BLAKE2b-128 of the whole previous entry, zeros for the first
    88 body

All little-endian. The hash chain distinguishes two histories that share a prefix of LSNs, and prevents that a stale
entry in a recycled file counts as the next one. `committed` distinguishes a torn tail from damage: an entry that cannot
be read was acknowledged exactly if a later one exists that was written when its LSN was already durable.
"""

from __future__ import annotations

import struct
from hashlib import blake2b

import google_crc32c

from catalog.errors import SqlError
from catalog.records import dataclass

MAGIC = b"SHLE"
FORMAT = 1
HAS_FILES = 1
JOINT = 2
NO_HASH = bytes(16)

_GUARD = struct.Struct("<4sI")
_HEADER = struct.Struct("<HHIQQQqQ16s16s")
_HEAD = struct.Struct("<HHI")  # the beginning of the header
HEADER_SIZE = _GUARD.size + _HEADER.size
MAX_BODY = 2**32 - 1

_crc = google_crc32c.value
_extend = google_crc32c.extend


@dataclass(frozen=True, slots=True)
class EntryHeader:
    """The header's fields; `crc` is as stored and not verified."""

    crc: int
    length: int
    epoch: int
    lsn: int
    committed: int
    commit_time: int
    schema_version: int
    tablespace: bytes
    previous: bytes
    flags: int = 0


def encode_entry(
    lsn: int,
    body: bytes,
    commit_time: int,
    schema_version: int,
    committed: int,
    epoch: int,
    tablespace: bytes,
    previous: bytes,
    flags: int = 0,
) -> tuple[bytes, bytes]:
    """The entry's bytes, and its hash for the next entry's `previous`. The body has at most MAX_BODY bytes."""
    header = _HEADER.pack(
        FORMAT, flags, len(body), epoch, lsn, committed, commit_time, schema_version, tablespace, previous
    )
    rest = header + body
    entry = _GUARD.pack(MAGIC, _crc(rest)) + rest
    return entry, entry_hash(entry)


def entry_hash(entry: bytes | memoryview) -> bytes:
    return blake2b(entry, digest_size=16).digest()


def decode_header(data: bytes | bytearray | memoryview, offset: int = 0) -> EntryHeader | None:
    """The header at this offset; None if there is none. A newer format is XX001 with its number.

    Only the magic is verified: `verify` does the rest.
    """
    if len(data) - offset < HEADER_SIZE:
        return None
    magic, crc = _GUARD.unpack_from(data, offset)
    if magic != MAGIC:
        return None
    _, flags, length, epoch, lsn, committed, commit_time, schema_version, tablespace, previous = _HEADER.unpack_from(
        data, offset + _GUARD.size
    )
    return EntryHeader(crc, length, epoch, lsn, committed, commit_time, schema_version, tablespace, previous, flags)


def flags_and_length(data: bytes, offset: int) -> tuple[int, int]:
    """The flags, and the length of the body, of the verified entry at this offset."""
    _, flags, length = _HEAD.unpack_from(data, offset + _GUARD.size)
    return flags, length


def verify(data: memoryview, offset: int, header: EntryHeader) -> bool:
    """Whether header and body at this offset are complete and match their checksum."""
    end = offset + HEADER_SIZE + header.length
    if end > len(data):
        return False
    if _extend(0, bytes(data[offset + _GUARD.size : end])) != header.crc:
        return False
    (version,) = struct.unpack_from("<H", data, offset + _GUARD.size)
    if version != FORMAT:
        raise SqlError("XX001", f"changelog entry {header.lsn} has format {version}, this release reads up to {FORMAT}")
    if header.flags & ~(HAS_FILES | JOINT):
        raise SqlError("XX001", f"changelog entry {header.lsn} has flags {header.flags:#x}, unknown to this release")
    return True
