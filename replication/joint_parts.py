"""What an entry says of the other parts of its transaction, where that has several tablespaces' entries.

Such an entry has the flag JOINT (replication/entry.py), and before its body the parts, its own among them:

    count          u16
    count times    tablespace 16s, lsn u64

little-endian, behind the names of files where the entry has those too. With local changelogs nothing but this tells
after a crash whether the transaction is whole: each part is durable in a log of its own. So an entry of which a part is
missing was never committed (nobody was told of it before all parts were durable), and is cut off with everything behind
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
    """What stands before the body of each part's entry."""
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
