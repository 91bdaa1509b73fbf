"""Ends what a node has carried here when its session with ZooKeeper is over: it may be stopped, or cut off, and would
keep the locks of its clients' transactions until it comes back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from wire.carriers import Carriers

log = logging.getLogger("shoal.cluster")

MARGIN = 1.0  # seconds in which a node whose session was over registers again, as after a short interruption
LOOK = 0.5


class CarrierWatch:
    """`registered` gives the nodes that are registered, None while that is not known."""

    def __init__(self, carriers: Carriers, registered: Callable[[], Collection[str] | None]) -> None:
        self._carriers = carriers
        self._registered = registered
        self._gone: dict[str, float] = {}  # node -> loop time since which it is not registered
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK)
            self.look(asyncio.get_running_loop().time())

    def look(self, now: float) -> None:
        registered = self._registered()
        if registered is None:
            self._gone.clear()
            return
        carriers = self._carriers.nodes
        self._gone = {node: self._gone.get(node, now) for node in carriers if node not in registered}
        for node, since in self._gone.items():
            if now - since >= MARGIN:
                count = self._carriers.end(node)
                log.warning('node "%s" has left the cluster: %d sessions that it carried here were ended', node, count)
