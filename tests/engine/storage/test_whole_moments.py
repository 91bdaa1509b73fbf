"""Moments of several tablespaces: no transaction over several is in half of them, whatever the clocks say."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from engine.storage.joints import whole
from engine.storage.moments import Moment
from engine.storage.stores import KeptJoints


@dataclass
class History:
    """Of three tablespaces: the commit times of each, and the parts of all transactions over several, in order."""

    times: list[list[int]]
    joints: list[dict[int, int]]


def history(chance: random.Random, setbacks: bool) -> History:
    found = History([[], [], []], [])
    now = 1000
    for _ in range(60):
        now += chance.randrange(3) - (chance.randrange(40) if setbacks and chance.random() < 0.1 else 0)
        slots = chance.sample(range(3), chance.choice((1, 1, 2, 2, 3)))
        for slot in slots:
            found.times[slot].append(now)
        if len(slots) > 1:
            found.joints.append({slot: len(found.times[slot]) for slot in slots})
    return found


def by_time(times: list[int], time: int) -> int:
    """The last LSN before the first commit that was later."""
    return next((lsn for lsn, found in enumerate(times) if found > time), len(times))


def torn(ends: dict[int, int], joints: list[dict[int, int]]) -> list[dict[int, int]]:
    return [parts for parts in joints if len({lsn <= ends[slot] for slot, lsn in parts.items()}) > 1]


@pytest.mark.parametrize("setbacks", [False, True])
def test_none_is_torn(setbacks: bool) -> None:
    chance = random.Random(3)
    were_torn = 0
    for _ in range(400):
        made = history(chance, setbacks)
        kept = KeptJoints()
        for parts in made.joints:
            kept.add(parts)
            kept.add(parts)  # as its other part is applied
        lsn = chance.randrange(len(made.times[0]) + 1)
        time = made.times[0][lsn - 1] if lsn else 0
        ends = {0: lsn, 1: by_time(made.times[1], time), 2: by_time(made.times[2], time)}
        found = whole(ends, 0, made.joints)
        assert found[0] == lsn
        assert torn(found, made.joints) == []
        assert all(0 <= end <= len(made.times[slot]) for slot, end in found.items())
        if torn(ends, made.joints):
            were_torn += 1
        else:
            assert found == ends
        moment = kept.whole(Moment(tuple(ends.values())))
        assert moment.of(0) == lsn
        assert torn(dict(enumerate(moment.lsns)), made.joints) == []
    assert were_torn > 10


def test_what_was_taken_back_or_is_too_old_is_forgotten() -> None:
    kept = KeptJoints()
    for number in range(1, 501):
        kept.add({0: number, 1: number})
    kept.undo_above(1, 400)
    assert kept.whole(Moment((399, 450))) == Moment((399, 399))
    assert kept.whole(Moment((450, 380))) == Moment((450, 400))
    kept.forget(Moment((300, 300)))
    assert kept.whole(Moment((350, 340))) == Moment((350, 350))
