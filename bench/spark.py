"""`python -m bench.spark`: Spark's stock JDBC source and the data source `shoal`, beside PostgreSQL in the same run.

One session on local[2], one million rows of ten mixed columns. What is read goes to Spark's `noop` sink, which takes
every row and keeps none.

    JDBC read, JDBC write     PostgreSQL's time / Shoal's, both by stock JDBC
    shoal read, shoal write   the time of stock JDBC on Shoal / that of the data source
    memory, 10,000,000 rows   with --big: the most memory of the server's processes while they are written; pages of
                              files that are mapped, which the kernel may take back, are told apart

A job begins when the server of the one before has become quiet. A second table says what a row costs the servers in
processor time, which depends less than seconds do on what else the machine does. No job may take longer than LIMIT, no
round begins after --minutes: the bench ends by itself.

Exit status: 0 when every measure is at its floor or better, 1 when one is below.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable

import psutil
import psycopg
from pyspark.sql import DataFrame, SparkSession

from bench.measures import Measure, Result, Server, total_memory
from bench.report import HEADER, Line, write_json
from shoal_spark import ShoalDataSource
from tests.oracle import PostgresServer
from tests.server import ROOT, ShoalServer

EXAMPLES = """examples:
  python -m bench.spark                  three rounds of one million rows
  python -m bench.spark --rounds 1       one round
  python -m bench.spark --big            also the server's memory while ten million rows are written
"""
JDBC_DRIVER = "/usr/share/java/postgresql.jar"
BIG_ROWS = 10_000_000
WARM_ROWS = 250_000
SETTLE = 1.0  # seconds for which servers do nothing before the next job begins: what they do behind one is its own
SETTLE_LIMIT = 20.0
QUIET = 0.03  # share of a processor
PROGRESS = 10.0
LIMIT = 900.0  # seconds of a job; one that takes longer is cancelled, and ends the bench
MEMORY_FLOOR = 1024  # megabytes
_COLUMNS = (
    "id", "cast(id % 1000 as int) as g", "cast(id % 7 as smallint) as s", "id / 3 as f", "id % 2 = 0 as b",
    "cast(id / 4 as decimal(12, 2)) as n", "concat('name of row ', id) as t", "concat('word ', id % 100) as w",
    "date_add(date'2024-01-01', cast(id % 400 as int)) as d", "timestamp_seconds(1704067200 + id) as ts",
)  # fmt: skip


def rows(spark: SparkSession, count: int) -> DataFrame:
    """`count` rows of ten columns in four partitions."""
    return spark.range(0, count, 1, 4).selectExpr(*_COLUMNS)


def session() -> SparkSession:
    """local[2] with two gigabytes."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    made = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.jars", JDBC_DRIVER)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("ERROR")
    made.dataSource.register(ShoalDataSource)
    return made


class Ways:
    """What is measured: each takes a server and gives seconds."""

    def __init__(self, spark: SparkSession, count: int) -> None:
        self._spark = spark
        self._count = count

    def _options(self, server: Server, by_jdbc: bool, table: str) -> dict[str, str]:
        place = f"postgresql://127.0.0.1:{server.port}/postgres?user=postgres"
        if not by_jdbc:
            return {"url": place, "dbtable": table}
        return {"url": f"jdbc:{place}", "dbtable": table, "driver": "org.postgresql.Driver", "fetchsize": "10000"}

    def write(self, server: Server, by_jdbc: bool) -> float:
        """Appends all rows to a table with a primary key that holds none."""
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("DROP TABLE IF EXISTS bench_spark")
            connection.execute(
                "CREATE TABLE bench_spark (id bigint PRIMARY KEY, g int, s smallint, f float8, b bool,"
                " n numeric(12, 2), t text, w text, d date, ts timestamptz)"
            )
        frame = rows(self._spark, self._count)
        writer = frame.write.format("jdbc" if by_jdbc else "shoal").options(
            **self._options(server, by_jdbc, "bench_spark")
        )
        return self._seconds(lambda: writer.mode("append").save())

    def read(self, server: Server, by_jdbc: bool) -> float:
        """Reads all rows, by JDBC in four parts."""
        options = self._options(server, by_jdbc, "bench_spark")
        options["numPartitions"] = "4"
        if by_jdbc:
            options |= {"partitionColumn": "id", "lowerBound": "0", "upperBound": str(self._count)}
        frame = self._spark.read.format("jdbc" if by_jdbc else "shoal").options(**options).load()
        return self._seconds(lambda: frame.write.format("noop").mode("overwrite").save())

    def _seconds(self, action: Callable[[], object]) -> float:
        guard = threading.Timer(LIMIT, self._spark.sparkContext.cancelAllJobs)
        guard.start()
        started = time.perf_counter()
        try:
            action()
        finally:
            guard.cancel()
        return time.perf_counter() - started


