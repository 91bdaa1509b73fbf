"""The log's simulation over as many seeds as there is time for, on every processor; and one seed again.

    python -m tests.torture.simulation --seconds 60       what `make torture` tries, and its planted faults
    python -m tests.torture.simulation 4711               one short history again, with what the nodes log
    python -m tests.torture.simulation 4711 --long        one long history again

What a seed contains is said by `Shape` in tests/replication/log/world.py: three nodes with replicas of one tablespace
or two, on a coordination service and a store in memory. A short seed has a few dozen commits and about two faults of
the kinds that it was given, most of them meant for a leader; a long one has hundreds of commits, and twenty faults of
all kinds. Everything is checked in both, all the time. Processes are spawned, not forked, and take seeds by batches.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import gc
import itertools
import logging
import multiprocessing
import os
import pathlib
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pytest

from catalog.errors import SqlError
from tests.replication.log.plants import PLANTS, RARE
from tests.replication.log.world import BrokenError, Shape, short, simulate
from tests.torture.trial import Result

MOST = 5  # problems after which a trial ends
SHORT_BATCH, LONG_BATCH = 40, 4
LONG_SHARE = 0.25  # of the batches' time
SHORT_TRIES, LONG_TRIES = 3000, 60  # seeds that a planted fault has to be noticed in: one of them takes 12 to 550
_MEMORY = pathlib.Path("/dev/shm")


@dataclass(slots=True)
class Tally:
    """`processor` in seconds, of all processes."""

    seeds: int = 0
    acknowledged: int = 0
    faults: int = 0
    epochs: int = 0
    processor: float = 0.0
    problems: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.seeds += other.seeds
        self.acknowledged += other.acknowledged
        self.faults += other.faults
        self.epochs += other.epochs
        self.processor += other.processor
        self.problems += other.problems

    @property
    def per_minute(self) -> float:
        """Seeds in a minute of one processor."""
        return self.seeds / max(self.processor, 0.001) * 60


def _folder() -> tempfile.TemporaryDirectory[str]:
    """For bulk files, the only thing of a simulation that is on a file system: in memory where there is one."""
    return tempfile.TemporaryDirectory(prefix="shoal-simulation-", dir=_MEMORY if _MEMORY.is_dir() else None)


def _quiet() -> None:
    """In each process: faults are logged by the thousand, and histories that are broken off leave coroutines."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore", RuntimeWarning)
    gc.freeze()


def batch(seeds: Iterable[int], long: bool) -> Tally:
    """Plays seeds, each by itself."""
    tally = Tally()
    began = time.process_time()
    with _folder() as folder:
        for seed in seeds:
            try:
                report = simulate(seed, folder, Shape() if long else short(seed))
            except (BrokenError, SqlError, AssertionError) as error:
                command = f"python -m tests.torture.simulation {seed}{' --long' if long else ''}"
                tally.problems.append(f"{command}: {error!r}"[:300])
            else:
                tally.acknowledged += report.acknowledged
                tally.faults += report.faults
                tally.epochs += report.epochs
            tally.seeds += 1
    tally.processor = time.process_time() - began
    return tally


def notice(name: str, first: int, until: float) -> tuple[str, int, bool | None]:
    """A planted fault: (its name, the seeds that it took, whether it was noticed; None if `until`, seconds since 1970,
    came before all tries were made)."""
    plant = next(known for known in PLANTS if known.__name__ == name)
    long = plant in RARE
    tries = LONG_TRIES if long else SHORT_TRIES
    with pytest.MonkeyPatch.context() as patch, _folder() as folder:
        plant(patch)
        for count, seed in enumerate(range(first, first + tries), 1):
            try:
                simulate(seed, folder, Shape() if long else short(seed))
            except (BrokenError, SqlError, AssertionError):
                return name, count, True
            if time.time() > until:
                return name, count, None
    return name, tries, False


def trial(seconds: float, seed: int, tell: Callable[[str], None]) -> Result:
    """Seeds until the time is over, after the planted faults."""
    result = Result()
    end = time.time() + seconds
    with _pool() as pool:
        asked = [pool.submit(notice, plant.__name__, seed, end - seconds * 0.5) for plant in PLANTS]
        told = [future.result() for future in asked]
        result.caught |= {f"{name} ({count} seeds)": bool(found) for name, count, found in told if found is not None}
        unfinished = [name for name, _, found in told if found is None]
        tallies = _play(pool, seed, end)
    result.tried = sum(tally.seeds for tally in tallies.values())
    for kind, tally in tallies.items():
        result.problems += tally.problems
        result.figures.append(
            f"{tally.seeds:,} {kind} seeds with {tally.acknowledged:,} acknowledged commits, {tally.faults:,} faults "
            f"and {tally.epochs:,} terms, {len(tally.problems)} broken promises ({tally.per_minute:,.0f} seeds a "
            "processor minute)"
        )
        tell(result.figures[-1])
    counts = [count for _, count, found in told if found]
    if counts:
        result.figures.append(f"planted faults are noticed within {max(counts)} seeds (median {_median(counts)})")
    if unfinished:
        result.figures.append(f"no time to try {', '.join(unfinished)} to the end")
    result.problems = result.problems[:MOST]
    return result


def _median(counts: list[int]) -> int:
    return sorted(counts)[len(counts) // 2]


def _pool() -> concurrent.futures.ProcessPoolExecutor:
    return concurrent.futures.ProcessPoolExecutor(
        os.cpu_count() or 1, mp_context=multiprocessing.get_context("spawn"), initializer=_quiet
    )


def _play(pool: concurrent.futures.Executor, seed: int, end: float) -> dict[str, Tally]:
    """Batches until the time is over, of which as many are long as LONG_SHARE says."""
    tallies = {"short": Tally(), "long": Tally()}
    following = {"short": itertools.count(seed, SHORT_BATCH), "long": itertools.count(seed, LONG_BATCH)}
    running: dict[concurrent.futures.Future[Tally], str] = {}
    while True:
        while time.time() < end and len(running) < (os.cpu_count() or 1):
            whole = sum(tally.processor for tally in tallies.values())
            kind = "long" if tallies["long"].processor < whole * LONG_SHARE else "short"
            if kind in running.values() and kind == "long":
                kind = "short"
            size = SHORT_BATCH if kind == "short" else LONG_BATCH
            first = next(following[kind])
            running[pool.submit(batch, range(first, first + size), kind == "long")] = kind
        if not running:
            return tallies
        for future in concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED).done:
            tallies[running.pop(future)].add(future.result())
        if any(len(tally.problems) >= MOST for tally in tallies.values()):
            end = 0.0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.torture.simulation", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("seed", type=int, nargs="?", help="one history again")
    parser.add_argument("--long", action="store_true", help="the long history of the seed")
    parser.add_argument("--seconds", type=float, default=60.0, help="without a seed: for how long")
    parser.add_argument("--from", type=int, default=1, dest="first", help="without a seed: the first one")
    options = parser.parse_args()
    if options.seed is None:
        result = trial(options.seconds, options.first, print)
        print(*result.figures, *result.problems, *map(str, result.caught.items()), sep="\n")
        return 0 if result.good else 1
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    shape = Shape() if options.long else short(options.seed)
    print(shape)
    with _folder() as folder:
        print(simulate(options.seed, folder, shape))
    return 0


if __name__ == "__main__":
    sys.exit(main())
