"""The state of a cluster in memory, kept current by watches: for the system views, `shoal status` and the controller.
It serves as a node's directory (replication/directory.py) too.

    nodes/*                                                              as they register
    tablespaces/*/{spec,epoch,head,ledgers,checkpoints}, replicas/*      as they change (replication/znode_cache.py)

Heads change with every commit, and each replica reports once a second. The observer reads them at most once in `PAUSE`
seconds, so it costs the coordination service a few reads a second for each tablespace at work, and none for one at
rest. Callers get their answers from memory. `stale` is true while the service cannot be reached, so that the state may
be old.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

from replication.interface import Checkpoint, Coordination, Epoch, Head, Ledger, LedgerList, Node, Replica, Spec
from replication.log.layout import (
    decode_checkpoints,
    decode_epoch,
    decode_head,
    decode_ledgers,
    decode_node,
    decode_replica,
    decode_spec,
)
from replication.log.presence import TIED
from replication.znode_cache import RETRY_PAUSE, ZnodeCache

PAUSE = 0.2  # seconds between two reads of a head, or of a replica's report
_PARTS = ("spec", "epoch", "head", "ledgers", "checkpoints", "replicas")


@dataclass(frozen=True, slots=True)
class ObservedTablespace:
    """The state of one tablespace. Parts that are not in the coordination service (yet) have their defaults."""

    tablespace: bytes  # its id, 16 bytes
    spec: Spec = field(default_factory=lambda: Spec("", ()))
    epoch: Epoch = field(default_factory=lambda: Epoch(0, ""))
    head: Head = field(default_factory=lambda: Head(0, 0, "", 0, 0))
    ledger_list: LedgerList = field(default_factory=LedgerList)
    checkpoints: tuple[Checkpoint, ...] = ()
    replicas: Mapping[str, Replica] = field(default_factory=dict)  # by node; those that live

    @property
    def ledgers(self) -> tuple[Ledger, ...]:
        """The newest ones."""
        return self.ledger_list.ledgers

    @property
    def last_needed_together(self) -> int:
        """When its leader last needed it together with other tablespaces; microseconds since 2000-01-01, 0: never."""
        return max((int(replica.detail.get(TIED, "0")) for replica in self.replicas.values()), default=0)

    @property
    def name(self) -> str:
        """The name in SQL; the id if that is unknown."""
        return self.spec.name or self.tablespace.hex()


class Observer(ZnodeCache):
    """`open_session` returns a session each time it is called; `shared_session`: others use it too, and end it."""

    def __init__(
        self,
        open_session: Callable[[], Awaitable[Coordination]],
        *,
        retry_pause: float = RETRY_PAUSE,
        shared_session: bool = False,
        pause: float = PAUSE,
    ) -> None:
        super().__init__(("nodes", "tablespaces"), open_session, retry_pause=retry_pause, shared_session=shared_session)
        self._read_pause = pause
        self._nodes: dict[str, Node] = {}
        self._tablespaces: dict[bytes, ObservedTablespace] = {}

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes that are registered, by their names."""
        return self._nodes

    @property
    def tablespaces(self) -> Mapping[bytes, ObservedTablespace]:
        """The tablespaces by their ids."""
        return self._tablespaces

    def tablespace_by_name(self, tablespace: str) -> ObservedTablespace | None:
        """The tablespace with that name in SQL."""
        return next((item for item in self._tablespaces.values() if item.spec.name == tablespace), None)

    def leader(self, tablespace: str) -> str:
        """The node that leads a tablespace (its name in SQL), '' if there is none or the name is unknown."""
        found = self.tablespace_by_name(tablespace)
        return "" if found is None else found.epoch.leader

    def _is_folder(self, path: str) -> bool:
        return path in self._roots or path.endswith("/replicas")

    def _pause(self, path: str) -> float:
        return self._read_pause if path.endswith("/head") or "/replicas/" in path else 0.0

    def _on_children(self, path: str, names: list[str]) -> list[str]:
        if path == "nodes":
            for gone in self._nodes.keys() - set(names):
                del self._nodes[gone]
            return [f"nodes/{name}" for name in names]
        if path == "tablespaces":
            known = {identifier: name for name in names if (identifier := _identifier(name)) is not None}
            for unknown in self._tablespaces.keys() - known.keys():
                del self._tablespaces[unknown]
            for new in known.keys() - self._tablespaces.keys():
                self._tablespaces[new] = ObservedTablespace(new)
            return [f"tablespaces/{name}/{part}" for name in known.values() for part in _PARTS]
        tablespace = _identifier(path.split("/")[1]) or b""
        seen = self._tablespaces[tablespace]
        live = {node: replica for node, replica in seen.replicas.items() if node in names}
        self._tablespaces[tablespace] = replace(seen, replicas=live)
        return [f"{path}/{name}" for name in names]

    def _on_data(self, path: str, data: bytes | None) -> None:
        parts = path.split("/")
        if parts[0] == "nodes":
            if data is None:
                self._nodes.pop(parts[1], None)
            else:
                self._nodes[parts[1]] = decode_node(data)
            return
        tablespace = bytes.fromhex(parts[1])
        seen = self._tablespaces[tablespace]
        self._tablespaces[tablespace] = _with_part(seen, parts[2], parts[3] if len(parts) > 3 else "", data)


def _identifier(name: str) -> bytes | None:
    """The tablespace's id; None for a znode that is none."""
    try:
        found = bytes.fromhex(name)
    except ValueError:
        return None
    return found if len(found) == 16 and found.hex() == name else None


def _with_part(seen: ObservedTablespace, part: str, node: str, data: bytes | None) -> ObservedTablespace:
    if part == "replicas":
        others = {name: replica for name, replica in seen.replicas.items() if name != node}
        return replace(seen, replicas=others if data is None else {**others, node: decode_replica(data)})
    if data is None:
        part = "ledger_list" if part == "ledgers" else part
        return replace(seen, **{part: getattr(ObservedTablespace(seen.tablespace), part)})
    if part == "spec":
        return replace(seen, spec=decode_spec(data))
    if part == "epoch":
        return replace(seen, epoch=decode_epoch(data))
    if part == "head":
        return replace(seen, head=decode_head(data))
    if part == "ledgers":
        return replace(seen, ledger_list=decode_ledgers(data))
    return replace(seen, checkpoints=decode_checkpoints(data))
