"""The directory of a cluster: its nodes, and the leader of each tablespace, kept current by watches.

It reads the znodes `nodes/*` and `tablespaces/*/{spec,epoch}` (replication/interface.py) once, and then those that a
watch reports as changed (replication/znode_cache.py). Callers get their answers from memory.

While the coordination service cannot be reached the directory keeps the last state, and `stale` is true: a router must
still connect clients then, because the nodes themselves decide what they may answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from replication.interface import Coordination, Node
from replication.log.layout import decode_epoch, decode_node, decode_spec
from replication.znode_cache import RETRY_PAUSE, ZnodeCache

_PARTS = ("spec", "epoch")  # of a tablespace's znodes


class NodeDirectory(Protocol):
    """The part of the directory that a router uses."""

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes that are registered, by their names."""

    @property
    def stale(self) -> bool:
        """Whether the coordination service cannot be reached, so that the data may be old."""

    def leader(self, tablespace: str) -> str:
        """The node that leads a tablespace (its name in SQL), '' if there is none."""

    def on_change(self, callback: Callable[[], None]) -> None:
        """Calls back after every change of the above."""


class CoordinatedDirectory(ZnodeCache):
    """The directory in a coordination service. `open_session` gives a new session each time it is called."""

    def __init__(
        self, open_session: Callable[[], Awaitable[Coordination]], *, retry_pause: float = RETRY_PAUSE
    ) -> None:
        super().__init__(("nodes", "tablespaces"), open_session, retry_pause=retry_pause)
        self._nodes: dict[str, Node] = {}
        self._names: dict[str, str] = {}  # of tablespaces, by their ids
        self._leaders: dict[str, str] = {}  # by the ids of tablespaces

    @property
    def nodes(self) -> Mapping[str, Node]:
        return self._nodes

    def leader(self, tablespace: str) -> str:
        """The node that leads it; '' also if a name is not known yet."""
        for identifier, name in self._names.items():
            if name == tablespace:
                return self._leaders.get(identifier, "")
        return ""

    def _is_folder(self, path: str) -> bool:
        return path in self._roots

    def _on_children(self, path: str, names: list[str]) -> list[str]:
        if path == "nodes":
            for gone in self._nodes.keys() - set(names):
                del self._nodes[gone]
            return [f"nodes/{name}" for name in names]
        for gone in self._names.keys() - set(names):
            del self._names[gone]
            self._leaders.pop(gone, None)
        return [f"tablespaces/{name}/{part}" for name in names for part in _PARTS]

    def _on_data(self, path: str, data: bytes | None) -> None:
        parts = path.split("/")
        if parts[0] == "nodes":
            if data is None:
                self._nodes.pop(parts[1], None)
            else:
                self._nodes[parts[1]] = decode_node(data)
        elif data is None:
            (self._names if parts[2] == "spec" else self._leaders).pop(parts[1], None)
        elif parts[2] == "spec":
            self._names[parts[1]] = decode_spec(data).name
        else:
            self._leaders[parts[1]] = decode_epoch(data).leader
