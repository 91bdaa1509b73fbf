"""The log of a cluster under faults, in virtual time; and the checkers, which have to notice planted faults.

SHOAL_SEEDS=1000:2000 runs other seeds than the few of every day. `make torture` runs thousands of short histories.
"""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from catalog.errors import SqlError
from tests.replication.log.plants import PLANTS, RARE, SOON
from tests.replication.log.world import BrokenError, Report, Shape, short, simulate, simulate_zombie
from tests.samples import some

_FIRST, _, _END = os.environ.get("SHOAL_SEEDS", "0:10").partition(":")
SEEDS = range(int(_FIRST), int(_END))
STEPS = range(SEEDS.start * 10, SEEDS.stop * 10, 10)  # handles of the leader's process
PLANTED_SEEDS = range(400)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Faults are logged, thousands of them."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def run(seed: int, directory: Path, shape: Shape | None = None) -> Report:
    return simulate(seed, str(directory), shape)


@pytest.mark.parametrize("seed", some(SEEDS, 4))
def test_promises_hold_under_faults(seed: int, tmp_path: Path) -> None:
    report = run(seed, tmp_path)
    assert report.acknowledged > 20
    assert report.strong_reads > 0
    assert report.follower_reads > 20


@pytest.mark.parametrize(("step", "fate"), some(itertools.product(STEPS, ("stop", "kill")), 3))
def test_a_leader_is_stopped_for_long_or_killed_at_any_step(step: int, fate: str, tmp_path: Path) -> None:
    simulate_zombie(step, str(tmp_path), fate)


@pytest.mark.parametrize("first", some(range(SEEDS.start * 10, SEEDS.stop * 10, 10), 10))
def test_promises_hold_in_short_histories(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 10):
        run(seed, tmp_path, short(seed))


@pytest.mark.parametrize("plant", some(PLANTS, 4), ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_noticed(
    plant: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in itertools.chain([SOON.get(plant, 0)], PLANTED_SEEDS):
        try:
            run(seed, tmp_path, Shape() if plant in RARE else short(seed))
        except (BrokenError, SqlError) as error:
            print(f"{plant.__name__}: seed {seed}: {error!r}")
            return
    pytest.fail(f"{len(PLANTED_SEEDS)} seeds have not noticed it")


def test_a_seed_replays(tmp_path: Path) -> None:
    assert run(7, tmp_path / "a") == run(7, tmp_path / "b")
