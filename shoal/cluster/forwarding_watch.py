"""Ends the sessions that another node has forwarded to this one when the other node's ZooKeeper session has ended. The
other node may be stopped or cut off, and its clients' transactions would keep their locks until it returns."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from replication.background import BackgroundTask
from wire.forwarded_sessions import ForwardedSessions

log = logging.getLogger("shoal.cluster")

MARGIN = 1.0  # seconds in which a node may register again after its session has ended
LOOK = 0.5


class ForwardingWatch(BackgroundTask):
    """Watches the nodes that forward sessions to this node. `registered` returns the registered nodes, or None while
    they are unknown."""

    def __init__(self, carriers: ForwardedSessions, registered: Callable[[], Collection[str] | None]) -> None:
        self._carriers = carriers
        self._registered = registered
        self._gone: dict[str, float] = {}  # node -> loop time at which its registration was found missing

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK)
            self.check(asyncio.get_running_loop().time())

    def check(self, now: float) -> None:
        registered = self._registered()
        if registered is None:
            self._gone.clear()
            return
        carriers = self._carriers.nodes
        self._gone = {node: self._gone.get(node, now) for node in carriers if node not in registered}
        for node, since in self._gone.items():
            if now - since >= MARGIN:
                count = self._carriers.end(node)
                log.warning('node "%s" has left the cluster: %d sessions that it had forwarded were ended', node, count)
