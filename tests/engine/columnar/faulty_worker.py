"""The analytic worker, which fails where a test wants it to.

    python -m tests.engine.columnar.faulty_worker WANTED (what the worker is given)

WANTED is a file. While it says `STEP FAULT`, the first worker that comes to that step removes it, and fails:

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
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FAULTS = ("kill", "stop", "hold", "wait", "slow")
SLOW_SECONDS = 1.0
STEPS = {
    "start": ("Server", "serve"),
    "load": ("Server", "_load"),
    "describe": ("Server", "_describe"),
    "apply": ("Server", "_apply"),
    "run": ("Server", "_apply_run"),
    "drop": ("Server", "_drop"),
    "virtual": ("Server", "_virtual"),
    "forget": ("Server", "_forget"),
    "query": ("Server", "_query"),
    "running": ("Query", "_stream"),
    "chunk": ("Query", "_send_chunk"),
    "end": ("Slots", "leave"),
    "credit": ("Query", "give_credit"),
    "cancel": ("Server", "_cancel"),
    "cancelled": ("Interrupter", "cancel"),
}
"""Where in the worker it may fail: on its way into a method."""


def use(monkeypatch: pytest.MonkeyPatch, wanted: Path) -> None:
    """Workers that start from now on are such."""
    start = subprocess.Popen

    def start_faulty(command: list[str], **more: Any) -> Any:
        if "engine.columnar.worker" not in command:
            return start(command, **more)
        place = command.index("-m")
        return start([*command[: place + 1], __name__, str(wanted), *command[place + 2 :]], **more)

    monkeypatch.setattr(subprocess, "Popen", start_faulty)


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


def _faulty(step: str, function: Callable[..., Any], wanted: Path) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        with contextlib.suppress(FileNotFoundError):
            asked, _, fault = wanted.read_text().partition(" ")
            if asked == step:
                wanted.unlink()
                _fail(fault)
        return function(*arguments)

    return call


def main() -> None:
    wanted = Path(sys.argv.pop(1))
    from engine.columnar.worker import __main__, sandbox

    enter = sandbox.enter

    def enter_and_spoil(keep: int, memory_limit: int) -> bool:
        alone = enter(keep, memory_limit)  # before threads start
        from engine.columnar.worker import query, serve

        for step, (owner, name) in STEPS.items():
            of = getattr(serve if owner == "Server" else query, owner)
            setattr(of, name, _faulty(step, getattr(of, name), wanted))
        return alone

    sandbox.enter = enter_and_spoil
    __main__.main()


if __name__ == "__main__":
    main()
