"""Branches: what one costs to make, to read, and those who write to its parent.

    python -m bench.branches

A million pgbench accounts, branched; then single rows and sums in the parent and the branch, and single updates of the
parent before and after, each in turns: medians.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import time
from collections.abc import Callable

import psycopg

from bench.measures import environment
from tests.server import ShoalServer

SCALE = 10
TURNS = 300
ROW = "SELECT abalance FROM pgbench_accounts WHERE aid = %s"
SUM = "SELECT sum(abalance), count(*) FROM pgbench_accounts"
CHANGE = "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = %s"


def timed(work: Callable[[], object]) -> float:
    """Seconds."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def medians(works: dict[str, Callable[[], object]], turns: int) -> str:
    """Of each, in turns, in milliseconds."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(turns):
        for name, work in works.items():
            found[name].append(timed(work))
    return ", ".join(f"{name} {statistics.median(times) * 1000:.2f} ms" for name, times in found.items())


def main() -> None:
    """Prints the figures."""
    chance = random.Random(1)

    def one() -> tuple[int]:
        return (chance.randrange(SCALE * 100_000) + 1,)

    with ShoalServer() as server:
        subprocess.run(
            ["pgbench", "-i", "-q", "-s", str(SCALE)], env=environment(server), capture_output=True, check=True
        )
        with psycopg.connect(server.dsn, autocommit=True) as parent:
            parent.execute("CHECKPOINT")
            before = medians({"alone": lambda: parent.execute(CHANGE, one())}, TURNS)
            print(f"CREATE DATABASE: {timed(lambda: parent.execute('CREATE DATABASE b FROM postgres')) * 1000:.1f} ms")
            print(f"one row changed in the parent: {before}", end="")
            print(f", with a branch {medians({'': lambda: parent.execute(CHANGE, one())}, TURNS).strip()}")
            parent.execute("CHECKPOINT")
            with psycopg.connect(server.dsn.replace("dbname=postgres", "dbname=b"), autocommit=True) as branch:
                parent.execute(SUM)
                print(f"first sum in the branch: {timed(lambda: branch.execute(SUM)):.2f} s")
                for name, query, turns in (("one row", ROW, TURNS), ("sum over all rows", SUM, 20)):
                    works = {
                        "parent": lambda query=query: parent.execute(query, one() if query is ROW else None),
                        "branch": lambda query=query: branch.execute(query, one() if query is ROW else None),
                    }
                    print(f"{name}: {medians(works, turns)}", flush=True)
            sizes = parent.execute("SELECT datname, pg_database_size(datname) / 1e6 FROM pg_database").fetchall()
            print(", ".join(f"{name} {size:.2f} MB" for name, size in sizes))
            print(f"DROP DATABASE: {timed(lambda: parent.execute('DROP DATABASE b')) * 1000:.1f} ms")


if __name__ == "__main__":
    main()
