"""The sessions that other nodes forward to this one (wire/leader_forwarding.py), by node; ends those of a lost node.

A node that is stopped, or cut off, keeps its connections, so the locks of its clients would stay. When the node's
session with the cluster is over, shoal/cluster/forwarding_watch.py calls `end`: the transactions of its clients are
rolled back, and the node finds their connections closed when it continues. Its clients then get 40001.
"""

from __future__ import annotations

from typing import Protocol

from catalog.errors import SqlError


class ForwardedSession(Protocol):
    def end_forwarded(self, error: SqlError) -> None:
        """Rolls back and notifies the other node; a running commit continues."""


class ForwardedSessions:
    def __init__(self) -> None:
        self._carried: dict[str, set[ForwardedSession]] = {}

    @property
    def nodes(self) -> list[str]:
        """The nodes that forward sessions here now."""
        return list(self._carried)

    def add(self, node: str, carried: ForwardedSession) -> None:
        self._carried.setdefault(node, set()).add(carried)

    def discard(self, node: str, carried: ForwardedSession) -> None:
        found = self._carried.get(node)
        if found is not None:
            found.discard(carried)
            if not found:
                del self._carried[node]

    def end(self, node: str) -> int:
        """Ends the sessions of a node, and returns their number."""
        ended = list(self._carried.pop(node, ()))
        for carried in ended:
            carried.end_forwarded(
                SqlError("57P01", f'node "{node}", which forwarded the session, has left the cluster', severity="FATAL")
            )
        return len(ended)
