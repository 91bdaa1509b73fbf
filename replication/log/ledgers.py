"""The ledger list: the runs of entries, their places, and their retention. ledger_list.py stores it.

    [1: 1-900 closed] [2: 901-901 closed] [3: 902- open]          ids grow and are never reused

The last element is the open ledger, unless there is no leader. Before it there may be another one without a last LSN,
when the leader has rolled: it opened the next ledger before the entries at the end of the old one were committed. That
ledger ends before the next one begins, and at the head if nothing was committed after it. A takeover closes everything
at head, and leaves empty ledgers in the list (first = head + 1, last = head) until they age, so that an id is never
reused: objects of a dead leader may still arrive under it.

**Retention.** A ledger may be dropped, with all objects of its folder, when it has been closed for its time to live,
the oldest kept checkpoint covers it, and no replica that is live, or was lost a short while ago, needs it. It is first
removed from the list (under the epoch) and then from the store. After a crash between the two, `delete_dropped_ledgers`
finds the folders of ledgers that are no longer listed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from replication.interface import ChangelogStore, Checkpoint, Head, Ledger
from replication.log.layout import ledger_folder, parse_ledger, tablespace_folder

Ledgers = tuple[Ledger, ...]


def last_lsn(ledgers: Ledgers, index: int, head: int) -> int:
    """The last LSN that is committed in a ledger; first - 1 if there is none."""
    ledger = ledgers[index]
    if ledger.last is not None:
        return ledger.last
    following = ledgers[index + 1 : index + 2]
    end = following[0].first - 1 if following else head
    return max(min(end, head), ledger.first - 1)


def close_all(ledgers: Ledgers, head: Head, now: int) -> Ledgers:
    """The ledgers with all of them closed at head. `now` in microseconds since 2000-01-01 UTC."""
    closed = []
    for index, ledger in enumerate(ledgers):
        if ledger.last is None:
            last = last_lsn(ledgers, index, head.lsn)
            size = head.bytes if last == head.lsn and last >= ledger.first else ledger.bytes
            first = min(ledger.first, last + 1, head.lsn + 1)
            ledger = replace(ledger, first=first, last=min(last, head.lsn), bytes=size, closed=now)  # noqa: PLW2901
        closed.append(ledger)
    return tuple(closed)


def open_next(ledgers: Ledgers, epoch: int, first: int, store: str) -> Ledgers:
    """The ledgers with a new open one at the end that begins with the LSN `first`."""
    number = ledgers[-1].ledger + 1 if ledgers else 1
    return (*ledgers, Ledger(number, epoch, first, store=store))


def close_committed(ledgers: Ledgers, head: int, sizes: Mapping[int, int], now: int) -> Ledgers:
    """Closes the ledgers before the last one whose entries are all committed. `sizes`: bytes by ledger."""
    closed = []
    for index, ledger in enumerate(ledgers):
        if ledger.last is None and index + 1 < len(ledgers) and ledgers[index + 1].first - 1 <= head:
            last = ledgers[index + 1].first - 1
            size = sizes.get(ledger.ledger, ledger.bytes)
            ledger = replace(ledger, last=last, bytes=size, closed=now)  # noqa: PLW2901
        closed.append(ledger)
    return tuple(closed)


def last_of_epoch(ledgers: Ledgers, epoch: int) -> int | None:
    """The last LSN committed up to the end of an epoch that another one has followed; None if it is no longer known."""
    for before, after in pairwise(ledgers):
        if before.epoch <= epoch < after.epoch:
            return before.last
    return None


@dataclass(frozen=True, slots=True)
class Needs:
    """The reasons to keep ledgers. `flushed`: the LSN that each replica has in its own tables, by node."""

    checkpoints: Sequence[Checkpoint]
    flushed: Mapping[str, int]
    time_to_live: float  # seconds


def droppable_ledgers(ledgers: Ledgers, needs: Needs, now: int) -> list[Ledger]:
    """The oldest ledgers that are not needed, oldest first; never the last of the list.

    `now` in microseconds since 2000-01-01 UTC. Without any checkpoint nothing is dropped: a new replica could not
    start.
    """
    if not needs.checkpoints:
        return []
    covered = min(checkpoint.lsn for checkpoint in needs.checkpoints)
    limit = min([covered, *needs.flushed.values()])
    born = now - int(needs.time_to_live * 1_000_000)
    found = []
    for ledger in ledgers[:-1]:
        if ledger.last is None or ledger.last > limit or ledger.closed > born:
            break
        found.append(ledger)
    return found


async def delete_dropped_ledgers(store: ChangelogStore, tablespace: bytes, oldest: int) -> list[int]:
    """Deletes the folders of ledgers that are no longer in the list, which are those before its oldest one; returns
    their numbers.

    `oldest` must have been read while this node led. Raises StoreUnavailableError.
    """
    dropped: list[int] = []
    after = ""
    while (number := await _next_ledger(store, tablespace, after)) is not None and number < oldest:
        await store.delete_folder(ledger_folder(tablespace, number))
        dropped.append(number)
        after = ledger_folder(tablespace, number) + "~"  # sorts after everything in the folder: no name has a '~'
    return dropped


async def _next_ledger(store: ChangelogStore, tablespace: bytes, after: str) -> int | None:
    async for found in store.list(tablespace_folder(tablespace), after):
        number = parse_ledger(tablespace, found.name)
        if number is not None:
            return number
    return None
