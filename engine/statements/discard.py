"""DISCARD."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.session.notifications import UNLISTEN_ALL
from engine.session.portal import Portal
from engine.sql import ast

if TYPE_CHECKING:
    from engine.session.answer import Sink
    from engine.session.session import Session


async def run_discard(session: Session, tree: ast.DiscardStmt, portal: Portal, sink: Sink) -> None:
    if tree.target == "all":
        session.prepared.clear()
        for name in list(session.portals):
            session.portals.close(name)
        if session.transaction is None:
            session.leave_past()
        session.identity.set("session_authorization", None)
        session.settings.reset_all(False)
        if session.transaction is None:
            session.begin_implicit()
        session.notifications.act(UNLISTEN_ALL)
        session.advisory.unlock_all()
    if tree.target in ("all", "sequences"):
        session.sequences.forget()
    if tree.target in ("all", "temp") and session.temporary_schema is not None:
        await session.temporary.drop()
    sink.complete(f"DISCARD {tree.target.upper()}")
