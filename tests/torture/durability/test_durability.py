"""Durability in short; and a disk that forgets, which must be noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.durability import failing, power
from tests.torture.durability.trials import Forgetful

needs_mounts = pytest.mark.skipif(not power.possible(), reason="images cannot be mounted here: that needs root")


@needs_mounts
def test_a_power_cut_loses_nothing_that_was_acknowledged() -> None:
    assert list(power.cuts(60, 7, most=4)) == [""] * 4


@needs_mounts
def test_left_out_syncs_are_noticed() -> None:
    assert any(power.cuts(60, 7, most=6, plant="unsynced"))


@needs_mounts
def test_a_full_disk_ends_the_process_and_loses_nothing() -> None:
    acknowledged, problem = power.full_disk()
    assert acknowledged > 0 and problem == ""


@pytest.mark.parametrize("nth", [3, 9, 27, 81])
def test_an_operation_that_fails_loses_nothing(tmp_path: Path, nth: int) -> None:
    assert failing.fail_at(tmp_path / "log", nth) == (True, "")


def test_lost_writes_are_noticed(tmp_path: Path) -> None:
    assert any(failing.fail_at(tmp_path / "log", nth, Forgetful)[1] for nth in (20, 40, 60))
