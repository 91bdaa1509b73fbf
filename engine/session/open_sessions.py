"""All open sessions of a node. The node depends only on this interface of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from engine.node.node import Node
    from engine.session.session import Session


def open_sessions(node: Node) -> dict[int, Session]:
    """The open sessions of the node, by process id."""
    return cast("dict[int, Session]", node.sessions)
