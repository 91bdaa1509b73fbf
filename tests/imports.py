"""Workers of one run share the work of compiling what they import.

Each worker collects every test, in the same order: without more, all of them rewrite the assertions of the same file at
the same time, which takes most of the time until the first test. So each of them imports a part of the files first,
and finds the rest in the cache for bytecode, where the others have put it meanwhile.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def import_a_part(config: pytest.Config) -> None:
    """Imports this worker's part of the test files, if the run is of all of them. What fails is told when the file is
    collected."""
    if config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers == 1:
        return
    for path in sorted((ROOT / "tests").rglob("test_*.py"))[worker::workers]:
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


def begin() -> None:
    """Nearly all that collecting makes stays: to look for garbage in it again and again finds nothing."""
    gc.disable()


def end() -> None:
    gc.freeze()
    gc.enable()
