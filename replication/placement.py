"""Plans the placement of replicas and leaders: takes the state of a cluster, and returns the next change, if any.

`plan_change` is a pure function. The node that holds the znode `controller` calls it every few seconds, executes the
change (shoal/cluster/controller.py), and calls it again with the result. It makes one change at a time, in this order:

    1  a tablespace gets a replica on every node that its user has named, and on the one that leads pg_default
    2  a tablespace with fewer replicas than expected gets one more, on the least loaded node. Replicas on nodes
       that are away count for `replace_after` seconds. pg_default is on every node
    3  a replica on a node that has been away for longer is removed, when enough others are ready; so is a surplus
       replica that its user has not named and that does not lead
    4  a tablespace with a preferred leader is moved to it, when it is ready and not overloaded
    5  an overloaded node loses a tablespace to one that stays clearly below it with that tablespace's share of the load
    6  a node that leads two tablespaces more than another gives one to it, but not pg_default

The changes come to an end: 3 leaves at least as many replicas as 2 requires, and never removes one that 1 has added; 4
moves a tablespace to its preferred leader, from where 5 and 6 never move it; 5 and 6 never move a tablespace back to a
node that it has left lately (`recently_left`); otherwise 6 makes the counts more even each time. The last ready replica
is never removed.

The node that leads pg_default (`ClusterPlacement.home`) holds all the others: a transaction that needs several is run
there. So pg_default moves only to nodes that hold all, and tablespaces that were needed together lately are not moved.

A leader is moved by a request, the znode `moves/<tablespace>`, which names the epoch that it ends: the leader commits
its pending work, steps down, and names its successor. So a move loses no commit, and an old request does nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from catalog.errors import SqlError
from replication.interface import Spec
from replication.observer import ObservedTablespace

DEFAULT_TABLESPACE = "pg_default"


@dataclass(frozen=True, slots=True)
class PlacementSettings:
    """Times in seconds, loads as `Node.load`: the busy share of a node's thread."""

    replace_after: float = 300.0  # a node that is away for longer is replaced
    forget_after: float = 3600.0  # and is taken off pg_default, which every node holds
    overloaded: float = 0.85
    relief: float = 0.2  # a tablespace leaves an overloaded node only for one that stays lower by so much


@dataclass(frozen=True, slots=True)
class TablespacePlacement:
    """The placement of a tablespace. `leader` is '' if there is none; `ready`: the nodes with live replicas close to
    the head, including the leader's own."""

    tablespace: bytes
    spec: Spec
    leader: str
    ready: frozenset[str]

    @property
    def eligible(self) -> frozenset[str]:
        """The nodes that may lead it."""
        return self.ready & frozenset(self.spec.replicas)


@dataclass(frozen=True, slots=True)
class ClusterPlacement:
    """The placement of all tablespaces. `nodes`: the live nodes and their loads. `away`: seconds since each of the
    other nodes was last seen."""

    nodes: Mapping[str, float]
    tablespaces: Sequence[TablespacePlacement]
    away: Mapping[str, float] = field(default_factory=dict)
    resting: frozenset[bytes] = frozenset()  # tablespaces whose leader was moved a moment ago
    settling: frozenset[str] = frozenset()  # nodes whose loads do not show the last moves yet
    recently_left: frozenset[tuple[bytes, str]] = frozenset()  # (tablespace, node that it has left lately)
    home: str = ""  # the node that leads pg_default, and holds all the others; '': not required


@dataclass(frozen=True, slots=True)
class AddReplica:
    tablespace: bytes
    node: str


@dataclass(frozen=True, slots=True)
class DropReplica:
    tablespace: bytes
    node: str


@dataclass(frozen=True, slots=True)
class MoveLeader:
    """`why`: 'preferred', 'overloaded' or 'spread'."""

    tablespace: bytes
    leader: str
    to: str
    why: str


Change = AddReplica | DropReplica | MoveLeader


