"""docs/spark.md: what a newcomer pastes runs as it stands, with equal results on Shoal and on Spark."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest
from pyspark.sql import SparkSession

from tests.server import ROOT, ShoalServer

PAGE = (ROOT / "docs" / "spark.md").read_text()


def test_the_ten_minutes(
    spark: SparkSession,
    private_shoal: ShoalServer,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its commands but the installation, and its program, on a server of its own; Spark's session is the tests'."""
    commands, program = re.findall(r"```(?:sh|python)\n(.*?)```", PAGE, re.DOTALL)[:2]
    monkeypatch.chdir(tmp_path)
    for line in commands.splitlines():
        if not line.startswith("pip "):
            tool, *arguments = line.split()
            subprocess.run([pathlib.Path(sys.executable).parent / tool, *arguments], check=True, timeout=120)
    here = program.replace(":5432/", f":{private_shoal.port}/").replace('"tpch/', f'"{tmp_path}/tpch/')
    exec(compile(here, "docs/spark.md", "exec"), {})
    assert "INDIA" in capsys.readouterr().out
