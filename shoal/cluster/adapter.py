"""Adapters between packages: the engine for the replicated log, the log for the engine, the leader for the proxy."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from engine.node.node import Node as EngineNode
from engine.storage.moments import LSN_MASK, SLOT_SHIFT
from engine.storage.tablespace import Tablespace
from engine.storage.unwritable import UnwritableLog
from replication.directory import NodeDirectory
from replication.interface import Coordination, CoordinationUnavailableError, LogEntry, StoreUnavailableError
from replication.log.bulk import BulkFiles
from replication.log.interface import Leader
from replication.log.remote_apply import RemoteApply
from replication.log.replica import ReplicatedLog
from wire.peer_authentication import introduce
from wire.session_proxy import LeaderAddress

if TYPE_CHECKING:
    from shoal.cluster.tablespaces import ClusterTablespaces

PRESSURE_PAUSE = 0.02  # seconds
HEAD_PAUSE = 0.1  # seconds between two tries to read the heads
LEADER_PAUSE = 0.05  # seconds between two looks for a leader that may come
SAME_PATIENCE = 0.25  # seconds after which a leader that has failed is tried again: it may only just have taken over
LEADER_PATIENCE = 5.0  # seconds that a proxy waits for a leader before it gets the error that there is none


def not_committed_error() -> SqlError:
    """The error for a client whose transaction was certainly not committed."""
    return SqlError(
        "40001",
        "could not commit: this node is no longer the leader of the tablespace",
        hint="Nothing of the transaction was committed. Retry it.",
    )


def unknown_outcome_error() -> SqlError:
    """The error for a client whose commit has an unknown outcome."""
    return SqlError(
        "08007",
        "the outcome of the commit is unknown: the changelog did not answer in time",
        hint="Connect again and check whether the transaction's changes exist.",
        severity="FATAL",
    )


class FollowerLog(UnwritableLog):
    """The changelog of a follower's tablespace: entries come from the leader, and `submit` raises 40001."""

    def __init__(self, bulk: BulkFiles) -> None:
        super().__init__(not_committed_error)
        self._bulk = bulk

    def bulk_path(self, name: str) -> str:
        return self._bulk.path(name)

    def bulk_names(self) -> list[str]:
        return self._bulk.names()

    def drop_bulk(self, name: str, lsn: int) -> None:
        self._bulk.drop(name)


class EngineReplica:
    """replication.log.interface.ReplicaEngine over pg_default."""

    def __init__(
        self, node: EngineNode, store: Tablespace, follower_log: FollowerLog, spaces: ClusterTablespaces
    ) -> None:
        self.node = node
        self.store = store
        self._follower_log = follower_log
        self._spaces = spaces
        self.leading = False
        spaces.apply_order.join(store.tablespace_id, self)

    @property
    def flushed_lsn(self) -> int:
        return self.store.flushed_lsn

    @property
    def applied_lsn(self) -> int:
        return self.store.durable_lsn

    def check_existence(self) -> None:
        """pg_default always exists."""

    def admit(self, entry: LogEntry) -> Awaitable[None] | None:
        return self._spaces.apply_order.admit(self.store.tablespace_id, entry)

    def apply(self, entry: LogEntry) -> None:
        if entry.lsn > self.store.durable_lsn:  # else it was applied with the other parts of its transaction
            self.apply_now(entry)
            self._spaces.apply_order.apply_waiting()

    def apply_now(self, entry: LogEntry) -> None:
        self.node.on_applied(self.store.apply(entry.lsn, entry.body, entry.commit_time))
        self.node.applied_together(entry.parts)

    async def ready(self) -> None:
        while self.store.pressure:
            await asyncio.sleep(PRESSURE_PAUSE)

    async def lead(self, leader: Leader) -> None:
        self.store.use_changelog(leader)
        self.leading = True
        self._spaces.leaderships.lead()
        self.node.lead()

    def on_committed(self, lsn: int) -> None:
        self.store.on_committed(lsn)

    def on_unknown(self, first_lsn: int) -> None:
        self.leading = False
        self.node.commits.give_up(first_lsn - 1, unknown_outcome_error())

    def on_deposed(self, last_committed: int) -> None:
        self.leading = False
        self.store.use_changelog(self._follower_log)
        self.node.step_down(last_committed, not_committed_error())
        self._spaces.leaderships.follow()


