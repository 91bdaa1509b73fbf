"""The trial of sqlsmith: its statements until the time is over, and servers with faults."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.server import ShoalServer
from tests.torture.planted import FAULTS, PlantedServer
from tests.torture.smith.smith import BATCH, Smith, possible, prepare
from tests.torture.trial import PLANTING, Result, planted_until

MOST = 5  # problems after which a trial ends
ALL_FAULTS = 40.0  # seconds from which on all of them are planted, and not one
PATIENCE = 5.0  # seconds, of the planted hang
TRIES = 20  # statements that may meet a planted fault
TOLD = {"defect": "XX000", "hang": "no answer within", "crash": "the server has ended"}  # of a planted fault


def sqlsmith(seconds: float, seed: int, tell: Callable[[str], None]) -> Result:
    """Batch after batch, each of a seed of its own."""
    result = Result()
    if not possible():
        result.figures.append("not tried: sqlsmith is not installed")
        return result
    end = time.monotonic() + seconds
    for fault in planted_until(end - seconds * (1 - PLANTING), FAULTS, seed, seconds > ALL_FAULTS):
        result.caught[fault] = bool(planted(fault, seed % 1_000_000))
    with ShoalServer() as shoal:
        prepare(shoal.dsn)
        smith = Smith(shoal)
        batch = seed % 1_000_000
        answers = smith.run(batch, BATCH, end)
        while answers and time.monotonic() < end and len(smith.found.problems) < MOST:
            batch += 1
            answers = smith.run(batch, BATCH, end)
        if not answers and shoal.process is not None and shoal.process.poll() is None:
            shoal.kill()
        result.problems += smith.found.problems[:MOST]
        result.tried = smith.found.states.total()
        result.figures.append(smith.found.figures)
    tell(result.figures[-1])
    return result


def planted(fault: str, seed: int) -> list[str]:
    """What is found of a server with a fault."""
    with PlantedServer("statement", fault) as server:
        prepare(server.dsn)
        smith = Smith(server, PATIENCE)
        end = time.monotonic() + 60
        for batch in range(seed, seed + TRIES):  # not every statement gets as far as the fault
            if not smith.run(batch, 1, end) or smith.found.problems:
                break
        if server.process is not None and server.process.poll() is None:
            server.kill()
    return [problem for problem in smith.found.problems if TOLD[fault] in problem]
