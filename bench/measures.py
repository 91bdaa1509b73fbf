"""What is measured. Each measure gives one number per server and round; which direction is better is its own.

Clients are the same for both servers: pgbench, psql's \\copy, and libpq in chunked rows mode, which parses rows in C
and drops them.
"""

from __future__ import annotations

import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import psycopg
from psycopg import pq

SCALE = 10
ROWS = SCALE * 100_000
GROUP_BY = "SELECT bid, sum(abalance), count(*) FROM pgbench_accounts GROUP BY bid"
COPY_TABLE = """
    DROP TABLE IF EXISTS bench_copy;
    CREATE TABLE bench_copy (aid int PRIMARY KEY, bid int, abalance int, filler char(84))
"""


class Server(Protocol):
    """A server under measure: tests.server.ShoalServer or tests.oracle.PostgresServer."""

    port: int

    @property
    def dsn(self) -> str: ...


@dataclass(slots=True)
class Result:
    """`value` in the measure's unit; `troubles` are errors and failed transactions, one line each."""

    value: float
    troubles: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Measure:
    """`floor`: the least Shoal/PostgreSQL ratio for rates and speeds; `kind` is

    rate   higher is better, ratio = Shoal / PostgreSQL
    time   seconds, ratio of speeds = PostgreSQL / Shoal
    extra  milliseconds on top of another measure, floor is the most for Shoal
    size   megabytes, floor is the most for Shoal

    A floor of 0 is none: the figure is shown for its own sake.
    """

    name: str
    kind: str
    floor: float
    run: Callable[[Server], Result]
    once: bool = False  # what only a first time shows


def environment(server: Server) -> dict[str, str]:
    """The variables that tell libpq's programs where the server is."""
    return {
        **os.environ,
        "PGHOST": "127.0.0.1",
        "PGPORT": str(server.port),
        "PGUSER": "postgres",
        "PGDATABASE": "postgres",
        "PGOPTIONS": "",
    }


def load(server: Server) -> Result:
    """`pgbench -i` at scale 10; seconds."""
    began = time.monotonic()
    done = subprocess.run(
        ["pgbench", "-i", "-q", "-s", str(SCALE)], env=environment(server), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"pgbench -i failed: {done.stderr[-1000:]}")
    return Result(time.monotonic() - began)


def pgbench(clients: int, seconds: int, *options: str) -> Callable[[Server], Result]:
    """Transactions a second of one pgbench run."""

    def run(server: Server) -> Result:
        command = ["pgbench", "-n", "-c", str(clients), "-j", str(min(clients, 2)), "-T", str(seconds), *options]
        done = subprocess.run(command, env=environment(server), capture_output=True, text=True, check=False)
        rate = re.search(r"^tps = ([\d.]+)", done.stdout, re.MULTILINE)
        failed = re.search(r"^number of failed transactions: (\d+)", done.stdout, re.MULTILINE)
        troubles = sorted(set(line for line in done.stderr.splitlines() if "error" in line.lower()))[:3]
        if failed and int(failed[1]):
            troubles.append(f"{failed[1]} failed transactions")
        if done.returncode and not troubles:
            troubles.append(f"pgbench exited with {done.returncode}: {done.stderr.strip()[-200:]}")
        return Result(float(rate[1]) if rate else 0.0, troubles)

    return run


def write_copy_file(path: pathlib.Path) -> None:
    """Rows of pgbench_accounts in COPY's text format."""
    filler = " " * 84
    with path.open("w") as out:
        for aid in range(1, ROWS + 1):
            out.write(f"{aid}\t{(aid - 1) // 100_000 + 1}\t0\t{filler}\n")


