"""Deadlocks that another order of queues avoids, and who goes first in a queue."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.errors import SqlError
from engine.node.advisory_space import AdvisorySpace
from engine.txn.interface import KEY_SHARE, NO_KEY_UPDATE, UPDATE
from engine.txn.locks import (
    ACCESS_EXCLUSIVE,
    ACCESS_SHARE,
    EXCLUSIVE,
    ROW_EXCLUSIVE,
    ROW_SHARE,
    SHARE_UPDATE_EXCLUSIVE,
    TABLE_MODES,
    TABLE_SHARE,
    LockSpace,
    TableLocks,
)
from engine.txn.row_locks import RowLocks
from tests.engine.txn.test_locks import Owner


@pytest.fixture
def tables() -> TableLocks:
    return TableLocks()


@pytest.fixture
def owners() -> list[Owner]:
    return [Owner(number) for number in range(1, 6)]


def waits(owner: Owner) -> bool:
    return owner.waiting is not None


def test_who_keeps_a_waiter_out_goes_before_him(tables: TableLocks, owners: list[Owner]) -> None:
    """ProcSleep: before the first waiter that conflicts with what one holds, if need be at once."""
    first, other, waiter, last = owners[:4]
    first.table(tables, 1, ROW_EXCLUSIVE)
    other.table(tables, 1, ROW_EXCLUSIVE)
    assert waiter.table(tables, 1, ACCESS_EXCLUSIVE) is not None
    assert last.table(tables, 1, ROW_SHARE) is not None
    assert first.table(tables, 1, ACCESS_SHARE) is None
    assert first.table(tables, 1, TABLE_SHARE) is not None
    other.done_with(tables)
    assert not waits(first) and waits(waiter) and waits(last)


def test_who_keeps_no_waiter_out_goes_to_the_end(tables: TableLocks, owners: list[Owner]) -> None:
    """The waiter waits for another one: who holds a mode that is not in his way does not overtake him."""
    reader, writer, waiter = owners[:3]
    reader.table(tables, 1, ACCESS_SHARE)
    writer.table(tables, 1, ROW_EXCLUSIVE)
    assert waiter.table(tables, 1, TABLE_SHARE) is not None
    assert tables.would_block(reader, 1, ROW_EXCLUSIVE)
    assert reader.table(tables, 1, ROW_EXCLUSIVE) is not None
    writer.done_with(tables)
    assert not waits(waiter) and waits(reader)


def test_who_goes_before_one_waiter_still_waits_for_those_before_him(tables: TableLocks, owners: list[Owner]) -> None:
    holder, writer, first, second = owners[:4]
    holder.table(tables, 1, ACCESS_SHARE)
    writer.table(tables, 1, ROW_EXCLUSIVE)
    assert first.table(tables, 1, TABLE_SHARE) is not None
    assert second.table(tables, 1, ACCESS_EXCLUSIVE) is not None
    assert holder.table(tables, 1, ROW_EXCLUSIVE) is not None  # behind the first, who does not wait for it
    writer.done_with(tables)
    assert not waits(first) and waits(holder) and waits(second)
    first.done_with(tables)
    assert not waits(holder) and waits(second)


def test_a_soft_deadlock_is_avoided(tables: TableLocks, owners: list[Owner]) -> None:
    """PostgreSQL's deadlock-soft.spec: two edges are hard and two soft; one goes before a waiter of the other table."""
    d1, d2, e1, e2 = owners[:4]
    d1.table(tables, 1, ACCESS_SHARE)
    d2.table(tables, 2, ACCESS_SHARE)
    assert e1.table(tables, 1, ACCESS_EXCLUSIVE) is not None
    assert e2.table(tables, 2, ACCESS_EXCLUSIVE) is not None
    assert d1.table(tables, 2, ACCESS_SHARE) is not None
    assert d2.table(tables, 1, ACCESS_SHARE) is not None
    assert not waits(d1) and waits(d2) and waits(e1) and waits(e2)
    d1.done_with(tables)
    assert not waits(e1) and waits(d2)
    e1.done_with(tables)
    assert not waits(d2) and waits(e2)


