"""What happens to the cluster under load: nodes are killed and frozen, at random and at named steps of a commit or a
takeover; ZooKeeper's servers and members of the store are killed and frozen.

One action at a time, each of which is healed before the next one, and after each the cluster has to make progress.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg

from replication.log.layout import decode_head, decode_replica
from tests.cluster import ShoalCluster
from tests.torture.load import Load
from tests.torture.steps import COMMIT_STEPS, TAKEOVER_STEPS, arm, disarm, paused

STEP_PATIENCE = 8.0  # seconds in which an armed node should come to its step
SLOW = 3.0  # seconds: fail-overs that somebody will want to understand
PROGRESS = 25.0  # seconds after the last fault in which something must be committed again


class Nemesis:
    """`only`: a part of the names of the actions to take. `failovers`: the action, and the seconds from its SIGKILL of
    a leader to the first commit that began after it."""

    def __init__(
        self, cluster: ShoalCluster, load: Load, seed: int, tell: Callable[[str], None], only: str = ""
    ) -> None:
        self.cluster = cluster
        self.load = load
        self.random = random.Random(seed)
        self.tell = tell
        self.done: Counter[str] = Counter()
        self.kills = 0
        self.failovers: list[tuple[str, float]] = []
        self._killed_at = 0.0
        self._session = float(str(cluster.settings["session_timeout"]))
        self._commit_timeout = float(str(cluster.settings["commit_timeout"]))
        steps = [(f"{how} at {step}", self._at_step(step, how)) for step in COMMIT_STEPS for how in ("kill", "freeze")]
        steps += [
            (f"{how} at {step}", self._at_takeover(step, how)) for step in TAKEOVER_STEPS for how in ("kill", "freeze")
        ]
        self._actions: list[tuple[str, Callable[[], None]]] = [
            ("kill leader", self.kill_leader),
            ("kill follower", self.kill_follower),
            ("kill two", self.kill_two),
            ("freeze leader", lambda: self._freeze(self.cluster.leader(), 1.2, 3.0)),
            ("freeze leader briefly", lambda: self._freeze(self.cluster.leader(), 0.1, 0.7)),
            ("freeze follower", lambda: self._freeze(self._follower(), 0.3, 3.0)),
            ("stop leader politely", self.stop_leader),
            ("replicas elsewhere", self.move_replicas),
            ("replicas elsewhere and a kill", self.move_replicas_and_kill),
            ("zookeeper server", self.zookeeper_server),
            ("all of zookeeper", self.all_of_zookeeper),
            ("zookeeper goes with its reply", self.lost_reply),
            *([("store member", self.store_member)] if cluster.log_stores else []),
            *steps,
        ]
        self._actions = [action for action in self._actions if only in action[0]]
        self._plan: list[tuple[str, Callable[[], None]]] = []

    def run(self, seconds: float) -> None:
        """Raises nothing: what goes wrong is in the history."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not self._plan:  # everything once, in another order, before anything comes again
                self._plan = self.random.sample(self._actions, len(self._actions))
            name, action = self._plan.pop()
            self.tell(name)
            self._killed_at = 0.0
            try:
                action()
                self.heal()
            except Exception as error:
                self.load.history.problem(f"{name}: {error!r}")
                with contextlib.suppress(Exception):
                    self.heal()
            self.done[name] += 1
            self._see_progress(name)
            if self.load.history.problems:
                self.tell(f"    {self.load.history.problems[-1]}")
                return

    def heal(self) -> None:
        """Everything runs again."""
        self.cluster.zookeeper.start()
        for server in self.cluster.log_stores:
            if not server.running:
                server.start()
        for name, node in self.cluster.nodes.items():
            disarm(node.data)
            if node.running and node.stopped():
                self.cluster.cont(name)
        self.cluster.start(*[name for name, node in self.cluster.nodes.items() if not node.running])

    def _see_progress(self, name: str) -> None:
        healed = time.monotonic()
        while (first := self.load.progress(self._killed_at or healed)) is None:
            if time.monotonic() - healed > PROGRESS:
                self.load.history.problem(f"nothing is committed {PROGRESS:g} s after: {name}\n{self.cluster.logs()}")
                return
            time.sleep(0.02)
        if self._killed_at:
            self.failovers.append((name, first - self._killed_at))
            if first - self._killed_at > SLOW:
                self.tell(f"    a slow fail-over, {first - self._killed_at:.2f} s\n{self.cluster.logs(3000)}")

    def _rest(self, low: float, high: float) -> None:
        time.sleep(self.random.uniform(low, high))

    def _follower(self) -> str:
        return self.random.choice(self.cluster.followers())

    def _kill(self, name: str) -> None:
        self.kills += 1
        self.cluster.kill(name)

    # --- nodes ---------------------------------------------------------------------------------------------------

    def kill_leader(self) -> None:
        leader = self.cluster.leader()
        self._killed_at = time.monotonic()
        self._kill(leader)
        self._rest(0.0, 3.0)

    def kill_follower(self) -> None:
        self._kill(self._follower())
        self._rest(0.0, 2.0)

    def kill_two(self) -> None:
        """The leader, and whoever comes next as soon as it has."""
        leader = self.cluster.leader()
        self._kill(leader)
        self._kill(self.cluster.leader(leader))
        self._rest(0.0, 2.0)

    def stop_leader(self) -> None:
        status = self.cluster.stop_politely(self.cluster.leader())
        if status != 0:
            self.load.history.problem(f"a leader that was stopped politely ended with {status}")
        self._rest(0.0, 1.0)

    def _freeze(self, name: str, low: float, high: float) -> None:
        self.cluster.stop(name)
        self._rest(low * self._session, high * self._session)
        self.cluster.cont(name)

    def _at_step(self, step: str, how: str) -> Callable[[], None]:
        def action() -> None:
            leader = self.cluster.leader()
            arm(self.cluster.nodes[leader].data, step, self.random.randrange(1, 40))
            if self._comes(leader):
                self._end(leader, how)

        return action

    def _at_takeover(self, step: str, how: str) -> Callable[[], None]:
        """Whoever takes over next is stopped in the middle of it."""

        def action() -> None:
            leader = self.cluster.leader()
            others = self.cluster.followers()
            for name in others:
                arm(self.cluster.nodes[name].data, step)
            self._kill(leader)
            found = self._comes(*others)
            for name in others:
                if name != found:
                    disarm(self.cluster.nodes[name].data)
            if found:
                self._end(found, how)

        return action

    def _comes(self, *names: str) -> str:
        """The first of the nodes that has come to the step that they are armed with; '' if none does."""
        nodes = [self.cluster.nodes[name] for name in names]
        deadline = time.monotonic() + STEP_PATIENCE
        while True:
            for node in nodes:
                if paused(node.data) and node.stopped():
                    return node.name
            if time.monotonic() > deadline:
                self.done["step not reached"] += 1
                for node in nodes:
                    disarm(node.data)
                return ""
            time.sleep(0.005)

    def _end(self, name: str, how: str) -> None:
        if how == "kill":
            self._rest(0.0, 0.2)
            self._killed_at = time.monotonic()
            self._kill(name)
            self._rest(0.0, 1.0)
        else:
            self._rest(*self.random.choice(((0.1, 0.5), (1.5 * self._session, 3 * self._session))))
            self.cluster.cont(name)
        disarm(self.cluster.nodes[name].data)

    # --- who holds what ------------------------------------------------------------------------------------------

    def alter(self, change: str) -> None:
        """Changes the tablespace `second`, as soon as somebody takes it. Raises psycopg.OperationalError."""
        deadline = time.monotonic() + PROGRESS
        while True:
            name = self.random.choice([name for name, node in self.cluster.nodes.items() if node.running])
            try:
                with self.cluster.connect(name) as connection:
                    connection.execute(f"ALTER TABLESPACE second {change}".encode())
                return
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def move_replicas(self) -> None:
        """Other nodes than now are to hold a tablespace; sometimes again, before they do."""
        names = sorted(self.cluster.nodes)
        for _ in range(self.random.choice((1, 1, 2))):
            chosen = self.random.sample(names, self.random.randint(1, len(names)))
            self.alter(f"SET (replicas = '{','.join(chosen)}')")
            self._rest(0.0, 7.0)

    def move_replicas_and_kill(self) -> None:
        self.move_replicas()
        self._kill(self.random.choice(sorted(self.cluster.nodes)))
        self._rest(0.0, 3.0)

    def everywhere(self) -> None:
        """Every node holds everything again, up to now."""
        self.alter("RESET (replicas, expected_replicas)")
        head = self.cluster.watcher.get(f"tablespaces/{self._second()}/head") or b""
        for name in self.cluster.nodes:
            path = f"tablespaces/{self._second()}/replicas/{name}"

            def holds(path: str = path) -> bool:
                found = decode_replica(
                    self.cluster.watcher.get(path) or b'{"node":"","role":"bootstrapping","applied":0}'
                )
                return found.role != "bootstrapping" and found.applied >= decode_head(head).lsn

            self.cluster.wait_until(holds, f"{name} holds everything", 2 * PROGRESS)

    def _second(self) -> str:
        return next(name for name in self.cluster.watcher.children("tablespaces") if name != self.cluster.tablespace)

    # --- what they stand on --------------------------------------------------------------------------------------

    def zookeeper_server(self) -> None:
        server: Any = self.random.choice(self.cluster.zookeeper.servers)
        if self.random.random() < 0.5:
            server.stop()
            self._rest(0.2, 2.0)
        else:
            server.suspend()
            self._rest(0.2, 3.0)
            server.resume()

    def all_of_zookeeper(self) -> None:
        """Away for less or for longer than a session, or than a commit waits."""
        self.cluster.zookeeper.stop()
        self._rest(*self.random.choice(((0.1, 0.5), (1.0, 3.0), (4.0, 6.0))))

    def lost_reply(self) -> None:
        """ZooKeeper has done a commit, and goes away before the leader has read that, for longer than a commit waits:
        nobody knows until it is back."""
        leader = self.cluster.leader()
        arm(self.cluster.nodes[leader].data, "reply lost", self.random.randrange(1, 20))
        if self._comes(leader):
            self.cluster.zookeeper.stop()
            self.cluster.cont(leader)
            self._rest(1.1 * self._commit_timeout, 1.5 * self._commit_timeout)

    def store_member(self) -> None:
        member = self.random.choice(self.cluster.log_stores)
        if self.random.random() < 0.5:
            member.kill()
            self._rest(0.5, 2.0)
        else:
            member.suspend()
            self._rest(0.5, 3.0)
            member.resume()
