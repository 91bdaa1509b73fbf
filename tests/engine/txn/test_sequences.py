"""Sequences: no value twice, whatever crashes; PostgreSQL's bounds."""

from __future__ import annotations

import pytest

from catalog.errors import SqlError
from catalog.schema import Sequence
from engine.txn.sequences import LOG_AHEAD, Sequences, decode_state


class Log:
    """The durable state, and how often it was written."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.records = 0

    def write(self, writes: dict[bytes, bytes | None]) -> int:
        self.records += 1
        for key, value in writes.items():
            assert value is not None
            self.values[key] = value
        return self.records

    def open(self) -> Sequences:
        return Sequences(self.values.get, self.write)


def sequence(**changes: object) -> Sequence:
    return Sequence(1, 2, "s", 100, **changes)  # type: ignore[arg-type]


def test_values_count_up_from_the_start() -> None:
    state = Log().open()
    assert [state.next_value(sequence(start=5, increment=2)) for _ in range(4)] == [5, 7, 9, 11]


def test_one_record_covers_many_values() -> None:
    log = Log()
    state = log.open()
    for _ in range(LOG_AHEAD + 1):
        state.next_value(sequence())
    assert log.records == 1
    state.next_value(sequence())
    assert log.records == 2


@pytest.mark.parametrize("drawn", [1, 2, LOG_AHEAD, LOG_AHEAD + 1, LOG_AHEAD + 2, 100])
def test_after_a_crash_no_value_is_given_twice(drawn: int) -> None:
    log = Log()
    state = log.open()
    given = [state.next_value(sequence()) for _ in range(drawn)]
    again = log.open().next_value(sequence())
    assert again > max(given)
    assert again <= max(given) + LOG_AHEAD + 1


def test_a_clean_stop_skips_nothing() -> None:
    log = Log()
    state = log.open()
    given = [state.next_value(sequence()) for _ in range(7)]
    log.write(state.settle())
    assert log.open().next_value(sequence()) == given[-1] + 1


def test_the_end_is_an_error_or_the_beginning() -> None:
    state = Log().open()
    short = sequence(maximum=2)
    assert [state.next_value(short) for _ in range(2)] == [1, 2]
    with pytest.raises(SqlError) as caught:
        state.next_value(short)
    assert caught.value.sqlstate == "2200H"
    cycling = Log().open()
    assert [cycling.next_value(sequence(maximum=2, cycle=True)) for _ in range(3)] == [1, 2, 1]


def test_setval_is_written_at_once_and_obeys_the_bounds() -> None:
    log = Log()
    state = log.open()
    state.set_value(sequence(), 41, True)
    assert decode_state(next(iter(log.values.values()))) == (41, True)
    assert state.next_value(sequence()) == 42
    state.set_value(sequence(), 41, False)
    assert state.next_value(sequence()) == 41
    with pytest.raises(SqlError) as caught:
        state.set_value(sequence(), 0, True)
    assert caught.value.sqlstate == "22003"


def test_a_bulk_draw_is_one_run_and_one_record() -> None:
    log = Log()
    state = log.open()
    assert list(state.next_values(sequence(), 1000)) == list(range(1, 1001))
    assert log.records == 1
    assert state.next_value(sequence()) == 1001
    with pytest.raises(SqlError, match="reached maximum"):
        state.next_values(sequence(maximum=1500), 1000)


def test_a_value_drawn_after_a_clean_stop_began_is_not_given_again() -> None:
    log = Log()
    state = log.open()
    assert [state.next_value(sequence()) for _ in range(3)] == [1, 2, 3]
    log.write(state.settle())
    assert state.next_value(sequence()) == 4
    assert log.open().next_value(sequence()) > 4
