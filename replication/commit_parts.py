"""The list of parts in an entry whose transaction has entries in several tablespaces.

Such an entry has the flag JOINT (replication/entry.py), and before its body the list of all parts, its own among them:

    count          u16
    count times    tablespace 16s, lsn u64

little-endian, behind the names of files if the entry has those too. With local changelogs each part is durable in a log
of its own, so only this list shows after a crash whether the transaction is complete. An entry of which a part is
missing was never committed, because it is acknowledged when all parts are durable; it is cut off with everything behind
it (replication/local.py).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from catalog.errors import SqlError

Parts = tuple[tuple[bytes, int], ...]
"""(tablespace id, LSN) of every part of a transaction."""

_COUNT = struct.Struct("<H")
_PART = struct.Struct("<16sQ")


def encode_parts(tablespaces: Sequence[bytes], lsns: Sequence[int]) -> bytes:
    """The list of parts that stands before the body of each part's entry."""
    parts = [_PART.pack(*part) for part in zip(tablespaces, lsns, strict=True)]
    return b"".join((_COUNT.pack(len(parts)), *parts))


def split_parts(body: bytes) -> tuple[Parts, bytes]:
    """The parts, and the body proper. Raises XX001 for a body that is too short to have them."""
    try:
        (count,) = _COUNT.unpack_from(body)
        end = _COUNT.size + count * _PART.size
        parts = tuple(_PART.unpack_from(body, place) for place in range(_COUNT.size, end, _PART.size))
        return parts, body[end:]
    except struct.error:
        raise SqlError("XX001", "a changelog entry does not say what the parts of its transaction are") from None
