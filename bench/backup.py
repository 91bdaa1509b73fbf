"""Backups and time travel beside TPC-B: what they cost, and how fast they are.

    python -m bench.backup [seconds a round]

Backups of an idle server, and of one that runs pgbench with eight clients, prepared, in turns with runs that have
nothing beside them. Then queries of now, and the same as of a second ago while pgbench goes on: medians, in turns.
"""

from __future__ import annotations

import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import orjson
import psycopg

from bench.changes import transactions
from bench.measures import SCALE, environment
from tests.server import ShoalServer

ROUNDS = 3
QUERIES = 40
NOW = {
    "one row": "SELECT abalance FROM pgbench_accounts{} WHERE aid = 4711",
    "sum over all rows": "SELECT sum(abalance), count(*) FROM pgbench_accounts{}",
}
Connection = psycopg.Connection[tuple[object, ...]]


def backup(connection: Connection, folder: pathlib.Path) -> tuple[float, int]:
    """(seconds, bytes of rows in LMDB)."""
    began = time.perf_counter()
    connection.execute("SELECT shoal_backup(%s)", (f"file://{folder}",))
    seconds = time.perf_counter() - began
    manifest = orjson.loads(max(folder.glob("*/checkpoint-*/manifest.json")).read_bytes())
    return seconds, sum(item["stored_bytes"] for table in manifest["tables"] for item in table["files"])


def beside(server: ShoalServer, connection: Connection, folder: pathlib.Path, seconds: int) -> None:
    """TPC-B alone, and with backups one after the other, in turns."""
    alone, together, took = list[float](), list[float](), list[float]()
    for number in range(ROUNDS):
        alone.append(transactions(server, seconds)[0])
        over = threading.Event()

        def back_up(number: int = number, over: threading.Event = over) -> None:
            turn = 0
            while not over.is_set():
                turn += 1
                took.append(backup(connection, folder / f"{number}-{turn}")[0])

        thread = threading.Thread(target=back_up)
        thread.start()
        together.append(transactions(server, seconds)[0])
        over.set()
        thread.join()
    print(f"TPC-B alone {statistics.median(alone):,.0f} tps, with backups {statistics.median(together):,.0f} tps")
    print(f"a backup beside it takes {statistics.median(took):.1f} s", flush=True)


def a_second_ago(server: ShoalServer, connection: Connection, seconds: int) -> None:
    """Each query now and then, in turns, while pgbench runs."""
    runner = threading.Thread(target=transactions, args=(server, seconds * 2))
    runner.start()
    time.sleep(2)
    for name, query in NOW.items():
        times: dict[str, list[float]] = {"now": [], "AS OF": [], "SET as_of": []}
        for _ in range(QUERIES):
            for kind, found in times.items():
                if kind == "SET as_of":
                    connection.execute("SELECT 1")
                    row = connection.execute("SELECT now() - interval '1 s'").fetchone()
                    assert row is not None
                    connection.execute(f"SET as_of = '{row[0]}'".encode())
                clause = " AS OF TIMESTAMP now() - interval '1 s'" if kind == "AS OF" else ""
                began = time.perf_counter()
                connection.execute(query.format(clause).encode())
                found.append(time.perf_counter() - began)
                connection.execute("RESET as_of")
        medians = ", ".join(f"{kind} {statistics.median(found) * 1000:.2f} ms" for kind, found in times.items())
        print(f"{name}: {medians}", flush=True)
    runner.join()


def main(seconds: int) -> None:
    """Prints the figures."""
    with (
        tempfile.TemporaryDirectory(prefix="shoal-bench-") as temporary,
        ShoalServer() as server,
        psycopg.connect(server.dsn, autocommit=True, prepare_threshold=None) as connection,
    ):
        folder = pathlib.Path(temporary)
        words = ["pgbench", "-i", "-q", "-s", str(SCALE)]
        subprocess.run(words, env=environment(server), capture_output=True, check=True)
        connection.execute("CHECKPOINT")
        rates = []
        for number in range(ROUNDS):
            took, stored = backup(connection, folder / f"idle-{number}")
            rates.append(stored / took / 1e6)
        print(f"backup of an idle server: {statistics.median(rates):,.0f} MB/s of {stored / 1e6:,.0f} MB", flush=True)
        a_second_ago(server, connection, seconds)
        beside(server, connection, folder, seconds)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
