"""What a server has in memory before anybody asks it for anything."""

from __future__ import annotations

import subprocess
import sys


def test_a_server_begins_without_libraries_that_it_may_never_need() -> None:
    """pandas comes with the first array that Arrow makes of Python's objects, where it is installed: 37 MB."""
    code = "import sys, shoal.serve\nprint([name for name in ('pandas', 'duckdb', 'pyspark') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