def test_one_goes_before_two_waiters_where_each_would_close_a_cycle(tables: TableLocks, owners: list[Owner]) -> None:
    """PostgreSQL's deadlock-soft-2.spec: turning one edge round leaves another cycle."""
    first, second, third, fourth = owners[:4]
    first.table(tables, 1, SHARE_UPDATE_EXCLUSIVE)
    second.table(tables, 2, ACCESS_SHARE)
    assert second.table(tables, 1, SHARE_UPDATE_EXCLUSIVE) is not None
    assert third.table(tables, 2, ACCESS_EXCLUSIVE) is not None
    assert fourth.table(tables, 2, ACCESS_EXCLUSIVE) is not None
    assert first.table(tables, 2, SHARE_UPDATE_EXCLUSIVE) is None
    first.done_with(tables)
    assert not waits(second) and waits(third) and waits(fourth)
    second.done_with(tables)
    assert not waits(third) and waits(fourth)


def test_a_newcomer_whose_queue_changes_need_not_wait(tables: TableLocks, owners: list[Owner]) -> None:
    one, two = owners[:2]
    advisory = AdvisorySpace()
    one.table(tables, 1, ACCESS_SHARE)
    two.table(advisory, 7, EXCLUSIVE)
    assert two.table(tables, 1, ACCESS_EXCLUSIVE) is not None
    with pytest.raises(SqlError, match="deadlock"):  # hard
        one.table(advisory, 7, EXCLUSIVE)
    three = owners[2]
    three.table(advisory, 8, EXCLUSIVE)
    assert one.table(advisory, 8, EXCLUSIVE) is not None
    assert three.table(tables, 1, ACCESS_SHARE) is None  # only the waiter, who waits for one, was in its way
    assert waits(one) and waits(two)


def test_queues_of_rows_stay_as_they_are(owners: list[Owner]) -> None:
    """In PostgreSQL the first waiter for a row holds a lock that the next one waits for."""
    rows, tables = RowLocks(), TableLocks()
    sharer, changer, first, second = owners[:4]
    sharer.row(rows, b"k", KEY_SHARE)
    changer.row(rows, b"k", NO_KEY_UPDATE)
    second.table(tables, 1, EXCLUSIVE)
    assert first.row(rows, b"k", UPDATE) is not None
    assert second.row(rows, b"k", NO_KEY_UPDATE) is not None
    with pytest.raises(SqlError, match="deadlock"):
        sharer.table(tables, 1, EXCLUSIVE)
    assert waits(first) and waits(second)


def _cyclic(owners: list[Owner]) -> bool:
    """Whether some wait waits for itself, by what `blockers` tells of each."""
    edges = {
        owner.process_id: set(owner.waiting.space.blockers(owner.waiting))
        for owner in owners
        if owner.waiting is not None
    }
    while edges:
        free = [who for who, blockers in edges.items() if not blockers & edges.keys()]
        if not free:
            return True
        for who in free:
            del edges[who]
    return False


@given(
    st.lists(
        st.tuples(
            st.integers(0, 4),
            st.sampled_from(["take", "take", "take", "take", "end"]),
            st.integers(1, 3),
            st.sampled_from(sorted(TABLE_MODES.values())),
        ),
        max_size=40,
    )
)
def test_no_transaction_waits_without_end_and_none_conflict(steps: list[tuple[int, str, int, int]]) -> None:
    space: LockSpace = TableLocks()
    owners = [Owner(number) for number in range(1, 6)]
    for who, what, name, mode in steps:
        owner = owners[who]
        if what == "end":
            if owner.waiting is not None:
                owner.waiting.cancel(SqlError("57014", "canceled"))
            owner.done_with(space)
        elif owner.waiting is None:
            try:
                owner.table(space, name, mode)
            except SqlError as error:
                assert error.sqlstate == "40P01" and owner.waiting is None
        assert not _cyclic(owners)
        for table in (1, 2, 3):
            held = [item.table_locks.get(table, 0) for item in owners]
            for number, modes in enumerate(held):
                for bit in TABLE_MODES.values():
                    others = [other for place, other in enumerate(held) if place != number]
                    assert not (modes & bit and any(other & space.conflicts[bit] for other in others))
    for owner in owners:
        if owner.waiting is None:
            owner.done_with(space)
    for _ in owners:
        for owner in owners:
            if owner.waiting is None:
                owner.done_with(space)
    assert not any(waits(owner) for owner in owners)
