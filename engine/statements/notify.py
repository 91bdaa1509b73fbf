"""LISTEN, NOTIFY and UNLISTEN."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.session.notifications import UNLISTEN_ALL
from engine.session.portal import Portal
from engine.sql import ast

if TYPE_CHECKING:
    from engine.session.answer import Sink
    from engine.session.session import Session


async def run_notify(session: Session, tree: ast.NotifyStmt, portal: Portal, sink: Sink) -> None:
    if session.transaction is None:
        session.begin_implicit()
    kind = tree.kind.lower()
    if kind == "notify":
        session.notifications.notify(tree.channel or "", tree.payload)
    elif tree.channel is None:
        session.notifications.act(UNLISTEN_ALL)
    else:
        session.notifications.act(kind, tree.channel)
    sink.complete(kind.upper())
