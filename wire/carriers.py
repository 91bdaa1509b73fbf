"""Which nodes carry sessions here (wire/carrying.py), and the end of a node's sessions when it is gone.

A node that is stopped, or cut off, keeps its connections: what its clients have locked here would stay locked. So who
knows that the node's session with the cluster is over says so (`end`): its clients' transactions are rolled back, and
it finds their connections closed when it goes on. Its clients are told 40001 then.
"""

from __future__ import annotations

from typing import Protocol

from catalog.errors import SqlError


class Carried(Protocol):
    def end_carried(self, error: SqlError) -> None:
        """Rolls back, and lets the other node know; a commit that is under way goes on."""


class Carriers:
    def __init__(self) -> None:
        self._carried: dict[str, set[Carried]] = {}

    @property
    def nodes(self) -> list[str]:
        """Those that carry something here now."""
        return list(self._carried)

    def add(self, node: str, carried: Carried) -> None:
        self._carried.setdefault(node, set()).add(carried)

    def discard(self, node: str, carried: Carried) -> None:
        found = self._carried.get(node)
        if found is not None:
            found.discard(carried)
            if not found:
                del self._carried[node]

    def end(self, node: str) -> int:
        """How many sessions of the node were ended."""
        ended = list(self._carried.pop(node, ()))
        for carried in ended:
            carried.end_carried(
                SqlError("57P01", f'node "{node}", which carried the session, has left the cluster', severity="FATAL")
            )
        return len(ended)