def _process(server: Server) -> psutil.Process:
    """The server's first process."""
    if isinstance(server, ShoalServer):
        return psutil.Process(server.pid)
    with psycopg.connect(server.dsn) as connection:
        row = connection.execute("SELECT pg_read_file('postmaster.pid')").fetchone()
    assert row is not None
    return psutil.Process(int(row[0].splitlines()[0]))


def processor_time(server: Server) -> float:
    """Seconds of the processor that the server's processes have had, those that have ended with them."""
    first = _process(server)
    total = 0.0
    for process in (first, *first.children(recursive=True)):
        with contextlib.suppress(psutil.Error):  # ended meanwhile
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def settle(server: Server) -> None:
    """Waits until the server has nothing left to do (a flush, an index, a vacuum), SETTLE_LIMIT at most."""
    end = time.monotonic() + SETTLE_LIMIT
    used, before = 1.0, processor_time(server)
    while used > QUIET * SETTLE and time.monotonic() < end:
        time.sleep(SETTLE)
        now = processor_time(server)
        used, before = now - before, now


def _own(line: Line) -> str:
    """A line whose second column is stock JDBC on Shoal, not PostgreSQL."""
    return line.text() + "   (beside JDBC on Shoal)"


def _sides(shoal: Server, postgres: Server) -> tuple[tuple[Server, bool], ...]:
    """Whom to measure, and whether by JDBC: in the order of `compare`."""
    return (postgres, True), (shoal, True), (shoal, False)


SIDES = ("JDBC on PostgreSQL", "JDBC on Shoal", "shoal on Shoal")  # in the order of `_sides`


class Costs:
    """What the servers' processors do for a row."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._found: dict[str, dict[str, list[float]]] = {}

    def measured(self, name: str, side: str, server: Server, run: Callable[[], float]) -> float:
        """What `run` gives, the server's cost noted, with that of what it does until it is quiet again."""
        before = processor_time(server)
        seconds = run()
        settle(server)
        cost = (processor_time(server) - before) / self._count * 1e6
        self._found.setdefault(name, {}).setdefault(side, []).append(cost)
        print(f"{name}, {side}: {seconds:.1f} s, {cost:.2f} us of the server a row", file=sys.stderr, flush=True)
        return seconds

    def text(self) -> str:
        """The table."""
        lines = [f"{'server, us of processor a row':<34}" + "".join(f"{side:>20}" for side in SIDES)]
        for name, sides in self._found.items():
            lines.append(f"{name:<34}" + "".join(f"{statistics.median(sides[side]):>20.2f}" for side in SIDES))
        return "\n".join(lines)


