"""`shoal restore SOURCE --as NAME`: restores a database of a backup as a new database of a server or of a directory.

Both use CREATE DATABASE ... IN BACKUP. A server runs it, or for the directory of a stopped server the engine in this
process. So SOURCE is a place that the server can read, and the command refuses what the statement refuses.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import threading
from contextlib import suppress
from datetime import timedelta

import orjson

from catalog.errors import SqlError
from catalog.identifiers import quote_identifier, quote_literal
from shoal.commands.backup import LOOK, archive_url, moment
from shoal.commands.cluster_access import EPOCH, LOCAL, conninfo
from shoal.commands.progress_bars import Bars
from shoal.commands.sql_channels import ServerChannel, SqlChannel
from shoal.commands.sql_errors import format_error
from shoal.config import ConfigError


def run(options: argparse.Namespace) -> int:
    """The exit status. Raises ConfigError, SqlError."""
    url = archive_url(options.source)
    if options.dsn is not None and options.data is not None:
        options.misused("--dsn names a server, --data the directory of a stopped server: choose one")
    said: list[str] = []
    try:
        channel = _open(options, said)
    except ConfigError as error:
        raise ConfigError("; ".join(str(error).splitlines())) from error
    try:
        with Bars() as bars, _ProgressWatch(channel, options.as_name, bars):
            for _ in channel.run(_statement(options, url)):
                pass
            bars.finish()
    except SqlError as error:
        raise ConfigError(format_error(error, "").replace("\n", "; ")) from error
    except KeyboardInterrupt:
        raise ConfigError("interrupted: run the same command again to continue") from None
    finally:
        channel.close()
    lines = [line.removeprefix("NOTICE: ") for line in said]
    text = next((line for line in lines if " as of LSN " in line), "")
    for line in lines:
        if line != text:
            print(line, file=sys.stderr)
    if options.json:
        found = re.search(r" as of LSN (\d+)", text)
        print(orjson.dumps({
            "database": options.as_name, "of": options.database, "source": url,
            "lsn": int(found[1]) if found else None,
        }).decode())  # fmt: skip
    else:
        print(text)
    return 0


def _open(options: argparse.Namespace, said: list[str]) -> SqlChannel:
    if options.data is not None:
        from shoal.commands.sql_directory import DirectoryChannel  # only a directory needs this import

        return DirectoryChannel(os.path.abspath(options.data), options.user, "postgres", said.append)
    return ServerChannel(conninfo(options.user, options.dsn or LOCAL), said.append)


def _statement(options: argparse.Namespace, url: str) -> str:
    text = f"CREATE DATABASE {quote_identifier(options.as_name)} FROM {quote_identifier(options.database)}"
    text += f" IN BACKUP {quote_literal(url)}"
    if options.to_lsn is not None:
        text += f" AS OF LSN {options.to_lsn}"
    if options.to_time is not None:
        text += f" AS OF TIMESTAMP {quote_literal(_exact(moment(options.to_time)))}"
    return text


def _exact(time: int) -> str:
    """Converts a time to microseconds since 2000-01-01 UTC."""
    return (EPOCH + timedelta(microseconds=time)).isoformat(" ")


class _ProgressWatch:
    """Shows the server's progress, over a session of its own."""

    def __init__(self, channel: SqlChannel, name: str, bars: Bars) -> None:
        self._query = f"SELECT shoal_restore_progress({quote_literal(name)})"
        self._bars = bars
        self._over = threading.Event()
        self._channel = channel.open_second()
        self._thread = threading.Thread(target=self._read_progress, name="progress", daemon=True)

    def _read_progress(self) -> None:
        with suppress(SqlError, ConfigError):  # the restore itself reports the error
            while not self._over.wait(LOOK):
                for result in self._channel.run(self._query):
                    (row,) = result.rows
                    if row[0] is not None:
                        status = orjson.loads(row[0])
                        self._bars.show(status["step"], status["done"], status["total"])

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._channel.close()
