"""The trial of columns: they equal the rows at every moment, whatever ends in between.

One client changes tables while something ends: the analytic worker, the server by kill -9 or in good order. In between
a transaction reads every table twice at its snapshot: by the columnar path as a whole, and by keys, a part after the
other, on the row path. One more table is loaded in bulk, by loads of which some are undone: what it is to have is
known.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable

import duckdb
import psycopg

from tests.server import ShoalServer, gone
from tests.torture.trial import Result

Connection = psycopg.Connection[tuple[object, ...]]
ROWS = 2000  # keys that are used
PART = 50  # rows that the row path reads at a time
TABLES = {
    "ints": "id int PRIMARY KEY, a int, b text, c numeric(12,2)",
    "texts": "id text PRIMARY KEY, a int, b int[], c timestamptz",
}
VALUES = {
    "ints": "n, (random() * 1000)::int, 'b' || (random() * 1000)::int, (random() * 1000)::numeric(12,2)",
    "texts": "'key ' || n, (random() * 1000)::int, ARRAY[n, n + 1], now()",
}
KEYS = {"ints": "n", "texts": "'key ' || n"}
LOAD_ROWS = 120_000  # so many that the worker makes columns of them while the load runs
LOADS_KEPT = 4
UPDATES = {"ints": "a = a + 1, c = c + 0.01", "texts": "a = a + 1, b = b || 7"}


def columns(seconds: float, seed: int, tell: Callable[[str], None]) -> Result:
    """The trial; the planted fault is a file that says that it has an LSN which it has not."""
    result = Result()
    with tempfile.TemporaryDirectory() as folder:
        run = _Run(pathlib.Path(folder) / "data", random.Random(seed))
        try:
            until = time.monotonic() + seconds * 0.8
            while time.monotonic() < until:
                run.step()
                result.problems += run.problems
                run.problems.clear()
            result.caught["a file that lacks changes which it says it has"] = run.plant()
        finally:
            run.end()
    result.tried = run.comparisons
    result.figures.append(
        f"{run.changes:,} changes, {run.loads} loads, {run.comparisons} comparisons, {run.kills} workers and "
        f"{run.crashes} servers killed, {run.restarts} restarts; columns of {run.from_file} tables taken from the "
        f"file, of {run.from_rows} built: {len(result.problems)} differences"
    )
    tell(result.figures[0])
    return result


class _Run:
    def __init__(self, data: pathlib.Path, choices: random.Random) -> None:
        self._choices = choices
        self._server = ShoalServer(data)
        self._server.start()
        self.problems: list[str] = []
        self.changes = self.comparisons = self.kills = self.crashes = self.restarts = 0
        self.from_file = self.from_rows = self.loads = 0
        self._loaded = 0  # rows that the table of loads is to have
        self._connection = self._connect()
        self._connection.execute("CREATE TABLE loads (id int PRIMARY KEY, a int)")
        for name, definition in TABLES.items():
            self._connection.execute(f"CREATE TABLE {name} ({definition})".encode())
            self._connection.execute(
                f"INSERT INTO {name} SELECT {VALUES[name]} FROM generate_series(1, {ROWS}, 2) n".encode()
            )

    def _connect(self) -> Connection:
        return psycopg.connect(self._server.dsn, autocommit=True)

    def step(self) -> None:
        """Some changes, a comparison, or an end."""
        kind = self._choices.choice(
            ["change"] * 6 + ["compare"] * 3 + ["load", "kill", "crash", "restart", "vacuum", "wait"]
        )
        if kind == "change":
            for _ in range(self._choices.randrange(1, 8)):
                self._change()
        elif kind == "compare":
            self.compare()
        elif kind == "load":
            self._load()
        elif kind == "vacuum":
            self._connection.execute("VACUUM FULL ints")
        elif kind == "wait":
            time.sleep(self._choices.choice([0.5, 1.5, 6.0]))  # so long that what has changed is sent, or saved
        elif kind == "kill":
            self._kill_worker()
        else:
            self._restart(crash=kind == "crash")
        if kind in ("kill", "crash", "restart"):
            self.compare()

    def _change(self) -> None:
        table = self._choices.choice(list(TABLES))
        first = self._choices.randrange(1, ROWS)
        count = self._choices.choice([1, 1, 1, 30, 500])
        series, key = f"generate_series({first}, {min(first + count, ROWS)}) n", KEYS[table]
        way = self._choices.choice(["upsert", "update", "delete"])
        if way == "upsert":
            rows = f"SELECT {VALUES[table]} FROM {series}"
            sql = f"INSERT INTO {table} {rows} ON CONFLICT (id) DO UPDATE SET a = -excluded.a"
        elif way == "update":
            sql = f"UPDATE {table} SET {UPDATES[table]} WHERE id IN (SELECT {key} FROM {series})"
        else:
            sql = f"DELETE FROM {table} WHERE id IN (SELECT {key} FROM {series} WHERE n % 3 = 0)"
        self._connection.execute(sql.encode())
        self.changes += 1

    def _load(self) -> None:
        """Rows in bulk, kept or undone; the worker may end before or after the commit."""
        connection = self._connection
        if self._loaded >= LOADS_KEPT * LOAD_ROWS:
            connection.execute("TRUNCATE loads")
            self._loaded = 0
        first, ends = self._loaded, self._choices.choice(["no", "no", "before", "after"])
        kept = self._choices.random() < 0.7
        with connection.transaction(force_rollback=not kept):
            connection.execute(
                f"INSERT INTO loads SELECT n, n FROM generate_series({first}, {first + LOAD_ROWS - 1}) n".encode()
            )
            if ends == "before":
                self._kill_worker()
        self._loaded += kept * LOAD_ROWS
        if ends == "after":
            self._kill_worker()
        self.loads += 1
        self.compare()

    def _kill_worker(self) -> None:
        for pid in self._server.workers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.kills += 1

    def _restart(self, crash: bool) -> None:
        if crash:
            self._server.kill()
            self.crashes += 1
        else:
            self._server.stop()
            self.restarts += 1
        self._server.start()
        self._connection = self._connect()

    def compare(self) -> None:
        """Both paths at one snapshot."""
        connection = self._connection
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            for table in TABLES:
                connection.execute("SET LOCAL shoal.path = columnar")
                by_columns = connection.execute(f"SELECT * FROM {table}".encode()).fetchall()
                connection.execute("SET LOCAL shoal.path = auto")
                by_rows: list[tuple[object, ...]] = []
                for first in range(0, ROWS + PART, PART):
                    names = [number if table == "ints" else f"key {number}" for number in range(first, first + PART)]
                    by_rows += connection.execute(
                        f"SELECT * FROM {table} WHERE id = ANY(%s)".encode(), (names,)
                    ).fetchall()
                if sorted(by_columns, key=str) != sorted(by_rows, key=str):
                    different = set(map(str, by_columns)) ^ set(map(str, by_rows))
                    self.problems.append(f"{table}: {len(different)} rows differ, such as {min(different)}")
                self.comparisons += 1
            connection.execute("SET LOCAL shoal.path = columnar")
            found = connection.execute("SELECT count(*), coalesce(sum(a), 0), count(DISTINCT id) FROM loads").fetchone()
            rows = self._loaded
            if found != (rows, rows * (rows - 1) // 2, rows):
                self.problems.append(f"loads: {found}, with {rows} rows")
        for (source,) in connection.execute("SELECT loaded_from FROM shoal_columns WHERE state = 'ready'").fetchall():
            self.from_file += source == "file"
            self.from_rows += source == "rows"

    def plant(self) -> bool:
        """Whether it is noticed that the file says of a table that it has changes which it lacks."""
        self.problems.clear()
        self.compare()
        self._restart(crash=False)
        self.compare()  # the file is saved, and belongs to what is there
        file = self._server.data / "columnar" / "columns.duckdb"
        of_before = file.with_name("of_before")
        shutil.copyfile(file, of_before)
        self._connection.execute("UPDATE ints SET a = a + 1 WHERE id < 100")
        self._connection.execute("CHECKPOINT")
        durable = self._connection.execute("SELECT max(durable_lsn) FROM shoal_log_status").fetchone()
        workers = self._server.workers()
        self._server.kill()
        assert all(gone(pid) for pid in workers)
        with duckdb.connect(str(of_before)) as connection:  # no later than what is durable: that would be noticed
            connection.execute("UPDATE saved SET lsn = ?", durable)
        of_before.rename(file)
        self._server.start()
        self._connection = self._connect()
        self.compare()
        return bool(self.problems)

    def _columns_file(self) -> duckdb.DuckDBPyConnection:
        """The file of a worker that has ended: it may take the kernel a moment to let go of it."""
        deadline = time.monotonic() + 10
        while True:
            try:
                return duckdb.connect(str(self._server.data / "columnar" / "columns.duckdb"))
            except duckdb.IOException:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def end(self) -> None:
        self._server.__exit__(None, None, None)
