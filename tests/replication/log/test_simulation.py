"""The log of a cluster under faults, in virtual time; and the checkers, which have to notice planted faults.

SHOAL_SEEDS=1000:2000 runs other seeds than the few of every day.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from catalog.errors import SqlError
from replication.interface import Coordination, Operation, Set
from replication.log import leader, objects
from replication.log.committer import Committer
from replication.log.groups import Group, Multi
from replication.log.layout import encode_head, paths
from replication.log.leader import LeaderLog
from replication.log.ledgers import Ledgers
from tests.replication.log.world import BrokenError, NodeSession, Report, simulate, simulate_zombie

_FIRST, _, _END = os.environ.get("SHOAL_SEEDS", "0:10").partition(":")
SEEDS = range(int(_FIRST), int(_END))
STEPS = range(SEEDS.start * 10, SEEDS.stop * 10, 10)  # handles of the leader's process
PLANTED_SEEDS = range(60)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Faults are logged, thousands of them."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def run(seed: int, directory: Path, seconds: float = 12.0) -> Report:
    return simulate(seed, str(directory), seconds)


@pytest.mark.parametrize("seed", SEEDS)
def test_promises_hold_under_faults(seed: int, tmp_path: Path) -> None:
    report = run(seed, tmp_path)
    assert report.acknowledged > 20
    assert report.strong_reads > 0


@pytest.mark.parametrize("fate", ["stop", "kill"])
@pytest.mark.parametrize("step", STEPS)
def test_a_leader_is_stopped_for_long_or_killed_at_any_step(step: int, fate: str, tmp_path: Path) -> None:
    simulate_zombie(step, str(tmp_path), fate)


def no_epoch_check(patch: pytest.MonkeyPatch) -> None:
    """A leader commits whether it still leads or not."""

    def operations(multi: Multi) -> list[Operation]:
        found: list[Operation] = []
        for log, part in multi.parts.items():
            where = paths(log.tablespace)
            found += [Set(where.head + "-unchecked", b"", -1), Set(where.head, encode_head(part.head), -1)]
        return found

    original = NodeSession.multi

    async def multi(self: NodeSession, operations: Sequence[Operation]) -> list[int]:
        wanted = [operation for operation in operations if not operation.path.endswith("-unchecked")]
        versions = await original(self, wanted)
        return versions if len(wanted) == len(operations) else [v for version in versions for v in (0, version)]

    patch.setattr(NodeSession, "multi", multi)
    patch.setattr(Multi, "operations", property(operations))


def acknowledges_what_is_stored(patch: pytest.MonkeyPatch) -> None:
    """Clients are told when the object is in the store, before the multi."""
    original = Committer.stored

    def stored(self: Committer, group: Group) -> None:
        for log, items in group.parts.items():
            if group.stored and log.groups[0] is group and log.state == "leading":
                log._told.on_committed(items[-1].item.last)
        original(self, group)

    patch.setattr(Committer, "stored", stored)


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
    original = Committer._settle

    async def settle(self: Committer, multi: Multi) -> None:
        multi.doubtful = False
        await original(self, multi)

    patch.setattr(Committer, "_settle", settle)


def tries_again_under_another_version(patch: pytest.MonkeyPatch) -> None:
    """A refused second try counts as refused, whatever became of the first."""

    async def judge(self: Committer, multi: Multi, coordination: Coordination) -> bool:
        self._failed(multi, list(multi.parts))
        return True

    patch.setattr(Committer, "_judge", judge)


def serves_for_ever(patch: pytest.MonkeyPatch) -> None:
    """A leader answers strong reads until it learns that it is none."""
    patch.setattr(LeaderLog, "may_serve_until", property(lambda self: float("inf") if self.leading else float("-inf")))


def commits_parts_of_joints_alone(patch: pytest.MonkeyPatch) -> None:
    """Every tablespace commits its part of a joint entry by itself."""

    def form(self: Committer, log: LeaderLog) -> bool:
        log.cut(Group(), everything=False)
        return True

    patch.setattr(Committer, "form", form)


def keeps_what_was_not_committed(patch: pytest.MonkeyPatch) -> None:
    """A term that is over says that everything submitted is in the log."""
    original = LeaderLog.check_end

    def check_end(self: LeaderLog) -> None:
        told = self._told
        if told.on_deposed.__name__ != "lying":
            submitted = self

            def lying(last: int) -> None:
                told.on_committed(submitted._submitted_lsn)
                told.on_deposed(submitted._submitted_lsn)

            self._told = leader.Told(told.on_committed, lying, told.on_unknown, told.on_gone)
        original(self)

    patch.setattr(LeaderLog, "check_end", check_end)


@pytest.mark.parametrize(
    "plant",
    [
        no_epoch_check,
        acknowledges_what_is_stored,
        applies_past_head,
        takes_no_answer_for_failure,
        tries_again_under_another_version,
        serves_for_ever,
        commits_parts_of_joints_alone,
        keeps_what_was_not_committed,
    ],
)
def test_a_planted_fault_is_noticed(
    plant: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in PLANTED_SEEDS:
        try:
            run(seed, tmp_path)
        except (BrokenError, SqlError) as error:
            print(f"{plant.__name__}: seed {seed}: {error!r}")
            return
    pytest.fail(f"{len(PLANTED_SEEDS)} seeds have not noticed it")


def test_a_seed_replays(tmp_path: Path) -> None:
    assert run(7, tmp_path / "a") == run(7, tmp_path / "b")
