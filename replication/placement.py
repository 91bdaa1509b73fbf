"""Where replicas and leaders should be: a picture of the cluster in, the next change out, if there is one.

`plan` is a pure function. Whoever holds the znode `controller` calls it every few seconds, carries out what it says
(shoal/cluster/controller.py), and calls it again with what has come of it. One change at a time, and in this order:

    1  a tablespace gets a replica on every node that its user has named, and on the one that leads pg_default
    2  a tablespace with fewer replicas than expected gets one more, on the node with the least to do. Replicas on nodes
       that are away count for `replace_after` seconds. pg_default is held by every node
    3  a replica on a node that has been away for longer is given up, once enough others are ready; so is one that is
       more than are expected, where nobody has asked for it and nobody leads
    4  a tablespace with a preferred leader is led by it, when it is ready and not overloaded
    5  an overloaded node loses a tablespace to one that stays clearly below it with that tablespace's share of the load
    6  of two nodes one of which leads two tablespaces more than the other, the first gives one away, but not pg_default

Why it comes to rest: 3 leaves at least as many as 2 wants, and never takes what 1 has added; 4 moves a tablespace to
its preferred leader, from where 5 and 6 never take it; 5 and 6 never move a tablespace back to a node that it has left
lately (`left`); otherwise 6 makes the counts more even each time. The last ready replica is never given up.

The node that leads pg_default (`Picture.home`) holds all the others: it is where they are led when they are needed
together. So pg_default goes to nodes that hold them all; and what was needed together lately rests.

A leader is moved by a request, the znode `moves/<tablespace>`, which names the epoch that it ends: the leader commits
what it has, steps down, and says who should be next. So no commit is lost to a move, and an old request does nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from catalog.errors import SqlError
from replication.interface import Spec
from replication.observer import Observed

DEFAULT_TABLESPACE = "pg_default"


@dataclass(frozen=True, slots=True)
class PlacementSettings:
    """Times in seconds, loads as `Node.load`: the busy share of a node's thread."""

    replace_after: float = 300.0  # a node that is away for longer is replaced
    forget_after: float = 3600.0  # and is taken off pg_default, which every node holds
    overloaded: float = 0.85
    relief: float = 0.2  # a tablespace leaves an overloaded node only for one that stays lower by so much


@dataclass(frozen=True, slots=True)
class Placed:
    """A tablespace. `leader` is '' when nobody leads; `ready`: the nodes whose replicas live and are close to the
    head, the leader's own included."""

    tablespace: bytes
    spec: Spec
    leader: str
    ready: frozenset[str]

    @property
    def able(self) -> frozenset[str]:
        """The nodes that may lead it."""
        return self.ready & frozenset(self.spec.replicas)


@dataclass(frozen=True, slots=True)
class Picture:
    """`nodes`: those that live, and their loads. `away`: seconds since the others were last seen."""

    nodes: Mapping[str, float]
    tablespaces: Sequence[Placed]
    away: Mapping[str, float] = field(default_factory=dict)
    resting: frozenset[bytes] = frozenset()  # tablespaces whose leader was moved a moment ago
    settling: frozenset[str] = frozenset()  # nodes whose loads do not show yet what was moved
    left: frozenset[tuple[bytes, str]] = frozenset()  # (tablespace, node that was made to give it away lately)
    home: str = ""  # the node that leads pg_default, and holds all the others; '': it need not


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


def plan(picture: Picture, settings: PlacementSettings | None = None) -> Change | None:
    """The next change; None when all is well, or nothing can be done."""
    chosen = settings or PlacementSettings()
    for rule in (_bring, _add, _drop, _thin, _prefer, _relieve, _spread):
        change = rule(picture, chosen)
        if change is not None:
            return change
    return None


def assigned(tablespaces: Iterable[Observed], node: str) -> dict[bytes, Spec]:
    """The tablespaces that a node is to hold, by their ids: its replicas are opened and closed to match."""
    return {item.tablespace: item.spec for item in tablespaces if node in item.spec.replicas}


# --- replicas --------------------------------------------------------------------------------------------------------


def _bring(picture: Picture, settings: PlacementSettings) -> AddReplica | None:
    for item in picture.tablespaces:
        if item.spec.name == DEFAULT_TABLESPACE:
            continue
        for node in (picture.home, *item.spec.asked):
            if node in picture.nodes and node not in item.spec.replicas:
                return AddReplica(item.tablespace, node)
    return None


def _add(picture: Picture, settings: PlacementSettings) -> AddReplica | None:
    missing = []
    for item in picture.tablespaces:
        short = _short(item, picture, settings)
        if short > 0 and any(node not in item.spec.replicas for node in picture.nodes):
            missing.append((-short, item.spec.name, item))
    if not missing:
        return None
    item = min(missing, key=lambda entry: entry[:2])[2]
    held = _held(picture)
    free = [node for node in picture.nodes if node not in item.spec.replicas]
    # Loads are noisy: a quarter of a core makes a difference, a hundredth does not.
    return AddReplica(
        item.tablespace, min(free, key=lambda node: (round(4 * picture.nodes[node]), held.get(node, 0), node))
    )


