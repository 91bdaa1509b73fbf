"""`shoal pipeline export`: writes a table or a query to files, as of one LSN.

    plain       one job of Spark, directly into the folder. If it replaces another export, it writes a folder beside
                it, which replaces the old one when it is complete
    resumable   (`resume`) the table in steps of a few key ranges each. `_shoal_export.json` in the folder has the
                moment, its files, and the steps that are done. Files of an interrupted step are removed before the
                step is repeated. The server holds the moment for HOLD_SECONDS after its last use

In both cases `_SUCCESS` is written last, and an export that fails for good leaves no new files.
"""

from __future__ import annotations

import contextlib
import functools
import json
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import psycopg
from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from shoal_spark.jobs.files import file_system, find_files, without_credentials
from shoal_spark.jobs.server_access import ServerAccess, exists, hold_moment, release_moment, size_of
from shoal_spark.jobs.session import one_line, run_with_progress
from shoal_spark.jobs.summary import JobError, Progress, Summary
from shoal_spark.reader import PART_BYTES, columns_of

MODES = ("errorifexists", "overwrite")
STATE = "_shoal_export.json"
SUCCESS = "_SUCCESS"


@dataclass(frozen=True)
class ExportOptions:
    """The options of an export: a table or a query, and a folder. `options`: Spark's of the format."""

    to: str
    table: str | None = None
    query: str | None = None
    format: str = "parquet"
    partition_by: tuple[str, ...] = ()
    mode: str = "errorifexists"
    options: Mapping[str, str] = field(default_factory=dict)
    files: int | None = None
    resume: bool = False
    parts_a_step: int = 16
    documents: tuple[str, ...] = ()  # columns of json and jsonb


def run_export(spark: SparkSession, server: ServerAccess, wanted: ExportOptions, progress: Progress) -> Summary:
    """Raises JobError."""
    summary = Summary("export", more={"to": without_credentials(wanted.to)})
    summary.begin()
    with server.connect() as connection:
        if wanted.table is not None and not exists(connection, wanted.table):
            raise JobError(f"the table {wanted.table} does not exist")
        relation = wanted.table or f"({wanted.query}) AS shoal_query"
        found = [column.name for column in columns_of(connection, relation) if column.type_name in ("json", "jsonb")]
        wanted = replace(wanted, documents=tuple(found))
        if wanted.resume:
            _Resumable(spark, server, wanted, progress).run(connection, summary)
        else:
            snapshot, summary.more["lsn"] = hold_moment(connection)
            try:
                frame = read_at(spark, server, snapshot, dbtable=wanted.table, query=wanted.query)
                summary.rows = write_frame(spark, frame, wanted, progress)
            finally:
                release_moment(connection, snapshot)
    summary.bytes, summary.more["files"] = written_bytes(spark, wanted.to)
    return summary.end()


def read_at(spark: SparkSession, server: ServerAccess, snapshot: str, **what: object) -> DataFrame:
    """A table or query at a held moment."""
    return spark.read.format("shoal").options(**server.options(snapshot=snapshot, **what)).load()


def written_bytes(spark: SparkSession, folder: str) -> tuple[int, int]:
    """Bytes and number of the files in a folder."""
    with contextlib.suppress(JobError):  # no rows, no files
        found = find_files(spark, [folder])
        return found.bytes, len(found.files)
    return 0, 0


def write_frame(spark: SparkSession, frame: DataFrame, wanted: ExportOptions, progress: Progress) -> int:
    """Writes a frame as the folder's only content, completely or not at all. Returns the number of rows. Raises
    JobError."""
    folder = _Folder(spark, wanted.to)
    if folder.filled and wanted.mode != "overwrite":
        raise JobError(f"{without_credentials(wanted.to)} is not empty: choose another folder, or --mode overwrite")
    aside = _Folder(spark, f"{folder.path}.new-{secrets.token_hex(4)}") if folder.exists else folder
    try:
        rows = _write(spark, frame, wanted, aside.path, progress)
        if aside is not folder:
            aside.replace(folder.path)
    except BaseException:
        aside.delete()
        raise
    return rows


