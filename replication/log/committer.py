"""The commits of a node: which objects the next multi makes part of the log, and what has become of it.

    a multi = check(epoch) + set(head, version) for every tablespace that it commits to

**Which groups.** Groups of a tablespace are committed in the order in which they were cut. A group of several
tablespaces (tied by joint entries) goes when it is next in all of them and none of them has another multi under way.
All its parts were cut at one moment, so groups have one order over the whole node, and none waits in a circle.

**What has become of it.** An answer says it. No answer: the same multi is tried again, for both checks let it be
carried out once at most; if the second fails, the head tells whether the first was done: it names the commit ids of its
last objects, and if another leader has gone on since then, the ledger list says where this epoch ended.

While that cannot be done nobody is told anything. After `commit_timeout` the clients are told that it is not known;
from then on, and when the session is over, the multi is not tried again but ended (`_settle`): the epoch is bumped, so
that a request which is still under way somewhere can never be carried out, and then the head is final.
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
from replication.log.groups import Group, Multi, make_part
from replication.log.layout import decode_head, encode, paths
from replication.log.leader import LeaderLog
from replication.log.ledger_list import Pages
from replication.log.settings import LogSettings

log = logging.getLogger("shoal.log")


class UnknowableError(Exception):
    """The log has gone on so far that nobody knows any more where an epoch ended."""


class Committer:
    """One for a node. `use` gives it the node's session, and every new one when that is over."""

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
        if before is not coordination:  # a session that was closed on purpose tells nobody
            self._state_changed(before, "lost")
        self._wake()

    def add(self, leader: LeaderLog) -> None:
        self._logs[leader.tablespace] = leader

    def remove(self, leader: LeaderLog) -> None:
        if self._logs.get(leader.tablespace) is leader:
            del self._logs[leader.tablespace]

    # --- cutting -------------------------------------------------------------------------------------------------

    def form(self, leader: LeaderLog) -> bool:
        """Cuts the next group of a tablespace, and of those that joint entries tie to it. Whether it did."""
        if not leader.joints:
            leader.cut(Group(), everything=False)
            return True
        tied = self._tied(leader)
        if tied is None:
            self.cut_off(leader, None)
            return False
        if any(other.rolling for other in tied):
            return False  # it forms again when the ledger is open
        group = Group()
        for other in tied:
            other.cut(group, everything=True)
        return True

    def _tied(self, leader: LeaderLog) -> list[LeaderLog] | None:
        """The tablespaces that pending joint entries tie together; None if an entry lacks one of its parts."""
        found = [leader]
        for member in found:
            for submission in member.pending:
                if submission.joint is None:
                    continue
                for tablespace, lsn in zip(submission.joint.tablespaces, submission.joint.lsns, strict=True):
                    other = self._logs.get(tablespace)
                    if other is None or not other.holds(lsn) or other.coordination is not leader.coordination:
                        return None
                    if other not in found:
                        found.append(other)
        return found

    # --- committing ----------------------------------------------------------------------------------------------

    def stored(self, group: Group) -> None:
        """An object of the group has arrived in the store."""
        for leader in list(group.parts):
            self._next(leader)
            leader.form()

    def _next(self, leader: LeaderLog) -> None:
        """Begins the next multi of a tablespace, if there is something to commit and nothing under way."""
        if leader.state not in ("leading", "draining"):
            return
        taken = self._ready(leader)
        if not taken:
            return
        parts = {log: make_part(log, groups) for log, groups in taken.items()}
        multi = Multi(parts, leader.now())
        for part in parts:
            part.multi = multi
        task = asyncio.ensure_future(self._run(multi, self._send(multi)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _send(self, multi: Multi) -> Awaitable[list[int]] | None:
        """Its request, on its way at once and not only when its task comes to run; None without a connection."""
        coordination = next(iter(multi.parts)).coordination
        if coordination.state != "connected":
            return None
        multi.in_flight = True
        return coordination.multi(multi.operations)

    def _ready(self, leader: LeaderLog) -> dict[LeaderLog, list[Group]]:
        """The groups that can be committed now, by tablespace, beginning with those of `leader`."""
        taken: dict[LeaderLog, list[Group]] = {}

        def take(group: Group) -> bool:
            if not group.stored or any(log.multi is not None for log in group.parts):
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
        except UnknowableError:
            for leader in multi.parts:
                leader.tell_unknown()
            for leader in multi.parts:
                leader.tell_gone()

    async def _commit(self, multi: Multi, sent: Awaitable[list[int]] | None) -> None:
        coordination = next(iter(multi.parts)).coordination
        while sent is not None or not multi.final:
            if sent is None and coordination.state == "lost":
                self._end(multi)
                break
            if sent is None and coordination.state == "suspended":
                await self._change()
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
                if await self._refused(multi, conflict.index):
                    return
            else:
                self._done(multi, versions[1::2])
                return
            finally:
                multi.in_flight, sent = False, None
        await self._settle(multi)

    def _done(self, multi: Multi, versions: list[int]) -> None:
        for (leader, part), version in zip(multi.parts.items(), versions, strict=True):
            leader.multi = None
            leader.took(multi.began)
            leader.advance(part, version)
        for leader in multi.parts:  # before anybody is told: store and coordination work meanwhile
            self._next(leader)
            leader.form()
        for leader in multi.parts:
            leader.tell_committed()
        if multi.final:
            self._cut_off_all(multi)

    async def _refused(self, multi: Multi, index: int) -> bool:
        """A version did not match. Whether that settles the matter; otherwise it is to be tried again."""
        logs = list(multi.parts)
        if not multi.doubtful:
            self._failed(multi, [logs[index // 2]])
            return True
        try:
            return await self._judge(multi, next(iter(logs)).coordination)
        except CoordinationUnavailableError:
            return False

    async def _judge(self, multi: Multi, coordination: Coordination) -> bool:
        """Finds out what an earlier try has done; whether that can be said."""
        deposed, versions, committed = [], [], False
        await coordination.sync()
        for leader, part in multi.parts.items():
            epoch_stands, head_version, found = await self._inspect(leader, part.commit_id, part.head.lsn, coordination)
            versions.append(head_version)
            committed = committed or found
            if not epoch_stands or (not found and head_version != part.head_version):
                deposed.append(leader)
        if committed:
            self._done(multi, versions)
            for leader in deposed:
                self.cut_off(leader, leader.groups[0] if leader.groups else None)
        elif deposed:
            self._failed(multi, deposed)
        return committed or bool(deposed)

    async def _inspect(
        self, leader: LeaderLog, commit_id: str, last: int, coordination: Coordination
    ) -> tuple[bool, int, bool]:
        """(whether the epoch stands, the head's version, whether the head has passed the commit).

        If the epoch does not stand any more this is final. Raises UnknowableError.
        """
        where = paths(leader.tablespace)
        epoch = await coordination.get(where.epoch)
        znode = await coordination.get(where.head)  # after the epoch: nothing of it can come later
        if epoch is None or znode is None:
            return False, -1, False  # the tablespace was dropped
        stands = epoch.version == leader.epoch_version
        head = decode_head(znode.data)
        if any(item.commit_id == commit_id for item in head.recent):
            return stands, znode.version, True
        if head.epoch <= leader.epoch.epoch:
            return stands, znode.version, False
        end = await Pages(leader.tablespace).end_of_epoch(coordination, leader.epoch.epoch)
        if end is None:
            raise UnknowableError
        return stands, znode.version, end >= last

    def _failed(self, multi: Multi, deposed: list[LeaderLog]) -> None:
        """Nothing of the multi was done, and nothing will be; these logs cannot go on, the others try again."""
        for leader in multi.parts:
            leader.multi = None
        for leader in deposed:
            self.cut_off(leader, leader.groups[0] if leader.groups else None)
        if multi.final:
            self._cut_off_all(multi)
        for leader in multi.parts:
            leader.check_end()
            self._next(leader)
            leader.form()

    def _cut_off_all(self, multi: Multi) -> None:
        """Nothing behind a multi that was given up is committed."""
        for leader in multi.parts:
            self.cut_off(leader, leader.groups[0] if leader.groups else None)

    # --- giving up -----------------------------------------------------------------------------------------------

    def cut_off(self, leader: LeaderLog, group: Group | None) -> None:
        """Nothing of a tablespace is committed any more from a group on (None: what has not been cut yet), and what
        joint entries tie to it neither. None of it may be in a multi."""
        if leader.state == "over":
            return
        if leader.state == "leading":
            leader.state = "draining"
        dropped: list[Group] = []
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
        leader.check_end()

    def give_up(self, leader: LeaderLog) -> None:
        """The oldest commit of a tablespace has waited for too long."""
        multi = leader.multi
        if leader.state == "over":
            return
        if multi is None:
            self.cut_off(leader, leader.groups[0] if leader.groups else None)
            return
        for member in multi.parts:
            if multi.in_flight or multi.doubtful:
                member.tell_unknown()
        self._end(multi)

    def _end(self, multi: Multi) -> None:
        multi.final = True
        for leader in multi.parts:
            leader.doubt()
        self._wake()

    def _state_changed(self, coordination: Coordination, state: SessionState) -> None:
        if state == "lost":
            for leader in list(self._logs.values()):
                if leader.coordination is not coordination:
                    continue
                if leader.multi is None:
                    self.cut_off(leader, leader.groups[0] if leader.groups else None)
                else:
                    self._end(leader.multi)
        self._wake()

    async def _settle(self, multi: Multi) -> None:
        """Finds out, for good, whether the multi was carried out; then all its terms are over."""
        committed = False
        while multi.doubtful:
            try:
                committed = await self._final(multi)
                break
            except CoordinationUnavailableError:
                if self.coordination.state == "connected":
                    await asyncio.sleep(self._settings.retry_pause)
                else:
                    await self._change()
        for leader, part in multi.parts.items():
            leader.multi = None
            if committed:
                leader.advance(part, -1)
        if committed:
            for leader in multi.parts:
                leader.tell_committed()
        self._cut_off_all(multi)

    async def _final(self, multi: Multi) -> bool:
        coordination = self.coordination
        for leader, part in multi.parts.items():
            await self._bump(leader, coordination)
            try:
                return (await self._inspect(leader, part.commit_id, part.head.lsn, coordination))[2]
            except UnknowableError:
                continue  # they share one fate: another tablespace may still know it
        raise UnknowableError

    async def _bump(self, leader: LeaderLog, coordination: Coordination) -> None:
        """Returns when the epoch's version is no longer the term's: nothing of it can be carried out any more."""
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

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _change(self) -> None:
        """Waits until the session's state changes, there is another session, or a multi is given up."""
        await self._changed.wait()
