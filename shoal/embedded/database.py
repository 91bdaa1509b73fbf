"""A database in a directory, in this process."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from catalog.errors import SqlError
from shoal.access import client_tls, host_rules, mock_key
from shoal.config import Config, ConfigError, host_and_port
from shoal.embedded.connection import Connection, Cursor, Parameters
from shoal.embedded.engine_thread import EngineThread
from shoal.embedded.errors import InterfaceError, OperationalError, exception_of
from shoal.embedded.tables import Table
from wire.server import Server

if TYPE_CHECKING:
    import pandas
    import pyarrow as pa

logging.getLogger("shoal").addHandler(
    logging.NullHandler()
)  # a library logs nothing unless the program configures logging

MEMORY = ":memory:"
"""In place of a directory: a temporary one, which is gone when the database is closed."""

_open: set[Database] = set()  # open databases: their threads must end before the interpreter does
_ended = threading.Event()  # the interpreter is ending, so no database may be opened


REFUSED: Mapping[str, str] = {
    "data": "use the path of shoal.open()",
    "listen": "pass the address to serve()",
    "admin": "only shoal serve has an administration port",
    "log_format": "the program configures logging; the logger is named shoal",
    "cluster": "only shoal serve can join a cluster",
    "store": "it is for clusters only",
    "read_from": "it is for clusters only",
    "node": "it is for clusters only",
    "session_timeout": "it is for clusters only",
    "commit_timeout": "it is for clusters only",
    "checkpoint_interval": "it is for clusters only",
}
"""The settings that mean nothing in a program, with the reason; all others are used."""


def make_config(path: Path, settings: Mapping[str, Any]) -> Config:
    """The configuration of an embedded database. Raises InterfaceError for an unknown setting, and NotSupportedError
    for one that has no effect here."""
    known = {field.name: type(field.default) for field in fields(Config)}
    for name, value in settings.items():
        if name not in known:
            raise InterfaceError(
                f'unknown setting "{name}"; known are {", ".join(sorted(known.keys() - REFUSED.keys()))}'
            )
        if name in REFUSED:
            error = SqlError("0A000", f"the setting {name} of an embedded database is not supported: {REFUSED[name]}")
            raise exception_of(error)
        if type(value) is not known[name] and not (known[name] is float and type(value) is int):
            raise InterfaceError(f"{name} must be of type {known[name].__name__}")
    return Config(data=str(path), **settings)


class Database:
    """An open directory. `execute`, `table`, `arrow`, `df` and `load` commit on their own. `transaction` and `connect`
    serve longer transactions. Threads may share a Database; each thread gets a connection of its own.
    """

    def __init__(self, path: str | Path, user: str, database: str, settings: dict[str, Any]) -> None:
        self.path: Path
        self._temporary = str(path) == MEMORY
        if _find_open(path) is not None:
            raise OperationalError(
                f"{path} is already open in this process: use that database, or close it first "
                "(shoal.connect(path) gives a connection to it)"
            )
        self.path = Path(tempfile.mkdtemp(prefix="shoal-memory-") if self._temporary else path).absolute()
        self._user, self._database = user, database
        self._engine = EngineThread(make_config(self.path, settings))
        self._own = threading.local()
        self._connections: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._server: Server | None = None
        self._closed = False
        if _ended.is_set():
            raise InterfaceError("the program is ending: a database can no longer be opened")
        _open.add(self)
        try:
            self._engine.start()
        except BaseException:
            self.close()
            raise

    def connect(self, *, autocommit: bool = False, user: str = "", database: str = "") -> Connection:
        """A PEP 249 connection. Raises OperationalError."""
        if self._closed:
            raise InterfaceError("the database is closed")
        connection = Connection(self._engine, user or self._user, database or self._database, autocommit)
        self._connections.add(connection)
        return connection

    @contextlib.contextmanager
    def transaction(self, isolation: str = "") -> Iterator[Transaction]:
        """A transaction: everything inside commits together, and after an exception nothing does. `isolation`: '' (READ
        COMMITTED), 'repeatable read' or 'serializable'. The last two may end with OperationalError (40001); the program
        then retries."""
        connection = self.connect()
        try:
            if isolation:
                connection.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
            yield Transaction(connection)
            connection.commit()
        finally:
            connection.close()

    def execute(self, sql: str, parameters: Parameters | None = None) -> Cursor:
        """Executes one statement, and returns its cursor."""
        return self._own_connection().execute(sql, parameters)

    def executemany(self, sql: str, sequence: Iterable[Parameters]) -> Cursor:
        """Executes a statement with each set of parameters, in one transaction."""
        with self.transaction() as transaction:
            return transaction.connection.cursor().executemany(sql, sequence)

    def table(self, name: str) -> Table:
        """The key-value interface to a table."""
        return Table(self._own_connection(), name)

    def arrow(self, sql: str, parameters: Parameters | None = None) -> pa.Table:
        """The result of a query as a pyarrow.Table."""
        return self._own_connection().arrow(sql, parameters)

    def df(self, sql: str, parameters: Parameters | None = None) -> pandas.DataFrame:
        """The result of a query as a pandas.DataFrame."""
        return self._own_connection().df(sql, parameters)

    def load(self, table: str, data: pa.Table | pa.RecordBatch | pandas.DataFrame) -> int:
        """Appends rows to a table in one commit, and returns their number."""
        return self._own_connection().load(table, data)

    def serve(self, listen: str = "127.0.0.1:0") -> str:
        """Accepts PostgreSQL's clients too, until `close`, and returns the connection string. Raises OperationalError
        if it cannot listen."""
        if self._server is not None:
            raise InterfaceError("the database is already being served")
        config = self._engine.config
        try:
            rules, tls = host_rules(config), client_tls(config)
            address = host_and_port(listen)
            key = mock_key(config.data_path)
            server = Server(
                self._engine.server.node,
                *address,
                config.max_connections,
                rules=rules,
                tls=tls,
                mock_key=key,
                reserved=config.superuser_reserved_connections,
            )
            port = self._engine.call(server.start)
        except (OSError, ValueError, ConfigError) as error:
            raise OperationalError(str(error)) from None
        self._server = server
        return f"postgresql://{self._user}@{server.address[0]}:{port}/{self._database}"

    def close(self) -> None:
        """Ends all connections, and rolls back what they have not committed. A second call does nothing."""
        if not self._closed:
            self._closed = True
            for connection in list(self._connections):
                connection.close()
            if self._server is not None:
                with contextlib.suppress(OperationalError):
                    self._engine.call(self._server.stop)
        self._engine.stop()
        _open.discard(self)
        if self._temporary:
            shutil.rmtree(self.path, ignore_errors=True)

    def __repr__(self) -> str:
        place = MEMORY if self._temporary else str(self.path)
        return f"<shoal.Database {place!r}{', closed' if self._closed else ''}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _own_connection(self) -> Connection:
        """The calling thread's own connection."""
        found: Connection | None = getattr(self._own, "connection", None)
        if found is None or found.closed:
            found = self._own.connection = self.connect(autocommit=True)
        return found