def _write(spark: SparkSession, frame: DataFrame, wanted: ExportOptions, to: str, progress: Progress) -> int:
    """Adds a frame to a folder, and returns the number of rows."""
    missing = [name for name in wanted.partition_by if name not in frame.columns]
    if missing:
        raise JobError(f'there is no column "{missing[0]}"; there are {", ".join(frame.columns)}')
    if wanted.files is not None:
        frame = frame.repartition(wanted.files)
    seen = Observation()
    frame = frame.observe(seen, f.count(f.lit(1)).alias("rows"))
    options = dict(wanted.options)
    if wanted.format == "csv":
        frame = frame.select([_as_text(item).alias(item.name) for item in frame.schema])
        options = {"header": "true", "escape": '"', **options}
    elif wanted.format == "json":
        frame = frame.select([_as_json(item, wanted.documents).alias(item.name) for item in frame.schema])
    writer = frame.write.format(wanted.format).options(**options).mode("append")
    if wanted.partition_by:
        writer = writer.partitionBy(*wanted.partition_by)
    run_with_progress(spark, progress, f"export {wanted.table or 'query'}", lambda: writer.save(to))
    return int(seen.get.get("rows", 0))


class _Folder:
    """A folder in any file system of Hadoop."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        try:
            self._system, there = file_system(spark, path.rstrip("/"))
            self._there = self._system.makeQualified(there)
            self.path: str = self._there.toString()
            self.exists = bool(self._system.exists(self._there))
            self.filled = self.exists and len(self._system.listStatus(self._there)) > 0
        except Py4JJavaError as error:
            raise JobError(f"{without_credentials(path)} cannot be used: {one_line(error)}") from error

    def _path_of(self, name: str) -> Any:
        return file_system(self._spark, f"{self.path}/{name}" if name else self.path)[1]

    def delete(self, name: str = "") -> None:
        self._system.delete(self._path_of(name), True)

    def read(self, name: str) -> str | None:
        """The text of a file, or None."""
        if not self._system.exists(self._path_of(name)):
            return None
        stream = self._system.open(self._path_of(name))  # Spark itself does not see names like these
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        stream = self._system.create(self._path_of(name), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def data(self) -> list[str]:
        """The names of the files with rows."""
        with contextlib.suppress(JobError):  # none
            return [file.path[len(self.path) + 1 :] for file in find_files(self._spark, [self.path]).files]
        return []

    def replace(self, path: str) -> None:
        """Replaces another folder by this one."""
        target = file_system(self._spark, path)[1]
        self._system.delete(target, True)
        if not self._system.rename(self._there, target):
            raise JobError(
                f"{without_credentials(self.path)} is whole, and could not be renamed to {without_credentials(path)}"
            )


@dataclass
class _State:
    """The content of `_shoal_export.json`."""

    source: str
    snapshot: str
    lsn: int
    ranges: list[str]
    done: int  # ranges
    rows: int
    files: list[str]

    def text(self) -> str:
        return json.dumps(self.__dict__)


class _Resumable:
    def __init__(self, spark: SparkSession, server: ServerAccess, wanted: ExportOptions, progress: Progress) -> None:
        self._spark = spark
        self._server = server
        self._wanted = wanted
        self._progress = progress

    def run(self, connection: psycopg.Connection[Any], summary: Summary) -> None:
        wanted = self._wanted
        if wanted.table is None:
            raise JobError("--resume goes with a table, which can be cut into steps, and not with a query")
        folder = _Folder(self._spark, wanted.to)
        source = json.dumps([wanted.table, wanted.format, wanted.partition_by])
        state = self._read_state(folder, source) or self._start(connection, folder, source)
        summary.more["lsn"] = state.lsn
        summary.more["rows_done_before"] = state.rows
        known = set(state.files)
        for name in folder.data():
            if name not in known:
                folder.delete(name)
        while state.done < len(state.ranges):
            summary.rows += self._step(folder, state)
        release_moment(connection, state.snapshot)
        folder.write(SUCCESS, "")

    def _read_state(self, folder: _Folder, source: str) -> _State | None:
        """Reads the state of an export that was interrupted, or has ended."""
        text = folder.read(STATE) if folder.filled else None
        if text is None:
            if folder.filled:
                raise JobError(
                    f"{without_credentials(folder.path)} is not empty, and holds no export that can be resumed"
                )
            return None
        state = _State(**json.loads(text))
        if state.source != source:
            raise JobError(f"{without_credentials(folder.path)} holds another export: {state.source}")
        return state

    def _start(self, connection: psycopg.Connection[Any], folder: _Folder, source: str) -> _State:
        table = self._wanted.table
        assert table is not None
        snapshot, lsn = hold_moment(connection)
        parts = max(-(-size_of(connection, table) // PART_BYTES), 1)
        found = connection.execute("SELECT shoal_key_ranges(%s::regclass, %s)", (table, min(parts, 10_000)))
        state = _State(source, snapshot, lsn, [row[0] for row in found.fetchall()], 0, 0, [])
        folder.write(STATE, state.text())
        return state

    def _step(self, folder: _Folder, state: _State) -> int:
        """Writes the next ranges, and returns the number of rows."""
        wanted = self._wanted
        chosen = state.ranges[state.done : state.done + wanted.parts_a_step]
        try:
            queries = [f"SELECT * FROM {wanted.table} WHERE {where}" for where in chosen]
            frames = [read_at(self._spark, self._server, state.snapshot, query=query) for query in queries]
            whole = functools.reduce(DataFrame.union, frames)
            rows = _write(self._spark, whole, _without_success(wanted), folder.path, self._progress)
        except JobError as error:
            if "invalid snapshot identifier" in str(error):
                raise JobError(
                    f"the snapshot of {without_credentials(folder.path)} (LSN {state.lsn}) no longer exists: "
                    "start again in an empty folder"
                ) from error
            raise
        state.done += len(chosen)
        state.rows += rows
        state.files = folder.data()
        folder.write(STATE, state.text())
        return rows


def _without_success(wanted: ExportOptions) -> ExportOptions:
    """Removes `_SUCCESS` after a step that is not the last one."""
    return replace(wanted, options={"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false", **wanted.options})


def _column(item: t.StructField) -> Column:
    return f.col("`" + item.name.replace("`", "``") + "`")


def _bytes(column: Column) -> Column:
    return f.concat(f.lit("\\x"), f.lower(f.hex(column)))


def _as_json(item: t.StructField, documents: Collection[str]) -> Column:
    """JSON values unchanged, bytes in PostgreSQL's form."""
    if item.name in documents and isinstance(item.dataType, t.StringType):
        return f.parse_json(_column(item))
    return _bytes(_column(item)) if isinstance(item.dataType, t.BinaryType) else _column(item)


def _as_text(item: t.StructField) -> Column:
    """Converts a column to text for CSV that an import reads back: bytes and arrays in PostgreSQL's forms."""
    column = _column(item)
    if isinstance(item.dataType, t.BinaryType):
        return _bytes(column)
    if isinstance(item.dataType, t.ArrayType):
        return f.concat(f.lit("{"), f.array_join(f.transform(column, _element), ","), f.lit("}"))
    return column


def _element(item: Column) -> Column:
    text = f.replace(f.replace(item.cast("string"), f.lit("\\"), f.lit("\\\\")), f.lit('"'), f.lit('\\"'))
    return f.when(item.isNull(), f.lit("NULL")).otherwise(f.concat(f.lit('"'), text, f.lit('"')))
