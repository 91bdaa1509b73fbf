"""The trial of the crowd: how much slower point reads get beside each load, and beside a server that is held up.

PostgreSQL's figures tell what the machine is good for: they are shown, and judge nothing.
"""

from __future__ import annotations

import os
import signal
import statistics
import threading
from collections.abc import Callable

from tests.torture.crowd.crowd import Crowd, CrowdPostgres, Window, crowd
from tests.torture.trial import Result

SIZES = {"slow reader": 2 << 30, "COPY": 1 << 30, "IN list": 100_000, "analytic query": 0}
SLOWER = 5.0  # times the quiet p99: more is wrong
UNSTEADY = 3.0  # times the quieter of two quiet windows: the other one tells nothing
MEMORY = 1000.0  # MB of its own that the engine's process may grow by beside all loads
HELD = 0.2  # seconds of the planted fault, out of twice as many


def load(seconds: float, seed: int, tell: Callable[[str], None]) -> Result:
    """Quiet, each load, all of them, quiet again, in turns with PostgreSQL; the planted fault."""
    result = Result()
    loads = {"quiet": {}, **{name: {name: size} for name, size in SIZES.items()}, "all": SIZES, "quiet again": {}}
    each = max(seconds / (2 * len(loads) + 2), 3.0)
    windows: list[Window] = []
    control: list[Window] = []
    with crowd() as people, crowd(server=CrowdPostgres) as others:
        people.run("warm", {}, 2.0)
        for name, sizes in loads.items():
            people.rest()
            control.append(others.run(name, sizes, each))
            others.rest()
            windows.append(people.run(name, sizes, each))
        calm = [windows[0].figures["p99"], windows[-1].figures["p99"]]
        if max(calm) > UNSTEADY * min(calm):  # something else was busy during one of them
            people.rest()
            calm.append(people.run("quiet, once more", {}, each).figures["p99"])
        quiet = max(calm) if len(calm) == 2 else statistics.median(calm)
        repeated = {}
        for window in windows[1:-1]:
            if is_slow(window, quiet):  # the machine may have been busy: a server that is slow is slow again
                people.rest()
                repeated[window.name] = people.run(f"{window.name}, once more", loads[window.name], each)
        held = held_up(people, each)
    before = windows[0]
    control_quiet = max(control[0].figures["p99"], control[-1].figures["p99"])
    result.figures.append(
        f"beside 500 idle connections, 200 read: p99 {quiet:.1f} ms when it is quiet (PostgreSQL {control_quiet:.1f})"
    )
    for window, other in list(zip(windows, control, strict=True))[1:-1]:
        p99, others_p99 = window.figures["p99"], other.figures["p99"]
        result.figures.append(
            f"{window.name}: {p99:.1f} ms ({p99 / quiet:.1f}x; PostgreSQL {others_p99:.1f}, "
            f"{others_p99 / control_quiet:.1f}x)"
        )
        tell(f"{result.figures[-1]}; {window.memory:.0f} MB and {window.mapped:.0f} of files; {'; '.join(window.said)}")
        tell(f"  PostgreSQL: {'; '.join(other.said)}")
        again = repeated.get(window.name)
        if again is not None:
            result.figures.append(f"{again.name}: {again.figures['p99']:.1f} ms")
            tell(result.figures[-1])
        result.problems += judged(window, quiet, before.memory, again)
    most, mapped = (max(getattr(window, kind) for window in windows) for kind in ("memory", "mapped"))
    result.figures.append(
        f"memory {before.memory:.0f} MB when it is quiet, at most {most:.0f}, and {mapped:.0f} of mapped files"
    )
    result.tried = len(windows)
    result.caught["a server that stands still half the time"] = bool(judged(held, quiet, before.memory))
    return result


def is_slow(window: Window, quiet: float) -> bool:
    return window.figures["p99"] > SLOWER * quiet


def judged(window: Window, quiet: float, memory: float, again: Window | None = None) -> list[str]:
    """What is wrong with a window. `quiet`: milliseconds, `memory`: MB, both without loads. `again`: the window once
    more, if it was slow."""
    found = [said for part in (window, again) if part is not None for said in part.said if said.startswith("WRONG")]
    if is_slow(window, quiet) and (again is None or is_slow(again, quiet)):
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
