"""A cluster beside a single node, and beside the bare floor of a commit: `python -m bench.cluster`.

Three ZooKeeper servers with fsync, three nodes over a changelog store in a directory, and a single-node Shoal, all on
this machine and running at the same time; what is compared is measured in turn, in the same round.

    commit latency    an INSERT of one client, against one PUT and one multi (bench/floor.py)
    inserts           64 clients against one client, each INSERT a transaction
    TPC-B             32 clients of pgbench on the leader, against the same on the single node
    follower lag      in another run of that: from the acknowledgement of a commit until a follower shows it, which is
                      asked without a pause, and so takes processor time of its own
    fail-over         from SIGKILL of the leader to the first INSERT that is acknowledged
    new replica       a node with an empty directory joins, until it lets clients in; a million rows

Exit status: 0 when every measure is at its floor or better, 1 when one is not, 2 when the bench could not run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import pathlib
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import psycopg

from bench.floor import bare_floor
from bench.measures import ROWS, load, pgbench, required_programs
from bench.report import RESULTS, machine
from tests.cluster import ShoalCluster
from tests.server import ShoalServer
from tests.zookeeper_server import ZooKeeper

EXAMPLES = """examples:
  python -m bench.cluster                  three rounds: about five minutes
  python -m bench.cluster --quick          one short round
  python -m bench.cluster --only inserts   measures whose name contains this; may be given more than once
"""
SESSION_TIMEOUT = 4.0  # seconds
MANY = 64
CLIENTS = 32
PIECES = 8  # of a round of commit latency
HEADER = f"{'measure':<38}{'cluster':>12}{'beside':>12}{'ratio':>8}{'floor':>10}  verdict"
INSERT = "\\set a random(1, 1000000000)\nINSERT INTO inserted (b) VALUES (:a);\n"


@dataclass(slots=True)
class Line:
    """A measure's rounds. `unit` is 'ms', 's' or 'tps'; `beside` is what it is compared with, empty if with nothing.

    `most` bounds the value, or with `beside` its ratio, from above, `least` from below.
    """

    name: str
    unit: str
    most: float | None = None
    least: float | None = None
    values: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    def ratio(self) -> float | None:
        """Of the medians; None where nothing stands beside it."""
        if not self.beside or not self.values or not statistics.median(self.beside):
            return None
        return statistics.median(self.values) / statistics.median(self.beside)

    def holds(self) -> bool:
        if self.troubles or not self.values:
            return False
        ratio = self.ratio()
        value = statistics.median(self.values) if ratio is None else ratio
        return (self.most is None or value <= self.most) and (self.least is None or value >= self.least)

    def text(self) -> str:
        """The table's line; troubles follow on lines of their own."""
        ratio = self.ratio()
        bound = f"<= {self.most:g}" if self.most is not None else f">= {self.least:g}" if self.least is not None else ""
        line = f"{self.name:<38}{self._shown(self.values):>12}{self._shown(self.beside):>12}"
        line += f"{f'{ratio:.2f}' if ratio is not None else '':>8}{bound:>10}"
        line += f"  {('ok' if self.holds() else 'below') if bound else ''}"
        return "\n".join([line, *(f"    {text}" for text in dict.fromkeys(self.troubles))])

    def _shown(self, values: list[float]) -> str:
        if not values:
            return ""
        value = statistics.median(values)
        return f"{value:,.0f} tps" if self.unit == "tps" else f"{value:.2f} {self.unit}"


