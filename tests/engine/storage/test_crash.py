"""kill -9 at random moments of commits and flushes: what was acknowledged is there, and every commit is whole."""

from __future__ import annotations

import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.engine.storage.crash_child import RUN_EVERY, RUN_ROWS
from tests.engine.storage.harness import Store, key

ROUNDS = 6


def run_and_kill(path: Path, seconds: float, *options: str) -> int:
    """Runs the child for so long after its first commit; the last number that it acknowledged."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.engine.storage.crash_child", str(path), *options], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    output = bytearray(child.stdout.read(8))
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if select.select([child.stdout], [], [], left)[0]:
            output += child.stdout.read1(65536)  # type: ignore[attr-defined]
    child.send_signal(signal.SIGKILL)
    output += child.stdout.read()
    child.wait()
    assert child.returncode == -signal.SIGKILL, "the child ended by itself"
    whole = len(output) // 8 * 8
    return int.from_bytes(output[whole - 8 : whole], "big")


def check(path: Path, acknowledged: int) -> int:
    """Opens the store and checks it; the last commit that it holds."""
    store = Store(path)
    last = int(store.space.current.get(key(0)) or b"0")
    assert last >= acknowledged
    assert store.contents(b"\0\0\0\2") == {key(n, 2): b"%d" % n for n in range(1, last + 1)}
    expected = {key(n % 97 + 1): b"%d" % n for n in range(max(last - 96, 1), last + 1)}
    assert store.contents() == {**expected, key(0): b"%d" % last}
    runs = store.contents(b"\0\0\0\3")
    assert len(runs) == last // RUN_EVERY * RUN_ROWS
    assert set(runs.values()) == {b"%d" % n for n in range(RUN_EVERY, last + 1, RUN_EVERY)}
    store.close()
    return last


@pytest.mark.parametrize("options", [(), ("apart",)], ids=["flushed here", "flushed apart"])
@pytest.mark.parametrize("rounds", [ROUNDS // 2, pytest.param(ROUNDS, marks=pytest.mark.long)])
def test_a_killed_process_loses_nothing_that_it_acknowledged(
    tmp_path: Path, options: tuple[str, ...], rounds: int
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    last = 0
    for _ in range(rounds):
        acknowledged = run_and_kill(tmp_path, chance.uniform(0.0, 0.3), *options)
        assert acknowledged > last
        last = check(tmp_path, acknowledged) if chance.random() < 0.6 else acknowledged
    check(tmp_path, last)
