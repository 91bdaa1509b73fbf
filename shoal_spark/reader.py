"""Batch reads: one snapshot for the whole job, in partitions, as Arrow from the server's columns to Spark's.

    planning    the server holds the snapshot under a name, and divides the table into even ranges of its primary key
    a task      SET TRANSACTION SNAPSHOT; COPY (SELECT ... WHERE filters AND range) TO STDOUT (FORMAT arrow)

The server releases a snapshot after `snapshotTimeout` seconds without the start or end of a read. A task then fails
with a message that says what to do. A query (no table) is one partition, unless partitionColumn, lowerBound, upperBound
and numPartitions divide it, as in JDBC.
"""

from __future__ import annotations

import datetime
import gc
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import psycopg
import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from shoal_spark.filters import condition
from shoal_spark.options import OptionError, ShoalOptions, quote_name
from shoal_spark.types import SqlColumn

PART_BYTES = 32 << 20  # of a table for each part, unless the user gives the number of parts
MOST_PARTS = 200
_COLUMNS = """
SELECT c.name, CASE WHEN e.oid IS NULL THEN y.typname ELSE e.typname END, c.modifier, e.oid IS NOT NULL
FROM unnest(%s::text[], %s::oid[], %s::int[]) WITH ORDINALITY AS c(name, type, modifier, number)
JOIN pg_type y ON y.oid = c.type LEFT JOIN pg_type e ON e.oid = y.typelem AND y.typcategory = 'A'
ORDER BY c.number
"""


