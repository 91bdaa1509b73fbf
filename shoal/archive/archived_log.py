"""Pieces of an archived changelog: the entries of a segment or a ledger, one after the other.

Reading verifies everything: checksum, tablespace, LSNs without a gap, and the chain of hashes from entry to entry, also
across pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from catalog.errors import SqlError
from replication.commit_parts import Parts, split_parts
from replication.entry import HAS_FILES, HEADER_SIZE, JOINT, decode_header, entry_hash, flags_and_length, verify
from replication.log.ledger_object import split_files
from shoal.archive.layout import damaged_backup_error


@dataclass(frozen=True, slots=True)
class ArchivedEntry:
    """engine.past.replay.PastEntry."""

    lsn: int
    commit_time: int  # microseconds since 2000-01-01 UTC
    body: bytes
    parts: Parts
    previous: bytes
    hash: bytes


def entries_of(data: bytes, name: str, first: int, last: int, tablespace: bytes) -> Iterator[ArchivedEntry]:
    """The entries of a piece, each verified before it is returned. Raises XX001."""
    view = memoryview(data)
    offset, known = 0, b""
    for lsn in range(first, last + 1):
        header = decode_header(view, offset)
        try:
            whole = header is not None and verify(view, offset, header)
        except SqlError as error:  # of a newer format
            raise damaged_backup_error(f'"{name}": {error.message}') from error
        if header is None or not whole or header.lsn != lsn or (known and header.previous != known):
            raise damaged_backup_error(f'entry {lsn} in "{name}" cannot be read')
        if header.tablespace != tablespace:
            raise damaged_backup_error(f'"{name}" belongs to another tablespace')
        end = offset + HEADER_SIZE + header.length
        known = entry_hash(view[offset:end])
        body = data[offset + HEADER_SIZE : end]
        parts: Parts = ()
        if header.flags & HAS_FILES:
            _, body = split_files(body)
        if header.flags & JOINT:
            parts, body = split_parts(body)
        yield ArchivedEntry(lsn, header.commit_time, body, parts, header.previous, known)
        offset = end
    if offset != len(data):
        raise damaged_backup_error(f'"{name}" is longer than its entries')


def bodies_of(data: bytes) -> Iterator[bytes]:
    """The bodies of the entries of a verified piece."""
    offset = 0
    while offset < len(data):
        flags, length = flags_and_length(data, offset)
        offset += HEADER_SIZE + length
        body = data[offset - length : offset]
        if flags & HAS_FILES:
            _, body = split_files(body)
        if flags & JOINT:
            _, body = split_parts(body)
        yield body


def part_of(data: bytes, begin: int, first: int, last: int) -> tuple[bytes, bytes]:
    """The bytes of the entries `first` to `last` of a verified piece that begins with the entry `begin`, and the hash
    of the entry before them."""
    offset, start, previous = 0, 0, b""
    for lsn in range(begin, last + 1):
        header = decode_header(data, offset)
        assert header is not None
        if lsn == first:
            start, previous = offset, header.previous
        offset += HEADER_SIZE + header.length
    return data[start:offset], previous
