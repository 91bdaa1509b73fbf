"""Computes from an object's name which members of a quorum hold it. The result is not stored.

Members form a ring. A folder's ensemble is E consecutive ones; of these W consecutive ones hold an object. The ensemble
moves by one from ledger to ledger, and within it from object to object, to spread load and space:

    members a b c d, E=3, W=2            ledger 7 starts at b: ensemble b c d, objects go to bc, cd or db

If members cannot be reached, the next ones in the order replace them. So any member may hold an object: readers first
ask the members that should have it, then all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from replication.stores.log_protocol import crc32c

_LEDGER = re.compile(r"(.*)/ledger-(\d{1,20})")

T = TypeVar("T")


def member_order(name: str, members: Sequence[T], ensemble: int, write: int) -> list[T]:
    """All members: the W that should hold the object, then the rest of its ensemble, then the others."""
    ring = _rotate(members, _start(name))
    chosen = ring[:ensemble]
    if write < ensemble:
        chosen = _rotate(chosen, crc32c(name.encode()))
    return chosen + ring[ensemble:]


def _start(name: str) -> int:
    folder = name.rpartition("/")[0]
    match = _LEDGER.fullmatch(folder)
    if match is None:
        return crc32c(folder.encode())
    return crc32c(match[1].encode()) + int(match[2])


def _rotate(items: Sequence[T], by: int) -> list[T]:
    by %= len(items)
    return [*items[by:], *items[:by]]
