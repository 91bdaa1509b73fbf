"""Segment files of the local changelog: their header, and the search and verification of entries.

A segment is a header block of 4 KiB, then entries one after the other, then zeros or, in a reused file, entries of an
older part of the chain. Its name is its first LSN (20 digits, so that names sort as numbers). The header repeats that
LSN and contains the hash of the entry before it, so that the chain continues across files.

Reading stops at the first place where the chain is interrupted. That is the torn tail of a write that was never
acknowledged, unless there is proof that the missing entry was durable once (`later_entries`): then it is damage.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import google_crc32c

from catalog.errors import SqlError
from catalog.records import dataclass
from replication.commit_parts import Parts, split_parts
from replication.entry import HEADER_SIZE, JOINT, MAGIC, EntryHeader, decode_header, entry_hash, verify

BLOCK = 4096
FORMAT = 1
SUFFIX = ".segment"
_SEGMENT = struct.Struct("<8sIQ16s16s")
_CRC = struct.Struct("<I")
_SEGMENT_MAGIC = b"SHLSEGM\0"


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """A verified entry; `end` is the offset after it in its segment, `parts` those of its transaction if it has several
    (replication/commit_parts.py), including its own."""

    end: int
    header: EntryHeader
    body: bytes
    hash: bytes
    parts: Parts = ()


def damaged_changelog_error(what: str) -> SqlError:
    return SqlError("XX001", f"changelog is damaged: {what}", hint="Restore from a checkpoint or another replica.")


def segment_name(first_lsn: int) -> str:
    return f"{first_lsn:020d}{SUFFIX}"


def list_segments(directory: str) -> list[int]:
    """The first LSNs of all segments, in order."""
    return sorted(int(name[: -len(SUFFIX)]) for name in os.listdir(directory) if name.endswith(SUFFIX))


def encode_segment_header(first_lsn: int, tablespace: bytes, previous: bytes) -> bytes:
    fields = _SEGMENT.pack(_SEGMENT_MAGIC, FORMAT, first_lsn, tablespace, previous)
    return (fields + _CRC.pack(google_crc32c.value(fields))).ljust(BLOCK, b"\0")


def decode_segment_header(data: memoryview, first_lsn: int, tablespace: bytes) -> bytes:
    """The hash of the entry before this segment's first. Raises XX001 if this is not the segment of that name."""
    fields = bytes(data[: _SEGMENT.size])
    name = segment_name(first_lsn)
    if len(data) < BLOCK or _CRC.unpack_from(data, _SEGMENT.size)[0] != google_crc32c.value(fields):
        raise damaged_changelog_error(f"segment {name} has a broken header")
    magic, version, stored_lsn, stored_tablespace, previous = _SEGMENT.unpack(fields)
    if magic != _SEGMENT_MAGIC or stored_lsn != first_lsn:
        raise damaged_changelog_error(f"segment {name} has the header of another one")
    if version != FORMAT:
        raise SqlError("XX001", f"segment {name} has format {version}, this release reads up to {FORMAT}")
    if stored_tablespace != tablespace:
        raise SqlError("XX001", f"segment {name} belongs to another tablespace")
    assert isinstance(previous, bytes)
    return previous


@contextmanager
def map_file(path: str) -> Iterator[memoryview]:
    """The file's bytes, read-only, for the time of the `with`."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            yield memoryview(b"")
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as pages:
            view = memoryview(pages)
            try:
                yield view
            finally:
                view.release()


def chain_entries(
    data: memoryview, first_lsn: int, previous: bytes, tablespace: bytes, offset: int = BLOCK
) -> Iterator[SegmentEntry]:
    """Every entry of the chain in a segment from the one at `offset` on, verified, up to the first interruption.
    `previous`: the hash of the entry before."""
    lsn = first_lsn
    while True:
        header = decode_header(data, offset)
        if header is None or header.lsn != lsn or header.previous != previous or header.tablespace != tablespace:
            return
        if not verify(data, offset, header):
            return
        end = offset + HEADER_SIZE + header.length
        previous = entry_hash(data[offset:end])
        body = bytes(data[offset + HEADER_SIZE : end])
        parts: Parts = ()
        if header.flags & JOINT:
            parts, body = split_parts(body)
        yield SegmentEntry(end, header, body, previous, parts)
        lsn, offset = lsn + 1, end


def later_entries(data: memoryview, offset: int, lsn: int, tablespace: bytes) -> Iterator[EntryHeader]:
    """The headers of whole entries after `offset` that are later than `lsn`, at any place.

    One whose `committed` is above `lsn` proves that the entry after `lsn` was durable once.
    """
    text = data.obj
    find = text.find if isinstance(text, mmap.mmap) else bytes(data).find
    at = find(MAGIC, offset)
    while at >= 0:
        header = decode_header(data, at)
        if header is not None and header.lsn > lsn and header.tablespace == tablespace and verify(data, at, header):
            yield header
        at = find(MAGIC, at + 1)
