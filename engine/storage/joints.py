"""Decides which transactions over several tablespaces were committed: after a crash, and as of a moment (`whole`).

Each part of such a transaction is durable in the changelog of its own tablespace, and the transaction is acknowledged
when all parts are durable. So a part counts if all other parts exist. A part that lacks another does not count, and
neither do the later entries of its changelog, which were not acknowledged either (replication/local.py). Their removal
may remove a part of a third transaction, and so on: `decide` finds the end of every changelog.

Entries that a changelog no longer has, because they are in its tablespace's checkpoint, were durable in all parts. A
tablespace that does not exist has been dropped: before the drop everything sequenced in it was durable, so its parts
count as present.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from engine.storage.interface import LocalLog
from engine.storage.tablespace import Tablespace

Key = TypeVar("Key", bound=Hashable)


def whole(ends: Mapping[Key, int], fixed: Key, joints: Sequence[Mapping[Key, int]]) -> dict[Key, int]:
    """The LSNs of tablespaces at which every transaction over several is visible whole or not at all: `ends`, moved
    back if necessary. `fixed` keeps its LSN, and decides about transactions with a part in it. Each of `joints` has the
    LSNs of one transaction's parts; they have one order in all tablespaces."""
    bounds = {fixed: ends[fixed]}
    left = list(joints)
    while out := [parts for parts in left if any(lsn > bounds[key] for key, lsn in parts.items() if key in bounds)]:
        left = [parts for parts in left if not any(parts is other for other in out)]
        for parts in out:
            for key, lsn in parts.items():
                if key != fixed:
                    bounds[key] = min(bounds.get(key, lsn - 1), lsn - 1)
    found = {key: min(end, bounds.get(key, end)) for key, end in ends.items()}
    here = [{key: lsn for key, lsn in parts.items() if key in found} for parts in left]
    while torn := [
        parts
        for parts in here
        if any(lsn <= found[key] for key, lsn in parts.items()) and any(lsn > found[key] for key, lsn in parts.items())
    ]:
        for parts in torn:
            found.update({key: max(found[key], lsn) for key, lsn in parts.items()})
    return found


@dataclass(slots=True)
class Recovering:
    """A tablespace that is prepared and not yet recovered, with its changelog."""

    tablespace: Tablespace
    changelog: LocalLog


def decide(found: Iterable[Recovering]) -> None:
    """Cuts every changelog before its first part of a transaction that was not committed. Raises XX001 if that would
    remove acknowledged entries: another tablespace has lost its part."""
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
