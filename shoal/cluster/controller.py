"""The controller: one node of the cluster moves replicas and leaders to their planned places.

    Controller    on every node: the one that has created the ephemeral znode `controller` asks replication/placement.py
                  for the next change every few seconds, and executes it
    HandOvers     on every node: executes the requests to give a leadership away (`moves/<tablespace>`)

A change of replicas is a compare-and-set of the tablespace's spec as of the plan, and a move names the epoch that it
ends. So a disconnected controller that still acts does no harm after its successor has begun, and neither does an old
request. A new controller does not know how long nodes have been away and which leaders were moved lately, so all
periods begin again with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import secrets
from collections.abc import Callable
from typing import Protocol

from catalog.errors import SqlError
from replication.background import BackgroundTask, end_task, run_in_background
from replication.interface import ConflictError, Coordination, CoordinationUnavailableError, Epoch
from replication.log.layout import decode_spec, encode, paths
from replication.log.settings import Clock
from replication.observer import ObservedTablespace, Observer
from replication.placement import (
    DEFAULT_TABLESPACE,
    MOVES,
    AddReplica,
    Change,
    ClusterPlacement,
    DropReplica,
    Move,
    MoveLeader,
    PlacementSettings,
    TablespacePlacement,
    decode_move,
    encode_move,
    move_path,
    plan_change,
)

log = logging.getLogger("shoal.cluster")

CONTROLLER = "controller"


@dataclasses.dataclass(frozen=True, slots=True)
class ControllerSettings:
    """Times in seconds."""

    interval: float = 5.0  # between two looks, each of which makes one change at most
    rest_after_move: float = 60.0  # in which a leader that was moved is left alone
    load_delay: float = 30.0  # after which nodes' loads show a move
    remember: float = 3600.0  # in which a tablespace is not moved back
    max_lag: int = 20_000  # LSNs behind the head at which a replica may still be asked to lead
    home_holds_all: bool = False  # whether the node that leads pg_default is to hold all tablespaces
    rest_after_joint_use: float = 300.0  # in which a tablespace stays where it was needed together with others
    placement: PlacementSettings = dataclasses.field(default_factory=PlacementSettings)


@dataclasses.dataclass(frozen=True, slots=True)
class RequestedMove:
    """A requested move: its time, by the clock, and its epoch."""

    at: float
    move: MoveLeader
    epoch: int


class Controller:
    """`coordination` returns the present session."""

    def __init__(
        self,
        node: str,
        observer: Observer,
        coordination: Callable[[], Coordination],
        clock: Clock,
        settings: ControllerSettings | None = None,
    ) -> None:
        self._node = node
        self._observer = observer
        self._coordination = coordination
        self._clock = clock
        self._settings = settings or ControllerSettings()
        self._token = b""  # what this node has written into the znode
        self._held_in: Coordination | None = None
        self._away: dict[str, float] = {}  # node -> clock time since which it is not there
        self._requested_moves: dict[tuple[bytes, str], RequestedMove] = {}  # by tablespace, and node that it left
        self._requests: dict[str, float] = {}  # name of a znode -> clock time since which it is there
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = run_in_background(self._run())

    async def stop(self) -> None:
        """Stops, and lets another node become the controller."""
        if self._task is None:
            return
        await end_task(self._task)
        if self._held_in is self._coordination():
            with contextlib.suppress(CoordinationUnavailableError, ConflictError):
                await self._held_in.delete(CONTROLLER)

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            try:
                if await self.hold_office():
                    await asyncio.sleep(self._settings.interval)
                    await self.run_once()
                    continue
            except (CoordinationUnavailableError, ConflictError) as error:
                log.info("placement waits: %s", error)
            except SqlError as error:
                log.warning("placement failed: %s", error.message)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.interval):
                    await self._wake.wait()

    async def hold_office(self) -> bool:
        """Whether this node is the controller; it becomes it if there is none. Raises CoordinationUnavailableError."""
        coordination = self._coordination()
        found = await coordination.get(CONTROLLER, self._wake.set)
        if found is not None:
            return self._held_in is coordination and found.data == self._token
        token = f"{self._node} {secrets.token_hex(8)}".encode()
        with contextlib.suppress(ConflictError):
            await coordination.create(CONTROLLER, token, ephemeral=True)
            self._token, self._held_in = token, coordination
            self._away.clear()
            self._requested_moves.clear()
            log.info("%s is the controller now", self._node)
            return True
        return False

    async def run_once(self) -> Change | None:
        """Plans and makes one change, and returns it. Raises CoordinationUnavailableError, ConflictError, SqlError."""
        if self._observer.stale or not self._observer.nodes:
            return None
        coordination = self._coordination()
        await self._remove_old_requests(coordination)
        change = plan_change(self.placement(), self._settings.placement)
        if change is None:
            return None
        seen = self._observer.tablespaces[change.tablespace]
        if isinstance(change, MoveLeader):
            made = await self._move(coordination, seen, change)
        else:
            made = await self._change_replicas(coordination, seen, change)
        return change if made else None

    def placement(self) -> ClusterPlacement:
        """The placement that the observer sees, with the moves that this controller remembers."""
        settings, now = self._settings, self._clock.monotonic()
        nodes = {name: node.load for name, node in self._observer.nodes.items()}
        seen = [item for item in self._observer.tablespaces.values() if item.spec.name]
        named = {node for item in seen for node in item.spec.replicas}
        self._away = {node: self._away.get(node, now) for node in named - nodes.keys()}
        self._requested_moves = {
            key: made for key, made in self._requested_moves.items() if now - made.at < settings.remember
        }
        made = list(self._requested_moves.values())
        resting = {item.move.tablespace: item for item in made if now - item.at < settings.rest_after_move}
        settling = (item.move for item in made if now - item.at < settings.load_delay)
        home = [item.epoch.leader for item in seen if settings.home_holds_all and item.spec.name == DEFAULT_TABLESPACE]
        since = self._clock.wall() - settings.rest_after_joint_use * 1e6
        tied = (item.tablespace for item in seen if item.last_needed_together > since)
        return ClusterPlacement(
            nodes,
            [
                self._tablespace_placement(item, resting.get(item.tablespace))
                for item in sorted(seen, key=lambda item: item.spec.name)
            ],
            {node: now - since for node, since in self._away.items()},
            frozenset((*resting, *tied)),
            frozenset(node for move in settling for node in (move.leader, move.to)),
            frozenset(key for key, item in self._requested_moves.items() if item.move.why != "preferred"),
            home[0] if home else "",
        )

    def _tablespace_placement(self, seen: ObservedTablespace, made: RequestedMove | None) -> TablespacePlacement:
        ready = frozenset(
            node
            for node, replica in seen.replicas.items()
            if replica.role != "bootstrapping" and replica.applied >= seen.head.lsn - self._settings.max_lag
        )
        # A move that is under way counts as done, or the next one would be planned without it.
        under_way = made is not None and made.epoch == seen.epoch.epoch
        return TablespacePlacement(
            seen.tablespace, seen.spec, made.move.to if made and under_way else seen.epoch.leader, ready
        )

    # --- changes -------------------------------------------------------------------------------------------------

    async def _change_replicas(
        self, coordination: Coordination, seen: ObservedTablespace, change: AddReplica | DropReplica
    ) -> bool:
        path = paths(change.tablespace).spec
        found = await coordination.get(path)
        if found is None or decode_spec(found.data) != seen.spec:
            return False  # another node has just changed it, so the plan is outdated
        if isinstance(change, AddReplica):
            replicas = (*seen.spec.replicas, change.node)
            log.info("%s gets a replica on %s", seen.name, change.node)
        else:
            replicas = tuple(node for node in seen.spec.replicas if node != change.node)
            gone = "is not needed" if change.node in self._observer.nodes else "has gone"
            log.info("the replica of %s on %s is removed: the node %s", seen.name, change.node, gone)
        await coordination.set(path, encode(dataclasses.replace(seen.spec, replicas=replicas)), found.version)
        return True

    async def _move(self, coordination: Coordination, seen: ObservedTablespace, change: MoveLeader) -> bool:
        move = Move(change.leader, change.to, seen.epoch.epoch)
        log.info("moving the leader of %s to %s from %s: %s", seen.name, change.to, change.leader, change.why)
        with contextlib.suppress(ConflictError):
            await coordination.create(move_path(change.tablespace), encode_move(move))
            self._requested_moves[change.tablespace, change.leader] = RequestedMove(
                self._clock.monotonic(), change, move.epoch
            )
            return True
        return False

    async def _remove_old_requests(self, coordination: Coordination) -> None:
        """Removes requests that were not carried out: those of ended epochs, and old ones."""
        now = self._clock.monotonic()
        names = await coordination.children(MOVES)
        self._requests = {name: self._requests.get(name, now) for name in names}
        epochs = {item.tablespace.hex(): item.epoch.epoch for item in self._observer.tablespaces.values()}
        for name in names:
            found = await coordination.get(f"{MOVES}/{name}")
            old = now - self._requests[name] >= self._settings.rest_after_move
            if found is not None and (old or _epoch_of(found.data) != epochs.get(name, -1)):
                await coordination.delete(f"{MOVES}/{name}", found.version)


def _epoch_of(data: bytes) -> int | None:
    """The epoch that a request ends; None if the data is not a request."""
    with contextlib.suppress(SqlError):
        return decode_move(data).epoch
    return None


class LeaderTerm(Protocol):
    """The part of replication.log.leader.LeaderLog that is needed here."""

    @property
    def leading(self) -> bool: ...

    @property
    def epoch(self) -> Epoch: ...


class LeadableLog(Protocol):
    """The part of replication.log.replica.ReplicatedLog that is needed here."""

    @property
    def leader(self) -> LeaderTerm | None: ...

    async def step_down(self, to: str = "") -> None: ...


class HandOvers(BackgroundTask):
    """Gives away the leaderships that this node is asked to give away. `log_of`: the log of a tablespace that this
    node holds; `before` is called ahead of a hand-over with the tablespace's id."""

    def __init__(
        self,
        node: str,
        coordination: Callable[[], Coordination],
        log_of: Callable[[bytes], LeadableLog | None],
        before: Callable[[bytes], None] = lambda tablespace: None,
        retry_pause: float = 2.0,
    ) -> None:
        self._node = node
        self._coordination = coordination
        self._log_of = log_of
        self._before = before
        self._retry_pause = retry_pause
        self._wake = asyncio.Event()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            try:
                for name in await self._coordination().children(MOVES, self._wake.set):
                    await self._hand_over(name)
                await self._wake.wait()
            except (CoordinationUnavailableError, ConflictError):
                await asyncio.sleep(self._retry_pause)
            except SqlError as error:
                log.warning("ignored a request to move a leader: %s", error.message)
                await asyncio.sleep(self._retry_pause)

    async def _hand_over(self, name: str) -> None:
        coordination = self._coordination()
        tablespace = self._tablespace_of_request(name)
        held = self._log_of(tablespace) if tablespace else None
        found = await coordination.get(f"{MOVES}/{name}") if held is not None else None
        term = held.leader if held is not None else None
        if held is None or found is None or term is None or not term.leading:
            return
        move = decode_move(found.data)
        if move.leader != self._node or move.epoch != term.epoch.epoch:
            return
        await coordination.delete(f"{MOVES}/{name}", found.version)
        log.info("%s hands %s over to %s", self._node, name, move.to)
        self._before(tablespace)
        await held.step_down(move.to)

    @staticmethod
    def _tablespace_of_request(name: str) -> bytes:
        with contextlib.suppress(ValueError):
            return bytes.fromhex(name)
        return b""
