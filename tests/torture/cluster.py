"""The torture of a cluster: load on all nodes, a nemesis, and then everything is compared.

    python -m tests.torture.cluster --seconds 300 --seed 7 --store quorum

Prints what was done and the figures; exits with 1 if anything is wrong, and keeps the directory. The seed decides what
the nemesis and the clients choose, not when the machine does it.
"""

from __future__ import annotations

import argparse
import asyncio
import pathlib
import random
import statistics
import sys
import time
from collections import Counter

from tests.cluster import ShoalCluster
from tests.torture.checks import (
    check_increments,
    check_inserts,
    check_logs,
    check_replicas,
    check_terms,
    check_transfers,
    terms,
)
from tests.torture.faults import FAULTS
from tests.torture.history import Outcome
from tests.torture.load import BALANCE, Load
from tests.torture.nemesis import Nemesis
from tests.torture.replicas import Replayed, replay

HOOKS = ["tests.torture.steps.install"]
SETTINGS = {"session_timeout": 1.0}  # fail-overs come quickly
LIMITS: dict[str, dict[str, float]] = {
    "log": {"ledger_bytes": 200_000, "housekeeping": 2.0, "time_to_live": 3600.0},
    "storage": {"flush_bytes": 400_000, "flush_versions": 4_000},
}


def main() -> int:
    options = _options()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}", flush=True)
    hooks = [*HOOKS, *(f"tests.torture.faults.{name}" for name in options.hooks)]
    with ShoalCluster(
        options.nodes, zookeepers=options.zookeepers, store=options.store, settings=SETTINGS, limits=LIMITS, hooks=hooks
    ) as cluster:
        run = Run(cluster, seed, only=options.only)
        found = run.run(options.seconds)
        for line in run.figures():
            print(line)
        if found:
            cluster.keep = True
            print("\n".join(["", "WRONG:", *found, f"kept: {cluster.directory}"]))
    return 1 if found else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120.0, help="how long the nemesis works (default: 120)")
    parser.add_argument("--seed", type=int, help="repeats the choices of a run")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--zookeepers", type=int, default=3)
    parser.add_argument("--store", default="quorum", choices=("file", "log", "quorum"))
    parser.add_argument("--only", default="", help="of the nemesis' actions, those with this in their name")
    parser.add_argument(
        "--impatient",
        dest="hooks",
        action="append_const",
        const="impatient",
        default=[],
        help="nodes take the leadership from each other every few seconds",
    )
    parser.add_argument(
        "--plant",
        dest="hooks",
        action="append",
        choices=FAULTS,
        help="plants a fault in the nodes: the run must then go wrong",
    )
    return parser.parse_args()


