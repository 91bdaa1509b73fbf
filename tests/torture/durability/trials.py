"""The trials of durability: power cuts, kills, a full disk, failing operations, flipped bytes."""

from __future__ import annotations

import os
import pathlib
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.engine.storage.test_crash import check, run_and_kill
from tests.torture.durability import failing, power
from tests.torture.trial import Result

MOST = 5  # problems after which a trial ends


@contextmanager
def _folder() -> Iterator[pathlib.Path]:
    folder = pathlib.Path(tempfile.mkdtemp(prefix="shoal-torture-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def power_cuts(seconds: float, seed: int, tell: Callable[[str], None]) -> Result:
    """Cuts, a full disk, and the cuts of a process that leaves out its syncs."""
    result = Result()
    if not power.possible():
        result.figures.append(f"not tried: uid {os.getuid()} may not mount images")
        return result
    made = [problem for problem in power.cuts(seconds * 0.7, seed)]
    wrong = [problem for problem in made if problem]
    result.problems += wrong[:MOST]
    result.figures.append(f"{len(made)} power cuts, {len(wrong)} with lost or torn commits")
    tell(result.figures[-1])
    acknowledged, problem = power.full_disk()
    result.problems += [problem] if problem else []
    result.figures.append(f"a full disk after {acknowledged:,} commits: {problem or 'none lost, none torn'}")
    tell(result.figures[-1])
    result.caught["no syncs"] = any(power.cuts(seconds * 0.2, seed, most=8, plant="unsynced"))
    return result


def kills(seconds: float, seed: int, tell: Callable[[str], None]) -> Result:
    """SIGKILL at random moments of commits and flushes."""
    result = Result()
    end = time.monotonic() + seconds
    chance = random.Random(seed)
    done = last = 0
    while (time.monotonic() < end or not done) and not result.problems:
        with _folder() as folder:
            last = 0
            for _ in range(20):
                acknowledged = run_and_kill(folder, chance.uniform(0.0, 0.3))
                done += 1
                try:
                    last = check(folder, max(acknowledged, last))
                except Exception as error:
                    result.problems.append(f"kill {done} after {acknowledged}: {error!r}"[:300])
                    break
                if time.monotonic() > end:
                    break
    result.figures.append(f"{done} kills, {len(result.problems)} with lost or torn commits")
    tell(result.figures[-1])
    return result


class Forgetful(failing.FailingFiles):
    """Every write from the Nth on is lost without an error: a planted fault."""

    def _fails(self) -> None:
        self.left -= 1
        self.reached = self.reached or self.left < 0

    def write(self, fd: int, data: bytes | memoryview, offset: int) -> None:
        self._fails()
        if self.left >= 0:
            super().write(fd, data, offset)


def failures(seconds: float, seed: int, tell: Callable[[str], None]) -> Result:
    """Points of failure in a random order until the time is over, and flipped bytes."""
    result = Result()
    end = time.monotonic() + seconds * 0.7
    points = list(range(1, 400))
    random.Random(seed).shuffle(points)
    tried = 0
    with _folder() as folder:
        for nth in points:
            if time.monotonic() > end or len(result.problems) >= MOST:
                break
            reached, problem = failing.fail_at(folder / "failing", nth)
            tried += reached
            result.problems += [f"operation {nth}: {problem}"] if problem else []
        result.figures.append(f"{tried} failing operations on files, {len(result.problems)} with lost or torn commits")
        tell(result.figures[-1])
        flipped, unnoticed = failing.flips(folder / "flips", max(int(2000 / max(seconds, 1)), 3))
        result.figures.append(f"{flipped} bytes flipped in a changelog, {unnoticed} unnoticed")
        if unnoticed:
            result.problems.append(result.figures[-1])
        tell(result.figures[-1])
        result.caught["writes that are lost"] = any(
            failing.fail_at(folder / "forgetful", nth, Forgetful)[1] for nth in (20, 40, 60)
        )
    return result
