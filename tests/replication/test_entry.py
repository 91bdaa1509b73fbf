"""The bytes of an entry: every flipped bit is noticed."""

from __future__ import annotations

import struct

import google_crc32c
import pytest

from catalog.errors import SqlError
from replication.entry import FORMAT, HEADER_SIZE, NO_HASH, decode_header, encode_entry, entry_hash, verify

TABLESPACE = bytes(range(16))


def _entry(body: bytes = b"body") -> bytes:
    return encode_entry(7, body, -5, 3, 6, 2, TABLESPACE, NO_HASH)[0]


def test_a_header_says_what_was_encoded() -> None:
    entry = _entry()
    header = decode_header(entry)
    assert header is not None
    assert (header.lsn, header.length, header.commit_time, header.schema_version) == (7, 4, -5, 3)
    assert (header.committed, header.epoch, header.tablespace, header.previous) == (6, 2, TABLESPACE, NO_HASH)
    assert verify(memoryview(entry), 0, header)
    assert entry[HEADER_SIZE:] == b"body"


def test_the_hash_chains_entries() -> None:
    entry, digest = encode_entry(7, b"body", 0, 0, 6, 1, TABLESPACE, NO_HASH)
    assert digest == entry_hash(entry)
    assert (
        encode_entry(8, b"x", 0, 0, 7, 1, TABLESPACE, digest)[0]
        != encode_entry(8, b"x", 0, 0, 7, 1, TABLESPACE, NO_HASH)[0]
    )


def test_every_flipped_bit_and_every_cut_is_noticed() -> None:
    entry = _entry()
    for position in range(len(entry)):
        for bit in range(8):
            flipped = bytearray(entry)
            flipped[position] ^= 1 << bit
            header = decode_header(flipped)
            assert header is None or not verify(memoryview(flipped), 0, header)
    for length in range(len(entry)):
        header = decode_header(entry[:length])
        assert header is None or not verify(memoryview(entry[:length]), 0, header)


def test_a_whole_entry_of_a_newer_format_is_refused_by_name() -> None:
    rest = struct.pack("<H", FORMAT + 1) + _entry()[10:]
    entry = b"SHLE" + struct.pack("<I", google_crc32c.value(rest)) + rest
    header = decode_header(entry)
    assert header is not None
    with pytest.raises(SqlError, match=f"format {FORMAT + 1}"):
        verify(memoryview(entry), 0, header)
