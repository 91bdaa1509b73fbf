"""What counting and statement statistics cost a point read.

    python -m bench.counting [rounds]

One process serves; another one runs prepared point reads on one connection, with Bind, Execute and Sync in one message
each. Rounds with and without what `RowRunner.run` does for statistics come in turns, on the same connection and
plan. Of each round the processor time of the engine's thread counts, by that thread's own clock, so that whatever else
runs on the machine is not in it; of all rounds the mean of the middle half (every fourth round or so folds what has
been gathered), and of the ratios of neighbours also the quartiles: how far the machine can be trusted.
"""

from __future__ import annotations

import inspect
import statistics
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from typing import Any

import shoal
from engine.session import row_runner as module
from engine.session.row_runner import RowRunner

READS = 1024  # a round
ROWS = 100_000

CLIENT = """
import os, socket, sys
port, reads = int(sys.argv[1]), int(sys.argv[2])
def message(kind, body): return kind + (len(body) + 4).to_bytes(4, "big") + body
connection = socket.create_connection(("127.0.0.1", port))
connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
connection.sendall(message(b"", b"\\0\\3\\0\\0user\\0postgres\\0database\\0postgres\\0\\0"))
def until_ready():
    got = b""
    while not got.endswith(b"Z\\0\\0\\0\\5I"):
        got += connection.recv(65536)
until_ready()
sql = b"SELECT balance FROM accounts WHERE id = $1"
connection.sendall(message(b"P", b"s\\0" + sql + b"\\0\\0\\1\\0\\0\\0\\x17") + message(b"S", b""))
until_ready()
def read(n):
    value = (n * 7919 % 100000 + 1).to_bytes(4, "big")
    bind = b"\\0s\\0\\0\\1\\0\\1\\0\\1\\0\\0\\0\\4" + value + b"\\0\\1\\0\\1"
    return message(b"B", bind) + message(b"E", b"\\0\\0\\0\\0\\0") + message(b"S", b"")
asked = [read(n) for n in range(reads)]
while os.read(0, 1):
    for one in asked:
        connection.sendall(one)
        connection.recv(65536)
    os.write(1, b".")
"""


def without() -> Any:
    """`RowRunner.run` as it is, less the lines that are there for statistics."""
    lines = textwrap.dedent(inspect.getsource(RowRunner.run)).splitlines(keepends=True)
    kept, inside = [], False
    for line in lines:
        inside = inside or line.lstrip().startswith("tally = prepared.tally or")
        if not inside:
            kept.append(line.replace("session.began = began = perf_counter()", "pass"))
        inside = inside and "statements.full(tally)" not in line
    source = "".join(kept)
    assert "perf_counter" not in source and "tally" not in source, source
    names = dict(vars(module))
    exec(source, names)
    return names["run"]


def main(rounds: int) -> None:
    """Prints the figures."""
    with tempfile.TemporaryDirectory() as directory, shoal.open(directory) as db:
        db.execute("CREATE TABLE accounts (id int PRIMARY KEY, balance int)")
        db.execute(f"INSERT INTO accounts SELECT n, n FROM generate_series(1, {ROWS}) n")
        port = db.serve("127.0.0.1:0").rpartition(":")[2].partition("/")[0]
        thread = next(found for found in threading.enumerate() if found.name == "shoal")
        assert thread.ident is not None
        clock = time.pthread_getcpuclockid(thread.ident)
        client = subprocess.Popen(
            [sys.executable, "-c", CLIENT, port, str(READS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        assert client.stdin is not None and client.stdout is not None
        counted = RowRunner.run
        variants = {"with": counted, "without": without()}
        used: dict[str, list[float]] = {name: [] for name in variants}
        for number in range(rounds):
            for name in list(variants) if number % 2 else reversed(variants):
                RowRunner.run = variants[name]  # type: ignore[method-assign]
                before = time.clock_gettime(clock)
                client.stdin.write(b".")
                client.stdout.read(1)
                used[name].append((time.clock_gettime(clock) - before) / READS * 1e6)
        RowRunner.run = counted  # type: ignore[method-assign]
        client.stdin.close()
        client.wait()
    ratios = [one / other for one, other in zip(used["with"], used["without"], strict=True)]
    print(", ".join(f"{name} statistics {middle(times):.2f} us" for name, times in used.items()))
    low, _, high = (quantile * 100 - 100 for quantile in statistics.quantiles(ratios, n=4))
    print(f"cost: {middle(ratios) * 100 - 100:.1f} % of a point read (quartiles {low:.1f} and {high:.1f} %)")


def middle(values: list[float]) -> float:
    """The mean of the middle half."""
    quarter = len(values) // 4
    return statistics.fmean(sorted(values)[quarter : len(values) - quarter])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
