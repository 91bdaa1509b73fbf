"""The portals of a session by name. Portals of a transaction end with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from engine.session.errors import aborted_error
from engine.session.portal import Portal
from engine.session.statement_texts import utf8
from engine.txn.transaction import Savepoint

if TYPE_CHECKING:
    from engine.session.interface import SessionCore


class Portals(dict[bytes, Portal]):
    """See the module's text."""

    def __init__(self, session: SessionCore) -> None:
        super().__init__()
        self._session = session
        self._failed: frozenset[bytes] = frozenset()  # the names of the portals that existed when the block failed
        self._saved: list[tuple[Savepoint, tuple[Portal, ...]]] = []  # the portals that existed at savepoints

    def get_portal(self, name: bytes) -> Portal:
        """The portal of that name. Raises 34000, and 25P02 for a portal that has ended with the block."""
        portal = self.get(name)
        if portal is None:
            if self._session.status == "E" and name in self._failed:
                raise aborted_error()
            raise SqlError("34000", f'portal "{utf8(name)}" does not exist')
        return portal

    def close(self, name: bytes) -> None:
        portal = self.pop(name, None)
        if portal is not None:
            self.stop(portal)

    def stop(self, portal: Portal) -> None:
        """Stops the execution of the portal."""
        if portal.stream is not None:
            stream, portal.stream = portal.stream, None
            self._session.node.background(stream.close())
        later, portal.later = portal.later, None
        if later is not None and later.view is not None:
            later.view.close()

    # ---- the transaction --------------------------------------------------------------------------------------------

    def end_transaction(self, committed: bool) -> None:
        """Ends all portals except cursors WITH HOLD of committed transactions."""
        for name in list(self):
            portal = self[name]
            portal.kept = portal.kept or (committed and portal.holdable)
            if not portal.kept:
                self.close(name)

    def sync(self) -> None:
        """Sync outside a block ends every named portal that is not WITH HOLD; the unnamed one is soon replaced."""
        if len(self) > 1 or b"" not in self:
            self.end_transaction(True)

    def block_failed(self) -> None:
        self._failed = frozenset(self)

    def save(self, savepoint: Savepoint, others: Iterable[Savepoint]) -> None:
        """SAVEPOINT; `others` are the savepoints that exist."""
        points = set(map(id, others))
        self._saved = [item for item in self._saved if id(item[0]) in points]
        self._saved.append((savepoint, tuple(self.values())))

    def roll_back_to(self, savepoint: Savepoint) -> None:
        """ROLLBACK TO, or an error after the savepoint: portals that were bound since end."""
        kept = next((portals for point, portals in self._saved if point is savepoint), ())
        for name, portal in list(self.items()):
            if portal not in kept and not portal.kept:
                self.close(name)
