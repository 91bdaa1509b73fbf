"""The foreign tables of a statement."""

from __future__ import annotations

from collections.abc import Iterable

from catalog.catalog import Catalog
from catalog.errors import SqlError, not_supported
from catalog.extensions import POSTGRES_HANDLER
from catalog.schema import ForeignServer, ForeignWrapper


def refuse_unreadable(catalog: Catalog, relations: Iterable[int]) -> None:
    """Raises 55000 for a foreign table whose wrapper has no handler."""
    for oid in sorted(catalog.foreign_tables.intersection(relations)):
        server = catalog.get(catalog.table(oid).server)
        wrapper = catalog.get(server.wrapper) if isinstance(server, ForeignServer) else None
        assert isinstance(wrapper, ForeignWrapper)
        if wrapper.handler != POSTGRES_HANDLER:
            raise SqlError("55000", f'foreign-data wrapper "{wrapper.name}" has no handler')
        not_supported("a statement over a foreign table")
