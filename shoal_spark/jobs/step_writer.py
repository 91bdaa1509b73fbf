"""A staged write (shoal_spark/writer.py) of a frame with more columns than the table: the problem of a record, the
record itself, and its file and line. Bad records are written to a file and not to the table. The commit's transaction
also records the input files.

    a task      sends the good rows. Bad ones are part of its message at the end, so those of an attempt that Spark
                does not use do not count
    the commit  writes all bad records to the file. Too many of them fail the job before anything is written. Then it
                writes the rows, and one row of shoal_pipeline_done for each input file, in one transaction

A file in that table has been written once, even if the driver was killed, and a job of the same name skips it. Two jobs
at the same time cannot both write it, because (job, item) is the key.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import types as t
from pyspark.sql.datasource import DataSourceWriter, WriterCommitMessage

from shoal_spark.options import ShoalOptions, read_options
from shoal_spark.source import ShoalDataSource
from shoal_spark.writer import ShoalWriter, WriteMessage

REASON, RECORD, FILE, LINE = "_shoal_reason", "_shoal_record", "_shoal_file", "_shoal_line"
ASIDE = (REASON, RECORD, FILE, LINE)
PREFIX = "step."
ONE_TASK_KEEPS = 100_000  # bad records; those above are counted only
_MADE = """
CREATE TABLE IF NOT EXISTS shoal_pipeline_done (
    job text, item text, bytes bigint NOT NULL, modified bigint NOT NULL, rows bigint NOT NULL,
    committed timestamptz NOT NULL, PRIMARY KEY (job, item)
)
"""


@dataclass(frozen=True)
class Step:
    """The properties of a step other than its rows. `items`: name, bytes, time of the last change in milliseconds since
    1970."""

    job: str = ""  # '': nothing is remembered
    items: tuple[tuple[str, int, int], ...] = ()
    rejects: str = ""  # path of the file on the driver's machine
    most: int = 0
    result: str = ""  # path of a file on the driver's machine, for the number of rows

    def option(self) -> dict[str, str]:
        return {f"{PREFIX}what": json.dumps([self.job, self.items, self.rejects, self.most, self.result])}

    @classmethod
    def from_options(cls, options: dict[str, str]) -> Step:
        job, items, rejects, most, result = json.loads(options[f"{PREFIX}what"])
        return cls(job, tuple((name, size, changed) for name, size, changed in items), rejects, most, result)


@dataclass(frozen=True)
class Reject:
    """A rejected record. `line` counts from 1; None: not known (yet)."""

    file: str
    line: int | None
    record: str
    reason: str


def write_rejects(path: str, rejects: Sequence[Reject], more: int = 0) -> None:
    """Writes one JSON object for each line. The file is replaced as a whole."""
    lines = [
        json.dumps(
            {"file": item.file, "line": item.line, "reason": item.reason, "record": item.record}, ensure_ascii=False
        )
        for item in rejects
    ]
    if more:
        lines.append(json.dumps({"file": None, "line": None, "reason": f"{more} more were not kept", "record": None}))
    whole = pathlib.Path(path)
    part = whole.with_name(whole.name + ".part")
    part.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    part.replace(whole)


def read_done(connection: psycopg.Connection[Any], job: str) -> dict[str, tuple[int, int, int]]:
    """The finished items of a job: the bytes of each, its time of change, and the rows of its step."""
    # Another job may make it at this moment.
    with contextlib.suppress(psycopg.errors.UniqueViolation, psycopg.errors.DuplicateTable):
        connection.execute(_MADE)
    rows = connection.execute("SELECT item, bytes, modified, rows FROM shoal_pipeline_done WHERE job = %s", (job,))
    return {item: (size, modified, count) for item, size, modified, count in rows.fetchall()}


@dataclass
class StepWriteMessage(WriteMessage):
    """A task's message to the commit: its part, and its rejects. `rejected`: their number, including those that are not
    kept."""

    rejects: list[Reject]
    rejected: int


class StepWriter(ShoalWriter):
    """See the module's text."""

    def __init__(self, options: ShoalOptions, schema: t.StructType, overwrite: bool, step: Step) -> None:
        self._step = step
        self._frame_names = schema.fieldNames()
        own = t.StructType([item for item in schema.fields if item.name not in ASIDE])
        super().__init__(options, own, overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StepWriteMessage:
        """Copies the good rows of a task to the stage."""
        context = TaskContext.get()
        assert context is not None
        part = f"{context.partitionId()}.{context.taskAttemptId()}"
        aside = _RejectSplitter(self._frame_names)
        with self._options.connect() as connection:
            rows = self._copy_to_stage(connection, part, map(aside.good_rows, iterator))
        return StepWriteMessage(part, rows, aside.rejects, aside.rejected)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commits everything, or raises an error if there are too many rejects."""
        found = [item for item in messages if isinstance(item, StepWriteMessage)]
        rejected = sum(item.rejected for item in found)
        kept = [reject for item in found for reject in item.rejects]
        if rejected and self._step.rejects:
            write_rejects(self._step.rejects, kept, rejected - len(kept))
        if rejected > self._step.most:
            # The file says why; nothing is written.
            raise ValueError(f"{rejected} records were rejected, more than {self._step.most} (--max-rejected)")
        super().commit(messages)
        if self._step.result:
            rows = sum(item.rows for item in found)
            pathlib.Path(self._step.result).write_text(json.dumps([rows, rejected]), encoding="utf-8")

    def _in_commit(self, connection: psycopg.Connection[Any], rows: int) -> None:
        step = self._step
        if step.job:
            for name, size, modified in step.items:
                connection.execute(
                    "INSERT INTO shoal_pipeline_done VALUES (%s, %s, %s, %s, %s, now())",
                    (step.job, name, size, modified, rows),
                )


class _RejectSplitter:
    """Splits the batches of one task into good rows and rejects."""

    def __init__(self, names: Sequence[str]) -> None:
        self._own = [place for place, name in enumerate(names) if name not in ASIDE]
        self._places = {name: names.index(name) for name in ASIDE if name in names}
        self.rejects: list[Reject] = []
        self.rejected = 0

    def good_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The good rows of a batch, with the table's columns only."""
        if not self._places:
            return batch
        reasons = batch.column(self._places[REASON])
        if reasons.null_count == batch.num_rows:
            return batch.select(self._own)
        bad = batch.filter(pc.is_valid(reasons))
        self.rejected += bad.num_rows
        columns = {name: bad.column(place).to_pylist() for name, place in self._places.items()}
        for file, line, record, reason in zip(
            columns[FILE], columns[LINE], columns[RECORD], columns[REASON], strict=True
        ):
            if len(self.rejects) >= ONE_TASK_KEEPS:
                break
            self.rejects.append(Reject(file, line, record or "", reason))
        return batch.filter(pc.is_null(reasons)).select(self._own)


class StepSource(ShoalDataSource):
    """`format("shoal_step")`: the data source of jobs, for writing."""

    @classmethod
    def name(cls) -> str:
        return "shoal_step"

    def writer(self, schema: t.StructType, overwrite: bool) -> DataSourceWriter:
        given = dict(self.options)
        step = Step.from_options(given)
        plain = {name: value for name, value in given.items() if not name.startswith(PREFIX)}
        return StepWriter(read_options(plain), schema, overwrite, step)
