"""What a server holds of the system: descriptors and maps of files that are deleted, and old readers of LMDB's pages.

Each of these keeps disk space from being used again for as long as it is held.
"""

from __future__ import annotations

import pathlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import lmdb

from tests.server import ShoalServer

_PRELUDE = """
import gc, os, sys
os.environ["SHOAL_PAST_WINDOW"] = "0.2"
gc.disable()
gc.collect = lambda *_: 0
from shoal.cli import main
sys.exit(main(sys.argv[1:]))
"""


class WithoutCollector(ShoalServer):
    """A server whose cyclic collector never runs: in a real one it comes by too seldom to be relied on. What
    AS OF may read from memory goes soon."""

    def __init__(self, data: pathlib.Path | None = None, before: str = "") -> None:
        """`before`: Python code that runs in the server's process before the command."""
        super().__init__(data)
        self._before = before

    def command(self) -> list[str]:
        return [sys.executable, "-c", self._before + _PRELUDE, *super().command()[3:]]


def deleted_files(pid: int) -> list[str]:
    """The deleted files that a process has open or mapped; a file may come several times."""
    process = pathlib.Path(f"/proc/{pid}")
    found = []
    for descriptor in (process / "fd").iterdir():
        with suppress(OSError):
            found.append(str(descriptor.readlink()))
    for line in (process / "maps").read_text().splitlines():
        found.append("map " + line.split(maxsplit=5)[5] if line.count(" ") > 5 and "/" in line else "")
    return [name for name in found if name.endswith(" (deleted)") and "/memfd:" not in name and "/dev/zero" not in name]


def descriptors(pid: int) -> int:
    return sum(1 for _ in pathlib.Path(f"/proc/{pid}/fd").iterdir())


@contextmanager
def opened_tables(server: ShoalServer) -> Iterator[lmdb.Environment]:
    """The LMDB environment of a server that runs, to be looked at."""
    rows = next(server.data.rglob("data.mdb")).parent
    environment = lmdb.open(str(rows), readonly=True, max_dbs=4, map_size=1 << 40)
    try:
        yield environment
    finally:
        environment.close()


def old_readers(server: ShoalServer) -> list[str]:
    """The readers of LMDB's pages that see something older than its newest transaction, as "pid transaction"."""
    with opened_tables(server) as environment:
        newest = environment.info()["last_txnid"]
        found = []
        for line in environment.readers().splitlines()[1:]:
            parts = line.split()
            if len(parts) == 3 and parts[2].isdigit() and int(parts[2]) < newest:
                found.append(f"{parts[0]} {parts[2]}")
    return found


def held(server: ShoalServer) -> list[str]:
    """What the server and its worker hold that keeps disk space from being used again."""
    found = [f"reader {reader}" for reader in old_readers(server)]
    for pid in (server.pid, *server.workers()):
        with suppress(OSError):
            found += deleted_files(pid)
    return found


def comes_true(condition: Callable[[], bool], within: float) -> bool:
    """Whether the condition holds within so many seconds."""
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
