"""The analytic worker, which fails where a test wants it to (tests/faults.py).

python -m tests.engine.columnar.faulty_worker WANTED (what the worker is given)
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.faults import faulty

WORKER = "engine.columnar.worker"
STEPS = {
    "start": ("Server", "serve"),
    "load": ("Server", "_load"),
    "describe": ("Server", "_describe"),
    "apply": ("Server", "_apply"),
    "run": ("Server", "_apply_run"),
    "draft": ("Server", "_begin_draft"),
    "draft_rows": ("Server", "_grow_draft"),
    "draft_discard": ("Server", "_discard_draft"),
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
SAVE_STEPS = {
    "save": ("Server", "_save"),
    "saving": ("ColumnsFile", "save"),
    "saved": ("ColumnsFile", "sizes"),
    "told": ("Saving", "note_saved"),
}
"""The same while it saves; each operation on the file: tests/torture/durability/works.py."""


def use(monkeypatch: pytest.MonkeyPatch, wanted: Path) -> None:
    """Workers that start from now on are such."""
    start = subprocess.Popen

    def start_faulty(command: list[str], **more: Any) -> Any:
        return start(faulty_command(command, wanted), **more)

    monkeypatch.setattr(subprocess, "Popen", start_faulty)


def faulty_command(command: list[str], wanted: Path) -> list[str]:
    """Of the worker; any other as it is."""
    if WORKER not in command:
        return command
    place = command.index(WORKER)
    return [*command[:place], __name__, str(wanted), *command[place + 1 :]]


def main() -> None:
    wanted = Path(sys.argv.pop(1))
    from engine.columnar.worker import __main__, sandbox

    enter = sandbox.enter

    def enter_and_spoil(keep: int, memory_limit: int) -> bool:
        alone = enter(keep, memory_limit)  # before threads start
        from engine.columnar.worker import columns_file, query, serve

        for step, (owner, name) in (STEPS | SAVE_STEPS).items():
            of = next(vars(module)[owner] for module in (serve, query, columns_file) if owner in vars(module))
            setattr(of, name, faulty(step, getattr(of, name), wanted))
        return alone

    sandbox.enter = enter_and_spoil
    __main__.main()


if __name__ == "__main__":
    main()
