"""What the proxy (wire/session_proxy.py) asks of the client's connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from catalog.errors import SqlError
from wire import core


class ProxyHost(Protocol):
    """The part of the client's connection that the proxy uses."""

    @property
    def leads_here(self) -> bool:
        """Whether this node has become the leader itself, so that nothing needs to be forwarded."""

    def on_statement_start(self, sql: bytes) -> None:
        """The client's statement runs at the leader now; b'' where its text is not known."""

    def on_statement_end(self, status: str) -> None:
        """The statement has ended, with this transaction status: the client's turn."""

    def send(self, data: bytes) -> None:
        """Sends to the client, behind everything sent before."""

    async def drain(self) -> None:
        """Waits while the client does not read. Raises CancelledError when it is gone."""

    def pause(self, reason: str) -> None: ...
    def resume(self, reason: str) -> None: ...

    def statement(self, name: bytes) -> core.Parse | None:
        """The statement that the client prepared under a name by Parse or PREPARE (its inner text), None if there is
        none."""

    def statement_names(self) -> Sequence[bytes]: ...

    def adopt_statement(self, statement: core.Parse) -> None:
        """The client has prepared it at the leader: it is planned here when it is first used here."""

    def forget_statement(self, name: bytes | None) -> None:
        """The client has closed it at the leader; None: all of them."""

    def adopt_settings(self, settings: Mapping[str, str]) -> None:
        """Values that the session's settings have now; the client has been told."""

    def on_committed(self, token: str) -> None:
        """`_shoal.last_commit` of the leader: what the session's own reads must see."""

    def on_listen(self, actions: str) -> None:
        """LISTEN and UNLISTEN that a transaction has committed at the leader, as JSON: they are for this node."""

    def on_commits_lost(self) -> None:
        """The client was told of commits that may be lost: its session is to end. Called at any time."""

    def end_block(self) -> None:
        """The block ended at the leader: so does the local one, in which nothing was done. Sends nothing."""

    def on_settings_lost(self, names: Sequence[str]) -> None:
        """The client was told of changes that were lost with their transaction: it is to be told what is true."""

    def fail_block(self, error: SqlError | None) -> None:
        """The session is in a failed block now, whether the block was begun here or at the leader. Sends nothing.

        With an error, the client does not know it yet: the error answers its next statement, a COMMIT too, which then
        ends the block; but a ROLLBACK is simply done.
        """

    def skip_to_sync(self) -> None:
        """The client has been sent an error in the midst of extended messages: what it sends up to Sync is dropped."""
