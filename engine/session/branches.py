"""CREATE DATABASE ... FROM ... AS OF: the parent at that moment, for engine/ddl/branches.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.schema import Catalog
from engine.ddl.objects import parent_of
from engine.session import past
from engine.sql import ast
from engine.storage.keys import prefix_range, storage_prefix

if TYPE_CHECKING:
    from engine.past.nodes import PastNode
    from engine.session.session import Session
    from engine.storage.tablespace import Tablespace


class Recent:
    """engine.ddl.branches.Then of a moment that memory keeps. Close it."""

    def __init__(self, node: PastNode, space: Tablespace, catalog: Catalog) -> None:
        self._node = node
        self._space = space
        self.catalog = catalog

    def get(self, key: bytes) -> bytes | None:
        return self._node.store.current.get(key)

    def changed(self, storage_id: int) -> Iterable[bytes]:
        space = self._space
        if self._node.lsn < space.readable_from:
            raise SqlError(
                "72000",
                f"what has changed since LSN {self._node.lsn} is no longer in memory, and a branch needs it",
                hint=f"The oldest that can be branched is LSN {space.readable_from}; past_window says how long that "
                "is. shoal restore makes a database of any moment.",
            )
        return {key for _, key in space.changed_since(storage_id, self._node.lsn, space.sequenced_lsn)}

    def scan(self, storage_id: int) -> Iterator[tuple[bytes, bytes]]:
        return self._node.store.current.scan(*prefix_range(storage_prefix(storage_id)))

    def close(self) -> None:
        self._node.close()


async def branch_moment(session: Session, statement: ast.CreateDatabaseStmt) -> Recent:
    """The moment of the statement. Raises what AS OF raises, 3D000 for a parent that was not there."""
    assert statement.as_of is not None
    name = parent_of(statement)
    assert name is not None
    node = await past.node_of(session, statement.as_of)
    try:
        databases = node.shared_catalog.databases
        if name not in databases:
            raise SqlError("3D000", f'database "{name}" did not exist at LSN {node.lsn}')
        return Recent(node, session.present.store.of(0), node.catalogs[databases[name]])
    except BaseException:
        node.close()
        raise
