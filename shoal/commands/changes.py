"""`shoal changes`: prints a change stream as JSON lines, in Debezium's envelope.

The command reads changes after the last LSN, prints one line for each, flushes standard output, and with --advance
moves the position of the stream.

With --follow, LISTEN wakes the command (engine/changes/streams.py), and it reconnects when the connection is lost. It
continues after the last LSN that it has printed in full, so it loses no change and prints none twice.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, TextIO

import orjson
import psycopg
from psycopg import sql

from shoal.commands import cluster_access
from shoal.config import ConfigError

AT_ONCE = 1000  # changes in one read, which occupies the server for some milliseconds
WAIT = 1.0  # seconds between reads without a notification: the leader may have changed
RECONNECT = (0.1, 5.0)  # seconds between attempts to reconnect: the first pause, the longest pause
_READ = """
    SELECT lsn, ordinal, (extract(epoch FROM commit_time) * 1000)::bigint, schema_version, op, "table",
           key::text, before::text, after::text
    FROM shoal_changes(%(stream)s, %(after)s, %(limit)s, %(ordinal)s)
"""

Change = tuple[int, int, int, int, str, str, str | None, str | None, str | None]


def run(options: argparse.Namespace) -> int:
    """Prints the changes, and returns the exit status. Raises ConfigError."""
    reader = _ChangeReader(options, sys.stdout)
    try:
        reader.run()
    except KeyboardInterrupt:
        sys.stdout.flush()
        if reader.last is not None:
            print(f"stopped; continue with --after {reader.last}", file=sys.stderr)
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # the reader has closed the pipe, which is not an error
    except psycopg.Error as error:
        raise ConfigError(one_line(error)) from error
    return 0


def one_line(error: psycopg.Error) -> str:
    """The error of the server or of libpq, with its hint, in one line."""
    diagnosis = error.diag
    if diagnosis.message_primary is None:
        return cluster_access.one_line(str(error))
    hint = f" {diagnosis.message_hint}" if diagnosis.message_hint else ""
    return f"{diagnosis.message_primary}.{hint}"


class _ChangeReader:
    """One run of the command. `last`: the LSN up to which all changes are printed, None before the first. A transaction
    is read in pieces, to limit the memory for a large one. The next piece starts after `_at`, which is (LSN,
    ordinal)."""

    def __init__(self, options: argparse.Namespace, output: TextIO) -> None:
        self._options = options
        self._output = output
        self._stream: str = options.stream
        self._left: int | None = options.limit
        self._connector = {"version": version("shoal"), "connector": "shoal", "name": self._stream}
        self.last: int | None = options.after
        self._at = (0, 0) if options.after is None else (options.after + 1, 0)

    def run(self) -> None:
        """Prints changes until there are no more, or until the command is stopped."""
        pause = RECONNECT[0]
        while True:
            try:
                with psycopg.connect(
                    self._options.dsn, autocommit=True, application_name="shoal changes"
                ) as connection:
                    self._read(connection)
                    return
            except psycopg.OperationalError as error:
                lost = error.sqlstate is None or error.sqlstate[:2] in ("08", "57")
                if not (self._options.follow and lost and self.last is not None):
                    raise
                print(f"{one_line(error)}: connecting again", file=sys.stderr)
                time.sleep(pause)
                pause = min(2 * pause, RECONNECT[1])

    def _read(self, connection: psycopg.Connection[Any]) -> None:
        if self._options.follow:
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(f"shoal.{self._stream}")))
        if self.last is None:
            self.last = self._position(connection)
            self._at = (self.last + 1, 0)
        while True:
            rows: Sequence[Change] = connection.execute(
                _READ, {"stream": self._stream, "after": self._at[0], "ordinal": self._at[1], "limit": AT_ONCE}
            ).fetchall()
            wanted = self._limit_rows(rows)
            if wanted:
                self._print(wanted, connection.info.dbname)
            whole = len(wanted) < AT_ONCE  # the last transaction is complete
            if whole and wanted:
                self._at = (wanted[-1][0] + 1, 0)
            ended = [row[0] for row in wanted if whole or row[0] < wanted[-1][0]]
            if ended and ended[-1] > self.last:
                self.last = ended[-1]
                if self._options.advance:
                    connection.execute("SELECT shoal_change_stream_advance(%s, %s)", (self._stream, self.last))
            satisfied = self._left is not None and self._left <= 0
            if len(wanted) < len(rows) or (whole and (satisfied or not self._options.follow)):
                return
            if whole:
                with contextlib.suppress(StopIteration):
                    next(connection.notifies(timeout=WAIT, stop_after=1))

    def _limit_rows(self, rows: Sequence[Change]) -> Sequence[Change]:
        """The rows within --limit. A transaction that starts before the limit is printed whole."""
        if self._left is None:
            return rows
        kept: list[Change] = []
        for row in rows:
            if self._left <= 0 and row[0] != (kept[-1][0] if kept else self._at[0]):
                break
            kept.append(row)
            self._left -= 1
        return kept

    def _position(self, connection: psycopg.Connection[Any]) -> int:
        """The position where reading starts by default."""
        found = connection.execute(
            "SELECT position FROM shoal_change_streams WHERE name = %s", (self._stream,)
        ).fetchone()
        return int(found[0]) if found is not None else 0

    def _print(self, rows: Sequence[Change], database: str) -> None:
        now = time.time_ns() // 1_000_000
        lines = []
        for lsn, ordinal, time_ms, schema_version, op, table, key, before, after in rows:
            schema, _, name = table.partition(".")
            source = {
                **self._connector, "ts_ms": time_ms, "db": database, "schema": schema, "table": name, "txId": lsn,
                "lsn": lsn, "ordinal": ordinal, "schemaVersion": schema_version,
            }  # fmt: skip
            lines.append(
                f'{{"before":{before or "null"},"after":{after or "null"},"key":{key or "null"},'
                f'"source":{orjson.dumps(source).decode()},"op":"{op}","ts_ms":{now}}}\n'
            )
        self._output.write("".join(lines))
        self._output.flush()
        self._at = rows[-1][:2]
