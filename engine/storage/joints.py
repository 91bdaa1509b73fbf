"""After a crash: which transactions over several tablespaces were committed.

Each part of such a transaction is durable in the changelog of its own tablespace, and nobody is told of it before all
parts are. So a part whose other parts are all there counts, and one that lacks another does not, nor does what stands
behind it in its changelog, which was not acknowledged either (replication/local.py). Taking that off may take a part of
a third transaction away, and so on until nothing changes: `decide` finds where every changelog ends.

What a changelog no longer has because it is in its tablespace's checkpoint was durable in all parts. A tablespace that
is not here has been dropped: before it was, everything sequenced in it was durable, so its parts count as there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.storage.interface import LocalLog
from engine.storage.tablespace import Tablespace


@dataclass(slots=True)
class Recovering:
    """A tablespace that is prepared and not yet recovered, with its changelog."""

    tablespace: Tablespace
    changelog: LocalLog


def decide(found: Iterable[Recovering]) -> None:
    """Cuts every changelog off before its first part of a transaction that was not committed. Raises XX001 where that
    would take off what was acknowledged: another tablespace has lost its part."""
    here = {item.tablespace.tablespace_id: item for item in found}
    ends = {name: max(item.tablespace.flushed_lsn, item.changelog.last_lsn or 0) for name, item in here.items()}
    joints = {name: list(item.changelog.joints(item.tablespace.flushed_lsn)) for name, item in here.items()}
    changed = True
    while changed:
        changed = False
        for name, entries in joints.items():
            end = _end(entries, ends, ends[name])
            changed |= end < ends[name]
            ends[name] = end
    for name, item in here.items():
        item.changelog.cut(ends[name])


def _end(entries: Sequence[tuple[int, tuple[tuple[bytes, int], ...]]], ends: dict[bytes, int], end: int) -> int:
    """The last LSN, up to `end`, of a changelog before the first entry that lacks a part."""
    for lsn, parts in entries:
        if lsn > end:
            break
        if any(part > ends.get(tablespace, part) for tablespace, part in parts):
            return lsn - 1
    return end
