"""The commit queue over several tablespaces: who is told when."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.errors import SqlError
from engine.storage.moments import Moment, position
from engine.storage.stores import ObservedStores
from engine.txn.commit import CommitQueue
from engine.txn.interface import REPEATABLE_READ, UPDATE
from engine.txn.joint import JointCommits
from engine.txn.locks import TableLocks
from engine.txn.row_locks import RowLocks
from engine.txn.transaction import Transaction
from tests.engine.storage.harness import key
from tests.engine.storage.test_stores import Spaces


class Node:
    """What a node has of it, over pg_default and a second tablespace that has storage id 101."""

    def __init__(self, path: Path) -> None:
        self.spaces = Spaces(path)
        self.stores = self.spaces.stores
        first = CommitQueue(self.spaces.spaces[0], lambda: 0)
        self.stores.on_durable(first.on_durable)
        self.logged = 0
        self.commits = JointCommits(self.stores, first, lambda: 0, lambda: self.logged, lambda changes: ())
        self.commits.add(self.spaces.spaces[1])
        self.rows, self.tables = RowLocks(), TableLocks()
        self.told: list[str] = []

    def begin(self, isolation: str = "read committed") -> Transaction:
        transaction = Transaction(ObservedStores(self.stores), self.rows, self.tables, 1, 0, isolation)
        transaction.begin_statement()
        return transaction

    def write(self, transaction: Transaction, *keys: bytes) -> None:
        for item in keys:
            transaction.lock(item, UPDATE)
            transaction.put(item, b"x")

    def commit(self, name: str, *keys: bytes) -> int:
        transaction = self.begin()
        self.write(transaction, *keys)
        at = self.commits.commit(transaction)
        transaction.release()
        self.wait(name, at)
        return at

    def wait(self, name: str, at: int | Moment) -> None:
        def lost(error: SqlError) -> None:
            self.told.append(f"{name}: {error.message}")

        self.commits.wait(at, lambda: self.told.append(name), lost)


HERE, THERE = key(1, 100), key(1, 101)


def test_a_commit_waits_only_for_its_own_tablespaces(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.commit("here", HERE)
    node.commit("there", THERE)
    node.spaces.sync(1)
    assert node.told == ["there"]
    node.spaces.sync(0)
    assert node.told == ["there", "here"]
    node.spaces.close()


def test_a_commit_over_both_is_acknowledged_when_both_are_durable_and_later_ones_wait(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.commit("before", key(5, 101))
    node.commit("both", HERE, THERE)
    node.commit("behind", key(2, 101))
    node.spaces.sync(1)
    assert node.told == ["before"]
    node.spaces.sync(0)
    assert node.told == ["before", "both", "behind"]
    node.spaces.close()


def test_a_moment_and_two_positions_wait_for_all_that_they_name(tmp_path: Path) -> None:
    node = Node(tmp_path)
    here, there = node.commit("here", HERE), node.commit("there", THERE)
    node.wait("pair", node.commits.both(here, there))
    node.wait("moment", node.stores.sequenced_lsn)
    assert node.commits.both(0, there) == node.commits.both(there, 0) == there
    assert node.commits.both(1, 2) == 2
    node.spaces.sync(1)
    assert node.told == ["there"]
    node.spaces.sync(0)
    assert sorted(node.told) == ["here", "moment", "pair", "there"]
    node.wait("at once", node.stores.sequenced_lsn)
    assert node.told[-1] == "at once"
    node.spaces.close()


def test_a_waiter_for_several_is_notified_of_a_loss_once(tmp_path: Path) -> None:
    node = Node(tmp_path)
    here, there = node.commit("here", HERE), node.commit("there", THERE)
    node.wait("pair", node.commits.both(here, there))
    node.commits.give_up(0, SqlError("40001", "lost"))
    assert node.told == ["pair: lost", "here: lost"]
    node.spaces.sync(1)
    assert node.told[2:] == ["there"]
    node.spaces.close()


def test_what_was_read_under_a_lock_before_it_was_durable_goes_with_the_commit(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.commit("parent", HERE)
    child = node.begin()
    assert child.get(HERE) is None  # plain reads see what is durable
    assert child.get_locked(HERE, UPDATE) == b"x"
    node.write(child, THERE)
    node.wait("child", node.commits.commit(child))
    node.spaces.sync(1)
    assert node.told == []
    node.spaces.sync(0)
    assert node.told == ["parent", "child"]
    assert node.stores.sequenced_lsn == Moment((2, 1))
    node.spaces.close()


def test_a_value_of_a_sequence_is_logged_before_the_commit_that_uses_it(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.logged = node.commits.sequence({key(0, 50): b"32"})
    node.commit("row", THERE)
    node.spaces.sync(1)
    assert node.told == []
    node.spaces.sync(0)
    assert node.told == ["row"]
    node.commit("next", key(2, 101))
    assert node.stores.sequenced_lsn == Moment((2, 2))
    node.spaces.close()


def test_repeatable_read_compares_within_the_tablespace(tmp_path: Path) -> None:
    node = Node(tmp_path)
    for number in range(5):
        node.commit("there", key(number, 101))
    node.commit("here", HERE)
    node.spaces.sync()
    reader = node.begin(REPEATABLE_READ)
    assert reader.snapshot_lsn == Moment((1, 5))
    node.commit("later", key(2, 100))  # LSN 2 of pg_default, which is below 5
    node.spaces.sync()
    assert reader.get_locked(HERE, UPDATE) == b"x"
    assert reader.get_locked(key(3, 101), UPDATE) == b"x"
    with pytest.raises(SqlError, match="could not serialize"):
        reader.get_locked(key(2, 100), UPDATE)
    assert node.stores.newest(key(4, 101)) == (position(1, 5), b"x")
    reader.abort()
    node.spaces.close()