def compare(ways: Ways, shoal: Server, postgres: Server, rounds: int, costs: Costs, until: float) -> list[Line]:
    """Every round: each write, then reads of what was written; no round begins after `until` (time.monotonic()) but
    the first one."""
    lines = {
        name: Line(Measure(name, "time", floor, lambda _: Result(0.0)))
        for name, floor in (("JDBC write", 0.6), ("JDBC read", 0.7), ("shoal write", 2.0), ("shoal read", 2.0))
    }
    for number in range(rounds):
        if number and time.monotonic() > until:
            print(f"no time is left after {number} of {rounds} rounds", file=sys.stderr, flush=True)
            break
        print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        for way in (ways.write, ways.read):
            name = way.__name__
            theirs, stock, own = (
                Result(costs.measured(name, side, server, lambda w=way, s=server, j=by_jdbc: w(s, j)))  # type: ignore[misc]
                for side, (server, by_jdbc) in zip(SIDES, _sides(shoal, postgres), strict=True)
            )
            lines[f"JDBC {name}"].postgres.append(theirs)
            lines[f"JDBC {name}"].shoal.append(stock)
            lines[f"shoal {name}"].postgres.append(stock)
            lines[f"shoal {name}"].shoal.append(own)
    print(HEADER)
    for name, line in lines.items():
        print(line.text() if name.startswith("JDBC") else _own(line), flush=True)
    return list(lines.values())


def peak_memory(spark: SparkSession, count: int) -> Line:
    """The most that the server's processes take together while so many rows are written by the data source."""
    line = Line(Measure(f"memory, {count:,} rows by shoal", "size", MEMORY_FLOOR, lambda _: Result(0.0)))
    with ShoalServer() as server:
        done, own, resident = threading.Event(), 0.0, 0.0

        def watch() -> None:
            nonlocal own, resident
            told = time.monotonic()
            while not done.wait(0.2):
                with contextlib.suppress(OSError):
                    now = total_memory([server.pid, *server.children()])
                    own, resident = max(own, now["Pss_Anon"]), max(resident, now["Rss"])
                if time.monotonic() > told + PROGRESS:
                    told = time.monotonic()
                    print(f"writing {count} rows: {own:.0f} MB so far", file=sys.stderr, flush=True)

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            Ways(spark, count).write(server, False)
        finally:
            done.set()
            watcher.join()
    line.shoal.append(Result(own))
    print(f"{line.text()}   (resident with pages of mapped files: {resident:.0f} MB)", flush=True)
    return line


def main() -> int:
    """The bench; its exit status."""
    top = argparse.ArgumentParser(
        prog="python -m bench.spark", description="Spark on Shoal beside PostgreSQL.", epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    top.add_argument("--rows", type=int, default=1_000_000, help="rows to write and read (default 1000000)")
    top.add_argument("--rounds", type=int, default=3, help="rounds, of which the median counts (default 3)")
    top.add_argument("--minutes", type=float, default=20.0, help="no round begins after so many (default 20)")
    top.add_argument("--big", action="store_true", help="also write ten million rows and watch the server's memory")
    top.add_argument("--big-rows", type=int, default=BIG_ROWS, help=f"rows of --big (default {BIG_ROWS})")
    options = top.parse_args()
    until = time.monotonic() + options.minutes * 60
    costs = Costs(options.rows)
    print("starting Spark and both servers", file=sys.stderr, flush=True)
    spark = session()
    try:
        with ShoalServer() as shoal, PostgresServer(()) as postgres:
            for server, by_jdbc in _sides(shoal, postgres):  # a session's first jobs wait for Java to compile them
                warm = Ways(spark, min(options.rows, WARM_ROWS))
                for way in (warm.write, warm.read):
                    way(server, by_jdbc)
                settle(server)
            lines = compare(Ways(spark, options.rows), shoal, postgres, options.rounds, costs, until)
        print(costs.text(), flush=True)
        if options.big:
            lines.append(peak_memory(spark, options.big_rows))
    finally:
        spark.stop()
    print(f"every round: {write_json(lines, {'rows': options.rows, 'rounds': options.rounds})}")
    below = [line.measure.name for line in lines if not line.holds()]
    print(f"below the floor: {', '.join(below)}" if below else "all at their floors or better")
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
