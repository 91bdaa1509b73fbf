"""The services that the connections of a node in a cluster share, and the errors of forwarding."""

from __future__ import annotations

import asyncio

from catalog.errors import SqlError
from engine.replica import Replica
from engine.statements.routing import Routes
from wire.forwarded_sessions import ForwardedSessions
from wire.peer_authentication import PeerVerifier
from wire.session_proxy import DEADLINE, NOT_LEADING, Locator


class ForwardingServices:
    """The services that the composition root gives to the server of a node in a cluster.

    `node` is this node's name, `secret` the cluster's (wire/peer_authentication.py), `locator` finds leaders,
    `deadline` is the time (seconds) that a statement waits for one.
    """

    def __init__(
        self, replica: Replica, node: str, secret: bytes, locator: Locator, deadline: float = DEADLINE
    ) -> None:
        self.replica = replica
        self.locator = locator
        self.deadline = deadline
        self.verifier = PeerVerifier(secret, node)
        self.routes = Routes()
        self.carriers = ForwardedSessions()


def not_leading_error() -> SqlError:
    """The error for a session that another node forwards here while this node does not lead."""
    return SqlError(
        "40001",
        "this node does not lead the tablespace",
        hint="Nothing was done. Retry at the leader.",
        routine=NOT_LEADING,
    )


def led_apart_error() -> SqlError:
    """The error of a transaction that needs tablespaces which the node of its beginning does not lead."""
    return SqlError(
        "40001",
        "the transaction needs tablespaces that are led by different nodes",
        hint="Nothing was committed. Retry it in a moment: one node will then lead all of them.",
    )


class LingeringConnection(asyncio.Protocol):
    """A connection that has sent its last message, and reads until the other side has closed. If it closed with unread
    messages, the kernel would reset the connection, and the last message would be lost."""

    def __init__(self, connection: asyncio.Protocol) -> None:
        self._connection = connection

    def connection_lost(self, error: Exception | None) -> None:
        self._connection.connection_lost(error)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()
