"""The trials of the wire and of security."""

from __future__ import annotations

import contextlib
import itertools
import random
import time
from collections.abc import Callable

import psycopg

from tests.oracle import PostgresServer
from tests.rights import matrix
from tests.rights.cases import ACTORS
from tests.rights.planted import RIGHTS
from tests.server import ShoalServer
from tests.torture.planted import FAULTS, UNASKED, PlantedServer
from tests.torture.security import fuzz, leaks
from tests.torture.security.escapes import attempt
from tests.torture.trial import PLANTING, Result, planted_until

MOST = 20  # problems after which a trial ends
ALL_FAULTS = 20.0  # seconds from which on all of them are planted, and not one
PATIENCE = 3.0  # seconds, of a planted hang
TRIES = 5000  # connections that may meet a planted fault
TOLD = {"defect": "a defect", "hang": "no end after", "crash": "refused"}


def frames(seconds: float, seed: int, tell: Callable[[str], None]) -> Result:
    """Fuzzed frames until the time is over."""
    result = Result()
    end = time.monotonic() + seconds
    for fault in planted_until(end - seconds * (1 - PLANTING), FAULTS, seed, seconds > ALL_FAULTS):
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
    result.tried = sent
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


def rights(seconds: float, seed: int, tell: Callable[[str], None]) -> Result:
    """The authorisation matrix, once, or as much of it as there is time for; and faults, each of which makes cells
    differ."""
    result = Result()
    began = time.monotonic()
    with PostgresServer() as postgres:
        theirs = matrix.outcomes(postgres, "postgres", seed=seed, until=began + seconds * 0.25)
    whole = time.monotonic() < began + seconds * 0.25
    for fault in planted_until(began + seconds * PLANTING, RIGHTS, seed, seconds > ALL_FAULTS):
        result.caught[fault] = differing(fault, theirs, seed)
    with ShoalServer() as shoal:
        ours = matrix.outcomes(shoal, "shoal", seed=seed, until=began + seconds)
        whole = whole and time.monotonic() < began + seconds
    found = matrix.compared({cell: state for cell, state in ours.items() if cell in theirs}, theirs, matrix.DIFFERENCES)
    result.problems += found.wrong[:MOST]
    if whole:
        result.problems += [f"no difference any more: {item}" for item in found.unused]
    result.tried = found.cells
    tell(f"{found.cells} cells")
    result.figures.append(
        f"{found.cells:,} cells of {len(ACTORS)} actors, {len(found.wrong)} that differ, {len(matrix.DIFFERENCES)} "
        "differences that are meant"
    )
    return result


def differing(fault: str, theirs: dict[matrix.Cell, str], seed: int) -> bool:
    """Whether a server with a fault answers one of these cells otherwise than PostgreSQL."""
    with (
        PlantedServer("matrix", fault) as server,
        contextlib.closing(matrix.each(server, "shoal", lambda case: "bare" not in case.statement, seed)) as cells,
    ):
        return any(
            matrix.compared({cell: state}, theirs, matrix.DIFFERENCES).wrong for cell, state in cells if cell in theirs
        )


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
    result.tried = tried
    tell(f"{tried} attempts")
    result.figures.append(f"{tried} attempts, {len(result.problems)} successes")
    return result


def secrets(seconds: float, seed: int, tell: Callable[[str], None]) -> Result:
    """Functions whose bodies read what their callers may not, in every place that runs them, on both paths: of each
    function on each path what its part of the time allows, in an order of the seed."""
    result = Result()
    end = time.monotonic() + seconds
    every = list(itertools.product(leaks.USERS, leaks.statements()))
    ways = list(itertools.product(("auto", "columnar"), leaks.FUNCTIONS))
    total = leaks.Found()
    with PostgresServer() as postgres:
        for fault in planted_until(end - seconds * (1 - PLANTING), UNASKED, seed, seconds > ALL_FAULTS):
            result.caught[f"rights of {fault} are not asked for"] = leaking(fault, postgres.dsn)
        with ShoalServer() as shoal:
            for number, (path, function) in enumerate(ways):
                now = time.monotonic()
                part = max(end - now, 0.0) / (len(ways) - number)
                chosen = random.Random(f"{seed} {number}").sample(every, len(every))
                with leaks.open_world(shoal.dsn, path) as connection:
                    total.add(leaks.compared(connection, postgres.dsn, function, chosen, now + part))
    result.problems += total.problems
    result.tried = total.tried
    tell(f"{total.tried} attempts")
    told = sum("the secret is told" in problem for problem in result.problems)
    result.figures.append(
        f"{total.tried:,} attempts, {told} secrets told, {len(result.problems) - told} other answers than "
        f"PostgreSQL's; {total.refused:,} were refused earlier"
    )
    return result


def leaking(fault: str, oracle: str) -> bool:
    """Whether a server that asks for fewer rights is found out."""
    function = "no right to call" if fault == "execute" else "a body that reads"
    chosen = [("carol", "SELECT h('q')"), ("bob", "INSERT INTO made (a) VALUES (7)")]
    if fault == "refresh":
        chosen = [("postgres", "REFRESH MATERIALIZED VIEW kept")]
    with PlantedServer("rights", fault) as server, leaks.open_world(server.dsn) as connection:
        return bool(leaks.compared(connection, oracle, function, chosen).problems)
