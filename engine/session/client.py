"""The client of a session: its address, and messages that it did not request. The wire fills this in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from catalog.errors import SqlError

if TYPE_CHECKING:
    from engine.session.notifications import Action


class Client:
    """`since`: time of the connection, in microseconds since 2000-01-01 UTC."""

    def __init__(self, since: int) -> None:
        self.since = since
        self.address: tuple[str, int] | None = None  # host and port; None over a Unix-domain socket
        self.server_address: tuple[str, int] | None = None
        self.tls: tuple[str, str, int] | None = None  # its connection's: version, cipher, bits of the key
        self.unheard: frozenset[str] = frozenset()  # severities of notices that are not sent
        self.terminator: Callable[[SqlError], None] | None = None  # ends the connection when it is idle
        self.on_told: Callable[[], None] | None = None  # a notification has arrived; None: it cannot be sent
        self.tell_now: Callable[[SqlError], None] | None = None  # sends a notice while a statement waits
        # Of a node of a cluster:
        self.on_deposed: Callable[[], None] | None = None
        self.on_lead: Callable[[], None] | None = None  # the node has become the leader
        self.on_durable: Callable[[], None] | None = None  # commits that were acknowledged early are durable
        self.canceler: Callable[[SqlError], None] | None = None  # cancels the statement that another node runs for it
        self.carried = ""  # '' | active, or the status of ReadyForQuery (I T E): forwarded to another node
        self.listens_elsewhere: list[Action] | None = None  # of a forwarded session: actions of the client's node
