"""Runs the commands of a page of docs/ as they stand: the blocks behind `<!-- run -->`, from top to bottom.

    python -m tests.docs.running PAGE.md

    <!-- run -->              a block of sh, sql (by psql) or python; it has to end well
    <!-- run until TEXT -->   a block of sh that does not end by itself: until it has said so, then ^C

A page runs in namespaces of its own (keeper.py), so that addresses and directories are the page's: a server on
127.0.0.1:5432, ZooKeeper on 2181, backups in /var/backups. The current directory is a new one.

`shoal` and `python` on the PATH are forks of a process that has imported all of it. What serves for ever is started in
the background, and the command is over when it says that it is ready. A server takes the place of the one that was
started before with the same address. A page that does not begin with one, or with its directory, gets one on
127.0.0.1:5432.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import IO

from tests.docs.keeper import SHIM, SOCKET, Page, apart, in_child
from tests.zookeeper_server import ZooKeeper

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"<!-- run(?: until (.+?))? -->\n```(sh|sql|python)\n(.*?)```", re.S)
SERVING = {"serve": "127.0.0.1:5432", "router": "127.0.0.1:5432", "logstore": "127.0.0.1:7301"}
PATIENCE = 120.0  # seconds until a server is ready, a block has ended
WRITABLE = ("/var/backups", "/var/lib", "/etc/shoal")
PSQL = ["psql", "-X", "-v", "ON_ERROR_STOP=1", "host=127.0.0.1 user=postgres"]
BASH = ["bash", "-euo", "pipefail"]
SESSION = "2"  # seconds of silence after which a node of a cluster is taken for dead: nobody wants to wait for six


class Pages:
    """KEEPER, see keeper.py. One page at a time."""

    def __init__(self) -> None:
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        command = ["unshare", *user, "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        self._process = subprocess.Popen(
            [*command, sys.executable, "-m", "tests.docs.running"], cwd=ROOT, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, page: str) -> tuple[int, str]:
        """The exit status, and what the page's commands have written."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{page}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the keeper has ended"
        status, told = json.loads(line)
        return status, told

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def blocks(page: str) -> list[tuple[str, str, str]]:
    """What a page says is to be run: until it says what, if that is the end of it; its language; the text."""
    return BLOCK.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))


def keep() -> None:
    """Runs the pages that standard input names, a line each; answers each with a line, [status, output]."""
    _import_all()
    pages, answers = _moved_away()
    for line in pages:
        with tempfile.TemporaryFile("w+", errors="replace") as told:
            status = _run_apart(line.strip(), told)
            told.seek(0)
            answers.write(json.dumps([status, told.read()]) + "\n")
            answers.flush()


def _moved_away() -> tuple[IO[str], IO[str]]:
    """The first two streams, under numbers that no child of ours takes for its own."""
    pages, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    return pages, answers


def _import_all() -> None:
    """What commands import, by the modules that import it."""
    import shoal.cluster.member
    import shoal.commands.backup
    import shoal.commands.changes
    import shoal.commands.check
    import shoal.commands.compact
    import shoal.commands.sql
    import shoal.commands.status
    import shoal.commands.store
    import shoal.embedded
    import shoal.logstore
    import shoal.router
    import shoal.serve  # noqa: F401

    gc.freeze()


def _run_apart(page: str, told: IO[str]) -> int:
    def work() -> int:
        os.dup2(told.fileno(), 1)
        os.dup2(told.fileno(), 2)
        return _first_process(page)

    with tempfile.TemporaryDirectory(prefix="shoal-docs-") as made:
        os.environ["DOCS_DIRECTORY"] = made
        return apart(work)


