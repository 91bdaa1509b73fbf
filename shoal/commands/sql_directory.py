"""`shoal sql --data`: a database in a directory. Its engine runs in this process while the command runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from copy import copy
from pathlib import Path

from shoal.commands.sql_channels import NO_COPY, ChannelResult, Notice, Row
from shoal.config import Config, ConfigError
from shoal.embedded.engine_thread import EngineThread, Link
from shoal.embedded.errors import Error
from wire import client_core

ROW_LIMIT = 1 << 30  # maximum bytes of a row


class DirectoryChannel:
    """A database in the directory of a stopped server."""

    def __init__(self, directory: str, user: str, database: str, notice: Notice) -> None:
        """Raises ConfigError if the directory is in use, damaged or missing."""
        if not (Path(directory) / "rows").is_dir():
            raise ConfigError(f"there is no database in {directory}; shoal init --data {directory} makes one")
        logging.getLogger("shoal").addHandler(logging.NullHandler())  # the command itself reports errors
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
        try:
            self._link.send(client_core.query(text.encode()))
            yield from self._answers()
        except Error as error:
            raise ConfigError(str(error)) from error

    def _answers(self) -> Iterator[ChannelResult]:
        """The answers. Each one is read to its end, also after an error, because the next one follows it in the
        stream."""
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
        other = copy(self)
        other._owner = False
        other._link = Link(self._engine, self._session)
        return other

    def close(self) -> None:
        self._link.end()
        if self._owner:
            self._engine.stop()
