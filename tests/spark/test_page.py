"""docs/spark.md: what a newcomer pastes runs as it stands, with equal results on Shoal and on Spark."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

from tests.server import ROOT, ShoalServer

pytestmark = pytest.mark.long

PAGE = (ROOT / "docs" / "spark.md").read_text()
LIMIT = 300  # seconds; a loaded machine


def test_the_ten_minutes(private_shoal: ShoalServer, tmp_path: pathlib.Path) -> None:
    """Its commands but the installation, then its program, in a folder of their own; the server's port is another."""
    commands, program = re.findall(r"```(?:sh|python)\n(.*?)```", PAGE, re.DOTALL)[:2]
    tools = pathlib.Path(sys.executable).parent
    for line in commands.splitlines():
        if not line.startswith("pip "):
            tool, *arguments = line.split()
            subprocess.run([tools / tool, *arguments], cwd=tmp_path, check=True, timeout=LIMIT)
    (tmp_path / "pasted.py").write_text(program.replace(":5432/", f":{private_shoal.port}/"))
    # As in an environment that was made for it: its Python is the only one, and `shoal_spark` is installed.
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "pasted.py"],
        check=False,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "INDIA" in done.stdout
