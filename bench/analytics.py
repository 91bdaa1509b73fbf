"""`python -m bench.analytics`: the 22 queries of TPC-H on Shoal's columnar path beside DuckDB on the same data.

    python -m bench.analytics --scale 0.2 --rounds 5 --only 1 --only 6
    python -m bench.analytics --scale 10 --rounds 1 --memory 512

Both run in as many threads as the machine has. DuckDB's tables have the types that the schema says, but for char(n),
which is VARCHAR there: what somebody would write who uses DuckDB alone. Of each query the best round counts, after one
that is not counted; the answers of both are compared. The geometric mean of the ratios is the figure.
"""

from __future__ import annotations

import argparse
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from decimal import Decimal

import duckdb
import psycopg

from bench.large import Limited
from tests.server import ShoalServer

TPCH = pathlib.Path(__file__).resolve().parent.parent / "tests" / "tpch"
TABLES = ("region", "nation", "part", "supplier", "partsupp", "customer", "orders", "lineitem")
QUERIES = dict(re.findall(r"-- Q(\d+)\n(.*?);", (TPCH / "queries.sql").read_text(), re.DOTALL))


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="python -m bench.analytics", description="TPC-H on Shoal and on DuckDB.")
    top.add_argument("--scale", default="1", help="scale factor of the data (default 1: six million lineitems)")
    top.add_argument("--rounds", type=int, default=3, help="rounds, of which the best counts (default 3)")
    top.add_argument("--only", action="append", metavar="NUMBER", help="only this query; may be given more than once")
    top.add_argument("--data", type=pathlib.Path, help="a directory for Shoal that stays, loaded if it is new")
    top.add_argument("--memory", type=int, default=2048, help="megabytes that each of both has (default 2048)")
    top.add_argument("--sql", action="store_true", help="also print the SQL that DuckDB gets from Shoal")
    return top


def make_data(scale: str, directory: pathlib.Path) -> None:
    """Writes one file a table, fields with | between and behind them."""
    generator = pathlib.Path(sys.executable).with_name("tpchgen-cli")
    subprocess.run([generator, "-s", scale, f"--output-dir={directory}"], check=True, capture_output=True)


def load_shoal(connection: psycopg.Connection[tuple[object, ...]], files: pathlib.Path) -> None:
    """Makes and fills the tables."""
    connection.execute((TPCH / "schema.sql").read_bytes())
    for table in TABLES:
        with (
            connection.cursor().copy(f"COPY {table} FROM STDIN (DELIMITER '|')".encode()) as copy,
            (files / f"{table}.tbl").open("rb") as file,
        ):
            while lines := file.readlines(1 << 20):
                copy.write(b"".join(lines).replace(b"|\n", b"\n"))


def load_duckdb(files: pathlib.Path, megabytes: int) -> duckdb.DuckDBPyConnection:
    """The same in a DuckDB of this process. It loads with the memory that it likes, and answers with `megabytes`."""
    connection = duckdb.connect(str(files / "raw.duckdb"))
    connection.execute((TPCH / "schema.sql").read_text())
    for table in TABLES:
        connection.execute(f"COPY {table} FROM '{files / table}.tbl' (DELIMITER '|', HEADER false, AUTO_DETECT false)")
    connection.execute("CHECKPOINT")
    connection.execute(f"SET memory_limit = '{megabytes}MiB'")
    return connection


Rows = Sequence[Sequence[object]]


def best(run: Callable[[], Rows], rounds: int) -> tuple[float, Rows]:
    """Seconds of the fastest round, after one for caches, and the rows of that one."""
    rows = run()
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times), rows


def is_same(ours: Rows, theirs: Rows) -> bool:
    """Whether both give the same rows, as far as both can say it: DuckDB divides to floats, and knows no padding."""
    if len(ours) != len(theirs):
        return False
    pairs = (pair for one, other in zip(ours, theirs, strict=True) for pair in zip(one, other, strict=True))
    return all(_is_alike(one, other) for one, other in pairs)


def _is_alike(one: object, other: object) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return one.rstrip() == other.rstrip()
    if isinstance(one, int | float | Decimal) and isinstance(other, int | float | Decimal):
        return math.isclose(one, other, rel_tol=1e-9)
    return one == other


def compare(server: ShoalServer, raw: duckdb.DuckDBPyConnection, options: argparse.Namespace) -> bool:
    """Prints a line for each query, and the means. Whether all answers are the same."""
    ratios, ours, theirs, same = [], 0.0, 0.0, True
    print(f"{'query':>5} {'Shoal':>10} {'DuckDB':>10} {'ratio':>6}")
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for number in options.only or QUERIES:
            text = QUERIES[number]
            if options.sql:
                for (line,) in connection.execute(f"EXPLAIN (VERBOSE) {text}".encode()).fetchall():
                    print(line)
            shoal, our_rows = best(lambda: connection.execute(text.encode()).fetchall(), options.rounds)  # noqa: B023
            duck, their_rows = best(lambda: raw.execute(text).fetchall(), options.rounds)  # noqa: B023
            alike = is_same(our_rows, their_rows)
            same = same and alike
            ratios.append(shoal / duck)
            ours, theirs = ours + shoal, theirs + duck
            times = f"{shoal * 1000:7.1f} ms {duck * 1000:7.1f} ms {ratios[-1]:6.2f}"
            print(f"Q{number:>4} {times}{'' if alike else '  other rows'}", flush=True)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"  all {ours * 1000:7.1f} ms {theirs * 1000:7.1f} ms {mean:6.2f} (geometric mean)")
    return same


def main() -> int:
    """Runs the bench; 1 where an answer differs."""
    options = parser().parse_args()
    with tempfile.TemporaryDirectory(prefix="shoal-analytics-") as directory:
        files = pathlib.Path(directory)
        make_data(options.scale, files)
        is_loaded = options.data is not None and options.data.exists()
        data = options.data or files / "data"
        with Limited(data, options.memory << 20) as server, load_duckdb(files, options.memory) as raw:
            if not is_loaded:
                with psycopg.connect(server.dsn, autocommit=True) as connection:
                    load_shoal(connection, files)
            return 0 if compare(server, raw, options) else 1


if __name__ == "__main__":
    sys.exit(main())
