"""Clients of one server that meet: one holds something open, one may have to wait for it, one looks on."""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Iterable

import psycopg

PATIENCE = 30.0
Statement = str | tuple[str, bytes]
"""A statement, or a COPY with its data."""


class Client:
    """A connection whose statements run in a thread, so that a waiting one can be watched. What a statement gives: its
    rows in order, the number of rows that it has changed, the data of COPY TO, or the SQLSTATE of its error. `tag`: the
    last one's command tag."""

    def __init__(self, dsn: str, schema: str) -> None:
        self.connection = psycopg.connect(dsn, autocommit=True, options=f"-c search_path={schema}")
        self.pid = self.connection.info.backend_pid
        self.tag: str | None = None
        self._thread = concurrent.futures.ThreadPoolExecutor(1)

    def start(self, statement: Statement) -> concurrent.futures.Future[object]:
        return self._thread.submit(self._run, statement)

    def _run(self, statement: Statement) -> object:
        self.tag = None
        try:
            if isinstance(statement, str) and statement.startswith("COPY"):
                with self.connection.cursor().copy(statement.encode()) as data:
                    return b"".join(map(bytes, data))
            if isinstance(statement, str):
                cursor = self.connection.execute(statement.encode())
                self.tag = cursor.statusmessage
                return sorted(cursor.fetchall()) if cursor.description else cursor.rowcount
            copying = self.connection.cursor()
            with copying.copy(statement[0].encode()) as copy:
                copy.write(statement[1])
            return copying.rowcount
        except psycopg.Error as error:
            return error.sqlstate

    def run(self, *statements: Statement) -> object:
        """What the last one gives."""
        result: object = None
        for statement in statements:
            result = self.start(statement).result(PATIENCE)
        return result

    def close(self) -> None:
        self._thread.shutdown()
        self.connection.close()


class Meeting:
    """Three clients of one server, in a schema that `setup` makes."""

    def __init__(self, dsn: str, schema: str, setup: str) -> None:
        self.first, self.second, self.third = (Client(dsn, schema) for _ in range(3))
        self._schema = schema
        self.third.run(setup)

    def waits(self, running: concurrent.futures.Future[object]) -> bool:
        """Whether the second client waits for a lock, rather than ends."""
        until = time.monotonic() + PATIENCE
        look = f"SELECT count(*) FROM pg_stat_activity WHERE pid = {self.second.pid} AND wait_event_type = 'Lock'"
        while not running.done() and time.monotonic() < until:
            if self.third.run(look) == [(1,)]:
                time.sleep(0.02)
                return not running.done()
            time.sleep(0.002)
        return False

    def given_after(self, changes: Iterable[str], statement: str, end: str) -> tuple[object, str | None]:
        """What the second client's statement gives, and its command tag, where the first one has made changes in a
        transaction, and ends that when the statement waits or is over."""
        self.first.run("BEGIN", *changes)
        running = self.second.start(statement)
        self.waits(running)
        self.first.run(end)
        return running.result(PATIENCE), self.second.tag

    def close(self) -> None:
        self.third.run(f"DROP SCHEMA {self._schema} CASCADE")
        for client in (self.first, self.second, self.third):
            client.close()
