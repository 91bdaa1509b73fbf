"""A cluster in virtual time: nodes with replicas of two tablespaces, a coordination service, a store, faults by a seed.

    report = simulate(seed)            raises AssertionError with the seed when a promise is broken

What is checked, all the time or at the end:

    acknowledged   every entry that was acknowledged is in the log, once, at its LSN, and the head had passed it then
    failed         no entry whose clients were told that it failed is in the log (unknown ones may be, or not)
    one leader     in one epoch one session at most moves a head, and heads only go up
    prefix         what any replica has applied is a prefix of the log, and never past the head
    joint          entries of several tablespaces are in all of their logs, or in none
    strong reads   whoever may serve has everything that was acknowledged by anybody, and so has a follower that has
                   asked for the head and waited for it, of what was acknowledged before it asked
    progress       when the faults end, somebody leads, new entries are committed, and every replica has them
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import shutil
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar
from unittest import mock

from replication.interface import (
    Checkpoint,
    CoordinationUnavailableError,
    LogEntry,
    Set,
    Spec,
)
from replication.interface import Node as NodeRecord
from replication.log import (
    BulkFiles,
    Committer,
    LogGoneError,
    LogSettings,
    Position,
    ReplicatedLog,
    create_tablespace,
    ledger_list,
    put_ephemeral,
)
from replication.log.interface import Leader
from replication.log.layout import decode_epoch, decode_head, encode, encode_checkpoints, node_path, paths
from tests.replication.log.links import NodeSession, NodeStore
from tests.replication.log.virtual import NOWHERE, Node, VirtualLoop
from tests.replication.memory_coordination import MemoryCoordination, MemorySession
from tests.replication.memory_store import Fault, MemoryStore

T = TypeVar("T")

TABLESPACES = (b"A" * 16, b"B" * 16)
SESSION_TIMEOUT = 2.0
AWAKE = (0.0, 0.001, 0.003, 0.01, 0.02)  # seconds after a node was continued: what it knows is old then
LISTED = 3  # ledgers in the newest part of the list: histories are short
UNFLUSHED = 3  # entries that a crash may take from a replica's tables
SETTINGS = LogSettings(
    commit_timeout=3.0,
    group_bytes=64,
    eager_bytes=40,
    ledger_bytes=4000,
    lease_margin=0.2,
    poll=0.4,
    presence=0.3,
    rank_pause=0.1,
    takeover_timeout=5.0,
    max_retry_pause=0.5,
    turn_entries=2,
    housekeeping=1.0,
    fetch_ahead=2,
    run_objects=3,
    run_bytes=400,
    time_to_live=1.0,
    lost_replica_grace=2.0,
)


SCALED = ("commit_timeout", "lease_margin", "rank_pause", "takeover_timeout", "lost_replica_grace")  # by Shape.pace
ACTIONS = (
    "crash", "stop", "stop", "partition", "suspend", "lose", "lose", "lose", "expire", "store_down", "service_down",
    "step_down", "lag", "checkpoint", "checkpoint",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shape:
    """What a seed contains. `seconds`: of faults; `gap`: the longest time between two of them; `pause`: the longest
    time between two rounds of a node's clients; `pace`: by how much sessions, timeouts and faults are shorter than
    those above (latencies are not: a fault meets as many steps of a commit)."""

    seconds: float = 12.0
    gap: float = 1.2
    pause: float = 0.06
    pace: float = 1.0
    tablespaces: tuple[bytes, ...] = TABLESPACES
    actions: tuple[str, ...] = ACTIONS
    aim: float = 0.0  # the part of the faults that are meant for a leader
    look: float = 0.011  # between two looks at who may serve strong reads

    @property
    def settings(self) -> LogSettings:
        return replace(SETTINGS, **{name: getattr(SETTINGS, name) / self.pace for name in SCALED})

    @property
    def session_timeout(self) -> float:
        return SESSION_TIMEOUT / self.pace


def short(seed: int) -> Shape:
    """A history of a few dozen commits and two to six faults. Each seed has some kinds of faults and not the others
    (swarm testing): what all kinds together would hide is met by those that lack some."""
    chance = random.Random(~seed)
    kinds = sorted(set(ACTIONS))
    return Shape(
        seconds=chance.choice((0.5, 1.0, 1.5)),
        gap=chance.choice((0.3, 0.6, 1.0)),
        pause=chance.choice((0.1, 0.2, 0.3)),
        pace=chance.choice((4.0, 8.0)),
        tablespaces=TABLESPACES if chance.random() < 0.5 else TABLESPACES[:1],
        actions=tuple(chance.sample(kinds, chance.randint(1, 5))),
        aim=0.6,
        look=0.05,
    )


class BrokenError(AssertionError):
    """A promise was broken."""


@dataclass(slots=True)
class Joint:
    tablespaces: tuple[bytes, ...]
    lsns: tuple[int, ...]


class VirtualClock:
    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def wall(self) -> int:
        return int(self.monotonic() * 1_000_000)


def apart(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Runs work that belongs to no node: what a network, a server or a disk does."""
    task = asyncio.get_running_loop().create_task(work, context=NOWHERE)
    task.add_done_callback(_seen)
    return task


