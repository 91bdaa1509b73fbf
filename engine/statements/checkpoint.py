"""CHECKPOINT."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.privileges import acts_as
from catalog.schema import CHECKPOINT_OID
from engine.session.portal import Portal
from engine.sql import ast

if TYPE_CHECKING:
    from engine.session.answer import Sink
    from engine.session.session import Session


async def run_checkpoint(session: Session, tree: ast.CheckPointStmt, portal: Portal, sink: Sink) -> None:
    if not acts_as(session.catalog, session.identity.user, CHECKPOINT_OID):
        raise SqlError("42501", "must be superuser or have privileges of pg_checkpoint to do CHECKPOINT")
    await session.node.flush()
    sink.complete("CHECKPOINT")