@dataclass(frozen=True, slots=True)
class Place:
    """A node as bench/measures.py sees a server."""

    port: int

    @property
    def dsn(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres"


class Bench:
    """The servers, and what is asked of them."""

    def __init__(self, cluster: ShoalCluster, single: ShoalServer, seconds: int, script: pathlib.Path) -> None:
        self.cluster = cluster
        self.single = single
        self.seconds = seconds
        self.script = str(script)
        self.floors = 0  # measured so far

    @property
    def leader(self) -> Place:
        return Place(self.cluster.nodes[self.cluster.leader()].port)

    def prepare(self) -> None:
        """Tables and a million rows in both, on all nodes and on the disk. Raises RuntimeError."""
        for place in (self.leader, Place(self.single.port)):
            load(place)
            with psycopg.connect(place.dsn, autocommit=True) as connection:
                connection.execute("CREATE TABLE inserted (a bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, b int)")
                connection.execute("CREATE TABLE marker (a int PRIMARY KEY, n int)")
                connection.execute("INSERT INTO marker VALUES (1, 0)")
        for port in (*(node.port for node in self.cluster.nodes.values()), self.single.port):
            with psycopg.connect(Place(port).dsn, autocommit=True) as connection:
                connection.execute("SELECT count(*) FROM pgbench_accounts")
                connection.execute("CHECKPOINT")

    def commit_latency(self, line: Line) -> None:
        """Milliseconds of an INSERT, and of the bare floor: in turn, so that a busy moment of the machine hits both."""
        rounds = 10 * self.seconds
        taken = []
        with psycopg.connect(self.leader.dsn, autocommit=True) as connection:
            for _ in range(PIECES):
                self.floors += 1
                store = f"file://{self.cluster.directory}/bare-{self.floors}"
                url = self.cluster.zookeeper.url(f"bare-{self.floors}")
                line.beside.append(bare_floor(url, store, rounds).both * 1000)
                connection.execute("INSERT INTO inserted (b) VALUES (0)")
                for number in range(rounds):
                    began = time.perf_counter()
                    connection.execute("INSERT INTO inserted (b) VALUES (%s)", (number,))
                    taken.append(time.perf_counter() - began)
                line.values.append(statistics.median(taken[-rounds:]) * 1000)

    def inserts(self, line: Line) -> None:
        """Transactions a second of many clients, and of one."""
        for clients, results in ((1, line.beside), (MANY, line.values)):
            result = pgbench(clients, self.seconds, "-f", self.script, "-M", "prepared")(self.leader)
            results.append(result.value)
            line.troubles += result.troubles

    def tpcb(self, line: Line) -> None:
        """Transactions a second on the leader, and on the single node."""
        run = pgbench(CLIENTS, self.seconds, "-M", "prepared")
        for place, results in ((Place(self.single.port), line.beside), (self.leader, line.values)):
            result = run(place)
            results.append(result.value)
            line.troubles += result.troubles

    def lag(self, line: Line) -> None:
        """Milliseconds that the followers are behind at that load."""
        with lag_measured(self, line):
            result = pgbench(CLIENTS, self.seconds, "-M", "prepared")(self.leader)
        line.troubles += result.troubles

    def fail_over(self, line: Line) -> None:
        """Seconds from SIGKILL of the leader to the next commit; the killed node comes back before the next round."""
        victim = self.cluster.leader()
        others = [node.port for name, node in self.cluster.nodes.items() if name != victim]
        self.cluster.kill(victim)
        began = time.monotonic()
        while time.monotonic() - began < 60:
            for port in others:
                with contextlib.suppress(psycopg.Error), psycopg.connect(Place(port).dsn, autocommit=True) as client:
                    client.execute("INSERT INTO inserted (b) VALUES (0)")
                    line.values.append(time.monotonic() - began)
                    self.cluster.start(victim)
                    return
            time.sleep(0.01)
        line.troubles.append("no commit within a minute")

    def new_replica(self, line: Line) -> None:
        """Seconds until a node that begins with nothing lets clients in with all rows."""
        began = time.monotonic()
        name = self.cluster.add()
        line.values.append(time.monotonic() - began)
        with self.cluster.connect(name) as connection:
            connection.execute("SET read_consistency = 'eventual'")
            if connection.execute("SELECT count(*) FROM pgbench_accounts").fetchone() != (ROWS,):
                line.troubles.append("rows are missing")
        self.cluster.remove(name)


@contextlib.contextmanager
def lag_measured(bench: Bench, line: Line) -> Iterator[None]:
    """Milliseconds from the acknowledgement of a commit until each follower shows it; the 99th percentile of the whole
    block is its value."""
    stop, lags = threading.Event(), []
    leader = bench.leader

    def probe(follower: psycopg.Connection[Any], number: int) -> float:
        began = time.perf_counter()
        while follower.execute("SELECT n FROM marker WHERE a = 1").fetchone() != (number,):
            if time.perf_counter() - began > 10:
                break
        return (time.perf_counter() - began) * 1000

    def watch() -> None:
        with contextlib.ExitStack() as stack:
            writer = stack.enter_context(psycopg.connect(leader.dsn, autocommit=True))
            followers = [stack.enter_context(bench.cluster.connect(name)) for name in bench.cluster.followers()]
            for follower in followers:
                follower.execute("SET read_consistency = 'eventual'")
            row = writer.execute("SELECT n FROM marker WHERE a = 1").fetchone()
            assert row is not None
            number = row[0]
            while not stop.wait(0.02):
                number += 1
                writer.execute("UPDATE marker SET n = %s WHERE a = 1", (number,))
                lags.append(probe(followers[number % len(followers)], number))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()
    if len(lags) < 10:
        line.troubles.append(f"only {len(lags)} commits were followed")
    else:
        line.values.append(sorted(lags)[int(len(lags) * 0.99)])


def lines() -> dict[str, Line]:
    """The measures, by what runs them."""
    return {
        "commit_latency": Line("commit latency, 1 client | PUT + multi", "ms", most=1.5),
        "inserts": Line(f"inserts, {MANY} clients | 1 client", "tps", least=10),
        "tpcb": Line(f"TPC-B, {CLIENTS} clients | single node", "tps", least=0.6),
        "lag": Line("follower lag p99 at that load", "ms", most=50),
        "fail_over": Line("fail-over after SIGKILL", "s", most=SESSION_TIMEOUT + 1),
        "new_replica": Line("new replica of 1M rows", "s", most=30),
    }


def measure(bench: Bench, chosen: dict[str, Line], rounds: int) -> None:
    """Everything that is chosen, round by round; what ends processes comes last."""
    for _ in range(rounds):
        if "commit_latency" in chosen:
            bench.commit_latency(chosen["commit_latency"])
        if "inserts" in chosen:
            bench.inserts(chosen["inserts"])
        if "tpcb" in chosen:
            bench.tpcb(chosen["tpcb"])
        if "lag" in chosen:
            bench.lag(chosen["lag"])
    for name in ("new_replica", "fail_over"):
        for _ in range(rounds if name in chosen else 0):
            getattr(bench, name)(chosen[name])


def run(options: argparse.Namespace) -> int:
    """The whole bench; the exit status."""
    rounds = options.rounds or (1 if options.quick else 3)
    seconds = options.seconds or (3 if options.quick else 6)
    only = options.only or [""]
    chosen = {key: line for key, line in lines().items() if any(part.lower() in line.name.lower() for part in only)}
    with contextlib.ExitStack() as stack:
        zookeeper = stack.enter_context(ZooKeeper(3, sync=True))
        settings = {"session_timeout": SESSION_TIMEOUT, "commit_timeout": 10.0}
        cluster = stack.enter_context(ShoalCluster(3, zookeeper=zookeeper, settings=settings))
        single = stack.enter_context(ShoalServer())
        script = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shoal-bench-"))) / "insert.sql"
        script.write_text(INSERT)
        bench = Bench(cluster, single, seconds, script)
        bench.prepare()
        print(HEADER, flush=True)
        try:
            measure(bench, chosen, rounds)
        finally:
            for line in chosen.values():
                print(line.text(), flush=True)
    print(f"every round: {write_json(chosen, {'rounds': rounds, 'seconds': seconds, 'only': options.only})}")
    return 0 if all(line.holds() for line in chosen.values()) else 1


def write_json(chosen: dict[str, Line], given: dict[str, object]) -> pathlib.Path:
    """Every round of every measure, in bench/results/cluster-<time>.json."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / time.strftime("cluster-%Y%m%d-%H%M%S.json")
    measures = [asdict(line) | {"ratio": line.ratio(), "holds": line.holds()} for line in chosen.values()]
    path.write_text(json.dumps({"machine": machine(), "options": given, "measures": measures}, indent=1) + "\n")
    return path


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        prog="python -m bench.cluster",
        description="A cluster of three nodes and three ZooKeeper servers on this machine, beside a single node.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--rounds", type=int, help="rounds, of which the median counts (default 3; 1 with --quick)")
    top.add_argument("--seconds", type=int, help="seconds of each pgbench run (default 6; 3 with --quick)")
    top.add_argument("--only", action="append", metavar="NAME", help="only measures whose name contains NAME")
    top.add_argument("--quick", action="store_true", help="one round of short runs")
    return top


def main() -> int:
    """Runs the bench; the exit status."""
    options = parser().parse_args()
    logging.getLogger("shoal").setLevel(logging.ERROR)
    try:
        required_programs()
        return run(options)
    except (RuntimeError, AssertionError, psycopg.Error) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
