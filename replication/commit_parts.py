"""The list of parts in an entry whose transaction has entries in several tablespaces.

Such an entry has the flag JOINT (replication/entry.py), and before its body the list of all parts, including its own:

    count          u16
    count times    tablespace 16s, lsn u64

little-endian, after the names of files if the entry has those too. With local changelogs each part is durable in a log
of its own, so after a crash only this list shows whether the transaction is complete. An entry with a missing part was
never committed, because a transaction is acknowledged when all parts are durable; it is removed with all later entries
(replication/local.py).
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
    """The list of parts before the body of each part's entry."""
    parts = [_PART.pack(*part) for part in zip(tablespaces, lsns, strict=True)]
    return b"".join((_COUNT.pack(len(parts)), *parts))


def split_parts(body: bytes) -> tuple[Parts, bytes]:
    """The parts, and the body itself. Raises XX001 for a body that is too short."""
    try:
        (count,) = _COUNT.unpack_from(body)
        end = _COUNT.size + count * _PART.size
        parts = tuple(_PART.unpack_from(body, place) for place in range(_COUNT.size, end, _PART.size))
        return parts, body[end:]
    except struct.error:
        raise SqlError("XX001", "a changelog entry does not say what the parts of its transaction are") from None
