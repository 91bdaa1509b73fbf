"""Which of two commits comes first where snapshots may show them in another order: in different tablespaces."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from engine.storage.moments import Lsn, Moment, position
from engine.txn.serializable import Serial, SerializableSpace
from engine.txn.transaction import Transaction


def serial(space: SerializableSpace, durable: Lsn) -> tuple[Serial, SimpleNamespace]:
    store = SimpleNamespace(durable_lsn=durable)
    fake = SimpleNamespace(store=store, read_only=False, snapshot_lsn=durable)
    made = Serial(space, cast(Transaction, fake))
    made.track(None)
    return made, store


def committed(made: Serial, at: int) -> Serial:
    made.prepare()
    made.commit(at)
    return made


def test_in_one_tablespace_the_order_of_the_commits_is_the_order_in_which_they_are_seen() -> None:
    space = SerializableSpace()
    first, second = serial(space, 5)[0], serial(space, 5)[0]
    committed(first, 6)
    committed(second, 7)
    assert first.may_precede(second) and not second.may_precede(first)


def test_in_two_tablespaces_what_is_not_durable_may_be_seen_last() -> None:
    space = SerializableSpace()
    first, second = serial(space, Moment((5, 5)))[0], serial(space, Moment((5, 5)))[0]
    committed(first, position(1, 6))
    committed(second, position(0, 6))
    assert first.may_precede(second) and second.may_precede(first)


def test_in_two_tablespaces_what_was_durable_was_seen_before() -> None:
    space = SerializableSpace()
    first = serial(space, Moment((5, 5)))[0]
    second, store = serial(space, Moment((5, 5)))
    committed(first, position(1, 6))
    store.durable_lsn = Moment((5, 6))
    committed(second, position(0, 6))
    assert first.may_precede(second) and not second.may_precede(first)


def test_a_commit_is_remembered_until_it_is_durable() -> None:
    space = SerializableSpace()
    first, store = serial(space, 5)
    committed(first, 6)
    late = serial(space, 5)[0]
    assert first in space.others(late)
    late.abort()
    store.durable_lsn = 6
    space.prune()
    assert first not in space.others(serial(space, 6)[0])
