"""PEP 249 connections and cursors over a Link.

A connection prepares each statement text once. Parameters are `%s` or `%(name)s`, as in psycopg (in a statement with
parameters, `%%` is a percent sign). The statement determines the types of the parameters, and where it does not, the
Python value does.
"""

from __future__ import annotations

import re
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from catalog.identifiers import quote_identifier
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT
from shoal.embedded.engine_thread import ERROR, READY, EngineThread, Link
from shoal.embedded.errors import DatabaseError, InterfaceError, NotSupportedError, ProgrammingError, exception_of
from shoal.embedded.values import Decode, Decoders, natural_type, parameter
from wire import client_core
from wire.client_core import Column, Frame, RowReader

if TYPE_CHECKING:
    import pandas
    import pyarrow as pa

Parameters = Sequence[object] | Mapping[str, object]

KEPT = 200  # maximum number of prepared statements of a connection
ROW_LIMIT = 1 << 30  # maximum bytes of a row
COPY_PIECE = 1 << 18
SHOWN_ROWS, SHOWN_WIDTH = 20, 40  # rows and characters of a value in the repr of a result
_PLACE = re.compile(r"%(?:%|s|\((\w+)\)s)|(%)")
_STATUS = {ord("I"): "idle", ord("T"): "in transaction", ord("E"): "failed"}


@dataclass(slots=True)
class PreparedStatement:
    """A prepared statement: the types of its placeholders, and its result."""

    name: bytes
    types: tuple[int, ...]
    columns: list[Column]  # empty for a statement without a result
    formats: list[int]
    decoders: list[Decode]


class StatementResult:
    """The result of one statement: its rows and its command tag."""

    def __init__(self, columns: list[Column], decoders: list[Decode]) -> None:
        self.columns = columns
        self.decoders = decoders
        self.rows: list[list[bytes | None]] = []
        self.tag = ""

    @property
    def count(self) -> int:
        """The number of rows that it has returned or changed, or -1 if the tag has no number."""
        word = self.tag.rpartition(" ")[2]
        return int(word) if word.isdigit() else -1

    def values(self, row: list[bytes | None]) -> tuple[Any, ...]:
        return tuple(None if value is None else decode(value) for value, decode in zip(row, self.decoders, strict=True))


