"""A table larger than memory: loading it, the first queries of its columns, a restart, changes, and what it takes.

    python -m bench.large [millions of rows] [bytes of columnar_memory]

pgbench_accounts on three databases: Shoal, PostgreSQL 15 with 2 GB of shared_buffers, and DuckDB alone on a file with
the memory that Shoal's worker has. The rows are COPY's text; DuckDB reads the same as CSV. Times are seconds.
"""

from __future__ import annotations

import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import duckdb
import psycopg

from bench.measures import COPY_TABLE, GROUP_BY, environment
from tests.oracle import PostgresServer
from tests.server import ShoalServer

SETTINGS = ("shared_buffers=2GB", "max_wal_size=8GB")
CHANGES = 1000
ROUNDS = 5
QUERY = GROUP_BY.replace("pgbench_accounts", "bench_copy")
Connection = psycopg.Connection[tuple[object, ...]]


class Limited(ShoalServer):
    """With so much memory for columns, in bytes."""

    def __init__(self, data: pathlib.Path, memory: int) -> None:
        super().__init__(data)
        self._configuration = data.parent / "shoal.toml"
        self._configuration.write_text(f"columnar_memory = {memory}\n")

    def command(self) -> list[str]:
        return [*super().command(), "--config", str(self._configuration)]


class Table:
    """Lines of the report, printed as they come."""

    def __init__(self) -> None:
        print(f"{'':44} {'Shoal':>10} {'PostgreSQL':>10} {'DuckDB':>10}")

    def line(self, what: str, shoal: float | None, postgres: float | None = None, alone: float | None = None) -> None:
        cells = ("-" if value is None else f"{value:.3f}" for value in (shoal, postgres, alone))
        print(f"{what:44} " + " ".join(f"{cell:>10}" for cell in cells), flush=True)


def rows(count: int) -> Iterator[str]:
    """COPY's text, a megabyte at a time."""
    filler = " " * 84
    for start in range(1, count + 1, 10_000):
        stop = min(start + 10_000, count + 1)
        yield "".join(f"{aid}\t{(aid - 1) // 100_000 + 1}\t0\t{filler}\n" for aid in range(start, stop))


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def connect(server: ShoalServer | PostgresServer) -> Connection:
    return psycopg.connect(server.dsn, autocommit=True)


def load(server: ShoalServer | PostgresServer, path: pathlib.Path) -> float:
    """COPY into a new table with a primary key."""
    with connect(server) as connection:
        for statement in COPY_TABLE.split(";"):
            connection.execute(statement.encode())
    command = ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", f"\\copy bench_copy FROM '{path}'"]
    return timed(lambda: subprocess.run(command, env=environment(server), check=True))


def query(server: ShoalServer | PostgresServer) -> float:
    with connect(server) as connection:
        return timed(lambda: connection.execute(QUERY.encode()).fetchall())


def median(work: Callable[[], float]) -> float:
    return statistics.median(work() for _ in range(ROUNDS))


def change(server: ShoalServer | PostgresServer, count: int) -> float:
    """Changes scattered rows, then queries."""
    generator = random.Random(count)
    with connect(server) as connection, connection.transaction(), connection.cursor() as cursor:
        cursor.executemany(
            "UPDATE bench_copy SET abalance = abalance + 1 WHERE aid = %s",
            [(generator.randrange(1, count + 1),) for _ in range(CHANGES)],
        )
    return query(server)


def size(path: pathlib.Path) -> float:
    """Gigabytes that the files below a path take."""
    done = subprocess.run(["du", "-s", "--block-size=1", path], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[0]) / 1e9


class Alone:
    """DuckDB on a file."""

    def __init__(self, path: pathlib.Path, memory: int, source: pathlib.Path) -> None:
        self._config = {"memory_limit": f"{memory >> 10}KiB", "threads": 2}
        self.path = path
        columns = "{'aid': 'INTEGER', 'bid': 'INTEGER', 'abalance': 'INTEGER', 'filler': 'VARCHAR'}"
        with self.open() as connection:
            connection.execute("CREATE TABLE bench_copy (aid INTEGER, bid INTEGER, abalance INTEGER, filler VARCHAR)")
            reader = f"read_csv('{source}', delim='\t', header=false, columns={columns})"
            self.load = timed(lambda: connection.execute(f"INSERT INTO bench_copy SELECT * FROM {reader}"))

    def open(self) -> duckdb.DuckDBPyConnection:
        return duckdb.connect(str(self.path), config=self._config)

    def query(self) -> tuple[float, float]:
        """The first one on a file that has just been opened, and the median of those that follow."""
        with self.open() as connection:
            first = timed(lambda: connection.execute(QUERY).fetchall())
            return first, median(lambda: timed(lambda: connection.execute(QUERY).fetchall()))

    def key_scan(self) -> float:
        with self.open() as connection:
            return median(lambda: timed(lambda: connection.execute("SELECT max(aid) FROM bench_copy").fetchall()))


def measure(millions: float, memory: int, folder: pathlib.Path) -> None:
    count, source, table = int(millions * 1_000_000), folder / "rows", Table()
    with source.open("w") as file:
        file.writelines(rows(count))
    data = folder / "data"
    alone = Alone(folder / "alone.duckdb", memory, source)
    with Limited(data, memory) as shoal, PostgresServer(SETTINGS) as postgres:
        first, warm = alone.query()
        (ours, ours_first), (theirs, theirs_first) = ((load(each, source), query(each)) for each in (shoal, postgres))
        table.line("COPY", ours, theirs, alone.load)
        table.line("GROUP BY over all rows, at once", ours_first, theirs_first, first)
        table.line("GROUP BY, warm", median(lambda: query(shoal)), median(lambda: query(postgres)), warm)
        changed = [median(lambda each=each: change(each, count)) for each in (shoal, postgres)]
        table.line(f"GROUP BY after {CHANGES:,} scattered changes", changed[0], changed[1])
        table.line("scan of the key column", None, None, alone.key_scan())
        with connect(postgres) as connection:
            found = connection.execute("SELECT pg_total_relation_size('bench_copy') / 1e9::float8").fetchone()
        assert found is not None
        taken = float(str(found[0]))
    table.line("gigabytes of rows", size(data / "rows"), taken)
    table.line("gigabytes of columns", size(data / "columnar"), None, size(alone.path))
    began = time.perf_counter()
    with Limited(data, memory) as shoal:
        table.line("start until ready", time.perf_counter() - began)
        table.line("GROUP BY, first after a start", query(shoal), None, first)
        table.line("GROUP BY, warm", median(lambda: query(shoal)), None, warm)


def main() -> None:
    millions = float(sys.argv[1]) if len(sys.argv) > 1 else 10
    memory = int(sys.argv[2]) if len(sys.argv) > 2 else 2 << 30
    print(f"{millions:g} million rows, columnar_memory = {memory >> 20} MB")
    with tempfile.TemporaryDirectory() as folder:
        measure(millions, memory, pathlib.Path(folder))


if __name__ == "__main__":
    main()
