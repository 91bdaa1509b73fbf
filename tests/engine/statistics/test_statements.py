"""What is counted of statements: calls, rows, times, on every path; what is forgotten, and what of it stays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from engine.statistics import statements
from engine.statistics.statements import NEVER, StatementStatistics, Tally


def _tally() -> Tally:
    return Tally(10, 5, 1, "SELECT $1", "SELECT", [0] * statements.BUCKETS)


@pytest.mark.parametrize("repeated", [1, 40])
def test_times_are_summed_up_exactly(repeated: int) -> None:
    alone, gathered = _tally(), _tally()
    times = [1, 2, 3, 1000, 70_000, 5_000_000_000, 1023, 1024, 7] * repeated
    for took in times:
        alone.add(took / 1e9, 2, alone.buckets)
        gathered.alone.append(took / 1e9)
        gathered.rows += 1
    gathered.fold()
    for tally in (alone, gathered):
        assert (tally.calls, tally.rows, tally.total) == (len(times), 2 * len(times), sum(times))
        assert (tally.least, tally.most) == (1, 5_000_000_000)
        assert tally.squares == pytest.approx(sum(took * took for took in times))
        assert tally.buckets[0] == sum(times) and sum(tally.buckets[1:]) == len(times)
        assert [tally.buckets[n] for n in (1, 2, 3, 10, 11)] == [repeated * n for n in (1, 2, 1, 2, 1)]
    assert alone.buckets == gathered.buckets
    assert (alone.single, gathered.single) == (0, len(times))


class _Plan:
    def __init__(self, queryid: int) -> None:
        self.queryid = queryid
        self.tally: Any = None


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> tuple[StatementStatistics, list[Any]]:
    plans: list[Any] = []

    def known() -> Iterable[Any]:
        return plans

    monkeypatch.setattr(statements, "MOST", 40)
    return StatementStatistics(known, lambda: 7), plans


def _entry(kept: StatementStatistics, queryid: int, calls: int, database: int = 5) -> Tally:
    tally = Tally(10, database, queryid, f"SELECT {queryid}", "SELECT", kept.histogram("SELECT", "row"))
    kept._entries[10, database, queryid] = tally
    tally.alone.extend([100e-9] * calls)
    return tally


def test_what_ran_least_goes_and_its_sums_stay(counted: tuple[StatementStatistics, list[Any]]) -> None:
    kept, plans = counted
    for number in range(40):
        plan = _Plan(number)
        plan.tally = _entry(kept, number, number + 1)
        plans.append(plan)
    before = kept.single_reads(5), kept.rows_fetched(5)
    kept._drop_some()
    assert kept.dropped == 1 and len(kept.entries()) == 38
    assert [plan.queryid for plan in plans if plan.tally is None] == [0, 1]
    assert (kept.single_reads(5), kept.rows_fetched(5)) == before == (820, 820)
    assert kept.histogram("SELECT", "row")[0] == 82_000


def test_reset_forgets_what_it_names(counted: tuple[StatementStatistics, list[Any]]) -> None:
    kept, _ = counted
    for number in range(1, 4):
        _entry(kept, number, 3, database=number)
    kept.reset(queryid=2)
    assert [tally.queryid for tally in kept.entries()] == [1, 3]
    kept.reset(database=3)
    assert [tally.queryid for tally in kept.entries()] == [1]
    assert kept.single_reads(2) == 3
    kept.reset()
    assert kept.entries() == []
    again = next(iter(kept._entries.values()))
    assert (again.calls, again.least, again.most) == (0, NEVER, 0)


def _gather(kept: StatementStatistics, tally: Tally, times: int) -> None:
    """As RowRunner.run does."""
    for _ in range(times):
        tally.alone.append(100e-9)
        if len(tally.alone) >= tally.limit:
            kept.full(tally)


def test_who_is_busy_gathers_more_and_only_so_many_at_a_time(
    counted: tuple[StatementStatistics, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statements, "BUSY", 2)
    clock = [100.0]
    monkeypatch.setattr(statements, "perf_counter", lambda: clock[0])
    kept, _ = counted
    tallies = [_entry(kept, number, 0) for number in range(3)]
    usual, more = statements.GATHERED, statements.BUSY_GATHERED
    for tally in tallies:
        _gather(kept, tally, usual + 7)
        assert tally.limit == usual and tally.calls == usual  # one that has never been full is in no hurry
    for number, tally in enumerate(tallies):
        clock[0] += 0.1
        _gather(kept, tally, usual)
        assert tally.limit == more, number
    assert [tally.limit for tally in tallies] == [usual, more, more]
    assert not tallies[0].alone  # who is busy no more keeps nothing back
    clock[0] += 60.0
    _gather(kept, tallies[0], usual)
    assert tallies[0].limit == usual  # slowly
    _gather(kept, tallies[2], 2 * more)
    assert len(tallies[2].alone) < more
    assert [tally.calls for tally in kept.entries()] == [3 * usual + 7, 2 * usual + 7, 2 * usual + 7 + 2 * more]
