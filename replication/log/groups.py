"""What is on its way from `submit` to the head: entries, objects, groups of objects, and the multi that commits them.

Submission   an entry that waits to be put into an object
GroupObject  entries in one object of one tablespace, on its way to the store or there
Group        the objects that were cut at one moment: of one tablespace, or of several that joint entries tie.
             It is committed by one multi, whole.
Multi        groups, in order, that one request commits
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from replication.interface import Check, Head, HeadObject, Operation, Set
from replication.log.interface import Joint
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
    joint: Joint | None
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
        """Nobody will await the first try: the object is not wanted any more, nor how the try ended."""
        sent = self.take_sent()
        if isinstance(sent, Coroutine):
            sent.close()
        elif isinstance(sent, asyncio.Future) and not sent.cancel() and not sent.cancelled():
            sent.exception()


@dataclass(slots=True, eq=False)
class Group:
    parts: dict[LeaderLog, list[GroupObject]] = field(default_factory=dict)
    dropped: bool = False  # it will never be committed

    @property
    def stored(self) -> bool:
        return all(item.stored for objects in self.parts.values() for item in objects)


@dataclass(frozen=True, slots=True)
class Part:
    """What a multi does to one tablespace."""

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
    parts: dict[LeaderLog, Part]
    began: float  # clock time
    in_flight: bool = False
    doubtful: bool = False  # a request may have been carried out, or may still be
    final: bool = False  # it is not to be tried again: only what has become of it is to be found out

    @property
    def operations(self) -> list[Operation]:
        """A check and a set for each tablespace, in the order of `parts`."""
        operations: list[Operation] = []
        for log, part in self.parts.items():
            where = paths(log.tablespace)
            operations.append(Check(where.epoch, part.epoch_version))
            operations.append(Set(where.head, encode_head(part.head), part.head_version))
        return operations


def make_part(log: LeaderLog, groups: Sequence[Group]) -> Part:
    """Carries the head of a tablespace over its objects in the groups, which are the next ones."""
    objects = [item for group in groups for item in group.parts[log]]
    last = objects[-1]
    recent = (*log.head.recent, *(item.item for item in objects))[-RECENT:]
    head = Head(last.item.last, log.epoch.epoch, last.hash.hex(), last.commit_time, last.ledger_bytes, recent)
    return Part(head, log.head_version, log.epoch_version, objects, len(groups))
