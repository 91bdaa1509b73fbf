"""Statements of sqlsmith (Seltenreich), and what a server must not do with one of them.

sqlsmith reads a catalog and makes statements of all tables, types, functions and operators that it finds there: most of
them mean nothing, and many are wrong or not supported. So answers are not judged, but a statement must be answered, or
refused in good order. Wrong is

    a defect    XX000, or a traceback in the server's log
    a hang      no answer LIMIT seconds after the statement, though statement_timeout is TIMEOUT
    a crash     the server, or the analytic worker, is gone

sqlsmith only writes them down (--dry-run): so each is timed, and a seed makes the same ones of the same catalog again.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import psycopg

from tests.server import ShoalServer

TIMEOUT, LIMIT = 2.0, 60.0  # seconds
BATCH = 100  # statements of a seed
PATHS = ("auto", "columnar")

SCHEMA = """
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE people (
    id int PRIMARY KEY, name text NOT NULL UNIQUE, born date, mood mood, tags text[], score numeric(10, 2));
CREATE TABLE orders (
    id bigint PRIMARY KEY, person int REFERENCES people, at timestamptz DEFAULT now(), amount numeric,
    note varchar(20), doc jsonb, ok boolean);
CREATE INDEX ON orders (person);
CREATE INDEX ON orders (at);
CREATE TABLE parts (a int, b text, c double precision, d bytea, u uuid, i interval, r int4range) PARTITION BY RANGE (a);
CREATE TABLE parts_0 PARTITION OF parts FOR VALUES FROM (0) TO (100);
CREATE TABLE parts_1 PARTITION OF parts DEFAULT;
CREATE VIEW totals AS
    SELECT p.id, p.name, count(*) AS n, sum(amount) AS total
    FROM people p LEFT JOIN orders o ON o.person = p.id GROUP BY p.id;
CREATE MATERIALIZED VIEW moods AS SELECT mood, count(*) AS n FROM people GROUP BY mood;
INSERT INTO people SELECT g, 'name ' || g, date '2000-01-01' + g, (ARRAY['sad', 'ok', 'happy', NULL])[1 + g % 4]::mood,
    ARRAY['t' || g, NULL], g * 1.25 FROM generate_series(1, 50) g;
INSERT INTO orders SELECT g, 1 + g % 50, '2020-01-01'::timestamptz + g * interval '1 hour', g / 3.0, 'note ' || g,
    jsonb_build_object('k', g), g % 2 = 0 FROM generate_series(1, 300) g;
INSERT INTO parts SELECT g, 'b' || g, g / 7.0, '\\x00ff', NULL, g * interval '1 minute', int4range(g, g + 3)
    FROM generate_series(-20, 150) g;
"""


@dataclass(slots=True)
class Found:
    """`states`: how the statements ended, by SQLSTATE; 00000 for those that were answered."""

    states: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    @property
    def figures(self) -> str:
        timed = self.states["57014"]
        others = self.states.total() - self.states["00000"] - self.states["0A000"] - timed
        return (
            f"{self.states.total():,} statements: {self.states['00000']:,} answered, {self.states['0A000']:,} not "
            f"supported, {others:,} with other errors, {timed} longer than {TIMEOUT:g} s; {len(self.problems)} "
            "crashes, hangs and defects"
        )


def possible() -> bool:
    return shutil.which("sqlsmith") is not None


def statements(dsn: str, seed: int, count: int) -> list[str]:
    """What sqlsmith makes of the database's catalog. Raises RuntimeError when it fails."""
    command = ["sqlsmith", f"--target={dsn}", "--dry-run", f"--seed={seed}", f"--max-queries={count}"]
    if seed % 3 == 0:
        command.append("--exclude-catalog")
    made = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT * 2, check=False)
    found = [text.strip() for text in made.stdout.split(";\n") if text.strip()]
    if not found:
        raise RuntimeError(f"sqlsmith gives nothing: {made.stderr[-500:]}")
    return found


def prepare(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(SCHEMA.encode())


@contextlib.contextmanager
def watched(connection: psycopg.Connection[tuple[object, ...]], limit: float) -> Iterator[threading.Event]:
    """Cuts the connection's line after `limit` seconds, so that whoever waits on it goes on; the event tells."""
    cut = threading.Event()
    line = socket.socket(fileno=os.dup(connection.fileno()))

    def end() -> None:
        cut.set()
        with contextlib.suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(limit, end)
    timer.start()
    try:
        yield cut
    finally:
        timer.cancel()
        timer.join()
        line.close()


class Smith:
    """Runs statements on a server, each in a transaction that is rolled back."""

    def __init__(self, server: ShoalServer, limit: float = LIMIT) -> None:
        self.server = server
        self.limit = limit
        self.found = Found()
        self._workers: set[int] = set()
        self._defects = 0

    def run(self, seed: int, count: int, end: float) -> bool:
        """The statements of a seed until the time `end` (of time.monotonic). Whether the server can be asked more."""
        path = PATHS[seed % len(PATHS)]
        made = statements(self.server.dsn, seed, count)
        with self._connect(path) as connection:
            for number, sql in enumerate(made):
                if time.monotonic() > end and number:
                    break
                if problem := self._one(connection, sql):
                    self.found.problems.append(f"seed {seed}, statement {number}: {problem}: {_short(sql)}")
                    if connection.broken:
                        return self._answers()
        return True

    def _connect(self, path: str) -> psycopg.Connection[tuple[object, ...]]:
        options = f"-c statement_timeout={TIMEOUT * 1000:.0f} -c shoal.path={path}"
        return psycopg.connect(self.server.dsn, autocommit=True, options=options)

    def _ended(self) -> bool:
        """Whether the server is gone: its end may come a moment after that of its connections."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.server.process is None or self.server.process.wait(2.0) is not None
        return False

    def _answers(self) -> bool:
        if self._ended():
            return False
        with contextlib.suppress(psycopg.Error), psycopg.connect(self.server.dsn, connect_timeout=10) as connection:
            connection.execute(b"SELECT 1")
            return True
        return False

    def _one(self, connection: psycopg.Connection[tuple[object, ...]], sql: str) -> str:
        """What was wrong, '' if nothing."""
        problem = ""
        with watched(connection, self.limit) as cut:
            try:
                connection.execute(b"BEGIN")
                connection.execute(sql.encode())
                state = "00000"
            except psycopg.Error as error:
                state = error.sqlstate or "none"
                if state == "XX000" or state.startswith(("57P", "58")):
                    problem = f"{state}: {str(error).splitlines()[0][:200]}"
            with contextlib.suppress(psycopg.Error):
                connection.execute(b"ROLLBACK")
        self.found.states[state] += 1
        if cut.is_set():
            return f"no answer within {self.limit:g} s"
        if connection.broken:
            return problem or ("the server has ended" if self._ended() else "the server has hung up")
        return problem or self._lost_worker() or self._defect()

    def _lost_worker(self) -> str:
        workers = set(self.server.workers())
        lost, self._workers = self._workers - workers, workers
        return "the analytic worker has ended" if lost else ""

    def _defect(self) -> str:
        """A defect that no client was told of."""
        seen = len(re.findall(r"^ *Traceback|internal error", self.server.log.read_text(), re.MULTILINE))
        more, self._defects = seen > self._defects, seen
        return "a traceback in the log" if more else ""


def _short(sql: str) -> str:
    """A statement on one line: the seed makes the whole of it again."""
    return re.sub(r"\s+", " ", sql)[:300]
