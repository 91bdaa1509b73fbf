"""`python -m bench.spark`: Spark's stock JDBC source and the data source `shoal`, beside PostgreSQL in the same run.

One session on local[2], one million rows of ten mixed columns. What is read goes to Spark's `noop` sink, which takes
every row and keeps none.

    JDBC read, JDBC write     PostgreSQL's time / Shoal's, both by stock JDBC
    shoal read, shoal write   the time of stock JDBC on Shoal / that of the data source

Exit status: 0 when every measure is at its floor or better, 1 when one is below.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable

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
        return _seconds(lambda: writer.mode("append").save())

    def read(self, server: Server, by_jdbc: bool) -> float:
        """Reads all rows, by JDBC in four parts."""
        options = self._options(server, by_jdbc, "bench_spark")
        options["numPartitions"] = "4"
        if by_jdbc:
            options |= {"partitionColumn": "id", "lowerBound": "0", "upperBound": str(self._count)}
        frame = self._spark.read.format("jdbc" if by_jdbc else "shoal").options(**options).load()
        return _seconds(lambda: frame.write.format("noop").mode("overwrite").save())


def _seconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def _own(line: Line) -> str:
    """A line whose second column is stock JDBC on Shoal, not PostgreSQL."""
    return line.text() + "   (beside JDBC on Shoal)"


def _sides(shoal: Server, postgres: Server) -> tuple[tuple[Server, bool], ...]:
    """Whom to measure, and whether by JDBC: in the order of `compare`."""
    return (postgres, True), (shoal, True), (shoal, False)


def compare(ways: Ways, shoal: Server, postgres: Server, rounds: int) -> list[Line]:
    """Every round: each write, then reads of what was written."""
    lines = {
        name: Line(Measure(name, "time", floor, lambda _: Result(0.0)))
        for name, floor in (("JDBC write", 0.6), ("JDBC read", 0.7), ("shoal write", 2.0), ("shoal read", 2.0))
    }
    for _ in range(rounds):
        for way in (ways.write, ways.read):
            name = way.__name__
            theirs, stock, own = (Result(way(server, by_jdbc)) for server, by_jdbc in _sides(shoal, postgres))
            said = f"JDBC on PostgreSQL {theirs.value:.1f} s, on Shoal {stock.value:.1f} s; shoal {own.value:.1f} s"
            print(f"{name}: {said}", file=sys.stderr, flush=True)
            lines[f"JDBC {name}"].postgres.append(theirs)
            lines[f"JDBC {name}"].shoal.append(stock)
            lines[f"shoal {name}"].postgres.append(stock)
            lines[f"shoal {name}"].shoal.append(own)
    for name, line in lines.items():
        print(line.text() if name.startswith("JDBC") else _own(line), flush=True)
    return list(lines.values())


def peak_memory(spark: SparkSession) -> Line:
    """The most that the server's processes take together while ten million rows are written by the data source."""
    line = Line(Measure("memory, 10M rows by shoal", "size", MEMORY_FLOOR, lambda _: Result(0.0)))
    with ShoalServer() as server:
        done, peak = threading.Event(), 0.0

        def watch() -> None:
            nonlocal peak
            while not done.wait(0.2):
                with contextlib.suppress(OSError):
                    peak = max(peak, total_memory([server.pid, *server.children()])["Pss_Anon"])

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            Ways(spark, BIG_ROWS).write(server, False)
        finally:
            done.set()
            watcher.join()
    line.shoal.append(Result(peak))
    print(line.text(), flush=True)
    return line


def main() -> int:
    """The bench; its exit status."""
    top = argparse.ArgumentParser(
        prog="python -m bench.spark", description="Spark on Shoal beside PostgreSQL.", epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    top.add_argument("--rows", type=int, default=1_000_000, help="rows to write and read (default 1000000)")
    top.add_argument("--rounds", type=int, default=3, help="rounds, of which the median counts (default 3)")
    top.add_argument("--big", action="store_true", help="also write ten million rows and watch the server's memory")
    options = top.parse_args()
    spark = session()
    try:
        print(HEADER)
        with ShoalServer() as shoal, PostgresServer(()) as postgres:
            for server, by_jdbc in _sides(shoal, postgres):  # what a session's first jobs wait for is not measured
                for way in (Ways(spark, 10_000).write, Ways(spark, 10_000).read):
                    way(server, by_jdbc)
            lines = compare(Ways(spark, options.rows), shoal, postgres, options.rounds)
        if options.big:
            lines.append(peak_memory(spark))
    finally:
        spark.stop()
    print(f"every round: {write_json(lines, {'rows': options.rows, 'rounds': options.rounds})}")
    return 0 if all(line.holds() for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