def _seen(task: asyncio.Task[Any]) -> None:
    """Who asked may be dead."""
    if not task.cancelled():
        task.exception()


class Engine:
    """One tablespace of one node: `applied` is what is committed, `sequenced` what was submitted on top of it."""

    def __init__(self, world: World, node: str, tablespace: bytes, applied: list[bytes]) -> None:
        self.world = world
        self.node = node
        self.tablespace = tablespace
        self.applied = applied
        self.sequenced: list[bytes] = []
        self.unknown = False
        self.leader: Leader | None = None

    @property
    def flushed_lsn(self) -> int:
        return max(len(self.applied) - UNFLUSHED, 0)

    def apply(self, entry: LogEntry) -> None:
        if entry.lsn != len(self.applied) + 1:
            raise self.world.broken(f"{self.node} applies {entry.lsn} after {len(self.applied)}")
        self.world.applied(self.tablespace, entry.lsn, entry.body)
        self.applied.append(entry.body)
        for name in entry.files:
            with open(self.world.bulk_of(self.node).path(name), "rb") as file:
                if file.read() != entry.body:
                    raise self.world.broken(f"{self.node}: another content of {name}")

    def admit(self, entry: LogEntry) -> Awaitable[None] | None:
        return asyncio.sleep(0.02) if self.world.random.random() < 0.05 else None

    async def ready(self) -> None:
        if self.world.random.random() < 0.05:
            await asyncio.sleep(0.02)

    async def lead(self, leader: Leader) -> None:
        if leader.committed_lsn != len(self.applied):
            raise self.world.broken(
                f"{self.node} leads from {leader.committed_lsn} and has applied {len(self.applied)}"
            )
        self.leader, self.unknown = leader, False

    def next_lsn(self) -> int:
        return len(self.applied) + len(self.sequenced) + 1

    def on_committed(self, lsn: int) -> None:
        while len(self.applied) < lsn:
            body = self.sequenced.pop(0)
            self.applied.append(body)
            self.world.applied(self.tablespace, len(self.applied), body)
            if not self.unknown:
                self.world.acknowledged(self.node, self.tablespace, len(self.applied), body)

    def on_unknown(self, first_lsn: int) -> None:
        if first_lsn != len(self.applied) + 1:
            raise self.world.broken(f"unknown from {first_lsn}, committed {len(self.applied)}")
        self.unknown = True

    def on_deposed(self, last_committed: int) -> None:
        if last_committed != len(self.applied):
            raise self.world.broken(f"deposed at {last_committed}, committed {len(self.applied)}")
        if not self.unknown:
            self.world.failed(self.tablespace, self.sequenced)
        self.sequenced, self.leader = [], None


@dataclass(slots=True)
class Server:
    """A node's machine: what survives a crash, and the process that runs now."""

    name: str
    disk: dict[bytes, list[bytes]]
    process: Node
    session: NodeSession | None = None
    replicas: dict[bytes, ReplicatedLog] = field(default_factory=dict)
    engines: dict[bytes, Engine] = field(default_factory=dict)
    bulk: BulkFiles | None = None


