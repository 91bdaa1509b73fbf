"""Faults that are planted into the log's code, to see that the simulation notices them (`PLANTS`).

Each is a function that patches the code for as long as its MonkeyPatch lives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from catalog.errors import SqlError
from replication.interface import Coordination, Head, LedgerList, Operation, Set
from replication.log import follower, leader, ledger_list, objects
from replication.log.committer import Committer
from replication.log.groups import CommitGroup, Multi
from replication.log.layout import encode_head, paths
from replication.log.leader import LeaderLog
from replication.log.ledgers import Ledgers
from tests.replication.log.links import NodeSession
from tests.replication.log.world import World
from tests.replication.memory_store import MemoryStore

SYNCED_EVERY = 8  # objects of a store that loses what it has not synced


def no_epoch_check(patch: pytest.MonkeyPatch) -> None:
    """A leader commits whether it still leads or not."""

    def operations(multi: Multi) -> list[Operation]:
        found: list[Operation] = []
        for log, part in multi.parts.items():
            where = paths(log.tablespace)
            found += [Set(where.head + "-unchecked", b"", -1), Set(where.head, encode_head(part.head), -1)]
        return found

    original = NodeSession.multi

    async def answer(sent: Awaitable[list[int]], left_out: bool) -> list[int]:
        versions = await sent
        return [v for version in versions for v in (0, version)] if left_out else versions

    def multi(self: NodeSession, operations: Sequence[Operation]) -> Awaitable[list[int]]:
        wanted = [operation for operation in operations if not operation.path.endswith("-unchecked")]
        return asyncio.ensure_future(answer(original(self, wanted), len(wanted) < len(operations)))

    patch.setattr(NodeSession, "multi", multi)
    patch.setattr(Multi, "operations", property(operations))


def acknowledges_what_is_stored(patch: pytest.MonkeyPatch) -> None:
    """Clients are told when the object is in the store, before the multi."""
    original = Committer.on_object_stored

    def stored(self: Committer, group: CommitGroup) -> None:
        for log, items in group.parts.items():
            if group.is_stored and log.groups[0] is group and log.state == "leading":
                log._notification.on_committed(items[-1].item.last)
        original(self, group)

    patch.setattr(Committer, "on_object_stored", stored)


def applies_past_head(patch: pytest.MonkeyPatch) -> None:
    """A follower takes what lies in the open ledger for committed."""

    def last_lsn(ledgers: Ledgers, index: int, head: int) -> int:
        last = ledgers[index].last
        return 10**9 if last is None else last

    def no_limit(*values: int) -> int:
        return values[0]

    async def find(self: Any, coordination: Any, head: Any, after: int, *, at_end: bool) -> Any:
        await self._refresh(coordination)
        try:
            return await self._list(coordination, head, after, at_end)
        except SqlError:
            return []

    patch.setattr(objects, "last_lsn", last_lsn)
    patch.setattr(objects, "min", no_limit, raising=False)
    patch.setattr(objects.ObjectMap, "find", find)


def takes_no_answer_for_failure(patch: pytest.MonkeyPatch) -> None:
    """A multi whose reply was lost counts as not carried out."""
    original = Committer._finalize

    async def settle(self: Committer, multi: Multi) -> None:
        multi.doubtful = False
        await original(self, multi)

    patch.setattr(Committer, "_finalize", settle)


def tries_again_under_another_version(patch: pytest.MonkeyPatch) -> None:
    """A refused second try counts as refused, whatever became of the first."""

    async def judge(self: Committer, multi: Multi, coordination: Coordination) -> bool:
        self._fail(multi, list(multi.parts))
        return True

    patch.setattr(Committer, "_resolve_outcome", judge)


def serves_for_ever(patch: pytest.MonkeyPatch) -> None:
    """A leader answers strong reads until it learns that it is none."""
    patch.setattr(LeaderLog, "may_serve_until", property(lambda self: float("inf") if self.leading else float("-inf")))


def commits_parts_of_joints_alone(patch: pytest.MonkeyPatch) -> None:
    """Every tablespace commits its part of a joint entry by itself."""

    def form(self: Committer, log: LeaderLog) -> bool:
        log.cut_objects(CommitGroup(), everything=False)
        return True

    patch.setattr(Committer, "cut_group", form)


def keeps_what_was_not_committed(patch: pytest.MonkeyPatch) -> None:
    """A term that is over says that everything submitted is in the log."""
    original = LeaderLog.finish_if_drained

    def check_end(self: LeaderLog) -> None:
        told = self._notification
        if told.on_deposed.__name__ != "lying":
            submitted = self

            def lying(last: int) -> None:
                told.on_committed(submitted._submitted_lsn)
                told.on_deposed(submitted._submitted_lsn)

            self._notification = leader.CommitNotification(told.on_committed, lying, told.on_unknown, told.on_lost)
        original(self)

    patch.setattr(LeaderLog, "finish_if_drained", check_end)


def applies_out_of_order(patch: pytest.MonkeyPatch) -> None:
    """A follower gives two neighbours' contents each other's places."""
    original = follower.decode_object

    def decode(*arguments: Any) -> Iterator[Any]:
        reads = list(original(*arguments))
        for one, two in zip(reads[::2], reads[1::2], strict=False):
            yield replace(one, entry=replace(one.entry, body=two.entry.body))
            yield replace(two, entry=replace(two.entry, body=one.entry.body))
        if len(reads) % 2:
            yield reads[-1]

    patch.setattr(follower, "decode_object", decode)


def loses_what_it_has_not_synced(patch: pytest.MonkeyPatch) -> None:
    """The store tells that an object is stored, and has lost it when it comes back."""
    original_put, original_down = MemoryStore.put_now, World._store_down
    unsynced: dict[int, list[str]] = {}

    def put(self: MemoryStore, name: str, data: bytes, fault: str) -> None:
        original_put(self, name, data, fault)
        names = unsynced.setdefault(id(self.objects), [])
        names.append(name)
        if len(names) > SYNCED_EVERY:
            names.clear()

    def down(self: World, server: Any) -> None:
        for name in unsynced.pop(id(self.store.objects), []):
            self.store.objects.pop(name, None)
        original_down(self, server)

    patch.setattr(MemoryStore, "put_now", put)
    patch.setattr(World, "_store_down", down)


def claims_without_comparing(patch: pytest.MonkeyPatch) -> None:
    """A candidate takes the epoch that it has thought of, whoever has taken it meanwhile."""
    original_multi, original_set = NodeSession.multi, NodeSession.set

    def blind(operation: Operation) -> Operation:
        if isinstance(operation, Set) and operation.path.endswith("/epoch"):
            return Set(operation.path, operation.data, -1)
        return operation

    def multi(self: NodeSession, operations: Sequence[Operation]) -> Awaitable[list[int]]:
        return original_multi(self, [blind(operation) for operation in operations])

    async def set_(self: NodeSession, path: str, data: bytes, version: int = -1) -> int:
        return await original_set(self, path, data, -1 if path.endswith("/epoch") else version)

    patch.setattr(NodeSession, "multi", multi)
    patch.setattr(NodeSession, "set", set_)


def reads_before_it_syncs(patch: pytest.MonkeyPatch) -> None:
    """A follower asks for the head first, and has its server catch up then."""

    async def read_fresh(self: follower.Follower, watch: bool = False) -> Head:
        head, _ = await asyncio.gather(self._read_head(self._coordination, watch), self._coordination.sync())
        return head

    patch.setattr(follower.Follower, "_read_fresh", read_fresh)


def forgets_a_segment(patch: pytest.MonkeyPatch) -> None:
    """Old ledgers leave the newest part of the list, and are written nowhere."""
    original = ledger_list.list_write

    def writing(*arguments: Any) -> tuple[LedgerList, list[Operation]]:
        shorter, operations = original(*arguments)
        return shorter, operations[:1]

    patch.setattr(ledger_list, "list_write", writing)


PLANTS: tuple[Callable[[pytest.MonkeyPatch], None], ...] = (
    no_epoch_check,
    acknowledges_what_is_stored,
    applies_out_of_order,
    loses_what_it_has_not_synced,
    claims_without_comparing,
    applies_past_head,
    takes_no_answer_for_failure,
    tries_again_under_another_version,
    serves_for_ever,
    commits_parts_of_joints_alone,
    keeps_what_was_not_committed,
    reads_before_it_syncs,
    forgets_a_segment,
)

RARE: tuple[Callable[[pytest.MonkeyPatch], None], ...] = (
    claims_without_comparing,
    serves_for_ever,
    forgets_a_segment,
)
"""Those that long histories meet sooner than short ones."""

SOON: dict[Callable[[pytest.MonkeyPatch], None], int] = {
    loses_what_it_has_not_synced: 5,
    claims_without_comparing: 17,
    takes_no_answer_for_failure: 12,
    tries_again_under_another_version: 6,
    serves_for_ever: 5,
    commits_parts_of_joints_alone: 27,
    reads_before_it_syncs: 63,
}
"""A seed that met it when this was written, to be tried before all others."""
