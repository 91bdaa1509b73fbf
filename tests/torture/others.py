"""Trials of what has a tool of its own: generated statements, the cluster under a nemesis."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import psycopg

from tests.cluster import ShoalCluster
from tests.differential.compare import Side, prepare, run_scenario, runner
from tests.differential.partition import run_partitions
from tests.differential.sides import partition_sides, run_seeds
from tests.differential.test_differential import planted
from tests.oracle import PostgresServer
from tests.server import ShoalServer
from tests.torture.cluster import HOOKS, LIMITS, Run
from tests.torture.history import Outcome
from tests.torture.trial import Result

MOST = 5  # problems after which a trial ends


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
