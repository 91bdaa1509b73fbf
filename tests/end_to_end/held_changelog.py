"""A node alone whose changelog writes nothing while a test wants it so: commits are sequenced and not durable."""

from __future__ import annotations

import pathlib
import sys

from tests.server import ShoalServer

_PRELUDE = """
import asyncio, pathlib, sys
from replication.local import LocalChangelog
place = pathlib.Path(sys.argv.pop(1))
write = LocalChangelog._next_group
def write_unless_held(self):
    if place.exists():
        asyncio.get_running_loop().call_later(0.002, write_unless_held, self)
    else:
        write(self)
LocalChangelog._next_group = write_unless_held
from engine.session import asynchronous_commit as deferring
deferring.LIMIT = float(sys.argv.pop(1))
from shoal.cli import main
sys.exit(main(sys.argv[1:]))
"""


class HoldingServer(ShoalServer):
    """`hold` and `release`; held from the next commit on. `limit`: seconds for which commits need not wait."""

    def __init__(self, limit: float = 60.0) -> None:
        super().__init__()
        self._limit = limit

    @property
    def _flag(self) -> pathlib.Path:
        return self.data.parent / "held"

    def command(self) -> list[str]:
        return [sys.executable, "-c", _PRELUDE, str(self._flag), str(self._limit), *super().command()[3:]]

    def hold(self) -> None:
        self._flag.touch()

    def release(self) -> None:
        self._flag.unlink(missing_ok=True)
