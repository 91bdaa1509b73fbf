"""What a session asks of the packages above it. engine/connect.py joins them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from catalog.schema import VirtualTable
    from engine.columnar.interface import VirtualContent


class SystemViews(Protocol):
    """What the session sees of the system: engine/system_views/views.py."""

    @property
    def surroundings(self) -> object:
        """What functions ask: names, definitions and privileges as the session sees them now."""

    def content(self) -> VirtualContent:
        """What gives the columnar client the content of virtual tables."""

    def rows(self, relation: VirtualTable) -> object:
        """The rows of a virtual table, for one execution on the row path."""
