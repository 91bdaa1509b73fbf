"""The steps of a commit between `submit` and the head: entries, objects, groups of objects, and the multi.

Submission   an entry that waits to be put into an object
GroupObject  an object with entries of one tablespace, on its way to the store or stored
CommitGroup  the objects that were cut at one moment: of one tablespace, or of several that joint entries tie.
             It is committed by one multi, whole.
Multi        groups, in order, that one request commits
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from replication.interface import Check, Head, HeadObject, Operation, Set
from replication.log.interface import MultiTablespaceCommit
from replication.log.layout import RECENT, encode_head, paths

if TYPE_CHECKING:
    from replication.log.leader import LeaderLog


@dataclass(frozen=True, slots=True)
class Submission:
    lsn: int
    body: bytes
    commit_time: int
    schema_version: int
    files: Sequence[str]
    joint: MultiTablespaceCommit | None
    at: float  # clock time


@dataclass(slots=True, eq=False)
class GroupObject:
    item: HeadObject
    name: str  # in the store
    data: bytes
    files: tuple[str, ...]  # that its entries refer to
    hash: bytes  # of the last entry
    commit_time: int  # of the last entry
    body_bytes: int
    ledger_bytes: int  # of its ledger, this object included
    oldest: float  # clock time at which its first entry was submitted
    stored: bool = False
    sent: Awaitable[None] | None = None  # the first try, until a task takes it over

    def take_sent(self) -> Awaitable[None] | None:
        sent, self.sent = self.sent, None
        return sent

    def drop_sent(self) -> None:
        """Drops the first try without awaiting it, because the object is not needed any more."""
        sent = self.take_sent()
        if isinstance(sent, Coroutine):
            sent.close()
        elif isinstance(sent, asyncio.Future) and not sent.cancel() and not sent.cancelled():
            sent.exception()


@dataclass(slots=True, eq=False)
class CommitGroup:
    parts: dict[LeaderLog, list[GroupObject]] = field(default_factory=dict)
    dropped: bool = False  # it will never be committed

    @property
    def is_stored(self) -> bool:
        return all(item.stored for objects in self.parts.values() for item in objects)


@dataclass(frozen=True, slots=True)
class HeadUpdate:
    """The update of one tablespace's head in a multi."""

    head: Head
    head_version: int  # that is replaced
    epoch_version: int
    objects: list[GroupObject]
    groups: int

    @property
    def commit_id(self) -> str:
        return self.objects[-1].item.commit_id


@dataclass(slots=True, eq=False)
class Multi:
    parts: dict[LeaderLog, HeadUpdate]
    began: float  # clock time
    in_flight: bool = False
    doubtful: bool = False  # a request may have been executed, or may still be
    final: bool = False  # it is not retried: only its outcome must still be read

    @property
    def operations(self) -> list[Operation]:
        """A check and a set for each tablespace, in the order of `parts`."""
        operations: list[Operation] = []
        for log, part in self.parts.items():
            where = paths(log.tablespace)
            operations.append(Check(where.epoch, part.epoch_version))
            operations.append(Set(where.head, encode_head(part.head), part.head_version))
        return operations


def make_head_update(log: LeaderLog, groups: Sequence[CommitGroup]) -> HeadUpdate:
    """The update that moves the head of a tablespace after its objects in the groups, which are the next ones."""
    objects = [item for group in groups for item in group.parts[log]]
    last = objects[-1]
    recent = (*log.head.recent, *(item.item for item in objects))[-RECENT:]
    head = Head(last.item.last, log.epoch.epoch, last.hash.hex(), last.commit_time, last.ledger_bytes, recent)
    return HeadUpdate(head, log.head_version, log.epoch_version, objects, len(groups))
