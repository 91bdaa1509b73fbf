"""The roster of a router: the nodes of the directory, and whether they answer.

    present       in the directory, and the last probe was answered: gets new clients
    absent        not in the directory, or its port is closed: gets none; its existing connections continue
    silent        SILENT_AFTER probes in a row were not answered within PROBE_TIMEOUT: its connections end, because a
                  lost machine or a stopped process would never answer them

A probe is an SSLRequest, which a node answers with one byte before anything else: it needs the node's event loop, but
no session and no role. A node without a probe counts as present.

New clients go to the node with the least load. Nodes report their load every few seconds; the router adds
CONNECTION_LOAD for each connection that it has sent there since then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from replication.background import run_in_background
from replication.directory import NodeDirectory
from replication.interface import Node
from wire import client_core

log = logging.getLogger("shoal.router")

PROBE_INTERVAL = 1.0  # seconds
PROBE_TIMEOUT = 2.0  # seconds
SILENT_AFTER = 3
CONNECTION_LOAD = 0.02  # of one connection that the node has not reported yet
DEFAULT_TABLESPACE = "pg_default"


@dataclass(slots=True)
class Health:
    """The state of one address, as this router knows it."""

    answers: bool = True
    missed: int = 0  # probes in a row
    connections: int = 0  # open through this router
    unreported: int = 0  # of them, since the node reported its load
    reported: Node | None = None
    why: str = field(default="")


class Roster:
    """Picks nodes and probes them. `on_silent` is called with the name of a node whose connections must end."""

    def __init__(
        self,
        directory: NodeDirectory,
        *,
        on_silent: Callable[[str], None] = lambda node: None,
        probe_interval: float = PROBE_INTERVAL,
        probe_timeout: float = PROBE_TIMEOUT,
    ) -> None:
        self.directory = directory
        self._on_silent = on_silent
        self._interval = probe_interval
        self._timeout = probe_timeout
        self._health: dict[str, Health] = {}
        self._prober: asyncio.Task[None] | None = None
        directory.on_change(self._on_directory_change)

    def start(self) -> None:
        self._prober = run_in_background(self._probe_for_ever())

    async def stop(self) -> None:
        if self._prober is not None:
            self._prober.cancel()
            await asyncio.wait((self._prober,))

    def health(self, node: str) -> Health:
        return self._health.setdefault(node, Health())

    def candidates(self, route: str) -> list[Node]:
        """The nodes to which a new client may be sent, the best one first. `route`: any | leader | replica."""
        leader = self.directory.leader(DEFAULT_TABLESPACE)
        found = [
            node
            for node in self.directory.nodes.values()
            if self.health(node.node).answers and (route == "any" or (node.node == leader) == (route == "leader"))
        ]
        return sorted(found, key=self._load_of)

    def _load_of(self, node: Node) -> tuple[float, int, str]:
        health = self.health(node.node)
        return node.load + CONNECTION_LOAD * health.unreported, health.connections, node.node

    def add_connection(self, node: str) -> None:
        health = self.health(node)
        health.connections += 1
        health.unreported += 1

    def remove_connection(self, node: str) -> None:
        health = self.health(node)
        health.connections -= 1
        health.unreported = max(health.unreported - 1, 0)

    def mark_unreachable(self, node: str, why: str) -> None:
        """Sends no new clients to a node after a failed connection, until it answers a probe."""
        self._record_missed_probe(node, self.health(node), why)

    def _on_directory_change(self) -> None:
        for node in self.directory.nodes.values():
            health = self.health(node.node)
            if health.reported is not node:
                health.reported = node
                health.unreported = 0

    # ---- probes -----------------------------------------------------------------------------------------------------

    async def _probe_for_ever(self) -> None:
        while True:
            nodes = dict(self.directory.nodes)
            for name, health in list(self._health.items()):
                if name not in nodes:
                    if health.connections and health.reported is not None:
                        nodes[name] = health.reported  # it may be stopped: its connections must still end
                    else:
                        del self._health[name]
            await asyncio.gather(*(self._probe(node) for node in nodes.values()))
            await asyncio.sleep(self._interval)

    async def _probe(self, node: Node) -> None:
        health = self.health(node.node)
        try:
            async with asyncio.timeout(self._timeout):
                reader, writer = await asyncio.open_connection(node.host, node.port)
                try:
                    writer.write(client_core.SSL_REQUEST)
                    answer = await reader.read(1)
                finally:
                    writer.close()
        except TimeoutError:
            self._record_missed_probe(node.node, health, f"no answer within {self._timeout:g} s")
            health.missed += 1
            if health.missed == SILENT_AFTER:
                self._on_silent(node.node)
            return
        except OSError as error:
            self._record_missed_probe(node.node, health, error.strerror or str(error))
            health.missed = 0  # its machine answers
            return
        health.missed = 0
        if not answer:
            self._record_missed_probe(node.node, health, "it closes connections")
        elif not health.answers:
            log.warning("node %s answers again", node.node)
            health.answers = True

    def _record_missed_probe(self, name: str, health: Health, why: str) -> None:
        health.why = why
        if health.answers:
            log.warning("node %s does not answer: %s", name, why)
            health.answers = False