def plan_change(picture: ClusterPlacement, settings: PlacementSettings | None = None) -> Change | None:
    """The next change; None if nothing has to be done, or nothing can be."""
    chosen = settings or PlacementSettings()
    for rule in (
        _add_required_replica,
        _add_missing_replica,
        _drop_lost_replica,
        _drop_surplus_replica,
        _move_to_preferred,
        _relieve_overloaded,
        _balance_leaders,
    ):
        change = rule(picture, chosen)
        if change is not None:
            return change
    return None


def assigned_tablespaces(tablespaces: Iterable[ObservedTablespace], node: str) -> dict[bytes, Spec]:
    """The tablespaces of a node, by their ids: its replicas are opened and closed to match."""
    return {item.tablespace: item.spec for item in tablespaces if node in item.spec.replicas}


# --- replicas --------------------------------------------------------------------------------------------------------


def _add_required_replica(picture: ClusterPlacement, settings: PlacementSettings) -> AddReplica | None:
    for item in picture.tablespaces:
        if item.spec.name == DEFAULT_TABLESPACE:
            continue
        for node in (picture.home, *item.spec.asked):
            if node in picture.nodes and node not in item.spec.replicas:
                return AddReplica(item.tablespace, node)
    return None


def _add_missing_replica(picture: ClusterPlacement, settings: PlacementSettings) -> AddReplica | None:
    missing = []
    for item in picture.tablespaces:
        short = _missing_replicas(item, picture, settings)
        if short > 0 and any(node not in item.spec.replicas for node in picture.nodes):
            missing.append((-short, item.spec.name, item))
    if not missing:
        return None
    item = min(missing, key=lambda entry: entry[:2])[2]
    held = _count_replicas(picture)
    free = [node for node in picture.nodes if node not in item.spec.replicas]
    # Loads are noisy: a quarter of a core makes a difference, a hundredth does not.
    return AddReplica(
        item.tablespace, min(free, key=lambda node: (round(4 * picture.nodes[node]), held.get(node, 0), node))
    )


def _missing_replicas(item: TablespacePlacement, picture: ClusterPlacement, settings: PlacementSettings) -> int:
    """The number of replicas that a tablespace lacks."""
    if item.spec.name == DEFAULT_TABLESPACE:
        return sum(node not in item.spec.replicas for node in picture.nodes)
    counted = [
        node
        for node in item.spec.replicas
        if node in picture.nodes or picture.away.get(node, 0.0) < settings.replace_after
    ]
    return item.spec.expected_replicas - len(counted)


def _count_replicas(picture: ClusterPlacement) -> dict[str, int]:
    held: dict[str, int] = {}
    for item in picture.tablespaces:
        for node in item.spec.replicas:
            held[node] = held.get(node, 0) + 1
    return held


def _drop_lost_replica(picture: ClusterPlacement, settings: PlacementSettings) -> DropReplica | None:
    for item in picture.tablespaces:
        default = item.spec.name == DEFAULT_TABLESPACE
        patience = settings.forget_after if default else settings.replace_after
        enough = 1 if default else max(item.spec.expected_replicas, 1)
        able = item.eligible & picture.nodes.keys()
        if len(able) < enough:
            continue
        for node in item.spec.replicas:
            if node not in picture.nodes and picture.away.get(node, 0.0) >= patience:
                return DropReplica(item.tablespace, node)
    return None


def _drop_surplus_replica(picture: ClusterPlacement, settings: PlacementSettings) -> DropReplica | None:
    held = _count_replicas(picture)
    for item in picture.tablespaces:
        spec = item.spec
        if spec.name == DEFAULT_TABLESPACE or spec.everywhere:
            continue
        able = item.eligible & picture.nodes.keys()
        wanted = {picture.home, item.leader, *spec.asked}
        if any(node in picture.nodes and node not in able for node in wanted):
            continue  # until they are ready the others are needed
        surplus = [node for node in spec.replicas if node in able - wanted]
        if surplus and len(able) > max(spec.expected_replicas, 1):
            return DropReplica(item.tablespace, max(surplus, key=lambda node: (held[node], node)))
    return None


# --- leaders ---------------------------------------------------------------------------------------------------------