def copy_in(path: pathlib.Path) -> Callable[[Server], Result]:
    """Seconds to COPY the file into an empty table with a primary key, by psql."""

    def run(server: Server) -> Result:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            for statement in COPY_TABLE.split(";"):
                connection.execute(statement.encode())
        command = ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", f"\\copy bench_copy FROM '{path}'"]
        began = time.monotonic()
        done = subprocess.run(command, env=environment(server), capture_output=True, text=True, check=False)
        seconds = time.monotonic() - began
        troubles = [done.stderr.strip()] if done.returncode else []
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            if not troubles:
                row = connection.execute("SELECT count(*) FROM bench_copy").fetchone()
                troubles = [] if row == (ROWS,) else [f"{row} rows arrived"]
            connection.execute("DROP TABLE bench_copy")
        return Result(seconds, troubles)

    return run


def select_all(server: Server) -> Result:
    """Seconds to receive every row of pgbench_accounts in text format and drop it."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        libpq = connection.pgconn
        began = time.monotonic()
        libpq.send_query(b"SELECT * FROM pgbench_accounts")
        libpq.set_chunked_rows_mode(1000)
        rows = 0
        troubles = []
        while (result := libpq.get_result()) is not None:
            if result.status == pq.ExecStatus.FATAL_ERROR:
                troubles.append(result.error_message.decode().strip())
            rows += result.ntuples
            result.clear()
        seconds = time.monotonic() - began
    return Result(seconds, troubles if rows == ROWS else [*troubles, f"{rows} rows arrived"])


def _timed(connection: psycopg.Connection[tuple[object, ...]], query: str) -> float:
    began = time.monotonic()
    connection.execute(query.encode()).fetchall()
    return time.monotonic() - began


def group_by(server: Server) -> Result:
    """Seconds of the analytic query once the table has been read: the median of five."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(GROUP_BY.encode()).fetchall()
        return Result(statistics.median(_timed(connection, GROUP_BY) for _ in range(5)))


def group_by_after_changes(server: Server) -> Result:
    """Milliseconds that the analytic query takes longer right after 1,000 rows changed: the median of three.

    The changes add up to nothing, so that the balances still agree."""
    extra = []
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(GROUP_BY.encode()).fetchall()
        for _ in range(3):
            warm = statistics.median(_timed(connection, GROUP_BY) for _ in range(3))
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(
                    "UPDATE pgbench_accounts SET abalance = abalance + %s WHERE aid = %s",
                    [((-1) ** number, random.randrange(1, ROWS + 1)) for number in range(1000)],
                )
            extra.append((_timed(connection, GROUP_BY) - warm) * 1000)
    return Result(statistics.median(extra))


def memory(pid: int) -> dict[str, float]:
    """Megabytes of a process: Pss (shared pages by share), Pss_Anon (its own memory), Rss."""
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = dict(re.findall(r"^(Rss|Pss|Pss_Anon):\s+(\d+) kB", text, re.MULTILINE))
    return {name: int(value) / 1024 for name, value in found.items()}


def total_memory(pids: list[int]) -> dict[str, float]:
    """The sum over processes, in megabytes."""
    total: dict[str, float] = {}
    for pid in pids:
        for name, value in memory(pid).items():
            total[name] = total.get(name, 0.0) + value
    return total


def agreement(server: Server) -> list[str]:
    """What is wrong with the balances after TPC-B runs: the four sums must be equal."""
    query = """SELECT (SELECT sum(abalance) FROM pgbench_accounts) - (SELECT sum(bbalance) FROM pgbench_branches),
                      (SELECT sum(tbalance) FROM pgbench_tellers) - (SELECT sum(bbalance) FROM pgbench_branches),
                      (SELECT coalesce(sum(delta), 0) FROM pgbench_history)
                      - (SELECT sum(bbalance) FROM pgbench_branches)"""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
    return [] if row == (0, 0, 0) else [f"sums of balances differ: accounts, tellers, history by {row}"]


def required_programs() -> None:
    """Raises RuntimeError naming a program that is not there."""
    for program in ("pgbench", "psql"):
        if shutil.which(program) is None:
            raise RuntimeError(f"{program} is not on the PATH: apt-get install postgresql-contrib postgresql-client")
