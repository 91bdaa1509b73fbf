"""The committer of a node: chooses the objects that the next multi adds to the log, and determines its outcome.

    a multi = check(epoch) + set(head, version) for every tablespace that it commits to

**Which groups.** Groups of a tablespace are committed in the order in which they were cut. A group of several
tablespaces (tied by joint entries) is committed when it is next in all of them and none of them has another multi
running. All its parts were cut at one moment, so groups have one order over the whole node, and none waits in a circle.

**The outcome of a multi.** ZooKeeper's answer gives it. Without an answer the committer sends the same multi again: its
checks let it be carried out at most once. If the second try fails, the head shows whether the first succeeded, because
it names the commit ids of its last objects. If another leader has extended the log since then, the ledger list shows
where this epoch ended.

Until the outcome is known no client gets an answer. After `commit_timeout` the clients are told that the outcome is
unknown. From then on, and when the session is over, the committer does not retry the multi but finalizes it
(`_finalize`): it bumps the epoch, so that a request which is still in transit can never be carried out; then the head
is final.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable
from dataclasses import replace

from replication.interface import (
    ConflictError,
    Coordination,
    CoordinationUnavailableError,
    OutcomeUnknownError,
    SessionState,
)
from replication.log.groups import CommitGroup, Multi, make_head_update
from replication.log.layout import decode_head, encode, paths
from replication.log.leader import LeaderLog
from replication.log.ledger_list import LedgerListReader
from replication.log.settings import LogSettings

log = logging.getLogger("shoal.log")


class OutcomeLostError(Exception):
    """The outcome of a multi can no longer be found: the ledger list has dropped the end of its epoch."""


class Committer:
    """The committer of a node. `use` gives it the node's session, and every new one when that is over."""

    def __init__(self, coordination: Coordination, settings: LogSettings | None = None) -> None:
        self.coordination = coordination
        self._settings = settings or LogSettings()
        self._logs: dict[bytes, LeaderLog] = {}
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.use(coordination)

    def use(self, coordination: Coordination) -> None:
        before, self.coordination = self.coordination, coordination
        coordination.on_state(lambda state: self._state_changed(coordination, state))
        if before is not coordination:  # a session that was closed on purpose does not report that it is lost
            self._state_changed(before, "lost")
        self._notify_change()

    def add(self, leader: LeaderLog) -> None:
        self._logs[leader.tablespace] = leader

    def remove(self, leader: LeaderLog) -> None:
        if self._logs.get(leader.tablespace) is leader:
            del self._logs[leader.tablespace]

    # --- cutting -------------------------------------------------------------------------------------------------

    def cut_group(self, leader: LeaderLog) -> bool:
        """Cuts the next group of a tablespace and of those that joint entries tie to it. Returns whether it did."""
        if not leader.joints:
            leader.cut_objects(CommitGroup(), everything=False)
            return True
        tied = self._tied_logs(leader)
        if tied is None:
            self.cut_off(leader, None)
            return False
        if any(other.rolling for other in tied):
            return False  # it is formed again when the ledger is open
        group = CommitGroup()
        for other in tied:
            other.cut_objects(group, everything=True)
        return True

    def _tied_logs(self, leader: LeaderLog) -> list[LeaderLog] | None:
        """The tablespaces that pending joint entries tie together; None if an entry lacks one of its parts."""
        found = [leader]
        for member in found:
            for submission in member.pending:
                if submission.joint is None:
                    continue
                for tablespace, lsn in zip(submission.joint.tablespaces, submission.joint.lsns, strict=True):
                    other = self._logs.get(tablespace)
                    if other is None or not other.is_pending(lsn) or other.coordination is not leader.coordination:
                        return None
                    if other not in found:
                        found.append(other)
        return found

    # --- committing ----------------------------------------------------------------------------------------------

    def on_object_stored(self, group: CommitGroup) -> None:
        """An object of the group has arrived in the store."""
        for leader in list(group.parts):
            self._start_multi(leader)
            leader.form_objects()

    def _start_multi(self, leader: LeaderLog) -> None:
        """Begins the next multi of a tablespace, if there is something to commit and no multi is running."""
        if leader.state not in ("leading", "draining"):
            return
        taken = self._committable_groups(leader)
        if not taken:
            return
        parts = {log: make_head_update(log, groups) for log, groups in taken.items()}
        multi = Multi(parts, leader.now())
        for part in parts:
            part.multi = multi
        task = asyncio.ensure_future(self._run(multi, self._send(multi)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _send(self, multi: Multi) -> Awaitable[list[int]] | None:
        """Sends the request at once, because the task of the multi starts only in the next turn of the loop; None
        without a connection."""
        coordination = next(iter(multi.parts)).coordination
        if coordination.state != "connected":
            return None
        multi.in_flight = True
        return coordination.multi(multi.operations)

    def _committable_groups(self, leader: LeaderLog) -> dict[LeaderLog, list[CommitGroup]]:
        """The groups that can be committed now, by tablespace, beginning with those of `leader`."""
        taken: dict[LeaderLog, list[CommitGroup]] = {}

        def take(group: CommitGroup) -> bool:
            if not group.is_stored or any(log.multi is not None for log in group.parts):
                return False
            for log in group.parts:
                while (ahead := log.groups[len(taken.get(log, ()))]) is not group:
                    if not take(ahead):
                        return False
            for log in group.parts:
                taken.setdefault(log, []).append(group)
            return True

        while len(taken.get(leader, ())) < len(leader.groups):
            if not take(leader.groups[len(taken.get(leader, ()))]):
                break
        return taken

    async def _run(self, multi: Multi, sent: Awaitable[list[int]] | None) -> None:
        try:
            await self._commit(multi, sent)
        except OutcomeLostError:
            for leader in multi.parts:
                leader.notify_unknown()
            for leader in multi.parts:
                leader.notify_lost()

    async def _commit(self, multi: Multi, sent: Awaitable[list[int]] | None) -> None:
        coordination = next(iter(multi.parts)).coordination
        while sent is not None or not multi.final:
            if sent is None and coordination.state == "lost":
                self._stop_retrying(multi)
                break
            if sent is None and coordination.state == "suspended":
                await self._wait_for_change()
                continue
            multi.in_flight = True
            try:
                versions = await (sent or coordination.multi(multi.operations))
            except OutcomeUnknownError:
                multi.doubtful = True
            except CoordinationUnavailableError:
                multi.in_flight = False
                await asyncio.sleep(self._settings.retry_pause)
            except ConflictError as conflict:
                if await self._resolve_conflict(multi, conflict.index):
                    return
            else:
                self._complete(multi, versions[1::2])
                return
            finally:
                multi.in_flight, sent = False, None
        await self._finalize(multi)

    def _complete(self, multi: Multi, versions: list[int]) -> None:
        for (leader, part), version in zip(multi.parts.items(), versions, strict=True):
            leader.multi = None
            leader.record_multi(multi.began)
            leader.advance(part, version)
        for leader in multi.parts:  # before the acknowledgements, so that store and coordination work meanwhile
            self._start_multi(leader)
            leader.form_objects()
        for leader in multi.parts:
            leader.notify_committed()
        if multi.final:
            self._cut_off_tablespaces(multi)

    async def _resolve_conflict(self, multi: Multi, index: int) -> bool:
        """Handles a version that did not match. Returns whether the outcome is known; otherwise the multi is
        retried."""
        logs = list(multi.parts)
        if not multi.doubtful:
            self._fail(multi, [logs[index // 2]])
            return True
        try:
            return await self._resolve_outcome(multi, next(iter(logs)).coordination)
        except CoordinationUnavailableError:
            return False

    async def _resolve_outcome(self, multi: Multi, coordination: Coordination) -> bool:
        """Reads whether an earlier try of the multi succeeded, and acts on it. Returns whether the outcome is known."""
        deposed, versions, committed = [], [], False
        await coordination.sync()
        for leader, part in multi.parts.items():
            epoch_stands, head_version, found = await self._read_outcome(
                leader, part.commit_id, part.head.lsn, coordination
            )
            versions.append(head_version)
            committed = committed or found
            if not epoch_stands or (not found and head_version != part.head_version):
                deposed.append(leader)
        if committed:
            self._complete(multi, versions)
            for leader in deposed:
                self.cut_off(leader, leader.groups[0] if leader.groups else None)
        elif deposed:
            self._fail(multi, deposed)
        return committed or bool(deposed)

    async def _read_outcome(
        self, leader: LeaderLog, commit_id: str, last: int, coordination: Coordination
    ) -> tuple[bool, int, bool]:
        """Returns (whether the epoch is still current, the head's version, whether the head has passed the commit).

        If the epoch is no longer current, the result is final. Raises OutcomeLostError.
        """
        where = paths(leader.tablespace)
        epoch = await coordination.get(where.epoch)
        znode = await coordination.get(where.head)  # read after the epoch: if that has ended, it adds nothing later
        if epoch is None or znode is None:
            return False, -1, False  # the tablespace was dropped
        stands = epoch.version == leader.epoch_version
        head = decode_head(znode.data)
        if any(item.commit_id == commit_id for item in head.recent):
            return stands, znode.version, True
        if head.epoch <= leader.epoch.epoch:
            return stands, znode.version, False
        end = await LedgerListReader(leader.tablespace).end_of_epoch(coordination, leader.epoch.epoch)
        if end is None:
            raise OutcomeLostError
        return stands, znode.version, end >= last

    def _fail(self, multi: Multi, deposed: list[LeaderLog]) -> None:
        """Handles a multi that was certainly not executed: the logs in `deposed` end, the others try again."""
        for leader in multi.parts:
            leader.multi = None
        for leader in deposed:
            self.cut_off(leader, leader.groups[0] if leader.groups else None)
        if multi.final:
            self._cut_off_tablespaces(multi)
        for leader in multi.parts:
            leader.finish_if_drained()
            self._start_multi(leader)
            leader.form_objects()

    def _cut_off_tablespaces(self, multi: Multi) -> None:
        """Drops everything after a finalized multi, in all of its tablespaces."""
        for leader in multi.parts:
            self.cut_off(leader, leader.groups[0] if leader.groups else None)

    # --- giving up -----------------------------------------------------------------------------------------------

    def cut_off(self, leader: LeaderLog, group: CommitGroup | None) -> None:
        """Drops the entries of a tablespace from a group on (None: those that have not been cut yet), and the entries
        that joint entries tie to them. None of them may be in a multi."""
        if leader.state == "over":
            return
        if leader.state == "leading":
            leader.state = "draining"
        dropped: list[CommitGroup] = []
        if group is not None and group in leader.groups:
            while group in leader.groups:
                dropped.append(leader.groups.pop())
        for gone in dropped:
            gone.dropped = True
            for other in gone.parts:
                if gone in other.groups:
                    self.cut_off(other, gone)
        for submission in leader.drop_pending():
            for tablespace in submission.joint.tablespaces if submission.joint is not None else ():
                if tablespace in self._logs:
                    self.cut_off(self._logs[tablespace], None)
        leader.finish_if_drained()

    def on_commit_timeout(self, leader: LeaderLog) -> None:
        """Handles a tablespace whose oldest commit has waited for `commit_timeout`."""
        multi = leader.multi
        if leader.state == "over":
            return
        if multi is None:
            self.cut_off(leader, leader.groups[0] if leader.groups else None)
            return
        for member in multi.parts:
            if multi.in_flight or multi.doubtful:
                member.notify_unknown()
        self._stop_retrying(multi)

    def _stop_retrying(self, multi: Multi) -> None:
        multi.final = True
        for leader in multi.parts:
            leader.mark_unknown()
        self._notify_change()

    def _state_changed(self, coordination: Coordination, state: SessionState) -> None:
        if state == "lost":
            for leader in list(self._logs.values()):
                if leader.coordination is not coordination:
                    continue
                if leader.multi is None:
                    self.cut_off(leader, leader.groups[0] if leader.groups else None)
                else:
                    self._stop_retrying(leader.multi)
        self._notify_change()

    async def _finalize(self, multi: Multi) -> None:
        """Fences the epoch and reads the final outcome of the multi. All of its terms are over afterwards."""
        committed = False
        while multi.doubtful:
            try:
                committed = await self._fence_and_read_outcome(multi)
                break
            except CoordinationUnavailableError:
                if self.coordination.state == "connected":
                    await asyncio.sleep(self._settings.retry_pause)
                else:
                    await self._wait_for_change()
        for leader, part in multi.parts.items():
            leader.multi = None
            if committed:
                leader.advance(part, -1)
        if committed:
            for leader in multi.parts:
                leader.notify_committed()
        self._cut_off_tablespaces(multi)

    async def _fence_and_read_outcome(self, multi: Multi) -> bool:
        coordination = self.coordination
        for leader, part in multi.parts.items():
            await self._fence_epoch(leader, coordination)
            try:
                return (await self._read_outcome(leader, part.commit_id, part.head.lsn, coordination))[2]
            except OutcomeLostError:
                continue  # they share one fate: another tablespace may still know it
        raise OutcomeLostError

    async def _fence_epoch(self, leader: LeaderLog, coordination: Coordination) -> None:
        """Changes the epoch's version, so that no request of the term can be executed any more."""
        path = paths(leader.tablespace).epoch
        while True:
            await coordination.sync()
            found = await coordination.get(path)
            if found is None or found.version != leader.epoch_version:
                return
            vacant = replace(leader.epoch, leader="", claim=secrets.token_hex(16))
            try:
                await coordination.set(path, encode(vacant), found.version)
                return
            except (ConflictError, OutcomeUnknownError):
                continue

    # --- changes -------------------------------------------------------------------------------------------------

    def _notify_change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _wait_for_change(self) -> None:
        """Waits until the session's state changes, there is another session, or a multi is given up."""
        await self._changed.wait()
