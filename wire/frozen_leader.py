"""A node that runs a client's statement and no longer accepts data: its process was stopped, or waits for memory. Its
connections stay open, and it cannot end the statement at statement_timeout.

It is tested when a statement should end: a node accepts a cancel request at once, whatever it runs (wire/server.py). A
node that does not accept it in time is abandoned: the connection to it is closed, and wire/session_proxy.py reports the
outcome of the transaction.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable

from wire.client import ClientConnection

LATE = 1.0  # seconds after its timeout for which a statement may continue before its node is tested

log = logging.getLogger("shoal.proxy")


async def end_if_frozen(node: ClientConnection, asked: Awaitable[bool]) -> bool:
    """Closes the connection if the node has not accepted the request; returns whether it has closed it."""
    if await asked:
        return False
    if not node.lost:
        log.warning("the node at %s:%s accepts no data any more: its statements are abandoned", node.host, node.port)
        node.abort()
    return True


async def watch(node: ClientConnection, statement_timeout: float) -> None:
    """Watches while statements run there, each with this many seconds."""
    while True:
        await asyncio.sleep(statement_timeout + LATE)
        if await end_if_frozen(node, node.takes()):
            return