class Connection:
    """A session. Threads may share it: one statement runs at a time.

    Without `autocommit` the first statement opens a transaction, which `commit` or `rollback` ends.
    """

    def __init__(self, engine: EngineThread, user: str, database: str, autocommit: bool) -> None:
        self.autocommit = autocommit
        self.on_close: Callable[[], None] | None = None
        self._names = user, database
        self.notices: list[str] = []
        self._lock = threading.RLock()
        self._decoders = Decoders()
        self._prepared: OrderedDict[tuple[str, tuple[int, ...]], PreparedStatement] = OrderedDict()
        self._named = 0
        self._status = "idle"
        self._link = Link(engine, {"user": user, "database": database, "client_encoding": "UTF8"})
        weakref.finalize(self, self._link.end).atexit = False  # its thread has ended, or nothing refers to it

    # --- PEP 249 -------------------------------------------------------------------------------------------------

    def cursor(self) -> Cursor:
        self._check()
        return Cursor(self)

    def commit(self) -> None:
        """Commits. The transaction is durable when this returns."""
        self._end_transaction("COMMIT")

    def rollback(self) -> None:
        self._end_transaction("ROLLBACK")

    def close(self) -> None:
        """Closes the connection; an open transaction is rolled back."""
        with self._lock:
            if not self._link.is_closed:
                self._link.end()
        done, self.on_close = self.on_close, None
        if done is not None:
            done()

    def __repr__(self) -> str:
        user, database = self._names
        return f"<shoal.Connection to {database!r} as {user!r}, {'closed' if self.closed else self._status}>"

    # --- extensions ----------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        return self._link.is_closed

    @property
    def status(self) -> str:
        """idle, in transaction, or failed (only ROLLBACK ends the transaction)."""
        return self._status

    def execute(self, sql: str, parameters: Parameters | None = None) -> Cursor:
        """Executes a statement, and returns its cursor."""
        return self.cursor().execute(sql, parameters)

    def cancel(self) -> None:
        """Cancels the running statement, from another thread. The statement ends with OperationalError (57014)."""
        self._link.cancel()

    def arrow(self, sql: str, parameters: Parameters | None = None) -> pa.Table:
        """The result of a query as a pyarrow.Table. Columns are passed whole, never row by row."""
        import pyarrow as pa

        text = sql if parameters is None else with_literals(sql, parameters)
        data = self._copy_out(f"COPY ({text.strip().rstrip(';')}) TO STDOUT (FORMAT arrow)")
        with pa.ipc.open_stream(data) as reader:
            return reader.read_all()

    def df(self, sql: str, parameters: Parameters | None = None) -> pandas.DataFrame:
        """The result as a pandas.DataFrame."""
        return self.arrow(sql, parameters).to_pandas()

    def load(self, table: str, data: pa.Table | pa.RecordBatch | pandas.DataFrame) -> int:
        """Appends the rows of a pyarrow.Table, RecordBatch or DataFrame to a table, by the names of the columns, and
        returns their number. `table` is written as in SQL, with quotes where they are needed."""
        import pyarrow as pa

        rows = data if isinstance(data, pa.Table | pa.RecordBatch) else pa.Table.from_pandas(data, preserve_index=False)
        columns = ", ".join(quote_identifier(name) for name in rows.schema.names)
        with self._lock, pa.BufferOutputStream() as out:
            with pa.ipc.new_stream(out, rows.schema) as writer:
                writer.write(rows)
            self._begin()
            return self._copy_in(f"COPY {table} ({columns}) FROM STDIN (FORMAT arrow)", memoryview(out.getvalue()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commits and closes; after an exception it rolls back and closes, as psycopg does."""
        try:
            if not self.closed:
                self._end_transaction("ROLLBACK" if kind else "COMMIT")
        finally:
            self.close()

    # --- statements ----------------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self._link.is_closed:
            raise InterfaceError("the connection is closed")

    def _end_transaction(self, how: str) -> None:
        with self._lock:
            self._check()
            if self._status != "idle":
                self._simple(how)

    def _begin(self) -> None:
        self._check()
        if not self.autocommit and self._status == "idle":
            self._simple("BEGIN")

    def run(self, sql: str, parameters: Parameters | None) -> StatementResult:
        """Executes a statement. Raises PEP 249's exceptions."""
        with self._lock:
            self._begin()
            values: list[object] = []
            if parameters is not None:
                sql, values = place_parameters(sql, parameters)
            try:
                return self._execute(self._statement(sql, values), values)
            except ProgrammingError as error:
                if error.sqlstate == "42601" and not values and "multiple commands" in str(error):
                    return self._simple(sql)
                raise
            except NotSupportedError as error:
                if self._status != "idle" or "cached plan" not in str(error):
                    raise
                self._prepared.clear()  # the schema has changed since it was prepared
                return self._execute(self._statement(sql, values), values)

    def run_many(self, sql: str, sequence: Iterable[Parameters]) -> int:
        """Executes a statement with each set of parameters, and sends many of them before the first answer. Returns the
        number of changed rows."""
        count = 0
        with self._lock:
            self._begin()
            statement = None
            waiting = 0
            try:
                for parameters in sequence:
                    text, values = place_parameters(sql, parameters)
                    if statement is None:
                        statement = self._statement(text, values)
                    self._link.send(self._bind_message(statement, values) + client_core.SYNC)
                    waiting += 1
                    if waiting >= 100:
                        count += max(self._take_answer(StatementResult([], [])).count, 0)
                        waiting -= 1
            finally:
                failure: DatabaseError | None = None
                for _ in range(waiting):
                    try:
                        count += max(self._take_answer(StatementResult([], [])).count, 0)
                    except DatabaseError as error:
                        failure = failure or error
                if failure is not None:
                    raise failure
        return count

    def _statement(self, sql: str, values: Sequence[object]) -> PreparedStatement:
        known = self._prepared.get((sql, ()))
        if known is None:
            known = self._prepare_and_keep((sql, ()), values)
        if any(_is_open(oid, value) for oid, value in zip(known.types, values, strict=False)):
            types = tuple(
                natural_type(value) if _is_open(oid, value) else oid
                for oid, value in zip(known.types, values, strict=True)
            )
            return self._prepared.get((sql, types)) or self._prepare((sql, types))
        return known

    def _prepare_and_keep(self, key: tuple[str, tuple[int, ...]], values: Sequence[object]) -> PreparedStatement:
        try:
            return self._prepare(key)
        except ProgrammingError as error:
            if error.sqlstate not in ("42P18", "42725", "42883") or self._status == "failed":
                raise
            types = tuple(natural_type(value) for value in values)
            if not any(types):
                raise
            return self._prepared.get((key[0], types)) or self._prepare((key[0], types))

    def _prepare(self, key: tuple[str, tuple[int, ...]]) -> PreparedStatement:
        self._named += 1
        name = b"_%d" % self._named
        sql, types = key
        text = sql.encode()
        if b"\0" in text:
            raise ProgrammingError("a statement cannot contain NUL (0x00) bytes")
        self._link.send(client_core.parse(name, text, types) + client_core.describe("S", name) + client_core.SYNC)
        statement = PreparedStatement(name, (), [], [], [])
        for frame in self._frames():
            if frame.kind == ord("t"):
                statement.types = client_core.parameter_types(frame.body)
            elif frame.kind == ord("T"):
                statement.columns = client_core.row_description(frame.body)
        statement.formats = [self._decoders.format_of(column.type_oid) for column in statement.columns]
        statement.decoders = [
            self._decoders.decoder(column.type_oid, code, DEFAULT_FORMAT)
            for column, code in zip(statement.columns, statement.formats, strict=True)
        ]
        self._prepared[key] = statement
        if len(self._prepared) > KEPT:
            _, old = self._prepared.popitem(last=False)
            self._link.send(client_core.close("S", old.name) + client_core.SYNC)
            for _ in self._frames():
                pass
        return statement

    def _bind_message(self, statement: PreparedStatement, values: Sequence[object]) -> bytes:
        data = [parameter(value) for value in values]
        return client_core.bind(b"", statement.name, data, (), statement.formats) + client_core.execute(b"")

    def _execute(self, statement: PreparedStatement, values: Sequence[object]) -> StatementResult:
        if len(values) != len(statement.types):
            raise ProgrammingError(
                f"the number of $n parameters is {len(statement.types)}, the number of values {len(values)}"
            )
        self._link.send(self._bind_message(statement, values) + client_core.SYNC)
        return self._take_answer(StatementResult(statement.columns, statement.decoders))

    def _simple(self, sql: str) -> StatementResult:
        """Runs statements without parameters, and returns the answer of the last one."""
        self._link.send(client_core.query(sql.encode()))
        return self._take_answer(StatementResult([], []))

    def _take_answer(self, answer: StatementResult) -> StatementResult:
        """Reads all messages up to ReadyForQuery."""
        reader = RowReader(ROW_LIMIT)
        for frame in self._frames():
            kind = frame.kind
            if kind == ord("D"):
                answer.rows += reader.rows(frame.data)
            elif kind == ord("C"):
                answer.tag = client_core.strings(frame.body)[0]
            elif kind == ord("T"):
                columns = client_core.row_description(frame.body)
                decoders = [
                    self._decoders.decoder(column.type_oid, column.format, DEFAULT_FORMAT) for column in columns
                ]
                answer.columns, answer.decoders, answer.rows = columns, decoders, []
            elif kind in b"GH":
                self._refuse_copy(kind == ord("G"))
        return answer

    def _refuse_copy(self, incoming: bool) -> None:
        if incoming:
            self._link.send(client_core.copy_fail("use load() for COPY FROM STDIN") + client_core.SYNC)
        else:
            self._link.cancel()

    def _frames(self) -> Iterator[Frame]:
        """The frames of the answer up to ReadyForQuery. An error in it is raised when the answer is complete. An
        interrupt cancels the statement."""
        error: DatabaseError | None = None
        while True:
            try:
                frame = self._link.receive()
            except (KeyboardInterrupt, SystemExit):
                self._link.cancel()
                while self._link.receive().kind != READY:
                    pass
                raise
            if frame.kind == READY:
                self._status = _STATUS[frame.body[0]]
                break
            if frame.kind == ERROR:
                error = error or exception_of(client_core.report_error(frame.body))
            elif frame.kind == ord("N"):
                self.notices.append(client_core.report_fields(frame.body).get("M", ""))
                del self.notices[:-100]
            elif frame.kind == ord("S"):
                name, value = client_core.strings(frame.body)
                if name == "TimeZone":
                    self._decoders.use_zone(value)
            else:
                yield frame
        if error is not None:
            raise error

    # --- COPY ----------------------------------------------------------------------------------------------------

    def _copy_out(self, sql: str) -> bytes:
        with self._lock:
            self._begin()
            self._link.send(client_core.query(sql.encode()))
            pieces, left = [], b""
            for frame in self._frames():
                if frame.kind == ord("d"):
                    found, left = _split_copy_data(left + frame.data)
                    pieces += found
            return b"".join(pieces)

    def _copy_in(self, sql: str, data: memoryview) -> int:
        self._link.send(client_core.query(sql.encode()))
        answer = StatementResult([], [])
        for frame in self._frames():
            if frame.kind == ord("G"):
                for start in range(0, len(data), COPY_PIECE):
                    self._link.send(client_core.copy_data(bytes(data[start : start + COPY_PIECE])))
                self._link.send(client_core.COPY_DONE)
            elif frame.kind == ord("C"):
                answer.tag = client_core.strings(frame.body)[0]
        return answer.count


class Cursor:
    """PEP 249's cursor. When `execute` returns, the cursor has all rows."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self._answer: StatementResult | None = None
        self._at = 0
        self._changed = -1
        self._closed = False

    @property
    def description(self) -> list[tuple[Any, ...]] | None:
        """Name and type OID of each column, followed by five times None. None for a statement without a result."""
        if self._answer is None or not self._answer.columns:
            return None
        return [(column.name, column.type_oid, None, None, None, None, None) for column in self._answer.columns]

    def __repr__(self) -> str:
        """The first rows of the last result, as a table."""
        if self._closed:
            return "<shoal.Cursor, closed>"
        answer = self._answer
        if answer is None or not answer.columns:
            return f"<shoal.Cursor, {self.statusmessage or 'nothing executed'}>"
        rows = [answer.values(row) for row in answer.rows[:SHOWN_ROWS]]
        return as_table([column.name for column in answer.columns], rows, len(answer.rows))

    @property
    def rowcount(self) -> int:
        return self._changed

    @property
    def statusmessage(self) -> str:
        """The command tag: 'INSERT 0 1'."""
        return self._answer.tag if self._answer is not None else ""

    def execute(self, sql: str, parameters: Parameters | None = None) -> Cursor:
        """Executes a statement, and returns the cursor itself, so that `for row in cursor.execute(...)` works."""
        self._check()
        self._answer = None
        self._answer = self.connection.run(sql, parameters)
        self._at, self._changed = 0, self._answer.count
        return self

    def executemany(self, sql: str, sequence: Iterable[Parameters]) -> Cursor:
        self._check()
        self._answer, self._changed = None, -1
        self._changed = self.connection.run_many(sql, sequence)
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        answer = self._rows()
        if self._at >= len(answer.rows):
            return None
        self._at += 1
        return answer.values(answer.rows[self._at - 1])

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        answer = self._rows()
        begin, self._at = self._at, min(self._at + (self.arraysize if size is None else size), len(answer.rows))
        return [answer.values(row) for row in answer.rows[begin : self._at]]

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self.fetchmany(len(self._rows().rows))

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        while (row := self.fetchone()) is not None:
            yield row

    def close(self) -> None:
        self._closed, self._answer = True, None

    def setinputsizes(self, sizes: Sequence[object]) -> None:
        """Does nothing, because sizes need not be known in advance."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing, for the same reason."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed")

    def _rows(self) -> StatementResult:
        self._check()
        if self._answer is None or not self._answer.columns:
            raise ProgrammingError("the last statement returned no rows")
        return self._answer


def as_table(names: Sequence[str], rows: Iterable[tuple[Any, ...]], count: int) -> str:
    """Formats rows as a text table: columns under their names, long values cut, and the total number of rows."""
    lines = [list(names), *([_format_value(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = [
        " | ".join(value.ljust(width) for value, width in zip(line, widths, strict=True)).rstrip() for line in lines
    ]
    text.insert(1, "-+-".join("-" * width for width in widths))
    more = f", {SHOWN_ROWS} of them shown" if count > SHOWN_ROWS else ""
    return "\n".join([*text, f"({count} row{'' if count == 1 else 's'}{more})"])


def _format_value(value: object) -> str:
    text = "NULL" if value is None else str(value)
    text = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text[: SHOWN_WIDTH + 1])
    return text if len(text) <= SHOWN_WIDTH else text[: SHOWN_WIDTH - 1] + "…"


Show = Callable[[int, object], str]


def place_parameters(
    sql: str, parameters: Parameters, show: Show = lambda number, _: f"${number}"
) -> tuple[str, list[object]]:
    """The statement with $1, $2, ... as its parameters (or with the result of `show` for a number and a value), and the
    values. Raises ProgrammingError."""
    values: list[object] = []
    numbers: dict[str, int] = {}
    named = isinstance(parameters, Mapping)

    def place(found: re.Match[str]) -> str:
        name, stray = found.groups()
        if found[0] == "%%":
            return "%"
        if stray:
            raise ProgrammingError("write '%%' for '%' in a statement that has parameters")
        if named != (name is not None):
            wanted = "a sequence" if named else "a mapping"
            raise ProgrammingError(f"the statement's parameters are {found[0]}: give {wanted}")
        if isinstance(parameters, Mapping):
            if name not in numbers:
                if name not in parameters:
                    raise ProgrammingError(f'there is no value for the parameter "{name}"')
                values.append(parameters[name])
                numbers[name] = len(values)
            return show(numbers[name], parameters[name])
        if len(values) == len(parameters):
            raise ProgrammingError(f"the number of parameters is {len(values)}, and there are more placeholders")
        values.append(parameters[len(values)])
        return show(len(values), values[-1])

    text = _PLACE.sub(place, sql)
    if not named and len(values) != len(parameters):
        raise ProgrammingError(
            f"the number of placeholders is {len(values)}, the number of parameters {len(parameters)}"
        )
    return text, values


def with_literals(sql: str, parameters: Parameters) -> str:
    """The statement with its parameters as literals, because COPY takes no others."""
    return place_parameters(sql, parameters, lambda _, value: _literal(value))[0]


def _literal(value: object) -> str:
    data = parameter(value)
    if data is None:
        return "NULL"
    text = data.decode()
    start = " E'" if "\\" in text else " '"
    body = text.replace("\\", "\\\\").replace("'", "''")
    oid = natural_type(value)
    cast = f"::{_NAMES[oid]}" if oid else ""
    return f"{start}{body}'{cast}"


_NAMES = {
    oids.BOOL: "boolean", oids.INT4: "integer", oids.INT8: "bigint", oids.NUMERIC: "numeric",
    oids.FLOAT8: "double precision", oids.BYTEA: "bytea", oids.TIMESTAMP: "timestamp", oids.TIMESTAMPTZ: "timestamptz",
    oids.DATE: "date", oids.TIME: "time", oids.TIMETZ: "timetz", oids.INTERVAL: "interval", oids.UUID: "uuid",
    oids.JSONB: "jsonb",
}  # fmt: skip


def _is_open(oid: int, value: object) -> bool:
    """Whether the statement accepts any type at a parameter, so that the value determines the type."""
    return oid == oids.TEXT and natural_type(value) != 0


def _split_copy_data(data: bytes) -> tuple[list[bytes], bytes]:
    """The contents of the complete CopyData messages, and the remaining bytes."""
    found, position = [], 0
    while len(data) - position >= 5:
        end = position + 1 + int.from_bytes(data[position + 1 : position + 5], "big")
        if end > len(data):
            break
        found.append(data[position + 5 : end])
        position = end
    return found, data[position:]