def columns_of(connection: psycopg.Connection[Any], relation: str) -> list[SqlColumn]:
    """The columns of the relation after FROM."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {relation} LIMIT 0")
        described = cursor.pgresult
        assert described is not None
        places = range(described.nfields)
        names = [(described.fname(place) or b"").decode() for place in places]
        types = [described.ftype(place) for place in places]
        modifiers = [described.fmod(place) for place in places]
        cursor.execute(_COLUMNS, (names, types, modifiers))
        return [SqlColumn(*row) for row in cursor.fetchall()]


class ReadPartition(InputPartition):
    """A part of a read: a condition, and the name of the moment."""

    def __init__(self, where: str, snapshot: str) -> None:
        super().__init__(where)
        self.snapshot = snapshot


class ShoalReader(DataSourceReader):
    """See the module's text."""

    def __init__(self, options: ShoalOptions, schema: t.StructType) -> None:
        self._options = options
        self._schema = schema
        self._conditions: list[str] = []

    def take(self, filters: list[Filter]) -> Iterator[Filter]:
        """Accepts the filters that certainly mean the same in SQL, and returns the others."""
        with self._options.connect() as connection:
            columns = {column.name: column for column in columns_of(connection, self._options.relation)}
        for item in filters:
            made = condition(item, columns)
            if made is None:
                yield item
            else:
                self._conditions.append(made)

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        with options.connect() as connection:
            name = options.snapshot
            if name is None:
                ((name,),) = connection.execute(
                    "SELECT shoal_hold_snapshot(%s)", (options.snapshot_timeout,)
                ).fetchall()
            return [ReadPartition(where, name) for where in self._ranges(connection)]

    def _ranges(self, connection: psycopg.Connection[Any]) -> Sequence[str]:
        options = self._options
        if options.partition_column is not None:
            return _strides(options)
        if options.table is None:
            return ("true",)
        parts = options.partitions
        if parts is None:
            ((size,),) = connection.execute("SELECT pg_table_size(%s::regclass)", (options.table,)).fetchall()
            parts = min(-(-(size or 1) // PART_BYTES), MOST_PARTS)
        found = connection.execute("SELECT shoal_key_ranges(%s::regclass, %s)", (options.table, max(parts, 1)))
        return [row[0] for row in found.fetchall()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads the part's rows, in a task."""
        assert isinstance(partition, ReadPartition)
        keep_modules()
        names = self._schema.fieldNames()
        listed = ", ".join(map(quote_name, names)) or "1 AS shoal_nothing"
        where = " AND ".join(f"({item})" for item in (*self._conditions, partition.value))
        query = f"SELECT {listed} FROM {self._options.relation} WHERE {where}"
        wanted = to_arrow_schema(self._schema, timezone="UTC")
        with self._options.connect() as connection:
            begin_at(connection, partition.snapshot)
            with connection.cursor().copy(f"COPY ({query}) TO STDOUT (FORMAT arrow)") as copy:
                reader = pa.ipc.open_stream(_CopyStream(copy))
                convert = _conversion(reader.schema, wanted)
                for batch in reader:
                    yield convert(batch)
                while copy.read():
                    pass  # what ends the COPY stands behind what ends the stream
            connection.execute("COMMIT")
            begin_at(connection, partition.snapshot)  # the moment lasts on from here


def keep_modules() -> None:
    """Exempts the modules imported by now from garbage collection, once in a worker's life. Spark's workers collect all
    objects after each task (pyspark/daemon.py), which takes 40 ms for the modules, as long as the task itself may
    take."""
    if not gc.get_freeze_count():
        gc.freeze()


class FilteringReader(ShoalReader):
    """A reader that accepts filters. Spark refuses it unless spark.sql.python.filterPushdown.enabled is set."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        return self.take(filters)


def begin_at(connection: psycopg.Connection[Any], snapshot: str) -> None:
    """Starts a transaction that reads the moment. Raises RuntimeError if the server no longer holds it."""
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        connection.execute("SET TRANSACTION SNAPSHOT '" + snapshot.replace("'", "''") + "'")
    except psycopg.errors.InvalidParameterValue:
        raise RuntimeError(
            "the snapshot of this read no longer exists: the server was restarted, another node leads now, or "
            'nobody has used it for "snapshotTimeout" seconds; read again, with a larger "snapshotTimeout" if need be'
        ) from None


class _CopyStream(io.RawIOBase):
    """COPY's data as a file that is read once."""

    def __init__(self, copy: psycopg.Copy) -> None:
        self._copy = copy
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not len(self._rest):
            data = self._copy.read()
            if not data:
                return 0
            self._rest = memoryview(data)
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size

    def read(self, size: int = -1) -> bytes:
        found = []
        while size:
            if not len(self._rest):
                data = self._copy.read()
                if not data:
                    break
                self._rest = memoryview(data)
            part = self._rest if size < 0 else self._rest[:size]
            found.append(part)
            self._rest = self._rest[len(part) :]
            size -= len(part) if size > 0 else 0
        return b"".join(found)


Convert = Callable[[pa.RecordBatch], pa.RecordBatch]


def _conversion(found: pa.Schema, wanted: pa.Schema) -> Convert:
    """Makes the function that converts the server's batches to Spark's. Columns of the same type are passed
    unchanged."""

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            column if column.type == field.type else _cast(column, field)
            for column, field in zip(batch.columns, wanted, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=wanted)

    return (lambda batch: batch) if found.equals(wanted) else convert


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(
            f'column "{field.name}" has a value of Arrow\'s type {column.type} that is not a {field.type}: '
            f'{str(error).splitlines()[0]}; cast the column in the option "query"'
        ) from None


def _strides(options: ShoalOptions) -> list[str]:
    """partitionColumn, lowerBound, upperBound, numPartitions as in JDBC: they divide the rows, and exclude none."""
    assert options.partition_column and options.lower_bound and options.upper_bound and options.partitions
    name = quote_name(options.partition_column.strip('"'))
    read, write = _bound_of(options.lower_bound)
    try:
        low, high = read(options.lower_bound), read(options.upper_bound)
    except ValueError:
        raise OptionError('"lowerBound" and "upperBound" must both be whole numbers, dates or timestamps') from None
    if low > high:
        raise OptionError('"lowerBound" is above "upperBound"')
    parts = max(min(options.partitions, high - low), 1)
    cuts = [write(low + (high - low) * place // parts) for place in range(1, parts)]
    if not cuts:
        return ["true"]
    inner = [f"{name} >= {first} AND {name} < {last}" for first, last in pairwise(cuts)]
    return [f"{name} < {cuts[0]} OR {name} IS NULL", *inner, f"{name} >= {cuts[-1]}"]


def _bound_of(text: str) -> tuple[Callable[[str], int], Callable[[int], str]]:
    """The functions that read bounds of that form as numbers, and write numbers as SQL."""
    try:
        int(text)
        return int, str
    except ValueError:
        pass
    first, second = datetime.datetime(1970, 1, 1), datetime.timedelta(microseconds=1)
    if len(text.strip()) == len("2024-01-01"):
        return (
            lambda given: datetime.date.fromisoformat(given.strip()).toordinal(),
            lambda number: f"'{datetime.date.fromordinal(number).isoformat()}'",
        )
    return (
        lambda given: (datetime.datetime.fromisoformat(given.strip()).replace(tzinfo=None) - first) // second,
        lambda number: f"'{(first + number * second).isoformat(sep=' ')}'",
    )
