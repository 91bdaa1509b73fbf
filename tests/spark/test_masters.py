"""Jobs with executors in processes of their own, in other folders and without this package: Spark's standalone master
with a worker, and local-cluster. The package goes with the job, alone."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Iterator

import psycopg
import pyspark
import pytest

from tests.server import ROOT, ShoalServer
from tests.spark.conftest import CHEAP_JAVA

pytestmark = pytest.mark.long

SPARK = pathlib.Path(pyspark.__file__).parent
LIMIT = 900.0  # seconds; several Java machines start beside others
# What an executor's Python has: pyspark, pyarrow, psycopg, and nothing of this project but what it is sent.
_WITHOUT = f"""
import sys
sys.path[:] = [path for path in sys.path if path.rstrip("/") != {str(ROOT)!r} and path]
sys.meta_path[:] = [finder for finder in sys.meta_path if "__editable__" not in getattr(finder, "__module__", "")]
"""


@pytest.fixture
def foreign_python(tmp_path: pathlib.Path) -> pathlib.Path:
    """A Python that cannot import what this project has installed."""
    folder = tmp_path / "foreign"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_WITHOUT)
    script = folder / "python"
    # Spark puts its own archives in front of PYTHONPATH.
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{folder}:$PYTHONPATH" exec {sys.executable} -P "$@"\n')
    script.chmod(0o755)
    wanted = "import pyspark, pyarrow, psycopg\ntry:\n import shoal_spark\nexcept ImportError:\n print('not here')"
    done = subprocess.run([script, "-c", wanted], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "not here\n", done
    return script


def environment(python: pathlib.Path) -> dict[str, str]:
    """Of Spark's processes: loopback only."""
    given = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    given.pop("PYTHONPATH", None)
    ours = {"SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(python)}
    ours |= {"JAVA_TOOL_OPTIONS": CHEAP_JAVA}
    ours |= {"SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false", "SPARK_DAEMON_MEMORY": "512m"}
    return given | ours


def begin(folder: pathlib.Path, name: str, words: list[str], env: dict[str, str]) -> subprocess.Popen[bytes]:
    with (folder / f"{name}.log").open("wb") as log:
        command = [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *words]
        return subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log)


def told(folder: pathlib.Path, name: str, pattern: str, process: subprocess.Popen[bytes]) -> str:
    """What the pattern finds in the log, once it is there."""
    deadline = time.monotonic() + LIMIT
    while True:
        text = (folder / f"{name}.log").read_text(errors="replace")
        if found := re.search(pattern, text):
            return found[0]
        assert process.poll() is None and time.monotonic() < deadline, text
        time.sleep(0.1)


@pytest.fixture
def standalone(tmp_path: pathlib.Path, foreign_python: pathlib.Path) -> Iterator[str]:
    """The URL of a master with one worker, which runs executors in a folder of its own."""
    env = environment(foreign_python)
    folder = tmp_path / "standalone"
    folder.mkdir()
    with contextlib.ExitStack() as stack:

        def start(name: str, *words: str) -> subprocess.Popen[bytes]:
            process = begin(folder, name, [*words, "--host", "127.0.0.1", "--webui-port", "0"], env)
            stack.callback(process.wait, 30)
            stack.callback(process.kill)
            return process

        master = start("master.Master", "--port", "0")
        url = told(folder, "master.Master", r"spark://127\.0\.0\.1:[1-9]\d*", master)
        work = ["--cores", "2", "--memory", "1g", "--work-dir", str(folder / "work")]
        worker = start("worker.Worker", *work, url)
        told(folder, "worker.Worker", "Successfully registered", worker)
        yield url


def pipeline(python: pathlib.Path, folder: pathlib.Path, *words: str) -> dict[str, object]:
    """The job's own word of what it has done."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "shoal", "pipeline", *words, "--json"],
        check=False,
        cwd=folder,
        env={**environment(python), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_a_standalone_master(
    private_shoal: ShoalServer, standalone: str, foreign_python: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Files into a table, with a bad record that comes back from an executor."""
    source = tmp_path / "in.csv"
    source.write_text("id,t\n" + "".join(f"{number},row {number}\n" for number in range(1000)) + "x,bad\n")
    options = [
        "--dsn",
        f"{private_shoal.dsn} connect_timeout=120",
        "--master",
        standalone,
        "--conf",
        "spark.executor.memory=512m",
    ]
    definition = ["--schema", "id int PRIMARY KEY, t text", "--max-rejected", "1"]
    done = pipeline(foreign_python, tmp_path / "job", "import", str(source), "sent", *definition, *options)
    assert (done["rows"], done["rejected"]) == (1000, 1)
    aside = json.loads((tmp_path / "job" / "sent.rejected.jsonl").read_text())
    assert (aside["line"], aside["reason"]) == (1002, 'column "id": "x" is not a value of type integer')
    with psycopg.connect(private_shoal.dsn) as connection:
        assert connection.execute("SELECT count(*), sum(id) FROM sent").fetchone() == (1000, 499500)
    assert list((tmp_path / "standalone" / "work").glob("app-*/*/shoal_spark-*.zip")), "it was sent"


def test_a_local_cluster(private_shoal: ShoalServer, foreign_python: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """A table out of the server, by two executors."""
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE sent (id int PRIMARY KEY, t text)")
        connection.execute("INSERT INTO sent SELECT i, 'row ' || i FROM generate_series(1, 1000) i")
    options = ["--dsn", f"{private_shoal.dsn} connect_timeout=120", "--master", "local-cluster[2,1,1024]"]
    done = pipeline(foreign_python, tmp_path / "job", "export", "sent", str(tmp_path / "out"), *options)
    assert done["rows"] == 1000 and list((tmp_path / "out").glob("*.parquet"))
