"""The two connections of `shoal sql`: to a server through libpq, or to a directory (sql_directory.py). Both send simple
queries and receive texts, so both give the same answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import psycopg

from catalog.errors import SqlError
from shoal.commands.cluster_access import one_line, server_error
from shoal.config import ConfigError

NO_SERVER = " Start a server with `shoal serve`, or give the directory of a stopped one with --data DIR."
NO_COPY = "COPY FROM STDIN and TO STDOUT are not supported by shoal sql: use psql"
Row = list[bytes | None]
Notice = Callable[[str], None]


@dataclass(slots=True)
class ChannelResult:
    """The result of a statement. `columns`: the names and type OIDs, empty for a statement without a result."""

    columns: list[tuple[str, int]]
    rows: list[Row]
    tag: str


class SqlChannel(Protocol):
    """A session. ^C cancels the running statement and raises KeyboardInterrupt."""

    def run(self, text: str) -> Iterator[ChannelResult]:
        """Runs statements. Raises SqlError, ConfigError."""
        ...

    def open_second(self) -> SqlChannel:
        """Opens another session on the same database, for another thread. Raises ConfigError."""
        ...

    def close(self) -> None: ...


class ServerChannel:
    """A session of a server through libpq, with its handling of passwords, TLS and several hosts."""

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
