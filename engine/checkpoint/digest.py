"""The digest of a tablespace at one LSN. It is equal on every replica; a different one shows damage.

It covers every key and value of every storage id in order: rows, index entries, sequences and the catalog. Dropped
tables are left out, because each replica deletes them at another time. A thread computes it while writers continue.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from engine.bulk.thread import BulkThread
from engine.checkpoint.capture import Capture, Pause
from engine.checkpoint.exact import ContentHash
from engine.priority import Pace

if TYPE_CHECKING:
    from engine.storage.tablespace import Tablespace

DIGEST_REST = 1.0  # see engine.priority.Pace; less than a backup rests, for somebody waits for all replicas' digests


@dataclass(frozen=True, slots=True)
class Digest:
    """`parts`: storage id -> (keys, hexadecimal hash). Storage ids without keys are left out."""

    lsn: int
    total: str
    parts: dict[int, tuple[int, str]]


async def digest(store: Tablespace, lsn: int | None = None) -> Digest:
    """The digest at the present durable LSN, or at one that is still kept. The state is captured before the first wait.

    Raises 72000 for an LSN that is no longer kept.
    """
    return await digest_of(Capture.take(store, lsn))


async def digest_of(capture: Capture) -> Digest:
    """The digest of a captured state. Closes the capture."""
    thread = BulkThread("digest")
    pace = Pace(DIGEST_REST)
    try:
        await thread.run(capture.resolve, pace.pause)
        capture.release()
        return await thread.run(_compute, capture, pace.pause)
    finally:
        capture.release()
        thread.at_end(capture.close)
        thread.close()


def _compute(capture: Capture, pause: Pause) -> Digest:
    parts: dict[int, tuple[int, str]] = {}
    whole = blake2b(digest_size=16)
    for storage_id in capture.storage_ids():
        content = ContentHash()
        for keys, values in capture.batches(storage_id, pause=pause):
            pause()
            content.add(keys, values)
        if content.rows:
            parts[storage_id] = (content.rows, content.hexdigest())
            whole.update(f"{storage_id}:{content.rows}:{content.hexdigest()};".encode())
    return Digest(capture.lsn, whole.hexdigest(), parts)
