"""Trials of what has a tool of its own: generated statements, the cluster under a nemesis."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from functools import partial

import psycopg

from tests.cluster import ShoalCluster
from tests.differential.compare import Side, prepare, run_scenario, runner
from tests.differential.families import run_families
from tests.differential.partition import run_partitions
from tests.differential.planted_families import FAULTS as FAMILY_FAULTS
from tests.differential.planted_families import noticed
from tests.differential.sides import partition_sides, run_seeds
from tests.differential.test_differential import planted
from tests.oracle import PostgresServer
from tests.server import ShoalServer
from tests.torture.cluster import HOOKS, LIMITS, SETTINGS, Run
from tests.torture.faults import FAULTS
from tests.torture.history import Outcome
from tests.torture.trial import PLANTING, Result, planted_until, to_plant

COMPARING = 15.0  # seconds that the last action and the comparison take; longer after more load
TRIES = 200  # scenarios after which a planted fault goes unnoticed
MOST = 5  # problems after which a trial ends
ALL_FAULTS = 120.0  # seconds from which on all of them are planted, and not one


def differential(seconds: float, seed: int, tell: Callable[[str], None]) -> Result:
    """Generated statements on both paths and on PostgreSQL."""
    result = Result()
    end = time.monotonic() + seconds
    with ShoalServer() as shoal, PostgresServer() as postgres:
        connections = [psycopg.connect(dsn, autocommit=True) for dsn in (postgres.dsn, shoal.dsn, shoal.dsn)]
        for old, new in ((" < ", " <= "), ("LEFT JOIN", "JOIN"), ("count(DISTINCT ", "count(")):
            name, caught = f"{old.strip()} as {new.strip()}", _differs(postgres.dsn, old, new, end - seconds * 0.6)
            if caught is None:
                result.figures.append(f"no time to try {name} to the end")
            else:
                result.caught[name] = caught
        tally = run_seeds(seed % 1_000_000, (end - time.monotonic()) * 0.6, *connections)
        result.problems += [failure.replace("\n", " ") for failure in tally.failures[:MOST]]
        result.figures.append(
            f"{tally.statements:,} statements, {tally.compared:,} answers compared, {len(tally.failures)} mismatches, "
            f"{tally.refused.total()} refused (0A000)"
        )
        tell(result.figures[-1])
        result.tried = tally.compared
        found = run_partitions(seed % 1_000_000, end - time.monotonic(), lambda: partition_sides(*connections[1:]))
        result.problems += [failure.replace("\n", " ") for failure in found.failures[:MOST]]
        result.figures.append(
            f"TLP and NoREC: {found.queries:,} queries, {found.checked:,} comparisons, {len(found.failures)} mismatches"
        )
        tell(result.figures[-1])
        for connection in connections:
            connection.close()
    return result


def _differs(dsn: str, old: str, new: str, end: float) -> bool | None:
    """Whether a planted fault is noticed; None if the time `end` came before all tries were made."""
    with psycopg.connect(dsn, autocommit=True) as first, psycopg.connect(dsn, autocommit=True) as second:
        oracle, faulty = Side("PostgreSQL", runner(first)), Side("faulty", planted(runner(second), old, new))
        for seed in range(1, TRIES + 1):
            prepare(oracle.run, "planted_oracle")
            prepare(faulty.run, "planted_faulty")
            if run_scenario(seed, oracle, [faulty]).failures:
                return True
            if time.monotonic() > end:
                return None
    return False


def families(seconds: float, seed: int, tell: Callable[[str], None]) -> Result:
    """Partitioned and inherited tables beside another connection's open transactions, on PostgreSQL too."""
    result = Result()
    end = time.monotonic() + seconds
    with ShoalServer() as shoal, PostgresServer() as postgres, contextlib.ExitStack() as stack:
        connect = partial(psycopg.connect, autocommit=True)
        with connect(postgres.dsn) as connection:
            connection.execute("CREATE DATABASE faulty")
        faulty = postgres.dsn.replace("dbname=postgres", "dbname=faulty")
        theirs, ours, others = (
            (stack.enter_context(connect(dsn)), stack.enter_context(connect(dsn)))
            for dsn in (postgres.dsn, shoal.dsn, faulty)
        )
        for name in to_plant(FAMILY_FAULTS, seed, seconds > ALL_FAULTS):
            caught = noticed(FAMILY_FAULTS[name], theirs, others, end - seconds * 0.4)
            if caught is None:
                result.figures.append(f"no time to try {name} to the end")
            else:
                result.caught[name] = caught
        tally = run_families(seed % 1_000_000, end - time.monotonic(), theirs, ours)
        result.problems += [failure.replace("\n", " ") for failure in tally.failures[:MOST]]
        result.figures.append(
            f"{tally.statements:,} statements of two connections, {tally.compared:,} answers compared, "
            f"{len(tally.failures)} differences (indexes compared with their rows after each family), "
            f"{tally.refused.total()} refused (0A000)"
        )
        result.tried = tally.compared
        tell(result.figures[-1])
    return result


def cluster(seconds: float, seed: int, tell: Callable[[str], None]) -> Result:
    """Three nodes under load and a nemesis; then everything is compared."""
    end = time.monotonic() + seconds
    chosen = planted_until(end - seconds * (1 - PLANTING), FAULTS, seed, seconds > ALL_FAULTS)
    caught = {FAULTS[fault].what: cluster_notices(fault, seed) for fault in chosen}
    with ShoalCluster(3, zookeepers=3, store="quorum", settings=SETTINGS, limits=LIMITS, hooks=HOOKS) as nodes:
        run = Run(nodes, seed)
        found = run.run(end - time.monotonic() - max(COMPARING, seconds * 0.2))
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
        return Result(figures, found[:MOST], caught, sum(counts.values()))


def cluster_notices(fault: str, seed: int) -> bool:
    """Whether a fault of all nodes is noticed, under what brings it to light soonest."""
    hooks = [*HOOKS, f"tests.torture.faults.{fault}"]
    with ShoalCluster(3, settings=SETTINGS, limits=LIMITS, hooks=hooks) as nodes:
        run = Run(nodes, seed, only=FAULTS[fault].shown_by)
        run.strain(FAULTS[fault].seconds)
        if run.load.history.problems:  # what it has broken need not be looked at
            run.load.stop(0.0)
            return True
        return bool(run.judge())
