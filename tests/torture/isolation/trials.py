"""The trials of isolation: random histories by level, on one node and on a cluster; named anomalies; row locks;
sessions that meet."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable

import psycopg

from tests.cluster import ShoalCluster
from tests.oracle import PostgresServer
from tests.server import ShoalServer
from tests.torture.isolation import workload
from tests.torture.isolation.checker import Level, check, forbidden
from tests.torture.isolation.hermitage import SCENARIOS, compare
from tests.torture.isolation.meetings import FAULTS, MOST, Place, noticed, planted, run_meetings
from tests.torture.isolation.row_locks import conflicts
from tests.torture.isolation.workload import Lie, Site
from tests.torture.trial import PLANTING, Result, planted_until

LONGEST, FIRST, FEWEST = 2000, 150, 50  # transactions in one history: at most, in the first one, at the fewest
LIE = 400  # transactions of a history with a planted fault
CLOSING = 2.0  # seconds that a cluster takes to stop
LIES_TRIED = 8  # histories after which a lie goes unnoticed
CONTROL = ("fsync=off", "deadlock_timeout=10ms")
LIES = (
    ("READ COMMITTED as REPEATABLE READ", Lie(level=Level.READ_COMMITTED), Level.REPEATABLE_READ),
    ("REPEATABLE READ as SERIALIZABLE", Lie(level=Level.REPEATABLE_READ), Level.SERIALIZABLE),
    ("ROLLBACK that commits", Lie(commits=True), Level.READ_COMMITTED),
)
LATE = Lie(consistency="eventual")  # of a cluster
WEAKER = {  # a level, and the one that a planted fault asks for in its place
    Level.REPEATABLE_READ: Level.READ_COMMITTED,
    Level.SERIALIZABLE: Level.REPEATABLE_READ,
}


def _histories(site: Site, name: str, end: float, seed: int, tell: Callable[[str], None], result: Result) -> None:
    """Every level in turns until the time `end`, of time.monotonic; each once whatever the time. Histories are as long
    as the time that is left for them lets them be."""
    transactions: Counter[Level] = Counter()
    seen: dict[Level, Counter[str]] = {level: Counter() for level in Level}
    wrong: Counter[Level] = Counter()
    batch = FIRST
    while not transactions or (time.monotonic() < end and batch >= FEWEST):
        began = time.monotonic()
        for level in Level:
            run = workload.run(site, level, seed, batch)
            found = check(run.history, level)
            transactions[level] += len(run.history)
            seen[level].update(anomaly.name for anomaly in found)
            bad = forbidden(found, level)
            wrong[level] += len(bad)
            result.problems += [f"{name}, {level.value}, seed {seed}: {item.name}: {item.what}" for item in bad[:5]]
            result.problems += [f"{name}, {level.value}, seed {seed}: {problem}" for problem in run.problems[:3]]
        seed += 1
        tell(f"{name}: {transactions.total()} transactions, {wrong.total()} forbidden anomalies")
        now = time.monotonic()
        batch = min(int(batch * (end - now) / max(now - began, 0.1)), LONGEST)
    result.tried = (result.tried or 0) + transactions.total()
    for level in Level:
        allowed = ", ".join(f"{kind} {count}" for kind, count in sorted(seen[level].items())) or "none"
        result.figures.append(
            f"{name}, {level.value}: {transactions[level]:,} transactions, {wrong[level]} forbidden anomalies "
            f"(components with cycles, allowed ones too: {allowed})"
        )


def histories(seconds: float, seed: int, tell: Callable[[str], None]) -> Result:
    """One node with two tablespaces, and PostgreSQL as the control."""
    result = Result()
    began = time.monotonic()
    with ShoalServer() as shoal, PostgresServer(CONTROL) as postgres:
        for number, (name, lie, level) in enumerate(LIES, 1):
            caught = _noticed(Site((shoal.dsn,)), lie, level, seed, began + seconds * 0.1 * number)
            if caught is None:
                result.figures.append(f"no time to try {name} to the end")
            else:
                result.caught[name] = caught
        tell(f"{sum(result.caught.values())} of {len(LIES)} planted faults are caught")
        shoal_end = time.monotonic() + (began + seconds - time.monotonic()) * 0.7
        _histories(workload.with_tablespace(Site((shoal.dsn,))), "Shoal", shoal_end, seed, tell, result)
        _histories(Site((postgres.dsn,)), "PostgreSQL", began + seconds, seed, tell, result)
    return result


def _noticed(site: Site, lie: Lie, level: Level, seed: int, end: float) -> bool | None:
    """Whether a lie is noticed; None if the time `end` came before all tries were made."""
    for attempt in range(LIES_TRIED):
        run = workload.run(site, level, seed + attempt, LIE, lie=lie)
        if forbidden(check(run.history, level), level):
            return True
        if time.monotonic() > end:
            return None
    return False


def cluster_histories(seconds: float, seed: int, tell: Callable[[str], None]) -> Result:
    """Three nodes: sessions on the leader and on both followers, whose reads are strong."""
    result = Result()
    end = time.monotonic() + seconds
    with ShoalCluster(3) as cluster:
        site = workload.with_tablespace(
            Site(tuple(cluster.dsn(name) for name in (cluster.leader(), *cluster.followers())))
        )
        caught = _noticed(site, LATE, Level.READ_COMMITTED, seed, end - seconds * 0.7)
        if caught is None:
            result.figures.append("no time to try late reads of followers to the end")
        else:
            result.caught["late reads of followers"] = caught
        _histories(site, "cluster", end - CLOSING, seed, tell, result)
    return result


def key_share_for_share(take: str) -> str:
    """A planted fault: a weaker lock than the one that was asked for."""
    return take.replace(" FOR SHARE", " FOR KEY SHARE")


def named(seconds: float, seed: int, tell: Callable[[str], None]) -> Result:
    """Hermitage's scenarios and the conflict table, beside PostgreSQL: all of them once, in a random order, or those
    that there is time for."""
    result = Result()
    end = time.monotonic() + seconds
    prevented: dict[Level, list[str]] = {level: [] for level in Level}
    untried: dict[Level, list[str]] = {level: [] for level in Level}
    cases = [(level, scenario) for level in Level for scenario in SCENARIOS]
    chance = random.Random(seed)
    with ShoalServer() as shoal, PostgresServer() as postgres:
        wanted, got = conflicts(postgres.dsn), conflicts(shoal.dsn)
        for level, weaker in WEAKER.items():
            if result.caught and time.monotonic() > end:
                break
            told = chance.choice([scenario for scenario in SCENARIOS if scenario.prevented_from is level])
            result.caught[f"{told.name} at {level.value} run at {weaker.value}"] = bool(
                compare(postgres.dsn, shoal.dsn, told, level, weaker)[1]
            )
        if time.monotonic() < end:
            result.caught["FOR SHARE that takes KEY SHARE"] = conflicts(shoal.dsn, key_share_for_share) != wanted
        for level, scenario in chance.sample(cases, len(cases)):
            if time.monotonic() > end:
                untried[level].append(scenario.name)
                continue
            seen, problem = compare(postgres.dsn, shoal.dsn, scenario, level)
            prevented[level] += [] if seen else [scenario.name]
            result.problems += [problem] if problem else []
    names = [scenario.name for scenario in SCENARIOS]
    for level in Level:
        told = f"{level.value} prevents {', '.join(sorted(prevented[level], key=names.index))}"
        left = f" (no time for {', '.join(sorted(untried[level], key=names.index))})" if untried[level] else ""
        result.figures.append(told + left)
        tell(result.figures[-1])
    result.tried = len(wanted)
    wrong = [key for key in wanted if got[key] != wanted[key]]
    result.problems += [f"{held}, then {request}: {got[held, request]}" for held, request in wrong]
    result.figures.append(f"{len(wanted)} pairs of row locks, {len(wrong)} not as in PostgreSQL")
    return result


def meetings(seconds: float, seed: int, tell: Callable[[str], None]) -> Result:
    """Generated scripts of sessions that get in each other's way, beside PostgreSQL."""
    result = Result()
    end = time.monotonic() + seconds
    with ShoalServer() as shoal, PostgresServer() as postgres:
        theirs, ours = Place(postgres.dsn), Place(shoal.dsn)
        with psycopg.connect(postgres.dsn, autocommit=True) as connection:
            connection.execute("CREATE DATABASE faulty")
        database = postgres.dsn.replace("dbname=postgres", "dbname=faulty")
        for name in planted_until(end - seconds * (1 - PLANTING), FAULTS, seed, everything=True):
            faulty = Place(database, planted(FAULTS[name]))
            caught = noticed(FAULTS[name], theirs, faulty, end - seconds * (1 - PLANTING))
            faulty.close()
            if caught is None:
                result.figures.append(f"no time to try {name} to the end")
            else:
                result.caught[name] = caught
        tell(f"{sum(result.caught.values())} of {len(result.caught)} planted faults are caught")
        tally = run_meetings(seed % 1_000_000, end - time.monotonic(), theirs, ours)
        result.problems += [failure.replace("\n", " ") for failure in tally.failures[:MOST]]
        result.tried = tally.scenarios
        cut = ", ".join(f"{count} of {why}" for why, count in sorted(tally.cut.items()))
        result.figures.append(
            f"{tally.scenarios:,} scenarios, {tally.steps:,} steps, {tally.waits:,} waits, "
            f"{len(tally.failures)} differences; not compared to the end: {cut or 'none'}"
        )
        tell(result.figures[-1])
        theirs.close()
        ours.close()
    return result
