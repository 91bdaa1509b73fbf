"""LISTEN, NOTIFY, UNLISTEN (PostgreSQL 16 manual, 55.2.7 and the commands' pages).

    NOTIFY    kept by the transaction, without duplicates; at COMMIT one row, whose key is always the same, goes with
              the transaction's writes into the changelog: [database, process id, [channel, payload]...]
    delivery  when that commit is durable on the leader, and when a follower has applied it: every node notifies its own
              sessions, in the order of commits
    LISTEN    takes effect at COMMIT; each session has its channels, the node has the sessions by channel
    the wire  sends a session's notifications when it is idle and outside a transaction

The next notification overwrites the row, so there is nothing to clean up. A node that starts has no sessions, so it
ignores the row that it finds. A forwarded session (wire/leader_forwarding.py) does not listen itself: it reports its
LISTENs, and the client's node executes them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

import orjson

from catalog.errors import SqlError, not_supported
from engine.node.listeners import KEY, Notification

if TYPE_CHECKING:
    from engine.node.node import Node
    from engine.session.client import Client
    from engine.txn.commit import CommitQueue
    from engine.txn.joint import JointCommits
    from engine.txn.transaction import Savepoint, Transaction

CHANNEL_LIMIT = 64  # bytes; a longer name is refused
PAYLOAD_LIMIT = 8000
QUEUE_LIMIT = 1_000_000  # notifications that wait for one session to end its transaction
LISTEN, UNLISTEN, UNLISTEN_ALL = "listen", "unlisten", "unlisten_all"

Action = tuple[str, str]  # LISTEN, UNLISTEN or UNLISTEN_ALL, and the channel


class _Session(Protocol):
    node: Node
    database_oid: int
    process_id: int
    client: Client

    def cancel(self, error: SqlError | None = None) -> None: ...


class SessionNotifications:
    """The notifications of a session. `pending`: those that the client has not received."""

    def __init__(self, session: _Session) -> None:
        self._session = session
        self._listeners = session.node.listeners
        self._channels: dict[str, None] = {}
        self._sent: dict[tuple[str, str], None] = {}  # by this transaction
        self._actions: list[Action] = []  # of this transaction
        self._saved: dict[int, tuple[int, int]] = {}  # by id of a savepoint: how many of each are older
        self.pending: list[Notification] = []

    # ---- statements -------------------------------------------------------------------------------------------------

    def notify(self, channel: str, payload: str) -> None:
        """NOTIFY and pg_notify(). Raises 22023."""
        if not channel:
            raise SqlError("22023", "channel name cannot be empty")
        if len(channel.encode()) >= CHANNEL_LIMIT:
            raise SqlError("22023", "channel name too long")
        if len(payload.encode()) >= PAYLOAD_LIMIT:
            raise SqlError("22023", "payload string too long")
        self._sent[channel, payload] = None

    def act(self, action: str, channel: str = "") -> None:
        """LISTEN and UNLISTEN, in the session's transaction. Raises 0A000 if the client cannot receive
        notifications."""
        if action == LISTEN and self._session.client.on_told is None and self._session.client.listens_elsewhere is None:
            not_supported("LISTEN on a connection of this kind")
        self._actions.append((action, channel))

    @property
    def channels(self) -> tuple[str, ...]:
        """pg_listening_channels()."""
        return tuple(self._channels)

    @property
    def queue_usage(self) -> float:
        """The share of the session's own queue that is in use, from 0 to 1."""
        return len(self.pending) / QUEUE_LIMIT

    # ---- the transaction --------------------------------------------------------------------------------------------

    def save(self, savepoint: Savepoint) -> None:
        """SAVEPOINT."""
        self._saved[id(savepoint)] = len(self._sent), len(self._actions)

    def roll_back_to(self, savepoint: Savepoint) -> None:
        """ROLLBACK TO, or an error after the savepoint."""
        sent, actions = self._saved.get(id(savepoint), (0, 0))
        for key in list(self._sent)[sent:]:
            del self._sent[key]
        del self._actions[actions:]

    @property
    def used(self) -> bool:
        """Whether the transaction has used LISTEN, UNLISTEN or NOTIFY."""
        return bool(self._sent or self._actions)

    def before_commit(self, transaction: Transaction) -> bytes | None:
        """Adds the transaction's notifications to its writes, and returns the row. Allowed in a read-only transaction
        too."""
        if not self._sent:
            return None
        session = self._session
        row = orjson.dumps((session.database_oid, session.process_id, list(self._sent)))
        transaction.writes[KEY] = row
        return row

    def on_committed(self, row: bytes | None, lsn: int, commits: CommitQueue | JointCommits) -> None:
        """The transaction is sequenced at this LSN."""
        for action, channel in self._actions:
            self.do(action, channel)
        if self._session.client.listens_elsewhere is not None:
            self._session.client.listens_elsewhere += self._actions
        self.rolled_back()
        if row is not None:
            self._listeners.sent_bytes += len(row)
            commits.wait(lsn, partial(self._listeners.deliver, row), _never)

    def rolled_back(self) -> None:
        self._sent.clear()
        self._actions.clear()
        self._saved.clear()

    def do(self, action: str, channel: str) -> None:
        """Starts or stops listening at once."""
        database = self._session.database_oid
        if action == LISTEN:
            if self._session.client.on_told is not None:
                self._channels[channel] = None
                self._listeners.add(database, channel, self)
            return
        for name in [channel] if action == UNLISTEN else list(self._channels):
            self._channels.pop(name, None)
            self._listeners.remove(database, name, self)

    def script(self, savepoint: Savepoint | None) -> list[Action]:
        """The LISTENs and UNLISTENs of the transaction, up to the savepoint."""
        end = len(self._actions) if savepoint is None else self._saved.get(id(savepoint), (0, 0))[1]
        return self._actions[:end]

    # ---- the client -------------------------------------------------------------------------------------------------

    def note_told(self) -> None:
        """`pending` has more notifications."""
        if len(self.pending) > QUEUE_LIMIT:
            self.do(UNLISTEN_ALL, "")
            self.pending.clear()
            self._session.cancel(SqlError("54000", "too many notifications in the NOTIFY queue", severity="FATAL"))
        elif self._session.client.on_told is not None:
            self._session.client.on_told()

    def take(self) -> list[Notification]:
        """Takes the notifications that are to be sent now."""
        taken, self.pending = self.pending, []
        return taken

    def close(self) -> None:
        """The connection has ended."""
        self.do(UNLISTEN_ALL, "")
        self.pending.clear()


def _never(_: SqlError) -> None:
    """The commit was lost with the leadership: waiting sessions get the error, and nothing is notified."""
