"""docs/pipeline.md: what a newcomer pastes runs as it stands."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

from tests.server import ROOT, ShoalServer

pytestmark = pytest.mark.long

PAGE = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
# The page's server listens on 5432; `pip` has been run.
_HERE = 'set -e; pip() { :; }; shoal() { "$PYTHON" -m shoal "$@" --dsn "$DSN"; }\n'


def test_the_first_paste(private_shoal: ShoalServer, tmp_path: pathlib.Path) -> None:
    (commands,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)[:1]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHON": sys.executable, "DSN": private_shoal.dsn}
    done = subprocess.run(
        ["bash", "-c", _HERE + commands], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "import: 2 rows" in done.stdout and "1 rejected" in done.stdout
    assert '\\"three\\" is not a value of type bigint' in done.stdout and '"line": 4' in done.stdout
    assert "export: 2 rows" in done.stdout and (tmp_path / "out" / "sales" / "city=Turku").is_dir()
    assert "Turku" in done.stdout
