"""A process that commits until it is killed: each commit writes its number under two keys, and every so often a run.

Usage: crash_child.py DIRECTORY [unsynced | early | apart]. Each acknowledged number is written to standard output in
8 bytes. Planted faults: `unsynced` leaves out every sync of the changelog, and acknowledges all the same; `early` tells
of commits that are not written yet. With `apart` layers are flushed by processes of their own. It ends with 70 when
nothing can be made durable any more.
"""

from __future__ import annotations

import os
import queue
import sys
from pathlib import Path

import pyarrow as pa

from catalog.errors import SqlError
from engine.storage import checkpoint
from engine.storage.edits import Edits
from engine.storage.keys import encode_row_numbers
from replication.files import Files
from tests.engine.storage.harness import Store, key

RUN_EVERY = 50
RUN_ROWS = 200
EARLY_EVERY = 20  # commits, all but one of which are told before they are written


class Unsynced(Files):
    """Syncs nothing."""

    def sync(self, fd: int) -> None:
        pass

    def sync_data(self, fd: int) -> None:
        pass


def main() -> None:
    files = Unsynced() if sys.argv[2:] == ["unsynced"] else None
    if sys.argv[2:] == ["apart"]:
        checkpoint.APART_KEYS = 0
    try:
        store = Store(Path(sys.argv[1]), files, segment_bytes=64 << 10, flush_versions=40)
        commit_for_ever(store, early=sys.argv[2:] == ["early"])
    except (SqlError, OSError, queue.Empty) as error:
        print(error, file=sys.stderr)
        os._exit(70)


def commit_for_ever(store: Store, early: bool = False) -> None:
    """Until the process is killed, or a commit cannot be made durable: raises SqlError, OSError or queue.Empty.
    `early`: a planted fault, see above."""
    space = store.space
    number = int(space.current.get(key(0)) or b"0")
    acknowledged = number
    numbers: dict[int, int] = {}
    while True:
        number += 1
        text = b"%d" % number
        edits = Edits({key(0): text, key(number % 97 + 1): text, key(number, 2): text})
        if number % RUN_EVERY == 0:
            writer = space.new_run()
            writer.add(encode_row_numbers(3, number * RUN_ROWS, RUN_ROWS), pa.array([text] * RUN_ROWS, pa.binary()))
            edits.runs.append(writer.finish().reference)
        numbers[space.sequence(edits, 0, 0)] = number
        if early and number % EARLY_EVERY:
            acknowledged = number
            os.write(1, number.to_bytes(8, "big"))
            continue
        store.loop.drain()
        while space.sequenced_lsn - space.durable_lsn > number % 5:
            store.loop.calls.get(timeout=20)()
            if store.fatal:
                raise OSError(str(store.fatal[0]))
        while acknowledged + 1 <= numbers.get(space.durable_lsn, 0):
            acknowledged += 1
            os.write(1, acknowledged.to_bytes(8, "big"))


if __name__ == "__main__":
    main()
