"""The client's connection as the proxy sees it (wire/session_proxy.py)."""

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
        """The client's statement runs at the leader now; b'' if its text is unknown."""

    def on_statement_end(self, status: str) -> None:
        """The statement has ended, with this transaction status: the client's turn."""

    def send(self, data: bytes) -> None:
        """Sends to the client, after all earlier output."""

    async def drain(self) -> None:
        """Waits while the client does not read. Raises CancelledError when it has disconnected."""

    def pause(self, reason: str) -> None: ...
    def resume(self, reason: str) -> None: ...

    def statement(self, name: bytes) -> core.Parse | None:
        """The statement that the client prepared under a name by Parse or PREPARE (its inner text), None if there is
        none."""

    def statement_names(self) -> Sequence[bytes]: ...

    def adopt_statement(self, statement: core.Parse) -> None:
        """The client has prepared it at the leader: its first use here plans it."""

    def forget_statement(self, name: bytes | None) -> None:
        """The client has closed it at the leader; None: all of them."""

    def adopt_settings(self, settings: Mapping[str, str]) -> None:
        """New values of the session's settings; the client knows them."""

    def on_committed(self, token: str) -> None:
        """`_shoal.last_commit` of the leader: the session's own reads must see it."""

    def on_listen(self, actions: str) -> None:
        """LISTEN and UNLISTEN that a transaction has committed at the leader, as JSON: this node executes them."""

    def on_commits_lost(self) -> None:
        """Acknowledged commits may be lost: the session must end. Called at any time."""

    def end_block(self) -> None:
        """The block ended at the leader: so does the local one, in which nothing was done. Sends nothing."""

    def on_settings_lost(self, names: Sequence[str]) -> None:
        """Settings that the client knows were lost with their transaction: it must get their present values."""

    def fail_block(self, error: SqlError | None) -> None:
        """The session is in a failed block now, whether the block began here or at the leader. Sends nothing.

        With an error, the client does not know it yet: the error answers its next statement, also a COMMIT, which then
        ends the block; but a ROLLBACK is executed.
        """

    def skip_to_sync(self) -> None:
        """The client has received an error in the middle of extended messages: its messages up to Sync are dropped."""