class Run:
    """One run on a cluster that stands."""

    def __init__(self, cluster: ShoalCluster, seed: int, *, only: str = "") -> None:
        self.cluster = cluster
        self.load = Load(cluster, seed)
        self.began = time.monotonic()
        self.nemesis = Nemesis(cluster, self.load, seed, self._tell, only)
        self.epochs = 0
        self.lsn = 0

    def _tell(self, text: str) -> None:
        print(f"{time.monotonic() - self.began:7.1f} s  {text}", flush=True)

    def run(self, seconds: float) -> list[str]:
        """What is wrong."""
        self.strain(seconds)
        return self.judge()

    def strain(self, seconds: float) -> None:
        """Load and nemesis, until the first problem."""
        self.load.prepare()
        self.load.start()
        self.began = time.monotonic()
        self.nemesis.run(seconds)

    def judge(self) -> list[str]:
        """What is wrong when everything runs again, and then is stopped."""
        self._tell("comparing")
        found = []
        try:
            self.nemesis.heal()
        except Exception as error:
            found.append(f"when everything is to run again: {error!r}")
        self.load.stop()
        found += self.load.history.problems
        try:
            self.cluster.leader()
            self.nemesis.everywhere()
            self.cluster.wait_for_applied()
            for name in self.cluster.nodes:
                found += [f"{name}: {problem}" for problem in self._ask(name)]
            found += self._compare()
        except Exception as error:
            found.append(f"after the load: {error!r}")
        return found + check_logs({name: node.text(0) for name, node in self.cluster.nodes.items()})

    def _ask(self, name: str) -> list[str]:
        """What a running node says, once by whole tables and once by single rows."""
        history = self.load.history
        with self.cluster.connect(name) as connection:

            def rows(text: str) -> list[tuple[int, ...]]:
                return [tuple(map(int, row)) for row in connection.execute(text.encode()).fetchall()]

            inserts = [(one, n) for one, n in rows("SELECT client, n FROM inserts")]
            marks = {(one, n): count for one, n, count in rows("SELECT client, n, count(*) FROM marks GROUP BY 1, 2")}
            accounts = {one: balance for one, balance in rows("SELECT id, balance FROM accounts")}
            transfers = [(r[0], r[1], r[2], r[3], r[4]) for r in rows("SELECT * FROM transfers")]
            counters = {one: n for one, n in rows("SELECT id, n FROM counters")}
            found = check_inserts(history, inserts, marks)
            found += check_transfers(history, BALANCE, accounts, transfers)
            found += check_increments(history, counters)
            for one, balance in accounts.items():
                if rows(f"SELECT balance FROM accounts WHERE id = {one}") != [(balance,)]:
                    found.append(f"account {one} differs between the row path and the columnar path")
            for one, n in random.Random(1).sample(inserts, min(len(inserts), 100)):
                if rows(f"SELECT client, n FROM inserts WHERE twin = {n * 100 + one}") != [(one, n)]:
                    found.append(f"({one}, {n}) is not found by its twin")
        return found

    def _compare(self) -> list[str]:
        """All nodes stopped: their directories, and replicas made of the logs alone."""
        cluster = self.cluster
        statuses = {name: cluster.stop_politely(name) for name in cluster.nodes}
        found = [f"{name} ended with {status}" for name, status in statuses.items() if status]
        for tablespace in cluster.watcher.children("tablespaces"):
            found += self._compare_tablespace(tablespace)
        return found

    def _compare_tablespace(self, tablespace: str) -> list[str]:
        """`tablespace`: its id, 32 hexadecimal digits."""
        cluster = self.cluster
        main = tablespace == cluster.tablespace

        def replayed(data: pathlib.Path) -> Replayed:
            return asyncio.run(replay(cluster.url, cluster.store_url, bytes.fromhex(tablespace), data))

        whole = replayed(cluster.directory / "replayed" / tablespace)
        replicas = {"the log": whole}
        for name, node in cluster.nodes.items():
            replicas[name] = replayed(node.data if main else node.data / "tablespaces" / tablespace)
        led = terms((node.text(0) for node in cluster.nodes.values()), tablespace)
        if main:
            self.epochs, self.lsn = len({term.epoch for term in led}), whole.digest.lsn
        found = check_replicas({name: (item.digest.lsn, item.digest.total) for name, item in replicas.items()})
        found += check_terms(led, cluster.ledgers(tablespace), whole.entries)
        return [f"tablespace {tablespace}: {problem}" for problem in found]

    def figures(self) -> list[str]:
        """What was tried, and how it went."""
        history, nemesis = self.load.history, self.nemesis
        events = history.events()
        times = sorted(seconds for _, seconds in nemesis.failovers)
        states = Counter(f"{event.outcome.value} {event.sqlstate}" for event in events if event.sqlstate)
        longest = max((event.ended - event.begun for event in events), default=0.0)
        lines = [
            f"{len(events)} transactions: " + ", ".join(f"{count} {name}" for name, count in history.counts().items()),
            f"{history.reads} rounds of reads; longest piece of work {longest:.1f} s",
            "answers: " + ", ".join(f"{name} {count}" for name, count in states.most_common()),
            f"{nemesis.kills} kills, {sum(nemesis.done.values())} actions, {self.epochs} epochs, LSN {self.lsn}",
            "actions: " + ", ".join(f"{name} {count}" for name, count in sorted(nemesis.done.items())),
        ]
        if times:
            p99 = times[min(int(len(times) * 0.99), len(times) - 1)]
            lines.append(f"fail-over after {len(times)} kills: p50 {statistics.median(times):.2f} s, p99 {p99:.2f} s")
            slowest = sorted(nemesis.failovers, key=lambda item: -item[1])[:3]
            lines.append("the slowest: " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in slowest))
        acknowledged = sum(event.outcome is Outcome.ACKNOWLEDGED for event in events)
        lines.append(f"{acknowledged} acknowledged")
        return lines


if __name__ == "__main__":
    sys.exit(main())
