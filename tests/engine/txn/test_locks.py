"""Locks: PostgreSQL's conflict tables, first come first served, and no wait that would never end."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.errors import SqlError
from engine.txn.interface import KEY_SHARE, NO_KEY_UPDATE, SHARE, UPDATE
from engine.txn.locks import (
    ACCESS_EXCLUSIVE,
    ACCESS_SHARE,
    ROW_EXCLUSIVE,
    SHARE_ROW_EXCLUSIVE,
    TABLE_CONFLICTS,
    TABLE_MODES,
    LockSpace,
    TableLocks,
    Ticket,
)
from engine.txn.row_locks import RowLocks


class Owner:
    def __init__(self, process_id: int) -> None:
        self.process_id = process_id
        self.waiting: Ticket | None = None
        self.row_locks: dict[Hashable, int] = {}
        self.table_locks: dict[Hashable, int] = {}
        self.written: set[bytes] = set()

    def has_written(self, key: bytes) -> bool:
        return key in self.written

    def row(self, space: LockSpace, name: bytes, mode: int) -> Ticket | None:
        return space.acquire(self, self.row_locks, name, mode)

    def table(self, space: LockSpace, name: int, mode: int) -> Ticket | None:
        return space.acquire(self, self.table_locks, name, mode)

    def done(self, space: LockSpace) -> None:
        names, self.row_locks = list(self.row_locks), {}
        space.release(self, names)

    def done_with(self, space: LockSpace) -> None:
        """Lets go of what it holds in the space of tables."""
        names, self.table_locks = list(self.table_locks), {}
        space.release(self, names)


@pytest.fixture
def rows() -> RowLocks:
    return RowLocks()


@pytest.fixture
def owners() -> list[Owner]:
    return [Owner(number) for number in range(1, 6)]


# PostgreSQL 16 manual, table 13.3: X where two row locks conflict.
ROW_TABLE = {
    KEY_SHARE: {UPDATE},
    SHARE: {NO_KEY_UPDATE, UPDATE},
    NO_KEY_UPDATE: {SHARE, NO_KEY_UPDATE, UPDATE},
    UPDATE: {KEY_SHARE, SHARE, NO_KEY_UPDATE, UPDATE},
}


@pytest.mark.parametrize("held", ROW_TABLE)
@pytest.mark.parametrize("wanted", ROW_TABLE)
def test_row_locks_conflict_as_the_manual_says(rows: RowLocks, owners: list[Owner], held: int, wanted: int) -> None:
    first, second = owners[:2]
    assert first.row(rows, b"k", held) is None
    assert (second.row(rows, b"k", wanted) is not None) == (wanted in ROW_TABLE[held])


def test_table_conflicts_are_symmetric() -> None:
    for one, conflicts in TABLE_CONFLICTS.items():
        for other, others in TABLE_CONFLICTS.items():
            assert bool(conflicts & other) == bool(others & one)


def test_a_lock_is_granted_when_the_holder_is_done(rows: RowLocks, owners: list[Owner]) -> None:
    first, second = owners[:2]
    first.row(rows, b"k", UPDATE)
    ticket = second.row(rows, b"k", UPDATE)
    assert ticket is not None
    granted: list[bool] = []
    ticket.add_done_callback(lambda: granted.append(True))
    assert not granted
    first.done(rows)
    assert granted == [True]
    assert second.row_locks[b"k"] == UPDATE
    assert second.waiting is None


def test_waiters_are_served_in_the_order_of_their_arrival(rows: RowLocks, owners: list[Owner]) -> None:
    order: list[int] = []
    owners[0].row(rows, b"k", UPDATE)
    for owner in owners[1:]:
        ticket = owner.row(rows, b"k", UPDATE)
        assert ticket is not None
        ticket.add_done_callback(lambda owner=owner: order.append(owner.process_id))  # type: ignore[misc]
    for owner in owners:
        owner.done(rows)
    assert order == [2, 3, 4, 5]


def test_a_sharer_of_a_row_overtakes_a_waiting_writer(rows: RowLocks, owners: list[Owner]) -> None:
    """As in PostgreSQL: only who has to wait stands in line."""
    reader, writer, late = owners[:3]
    reader.row(rows, b"k", SHARE)
    assert writer.row(rows, b"k", UPDATE) is not None
    assert late.row(rows, b"k", SHARE) is None
    reader.done(rows)
    assert writer.row_locks == {}
    late.done(rows)
    assert writer.row_locks == {b"k": UPDATE}


def test_a_sharer_of_a_table_does_not_overtake_a_waiting_writer(owners: list[Owner]) -> None:
    tables = TableLocks()
    reader, writer, late = owners[:3]
    reader.table(tables, 1, ACCESS_SHARE)
    assert writer.table(tables, 1, ACCESS_EXCLUSIVE) is not None
    assert late.table(tables, 1, ACCESS_SHARE) is not None


def test_who_looks_on_waits_for_who_has_written_and_gets_no_lock(rows: RowLocks, owners: list[Owner]) -> None:
    writer, looker, next_one = owners[:3]
    writer.row(rows, b"k", NO_KEY_UPDATE)
    assert rows.wait_for_writer(looker, b"k") is None
    writer.written.add(b"k")
    assert next_one.row(rows, b"k", UPDATE) is not None
    ticket = rows.wait_for_writer(looker, b"k")
    assert ticket is not None and not ticket.done
    assert rows.blockers(ticket) == [writer.process_id]
    writer.done(rows)
    assert ticket.done and looker.row_locks == {}
    assert next_one.row_locks == {b"k": UPDATE}


def test_two_who_look_on_at_each_other_are_a_deadlock(rows: RowLocks, owners: list[Owner]) -> None:
    for owner, key in zip(owners, (b"a", b"b"), strict=False):
        owner.row(rows, key, UPDATE)
        owner.written.add(key)
    assert rows.wait_for_writer(owners[0], b"b") is not None
    with pytest.raises(SqlError) as caught:
        rows.wait_for_writer(owners[1], b"a")
    assert caught.value.sqlstate == "40P01"


def test_sharers_are_granted_together(rows: RowLocks, owners: list[Owner]) -> None:
    owners[0].row(rows, b"k", UPDATE)
    for owner in owners[1:]:
        owner.row(rows, b"k", SHARE)
    owners[0].done(rows)
    assert all(owner.row_locks == {b"k": SHARE} for owner in owners[1:])


def test_a_holder_may_raise_its_lock_before_those_who_wait(rows: RowLocks, owners: list[Owner]) -> None:
    holder, waiter = owners[:2]
    holder.row(rows, b"k", NO_KEY_UPDATE)
    assert waiter.row(rows, b"k", NO_KEY_UPDATE) is not None
    assert holder.row(rows, b"k", UPDATE) is None


def test_two_owners_that_wait_for_each_other_are_a_deadlock(rows: RowLocks, owners: list[Owner]) -> None:
    first, second = owners[:2]
    first.row(rows, b"a", UPDATE)
    second.row(rows, b"b", UPDATE)
    assert first.row(rows, b"b", UPDATE) is not None
    with pytest.raises(SqlError) as caught:
        second.row(rows, b"a", UPDATE)
    assert caught.value.sqlstate == "40P01"
    assert "Process 2 waits" in (caught.value.detail or "")
    second.done(rows)
    assert b"b" in first.row_locks


def test_a_ring_of_five_is_found_by_the_one_that_closes_it(rows: RowLocks, owners: list[Owner]) -> None:
    for number, owner in enumerate(owners):
        owner.row(rows, bytes([number]), UPDATE)
    for number, owner in enumerate(owners[:-1]):
        assert owner.row(rows, bytes([number + 1]), UPDATE) is not None
    with pytest.raises(SqlError, match="deadlock"):
        owners[-1].row(rows, b"\0", UPDATE)


def test_raising_a_shared_lock_on_both_sides_is_a_deadlock(rows: RowLocks, owners: list[Owner]) -> None:
    first, second = owners[:2]
    first.row(rows, b"k", SHARE)
    second.row(rows, b"k", SHARE)
    assert first.row(rows, b"k", UPDATE) is not None
    with pytest.raises(SqlError, match="deadlock"):
        second.row(rows, b"k", UPDATE)


def test_a_deadlock_through_a_row_and_a_table_is_found(owners: list[Owner]) -> None:
    rows, tables = RowLocks(), TableLocks()
    first, second = owners[:2]
    first.table(tables, 1, ROW_EXCLUSIVE)
    second.row(rows, b"k", UPDATE)
    assert first.row(rows, b"k", UPDATE) is not None
    with pytest.raises(SqlError, match="deadlock"):
        second.table(tables, 1, ACCESS_EXCLUSIVE)


def test_a_wait_that_is_given_up_lets_the_next_one_in(rows: RowLocks, owners: list[Owner]) -> None:
    reader, writer, late = owners[:3]
    reader.row(rows, b"k", SHARE)
    ticket = writer.row(rows, b"k", UPDATE)
    assert ticket is not None
    late.row(rows, b"k", SHARE)
    ticket.cancel(SqlError("57014", "canceled"))
    assert ticket.error is not None
    assert late.row_locks == {b"k": SHARE}


def test_a_self_conflicting_table_lock_lets_readers_through(owners: list[Owner]) -> None:
    tables = TableLocks()
    assert owners[0].table(tables, 1, SHARE_ROW_EXCLUSIVE) is None
    assert owners[1].table(tables, 1, ACCESS_SHARE) is None
    assert owners[2].table(tables, 1, SHARE_ROW_EXCLUSIVE) is not None


def test_an_owner_that_waits_cannot_ask_again(rows: RowLocks, owners: list[Owner]) -> None:
    owners[0].row(rows, b"k", UPDATE)
    owners[1].row(rows, b"k", UPDATE)
    with pytest.raises(AssertionError):
        owners[1].row(rows, b"k", UPDATE)


def test_bulk_writers_see_which_names_others_hold(rows: RowLocks, owners: list[Owner]) -> None:
    owners[0].row(rows, b"0001k", UPDATE)
    owners[1].row(rows, b"0001k", UPDATE)  # waits
    owners[2].row(rows, b"0002k", UPDATE)
    owners[1].waiting = None
    owners[1].row(rows, b"0001m", KEY_SHARE)
    assert sorted(rows.names()) == [b"0001k", b"0001m", b"0002k"]
    assert [name for name in rows.names() if rows.is_own(owners[1], name)] == [b"0001m"]


def test_a_watcher_is_notified_of_new_locks_and_others_are_not(rows: RowLocks, owners: list[Owner]) -> None:
    owners[0].row(rows, b"0001a", UPDATE)
    one, other = rows.watch(b"0001"), rows.watch(b"0001")
    owners[1].row(rows, b"0001b", KEY_SHARE)
    owners[1].row(rows, b"0002b", UPDATE)
    assert not rows.all_free([b"0001c"]) and rows.all_free([b"0002c"])  # each is taken singly, and told
    owners[0].done(rows)
    rows.would_block(owners[2], b"0001a", UPDATE)
    owners[2].row(rows, b"0001a", UPDATE)  # anew
    rows.unwatch(b"0001", other)
    owners[2].row(rows, b"0001d", UPDATE)
    assert set(one) == {b"0001a", b"0001b", b"0001d"} and set(other) == {b"0001a", b"0001b"}
    loader = Loader(9, b"0001e")
    rows.claim(loader, b"0001")
    rows.unwatch(b"0001", one)
    assert owners[3].row(rows, b"0001e", UPDATE) is not None
    rows.unclaim(loader, [b"0001"])
    assert rows._claims == {} and rows._watches == {}


class Loader(Owner):
    """A transaction with a bulk run."""

    def __init__(self, process_id: int, *keys: bytes) -> None:
        super().__init__(process_id)
        self.runs: list[Any] = []
        self.keys = set(keys)

    def has_in_runs(self, key: bytes) -> bool:
        return key in self.keys


def test_keys_of_a_claim_are_locked_and_others_are_not(rows: RowLocks, owners: list[Owner]) -> None:
    loader = Loader(9, b"0001a", b"0001b", b"0002a")
    rows.claim(loader, b"0001")
    assert owners[0].row(rows, b"0001c", UPDATE) is None
    assert owners[0].row(rows, b"0002a", UPDATE) is None  # a storage id without claims
    assert loader.row(rows, b"0001a", UPDATE) is None
    waiting = owners[1].row(rows, b"0001a", UPDATE)
    assert waiting is not None and rows.blockers(waiting) == [9]
    assert rows.would_block(owners[2], b"0001b", KEY_SHARE)
    assert not rows.all_free([b"0001x"])  # may be in a claim: nobody takes it without a look
    rows.unclaim(loader, [b"0001"])
    loader.done(rows)
    assert waiting.done and owners[1].row_locks == {b"0001a": UPDATE}
    assert owners[2].row(rows, b"0001b", UPDATE) is None


def test_waits_for_claims_that_would_never_end_are_deadlocks(rows: RowLocks, owners: list[Owner]) -> None:
    loader = Loader(9, b"0001a")
    rows.claim(loader, b"0001")
    owners[0].row(rows, b"0001z", UPDATE)
    assert owners[0].row(rows, b"0001a", UPDATE) is not None
    with pytest.raises(SqlError) as found:
        loader.row(rows, b"0001z", UPDATE)
    assert found.value.sqlstate == "40P01"


def test_two_claims_under_one_storage_id(rows: RowLocks, owners: list[Owner]) -> None:
    one, other = Loader(8, b"0001a"), Loader(9, b"0001b")
    for loader in (one, other):
        rows.claim(loader, b"0001")
    assert rows.claimants(b"0001", one) == [other]
    rows.unclaim(one, [b"0001"])
    assert owners[0].row(rows, b"0001a", UPDATE) is None
    assert owners[0].row(rows, b"0001b", UPDATE) is not None


class Tables:
    """Four transactions over two tables in one space, driven by steps; what happens is told."""

    def __init__(self, space: LockSpace) -> None:
        self.space = space
        self.owners = [Owner(number) for number in range(4)]

    def step(self, who: int, what: str, name: int, mode: int) -> object:
        owner = self.owners[who]
        if what == "end":
            if owner.waiting is not None:
                owner.waiting.cancel(SqlError("57014", "canceled"))
            names, owner.table_locks = list(owner.table_locks), {}
            self.space.release(owner, names)
        elif what == "let go":
            if owner.table_locks.pop(name, 0):
                self.space.release(owner, [name])
        elif owner.waiting is not None:
            return None
        elif what == "ask":
            return self.space.would_block(owner, name, mode)
        else:
            try:
                return owner.table(self.space, name, mode) is None
            except SqlError as error:
                return error.sqlstate
        return None

    def seen(self) -> object:
        held = [(owner.table_locks, owner.waiting and owner.waiting.name) for owner in self.owners]
        return held, [{holder.process_id for holder in self.space.holders(name)} for name in (1, 2)]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.sampled_from(["take", "take", "take", "ask", "end", "let go"]),
            st.integers(1, 2),
            st.sampled_from(sorted(TABLE_MODES.values())),
            st.booleans(),
        ),
        max_size=40,
    )
)
def test_weak_table_locks_that_are_only_noted_behave_as_if_they_were_queued(
    steps: list[tuple[int, str, int, int, bool]],
) -> None:
    quick, plain = Tables(TableLocks()), Tables(LockSpace(TABLE_CONFLICTS))
    for who, what, name, mode, looked_at in steps:
        assert quick.step(who, what, name, mode) == plain.step(who, what, name, mode)
        if looked_at:
            assert quick.seen() == plain.seen()
    assert quick.seen() == plain.seen()
    for who in range(4):
        quick.step(who, "end", 0, 0)
    assert quick.space._held == {}
    assert quick.space._weak == set()  # type: ignore[attr-defined]


def test_who_waits_for_lockers_keeps_nobody_out_and_ends_with_them(owners: list[Owner]) -> None:
    space = TableLocks()
    first, waiter, later, other = owners[:4]
    first.table(space, 7, ACCESS_SHARE)
    other.table(space, 7, ROW_EXCLUSIVE)
    assert space.wait_for_lockers(waiter, 8, ACCESS_EXCLUSIVE) is None
    ticket = space.wait_for_lockers(waiter, 7, TABLE_MODES["share"])
    assert ticket is not None and space.blockers(ticket) == [other.process_id]
    assert later.table(space, 7, ROW_EXCLUSIVE) is None
    assert later.table(space, 7, TABLE_MODES["share row exclusive"]) is not None, "others wait for others"
    other.done_with(space)
    assert ticket.done and waiter.waiting is None and not waiter.table_locks
    only = space.wait_for_lockers(waiter, 7, ACCESS_EXCLUSIVE, lambda owner: owner is later)
    assert only is not None and space.blockers(only) == [later.process_id]


def test_a_wait_for_lockers_is_part_of_deadlocks(owners: list[Owner]) -> None:
    space = TableLocks()
    first, waiter = owners[:2]
    first.table(space, 7, ACCESS_SHARE)
    waiter.table(space, 7, TABLE_MODES["share update exclusive"])
    assert space.wait_for_lockers(waiter, 7, ACCESS_EXCLUSIVE) is not None
    with pytest.raises(SqlError, match="deadlock detected"):
        first.table(space, 7, TABLE_MODES["share update exclusive"])
