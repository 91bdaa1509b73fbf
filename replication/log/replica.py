"""The replica of a tablespace on one node: it follows, is elected, leads, is deposed, and follows again.

    run():   follower.run()  ---- election.wait_for_turn() ---> takeover ---> engine.lead(leader) ---> the term ends
                ^                                                                                         |
                '------------------------------- engine.on_deposed ---------------------------------------'

The owner makes one for each tablespace that its node holds, and runs `run()` as a task. `run` ends with errors that the
owner must handle: LogGoneError (delete the data, start from a checkpoint, make a new replica), SqlError XX001 (damage,
or the log of another replica), and errors of the engine. After a lost session the owner opens another one, gives it to
the committer (`Committer.use`), and to every replica by `use`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from catalog.errors import SqlError
from replication.interface import (
    Check,
    Coordination,
    CoordinationUnavailableError,
    Head,
    Replica,
    Spec,
    StoreUnavailableError,
)
from replication.log.bulk import BulkFiles
from replication.log.committer import Committer
from replication.log.election import Election
from replication.log.follower import Follower, Lag
from replication.log.interface import ReplicaEngine, Role
from replication.log.layout import decode_spec, paths
from replication.log.leader import CommitNotification, LeaderLog, Term
from replication.log.ledger_object import Position
from replication.log.ledger_retention import LedgerRetention
from replication.log.lsn_waiters import LsnWaiters
from replication.log.presence import LACKS, TIED, TIED_UNIT, Presence
from replication.log.remote_apply import answer_remote_apply
from replication.log.settings import Clock, LogGoneError, LogSettings, StoreOf, SystemClock
from replication.log.takeover import LostElectionError, abdicate, claim_epoch, take_over, vacate

log = logging.getLogger("shoal.log")


class ReplicatedLog:
    """One tablespace on one node. Everything on the loop's thread.

    `position`: the state that the engine has applied (its LSN; the hash, if known, identifies the log). `electable`:
    whether this node may lead at first (False: it only follows); `set_electable` changes it.
    """

    def __init__(
        self,
        node: str,
        tablespace: bytes,
        committer: Committer,
        stores: StoreOf,
        engine: ReplicaEngine,
        bulk: BulkFiles,
        position: Position,
        *,
        settings: LogSettings | None = None,
        clock: Clock | None = None,
        electable: bool = True,
        read_stores: StoreOf | None = None,
    ) -> None:
        self.node = node
        self.tablespace = tablespace
        self.role: Role = "follower"
        self.leader: LeaderLog | None = None  # of the running term, or of one whose outcome is being read
        self.spec: Spec | None = None
        self.lacks: Callable[[], int] = lambda: 0
        """How much this node lacks of the data that a leader needs in addition to the log. Replicas that lack less are
        preferred in elections."""
        self.tied: Callable[[], int] = lambda: 0
        """When the tablespace was last needed together with others, in microseconds since 2000-01-01; 0: never."""
        self.check_store: Callable[[str], Awaitable[None]] | None = None
        """Raises SqlError or StoreUnavailableError for the URL of a store that this node cannot use for the log."""
        self._checked_store = ""
        self._bootstrapping = False
        self._committer = committer
        self._coordination = committer.coordination
        self._stores = stores
        self._read_stores = read_stores or stores
        self._engine = engine
        self._bulk = bulk
        self._settings = settings or LogSettings()
        self._clock = clock or SystemClock()
        self._electable = asyncio.Event()
        if electable:
            self._electable.set()
        self._waiters = LsnWaiters(position.lsn)
        self._follower = self._new_follower(position)
        self._election = Election(tablespace, node, self._report, settings=self._settings, clock=self._clock)
        self._presence = Presence(
            self._coordination, tablespace, node, self._report, settings=self._settings, clock=self._clock
        )
        self._presence.on_term_over = self._on_term_over
        self._over: asyncio.Event = asyncio.Event()
        self._gone = False
        self._wish = ""
        self._resigned = False
        self._closing = False
        self._main: asyncio.Task[None] | None = None

    # --- interface -----------------------------------------------------------------------------------------------

    @property
    def applied_lsn(self) -> int:
        """The LSN that this replica has applied; of a leader, the last committed one."""
        return self._waiters.lsn

    @property
    def may_serve_until(self) -> float:
        """Clock time before which a strong read may be answered from the state committed here; -inf: never."""
        if self.leader is None:
            return float("-inf")
        self.leader.lease_limit = self._presence.lease_until
        return self.leader.may_serve_until

    @property
    def lag(self) -> Lag:
        """The lag of this replica; none for a leader that may serve."""
        if self._clock.monotonic() < self.may_serve_until:
            return Lag(0, 0.0)
        return self._follower.lag

    async def wait_for(self, lsn: int) -> None:
        """Returns when everything up to the LSN is applied here. Raises the error that has ended `run` meanwhile."""
        await self._waiters.wait_for(lsn)

    async def read_head(self) -> Head:
        """The end of the log, as of now or later. Raises CoordinationUnavailableError."""
        return await self._follower.read_head()

    def use(self, coordination: Coordination) -> None:
        """Uses a new session. Give it to the committer first."""
        self._coordination = coordination
        self._follower.use(coordination)
        self._presence.use(coordination)

    # --- running -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Runs until `close`, or until an error that needs the owner."""
        self._main = asyncio.current_task()
        works = (self._presence.run(), self._follow_spec(), self._answer_remote_apply())
        aside = [asyncio.ensure_future(work) for work in works]
        try:
            while not self._closing:
                term = await self._follow()
                if term is not None:
                    await self._lead(term)
        except asyncio.CancelledError:
            if not self._closing:
                raise
        except Exception as error:
            self._waiters.fail(error)
            with contextlib.suppress(CoordinationUnavailableError):
                await vacate(self._coordination, self.tablespace, self.node)
            raise
        finally:
            await _cancel_tasks(*aside)

    @property
    def electable(self) -> bool:
        return self._electable.is_set()

    def set_electable(self, electable: bool) -> None:
        """Whether this node may lead from now on. `step_down` ends a term that is running, or beginning."""
        if electable:
            self._electable.set()
        else:
            self._electable.clear()

    @property
    def bootstrapping(self) -> bool:
        """Whether this replica can neither answer nor lead yet: it has begun from a checkpoint, and catches up."""
        return self._bootstrapping

    @bootstrapping.setter
    def bootstrapping(self, bootstrapping: bool) -> None:
        self._bootstrapping = bootstrapping
        self._presence.write_soon()

    async def step_down(self, to: str = "") -> None:
        """Commits the submitted entries, and leaves the leadership to another node (`to`: to this one, if it can).
        Returns when the term is over; at once if this node does not lead."""
        leader = self.leader
        if leader is not None and leader.leading:
            self._wish, self._resigned = to, True
            await leader.drain()

    async def close(self) -> None:
        """Steps down and ends `run`. Waits for commits for at most `commit_timeout`."""
        self._closing = True
        if self.leader is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.commit_timeout):
                    await self.step_down()
                    await self._over.wait()
        if self._main is not None and not self._main.done():
            if self.leader is None:  # it may be writing that there is no leader
                await asyncio.wait((self._main,), timeout=self._settings.presence)
            await _cancel_tasks(self._main)

    # --- following -----------------------------------------------------------------------------------------------

    def _new_follower(self, position: Position) -> Follower:
        return Follower(
            self._coordination,
            self.tablespace,
            self._read_stores,
            self._engine.apply,
            self._bulk,
            position,
            settings=self._settings,
            clock=self._clock,
            ready=self._engine.ready,
            waiters=self._waiters,
            admit=self._engine.admit,
        )

    async def _follow(self) -> Term | None:
        """Follows until this node has won a term, or its attempt has failed (None)."""
        following = asyncio.ensure_future(self._follower.run())
        trying = asyncio.ensure_future(self._win_term())
        try:
            await asyncio.wait((following, trying), return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                await following  # it ends by an error only
            return await trying
        finally:
            await _cancel_tasks(following, trying)

    async def _win_term(self) -> Term | None:
        while True:
            await self._electable.wait()
            turn = await self._election.wait_for_turn(lambda: self._coordination)
            if self._electable.is_set():
                break
        coordination = self._coordination
        self._set_role("candidate")
        claimed = None
        try:
            claimed = await claim_epoch(coordination, self.tablespace, self.node, turn)
            store = await self._usable_store(self.spec.store) if self.spec is not None else ""
            return await take_over(coordination, self.tablespace, claimed, self._catch_up, store, self._clock)
        except (LostElectionError, CoordinationUnavailableError) as error:
            log.info("%s does not lead %s: %s", self.node, self.tablespace.hex(), str(error) or "another node does")
        except TimeoutError:
            assert claimed is not None
            log.warning("%s cannot catch up with the log of %s", self.node, self.tablespace.hex())
            self._election.resigned = claimed[0].epoch
            await abdicate(coordination, self.tablespace, *claimed)
        self._set_role("follower")
        return None

    async def _catch_up(self, head: Head) -> None:
        """Raises TimeoutError when nothing is applied for `takeover_timeout`, or when that time has passed and another
        replica has everything."""
        while True:
            before = self._follower.position.lsn
            try:
                async with asyncio.timeout(self._settings.takeover_timeout):
                    await self._follower.wait_for(head.lsn)
                    break
            except TimeoutError:
                if self._follower.position.lsn == before or await self._election.has_other_candidate_at(
                    head, self._coordination
                ):
                    raise
                log.info("%s catches up with the log: LSN %d of %d", self.node, self._follower.position.lsn, head.lsn)
        position = self._follower.position
        if position.lsn > head.lsn:
            raise LostElectionError("the log has advanced")  # this process was stopped for long
        if position.hash is not None and position.hash.hex() != head.hash:
            raise SqlError("XX001", f"this replica has another entry at LSN {head.lsn} than the log")

    # --- leading -------------------------------------------------------------------------------------------------

    async def _lead(self, term: Term) -> None:
        self._over = asyncio.Event()
        self._gone, self._wish, self._resigned = False, "", False
        told = CommitNotification(self._on_committed, self._on_deposed, self._engine.on_unknown, self._on_log_lost)
        leader = LeaderLog(
            term,
            self._coordination,
            self._committer,
            self._stores,
            self._bulk,
            told,
            settings=self._settings,
            clock=self._clock,
        )
        self.leader = leader
        self._presence.term = Check(paths(term.tablespace).epoch, term.epoch_version)
        self._set_role("leader")
        log.info(
            "%s leads %s from LSN %d on, epoch %d", self.node, term.tablespace.hex(), term.head.lsn, term.epoch.epoch
        )
        housekeeping = LedgerRetention(leader, self._stores, settings=self._settings, clock=self._clock)
        aside = asyncio.ensure_future(housekeeping.run())
        try:
            await self._engine.lead(leader)
            await self._over.wait()
        finally:
            await _cancel_tasks(aside)
            if leader.state != "over":
                with contextlib.suppress(SqlError):
                    leader.close()
            self.leader = self._presence.term = None
            self._set_role("follower")
        if self._gone:
            raise LogGoneError(leader.committed_lsn)
        self._follower = self._new_follower(leader.position)
        if leader.coordination.state != "lost":
            # It resigned by itself, or on request: others go first.
            self._election.resigned = term.epoch.epoch
            await abdicate(leader.coordination, self.tablespace, term.epoch, term.epoch_version, self._wish)

    def _on_committed(self, lsn: int) -> None:
        self._engine.on_committed(lsn)
        self._waiters.advance(lsn)

    def _on_deposed(self, last: int) -> None:
        self._engine.on_deposed(last)
        self._over.set()

    def _on_term_over(self, term: Check) -> None:
        """Ends a term that another node has taken over: requests under way fail, and entries not yet sent are
        dropped."""
        if self.leader is not None and term is self._presence.term:
            self._committer.cut_off(self.leader, None)

    def _on_log_lost(self) -> None:
        self._gone = True
        self._over.set()

    # --- reports -------------------------------------------------------------------------------------------------

    def _set_role(self, role: Role) -> None:
        self.role = role
        self._set_lease()
        self._presence.write_soon()

    def _set_lease(self) -> None:
        lease = self.spec.max_leader_inactivity if self.spec is not None and self.role == "leader" else 0.0
        if lease != self._presence.lease:
            self._presence.lease = lease
            self._presence.write_soon()

    def _report(self) -> Replica:
        role: Literal["leader", "follower", "bootstrapping"] = "leader" if self.role == "leader" else "follower"
        if self._bootstrapping:
            role = "bootstrapping"
        lacks = self.lacks()
        detail = {LACKS: str(lacks)} if lacks else {}
        if role == "leader" and (tied := self.tied()):
            detail[TIED] = str(tied // TIED_UNIT * TIED_UNIT)
        return Replica(self.node, role, self.applied_lsn, self._engine.flushed_lsn, detail=detail)

    async def _answer_remote_apply(self) -> None:
        await answer_remote_apply(
            self.tablespace, lambda: self._coordination, self._waiters, self._presence.write_soon, self._settings
        )

    async def _follow_spec(self) -> None:
        """Keeps `spec` up to date, with its consequences."""
        wake = asyncio.Event()
        while True:
            wake.clear()
            with contextlib.suppress(CoordinationUnavailableError):
                found = await self._coordination.get(paths(self.tablespace).spec, wake.set)
                if found is not None:
                    self.spec = decode_spec(found.data)
                    self._set_lease()
                    store = await self._usable_store(self.spec.store)
                    if self.leader is not None:
                        self.leader.move_to_store(store)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.max_retry_pause):
                    await wake.wait()

    async def _usable_store(self, url: str) -> str:
        """The URL of the store for new ledgers: the spec's, or the former one while this node cannot use the spec's."""
        if url != self._checked_store and self.check_store is not None:
            try:
                await self.check_store(url)
            except (SqlError, StoreUnavailableError) as error:
                if self._checked_store:
                    log.warning("%s cannot use the store %s and keeps the previous one: %s", self.node, url, error)
                    return self._checked_store
            else:
                self._checked_store = url
        return url


async def _cancel_tasks(*tasks: asyncio.Future[Any]) -> None:
    """Cancels tasks and returns when they have ended. Their errors have been handled, or do not matter any more."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