class Transaction:
    """The result of `Database.transaction`."""

    def __repr__(self) -> str:
        return f"<shoal.Transaction on {self.connection!r}>"

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.execute = connection.execute
        self.arrow = connection.arrow
        self.df = connection.df
        self.load = connection.load
        self.table = partial(Table, connection)


def open(  # as gzip.open and others have it
    path: str | Path, *, user: str = "postgres", database: str = "postgres", **settings: Any
) -> Database:
    """Opens the database in a directory, and creates it if it does not exist. The files are those of `shoal serve`.
    ":memory:" is a new database in a temporary directory, which is removed when it is closed.

    `settings`: the settings of a configuration file (docs/settings.md), for example columnar_memory=1 << 30. Raises
    OperationalError if this or another process has the directory open, or it is damaged; NotSupportedError (0A000) for
    a setting without a meaning in a program, such as a cluster's.
    """
    return Database(path, user, database, settings)


def connect(path: str | Path, **settings: Any) -> Connection:
    """PEP 249's function: a connection to the database in a directory. The process opens the directory once, and closes
    it at its end."""
    where, found = Path(path).absolute(), _find_open(path)
    if found is not None and found._engine.failure is not None:
        found.close()
        found = None
    if found is not None:
        asked, config = make_config(where, settings), found._engine.config
        other = [name for name in settings if getattr(config, name) != getattr(asked, name)]
        if other:
            raise InterfaceError(f"{where} is open with another value of {', '.join(other)}: close it first")
    if found is not None:
        return found.connect()
    database = open(path, **settings)
    connection = database.connect()
    if database._temporary:  # no other caller uses it
        connection.on_close = database.close
    return connection


def _find_open(path: str | Path) -> Database | None:
    """The database that is open in this directory, under any path."""
    if str(path) == MEMORY:
        return None
    return next((database for database in list(_open) if _is_same_directory(database.path, Path(path))), None)


def _is_same_directory(one: Path, other: Path) -> bool:
    """Whether both paths are the same directory."""
    try:
        return one == other.absolute() or one.samefile(other)
    except OSError:
        return False


def _close_all() -> None:
    """Closes all databases before the interpreter ends, because the process would crash (SIGSEGV) if an engine's thread
    woke later."""
    _ended.set()
    with contextlib.ExitStack() as every:
        for database in list(_open):
            every.callback(database.close)


def _abandon_all() -> None:
    """Abandons all databases in a forked process, because their threads exist in the parent only."""
    for database in _open:
        database._closed = True
        database._engine.abandon()
    _open.clear()


# Closing a database needs threads, and those of concurrent.futures end before atexit's functions run. So it is called
# where they are ended, before them (Python has no public name for that).
getattr(threading, "_register_atexit", atexit.register)(_close_all)
os.register_at_fork(after_in_child=_abandon_all)


__all__ = ["Database", "Transaction", "connect", "open"]