class NodeReplica:
    """engine.replica.Replica over the logs of a node's tablespaces."""

    def __init__(self, engine: EngineReplica, log: ReplicatedLog, spaces: ClusterTablespaces, timeout: float) -> None:
        """`timeout`: seconds that a read may wait for the head, and for the entries up to it."""
        self._engine = engine
        self._log = log
        self._spaces = spaces
        self._timeout = timeout
        self._clock: Callable[[], float] = time.monotonic

    @property
    def leads(self) -> bool:
        if not self._engine.leading:
            return False
        now, leaderships = self._clock(), self._spaces.leaderships
        if now >= leaderships.looks_again_at:
            leaderships.refresh_serving_time(now, self._log.may_serve_until)
        return now < leaderships.serves_until

    def leads_in(self, tablespaces: Iterable[bytes]) -> bool:
        now = self._clock()
        return all(
            self._spaces.leaderships.leads(tablespace, now)
            if tablespace
            else self._engine.leading and now < self._log.may_serve_until
            for tablespace in tablespaces
        )

    @property
    def tablespaces(self) -> frozenset[bytes]:
        return self._spaces.leaderships.known_tablespaces

    def led_together(self, tablespaces: Iterable[bytes]) -> bool:
        return self._spaces.leaderships.led_together(tablespaces)

    async def gather(self, tablespaces: Iterable[bytes]) -> None:
        await self._spaces.leaderships.gather(tablespaces)

    def begin_to_gather(self, tablespaces: Iterable[bytes]) -> None:
        self._spaces.leaderships.begin_to_gather(tablespaces)

    @property
    def staleness(self) -> float:
        return max(self._log.lag.seconds, self._spaces.staleness)

    async def catch_up(self) -> None:
        trouble = ""
        try:
            async with asyncio.timeout(self._timeout):
                while True:
                    try:
                        await asyncio.gather(self._catch_up(), self._spaces.catch_up_all())
                        return
                    except CoordinationUnavailableError as error:  # a session that is over is soon followed by another
                        trouble = str(error)
                        await asyncio.sleep(HEAD_PAUSE)
        except (TimeoutError, StoreUnavailableError) as error:
            raise SqlError(
                "57P03",
                "the newest state of the tablespace cannot be read now",
                detail=str(error) or trouble or f"It took longer than {self._timeout:g} s.",
                hint="SET read_consistency = 'bounded' or 'eventual' reads what this replica has.",
            ) from error

    async def _catch_up(self) -> None:
        head = await self._log.read_head()
        await self._log.wait_for(head.lsn)

    async def reach(self, lsn: int) -> None:
        if lsn >> SLOT_SHIFT:  # of another tablespace, which has another slot on every node
            await self.catch_up()
            return
        try:
            async with asyncio.timeout(self._timeout):
                await self._log.wait_for(lsn)
        except TimeoutError as error:
            raise SqlError(
                "55000",
                f"this replica has not applied LSN {lsn} within {self._timeout:g} s, it is at {self._log.applied_lsn}",
                hint="Check that the token is from this cluster. Retry, or connect to another node.",
            ) from error


class RemoteApplyWait:
    """Node.applied_elsewhere: waits until the other replicas have applied a commit of this node's."""

    def __init__(self, node: EngineNode, name: str, coordination: Callable[[], Coordination], timeout: float) -> None:
        self._node = node
        self._name = name
        self._coordination = coordination
        self._timeout = timeout
        self._tablespaces: dict[bytes, RemoteApply] = {}

    async def __call__(self, position: int) -> bool:
        """Waits for one part of the commit, because the parts of a commit are applied together."""
        store = self._node.store
        space = store if isinstance(store, Tablespace) else store.spaces[position >> SLOT_SHIFT]
        if space is None:
            return True  # it was dropped
        tablespace = space.tablespace_id
        wait = self._tablespaces.get(tablespace)
        if wait is None:
            wait = self._tablespaces[tablespace] = RemoteApply(tablespace, self._name, self._coordination)
        return await wait.wait_for(position & LSN_MASK, self._timeout)


class LeaderLocator:
    """wire.session_proxy.Locator over the cluster's directory."""

    def __init__(self, directory: NodeDirectory, secret: bytes, node: str) -> None:
        self._directory = directory
        self._secret = secret
        self._node = node

    async def leader(self, tablespace: str, not_this: LeaderAddress | None = None) -> LeaderAddress:
        """Raises 57P03 after LEADER_PATIENCE seconds without a leader."""
        began = time.monotonic()
        deadline = began + LEADER_PATIENCE
        while True:
            name = self._directory.leader(tablespace)
            found = self._directory.nodes.get(name)
            if found is not None and name != self._node:
                target = LeaderAddress(name, found.host, found.port, certificate=found.certificate)
                if target != not_this or time.monotonic() >= began + SAME_PATIENCE:
                    return target
            if time.monotonic() >= deadline:
                raise SqlError(
                    "57P03",
                    f'tablespace "{tablespace}" has no leader at the moment',
                    hint="A new leader is elected when the old one's session has expired; retry in a few seconds.",
                )
            await asyncio.sleep(LEADER_PAUSE)

    def introduce(self, target: LeaderAddress, parameters: Mapping[str, str], client: str) -> dict[str, str]:
        return introduce(parameters, self._secret, node=self._node, target=target.node, client=client)
