"""The digest of a tablespace at one LSN: equal on every replica, or one of them is wrong.

It covers every key and value of every storage id in order (those of dropped tables left out, which each replica deletes
in its own time), so rows, index entries, sequences and the catalog. It reads beside writers, in a thread.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from engine.bulk.thread import BulkThread
from engine.checkpoint.capture import Capture
from engine.checkpoint.exact import ContentHash
from engine.priority import LONGEST_REST

if TYPE_CHECKING:
    from engine.storage.tablespace import Tablespace


@dataclass(frozen=True, slots=True)
class Digest:
    """`parts`: storage id -> (keys, hexadecimal hash); storage ids without keys are not in it."""

    lsn: int
    total: str
    parts: dict[int, tuple[int, str]]


async def digest(store: Tablespace, lsn: int | None = None) -> Digest:
    """The digest at the durable LSN of now, or at one that is still kept. The state is taken before the first wait.

    Raises 72000 for an LSN that is no longer kept.
    """
    return await digest_of(Capture.take(store, lsn))


async def digest_of(capture: Capture) -> Digest:
    """The digest of a captured state, which is closed."""
    thread = BulkThread("digest")
    try:
        await thread.run(capture.resolve)
        capture.release()
        return await thread.run(_compute, capture)
    finally:
        capture.release()
        thread.at_end(capture.close)
        thread.close()


def _compute(capture: Capture) -> Digest:
    parts: dict[int, tuple[int, str]] = {}
    whole = blake2b(digest_size=16)
    for storage_id in capture.storage_ids():
        content = ContentHash()
        for keys, values in capture.batches(storage_id, pause=_rest):
            content.add(keys, values)
        if content.rows:
            parts[storage_id] = (content.rows, content.hexdigest())
            whole.update(f"{storage_id}:{content.rows}:{content.hexdigest()};".encode())
    return Digest(capture.lsn, whole.hexdigest(), parts)


def _rest(worked: float) -> None:
    time.sleep(min(worked, LONGEST_REST))
