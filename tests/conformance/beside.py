"""Suites beside each other, each in a process of its own, with a time after which it is ended.

A suite that raises, dies or does not come to its end is told as one that broke off, and why; the others go on. Its
Python stack is in the cache folder, `broken-SUITE`.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

from tests.conformance.suite import Outcome, Suite, cache
from tests.server import ROOT

AT_ONCE = 2
GRACE = 120.0  # seconds that a suite is given beyond its limit: servers start and stop, the last test ends
LOOK = 0.2  # seconds between looks at the processes


@dataclass(slots=True)
class _Running:
    suite: Suite
    process: subprocess.Popen[bytes]
    outcome: pathlib.Path
    end: float


def run_beside(
    suites: Sequence[Suite], at_once: int, seconds: Callable[[Suite], float], arguments: Sequence[str]
) -> Iterator[Outcome]:
    """The outcomes in the order in which the suites end. `seconds`: the most that one may take; `arguments`: more of
    them for its command line. Where the caller stops, so do the suites."""
    waiting, running = list(suites), list[_Running]()
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                running.append(_start(waiting[0], seconds(waiting[0]), arguments))
                waiting.pop(0)
            for item in [item for item in running if _has_ended(item)]:
                running.remove(item)
                yield _outcome(item)
            time.sleep(LOOK)
    finally:
        for item in running:
            _end(item)


def write_outcome(suite: Suite, run: Callable[[], Outcome], place: pathlib.Path) -> int:
    """Runs a suite in this process and leaves what came of it; 1 if it broke off."""
    broken = cache() / f"broken-{suite.name}"
    broken.unlink(missing_ok=True)
    try:
        outcome = run()
    except Exception as error:
        broken.write_text(traceback.format_exc())
        outcome = broken_off(suite, (str(error).splitlines() or [""])[0][:120] or type(error).__name__)
    place.write_text(json.dumps(asdict(outcome)))
    return int(bool(outcome.broken))


def broken_off(suite: Suite, reason: str) -> Outcome:
    """The outcome of a suite that has none."""
    return Outcome(suite.name, suite.title, suite.unit, 0, 0, 0, suite.floor, 0.0, broken=reason)


def _start(suite: Suite, seconds: float, arguments: Sequence[str]) -> _Running:
    place = cache() / f"outcome-{suite.name}.json"
    place.unlink(missing_ok=True)
    command = [sys.executable, "-m", "tests.conformance", suite.name, "--outcome", str(place), *arguments]
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)  # a group of its own, with its servers
    return _Running(suite, process, place, time.monotonic() + seconds + GRACE)


def _has_ended(item: _Running) -> bool:
    return item.process.poll() is not None or time.monotonic() > item.end


def _outcome(item: _Running) -> Outcome:
    if item.process.poll() is None:
        _end(item)
        return broken_off(item.suite, "did not come to its end in time")
    if not item.outcome.exists():
        return broken_off(item.suite, f"its process ended with status {item.process.returncode}")
    return Outcome(**json.loads(item.outcome.read_text()))


def _end(item: _Running) -> None:
    """Asks the suite to stop, which stops its servers; what is left after ten seconds is killed."""
    with contextlib.suppress(ProcessLookupError):
        item.process.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        item.process.wait(10)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(item.process.pid, signal.SIGKILL)
    item.process.wait()
