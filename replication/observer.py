"""What is going on in a cluster, kept up by watches: for the system views, `shoal status` and whoever places replicas.
It is a node's directory (replication/directory.py) too.

    nodes/*                                                              as they register
    tablespaces/*/{spec,epoch,head,ledgers,checkpoints}, replicas/*      as they change (replication/picture.py)

Heads change with every commit, replicas say how far they are once a second each: they are read at most once in `PAUSE`
seconds, so an observer costs the coordination service a handful of reads a second for each tablespace at work, and
nothing for one at rest. Who asks is answered at once, from memory; `stale` says that the service cannot be reached, so
that all this may be old.
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
from replication.picture import RETRY_PAUSE, Picture

PAUSE = 0.2  # seconds between two reads of a head, or of a replica's report
_PARTS = ("spec", "epoch", "head", "ledgers", "checkpoints", "replicas")


@dataclass(frozen=True, slots=True)
class Observed:
    """A tablespace. What is not in the coordination service (yet) has its default."""

    tablespace: bytes  # its id, 16 bytes
    spec: Spec = field(default_factory=lambda: Spec("", ()))
    epoch: Epoch = field(default_factory=lambda: Epoch(0, ""))
    head: Head = field(default_factory=lambda: Head(0, 0, "", 0, 0))
    listed: LedgerList = field(default_factory=LedgerList)
    checkpoints: tuple[Checkpoint, ...] = ()
    replicas: Mapping[str, Replica] = field(default_factory=dict)  # by node; those that live

    @property
    def ledgers(self) -> tuple[Ledger, ...]:
        """The newest ones."""
        return self.listed.ledgers

    @property
    def tied(self) -> int:
        """When it was last needed together with other tablespaces, as its leader says; microseconds since 2000-01-01,
        0: it was not."""
        return max((int(replica.detail.get(TIED, "0")) for replica in self.replicas.values()), default=0)

    @property
    def name(self) -> str:
        """As SQL has it; its id where that is not known."""
        return self.spec.name or self.tablespace.hex()


class Observer(Picture):
    """`open_session` gives a session each time it is called; `shared_session`: others use it too, and end it."""

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
        self._tablespaces: dict[bytes, Observed] = {}

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes that are registered, by their names."""
        return self._nodes

    @property
    def tablespaces(self) -> Mapping[bytes, Observed]:
        """By their ids."""
        return self._tablespaces

    def named(self, tablespace: str) -> Observed | None:
        """The tablespace with that name in SQL."""
        return next((item for item in self._tablespaces.values() if item.spec.name == tablespace), None)

    def leader(self, tablespace: str) -> str:
        """The node that leads a tablespace (its name in SQL), '' if nobody does or the name is not known."""
        found = self.named(tablespace)
        return "" if found is None else found.epoch.leader

    def _is_folder(self, path: str) -> bool:
        return path in self._roots or path.endswith("/replicas")

    def _pause(self, path: str) -> float:
        return self._read_pause if path.endswith("/head") or "/replicas/" in path else 0.0

    def _listed(self, path: str, names: list[str]) -> list[str]:
        if path == "nodes":
            for gone in self._nodes.keys() - set(names):
                del self._nodes[gone]
            return [f"nodes/{name}" for name in names]
        if path == "tablespaces":
            known = {identifier: name for name in names if (identifier := _identifier(name)) is not None}
            for unknown in self._tablespaces.keys() - known.keys():
                del self._tablespaces[unknown]
            for new in known.keys() - self._tablespaces.keys():
                self._tablespaces[new] = Observed(new)
            return [f"tablespaces/{name}/{part}" for name in known.values() for part in _PARTS]
        tablespace = _identifier(path.split("/")[1]) or b""
        seen = self._tablespaces[tablespace]
        live = {node: replica for node, replica in seen.replicas.items() if node in names}
        self._tablespaces[tablespace] = replace(seen, replicas=live)
        return [f"{path}/{name}" for name in names]

    def _found(self, path: str, data: bytes | None) -> None:
        parts = path.split("/")
        if parts[0] == "nodes":
            if data is None:
                self._nodes.pop(parts[1], None)
            else:
                self._nodes[parts[1]] = decode_node(data)
            return
        tablespace = bytes.fromhex(parts[1])
        seen = self._tablespaces[tablespace]
        self._tablespaces[tablespace] = _with(seen, parts[2], parts[3] if len(parts) > 3 else "", data)


def _identifier(name: str) -> bytes | None:
    """The tablespace's id; None for a znode that is none."""
    try:
        found = bytes.fromhex(name)
    except ValueError:
        return None
    return found if len(found) == 16 and found.hex() == name else None


def _with(seen: Observed, part: str, node: str, data: bytes | None) -> Observed:
    if part == "replicas":
        others = {name: replica for name, replica in seen.replicas.items() if name != node}
        return replace(seen, replicas=others if data is None else {**others, node: decode_replica(data)})
    if data is None:
        part = "listed" if part == "ledgers" else part
        return replace(seen, **{part: getattr(Observed(seen.tablespace), part)})
    if part == "spec":
        return replace(seen, spec=decode_spec(data))
    if part == "epoch":
        return replace(seen, epoch=decode_epoch(data))
    if part == "head":
        return replace(seen, head=decode_head(data))
    if part == "ledgers":
        return replace(seen, listed=decode_ledgers(data))
    return replace(seen, checkpoints=decode_checkpoints(data))
