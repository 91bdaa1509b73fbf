"""The trials of durability: power cuts, kills, a full disk, failing operations, flipped bytes."""

from __future__ import annotations

import math
import os
import pathlib
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.engine.storage.test_crash import check, run_and_kill
from tests.torture.durability import flips, operations, power
from tests.torture.trial import Result

_MEMORY = "/dev/shm"
MOST = 5  # problems after which a trial ends
PLANTED_KILLS = 5  # after which a planted fault goes unnoticed


@contextmanager
def _folder(place: str | None = None) -> Iterator[pathlib.Path]:
    folder = pathlib.Path(tempfile.mkdtemp(prefix="shoal-torture-", dir=place))
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
    end = time.monotonic() + seconds
    if operations.possible():
        found = operations.cut_all(seconds * 0.5, seed)
        result.problems += found.problems[:MOST]
        result.figures.append(
            f"{found.points.total()} power cuts before one of {sum(found.all_points.values()):,} operations of "
            f"{len(found.all_points)} works, {len(found.problems)} with lost or torn commits"
        )
        tell(result.figures[-1])
    acknowledged, problem = power.full_disk()
    result.problems += [problem] if problem else []
    result.figures.append(f"a full disk after {acknowledged:,} commits: {problem or 'none lost, none torn'}")
    tell(result.figures[-1])
    result.caught["no syncs"] = any(power.cuts(seconds * 0.2, seed, most=8, plant="unsynced"))
    made = [problem for problem in power.cuts(end - time.monotonic(), seed)]
    result.tried = len(made)
    wrong = [problem for problem in made if problem]
    result.problems += wrong[:MOST]
    result.figures.append(f"{len(made)} at random moments under load, {len(wrong)} with lost or torn commits")
    tell(result.figures[-1])
    return result


def kills(seconds: float, seed: int, tell: Callable[[str], None]) -> Result:
    """SIGKILL at random moments of commits and flushes."""
    result = Result()
    end = time.monotonic() + seconds
    chance = random.Random(seed)
    done = 0
    with _folder() as folder:
        result.caught["commits that are told before they are written"] = bool(
            list(killed(folder, chance, most=PLANTED_KILLS, plant="early"))[-1]
        )
    while (time.monotonic() < end or not done) and not result.problems:
        with _folder() as folder:
            for problem in killed(folder, chance, end):
                done += 1
                result.problems += [f"kill {done} {problem}"[:300]] if problem else []
    result.tried = done
    result.figures.append(f"{done} kills, {len(result.problems)} with lost or torn commits")
    tell(result.figures[-1])
    return result


def killed(
    folder: pathlib.Path, chance: random.Random, end: float = math.inf, most: int = 20, plant: str = ""
) -> Iterator[str]:
    """One process after the other on the same files, until the time `end`, of time.monotonic, or the first loss: for
    each kill what is wrong, '' if nothing."""
    last = 0
    for _ in range(most):
        acknowledged = run_and_kill(folder, chance.uniform(0.0, 0.3), *filter(None, [plant]))
        try:
            last = check(folder, max(acknowledged, last))
        except Exception as error:
            yield f"after {acknowledged}: {error!r}"
            return
        yield ""
        if time.monotonic() > end:
            return


def failures(seconds: float, seed: int, tell: Callable[[str], None]) -> Result:
    """Operations on files fail, or are the last ones of their process: points in a random order."""
    result = Result()
    if not operations.possible():
        result.figures.append("not tried: that needs Linux and a C compiler")
        return result
    began = time.monotonic()
    planted = operations.meet_all(seconds, seed, only="a bulk run", points=12, plant="early")
    result.caught["commits that are told too early"] = bool(planted.problems)
    found = operations.meet_all(max(began + seconds - time.monotonic(), 1.0), seed)
    result.problems += found.problems[:MOST]
    result.tried = found.points.total()
    tried, all_of_them = found.points.total(), sum(found.all_points.values())
    result.figures.append(
        f"{tried:,} of {all_of_them * len(operations.ACTIONS):,} points: each of {all_of_them:,} operations of "
        f"{len(found.all_points)} works, in {len(operations.ACTIONS)} ways; {len(found.problems)} with lost or torn "
        "commits, unclear ends or hangs"
    )
    tell(result.figures[-1])
    return result


def flipped(seconds: float, seed: int, tell: Callable[[str], None]) -> Result:
    """Bytes in a random order, at least one of each file."""
    result = Result()
    with _folder(_MEMORY if os.path.isdir(_MEMORY) else None) as folder:
        planted = flips.flip(flips.Believing, folder / "planted", 5.0, seed, most=300)
        result.caught["checksums of entries that nobody compares"] = bool(planted.unnoticed)
        end, left = time.monotonic() + seconds - 1.0, len(flips.TARGETS)
        for kind in flips.TARGETS:
            found = flips.flip(kind, folder / kind.name, (end - time.monotonic()) / left, seed)
            left -= 1
            result.tried = (result.tried or 0) + found.tried
            result.figures.append(
                f"{kind.name}: {found.tried:,} of {found.bytes:,} bytes flipped, {len(found.unnoticed)} unnoticed"
            )
            result.problems += [f"{kind.name}: {text}" for text in found.unnoticed[:MOST]]
            tell(result.figures[-1])
    return result
