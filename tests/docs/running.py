"""Runs the commands of a page of docs/ as they stand: blocks of sh and sql behind `<!-- run -->`, from top to bottom.

    python -m tests.docs.running PAGE.md

A page runs in namespaces of its own (`in_namespaces`), so that addresses and directories are the
page's: a server on 127.0.0.1:5432, ZooKeeper on 2181, backups in /var/backups. The current directory is a new one.

`shoal` on the PATH is this file too: what serves for ever is started in the background, and the command is over when
it says that it is ready. A server takes the place of the one that was started before with the same address. A page
that does not begin with one gets one on 127.0.0.1:5432.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

from tests.zookeeper_server import ZooKeeper

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"<!-- run -->\n```(sh|sql)\n(.*?)```", re.S)
SERVING = {"serve": "127.0.0.1:5432", "router": "127.0.0.1:5432", "logstore": "127.0.0.1:7301"}
PATIENCE = 120.0  # seconds until a server is ready
WRITABLE = ("/var/backups", "/var/lib")
PSQL = ["psql", "-qX", "-v", "ON_ERROR_STOP=1", "host=127.0.0.1 user=postgres"]


def blocks(page: str) -> list[tuple[str, str]]:
    """What a page says is to be run: sh or sql, and the text."""
    return BLOCK.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))


def in_namespaces(page: str) -> subprocess.CompletedProcess[str]:
    """Runs a page where nothing but itself listens. What it has started ends with it, however it ends."""
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    apart = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    command = ["unshare", *user, *apart, sys.executable, "-m", "tests.docs.running", page]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)


def run(page: str) -> None:
    """Raises RuntimeError with the block that failed, and what it said."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for directory in WRITABLE:
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", directory], check=True)
    with tempfile.TemporaryDirectory(prefix="shoal-docs-") as made:
        directory = pathlib.Path(made)
        (directory / "bin").mkdir()
        command = directory / "bin" / "shoal"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} shoal "$@"\n')
        command.chmod(0o755)
        path = f"{command.parent}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        os.environ.update(PATH=path, PYTHONPATH=str(ROOT), PGDATABASE="postgres", DOCS_SERVERS=str(directory / "bin"))
        (directory / "work").mkdir()
        os.chdir(directory / "work")
        try:
            with contextlib.ExitStack() as beside:
                if any("zk://127.0.0.1:2181" in text for _, text in blocks(page)):
                    zookeeper = ZooKeeper()
                    zookeeper.servers[0].port = 2181
                    beside.enter_context(zookeeper)
                _run_all(page)
        finally:
            for known in (directory / "bin").glob("*.pid"):
                _stop(known)
            os.chdir("/")


def _run_all(page: str) -> None:
    found = blocks(page)
    if not found[0][1].startswith("shoal serve"):
        _do(["shoal", "serve"], "")
    for kind, text in found:
        if "now() -" in text:
            time.sleep(1.1)  # as long as a reader takes at least: a second ago what came before is there
        _do(["bash", "-euo", "pipefail"] if kind == "sh" else PSQL, text)


def _do(command: list[str], text: str) -> None:
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{text or ' '.join(command)}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")


def _serve(words: list[str]) -> int:
    """Starts what serves for ever, in place of what serves on its address; returns when it is ready."""
    address = words[words.index("--listen") + 1] if "--listen" in words else SERVING[words[0]]
    known = pathlib.Path(os.environ["DOCS_SERVERS"]) / f"{address.rpartition(':')[2]}.pid"
    if known.exists():
        _stop(known)
    log = known.with_suffix(".log")
    with log.open("wb") as told:
        server = subprocess.Popen(
            [sys.executable, "-m", "shoal", *words], stdin=subprocess.DEVNULL, stdout=told, stderr=told,
            start_new_session=True,
        )  # fmt: skip
    known.write_text(str(server.pid))
    deadline = time.monotonic() + PATIENCE
    while "ready" not in log.read_text(errors="replace"):
        if server.poll() is not None or time.monotonic() > deadline:
            sys.stderr.write(log.read_text(errors="replace"))
            return 1
        time.sleep(0.02)
    return 0


def _stop(known: pathlib.Path) -> None:
    number = int(known.read_text())
    try:
        os.kill(number, signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE
        while _runs(number) and time.monotonic() < deadline:
            time.sleep(0.02)
        if _runs(number):
            os.kill(number, signal.SIGKILL)
    except ProcessLookupError:
        pass
    known.unlink()


def _runs(number: int) -> bool:
    """Whether a process is there, and not only waits for whoever asks how it has ended."""
    try:
        return pathlib.Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def main(words: list[str]) -> int:
    if words[0] != "shoal":
        try:
            run(words[0])
        except RuntimeError as error:
            print(error, file=sys.stderr)
            return 1
        return 0
    if len(words) > 1 and words[1] in SERVING:
        return _serve(words[1:])
    os.execv(sys.executable, [sys.executable, "-m", "shoal", *words[1:]])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
