"""The form of one row of a table of changes: key (lsn, part), value `body`.

    lsn > 0, below BULK    changes of the commit with that LSN; a large one has several parts, 0, 1, ...
    lsn >= BULK            one change each of a COPY or of large DML, to which a commit refers by this number
    lsn = 0                the end of the removed changes (engine/changes/positions.py)
    lsn < 0                a shape (engine/changes/shapes.py)

The body of a commit's part:

    0  format          u8   1
    1  last            u8   1 for the last part of the commit
    2  commit time     i64  microseconds since 2000-01-01 UTC
    10 schema version  i64
    18 end             u64  bytes of all changes up to here, including this part and the changes that it refers to: a
                            subtraction gives the bytes between two positions
    26 streams         u16  n, then n x u32: the OIDs of the streams that some of its changes are in
       changes         to the end, each:
                       u8 operation, i64 shape, u32 length of the key, u32 of the row before, u32 of the row after
                       (0xFFFFFFFF: there is none), then these

Operations: c, u, d, t (TRUNCATE: no key, no rows), and r: a reference, whose key is (i64 lsn, u32 rows, u64 bytes).
Little-endian. Rows are as they are stored (engine/storage/rows.py), keys without the storage id.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from catalog.errors import SqlError

FORMAT = 1
BULK = 1 << 61  # where the numbers of bulk changes begin; LSNs stay below 2^48
NONE = 0xFFFFFFFF
PART_BYTES = 1 << 20
CREATE, UPDATE, DELETE, TRUNCATE, REFERENCE = b"cudtr"

HEAD = struct.Struct("<BBqqQH")
CHANGE = struct.Struct("<BqIII")
REFERRED = struct.Struct("<qIQ")


@dataclass(frozen=True, slots=True)
class Head:
    """The header of a part. `place` is the position of its changes."""

    last: bool
    commit_time: int
    schema_version: int
    end: int
    streams: tuple[int, ...]
    place: int


def encode_change(operation: int, shape: int, key: bytes, before: bytes | None, after: bytes | None) -> bytes:
    """One change; `key` without its storage id."""
    if before is None:
        head = CHANGE.pack(operation, shape, len(key), NONE, NONE if after is None else len(after))
        return head + key + (after or b"")
    if after is None:
        return CHANGE.pack(operation, shape, len(key), len(before), NONE) + key + before
    return CHANGE.pack(operation, shape, len(key), len(before), len(after)) + key + before + after


def encode_head(last: bool, commit_time: int, schema_version: int, end: int, streams: tuple[int, ...]) -> bytes:
    """The header of a part."""
    head = HEAD.pack(FORMAT, last, commit_time, schema_version, end, len(streams))
    return head + struct.pack(f"<{len(streams)}I", *streams)


def decode_head(body: bytes) -> Head:
    """Decodes the header. Raises XX001 for a format that this release cannot read."""
    form, last, commit_time, schema_version, end, count = HEAD.unpack_from(body)
    if form != FORMAT:
        raise SqlError("XX001", f"a row of changes has format {form}, this release reads {FORMAT}")
    streams = struct.unpack_from(f"<{count}I", body, HEAD.size)
    return Head(bool(last), commit_time, schema_version, end, streams, HEAD.size + 4 * count)


Change = tuple[int, int, bytes, bytes | None, bytes | None]
"""Operation, shape, key without its storage id, row before, row after."""


def decode_changes(body: bytes, place: int) -> Iterator[Change]:
    """The changes in a body from a position on."""
    end, size, unpack = len(body), CHANGE.size, CHANGE.unpack_from
    while place < end:
        operation, shape, key_length, before_length, after_length = unpack(body, place)
        place += size
        key = body[place : place + key_length]
        place += key_length
        before = after = None
        if before_length != NONE:
            before = body[place : place + before_length]
            place += before_length
        if after_length != NONE:
            after = body[place : place + after_length]
            place += after_length
        yield operation, shape, key, before, after


def size_of(body: bytes) -> int:
    """The number of bytes that a part adds to `end`: its changes, and the changes that they refer to."""
    place = decode_head(body).place
    changes = decode_changes(body, place)
    referred: int = sum(REFERRED.unpack(key)[2] for kind, _, key, _, _ in changes if kind == REFERENCE)
    return len(body) - place + referred
