"""The two ways of `shoal sql` to a database: a server, through libpq, or a directory, whose engine runs in this process
for as long as the command does. Both are asked by simple queries and answer with texts, so that they answer alike.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import psycopg

from catalog.errors import SqlError
from shoal.commands.cluster_access import one_line, server_error
from shoal.config import Config, ConfigError
from wire import client_core

if TYPE_CHECKING:
    from shoal.embedded.engine_thread import Link

ROW_LIMIT = 1 << 30  # bytes of a row
NO_SERVER = " Start a server with `shoal serve`, or give the directory of a stopped one with --data DIR."
NO_COPY = "COPY FROM STDIN and TO STDOUT are not supported by shoal sql: use psql"
Row = list[bytes | None]
Notice = Callable[[str], None]


@dataclass(slots=True)
class ChannelResult:
    """The result of a statement. `columns`: names and types' OIDs; none if it gives no rows."""

    columns: list[tuple[str, int]]
    rows: list[Row]
    tag: str


class SqlChannel(Protocol):
    """A session. ^C cancels what runs and is raised as KeyboardInterrupt."""

    def run(self, text: str) -> Iterator[ChannelResult]:
        """Runs statements. Raises SqlError, ConfigError."""
        ...

    def open_second(self) -> SqlChannel:
        """Another session with the same database, for another thread. Raises ConfigError."""
        ...

    def close(self) -> None: ...


class ServerChannel:
    """A session of a server through libpq, with its ways of passwords, TLS and several hosts."""

    def __init__(self, dsn: str, notice: Notice) -> None:
        """Raises ConfigError."""
        self._dsn, self._notice = dsn, notice
        try:
            self._connection = psycopg.connect(dsn, autocommit=True, fallback_application_name="shoal sql")
        except psycopg.Error as error:
            hint = NO_SERVER if "Connection refused" in str(error) else ""
            raise ConfigError(one_line(str(error)) + hint) from error
        self._connection.add_notice_handler(lambda said: notice(f"{said.severity}: {said.message_primary}"))

    def run(self, text: str) -> Iterator[ChannelResult]:
        try:
            cursor = self._connection.execute(text.encode())
            more: bool | None = True
            while more:
                yield _result(cursor)
                more = cursor.nextset()
        except psycopg.Error as error:
            raise _server_error(error) from error

    def open_second(self) -> ServerChannel:
        return ServerChannel(self._dsn, self._notice)

    def close(self) -> None:
        self._connection.close()


def _result(cursor: psycopg.Cursor[Any]) -> ChannelResult:
    found = cursor.pgresult
    assert found is not None
    columns = [((found.fname(i) or b"").decode(), found.ftype(i)) for i in range(found.nfields)]
    rows = [[found.get_value(row, i) for i in range(found.nfields)] for row in range(found.ntuples)]
    return ChannelResult(columns, rows, (found.command_status or b"").decode())


def _server_error(error: psycopg.Error) -> SqlError | ConfigError:
    if isinstance(error, psycopg.NotSupportedError | psycopg.ProgrammingError) and error.diag.message_primary is None:
        return ConfigError(NO_COPY)
    return server_error(error)


class DirectoryChannel:
    """A database that nobody serves."""

    def __init__(self, directory: str, user: str, database: str, notice: Notice) -> None:
        """Raises ConfigError: the directory is in use, damaged, not there."""
        from shoal.embedded.engine_thread import EngineThread, Link
        from shoal.embedded.errors import Error

        if not (Path(directory) / "rows").is_dir():
            raise ConfigError(f"there is no database in {directory}; shoal init --data {directory} makes one")
        logging.getLogger("shoal").addHandler(logging.NullHandler())  # the command itself says what failed
        self._notice = notice
        self._owner = True
        self._engine = EngineThread(Config(data=directory))
        self._session = {"user": user, "database": database, "client_encoding": "UTF8"}
        try:
            self._engine.start()
            self._link: Link = Link(self._engine, self._session)
        except Error as error:
            self._engine.stop()
            raise ConfigError(str(error)) from error

    def run(self, text: str) -> Iterator[ChannelResult]:
        from shoal.embedded.errors import Error

        try:
            self._link.send(client_core.query(text.encode()))
            yield from self._answers()
        except Error as error:
            raise ConfigError(str(error)) from error

    def _answers(self) -> Iterator[ChannelResult]:
        """Every answer is taken to its end, whatever happens: the next one begins behind it."""
        columns: list[tuple[str, int]] = []
        rows: list[Row] = []
        done: list[ChannelResult] = []
        error: Exception | None = None
        interrupted = False
        reader = client_core.RowReader(ROW_LIMIT)
        while True:
            try:
                frame = self._link.receive()
            except KeyboardInterrupt:
                interrupted = True
                self._link.cancel()
                continue
            kind = chr(frame.kind)
            if kind == "T":
                columns, rows = [(item.name, item.type_oid) for item in client_core.row_description(frame.body)], []
            elif kind == "D":
                rows.extend(reader.rows(frame.data))
            elif kind == "C":
                if error is None:
                    done.append(ChannelResult(columns, rows, frame.body.rstrip(b"\0").decode()))
                columns, rows = [], []
            elif kind == "E":
                error = error or client_core.report_error(frame.body)
            elif kind == "N":
                said = client_core.report_fields(frame.body)
                self._notice(f"{said.get('S', 'NOTICE')}: {said.get('M', '')}")
            elif kind == "G":
                self._link.send(client_core.copy_fail(NO_COPY))
                error = ConfigError(NO_COPY)
            elif kind == "H":
                error = ConfigError(NO_COPY)
            elif kind == "Z":
                break
        if interrupted:
            raise KeyboardInterrupt
        yield from done
        if error is not None:
            raise error

    def open_second(self) -> DirectoryChannel:
        from shoal.embedded.engine_thread import Link

        other = copy(self)
        other._owner = False
        other._link = Link(self._engine, self._session)
        return other

    def close(self) -> None:
        self._link.end()
        if self._owner:
            self._engine.stop()
