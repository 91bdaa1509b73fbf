"""Who runs when in the worker, where queries that found no memory left are to run alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from engine.columnar.frames import Header
from engine.columnar.worker.query import Query, Slots, until_its_end

LONG = 30.0  # seconds
SHORT = 0.05


class Reader:
    """A result without rows that comes when the test says so, or the error of a memory that is full."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.full = False

    def sql(self, text: str) -> Reader:
        self.begun.set()
        assert self.go.wait(LONG)
        if self.full:
            raise MemoryError
        return self

    def to_arrow_reader(self, rows: int) -> Reader:
        return self

    def __iter__(self) -> Any:
        return iter(())

    def execute(self, sql: str) -> None:
        pass

    def close(self) -> None:
        pass


class Running:
    """A query on a thread of its own. `patience`: it is to run alone."""

    def __init__(self, slots: Slots, patience: float | None = None) -> None:
        self.reader = Reader()
        header: Header = {"id": 1, "sql": "", "encoding": None, "lexicon": ""}
        if patience is not None:
            header["patience"] = patience
        self.sent: list[Header] = []
        self.query = Query(header, self.reader, lambda header, buffers: self.sent.append(header), slots)
        self.thread = threading.Thread(target=self.query.run)
        self.thread.start()

    def runs(self) -> bool:
        return self.reader.begun.wait(LONG)

    def waits(self) -> bool:
        return not self.reader.begun.wait(SHORT)

    def end(self, full: bool = False) -> Header:
        self.reader.full = full
        self.reader.go.set()
        self.thread.join(LONG)
        return self.sent[-1]


@pytest.fixture
def slots() -> Slots:
    return Slots(2)


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_no_more_run_than_there_are_slots(slots: Slots) -> None:
    first, second, third = (Running(slots) for _ in range(3))
    running = [one for one in (first, second, third) if one.reader.begun.wait(SHORT)]
    assert len(running) == 2
    (waiting,) = {first, second, third} - set(running)
    running[0].end()
    assert waiting.runs()
    for one in (running[1], waiting):
        assert one.end()["op"] == "end"


def test_one_that_is_to_run_alone_keeps_others_out_until_it_has_ended(slots: Slots) -> None:
    plain = Running(slots)
    assert plain.runs()
    alone = Running(slots, LONG)
    _until(lambda: alone.query in slots._alone)
    late = Running(slots)
    assert alone.waits() and late.waits()
    plain.end()
    assert alone.runs() and late.waits()
    assert (answer := alone.end(full=True))["sqlstate"] == "53200" and not answer["crowded"]
    assert late.runs()
    assert late.end()["op"] == "end"


def test_those_behind_one_that_runs_alone_lose_nothing_by_waiting(slots: Slots) -> None:
    """Their patience begins with their turn: they run alone too, however long the first one takes."""
    first = Running(slots, LONG)
    assert first.runs()
    second = Running(slots, SHORT)
    _until(lambda: second.query in slots._alone)
    assert second.reader.begun.wait(3 * SHORT) is False
    first.end()
    assert second.runs()
    late = Running(slots)
    assert late.waits()
    assert not second.end(full=True)["crowded"]
    late.end()


def test_at_the_end_of_its_patience_it_runs_beside_others_and_says_so(slots: Slots) -> None:
    plain = Running(slots)
    assert plain.runs()
    hasty = Running(slots, SHORT)
    assert hasty.runs()
    assert (answer := hasty.end(full=True))["sqlstate"] == "53200" and answer["crowded"]
    late = Running(slots)
    assert late.runs()
    for one in (plain, late):
        assert one.end()["op"] == "end"


def test_one_that_is_stopped_gives_its_turn_to_the_next(slots: Slots) -> None:
    plain = Running(slots)
    assert plain.runs()
    alone = Running(slots, LONG)
    _until(lambda: alone.query in slots._alone)
    late = Running(slots)
    assert late.waits()
    alone.query.stop()
    alone.thread.join(LONG)
    assert alone.sent[-1]["sqlstate"] == "57014"
    assert late.runs()
    for one in (plain, late):
        one.end()


@pytest.mark.parametrize("sizes", [[], [3], [8], [8, 8], [8, 8, 3], [3, 3]])
def test_the_last_batch_of_a_result_comes_when_the_end_has_been_seen(sizes: list[int]) -> None:
    read: list[int] = []

    def reader() -> Iterator[pa.RecordBatch]:
        for size in sizes:
            read.append(size)
            yield pa.RecordBatch.from_pydict({"a": range(size)})
        read.append(0)

    given = []
    for batch in until_its_end(reader(), 8):
        given.append(batch.num_rows)
        assert batch.num_rows == 8 or len(read) > len(given)
    assert given == sizes and read == [*sizes, 0]
