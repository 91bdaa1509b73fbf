"""Change streams beside TPC-B: what they cost the writers, and how far a reader is behind.

    python -m bench.changes [seconds a round]

pgbench with eight clients, prepared: without a stream, with one over its four tables that nobody reads, and with one
that a reader follows by LISTEN. Of each the rate and the processor time of the server's process for a transaction,
which lies less than the rate on a busy machine; the lag is from the commit's time to when the reader has the rows.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from typing import Any

import psutil
import psycopg

from bench.measures import SCALE, environment
from tests.server import ShoalServer

CLIENTS = 8
AT_ONCE = 1000
TABLES = "pgbench_accounts, pgbench_branches, pgbench_tellers, pgbench_history"
READ = "SELECT lsn, (extract(epoch FROM commit_time) * 1000000)::bigint FROM shoal_changes('bench', %s, %s)"


class Reader(threading.Thread):
    """Follows the stream until `over`; `lags` in seconds, one a transaction."""

    def __init__(self, dsn: str) -> None:
        super().__init__(daemon=True)
        self._connection: psycopg.Connection[Any] = psycopg.connect(dsn, autocommit=True)
        self.over = threading.Event()
        self.lags: list[float] = []

    def run(self) -> None:
        connection = self._connection
        connection.execute('LISTEN "shoal.bench"')
        found = connection.execute("SELECT shoal_change_stream_snapshot('bench')").fetchone()
        last = found[0] if found else 0
        while not self.over.is_set():
            rows = connection.execute(READ, (last, AT_ONCE)).fetchall()
            now = time.time()
            self.lags += [now - committed / 1e6 for committed in dict(rows).values()]
            if rows:
                last = rows[-1][0]
                connection.execute("SELECT shoal_change_stream_advance('bench', %s)", (last,))
            if len(rows) < AT_ONCE:
                for _ in connection.notifies(timeout=0.2, stop_after=1):
                    pass
        connection.close()


def transactions(server: ShoalServer, seconds: int) -> tuple[float, float]:
    """(transactions a second, microseconds of the server's processor time for each)."""
    process = psutil.Process(server.pid)
    before = process.cpu_times()
    words = ["pgbench", "-n", "-M", "prepared", "-c", str(CLIENTS), "-T", str(seconds)]
    out = subprocess.run(words, env=environment(server), capture_output=True, text=True, check=True).stdout
    after = process.cpu_times()
    done = int(re.search(r"actually processed: (\d+)", out)[1])  # type: ignore[index]
    rate = float(re.search(r"tps = ([\d.]+)", out)[1])  # type: ignore[index]
    used = after.user + after.system - before.user - before.system
    return rate, used / done * 1e6


def main(seconds: int) -> None:
    """Prints the figures."""
    with ShoalServer() as server, psycopg.connect(server.dsn, autocommit=True) as connection:
        words = ["pgbench", "-i", "-q", "-s", str(SCALE)]
        subprocess.run(words, env=environment(server), capture_output=True, check=True)
        transactions(server, 2)
        for name in ("without a stream", "with a stream that nobody reads", "without a stream", "with a reader"):
            reader = None
            if "with " in name:
                connection.execute(f"CREATE CHANGE STREAM bench FOR TABLE {TABLES}".encode())
            if name == "with a reader":
                reader = Reader(server.dsn)
                reader.start()
            rate, used = transactions(server, seconds)
            print(f"{name}: {rate:,.0f} tps, {used:,.0f} us of the server's process a transaction", flush=True)
            if reader is not None:
                reader.over.set()
                reader.join()
                lags = sorted(reader.lags)
                p50, p99 = (lags[int(len(lags) * part)] * 1000 for part in (0.5, 0.99))
                print(f"lag: p50 {p50:.1f} ms, p99 {p99:.1f} ms, most {lags[-1] * 1000:.1f} ms, {len(lags):,} commits")
            connection.execute("DROP CHANGE STREAM IF EXISTS bench")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
