"""A server whose disk is slow: what is sequenced takes a while to be durable, so that whoever looks between is seen."""

from __future__ import annotations

import sys

from tests.server import ShoalServer

SYNC = 0.03  # seconds that a sync of the changelog takes

_PRELUDE = f"""
import sys, time
from replication import file_sync
from replication.files import Files

sync_data = Files.sync_data

def slow(self, fd):
    time.sleep({SYNC})
    sync_data(self, fd)

Files.sync_data = slow
file_sync.kernel_can_sync = lambda: False
from shoal.cli import main
sys.exit(main(sys.argv[1:]))
"""


class SlowDiskServer(ShoalServer):
    """See the module's text."""

    def command(self) -> list[str]:
        return [sys.executable, "-c", _PRELUDE, *super().command()[3:]]
