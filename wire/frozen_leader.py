"""A node that runs a client's statement and takes nothing any more: its process was stopped, or waits for memory. Its
connections stay open, and the end that it would make at statement_timeout never comes.

It is asked where a statement is to end: a node takes a request to cancel at once, whatever it runs (wire/server.py).
One that does not take it in time is given up: the connection to it breaks, which tells what has become of the
transaction (wire/session_proxy.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable

from wire.client import ClientConnection

LATE = 1.0  # seconds that a statement may go on beyond its timeout before its node is asked

log = logging.getLogger("shoal.proxy")


async def end_if_frozen(node: ClientConnection, asked: Awaitable[bool]) -> bool:
    """Breaks the connection where the node has not taken what it was asked; whether it is so."""
    if await asked:
        return False
    if not node.lost:
        log.warning("the node at %s:%s accepts no data any more: its statements are abandoned", node.host, node.port)
        node.abort()
    return True


async def watch(node: ClientConnection, statement_timeout: float) -> None:
    """While a statement runs there, or several, one after the other, each of which has so many seconds."""
    while True:
        await asyncio.sleep(statement_timeout + LATE)
        if await end_if_frozen(node, node.takes()):
            return
