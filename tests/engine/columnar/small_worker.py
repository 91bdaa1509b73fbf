"""The analytic worker with other limits of memory: for clients whose `_spawn` a test replaces."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from engine.columnar import worker_process

PROGRAM = """
from engine.columnar.worker import memory
memory.LOOK_SECONDS = memory.LOOK_IDLE_SECONDS = 0.02
memory.PATIENCE_SECONDS = 0.5
memory.limit, far = (lambda limit: {limit} << 20), memory.limit
memory.limit_idle = lambda limit: {idle} << 20
memory.SPARE_BYTES = {spare} << 20
memory.limit_mapped = lambda limit: None
from engine.columnar.worker.__main__ import main
main()
"""


def use(monkeypatch: pytest.MonkeyPatch, limit: int, idle: int, spare: int = 4096) -> None:
    """Workers that start from now on have these limits; in MB."""
    use_program(monkeypatch, PROGRAM.format(limit=limit, idle=idle, spare=spare))


def use_program(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Workers that start from now on run this program, which calls the worker's own."""
    start = subprocess.Popen

    def start_program(command: list[str], **more: Any) -> Any:
        place = command.index("-m")
        return start([*command[:place], "-c", program, *command[place + 2 :]], **more)

    monkeypatch.setattr(worker_process.subprocess, "Popen", start_program)
