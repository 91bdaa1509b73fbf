"""The sessions of a node by channel (LISTEN, NOTIFY). engine/session/notifications.py is the session's part.

A commit with notifications writes one row, whose key is always the same: [database, process id, [channel, payload]...].
When that commit is durable on the leader, and when a follower has applied it, every node notifies its own sessions, in
the order of commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import orjson

from catalog.rows import NOTIFICATIONS
from engine.changes.streams import STREAM
from engine.storage.edits import Edits

KEY = NOTIFICATIONS.to_bytes(4, "big") + bytes(4)

PAGE = 8192

Notification = tuple[int, str, str]  # process id, channel, payload


class Listener(Protocol):
    """A session that listens. `pending`: notifications that its client has not received."""

    pending: list[Notification]

    def note_told(self) -> None:
        """`pending` has more notifications."""


class Listeners:
    """The listening sessions of a node."""

    def __init__(self) -> None:
        self._by_channel: dict[tuple[int, str], dict[Listener, None]] = {}
        self.told = 0  # notifications received, with or without listeners
        self.sent_bytes = 0  # of notifications that sessions of this node have sent
        self.streams: set[tuple[int, str]] = set()
        """The channels that are change streams' (engine/changes), as (database, channel)."""

    @property
    def pages(self) -> int:
        """The pages that PostgreSQL's queue would have begun for what was sent."""
        return -(-self.sent_bytes // PAGE)

    def add(self, database: int, channel: str, listener: Listener) -> None:
        self._by_channel.setdefault((database, channel), {})[listener] = None
        if channel.startswith(STREAM):
            self.streams.add((database, channel))

    def remove(self, database: int, channel: str, listener: Listener) -> None:
        found = self._by_channel.get((database, channel))
        if found is not None:
            found.pop(listener, None)
            if not found:
                del self._by_channel[database, channel]
                self.streams.discard((database, channel))

    @property
    def listeners(self) -> int:
        """The number of listening sessions."""
        return len({listener for found in self._by_channel.values() for listener in found})

    def on_applied(self, edits: Edits) -> None:
        """A follower has applied a commit."""
        if self._by_channel and (row := edits.writes.get(KEY)) is not None:
            self.deliver(row)

    def deliver(self, row: bytes) -> None:
        """A commit with notifications is durable."""
        self.tell(*orjson.loads(row))

    def tell(self, database: int, process_id: int, notifications: Iterable[Sequence[str]]) -> None:
        """Gives (channel, payload) to all sessions of the database that listen."""
        told: dict[Listener, None] = {}
        for channel, payload in notifications:
            self.told += 1
            for listener in self._by_channel.get((database, channel), ()):
                listener.pending.append((process_id, channel, payload))
                told[listener] = None
        for listener in told:
            listener.note_told()
