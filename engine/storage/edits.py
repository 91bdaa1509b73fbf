"""The changes of one commit, and their form as the body of a changelog entry.

    0  format     u8   1
    1  packing    u8   0 plain, 1 LZ4 (then a u32 with the size of the plain rest precedes the packed rest)
    2  edits      u32  n
    6  runs       u32  r
    10 drops      u32  d
       key lengths     n x u16
       value lengths   n x u32, 0xFFFFFFFF for a deletion
       dropped ids     d x u32
       keys            one after the other
       values          one after the other
       runs            r x (u16 length of the name, name in UTF-8, u64 rows, u32 checksum)

All little-endian. Lengths are separate from bytes so that a body is made by one `struct.pack` and one `join`. Order:
first the runs (bulk segments, engine/storage/runs.py, each in key order), then the edits in their original order, then
the drops; a later change of a key wins. Followers and change streams apply this order.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa

from catalog.errors import SqlError

FORMAT = 1
DELETED = 0xFFFFFFFF
PACK_FROM = 16 << 10  # smaller bodies cost more time to pack than to write

_HEAD = struct.Struct("<BBIII")
_SIZE = struct.Struct("<I")
_RUN_NAME = struct.Struct("<H")
_RUN_SIZE = struct.Struct("<QI")
_PREFIX = 2
_lz4: Any = pa.Codec("lz4_raw")


@dataclass(frozen=True, slots=True)
class RunReference:
    """A bulk segment of a commit: its name (Changelog.bulk_path), its number of keys, its file's CRC32C."""

    name: str
    rows: int
    checksum: int = 0


@dataclass(slots=True)
class Edits:
    """One commit. `writes`: key -> value, None for a deletion. `drops`: storage ids whose whole range is deleted."""

    writes: dict[bytes, bytes | None] = field(default_factory=dict)
    runs: list[RunReference] = field(default_factory=list)
    drops: list[int] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.writes or self.runs or self.drops)

    def encode(self) -> bytes:
        """The entry's body."""
        writes = self.writes
        values = writes.values()
        count = len(writes)
        lengths = [DELETED if value is None else len(value) for value in values]
        if DELETED in lengths:
            values = [value or b"" for value in values]  # type: ignore[assignment]
        plain = b"".join(
            (
                _lengths(count).pack(FORMAT, 0, count, len(self.runs), len(self.drops), *map(len, writes), *lengths),
                struct.pack(f"<{len(self.drops)}I", *self.drops) if self.drops else b"",
                *writes,
                *values,  # type: ignore[arg-type]
                *map(_encode_run, self.runs),
            )
        )
        if len(plain) < PACK_FROM:
            return plain
        packed = _lz4.compress(plain[_PREFIX:], asbytes=True)
        if len(packed) > len(plain) * 7 // 8:
            return plain
        return b"".join((bytes((FORMAT, 1)), _SIZE.pack(len(plain) - _PREFIX), packed))

    @classmethod
    def decode(cls, body: bytes) -> Edits:
        """The edits of an entry's body. Raises XX001 for one that this release cannot read."""
        if body[0] != FORMAT or body[1] > 1:
            raise SqlError("XX001", f"changelog body has format {body[0]}.{body[1]}, this release reads {FORMAT}.1")
        if body[1]:
            (size,) = _SIZE.unpack_from(body, _PREFIX)
            rest = _lz4.decompress(body[_PREFIX + _SIZE.size :], decompressed_size=size, asbytes=True)
            body = body[:_PREFIX] + rest
        _, _, count, runs, drops = _HEAD.unpack_from(body)
        header = _lengths(count)
        lengths = header.unpack_from(body)[5:]
        place = header.size
        dropped = list(struct.unpack_from(f"<{drops}I", body, place)) if drops else []
        place += 4 * drops
        keys = []
        for length in lengths[:count]:
            keys.append(body[place : place + length])
            place += length
        writes: dict[bytes, bytes | None] = {}
        for key, length in zip(keys, lengths[count:], strict=True):
            if length == DELETED:
                writes[key] = None
            else:
                writes[key] = body[place : place + length]
                place += length
        return cls(writes, list(_decode_runs(body, place, runs)), dropped)


def runs_of(body: bytes) -> list[RunReference]:
    """The bulk segments that an entry's body refers to; reads only the header if there are none."""
    if body[0] == FORMAT and body[1] == 0 and _HEAD.unpack_from(body)[3] == 0:
        return []
    return Edits.decode(body).runs


@lru_cache(maxsize=4096)
def _lengths(count: int) -> struct.Struct:
    return struct.Struct(f"{_HEAD.format}{count}H{count}I")


def _encode_run(run: RunReference) -> bytes:
    name = run.name.encode()
    return b"".join((_RUN_NAME.pack(len(name)), name, _RUN_SIZE.pack(run.rows, run.checksum)))


def _decode_runs(body: bytes, place: int, count: int) -> Iterator[RunReference]:
    for _ in range(count):
        (length,) = _RUN_NAME.unpack_from(body, place)
        place += _RUN_NAME.size
        name = body[place : place + length].decode()
        rows, checksum = _RUN_SIZE.unpack_from(body, place + length)
        place += length + _RUN_SIZE.size
        yield RunReference(name, rows, checksum)
