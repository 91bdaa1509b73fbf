"""Stream reads: a change stream of the server, from an LSN on, in batches of whole transactions.

    spark.readStream.format("shoal").options(url=..., stream="s", maxRowsPerBatch=10000).load()

    offset      {"lsn": n}: everything up to that commit was read. It starts after the option "startingLsn", or after
                the stream's position
    a batch     up to shoal_change_stream_reach(stream, start, maxRowsPerBatch), in parts of "rowsPerPartition" changes
    a task      shoal_changes(), in pieces, as Arrow
    commit      moves the stream's position, so that the server removes changes that were read. With "advance" false
                it does not; then another reader does, or the stream's limit

Rows are changes: lsn, tx, ordinal, commit_time, schema_version, op, table, key, before, after; the last three are JSON.
A batch with several parts has no order: order by lsn, ordinal.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from shoal_spark.options import OptionError, ShoalOptions, read_options

AT_ONCE = 2000  # changes that a task asks for at a time: the server is busy with them for some milliseconds
ROWS_PER_PARTITION = 50_000
SCHEMA = t.StructType(
    [
        t.StructField("lsn", t.LongType(), False),
        t.StructField("tx", t.LongType(), False),
        t.StructField("ordinal", t.IntegerType(), False),
        t.StructField("commit_time", t.TimestampType(), False),
        t.StructField("schema_version", t.LongType(), False),
        t.StructField("op", t.StringType(), False),
        t.StructField("table", t.StringType(), False),
        t.StructField("key", t.StringType(), True),
        t.StructField("before", t.StringType(), True),
        t.StructField("after", t.StringType(), True),
    ]
)
_OPTIONS = ("stream", "startinglsn", "maxrowsperbatch", "rowsperpartition", "advance")
_READ = """
SELECT lsn, tx, ordinal, commit_time, schema_version, op, "table", key::text, before::text, after::text
FROM shoal_changes(%s, %s, %s, %s) WHERE lsn <= %s
"""


@dataclass(frozen=True)
class StreamOptions:
    """`server` opens connections to the server."""

    server: ShoalOptions
    stream: str
    starting_lsn: int | None
    max_rows: int | None
    rows_per_partition: int
    advance: bool


def is_stream(given: Mapping[str, str]) -> bool:
    """Whether these are the options of a stream read."""
    return any(name.lower() == "stream" for name in given)


def read_stream_options(given: Mapping[str, str]) -> StreamOptions:
    """Raises OptionError."""
    options = {name.lower(): value for name, value in given.items()}
    stream = options.get("stream")
    if not stream:
        raise OptionError('a stream read needs the option "stream": the name of a change stream (CREATE CHANGE STREAM)')
    rest = {name: value for name, value in options.items() if name not in _OPTIONS}
    numbers = {name: _number(options, name) for name in ("startinglsn", "maxrowsperbatch", "rowsperpartition")}
    return StreamOptions(
        read_options({**rest, "query": "SELECT 1"}),
        stream,
        numbers["startinglsn"],
        numbers["maxrowsperbatch"],
        numbers["rowsperpartition"] or ROWS_PER_PARTITION,
        options.get("advance", "true").lower() != "false",
    )


def _number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.strip().isdigit() or (int(text) < 1 and name != "startinglsn"):
        raise OptionError(f'the option "{name}" is a whole number')
    return int(text)


class ChangePartition(InputPartition):
    """The commits above `after` up to `upto`."""

    def __init__(self, after: int, upto: int) -> None:
        super().__init__((after, upto))
        self.after = after
        self.upto = upto


class ShoalStreamReader(DataSourceStreamReader):
    """See the module's text."""

    def __init__(self, options: StreamOptions) -> None:
        self._options = options

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Called only without a checkpoint."""
        options = self._options
        if options.starting_lsn is not None:
            return {"lsn": options.starting_lsn}
        with options.server.connect() as connection:
            found = connection.execute(
                "SELECT position FROM shoal_change_streams WHERE name = %s", (options.stream,)
            ).fetchone()
        if found is None:
            raise OptionError(f'there is no change stream "{options.stream}" in that database')
        return {"lsn": found[0]}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        rows = self._options.max_rows
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """The end of the next batch. It has whole transactions, so it may have more rows than the limit."""
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        with self._options.server.connect() as connection:
            return {"lsn": self._batch_end(connection, start["lsn"], rows)}

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802
        with self._options.server.connect() as connection:
            found = connection.execute(
                "SELECT newest_lsn FROM shoal_change_streams WHERE name = %s", (self._options.stream,)
            ).fetchone()
        return None if found is None or found[0] is None else {"lsn": found[0]}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        parts: list[InputPartition] = []
        after = start["lsn"]
        with self._options.server.connect() as connection:
            while after < end["lsn"]:
                upto = min(self._batch_end(connection, after, self._options.rows_per_partition), end["lsn"])
                if upto == after:
                    break
                parts.append(ChangePartition(after, upto))
                after = upto
        return parts

    def _batch_end(self, connection: psycopg.Connection[Any], after: int, rows: int | None) -> int:
        try:
            ((lsn,),) = connection.execute(
                "SELECT shoal_change_stream_reach(%s, %s, %s)", (self._options.stream, after, rows)
            ).fetchall()
        except psycopg.errors.ObjectNotInPrerequisiteState as error:
            raise stream_retired_error(error) from None
        return int(lsn)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads the changes of a part in a task, large transactions in pieces."""
        assert isinstance(partition, ChangePartition)
        options, upto = self._options, partition.upto
        schema = to_arrow_schema(SCHEMA, timezone="UTC")
        at = (partition.after + 1, 0)
        with options.server.connect() as connection:
            connection.execute("SET timezone = 'UTC'")
            while True:
                try:
                    cursor = connection.execute(_READ, (options.stream, at[0], AT_ONCE, at[1], upto))
                except psycopg.errors.ObjectNotInPrerequisiteState as error:
                    raise stream_retired_error(error) from None
                rows = cursor.fetchall()
                if rows:
                    columns = zip(zip(*rows, strict=True), schema, strict=True)
                    arrays = [pa.array(column, field.type) for column, field in columns]
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)
                    at = rows[-1][0], rows[-1][2]
                if len(rows) < AT_ONCE:
                    return

    def commit(self, end: dict[str, int]) -> None:
        """Moves the stream's position, because Spark never asks for earlier changes again."""
        if not self._options.advance:
            return
        advance = "SELECT shoal_change_stream_advance(%s, %s)"
        # It may be further already: another query reads the same stream.
        suppressed = contextlib.suppress(psycopg.errors.ObjectNotInPrerequisiteState)
        with self._options.server.connect() as connection, suppressed:
            connection.execute(advance, (self._options.stream, end["lsn"]))


def stream_retired_error(error: psycopg.Error) -> RuntimeError:
    """The error for a stream that has fallen behind its limit, with advice how to start again in Spark."""
    diagnosis = error.diag
    return RuntimeError(
        f"{diagnosis.message_primary}. {diagnosis.message_detail or ''} To restart: {diagnosis.message_hint} "
        'In Spark that is a new "checkpointLocation" with the option "startingLsn".'
    )