def _first_process(page: str) -> int:
    directory = pathlib.Path(os.environ["DOCS_DIRECTORY"])
    subprocess.run(["mount", "-t", "proc", "proc", "/proc"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for place in WRITABLE:
        if os.path.isdir(place):
            subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True)
    (directory / "bin").mkdir()
    for name in ("shoal", "python"):
        shim = directory / "bin" / name
        shim.write_text(SHIM)
        shim.chmod(0o755)
    (directory / "work").mkdir()
    os.chdir(directory / "work")
    os.environ.update({
        "PATH": f"{directory / 'bin'}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT), "PGDATABASE": "postgres", "DOCS_SERVERS": str(directory / "bin"),
        SOCKET: str(directory / "keeper"), "SHOAL_SESSION_TIMEOUT": SESSION,
    })  # fmt: skip
    return Page(directory / "keeper", _command).run(lambda: _run(page))


def _command(name: str, words: list[str]) -> int:
    """What the page calls `name`."""
    if name == "python":
        exec(compile(sys.stdin.read(), "<the page>", "exec"), {"__name__": "__main__"})
        return 0
    from shoal.cli import main

    return _serve(words) if words and words[0] in SERVING and "--help" not in words else main(words)


def _run(page: str) -> int:
    found = blocks(page)
    with contextlib.ExitStack() as beside:
        if any("zk://127.0.0.1:2181" in text for _, _, text in found):
            zookeeper = ZooKeeper()
            zookeeper.servers[0].port = 2181
            beside.enter_context(zookeeper)
        try:
            if not found[0][2].startswith(("shoal serve", "shoal init")):
                _do(["shoal", "serve"], "")
            for end, kind, text in found:
                if "now() - interval '1 s'" in text:
                    time.sleep(1.1)  # as long as a reader takes at least: a second ago what came before is there
                if end:
                    _do_until(text, end)
                else:
                    _do({"sh": BASH, "sql": PSQL, "python": ["python"]}[kind], text)
        except RuntimeError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


def _do(command: list[str], text: str) -> None:
    """Raises RuntimeError with the block that failed, and what it said."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{text or ' '.join(command)}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
    print(text, done.stdout, done.stderr, sep="\n", flush=True)


def _do_until(text: str, end: str) -> None:
    """Raises RuntimeError as `_do`; also when it ends before it has said `end`, and when ^C does not end it."""
    process = subprocess.Popen(
        [*BASH, "-c", text], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    late = threading.Timer(PATIENCE, os.killpg, (process.pid, signal.SIGKILL))
    late.start()
    told = ""
    for line in process.stdout:
        told += line
        if end in line:
            break
    else:
        raise RuntimeError(f"{text}\nnever said {end}:\n{told}")
    os.killpg(process.pid, signal.SIGINT)
    told += process.communicate()[0]
    late.cancel()
    if process.returncode == -signal.SIGKILL:
        raise RuntimeError(f"{text}\nwas not ended by ^C:\n{told}")
    print(text, told, sep="\n", flush=True)


def _serve(words: list[str]) -> int:
    """Starts what serves for ever, in place of what serves on its address; returns when it is ready."""
    from shoal.cli import main

    address = words[words.index("--listen") + 1] if "--listen" in words else SERVING[words[0]]
    known = pathlib.Path(os.environ["DOCS_SERVERS"]) / f"{address.rpartition(':')[2]}.pid"
    if known.exists():
        _stop(known)
    log = known.with_suffix(".log")

    def work() -> int:
        os.setsid()
        stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(stream, 1)
        os.dup2(stream, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        return main(words)

    log.unlink(missing_ok=True)
    server = in_child(work)
    known.write_text(str(server))
    deadline = time.monotonic() + PATIENCE
    while not log.exists() or "ready" not in log.read_text(errors="replace"):
        if os.waitpid(server, os.WNOHANG)[0] or time.monotonic() > deadline:
            sys.stderr.write(log.read_text(errors="replace"))
            return 1
        time.sleep(0.02)
    return 0


def _stop(known: pathlib.Path) -> None:
    number = int(known.read_text())
    known.unlink()
    with contextlib.suppress(ProcessLookupError):
        os.kill(number, signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            os.kill(number, 0)
            time.sleep(0.02)
        os.kill(number, signal.SIGKILL)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        pages = Pages()
        status, told = pages.run(sys.argv[1])
        pages.close()
        print(told)
        sys.exit(status)
    keep()
