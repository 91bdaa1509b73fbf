"""Stream writes: every batch is written once, even if Spark repeats it.

    df.writeStream.format("shoal").options(url=..., dbtable="t", checkpointLocation=...).start()

    a task      opens a stage and copies its rows to it (shoal_spark/writer.py)
    the commit  one transaction: stores the batch's number in shoal_spark_batches, if it is above the stored number
                for this query and table, and then writes the rows of the chosen tasks, as in a batch write
    a repeat    of a batch that was committed (Spark did not learn of it) finds its number, and writes nothing

The query is identified by the id in its checkpoint, which it keeps over restarts. "writeMode" is append, upsert or
delete. Output mode complete empties the table in the same commit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import psycopg
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types as t
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from shoal_spark.options import ShoalOptions
from shoal_spark.writer import ROWS, ShoalWriter, WriteMessage

QUERY_ID = "sql.streaming.queryId"  # of the task's properties
_STAGE_SECONDS = 900  # that a task's rows wait for the commit
_SPARKS = ("checkpointlocation", "queryname", "outputmode", "trigger")
_BATCHES = """
CREATE TABLE IF NOT EXISTS shoal_spark_batches (
    query text, target text, batch bigint NOT NULL, committed timestamptz NOT NULL, PRIMARY KEY (query, target)
)
"""
_REMEMBER = """
INSERT INTO shoal_spark_batches VALUES (%s, %s, %s, now())
ON CONFLICT (query, target) DO UPDATE SET batch = excluded.batch, committed = excluded.committed
WHERE shoal_spark_batches.batch < excluded.batch RETURNING batch
"""


def batch_options(given: Mapping[str, str]) -> dict[str, str]:
    """The options of a sink without those that Spark's own streams add."""
    return {name: value for name, value in given.items() if name.lower() not in _SPARKS}


@dataclass
class StreamWriteMessage(WriteMessage):
    """A task's message to the commit: its part, its stage, and its query."""

    stage: str
    query: str


class ShoalStreamWriter(ShoalWriter, DataSourceStreamArrowWriter):
    """See the module's text."""

    def __init__(self, options: ShoalOptions, schema: t.StructType, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite)
        with options.connect() as connection:
            self._drop_stage(connection)  # it has shown that the columns fit; each task has one of its own
            # Another query may make it at this moment.
            with contextlib.suppress(psycopg.errors.UniqueViolation):
                connection.execute(_BATCHES)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StreamWriteMessage:
        """Copies a task's rows to its stage."""
        context = TaskContext.get()
        assert context is not None
        part = f"{context.partitionId()}.{context.taskAttemptId()}"
        with self._options.connect() as connection:
            ((self._stage,),) = connection.execute("SELECT shoal_stage(%s)", (_STAGE_SECONDS,)).fetchall()
            try:
                rows = self._copy_to_stage(connection, part, iterator)
            except BaseException:
                self._drop_stage(connection)
                raise
            if not rows:
                self._drop_stage(connection)
            return StreamWriteMessage(part, rows, self._stage, context.getLocalProperty(QUERY_ID) or "")

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # type: ignore[override]  # noqa: N803
        """Writes the batch, unless it was written before."""
        found = [item for item in messages if isinstance(item, StreamWriteMessage)]
        if not found:
            return
        with self._options.connect() as connection:
            with connection.transaction():
                remembered = connection.execute(_REMEMBER, (found[0].query, self._table, batchId)).fetchone()
                if remembered is not None:
                    if self._overwrite:
                        connection.execute(f"TRUNCATE {self._table}")
                    for item in found:
                        if item.rows:
                            self._write(connection, f"'stage:{item.stage}/{item.part}' (FORMAT arrow)")
                            connection.execute(f"DROP TABLE IF EXISTS {ROWS}")
            self._drop_stages(connection, found)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # type: ignore[override]  # noqa: N803
        """Removes everything of the batch."""
        with self._options.connect() as connection:
            self._drop_stages(connection, [item for item in messages if isinstance(item, StreamWriteMessage)])

    def _drop_stages(self, connection: psycopg.Connection[object], written: Sequence[StreamWriteMessage]) -> None:
        for item in written:
            if item.rows:
                connection.execute("SELECT shoal_drop_stage(%s)", (item.stage,))
