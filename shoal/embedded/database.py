"""A database in a directory, in this process."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
import weakref
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from shoal.config import Config, host_and_port
from shoal.embedded.connection import Connection, Cursor, Parameters
from shoal.embedded.engine_thread import EngineThread
from shoal.embedded.errors import InterfaceError, OperationalError
from shoal.embedded.tables import Table
from wire.server import Server

if TYPE_CHECKING:
    import pandas
    import pyarrow as pa

logging.getLogger("shoal").addHandler(logging.NullHandler())  # a library's messages are for who asks for them

_open: set[Database] = set()  # held until each is closed: its thread must not outlive the interpreter
_ended = threading.Event()  # the program is at its end, which closes what is open: nothing more may be opened


class Database:
    """An open directory. `execute`, `table`, `arrow`, `df` and `load` commit each by itself; `transaction` and
    `connect` are for more. Threads may share it; each gets a connection of its own.
    """

    def __init__(self, path: str | Path, user: str, database: str, settings: dict[str, Any]) -> None:
        self.path = Path(path).absolute()
        self._user, self._database = user, database
        self._engine = EngineThread(Config(data=str(self.path), **settings))
        self._own = threading.local()
        self._connections: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._server: Server | None = None
        self._closed = False
        if _ended.is_set():
            raise InterfaceError("the program ends: no database can be opened any more")
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
        """Everything inside commits together, or not at all after an exception. `isolation`: '' (READ COMMITTED),
        'repeatable read' or 'serializable'; those may end with OperationalError (40001), to be tried again."""
        connection = self.connect()
        try:
            if isolation:
                connection.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
            yield Transaction(connection)
            connection.commit()
        finally:
            connection.close()

    def execute(self, sql: str, parameters: Parameters | None = None) -> Cursor:
        """A cursor that has executed one statement."""
        return self._mine().execute(sql, parameters)

    def executemany(self, sql: str, sequence: Iterable[Parameters]) -> Cursor:
        """The statement with each of the parameters, in one transaction."""
        with self.transaction() as transaction:
            return transaction.connection.cursor().executemany(sql, sequence)

    def table(self, name: str) -> Table:
        """The key-value interface to a table."""
        return Table(self._mine(), name)

    def arrow(self, sql: str, parameters: Parameters | None = None) -> pa.Table:
        """The result of a query as a pyarrow.Table."""
        return self._mine().arrow(sql, parameters)

    def df(self, sql: str, parameters: Parameters | None = None) -> pandas.DataFrame:
        """The result of a query as a pandas.DataFrame."""
        return self._mine().df(sql, parameters)

    def load(self, table: str, data: pa.Table | pa.RecordBatch | pandas.DataFrame) -> int:
        """Appends rows to a table in one commit. Returns how many."""
        return self._mine().load(table, data)

    def serve(self, listen: str = "127.0.0.1:0") -> str:
        """Lets PostgreSQL's clients in beside this process, until `close`; their connection string. Raises
        OperationalError where it cannot listen."""
        if self._server is not None:
            raise InterfaceError("it serves already")
        server = Server(self._engine.server.node, *host_and_port(listen), self._engine.config.max_connections)
        try:
            port = self._engine.call(server.start)
        except (OSError, ValueError) as error:
            raise OperationalError(str(error)) from None
        self._server = server
        return f"postgresql://{self._user}@{server.address[0]}:{port}/{self._database}"

    def close(self) -> None:
        """Ends all connections; what they have not committed is rolled back. Does nothing the second time."""
        if not self._closed:
            self._closed = True
            for connection in list(self._connections):
                connection.close()
            if self._server is not None:
                with contextlib.suppress(OperationalError):
                    self._engine.call(self._server.stop)
        self._engine.stop()
        _open.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _mine(self) -> Connection:
        """The calling thread's own connection."""
        found: Connection | None = getattr(self._own, "connection", None)
        if found is None or found.closed:
            found = self._own.connection = self.connect(autocommit=True)
        return found


class Transaction:
    """What `Database.transaction` gives."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.execute = connection.execute
        self.arrow = connection.arrow
        self.df = connection.df
        self.load = connection.load
        self.table = partial(Table, connection)


def open(  # as gzip.open and others
    path: str | Path, *, user: str = "postgres", database: str = "postgres", **settings: Any
) -> Database:
    """Opens the database in a directory, which is made if it is not there: the same files as `shoal serve`'s.

    `settings`: what a configuration file has (docs/settings.md), e.g. columnar_memory=1 << 30.
    Raises OperationalError: another process has it open, or it is damaged.
    """
    return Database(path, user, database, settings)


def connect(path: str | Path, **settings: Any) -> Connection:
    """PEP 249's: a connection to the database in a directory, which this process opens once and closes at its end."""
    where = Path(path).absolute()
    found = next((database for database in _open if database.path == where), None)
    if found is not None and found._engine.failure is not None:
        found.close()
        found = None
    return (found or open(path, **settings)).connect()


def _close_all() -> None:
    """A thread of ours that woke in an interpreter that has ended would end the process by SIGSEGV."""
    _ended.set()
    with contextlib.ExitStack() as every:
        for database in list(_open):
            every.callback(database.close)


def _leave_all() -> None:
    """In a fork: what is open is the parent's, whose threads have stayed there. Nobody is to wait for them."""
    for database in _open:
        database._closed = True
        database._engine.leave()
    _open.clear()


# What closes a database needs threads, and those of concurrent.futures end before atexit's functions are called: so it
# is called where they are ended, before them (Python has no public name for that).
getattr(threading, "_register_atexit", atexit.register)(_close_all)
os.register_at_fork(after_in_child=_leave_all)


__all__ = ["Database", "Transaction", "connect", "open"]
