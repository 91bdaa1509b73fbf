"""`python -m bench`: starts Shoal and PostgreSQL side by side, measures them in turn, prints the table.

Exit status: 0 when every measure is at its floor or better, 1 when one is below, 2 when the bench could not run.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial

import psycopg

from bench import measures, routines
from bench.measures import Measure, Result, Server, pgbench
from bench.report import HEADER, Line, write_json
from bench.uncached import expressions, joins, uncached
from tests.oracle import PostgresServer
from tests.server import ShoalServer

EXAMPLES = """examples:
  python -m bench                        everything, three rounds: about seven minutes
  python -m bench --quick                one short round: a minute and a half
  python -m bench --only "GROUP BY"      measures whose name contains this; may be given more than once
  python -m bench --big                  also the memory that a load of ten million rows takes
"""
BIG_ROWS = 10_000_000


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        prog="python -m bench",
        description="Shoal beside PostgreSQL on this machine, both with their defaults.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--rounds", type=int, help="rounds, of which the median counts (default 3; 1 with --quick)")
    top.add_argument("--seconds", type=int, help="seconds of each pgbench run (default 4; 2 with --quick)")
    top.add_argument("--only", action="append", metavar="NAME", help="only measures whose name contains NAME")
    top.add_argument("--quick", action="store_true", help="one round of short runs")
    top.add_argument("--big", action="store_true", help="also load ten million rows and watch the memory")
    return top


def measured(seconds: int, copy_file: pathlib.Path) -> list[Measure]:
    """What needs both servers loaded, in the order in which it is run: what changes tables comes last."""
    found = [
        Measure("COPY 1M rows in", "time", 0.5, measures.copy_in(copy_file)),
        Measure("SELECT * of 1M rows, the first", "time", 0, measures.select_all, once=True),
        Measure("SELECT * of 1M rows", "time", 0.8, measures.select_all),
        Measure("GROUP BY over 1M rows, warm", "time", 5.0, measures.group_by),
        Measure("GROUP BY after 1,000 changes: +", "extra", 40, measures.group_by_after_changes),
    ]
    found.append(Measure("SELECT with a join, new each time", "rate", 0, uncached(joins)))
    found.append(Measure("small queries, new each time", "rate", 0, uncached(expressions)))
    found += [
        Measure("PL/pgSQL, 10 statements a call", "rate", 1 / 1.5, routines.calls),
        Measure("PL/pgSQL, 1M additions", "time", 1 / 3, routines.loop),
        Measure("100,000 rows by a BEFORE trigger", "time", 0.5, routines.before_row),
        Measure("TPC-B, what an audit trigger adds", "time", 1 / 1.5, routines.audit),
    ]
    for mode in ("simple", "prepared"):
        for clients in (1, 8, 32):
            run = pgbench(clients, seconds, "-S", "-M", mode)
            found.append(Measure(f"pgbench -S {mode}, {clients} clients", "rate", 0.8 if clients == 1 else 1.0, run))
    for mode in ("simple", "prepared"):
        for clients in (1, 8, 32):
            run = pgbench(clients, seconds, "-M", mode)
            found.append(Measure(f"TPC-B {mode}, {clients} clients", "rate", 0.7 if clients == 1 else 0.8, run))
    return found


def chosen(name: str, only: list[str] | None) -> bool:
    """Whether --only lets a measure run."""
    return not only or any(part.lower() in name.lower() for part in only)


def attempt(run: Callable[[Server], Result], server: Server) -> Result:
    """A measure's result; what made it fail becomes its trouble, so that the others still run."""
    try:
        return run(server)
    except (psycopg.Error, RuntimeError) as error:
        return Result(0.0, [" ".join(str(error).split())[:200]])


def compare(lines: list[Line], shoal: Server, postgres: Server, rounds: int) -> None:
    """Runs each measure on both, in turn; who begins alternates."""
    for line in lines:
        for number in range(1 if line.measure.once else rounds):
            pairs = [(line.shoal, shoal), (line.postgres, postgres)]
            for results, server in pairs if number % 2 == 0 else reversed(pairs):
                results.append(attempt(line.measure.run, server))
        print(line.text(), flush=True)


def idle_memory(server: Server) -> Result:
    """Megabytes (Pss) of both processes after the start and one analytic query of an empty table."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE empty (a int, b int)")
        connection.execute("SELECT a, sum(b) FROM empty GROUP BY ROLLUP (a)").fetchall()  # never on the row path
        troubles = [] if isinstance(server, ShoalServer) and server.workers() else ["the worker was not asked"]
        return Result(used(server, "Pss"), troubles)


def used(server: Server, kind: str) -> float:
    """Megabytes of Shoal's processes together."""
    assert isinstance(server, ShoalServer)
    return measures.total_memory([server.pid, *server.children()])[kind]


def big_load(kind: str, server: Server) -> Result:
    """Megabytes by which the server's memory grew at most while ten million rows were loaded."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE big (a int PRIMARY KEY, b int, c text)")
        peak = start = used(server, kind)
        done = threading.Event()

        def watch() -> None:
            nonlocal peak
            while not done.wait(0.2):
                with contextlib.suppress(OSError):
                    peak = max(peak, used(server, kind))

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            with connection.cursor() as cursor, cursor.copy("COPY big FROM STDIN") as copy:
                for block in blocks():
                    copy.write(block)
        finally:
            done.set()
            watcher.join()
        return Result(peak - start)


def blocks() -> Iterator[str]:
    """Ten million rows as COPY text, ten thousand at a time."""
    for start in range(0, BIG_ROWS, 10_000):
        yield "".join(f"{number}\t{number % 1000}\tname of row {number}\n" for number in range(start, start + 10_000))


def alone(only: list[str] | None, big: bool) -> list[Line]:
    """Measures of Shoal by itself, each on a server just started."""
    found = [Measure("memory, idle", "size", 250, idle_memory)]
    if big:
        found.append(Measure("memory, load of 10M rows: + own", "size", 0, partial(big_load, "Pss_Anon")))
        found.append(Measure("memory, load of 10M rows: + all", "size", 0, partial(big_load, "Pss")))
    return [Line(measure) for measure in found if chosen(measure.name, only)]


def run(options: argparse.Namespace) -> int:
    """The whole bench; the exit status."""
    rounds = options.rounds or (1 if options.quick else 3)
    seconds = options.seconds or (2 if options.quick else 4)
    print(HEADER)
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as directory:
        copy_file = pathlib.Path(directory) / "accounts.txt"
        lines = [Line(item) for item in measured(seconds, copy_file) if chosen(item.name, options.only)]
        single = alone(options.only, options.big)
        for line in single:
            with ShoalServer() as fresh:
                line.shoal.append(attempt(line.measure.run, fresh))
            print(line.text(), flush=True)
        if lines:
            measures.write_copy_file(copy_file)
            with ShoalServer() as shoal, PostgresServer(()) as postgres:
                loading = Line(Measure("pgbench -i -s 10", "time", 0, measures.load))
                compare([loading], shoal, postgres, 1)
                compare(lines, shoal, postgres, rounds)
                for trouble in measures.agreement(shoal):
                    print(f"TPC-B: {trouble}")
                lines.insert(0, loading)
        lines += single
    given = {"rounds": rounds, "seconds": seconds, "only": options.only}
    print(f"every round: {write_json(lines, given)}")
    return 0 if all(line.holds() for line in lines) else 1


def main() -> int:
    """Runs the bench; the exit status."""
    options = parser().parse_args()
    try:
        measures.required_programs()
        return run(options)
    except (RuntimeError, psycopg.Error) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
