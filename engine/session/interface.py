"""What a session asks of the packages above it. engine/connect.py joins them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from catalog.schema import VirtualTable
    from engine.columnar.interface import VirtualContent
    from engine.session.session import Session
    from engine.txn.transaction import Transaction


class SystemViews(Protocol):
    """What the session sees of the system: engine/system_views/views.py."""

    @property
    def surroundings(self) -> object:
        """What functions ask: names, definitions and privileges as the session sees them now."""

    def content(self) -> VirtualContent:
        """What gives the columnar client the content of virtual tables."""

    def rows(self, relation: VirtualTable) -> object:
        """The rows of a virtual table, for one execution on the row path."""


class TemporaryTables(Protocol):
    """The temporary tables of a session: engine/statements/temporary.py."""

    def on_commit(self, transaction: Transaction) -> None:
        """What ON COMMIT says of them, before the session's transaction is sequenced."""

    async def drop(self) -> None:
        """Drops the session's temporary schema with all that is in it, in a transaction of its own."""


class SessionParts(NamedTuple):
    """What makes the parts of a session that lie above it."""

    views: Callable[[Session], SystemViews]
    temporary: Callable[[Session], TemporaryTables]
