"""The trials of the wire and of security."""

from __future__ import annotations

import time
from collections.abc import Callable

import psycopg

from tests.oracle import PostgresServer
from tests.server import ShoalServer
from tests.torture.planted import FAULTS, PlantedServer
from tests.torture.security import fuzz
from tests.torture.security.escapes import attempt
from tests.torture.trial import Result, to_plant

MOST = 20  # problems after which a trial ends
ALL_FAULTS = 20.0  # seconds from which on all of them are planted, and not one
PATIENCE = 3.0  # seconds, of a planted hang
TRIES = 5000  # connections that may meet a planted fault
TOLD = {"defect": "a defect", "hang": "no end after", "crash": "refused"}


def frames(seconds: float, seed: int, tell: Callable[[str], None]) -> Result:
    """Fuzzed frames until the time is over."""
    result = Result()
    end = time.monotonic() + seconds
    for fault in to_plant(FAULTS, seed, seconds > ALL_FAULTS):
        result.caught[fault] = planted(fault, seed)
    cases = sent = 0
    with ShoalServer() as shoal:
        while (time.monotonic() < end or not cases) and len(result.problems) < MOST:
            case = fuzz.made(seed + cases)
            if problem := fuzz.attempt(shoal.dsn, case):
                result.problems.append(problem)
            cases += 1
            sent += case.frames
            if cases % 100 == 0 and (problem := fuzz.alive(shoal.dsn)):
                result.problems.append(problem)
        if problem := fuzz.alive(shoal.dsn):
            result.problems.append(problem)
        assert shoal.process is not None
        if shoal.process.poll() is not None:
            result.problems.append("the server has ended")
    tell(f"{cases} connections")
    result.figures.append(
        f"{sent:,} fuzzed frames on {cases:,} connections in {len(fuzz.STATES)} states, {len(result.problems)} "
        "crashes, hangs and defects"
    )
    return result


def planted(fault: str, seed: int) -> bool:
    """Whether a server with a fault is found out by the frames that it meets."""
    with PlantedServer("message", fault) as server:
        cases = map(fuzz.made, range(seed, seed + TRIES))
        noticed = any(TOLD[fault] in fuzz.attempt(server.dsn, case, PATIENCE) for case in cases)
        if server.process is not None and server.process.poll() is None:
            server.kill()
    return noticed


def escapes(seconds: float, seed: int, tell: Callable[[str], None]) -> Result:
    """Every attempt, as an ordinary user and as superuser, on both paths; and as PostgreSQL's superuser."""
    result = Result()
    tried = 0
    with ShoalServer() as shoal, PostgresServer() as postgres:
        with psycopg.connect(shoal.dsn, autocommit=True) as connection:
            connection.execute(b"CREATE ROLE ordinary")
        for role in ("ordinary", "postgres"):
            for path in ("auto", "columnar"):
                made, succeeded = attempt(shoal.dsn, role, path)
                tried += made
                result.problems += succeeded
        result.caught["what PostgreSQL lets its superuser do"] = bool(attempt(postgres.dsn, "postgres", "auto")[1])
    tell(f"{tried} attempts")
    result.figures.append(f"{tried} attempts, {len(result.problems)} successes")
    return result
