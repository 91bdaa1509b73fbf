"""Trials of what has a tool of its own: the log's simulation, generated statements, the cluster under a nemesis."""

from __future__ import annotations

import itertools
import logging
import tempfile
import time
from collections.abc import Callable

import psycopg
import pytest

from catalog.errors import SqlError
from tests.cluster import ShoalCluster
from tests.differential.compare import Side, prepare, run_scenario, runner
from tests.differential.partition import run_partitions
from tests.differential.sides import partition_sides, run_seeds
from tests.differential.test_differential import planted
from tests.oracle import PostgresServer
from tests.replication.log import test_simulation
from tests.replication.log.world import BrokenError, simulate
from tests.server import ShoalServer
from tests.torture.cluster import HOOKS, LIMITS, Run
from tests.torture.history import Outcome
from tests.torture.trial import Result

MOST = 5  # problems after which a trial ends
VIRTUAL_SECONDS = 12.0
PLANTS = (
    test_simulation.no_epoch_check,
    test_simulation.acknowledges_what_is_stored,
    test_simulation.takes_no_answer_for_failure,
    test_simulation.serves_for_ever,
    test_simulation.keeps_what_was_not_committed,
)


def simulation(seconds: float, seed: int, tell: Callable[[str], None]) -> Result:
    """Seeds until the time is over, and the planted faults, each over as many seeds as it takes."""
    result = Result()
    logging.disable(logging.CRITICAL)
    began, processor = time.monotonic(), time.process_time()
    done = acknowledged = 0
    try:
        with tempfile.TemporaryDirectory(prefix="shoal-simulation-") as folder:
            while (time.monotonic() < began + seconds * 0.7 or not done) and len(result.problems) < MOST:
                try:
                    acknowledged += simulate(seed + done, folder, VIRTUAL_SECONDS).acknowledged
                except (BrokenError, SqlError, AssertionError) as error:
                    result.problems.append(f"seed {seed + done}: {error!r}"[:300])
                done += 1
            rate = done / (time.process_time() - processor) * 60
            result.figures.append(
                f"{done} seeds of {VIRTUAL_SECONDS:.0f} virtual seconds, {acknowledged:,} acknowledged commits, "
                f"{len(result.problems)} broken promises; {rate:.0f} seeds a processor minute"
            )
            tell(result.figures[-1])
            for plant in PLANTS:
                result.caught[plant.__name__] = _notices(plant, folder)
    finally:
        logging.disable(logging.NOTSET)
    return result


def _notices(plant: Callable[[pytest.MonkeyPatch], None], folder: str) -> bool:
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        for seed in test_simulation.PLANTED_SEEDS:
            try:
                simulate(seed, folder, VIRTUAL_SECONDS)
            except (BrokenError, SqlError):
                return True
    return False


def differential(seconds: float, seed: int, tell: Callable[[str], None]) -> Result:
    """Generated statements on both paths and on PostgreSQL."""
    result = Result()
    with ShoalServer() as shoal, PostgresServer() as postgres:
        connections = [psycopg.connect(dsn, autocommit=True) for dsn in (postgres.dsn, shoal.dsn, shoal.dsn)]
        tally = run_seeds(seed % 1_000_000, seconds * 0.5, *connections)
        result.problems += [failure.replace("\n", " ") for failure in tally.failures[:MOST]]
        result.figures.append(
            f"{tally.statements:,} statements, {tally.compared:,} answers compared, {len(tally.failures)} mismatches, "
            f"{tally.refused.total()} refused (0A000)"
        )
        tell(result.figures[-1])
        found = run_partitions(seed % 1_000_000, seconds * 0.3, lambda: partition_sides(*connections[1:]))
        result.problems += [failure.replace("\n", " ") for failure in found.failures[:MOST]]
        result.figures.append(
            f"TLP and NoREC: {found.queries:,} queries, {found.checked:,} comparisons, {len(found.failures)} mismatches"
        )
        tell(result.figures[-1])
        for old, new in ((" < ", " <= "), ("LEFT JOIN", "JOIN"), ("count(DISTINCT ", "count(")):
            result.caught[f"{old.strip()} as {new.strip()}"] = _differs(postgres.dsn, old, new)
        for connection in connections:
            connection.close()
    return result


def _differs(dsn: str, old: str, new: str) -> bool:
    with psycopg.connect(dsn, autocommit=True) as first, psycopg.connect(dsn, autocommit=True) as second:
        oracle, faulty = Side("PostgreSQL", runner(first)), Side("faulty", planted(runner(second), old, new))
        for seed in itertools.islice(itertools.count(1), 200):
            prepare(oracle.run, "planted_oracle")
            prepare(faulty.run, "planted_faulty")
            if run_scenario(seed, oracle, [faulty]).failures:
                return True
    return False


def cluster(seconds: float, seed: int, tell: Callable[[str], None]) -> Result:
    """Three nodes under load and a nemesis; then everything is compared."""
    with ShoalCluster(3, zookeepers=3, store="quorum", limits=LIMITS, hooks=HOOKS) as nodes:
        run = Run(nodes, seed)
        found = run.run(seconds)
        for line in run.figures():
            tell(line)
        nemesis, counts = run.nemesis, run.load.history.counts()
        figures = [
            f"{sum(counts.values()):,} transactions, {counts[Outcome.ACKNOWLEDGED.value]:,} acknowledged; "
            f"{nemesis.kills} kills, {sum(nemesis.done.values())} actions, {run.epochs} epochs; {len(found)} problems",
            *[line for line in run.figures() if line.startswith("fail-over")],
        ]
        if found:
            nodes.keep = True
        return Result(figures, found[:MOST])