def _short(item: Placed, picture: Picture, settings: PlacementSettings) -> int:
    """How many replicas it lacks."""
    if item.spec.name == DEFAULT_TABLESPACE:
        return sum(node not in item.spec.replicas for node in picture.nodes)
    counted = [
        node
        for node in item.spec.replicas
        if node in picture.nodes or picture.away.get(node, 0.0) < settings.replace_after
    ]
    return item.spec.expected_replicas - len(counted)


def _held(picture: Picture) -> dict[str, int]:
    held: dict[str, int] = {}
    for item in picture.tablespaces:
        for node in item.spec.replicas:
            held[node] = held.get(node, 0) + 1
    return held


def _drop(picture: Picture, settings: PlacementSettings) -> DropReplica | None:
    for item in picture.tablespaces:
        default = item.spec.name == DEFAULT_TABLESPACE
        patience = settings.forget_after if default else settings.replace_after
        enough = 1 if default else max(item.spec.expected_replicas, 1)
        able = item.able & picture.nodes.keys()
        if len(able) < enough:
            continue
        for node in item.spec.replicas:
            if node not in picture.nodes and picture.away.get(node, 0.0) >= patience:
                return DropReplica(item.tablespace, node)
    return None


def _thin(picture: Picture, settings: PlacementSettings) -> DropReplica | None:
    held = _held(picture)
    for item in picture.tablespaces:
        spec = item.spec
        if spec.name == DEFAULT_TABLESPACE or spec.everywhere:
            continue
        able = item.able & picture.nodes.keys()
        wanted = {picture.home, item.leader, *spec.asked}
        if any(node in picture.nodes and node not in able for node in wanted):
            continue  # until they are ready the others are needed
        surplus = [node for node in spec.replicas if node in able - wanted]
        if surplus and len(able) > max(spec.expected_replicas, 1):
            return DropReplica(item.tablespace, max(surplus, key=lambda node: (held[node], node)))
    return None


# --- leaders ---------------------------------------------------------------------------------------------------------


def _movable(picture: Picture, item: Placed) -> bool:
    """Whether its leader may be moved, apart from where to."""
    return item.leader in picture.nodes and item.tablespace not in picture.resting


def _heirs(picture: Picture, item: Placed) -> frozenset[str]:
    """The other nodes that may lead it."""
    others = (item.able & picture.nodes.keys()) - {item.leader}
    if not picture.home or item.spec.name != DEFAULT_TABLESPACE:
        return others
    return others.intersection(*(other.able for other in picture.tablespaces))


def _prefer(picture: Picture, settings: PlacementSettings) -> MoveLeader | None:
    for item in picture.tablespaces:
        wanted = item.spec.preferred_leader
        if not wanted or wanted == item.leader or not _movable(picture, item):
            continue
        if wanted in _heirs(picture, item) and picture.nodes.get(wanted, 1.0) < settings.overloaded:
            return MoveLeader(item.tablespace, item.leader, wanted, "preferred")
    return None


def _targets(picture: Picture, item: Placed) -> list[str]:
    """The nodes to which 5 and 6 may move it."""
    if not _movable(picture, item) or item.leader == item.spec.preferred_leader:
        return []
    return sorted(node for node in _heirs(picture, item) if (item.tablespace, node) not in picture.left)


def _led(picture: Picture) -> dict[str, list[Placed]]:
    led: dict[str, list[Placed]] = {node: [] for node in picture.nodes}
    for item in picture.tablespaces:
        if item.leader in led:
            led[item.leader].append(item)
    return led


def _relieve(picture: Picture, settings: PlacementSettings) -> MoveLeader | None:
    nodes = picture.nodes
    for node, items in sorted(_led(picture).items(), key=lambda entry: (-nodes[entry[0]], entry[0])):
        if nodes[node] < settings.overloaded or node in picture.settling or not items:
            continue
        share = nodes[node] / len(items)
        moves = [
            (nodes[target], item.spec.name, target, item)
            for item in items
            for target in _targets(picture, item)
            if target not in picture.settling and nodes[target] + share <= nodes[node] - settings.relief
        ]
        if moves:
            _, _, target, item = min(moves, key=lambda entry: entry[:3])
            return MoveLeader(item.tablespace, node, target, "overloaded")
    return None


def _spread(picture: Picture, settings: PlacementSettings) -> MoveLeader | None:
    led = _led(picture)
    counts = {node: len(items) for node, items in led.items()}
    moves = [
        (counts[target] - counts[node], picture.nodes[target], item.spec.name, target, item)
        for node, items in led.items()
        for item in items
        for target in _targets(picture, item)
        if counts[node] - counts[target] >= 2 and picture.nodes[target] < settings.overloaded
        if not (picture.home and item.spec.name == DEFAULT_TABLESPACE)  # what is needed with it would follow it
    ]
    if not moves:
        return None
    _, _, _, target, item = min(moves, key=lambda entry: entry[:4])
    return MoveLeader(item.tablespace, item.leader, target, "spread")


# --- requests --------------------------------------------------------------------------------------------------------

MOVES = "moves"


@dataclass(frozen=True, slots=True)
class Move:
    """moves/<ts>: the leader of `epoch` is to hand over to a node."""

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
