"""All sessions that are open on a node: the node keeps them, and knows less of them than they do of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from engine.node.node import Node
    from engine.session.session import Session


def open_sessions(node: Node) -> dict[int, Session]:
    """By their process ids."""
    return cast("dict[int, Session]", node.sessions)
