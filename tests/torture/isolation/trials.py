"""The trials of isolation: random histories by level, on one node and on a cluster; named anomalies; row locks."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from tests.cluster import ShoalCluster
from tests.oracle import PostgresServer
from tests.server import ShoalServer
from tests.torture.isolation import workload
from tests.torture.isolation.checker import Level, check, forbidden
from tests.torture.isolation.hermitage import SCENARIOS, compare
from tests.torture.isolation.row_locks import conflicts
from tests.torture.isolation.workload import Lie, Site
from tests.torture.trial import Result

BATCH = 2000  # transactions in one history
CONTROL = ("fsync=off", "deadlock_timeout=10ms")
LIES = (
    ("READ COMMITTED as REPEATABLE READ", Lie(level=Level.READ_COMMITTED), Level.REPEATABLE_READ),
    ("REPEATABLE READ as SERIALIZABLE", Lie(level=Level.REPEATABLE_READ), Level.SERIALIZABLE),
    ("ROLLBACK that commits", Lie(commits=True), Level.READ_COMMITTED),
)


def _histories(site: Site, name: str, seconds: float, seed: int, tell: Callable[[str], None], result: Result) -> None:
    """Every level in turns until the time is over."""
    end = time.monotonic() + seconds
    transactions: Counter[Level] = Counter()
    seen: dict[Level, Counter[str]] = {level: Counter() for level in Level}
    wrong: Counter[Level] = Counter()
    while not transactions or time.monotonic() < end:
        for level in Level:
            run = workload.run(site, level, seed, BATCH)
            found = check(run.history, level)
            transactions[level] += len(run.history)
            seen[level].update(anomaly.name for anomaly in found)
            bad = forbidden(found, level)
            wrong[level] += len(bad)
            result.problems += [f"{name}, {level.value}, seed {seed}: {item.name}: {item.what}" for item in bad[:5]]
            result.problems += [f"{name}, {level.value}, seed {seed}: {problem}" for problem in run.problems[:3]]
        seed += 1
        tell(f"{name}: {transactions.total()} transactions, {wrong.total()} forbidden anomalies")
    for level in Level:
        allowed = ", ".join(f"{kind} {count}" for kind, count in sorted(seen[level].items())) or "none"
        result.figures.append(
            f"{name}, {level.value}: {transactions[level]:,} transactions, {wrong[level]} forbidden anomalies "
            f"(components with cycles, allowed ones too: {allowed})"
        )


def histories(seconds: float, seed: int, tell: Callable[[str], None]) -> Result:
    """One node with two tablespaces, and PostgreSQL as the control."""
    result = Result()
    with ShoalServer() as shoal, PostgresServer(CONTROL) as postgres:
        _histories(workload.with_tablespace(Site((shoal.dsn,))), "Shoal", seconds * 0.65, seed, tell, result)
        _histories(Site((postgres.dsn,)), "PostgreSQL", seconds * 0.25, seed, tell, result)
        for name, lie, level in LIES:
            run = workload.run(Site((shoal.dsn,)), level, seed, BATCH, lie=lie)
            result.caught[name] = bool(forbidden(check(run.history, level), level))
    return result


def cluster_histories(seconds: float, seed: int, tell: Callable[[str], None]) -> Result:
    """Three nodes: sessions on the leader and on both followers, whose reads are strong."""
    result = Result()
    with ShoalCluster(3) as cluster:
        sites = tuple(cluster.dsn(name) for name in (cluster.leader(), *cluster.followers()))
        _histories(workload.with_tablespace(Site(sites)), "cluster", seconds, seed, tell, result)
    return result


def named(seconds: float, seed: int, tell: Callable[[str], None]) -> Result:
    """Hermitage's scenarios and the conflict table, once, beside PostgreSQL."""
    result = Result()
    with ShoalServer() as shoal, PostgresServer() as postgres:
        for level in Level:
            prevented = []
            for scenario in SCENARIOS:
                seen, problem = compare(postgres.dsn, shoal.dsn, scenario, level)
                prevented += [] if seen else [scenario.name]
                result.problems += [problem] if problem else []
            result.figures.append(f"{level.value} prevents {', '.join(prevented)}")
            tell(result.figures[-1])
        wanted, got = conflicts(postgres.dsn), conflicts(shoal.dsn)
        wrong = [key for key in wanted if got[key] != wanted[key]]
        result.problems += [f"{held}, then {request}: {got[held, request]}" for held, request in wrong]
        result.figures.append(f"{len(wanted)} pairs of row locks, {len(wrong)} not as in PostgreSQL")
    return result
