"""The trial of the crowd: how much slower point reads get beside each load, and beside a server that is held up."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

from tests.torture.crowd.crowd import Crowd, Window, crowd
from tests.torture.trial import Result

SIZES = {"slow reader": 2 << 30, "COPY": 1 << 30, "IN list": 100_000, "analytic query": 0}
SLOWER = 5.0  # times the quiet p99: more is wrong
MEMORY = 1000.0  # MB that the engine's process may grow by beside all loads
HELD = 0.2  # seconds of the planted fault, out of twice as many


def load(seconds: float, seed: int, tell: Callable[[str], None]) -> Result:
    """Quiet, each load, all of them, the planted fault, quiet again."""
    result = Result()
    each = max(seconds / (len(SIZES) + 4), 3.0)
    with crowd() as people:
        people.run("warm", {}, 2.0)
        before = people.run("quiet", {}, each)
        windows = [people.run(name, {name: size}, each) for name, size in SIZES.items()]
        windows.append(people.run("all", SIZES, each))
        held = held_up(people, each)
        after = people.run("quiet", {}, each)
    quiet = max(before.figures["p99"], after.figures["p99"])
    result.figures.append(f"beside 500 idle connections, 200 read: p99 {quiet:.1f} ms when it is quiet")
    for window in windows:
        times = window.figures["p99"] / quiet
        result.figures.append(f"{window.name}: {window.figures['p99']:.1f} ms ({times:.1f}x)")
        tell(f"{result.figures[-1]}; {window.memory:.0f} MB; {'; '.join(window.said)}")
        result.problems += judged(window, quiet, before.memory)
    result.caught["a server that stands still half the time"] = bool(judged(held, quiet, before.memory))
    return result


def judged(window: Window, quiet: float, memory: float) -> list[str]:
    """What is wrong with a window. `quiet`: milliseconds, `memory`: MB, both without loads."""
    found = [said for said in window.said if said.startswith("WRONG")]
    if window.figures["p99"] > SLOWER * quiet:
        found.append(f"{window.name}: p99 {window.figures['p99']:.1f} ms, more than {SLOWER:.0f} x {quiet:.1f}")
    if window.memory > memory + MEMORY:
        found.append(f"{window.name}: the server grew from {memory:.0f} to {window.memory:.0f} MB")
    return found


def held_up(people: Crowd, seconds: float) -> Window:
    """The planted fault: the server is stopped again and again."""
    over = threading.Event()

    def hold() -> None:
        while not over.wait(HELD):
            os.kill(people.server.pid, signal.SIGSTOP)
            over.wait(HELD)
            os.kill(people.server.pid, signal.SIGCONT)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        return people.run("planted", {}, seconds)
    finally:
        over.set()
        thread.join()