def _is_movable(picture: ClusterPlacement, item: TablespacePlacement) -> bool:
    """Whether its leader may be moved, whatever the target is."""
    return item.leader in picture.nodes and item.tablespace not in picture.resting


def _candidates(picture: ClusterPlacement, item: TablespacePlacement) -> frozenset[str]:
    """The other nodes that may lead it."""
    others = (item.eligible & picture.nodes.keys()) - {item.leader}
    if not picture.home or item.spec.name != DEFAULT_TABLESPACE:
        return others
    return others.intersection(*(other.eligible for other in picture.tablespaces))


def _move_to_preferred(picture: ClusterPlacement, settings: PlacementSettings) -> MoveLeader | None:
    for item in picture.tablespaces:
        wanted = item.spec.preferred_leader
        if not wanted or wanted == item.leader or not _is_movable(picture, item):
            continue
        if wanted in _candidates(picture, item) and picture.nodes.get(wanted, 1.0) < settings.overloaded:
            return MoveLeader(item.tablespace, item.leader, wanted, "preferred")
    return None


def _balancing_targets(picture: ClusterPlacement, item: TablespacePlacement) -> list[str]:
    """The nodes to which 5 and 6 may move it."""
    if not _is_movable(picture, item) or item.leader == item.spec.preferred_leader:
        return []
    return sorted(node for node in _candidates(picture, item) if (item.tablespace, node) not in picture.recently_left)


def _tablespaces_by_leader(picture: ClusterPlacement) -> dict[str, list[TablespacePlacement]]:
    led: dict[str, list[TablespacePlacement]] = {node: [] for node in picture.nodes}
    for item in picture.tablespaces:
        if item.leader in led:
            led[item.leader].append(item)
    return led


def _relieve_overloaded(picture: ClusterPlacement, settings: PlacementSettings) -> MoveLeader | None:
    nodes = picture.nodes
    for node, items in sorted(_tablespaces_by_leader(picture).items(), key=lambda entry: (-nodes[entry[0]], entry[0])):
        if nodes[node] < settings.overloaded or node in picture.settling or not items:
            continue
        share = nodes[node] / len(items)
        moves = [
            (nodes[target], item.spec.name, target, item)
            for item in items
            for target in _balancing_targets(picture, item)
            if target not in picture.settling and nodes[target] + share <= nodes[node] - settings.relief
        ]
        if moves:
            _, _, target, item = min(moves, key=lambda entry: entry[:3])
            return MoveLeader(item.tablespace, node, target, "overloaded")
    return None


def _balance_leaders(picture: ClusterPlacement, settings: PlacementSettings) -> MoveLeader | None:
    led = _tablespaces_by_leader(picture)
    counts = {node: len(items) for node, items in led.items()}
    moves = [
        (counts[target] - counts[node], picture.nodes[target], item.spec.name, target, item)
        for node, items in led.items()
        for item in items
        for target in _balancing_targets(picture, item)
        if counts[node] - counts[target] >= 2 and picture.nodes[target] < settings.overloaded
        if not (
            picture.home and item.spec.name == DEFAULT_TABLESPACE
        )  # because tablespaces that are needed with it would follow it
    ]
    if not moves:
        return None
    _, _, _, target, item = min(moves, key=lambda entry: entry[:4])
    return MoveLeader(item.tablespace, item.leader, target, "spread")


# --- requests --------------------------------------------------------------------------------------------------------

MOVES = "moves"


@dataclass(frozen=True, slots=True)
class Move:
    """moves/<ts>: the leader of `epoch` must hand over to a node."""

    leader: str
    to: str
    epoch: int


def move_path(tablespace: bytes) -> str:
    return f"{MOVES}/{tablespace.hex()}"


def encode_move(move: Move) -> bytes:
    return orjson.dumps(move)


def decode_move(data: bytes) -> Move:
    """Raises SqlError XX001."""
    try:
        value = orjson.loads(data)
        return Move(str(value["leader"]), str(value["to"]), int(value["epoch"]))
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        raise SqlError("XX001", f"a znode of the cluster holds no request to move a leader: {data[:80]!r}") from None