class World:
    def __init__(self, seed: int, loop: VirtualLoop, directory: str, shape: Shape) -> None:
        self.shape = shape
        self.settings = shape.settings
        self.tablespaces = shape.tablespaces
        self.random = random.Random(seed)
        self.loop = loop
        self.directory = directory
        self.faulty = False
        self.service = MemoryCoordination(latency=lambda session: self._latency())
        self.store = MemoryStore(decide=self._store_fault)
        self.admin: MemorySession
        self.servers: list[Server] = []
        self.truth: dict[tuple[bytes, int], bytes] = {}
        self.acks: dict[tuple[bytes, int], bytes] = {}
        self.failures: set[tuple[bytes, bytes]] = set()
        self.newest_ack = dict.fromkeys(self.tablespaces, 0)
        self.joints: list[tuple[bytes, ...]] = []  # the bodies of one joint entry, by tablespace
        self.errors: list[BaseException] = []
        self.serial = 0
        self.strong_reads = 0
        self.follower_reads = 0
        self.bootstraps = 0
        self.faults = 0
        self.checkpoints = dict.fromkeys(self.tablespaces, 0)  # LSN of the one that is kept
        self._head: dict[bytes, tuple[bytes | None, int]] = {}  # as it was decoded last
        self.quiet = False  # clients write no more

    def _latency(self) -> float:
        return self.random.choice((0.0005, 0.001, 0.002, 0.01, 0.05 if self.faulty else 0.003))

    def _store_fault(self, number: int, operation: str, name: str) -> Fault | None:
        chance = self.random.random()
        if operation == "get_many" and chance > 0.8:
            return Fault("part")
        if self.faulty and chance < 0.04:
            return Fault("fail")
        if self.faulty and chance < 0.08:
            return Fault("unknown")
        if self.faulty and chance < 0.10:
            return Fault("delay", self.random.uniform(0.05, 1.5) / self.shape.pace)
        return Fault("delay", self.random.uniform(0.001, 0.008)) if chance < 0.7 else None

    def bulk_of(self, node: str) -> BulkFiles:
        found = next(server.bulk for server in self.servers if server.name == node)
        assert found is not None
        return found

    def broken(self, what: str) -> BrokenError:
        """Noted, whoever catches it."""
        error = BrokenError(what)
        self.errors.append(error)
        return error

    # --- what nodes report ---------------------------------------------------------------------------------------

    def head_lsn(self, tablespace: bytes) -> int:
        data = self.service.value(paths(tablespace).head)
        if data is not self._head.get(tablespace, (None, 0))[0]:
            self._head[tablespace] = data, 0 if data is None else decode_head(data).lsn
        return self._head[tablespace][1] if data is not None else 0

    def applied(self, tablespace: bytes, lsn: int, body: bytes) -> None:
        if lsn > self.head_lsn(tablespace):
            raise self.broken(f"{lsn} is applied, the head is at {self.head_lsn(tablespace)}")
        if self.truth.setdefault((tablespace, lsn), body) != body:
            raise self.broken(f"two entries {lsn}: {self.truth[tablespace, lsn]!r} and {body!r}")

    def acknowledged(self, node: str, tablespace: bytes, lsn: int, body: bytes) -> None:
        self.acks[tablespace, lsn] = body
        self.newest_ack[tablespace] = max(self.newest_ack[tablespace], lsn)
        for server in self.servers:  # whoever else serves has missed it
            if server.name != node and server.replicas:
                self.look_at(server, tablespace)

    def failed(self, tablespace: bytes, bodies: Sequence[bytes]) -> None:
        self.failures |= {(tablespace, body) for body in bodies}

    # --- nodes ---------------------------------------------------------------------------------------------------

    def boot(self, server: Server) -> None:
        process = server.process = Node(self.loop, server.name)
        process.start(self._guard(process, lambda: self._run_node(server)))

    async def _guard(self, process: Node, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            if not process.dead:
                self.errors.append(error)

    async def _open(self, server: Server) -> NodeSession:
        session = NodeSession(
            server.process,
            self.service.session(
                server.name, session_timeout=self.shape.session_timeout, timeout=1.0 / self.shape.pace
            ),
        )
        server.session = session
        await put_ephemeral(session, node_path(server.name), encode(NodeRecord(server.name, "h", 1)))
        return session

    async def _run_node(self, server: Server) -> None:
        process = server.process
        while True:
            try:
                session = await self._open(server)
                break
            except CoordinationUnavailableError:
                await asyncio.sleep(0.1)
        committer = Committer(session, self.settings)
        server.bulk = BulkFiles(f"{self.directory}/{server.name}", run=_inline)
        server.replicas, server.engines = {}, {}
        for tablespace in self.tablespaces:
            flushed = server.disk[tablespace]
            kept = flushed[: self.random.randint(max(len(flushed) - UNFLUSHED, 0), len(flushed))]
            self._make_replica(server, committer, tablespace, kept)
            process.start(self._guard(process, partial(self._run_replica, server, committer, tablespace)))
        process.start(self._guard(process, lambda: self._write(server)))
        process.start(self._guard(process, lambda: self._read(server)))
        while True:
            await asyncio.sleep(0.05)
            if session.state == "lost":
                try:
                    session = await self._open(server)
                except CoordinationUnavailableError:
                    continue
                committer.use(session)
                for replica in server.replicas.values():
                    replica.use(session)

    def _make_replica(self, server: Server, committer: Committer, tablespace: bytes, rows: list[bytes]) -> None:
        engine = Engine(self, server.name, tablespace, list(rows))
        server.engines[tablespace] = engine
        server.disk[tablespace] = engine.applied  # the list goes on growing: a crash keeps a part of it
        store = NodeStore(self.store)
        assert server.bulk is not None
        server.replicas[tablespace] = ReplicatedLog(
            server.name,
            tablespace,
            committer,
            lambda url: store,
            engine,
            server.bulk,
            Position(len(rows), None),
            settings=self.settings,
            clock=VirtualClock(),
        )

    async def _run_replica(self, server: Server, committer: Committer, tablespace: bytes) -> None:
        while True:
            try:
                await server.replicas[tablespace].run()
            except LogGoneError:
                lsn = self.checkpoints[tablespace]
                self.bootstraps += 1
                rows = [self.truth[tablespace, number] for number in range(1, lsn + 1)]
                self._make_replica(server, committer, tablespace, rows)

    async def _write(self, server: Server) -> None:
        """Clients of this node: they write what it leads."""
        while True:
            await asyncio.sleep(self.random.uniform(0.0, self.shape.pause))
            for _ in range(self.random.randint(1, 3)):
                self._write_one(server)

    async def _read(self, server: Server) -> None:
        """Clients of this node: strong reads, whoever leads."""
        while True:
            await asyncio.sleep(self.random.uniform(0.0, 2 * self.shape.pause))
            tablespace = self.random.choice(self.tablespaces)
            replica, expected = server.replicas[tablespace], self.newest_ack[tablespace]
            try:
                head = await replica.read_head()
                await replica.wait_for(head.lsn)
            except (CoordinationUnavailableError, LogGoneError):
                continue
            self.follower_reads += 1
            if replica.applied_lsn < expected:
                raise self.broken(f"{server.name} reads at {replica.applied_lsn}, {expected} was acknowledged before")

    def _write_one(self, server: Server) -> None:
        if self.quiet:
            return
        led = [ts for ts in self.tablespaces if (leader := server.engines[ts].leader) is not None and leader.leading]
        if not led:
            return
        chosen = led if len(led) > 1 and self.random.random() < 0.3 else [self.random.choice(led)]
        engines = [server.engines[tablespace] for tablespace in chosen]
        lsns = tuple(engine.next_lsn() for engine in engines)
        joint = Joint(tuple(chosen), lsns) if len(chosen) > 1 else None
        bodies = []
        for engine, lsn in zip(engines, lsns, strict=True):
            self.serial += 1
            body = b"%d-%s" % (self.serial, b"x" * self.random.randint(0, 40))
            files = []
            if self.random.random() < 0.05:
                files = [f"bulk{self.serial}"]
                with open(self.bulk_of(server.name).path(files[0]), "wb") as file:
                    file.write(body)
            assert engine.leader is not None
            engine.sequenced.append(body)
            engine.leader.submit(lsn, body, self.serial, 1, files, joint)
            bodies.append(body)
        if joint is not None:
            self.joints.append(tuple(bodies))

    # --- faults --------------------------------------------------------------------------------------------------

    async def disturb(self, seconds: float) -> None:
        self.faulty = True
        until = self.loop.time() + seconds
        actions = [getattr(self, f"_{name}") for name in self.shape.actions]
        while self.loop.time() < until:
            await asyncio.sleep(self.random.uniform(0.05, self.shape.gap))
            self.random.choice(actions)(self._victim())
            self.faults += 1
        self.heal()

    def _victim(self) -> Server:
        """Anybody, or somebody who leads."""
        if self.random.random() < self.shape.aim:
            leaders = [server for server in self.servers if any(engine.leader for engine in server.engines.values())]
            return self.random.choice(leaders or self.servers)
        return self.random.choice(self.servers)

    def heal(self) -> None:
        """Everything works again."""
        self.faulty = False
        self.store.down = False
        if not self.service.running:
            self.service.start()
        for server in self.servers:
            self._continue(server, server.process)
            if server.process.dead:
                self.boot(server)
            elif server.session is not None:
                server.session.session.resume()
                server.session.session.catch_up()

    def _after(self, low: float, high: float, action: Callable[[], object]) -> None:
        self.loop.call_later(self.random.uniform(low, high) / self.shape.pace, action)

    def _crash(self, server: Server) -> None:
        self.kill(server, self.random.uniform(0.2, 5.0) / self.shape.pace)

    def _stop(self, server: Server) -> None:
        self.stop(server, self.random.uniform(0.05, 5.0) / self.shape.pace)

    def kill(self, server: Server, seconds: float) -> None:
        """SIGKILL; another process is started so much later."""
        process = server.process
        if process.dead:
            return
        process.kill()
        if server.session is not None:
            server.session.session.partition(1e9)
        self.loop.call_later(
            seconds,
            lambda: self.boot(server) if server.process is process else None,
            context=NOWHERE,
        )

    def stop(self, server: Server, seconds: float) -> None:
        """SIGSTOP: at whatever point the process is; often for longer than its session lives."""
        process = server.process
        if process.dead or process.stopped:
            return
        process.stop()
        if server.session is not None:
            server.session.session.partition(1e9)
        self.loop.call_later(seconds, lambda: self._continue(server, process), context=NOWHERE)

    def _continue(self, server: Server, process: Node) -> None:
        if process.stopped and not process.dead and server.process is process:
            if server.session is not None:
                server.session.session.resume()
            process.resume()
            for delay in AWAKE:
                self.loop.call_later(delay, self._look_around, server, context=NOWHERE)

    def _look_around(self, server: Server) -> None:
        with contextlib.suppress(BrokenError):  # it is noted
            for tablespace in server.replicas:
                self.look_at(server, tablespace)

    def _partition(self, server: Server) -> None:
        if server.session is not None:
            session = server.session.session
            session.partition(self.random.uniform(0.1, 2.0) / self.shape.pace)
            self._after(0.2, 4.0, session.resume)

    def _suspend(self, server: Server) -> None:
        if server.session is not None:
            session = server.session.session
            session.suspend()
            self._after(0.0, 3.0, session.resume)

    def _lose(self, server: Server) -> None:
        if server.session is not None:
            session = server.session.session
            session.lose_reply(
                self.random.choice(("before", "after", "later")),
                reconnect=self.random.choice((0.0, 0.3, 1.5)) / self.shape.pace,
            )
            self._after(0.1, 3.0, session.carry_out_late_requests)

    def _expire(self, server: Server) -> None:
        """The server ends a session that is connected; one that is cut off has the time that it was promised."""
        if server.session is not None:
            session = server.session.session
            if session.state == "connected" and not session._cut:
                session.expire()

    def _store_down(self, server: Server) -> None:
        def up() -> None:
            self.store.down = False

        self.store.down = True
        self._after(0.1, 4.0, up)

    def _service_down(self, server: Server) -> None:
        if self.service.running:
            self.service.stop()
            self._after(0.1, 4.0, lambda: None if self.service.running else self.service.start())

    def _step_down(self, server: Server) -> None:
        replica = server.replicas.get(self.random.choice(self.tablespaces))
        if replica is not None and not server.process.dead:
            to = self.random.choice(["", *(other.name for other in self.servers)])
            server.process.start(self._guard(server.process, lambda: replica.step_down(to)))

    def _checkpoint(self, server: Server) -> None:
        """Somebody has made a checkpoint of everything that this node has, in place of the one before."""
        for tablespace, engine in server.engines.items():
            lsn = len(engine.applied)
            if lsn > self.checkpoints[tablespace]:
                self.checkpoints[tablespace] = lsn
                record = Checkpoint(lsn, "", "folder", 1, 0)
                apart(self.admin.set(paths(tablespace).checkpoints, encode_checkpoints((record,))))

    def _lag(self, server: Server) -> None:
        if server.session is not None:
            session = server.session.session
            session.lag()
            self._after(0.1, 2.0, session.catch_up)

    # --- checks --------------------------------------------------------------------------------------------------

    async def watch(self) -> None:
        """Strong reads, and errors, all the time."""
        while True:
            await asyncio.sleep(self.shape.look)
            if self.errors:
                raise self.errors[0]
            for server in self.servers:
                for tablespace in server.replicas:
                    self.look_at(server, tablespace)

    def look_at(self, server: Server, tablespace: bytes) -> None:
        """Whether what a strong read would see there is stale."""
        replica = server.replicas[tablespace]
        if server.process.dead or server.process.stopped or self.loop.time() >= replica.may_serve_until:
            return
        self.strong_reads += 1
        if replica.applied_lsn < self.newest_ack[tablespace]:
            raise self.broken(f"{server.name} may serve at {replica.applied_lsn}: a stale strong read")

    def check_one_leader(self) -> None:
        for tablespace in self.tablespaces:
            where = paths(tablespace)
            holder: dict[int, str] = {}
            last = 0
            for session, operations in self.service.log:
                for operation in operations:
                    if not isinstance(operation, Set) or operation.path != where.head:
                        continue
                    head = decode_head(operation.data)
                    if holder.setdefault(head.epoch, session) != session:
                        raise self.broken(f"two leaders in epoch {head.epoch}: {holder[head.epoch]} and {session}")
                    if head.lsn <= last:
                        raise self.broken(f"the head went from {last} to {head.lsn}")
                    last = head.lsn

    def check_log(self, logs: dict[bytes, list[bytes]]) -> None:
        for tablespace, log in logs.items():
            if len(set(log)) != len(log):
                raise self.broken("an entry is in the log twice")
            for (of, lsn), body in self.acks.items():
                if of == tablespace and (lsn > len(log) or log[lsn - 1] != body):
                    raise self.broken(f"the acknowledged entry {lsn} {body!r} is lost")
            for (of, lsn), body in self.truth.items():
                if of == tablespace and (lsn > len(log) or log[lsn - 1] != body):
                    raise self.broken(f"entry {lsn} {body!r} was applied and is not in the log")
            for of, body in self.failures:
                if of == tablespace and body in log:
                    raise self.broken(f"{body!r} was said to have failed and is in the log")
        everything = {body for log in logs.values() for body in log}
        for bodies in self.joints:
            if 0 < sum(body in everything for body in bodies) < len(bodies):
                raise self.broken(f"a part of a joint entry is in the log: {bodies!r}")

    async def led(self) -> None:
        """Somebody leads each tablespace, and commits."""
        while not all(self.newest_ack.values()):
            await asyncio.sleep(0.02)

    async def settle(self) -> None:
        """Progress: everybody has a leader that commits, and everybody has all of it."""
        before = dict(self.newest_ack)
        deadline = self.loop.time() + 60
        while True:
            await asyncio.sleep(0.05)
            if self.errors:
                raise self.errors[0]
            if all(self.newest_ack[ts] > before[ts] + 2 for ts in self.tablespaces):
                return
            if self.loop.time() > deadline:
                roles = {s.name: {ts[:1]: r.role for ts, r in s.replicas.items()} for s in self.servers}
                epochs = [decode_epoch(self.service.value(paths(ts).epoch) or b"") for ts in self.tablespaces]
                raise self.broken(f"no progress: {roles}, {epochs}")


async def _inline(work: Callable[..., Any], *arguments: Any) -> Any:
    await asyncio.sleep(0)
    return work(*arguments)


@dataclass(frozen=True, slots=True)
class Report:
    acknowledged: int
    failed: int
    epochs: int
    strong_reads: int
    follower_reads: int
    bootstraps: int
    faults: int


async def _scenario(world: World, act: Callable[[World], Awaitable[None]]) -> Report:
    admin = world.admin = world.service.session("admin")
    inactivity = world.random.choice((0.0, 1.0)) / world.shape.pace
    names = ("n1", "n2", "n3")
    for tablespace in world.tablespaces:
        await create_tablespace(admin, tablespace, Spec("t", names, 3, max_leader_inactivity=inactivity))
    for name in names:
        world.servers.append(Server(name, {ts: [] for ts in world.tablespaces}, Node(world.loop, name)))
    for server in world.servers:
        world.boot(server)
    watch = asyncio.ensure_future(world.watch())
    main = asyncio.ensure_future(_act(world, act))
    await asyncio.wait((watch, main), return_when=asyncio.FIRST_COMPLETED)
    if watch.done():
        main.cancel()
        await watch
    watch.cancel()
    await main
    logs = {}
    for tablespace in world.tablespaces:
        lsn = world.head_lsn(tablespace)
        logs[tablespace] = [world.truth[tablespace, number] for number in range(1, lsn + 1)]
        for server in world.servers:
            have = server.engines[tablespace].applied
            if have != logs[tablespace]:
                raise world.broken(f"{server.name} has {len(have)} entries of {lsn}")
    world.check_log(logs)
    world.check_one_leader()
    gc.collect()  # futures whose errors nobody asked for may be in cycles, and complain when they are collected
    if world.loop.failures:
        raise world.broken(f"errors that nobody saw: {world.loop.failures[0]}")
    epochs = sum(decode_epoch(world.service.value(paths(ts).epoch) or b"").epoch for ts in world.tablespaces)
    return Report(
        len(world.acks), len(world.failures), epochs, world.strong_reads, world.follower_reads, world.bootstraps,
        world.faults,
    )  # fmt: skip


async def _act(world: World, act: Callable[[World], Awaitable[None]]) -> None:
    await world.led()
    await act(world)
    await world.settle()
    world.quiet = True
    deadline = world.loop.time() + 20
    while not _even(world):
        await asyncio.sleep(0.02)
        if world.loop.time() > deadline:
            raise world.broken("the replicas do not become even")


def _even(world: World) -> bool:
    return all(
        server.engines[ts].applied
        and len(server.engines[ts].applied) == world.head_lsn(ts)
        and not server.engines[ts].sequenced
        for server in world.servers
        for ts in world.tablespaces
    )


def simulate(seed: int, directory: str, shape: Shape | None = None) -> Report:
    """Faults of all kinds for so many seconds."""
    shape = shape or Shape()
    return play(seed, directory, lambda world: world.disturb(shape.seconds), shape)


def simulate_zombie(step: int, directory: str, fate: str) -> Report:
    """The leader of the first tablespace is stopped before its `step`-th handle from some moment on, for longer than
    its session lives, and goes on then; or it is killed there (`fate`: 'stop', 'kill')."""

    async def act(world: World) -> None:
        name = decode_epoch(world.service.value(paths(world.tablespaces[0]).epoch) or b"").leader
        server = next(server for server in world.servers if server.name == name)
        left = step
        done = asyncio.Event()

        def every_step(node: Node) -> None:
            nonlocal left
            if node is not server.process or done.is_set():
                return
            left -= 1
            if left >= 0:
                return
            done.set()
            if fate == "kill":
                world.kill(server, 3.0)
            else:
                world.stop(server, 2 * SESSION_TIMEOUT)

        world.loop.every_step = every_step
        await done.wait()
        await asyncio.sleep(3 * SESSION_TIMEOUT)
        world.heal()

    return play(step, directory, act, Shape())


def play(seed: int, directory: str, act: Callable[[World], Awaitable[None]], shape: Shape) -> Report:
    loop = VirtualLoop()
    folder = f"{directory}/{seed}"
    world = World(seed, loop, folder, shape)
    try:
        # No machine fails here, and syncing would take a third of the time.
        with mock.patch("os.fsync"), mock.patch.multiple(ledger_list, LISTED=LISTED, SEGMENT=LISTED - 1):
            return loop.run(_scenario(world, act))
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
