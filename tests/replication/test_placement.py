"""Placement: each rule by itself, and that any cluster comes to rest, one harmless change at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.errors import SqlError
from replication.interface import Epoch, Spec
from replication.observer import ObservedTablespace
from replication.placement import (
    AddReplica,
    Change,
    ClusterPlacement,
    DropReplica,
    Move,
    MoveLeader,
    PlacementSettings,
    TablespacePlacement,
    assigned_tablespaces,
    decode_move,
    encode_move,
    plan_change,
)

SETTINGS = PlacementSettings()
LONG = SETTINGS.forget_after + 1


def placed(
    name: str,
    replicas: str,
    leader: str = "",
    *,
    expected: int | None = None,
    preferred: str = "",
    ready: str | None = None,
    asked: str = "",
    everywhere: bool = False,
) -> TablespacePlacement:
    """`replicas`, `ready` and `asked`: nodes of one letter. As many as there are, are expected."""
    count = len(replicas) if expected is None else expected
    spec = Spec(name, tuple(replicas), count, preferred, asked=tuple(asked), everywhere=everywhere)
    return TablespacePlacement(name.encode(), spec, leader, frozenset(replicas if ready is None else ready))


def nodes(names: str, **loads: float) -> Mapping[str, float]:
    return {name: loads.get(name, 0.1) for name in names}


def test_all_is_well() -> None:
    assert plan_change(ClusterPlacement(nodes("abc"), [placed("t", "abc", "a", expected=3)])) is None


def test_a_tablespace_that_is_short_of_replicas_gets_one_where_there_is_least_to_do() -> None:
    short = placed("t", "a", "a", expected=2)
    assert plan_change(ClusterPlacement(nodes("abc", b=0.6), [short])) == AddReplica(b"t", "c")
    busy = [short, placed("u", "ac", "c"), placed("v", "ac", "a")]
    assert plan_change(ClusterPlacement(nodes("abc"), busy)) == AddReplica(b"t", "b")


def test_the_one_that_lacks_most_comes_first() -> None:
    picture = ClusterPlacement(nodes("abc"), [placed("t", "ab", "a", expected=3), placed("u", "c", "c", expected=3)])
    assert plan_change(picture) == AddReplica(b"u", "a")


def test_nothing_can_be_added_where_every_node_has_one() -> None:
    assert plan_change(ClusterPlacement(nodes("ab"), [placed("t", "ab", "a", expected=3)])) is None


def test_every_node_holds_pg_default() -> None:
    assert plan_change(ClusterPlacement(nodes("ab"), [placed("pg_default", "a", "a")])) == AddReplica(
        b"pg_default", "b"
    )


def test_a_node_that_is_away_counts_for_a_while_and_is_replaced_then() -> None:
    item = placed("t", "ab", "a", expected=2, ready="a")
    assert plan_change(ClusterPlacement(nodes("ac"), [item], {"b": SETTINGS.replace_after - 1})) is None
    assert plan_change(ClusterPlacement(nodes("ac"), [item], {"b": SETTINGS.replace_after})) == AddReplica(b"t", "c")


def test_a_dead_replica_is_given_up_when_enough_others_are_ready() -> None:
    away = {"b": SETTINGS.replace_after}
    waiting = placed("t", "abc", "a", expected=2, ready="a")  # c still begins
    assert plan_change(ClusterPlacement(nodes("ac"), [waiting], away)) is None
    ready = replace(waiting, ready=frozenset("ac"))
    assert plan_change(ClusterPlacement(nodes("ac"), [ready], away)) == DropReplica(b"t", "b")


def test_without_anybody_to_replace_it_a_dead_replica_stays() -> None:
    assert (
        plan_change(ClusterPlacement(nodes("a"), [placed("t", "ab", "a", expected=2, ready="a")], {"b": LONG})) is None
    )


def test_pg_default_forgets_a_node_much_later() -> None:
    item = placed("pg_default", "ab", "a", ready="a")
    assert plan_change(ClusterPlacement(nodes("a"), [item], {"b": SETTINGS.forget_after - 1})) is None
    assert plan_change(ClusterPlacement(nodes("a"), [item], {"b": SETTINGS.forget_after})) == DropReplica(
        b"pg_default", "b"
    )


def test_a_replica_more_than_expected_is_given_up_unless_it_leads_or_was_asked_for() -> None:
    item = placed("t", "abc", "a", expected=1)
    assert plan_change(ClusterPlacement(nodes("abc"), [item])) == DropReplica(b"t", "c")
    assert plan_change(ClusterPlacement(nodes("abc"), [placed("t", "abc", "a", expected=2, asked="c")])) == DropReplica(
        b"t", "b"
    )
    assert plan_change(ClusterPlacement(nodes("abc"), [placed("t", "abc", "a", expected=1, asked="bc")])) is None
    assert plan_change(ClusterPlacement(nodes("abc"), [placed("t", "abc", "a", expected=1, everywhere=True)])) is None
    assert plan_change(ClusterPlacement(nodes("abc"), [replace(item, ready=frozenset("a"))])) is None


def test_the_nodes_that_were_asked_for_come_before_others_go() -> None:
    coming = placed("t", "ab", "a", expected=1, asked="bc")
    assert plan_change(ClusterPlacement(nodes("abc"), [coming])) == AddReplica(b"t", "c")
    assert plan_change(ClusterPlacement(nodes("ab"), [coming])) is None, "c is not there"
    begun = placed("t", "abd", "b", expected=1, asked="ab", ready="bd")
    assert plan_change(ClusterPlacement(nodes("abd"), [begun])) is None, "a is not ready yet"
    assert plan_change(ClusterPlacement(nodes("abd"), [replace(begun, ready=frozenset("abd"))])) == DropReplica(
        b"t", "d"
    )


def test_the_node_that_leads_pg_default_holds_all() -> None:
    first, other = placed("pg_default", "abc", "a"), placed("t", "bc", "", expected=2, asked="bc")
    assert plan_change(ClusterPlacement(nodes("abc"), [first, other], home="a")) == AddReplica(b"t", "a")
    held = placed("t", "abc", "a", expected=2, asked="bc")
    still = frozenset((b"t",))
    assert plan_change(ClusterPlacement(nodes("abc"), [first, held], resting=still, home="a")) is None, "it leads"
    moved = [replace(first, leader="b"), replace(held, leader="b")]
    assert plan_change(ClusterPlacement(nodes("abc"), moved, home="b")) == DropReplica(b"t", "a")


def test_pg_default_goes_to_a_node_that_holds_all() -> None:
    others = [placed("t", "ac", "a"), placed("u", "abc", "a"), placed("v", "ac", "a")]
    items = [placed("pg_default", "abc", "a"), *others]
    resting = frozenset(item.tablespace for item in others)
    busy = nodes("abc", a=0.95, b=0.0)
    assert plan_change(ClusterPlacement(busy, items, resting=resting, home="a")) == MoveLeader(
        b"pg_default", "a", "c", "overloaded"
    )
    assert plan_change(ClusterPlacement(nodes("abc"), items, resting=resting, home="a")) is None, (
        "they are needed together"
    )
    assert plan_change(ClusterPlacement(nodes("abc"), items, home="a")) == MoveLeader(b"t", "a", "c", "spread"), (
        "the others first"
    )


def test_a_tablespace_goes_to_its_preferred_leader_unless_that_is_overloaded_or_behind() -> None:
    item = placed("t", "abc", "a", preferred="b")
    assert plan_change(ClusterPlacement(nodes("abc"), [item])) == MoveLeader(b"t", "a", "b", "preferred")
    assert plan_change(ClusterPlacement(nodes("abc", b=0.9), [item])) is None
    assert plan_change(ClusterPlacement(nodes("abc"), [replace(item, ready=frozenset("ac"))])) is None
    assert plan_change(ClusterPlacement(nodes("abc"), [item], resting=frozenset({b"t"}))) is None
    assert plan_change(ClusterPlacement(nodes("ac"), [item])) is None


def test_leadership_is_spread() -> None:
    three = [placed(name, "ab", "a") for name in "tuv"]
    assert plan_change(ClusterPlacement(nodes("ab"), three)) == MoveLeader(b"t", "a", "b", "spread")
    pinned = [placed(name, "ab", "a", preferred="a") for name in "tuv"]
    assert plan_change(ClusterPlacement(nodes("ab"), pinned)) is None
    assert plan_change(ClusterPlacement(nodes("ab"), three[:1])) is None
    assert (
        plan_change(
            ClusterPlacement(nodes("ab"), three, recently_left=frozenset((name.encode(), "b") for name in "tuv"))
        )
        is None
    )
    assert plan_change(ClusterPlacement(nodes("ab", b=0.9), three)) is None


def test_a_tablespace_without_a_leader_is_for_the_election() -> None:
    assert plan_change(ClusterPlacement(nodes("ab"), [placed(name, "ab", "") for name in "tuv"])) is None
    assert plan_change(ClusterPlacement(nodes("ab"), [placed(name, "abc", "c") for name in "tuv"], {"c": 5.0})) is None


def test_an_overloaded_node_gives_a_tablespace_away() -> None:
    two = [placed(name, "ab", "a") for name in "tu"]
    assert plan_change(ClusterPlacement(nodes("ab", a=0.95), two)) == MoveLeader(b"t", "a", "b", "overloaded")
    assert plan_change(ClusterPlacement(nodes("ab", a=0.95), two, settling=frozenset("b"))) == MoveLeader(
        b"t", "a", "b", "spread"
    )
    assert (
        plan_change(ClusterPlacement(nodes("ab", a=0.95, b=0.4), [*two, placed("v", "ab", "b")])) is None
    )  # b would be as bad
    assert plan_change(ClusterPlacement(nodes("ab", a=0.95), two[:1])) is None  # that would only move the load


def test_only_the_named_nodes_hold_a_tablespace() -> None:
    seen = [
        ObservedTablespace(b"t", Spec("t", ("a", "b")), Epoch(1, "a")),
        ObservedTablespace(b"u", Spec("u", ("b",)), Epoch(1, "b")),
    ]
    assert assigned_tablespaces(seen, "a") == {b"t": seen[0].spec}
    assert set(assigned_tablespaces(seen, "b")) == {b"t", b"u"}


def test_requests_to_move_a_leader_are_read_back() -> None:
    move = Move("a", "b", 7)
    assert decode_move(encode_move(move)) == move
    assert decode_move(b'{"leader":"a","to":"b","epoch":7,"later":1}') == move
    for broken in (b"", b"[]", b'{"leader":"a"}', b'{"leader":"a","to":"b","epoch":"x"}'):
        with pytest.raises(SqlError) as raised:
            decode_move(broken)
        assert raised.value.sqlstate == "XX001"


# --- any cluster -----------------------------------------------------------------------------------------------------


@dataclass
class World:
    """A cluster that does what it is told; a node's load is what its tablespaces weigh, or fixed."""

    picture: ClusterPlacement
    weights: dict[bytes, float]
    fixed: dict[str, float]
    gathers: bool = False  # pg_default's leader holds all

    def look(self) -> ClusterPlacement:
        if self.gathers and self.items:
            self.picture = replace(self.picture, home=self.items[0].leader)
        loads = dict.fromkeys(self.picture.nodes, 0.02)
        for item in self.picture.tablespaces:
            if item.leader in loads:
                loads[item.leader] = min(loads[item.leader] + self.weights[item.tablespace], 1.0)
        return replace(self.picture, nodes={**loads, **self.fixed})

    def carry_out(self, change: Change) -> None:
        items = [item if item.tablespace != change.tablespace else self._changed(item, change) for item in self.items]
        left = self.picture.recently_left
        if isinstance(change, MoveLeader) and change.why != "preferred":
            left |= {(change.tablespace, change.leader)}
        self.picture = replace(self.picture, tablespaces=items, recently_left=left)

    @property
    def items(self) -> list[TablespacePlacement]:
        return list(self.picture.tablespaces)

    def _changed(self, item: TablespacePlacement, change: Change) -> TablespacePlacement:
        replicas = item.spec.replicas
        if isinstance(change, AddReplica):
            assert change.node in self.picture.nodes and change.node not in replicas
            spec = replace(item.spec, replicas=(*replicas, change.node))
            return replace(item, spec=spec, ready=item.ready | {change.node})
        if isinstance(change, DropReplica):
            assert change.node in replicas
            left = (item.eligible & self.picture.nodes.keys()) - {change.node}
            assert left, "the last replica is never taken"
            if change.node in self.picture.nodes:
                assert not item.spec.everywhere and item.spec.name != "pg_default"
                assert change.node not in (item.leader, self.picture.home, *item.spec.asked)
                assert len(left) >= item.spec.expected_replicas, "enough others are ready"
            return replace(item, spec=replace(item.spec, replicas=tuple(set(replicas) - {change.node})))
        assert change.leader == item.leader != change.to
        assert change.to in item.eligible and change.to in self.picture.nodes
        assert item.leader != item.spec.preferred_leader, "the preferred leader keeps it"
        assert item.tablespace not in self.picture.resting, "what is needed together stays together"
        return replace(item, leader=change.to)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    everybody = "abcde"[: draw(st.integers(1, 5))]
    live = [node for node in everybody if draw(st.integers(0, 3))] or [everybody[0]]
    away = {node: draw(st.sampled_from([0.0, SETTINGS.replace_after, LONG])) for node in set(everybody) - set(live)}
    items, weights = [], {}
    for number in range(draw(st.integers(0, 7))):
        name = "pg_default" if number == 0 else f"t{number}"
        held = draw(st.lists(st.sampled_from(everybody), unique=True, min_size=1))
        ready = frozenset(node for node in held if node in live and draw(st.integers(0, 4)))
        leader = draw(st.sampled_from(["", *sorted(ready), *away])) if ready else ""
        preferred = draw(st.sampled_from(["", "", *everybody]))
        asked = draw(st.lists(st.sampled_from(everybody), unique=True, max_size=3))
        everywhere = not asked and draw(st.booleans())
        spec = Spec(name, tuple(held), draw(st.integers(1, 4)), preferred, asked=tuple(asked), everywhere=everywhere)
        items.append(TablespacePlacement(name.encode(), spec, leader, ready))
        weights[name.encode()] = draw(st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.9]))
    fixed = {node: draw(st.sampled_from([0.0, 0.5, 0.84, 0.86, 1.0])) for node in live if not draw(st.integers(0, 2))}
    tied = frozenset(item.tablespace for item in items if not draw(st.integers(0, 2)))
    return World(
        ClusterPlacement(dict.fromkeys(live, 0.0), items, away, resting=tied), weights, fixed, draw(st.booleans())
    )


