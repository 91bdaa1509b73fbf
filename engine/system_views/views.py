"""The system as one session sees it (engine.session.interface.SystemViews)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.system_views.content import virtual_content
from engine.system_views.rows import VirtualRows
from engine.system_views.surroundings import SessionSurroundings

if TYPE_CHECKING:
    from catalog.schema import VirtualTable
    from engine.columnar.interface import VirtualContent
    from engine.session.session import Session


class LocalRows:
    """The rows of a transition table."""

    def __init__(self, rows: Sequence[Sequence[object]]) -> None:
        self._rows = rows

    def all(self) -> Sequence[Sequence[object]]:
        """Every row."""
        return self._rows


class SessionViews:
    """See the module's text."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: SessionSurroundings | None = None

    @property
    def surroundings(self) -> SessionSurroundings:
        """Names, definitions and privileges for the session."""
        known = self._known
        if known is None or not known.holds(self._session):
            known = self._known = SessionSurroundings(self._session)
        return known

    def content(self) -> VirtualContent:
        """The function that returns the content of virtual tables to the columnar client."""
        return virtual_content(self._session)

    def rows(self, relation: VirtualTable) -> VirtualRows | LocalRows:
        """The rows of a virtual table, for one execution on the row path."""
        if relation.oid in self._session.local_rows:
            return LocalRows(self._session.local_rows[relation.oid])
        return VirtualRows(self._session, self.surroundings, relation)
