"""A process that commits until it is killed: each commit writes its number under two keys, and every so often a run.

Usage: crash_child.py DIRECTORY. Each acknowledged number is written to standard output in 8 bytes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyarrow as pa

from engine.storage.edits import Edits
from engine.storage.keys import encode_row_numbers
from tests.engine.storage.harness import Store, key

RUN_EVERY = 50
RUN_ROWS = 200


def main() -> None:
    store = Store(Path(sys.argv[1]), segment_bytes=64 << 10, flush_versions=40)
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
        store.loop.drain()
        while space.sequenced_lsn - space.durable_lsn > number % 5:
            store.loop.calls.get()()
        while acknowledged + 1 <= numbers.get(space.durable_lsn, 0):
            acknowledged += 1
            os.write(1, acknowledged.to_bytes(8, "big"))


if __name__ == "__main__":
    main()
