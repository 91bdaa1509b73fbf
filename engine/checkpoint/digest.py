"""The digest of a tablespace at one LSN. It is equal on every replica; a different one shows damage.

It covers every key and value of every storage id in order: rows, index entries, sequences and the catalog. Dropped
tables are left out, because each replica deletes them at another time. A thread computes it while writers continue.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from engine.bulk.thread import BulkThread
from engine.checkpoint.capture import Capture, Pause
from engine.checkpoint.exact import ContentHash
from engine.priority import Pace

if TYPE_CHECKING:
    from engine.storage.tablespace import Tablespace

DIGEST_REST = 1.0  # see engine.priority.Pace; shorter than for a backup, because a session waits for all digests

Compare = Callable[[Capture, BulkThread, Pause], Awaitable[tuple[int, tuple[tuple[str, str], ...]]]]
"""engine.columnar_checks.CopyChecks.compare."""


@dataclass(frozen=True, slots=True)
class Digest:
    """`parts`: storage id -> (keys, hexadecimal hash). Storage ids without keys are left out. `copies`: the number of
    tables whose columns in the analytic worker were compared with the rows. `wrong_copies`: the names of the tables
    whose columns differ, each with the difference. Both are about this node only."""

    lsn: int
    total: str
    parts: dict[int, tuple[int, str]]
    copies: int = field(default=0, compare=False)
    wrong_copies: tuple[tuple[str, str], ...] = field(default=(), compare=False)


async def digest(store: Tablespace, lsn: int | None = None) -> Digest:
    """The digest at the present durable LSN, or at one that is still kept. The state is captured before the first wait.

    Raises 72000 for an LSN that is no longer kept.
    """
    return await digest_of(Capture.take(store, lsn))


async def digest_of(capture: Capture, compare: Compare | None = None) -> Digest:
    """The digest of a captured state. Calls `compare` with the state first. Closes the capture."""
    thread = BulkThread("digest")
    pace = Pace(DIGEST_REST)
    try:
        await thread.run(capture.resolve, pace.pause)
        capture.release()
        copies, wrong = (0, ()) if compare is None else await compare(capture, thread, pace.pause)
        found = await thread.run(_compute, capture, pace.pause)
        return replace(found, copies=copies, wrong_copies=wrong)
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
