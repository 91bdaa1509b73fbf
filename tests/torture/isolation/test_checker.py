"""Each anomaly in a history of its own, found under its name; and histories in which there is nothing to be found."""

from __future__ import annotations

import pytest

from tests.torture.isolation.checker import Append, Level, Outcome, Read, Transaction, check, forbidden

RR, RC, SER = Level.REPEATABLE_READ, Level.READ_COMMITTED, Level.SERIALIZABLE


def history(text: str) -> list[Transaction]:
    """A line a transaction: `begun-ended` operations, with a key x..z: `x+1` appends, `x=12` reads [1, 2]; `!` aborted,
    `?` unknown."""
    found = []
    for number, line in enumerate(filter(None, map(str.strip, text.splitlines())), 1):
        times, *operations = line.split()
        begun, ended = map(float, times.split("-"))
        made = Transaction(number, begun, ended, Outcome.COMMITTED)
        for operation in operations:
            if operation in "!?":
                made.outcome = Outcome.ABORTED if operation == "!" else Outcome.UNKNOWN
                continue
            key, values = ord(operation[0]), operation[2:]
            if operation[1] == "+":
                made.operations.append(Append(key, int(values)))
            else:
                made.operations.append(Read(key, tuple(map(int, values))))
        found.append(made)
    return found


def names(text: str, level: Level = RR) -> set[str]:
    return {anomaly.name for anomaly in check(history(text), level)}


FAULTS = [
    ("G0", "1-9 x+1 y+1 \n 1-9 x+2 y+2 \n 10-11 x=12 y=21", RC),
    ("G1a", "1-2 x+1 ! \n 3-4 x=1", RC),
    ("G1a", "3-4 x=7", RC),
    ("G1b", "1-9 x+1 x+2 \n 2-8 x=1 \n 10-11 x=12", RC),
    ("G1c", "1-9 x+1 y=2 \n 1-9 y+2 x=1 \n 10-11 x=1 y=2", RC),
    ("internal", "1-2 x+1 x= \n 3-4 x=1", RC),
    ("internal", "1-9 x= x=1 \n 2-3 x+1", RR),
    ("lost", "1-2 x+1 \n 1-2 x+2 \n 3-4 x=2", RC),
    ("split", "1-9 x+1 \n 1-9 x+2 \n 1-9 x=12 \n 1-9 x=21", RC),
    ("twice", "1-2 x+1 \n 3-4 x=11", RC),
    ("stale", "1-2 x+1 \n 3-4 x= \n 5-6 x=1", RC),
    ("G-single", "1-9 x= x+1 \n 1-9 x= x+2 \n 10-11 x=12", RR),  # lost update
    ("G-single", "1-9 x= y=1 \n 2-3 x+1 y+1 \n 10-11 x=1 y=1", RR),  # read skew
    ("G-nonadjacent", "1-9 x+1 \n 1-9 z+3 \n 1-9 x=1 z= \n 1-9 z=3 x= \n 10-11 x=1 z=3", RR),  # long fork
    ("G2-item", "1-9 x= y+1 \n 1-9 y= x+2 \n 10-11 x=2 y=1", SER),  # write skew
    # A read from the past, although everything it has read is of one time: only the clock tells.
    ("G-single-realtime", "1-2 x+1 \n 3-9 y+2 \n 1.5-8 x= y=2 \n 10-11 x=1 y=2", RR),
]


@pytest.mark.parametrize(("name", "text", "level"), FAULTS)
def test_a_fault_is_found(name: str, text: str, level: Level) -> None:
    found = check(history(text), level)
    assert name in {anomaly.name for anomaly in found}
    assert name in {anomaly.name for anomaly in forbidden(found, level)}


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("1-2 x+1 \n 3-4 x=1 x+2 x=12 \n 5-6 x=12", set()),
        ("1-9 x+1 ? \n 2-3 x= \n 10-11 x=", set()),  # nobody knows whether it was committed
        ("1-9 x+1 ? \n 2-3 x=1 \n 10-11 x=1", set()),
        ("1-9 x+1 ! \n 2-3 x=", set()),
        ("1-9 x= y+1 \n 1-9 y= x+2 \n 10-11 x=2 y=1", {"G2-item"}),  # write skew, under REPEATABLE READ
        ("1-9 x= \n 2-3 x+1 \n 10-11 x=1", set()),
    ],
)
def test_what_is_right_is_not_called_wrong(text: str, allowed: set[str]) -> None:
    assert names(text) == allowed
    assert not forbidden(check(history(text), RR), RR)


def test_reading_twice_is_read_committeds_right() -> None:
    text = "1-9 x= x=1 \n 2-3 x+1 \n 10-11 x=1"
    assert names(text, RC) <= {"G-single"} and "internal" in names(text, RR)
