"""Whether one statement holds all others: what a second connection meets meanwhile, in the server's processor time."""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg

from tests.server import ShoalServer
from wire.server import SHUTDOWN_GRACE

HELD = 0.25  # seconds of the server's processor time that another statement may wait: 0.2, and ticks of the clock
TIMEOUT = 1.0  # seconds, of each statement
MORE = 1.0  # seconds after that within which it has to end
MEMORY = 1 << 30  # bytes of its own that the server may have: query_memory_limit, results, and itself
TRIES = 3
DOUBTFUL = 2 * HELD  # below it is tried again: what holds everybody does so each time, a busy machine does not
PAUSE = 0.005
STATEMENT_TIMEOUT = "statement_timeout"
ENDS = (STATEMENT_TIMEOUT, "pg_cancel_backend", "pg_terminate_backend")
_TICK = os.sysconf("SC_CLK_TCK")


def one_of_tries(test: Callable[..., None]) -> Callable[..., None]:
    """A test that passes where one of TRIES does: what holds everybody does so each time, a busy machine does not."""

    @functools.wraps(test)
    def tried(**fixtures: object) -> None:
        for left in reversed(range(TRIES)):
            try:
                test(**fixtures)
                return
            except AssertionError:
                if not left:
                    raise

    return tried


@dataclass(slots=True)
class Seen:
    """Of one statement. `held`: seconds, `memory`: bytes."""

    held: float = 0.0
    took: float = 0.0
    waited: float = 0.0  # seconds that the machine kept the other connection waiting, for reasons of its own
    memory: int = 0
    sqlstate: str | None = None
    defect: bool = False

    def problem(self) -> str:
        if self.defect:
            return "XX000"
        if self.held > HELD:
            return f"held everybody for {self.held:.2f} s"
        if self.took > TIMEOUT + MORE + self.waited:
            return f"ended after {self.took:.2f} s"
        return f"{self.memory >> 20} MB" if self.memory > MEMORY else ""


class Watch:
    """Asks again and again while it is open. What another statement waits counts up to what the server has worked in
    that time, but for what its main thread waits for a processor: the rest is the machine's."""

    def __init__(self, server: ShoalServer) -> None:
        self._server = server
        self._over = threading.Event()
        self._begun = self._answered = 0
        self._changed = threading.Condition()
        self.seen = Seen()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._meet()

    def _run(self) -> None:
        with psycopg.connect(self._server.dsn, autocommit=True) as connection:
            connection.execute("SET shoal.path = columnar")  # a worker that is there, and what is loaded once
            connection.execute("SELECT count(*), max(oid::text || 'a') FROM pg_class WHERE relname ~ 'a'")
            connection.execute("RESET shoal.path")
            while not self._over.wait(PAUSE):
                with self._changed:
                    self._begun += 1
                seen, began, worked, ready = self.seen, time.monotonic(), self._worked(), self._ready()
                connection.execute("SELECT 1")
                gap = time.monotonic() - began
                held = max(min(gap - (self._ready() - ready), self._worked() - worked), 0.0)
                seen.held = max(seen.held, held)
                seen.waited = max(seen.waited, gap - held)
                seen.memory = max(seen.memory, self._memory())
                with self._changed:
                    self._answered = self._begun
                    self._changed.notify_all()

    def _meet(self) -> None:
        """Waits until something is answered that is asked from now on: then whatever was asked before is counted, and
        in what is seen from here to there."""
        with self._changed:
            number = self._begun + 1
            if not self._changed.wait_for(lambda: self._answered >= number, 60):
                raise RuntimeError("the server answers nobody")

    def _worked(self) -> float:
        fields = pathlib.Path(f"/proc/{self._server.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / _TICK

    def _ready(self) -> float:
        """For how long its main thread has waited for a processor."""
        return int(pathlib.Path(f"/proc/{self._server.pid}/schedstat").read_text().split()[1]) / 1e9

    def _memory(self) -> int:
        status = pathlib.Path(f"/proc/{self._server.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("RssAnon"))
        return int(line.split()[1]) << 10

    def statement(self, sql: str, path: str, end: str = STATEMENT_TIMEOUT) -> Seen:
        """Runs it on a path. After TIMEOUT it is ended, by one of ENDS."""
        with psycopg.connect(self._server.dsn, autocommit=True) as connection:
            if end == STATEMENT_TIMEOUT:
                connection.execute(f"SET statement_timeout = '{TIMEOUT:g}s'")
            connection.execute(f"SET shoal.path = {path}".encode())
            seen = self.seen = Seen()
            self._meet()
            began = time.monotonic()
            canceler = threading.Timer(TIMEOUT, self._end, (end, connection.info.backend_pid))
            if end != STATEMENT_TIMEOUT:
                canceler.start()
            try:
                connection.execute(sql.encode()).fetchone()
            except psycopg.Error as error:
                seen.sqlstate = error.sqlstate
                seen.defect = error.sqlstate == "XX000" and "cache lookup failed" not in str(error)  # PostgreSQL's own
            seen.took = time.monotonic() - began
            canceler.cancel()
            self._meet()
            self.seen = Seen()
        return seen

    @contextmanager
    def beside(self) -> Iterator[Seen]:
        """What is done meanwhile, by whoever asks."""
        seen = self.seen = Seen()
        self._meet()
        yield seen
        self._meet()
        self.seen = Seen()

    def _end(self, function: str, backend: int) -> None:
        with psycopg.connect(self._server.dsn, autocommit=True) as connection:
            connection.execute(f"SELECT {function}(%s)".encode(), (backend,))

    def close(self) -> None:
        self._over.set()
        self._thread.join(30)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def sigterm(server: ShoalServer, sql: str, path: str) -> str:
    """What is wrong with how a server ends that is told to while it runs a statement, which it gives SHUTDOWN_GRACE."""
    begun = threading.Event()

    def run() -> None:
        with contextlib.suppress(psycopg.Error), psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute(f"SET shoal.path = {path}".encode())
            begun.set()
            connection.execute(sql.encode())

    with server:
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        begun.wait(60)
        time.sleep(TIMEOUT / 2)
        began = time.monotonic()
        with contextlib.suppress(RuntimeError):  # it has not stopped within STOP_LIMIT
            server.stop()
        took = time.monotonic() - began
        thread.join(10)
    return f"SIGTERM ended it after {took:.2f} s" if took > SHUTDOWN_GRACE + 2 * MORE else ""
