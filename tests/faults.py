"""Faults of helper processes, at the step where a test wants one.

The test writes `STEP FAULT` into a file, whose path the helper is given. The first one that comes to that step removes
the file, and fails:

    kill    it ends
    stop    it takes no step any more (SIGSTOP)
    hold    one step of C keeps the interpreter, as a search by a regular expression can, for hours
    wait    the thread waits for what never comes
    slow    the thread goes on after a while
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SLOW_SECONDS = 1.0


def meet(step: str, wanted: Path) -> None:
    """A helper has come to the step."""
    with contextlib.suppress(FileNotFoundError):
        asked, _, fault = wanted.read_text().partition(" ")
        if asked == step:
            wanted.unlink()
            _fail(fault)


def faulty(step: str, function: Callable[..., Any], wanted: Path) -> Callable[..., Any]:
    """The function, whose call is the step."""

    def call(*arguments: Any) -> Any:
        meet(step, wanted)
        return function(*arguments)

    return call


def _fail(fault: str) -> None:
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif fault == "hold":
        re.match(r"(a*)*\1\1x", "a" * 60)
    elif fault == "wait":
        threading.Event().wait()
    else:
        time.sleep(SLOW_SECONDS)