@settings(max_examples=400, deadline=None)
@given(worlds())
def test_any_cluster_comes_to_rest(world: World) -> None:
    tablespaces, count = len(world.items), len(world.picture.nodes) + len(world.picture.away)
    world.look()
    led_before = {item.tablespace for item in world.items if item.leader in world.picture.nodes}
    limit = 2 * tablespaces * count + tablespaces  # replicas come and go once; a leader leaves a node once
    changes = 0
    while (change := plan_change(world.look())) is not None:
        world.carry_out(change)
        changes += 1
        assert changes <= limit, "it goes round in circles"
    picture = world.look()
    led = {item.tablespace for item in world.items if item.leader in picture.nodes}
    assert led == led_before
    for item in world.items:
        if item.spec.name != "pg_default":
            assert picture.nodes.keys() & {picture.home, *item.spec.asked} <= set(item.spec.replicas)
        live = [node for node in item.spec.replicas if node in picture.nodes]
        if item.spec.name == "pg_default":
            assert set(live) == set(picture.nodes)
        else:
            counted = sum(
                picture.away[node] < SETTINGS.replace_after for node in item.spec.replicas if node not in live
            )
            assert len(live) + counted >= min(item.spec.expected_replicas, len(picture.nodes))


@settings(max_examples=200, deadline=None)
@given(st.integers(2, 5), st.integers(1, 20), st.randoms(use_true_random=False))
def test_leaders_end_up_even_when_every_node_can_lead_everything(count: int, tablespaces: int, random: object) -> None:
    everybody = "abcde"[:count]
    items = [placed(f"t{number}", everybody, random.choice(everybody)) for number in range(tablespaces)]  # type: ignore[attr-defined]
    world = World(ClusterPlacement(nodes(everybody), items), {item.tablespace: 0.0 for item in items}, {})
    moves = 0
    while (change := plan_change(world.look())) is not None:
        assert isinstance(change, MoveLeader) and change.why == "spread"
        world.carry_out(change)
        moves += 1
    led = [sum(item.leader == node for item in world.items) for node in everybody]
    assert max(led) - min(led) <= 1
    assert moves <= tablespaces


@settings(max_examples=300, deadline=None)
@given(st.integers(2, 4), st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.0, 0.2, 0.45, 0.9])), max_size=8))
def test_no_tablespace_goes_to_and_fro_between_load_and_number(count: int, led: list[tuple[int, float]]) -> None:
    everybody = "abcd"[:count]
    items = [placed(f"t{number}", everybody, everybody[at % count]) for number, (at, _) in enumerate(led)]
    weights = {item.tablespace: weight for item, (_, weight) in zip(items, led, strict=True)}
    world = World(ClusterPlacement(nodes(everybody), items), weights, {})
    been = {(item.tablespace, item.leader) for item in items}
    while (change := plan_change(world.look())) is not None:
        assert isinstance(change, MoveLeader)
        assert (change.tablespace, change.to) not in been, "it was there before"
        been.add((change.tablespace, change.to))
        world.carry_out(change)
