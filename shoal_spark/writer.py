"""Batch writes: every task copies its rows into a stage of the server, and the driver commits those of the chosen
tasks.

    planning    the table is made if there is none; the server checks the columns; a stage is opened
    a task      COPY t (...) FROM STDIN (FORMAT arrow, STAGE ..., PART 'partition.attempt')
    the commit  one transaction, with the parts of the attempts that Spark has chosen
    abort       the stage is dropped; after a driver that was killed it goes away by itself ("stageTimeout")

In the commit, by mode:

    append      COPY t FROM the stage
    overwrite   TRUNCATE t, and the same
    upsert      the rows into a temporary table, then INSERT ... ON CONFLICT (key) DO UPDATE
    delete      the same, then DELETE ... USING it: the data has the key's columns, and no others count

`key` is the table's primary key, or the option "keyColumns".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import Connection
from pyspark import TaskContext
from pyspark.sql import types as t
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema

from shoal_spark.options import OptionError, ShoalOptions, quote_name, quote_names
from shoal_spark.reader import keep_modules
from shoal_spark.types import sql_type

_KEY = """
SELECT a.attname FROM pg_index i CROSS JOIN unnest(i.indkey::int2[]) WITH ORDINALITY AS k(number, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
WHERE i.indrelid = %s::regclass AND i.indisprimary ORDER BY k.place
"""
ROWS = "shoal_spark_rows"
_END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"


@dataclass
class WriteMessage(WriterCommitMessage):
    """A task's message to the commit: the name of its part, and the number of its rows."""

    part: str
    rows: int


class ShoalWriter(DataSourceArrowWriter):
    """Created when the write is planned. Tasks and the commit have copies of it."""

    def __init__(self, options: ShoalOptions, schema: t.StructType, overwrite: bool) -> None:
        if options.table is None:
            raise OptionError('a write needs the option "dbtable" with the name of a table')
        if overwrite and options.write_mode != "append":
            raise OptionError(f'the mode overwrite does not go with "writeMode" {options.write_mode}')
        self._options = options
        self._table = options.table
        self._overwrite = overwrite
        self._names = schema.fieldNames()
        self._created = False
        with options.connect() as connection:
            self._keys = self._prepare(connection, schema)
            ((self._stage,),) = connection.execute("SELECT shoal_stage(%s)", (options.stage_timeout,)).fetchall()
            try:
                self._check(connection, schema)
            except BaseException:
                self._drop_stage(connection)
                raise

    def _prepare(self, connection: Connection[Any], schema: t.StructType) -> list[str]:
        """Creates the table if there is none. Determines the key's columns if the mode needs them."""
        mode = self._options.write_mode
        if connection.execute("SELECT to_regclass(%s)", (self._table,)).fetchone() == (None,):
            if mode != "append":
                raise OptionError(f'the table {self._table} does not exist, which "writeMode" {mode} needs')
            columns = ", ".join(
                f"{quote_name(field.name)} {sql_type(field)}{'' if field.nullable else ' NOT NULL'}" for field in schema
            )
            connection.execute(f"CREATE TABLE {self._table} ({columns})")
            self._created = True
        if mode == "append":
            return []
        keys = list(self._options.key_columns) or [row[0] for row in connection.execute(_KEY, (self._table,))]
        if not keys:
            raise OptionError(f'the table {self._table} has no primary key: give "keyColumns" for "writeMode" {mode}')
        missing = [name for name in keys if name not in self._names]
        if missing:
            raise OptionError(
                f'"writeMode" {mode} needs the key\'s column "{missing[0]}", which the data does not have'
            )
        return keys

    @property
    def _columns(self) -> list[str]:
        """The columns that are written: for delete only those of the key."""
        return self._keys if self._options.write_mode == "delete" else self._names

    def _check(self, connection: Connection[Any], schema: t.StructType) -> None:
        """Sends a part without rows, so that the server reports a column that does not fit. Raises ValueError with both
        types."""
        shown = {field.name: field.dataType.simpleString() for field in schema}
        arrow = to_arrow_schema(schema, timezone="UTC")
        try:
            self._copy_to_stage(connection, "schema", iter([pa.RecordBatch.from_pylist([], schema=arrow)]))
        except psycopg.errors.DatatypeMismatch as error:
            message = error.diag.message_primary or str(error)
            name = next((name for name in shown if f'column "{name}"' in message), "")
            raise ValueError(f"{message} ({shown.get(name, '?')} in Spark); {error.diag.message_hint}") from None
        except psycopg.errors.UndefinedColumn as error:
            raise ValueError(f"{error.diag.message_primary}; drop the column or add it to the table") from None

    def _copy_to_stage(self, connection: Connection[Any], part: str, batches: Iterator[pa.RecordBatch]) -> int:
        where = f"FORMAT arrow, STAGE '{self._stage}', PART '{part}'"
        statement = f"COPY {self._table} ({quote_names(self._columns)}) FROM STDIN ({where})"
        places = [self._names.index(name) for name in self._columns]
        rows, begun = 0, False
        with connection.cursor().copy(statement) as copy:
            for batch in batches:
                chosen = batch.select(places)
                if not begun:
                    copy.write(chosen.schema.serialize().to_pybytes())
                    begun = True
                copy.write(chosen.serialize().to_pybytes())
                rows += batch.num_rows
            copy.write(_END_OF_STREAM)
        return rows

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriteMessage:
        """Copies a task's rows to the stage, as a part of its own."""
        keep_modules()
        context = TaskContext.get()
        assert context is not None
        part = f"{context.partitionId()}.{context.taskAttemptId()}"
        with self._options.connect() as connection:
            return WriteMessage(part, self._copy_to_stage(connection, part, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Writes the parts of all tasks in one transaction."""
        parts = ",".join(item.part for item in messages if isinstance(item, WriteMessage) and item.rows)
        with self._options.connect() as connection:
            with connection.transaction():
                if self._overwrite:
                    connection.execute(f"TRUNCATE {self._table}")
                if parts:
                    self._write(connection, f"'stage:{self._stage}/{parts}' (FORMAT arrow)")
                self._in_commit(connection, sum(item.rows for item in messages if isinstance(item, WriteMessage)))
            self._drop_stage(connection)

    def _in_commit(self, connection: Connection[Any], rows: int) -> None:
        """A hook for subclasses: further statements in the transaction, which has written `rows` rows."""

    def _write(self, connection: Connection[Any], source: str) -> None:
        names, keys = quote_names(self._columns), self._keys
        if self._options.write_mode == "append":
            connection.execute(f"COPY {self._table} ({names}) FROM {source}")
            return
        connection.execute(f"CREATE TEMP TABLE {ROWS} ON COMMIT DROP AS SELECT {names} FROM {self._table} LIMIT 0")
        connection.execute(f"COPY {ROWS} ({names}) FROM {source}")
        if self._options.write_mode == "delete":
            same = " AND ".join(f"t.{quote_name(key)} = d.{quote_name(key)}" for key in keys)
            connection.execute(f"DELETE FROM {self._table} AS t USING {ROWS} AS d WHERE {same}")
            return
        changes = ", ".join(
            f"{quote_name(name)} = excluded.{quote_name(name)}" for name in self._names if name not in keys
        )
        then = f"DO UPDATE SET {changes}" if changes else "DO NOTHING"
        connection.execute(
            f"INSERT INTO {self._table} ({names}) SELECT {names} FROM {ROWS} ON CONFLICT ({quote_names(keys)}) {then}"
        )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Removes the stage with its rows, and a table that was created for them."""
        with self._options.connect() as connection:
            self._drop_stage(connection)
            if self._created:
                connection.execute(f"DROP TABLE IF EXISTS {self._table}")

    def _drop_stage(self, connection: Connection[Any]) -> None:
        connection.execute("SELECT shoal_drop_stage(%s)", (self._stage,))
