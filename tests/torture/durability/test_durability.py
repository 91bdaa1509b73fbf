"""Durability in short; and a disk that forgets, which must be noticed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.torture.durability import flips, operations, power
from tests.torture.durability.trials import PLANTED_KILLS, killed
from tests.torture.durability.works import WORKS

needs_mounts = pytest.mark.skipif(not power.possible(), reason="images cannot be mounted here: that needs root")
needs_compiler = pytest.mark.skipif(not operations.possible(), reason="needs Linux and a C compiler")


@needs_mounts
def test_a_power_cut_loses_nothing_that_was_acknowledged() -> None:
    assert list(power.cuts(60, 7, most=4)) == [""] * 4


@needs_mounts
@needs_compiler
def test_a_power_cut_before_an_operation_loses_nothing_that_was_acknowledged() -> None:
    found = operations.cut_all(0.0, 7, only="flushes", points=3)
    assert found.problems == [] and found.points.total() > 0


@needs_mounts
def test_left_out_syncs_are_noticed() -> None:
    assert any(power.cuts(60, 7, most=6, plant="unsynced"))


def test_commits_acknowledged_before_they_are_written_are_found(tmp_path: Path) -> None:
    """A kill may come when all that was told happens to be written: not so often."""
    assert list(killed(tmp_path, random.Random(7), most=PLANTED_KILLS, plant="early"))[-1]


@needs_mounts
def test_a_full_disk_ends_the_process_and_loses_nothing() -> None:
    acknowledged, problem = power.full_disk()
    assert acknowledged > 0 and problem == ""


@needs_compiler
def test_operations_that_fail_or_are_the_last_lose_nothing() -> None:
    found = operations.meet_all(0.0, 7, points=2)
    assert found.problems == []
    assert len(found.points) == len(WORKS) and all(found.points.values())


@needs_compiler
@pytest.mark.parametrize("work", ["a bulk run", "saves of columns"])
def test_what_is_acknowledged_too_early_is_found(work: str) -> None:
    assert operations.meet_all(0.0, 7, only=work, points=16, plant="early").problems


@pytest.mark.parametrize("kind", flips.TARGETS, ids=lambda kind: kind.name)
def test_flipped_bytes_are_noticed(kind: type[flips.Target], tmp_path: Path) -> None:
    found = flips.flip(kind, tmp_path / "flips", 60.0, 7, most=60)
    assert found.tried >= 20 and found.unnoticed == []


def test_checksums_that_are_not_compared_are_noticed(tmp_path: Path) -> None:
    assert flips.flip(flips.Believing, tmp_path / "flips", 60.0, 7, most=40).unnoticed
