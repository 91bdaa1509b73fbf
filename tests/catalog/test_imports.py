"""Every module of the lowest layer can be the first one that a process imports: none needs another one to have been."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.samples import some
from tests.server import ROOT

IMPORTS_EACH = """
import importlib, os, sys
for name in sys.argv[1:]:
    child = os.fork()
    if not child:
        try:
            importlib.import_module(name)
        except BaseException as error:
            print(name, repr(error), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


def failures(*names: str) -> str:
    """What the modules say that cannot be imported first."""
    command = [sys.executable, "-c", IMPORTS_EACH, *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=240)
    return done.stdout


PATHS = [path for path in (ROOT / "catalog").rglob("*.py") if path.name != "__main__.py"]
NAMES = sorted(
    str(path.relative_to(ROOT).with_suffix("")).replace("/", ".").removesuffix(".__init__") for path in PATHS
)


@pytest.mark.parametrize("names", some((NAMES[first::4] for first in range(4)), 4))
def test_any_module_may_come_first(names: list[str]) -> None:
    assert len(names) > 25
    assert failures(*names) == ""


def test_one_that_needs_another_one_is_noticed() -> None:
    assert "No module named" in failures("catalog.nothing")
