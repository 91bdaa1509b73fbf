"""`shoal pipeline import`: CSV, JSON or Parquet into a table, in one commit, or in steps that can be resumed.

    without a job's name    one commit for everything
    with a job's name       a commit for every `step_bytes` of files, which records them (step_writer.py). The same job
                            later continues with the files that are not recorded, including new ones. A recorded
                            file that has changed is refused

If there is no table, it is created with the given types or those that Spark infers, and dropped again if no rows were
written.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

import psycopg
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from shoal_spark.jobs.files import DataFile, FoundFiles, find_files, format_of, is_tab_separated, without_credentials
from shoal_spark.jobs.records import Records, SourceFiles
from shoal_spark.jobs.rejects import read_back, with_lines
from shoal_spark.jobs.server_access import ServerAccess, TableColumn, exists, primary_key, table_columns
from shoal_spark.jobs.session import run_with_progress
from shoal_spark.jobs.step_writer import Reject, Step, read_done, write_rejects
from shoal_spark.jobs.summary import JobError, Progress, Summary, plural
from shoal_spark.options import quote_name
from shoal_spark.types import sql_type

MODES = ("append", "overwrite", "upsert")
STEP_BYTES = 1 << 30


@dataclass(frozen=True)
class ImportOptions:
    """The options of an import. `options`: Spark's of the format. `definition`: columns as CREATE TABLE has them, for a
    table that is made. `columns`: the names of the files' columns, in their order."""

    sources: tuple[str, ...]
    table: str
    format: str = ""
    mode: str = "append"
    options: Mapping[str, str] = field(default_factory=dict)
    definition: str = ""
    columns: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    rejects: str = ""
    most: int = 0
    job: str = ""
    resume: bool = False
    step_bytes: int = STEP_BYTES
    partitions: int | None = None


def run_import(spark: SparkSession, server: ServerAccess, wanted: ImportOptions, progress: Progress) -> Summary:
    """Raises JobError."""
    return _Import(spark, server, wanted, progress).run()


class _Import:
    def __init__(self, spark: SparkSession, server: ServerAccess, wanted: ImportOptions, progress: Progress) -> None:
        self._spark = spark
        self._server = server
        self._progress = progress
        self._wanted = wanted
        self._made = False  # the table
        if wanted.resume and not wanted.job:
            named = json.dumps([wanted.table, wanted.sources, wanted.mode])
            self._wanted = replace(wanted, job=f"import-{hashlib.sha256(named.encode()).hexdigest()[:12]}")
        if wanted.mode not in MODES:
            raise JobError(f"the mode must be one of {', '.join(MODES)}")

    def run(self) -> Summary:
        summary = Summary("import")
        found = find_files(self._spark, self._wanted.sources)
        if not self._wanted.format:
            self._wanted = replace(self._wanted, format=format_of(found.files))
        left, done = self._remaining_files(found)
        if self._wanted.job:
            summary.more["job_name"] = self._wanted.job
        if done:
            summary.more["files_done_before"] = done
        summary.begin()
        written = False
        try:
            if left:
                records = self._records(replace(found, files=tuple(left)))
                for number, files in enumerate(self._steps(left)):
                    first = number == 0 and not done
                    step = replace(found, files=tuple(files))
                    rows, rejected = self._step(records, step, overwrite=first, before=summary.rejected)
                    written = True
                    summary.rows += rows
                    summary.rejected += rejected
                    summary.bytes += sum(file.bytes for file in files)
        finally:
            if self._made and not written:
                with self._server.connect() as connection:
                    connection.execute(f"DROP TABLE IF EXISTS {self._wanted.table}")
        summary.more["files"] = len(left)
        if summary.rejected:
            summary.more["rejected_records"] = self._rejects
        return summary.end()

    # ---- what is to be done -------------------------------------------------------------------------------------

    def _remaining_files(self, found: FoundFiles) -> tuple[list[DataFile], int]:
        """The files that are not recorded, and the number of recorded ones."""
        if not self._wanted.job:
            return list(found.files), 0
        with self._server.connect() as connection:
            known = read_done(connection, self._wanted.job)
        for file in found.files:
            if file.path in known and known[file.path][:2] != (file.bytes, file.modified):
                raise JobError(
                    f"{without_credentials(file.path)} has changed since the job {self._wanted.job} has imported it: "
                    "give it another name, or the import another --job"
                )
        return [file for file in found.files if file.path not in known], sum(file.path in known for file in found.files)

    def _steps(self, files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
        if not self._wanted.job:
            yield list(files)
            return
        step: list[DataFile] = []
        for file in files:
            if step and sum(item.bytes for item in step) + file.bytes > self._wanted.step_bytes:
                yield step
                step = []
            step.append(file)
        yield step

    # ---- columns ------------------------------------------------------------------------------------------------

    def _data(self, found: FoundFiles) -> SourceFiles:
        wanted = self._wanted
        options = dict(wanted.options)
        if wanted.format == "csv":
            defaults = {"header": "true", "escape": '"', **({"sep": "\t"} if is_tab_separated(found.files) else {})}
            given = {name.lower() for name in options}
            options.update({name: value for name, value in defaults.items() if name not in given})
        return SourceFiles(self._spark, wanted.format, options, bool(wanted.columns))

    def _records(self, found: FoundFiles) -> Records:
        """Determines the columns, and creates the table if there is none. Raises JobError."""
        wanted = self._wanted
        data = self._data(found)
        with self._server.connect() as connection:
            there = exists(connection, wanted.table)
            if not there and wanted.definition:
                self._make(connection, wanted.definition)
                there = True
            columns = table_columns(connection, wanted.table) if there else []
            kinds = self._kinds(data, found, columns)
            if not there:
                self._make(connection, _definition(kinds))
                columns = table_columns(connection, wanted.table)
        targets = [self._target(name, columns) for name in kinds]
        for column in columns:
            if column.not_null and not column.filled and not column.made and column not in targets:
                raise JobError(
                    f'column "{column.name}" of the table {wanted.table} is NOT NULL, and the data does not have it'
                )
        return Records(data, kinds, tuple(targets))

    def _target(self, name: str, columns: Sequence[TableColumn]) -> TableColumn:
        """The table's column for one of the data. Raises JobError."""
        found = next((item for item in columns if item.name == name), None)
        found = found or next((item for item in columns if item.name.lower() == name.lower()), None)
        if found is None:
            raise JobError(
                f'column "{name}" of the data is none of the table {self._wanted.table}, which has '
                f"{', '.join(item.name for item in columns)}; name the data's columns with --columns, or leave it out"
            )
        if found.made:
            raise JobError(f'column "{name}" of the table {self._wanted.table} is made by the server: leave it out')
        return found

    def _kinds(self, data: SourceFiles, found: FoundFiles, columns: Sequence[TableColumn]) -> dict[str, t.DataType]:
        """The data's columns, with inferred types if necessary. `columns`: the table's, if it exists."""
        paths, chosen = [file.path for file in found.files], list(self._wanted.columns)
        reader = data.reader(found)
        if data.format == "csv" and columns:
            schema = reader.load(paths[:1]).schema  # the first line alone is read
        else:
            if data.format == "csv":
                reader = reader.option("inferSchema", "true")
            schema = run_with_progress(
                self._spark, self._progress, "columns and types", lambda: reader.load(paths).schema
            )
        if not schema.fields:
            raise JobError(f"{without_credentials(paths[0])} has no columns")
        kinds = {item.name: item.dataType for item in schema if item.name != "_corrupt_record"}
        if data.format != "csv":
            absent = [name for name in chosen if name not in kinds]
            if absent:
                raise JobError(f'the data has no column "{absent[0]}"; it has {", ".join(kinds)}')
            return {name: kinds[name] for name in chosen} if chosen else kinds
        if not chosen and not data.flag("header") and columns:
            chosen = [column.name for column in columns if not column.made]
        if chosen and len(chosen) != len(kinds):
            raise JobError(
                f"{without_credentials(paths[0])} has {plural(len(kinds), 'column')}, "
                f"and there are {plural(len(chosen), 'name')}: {', '.join(chosen)}"
            )
        return dict(zip(chosen or kinds, kinds.values(), strict=True))

    def _make(self, connection: psycopg.Connection[object], definition: str) -> None:
        key = f", PRIMARY KEY ({', '.join(map(quote_name, self._wanted.key))})" if self._wanted.key else ""
        connection.execute(f"CREATE TABLE {self._wanted.table} ({definition}{key})")
        self._made = True

    # ---- the work -----------------------------------------------------------------------------------------------

    @functools.cached_property
    def _rejects(self) -> str:
        name = self._wanted.table.replace('"', "").replace("/", "_")
        return os.path.abspath(self._wanted.rejects or f"{name}.rejected.jsonl")

    def _step(self, records: Records, found: FoundFiles, *, overwrite: bool, before: int) -> tuple[int, int]:
        """Runs one commit. Returns the numbers of written rows and of rejected records."""
        wanted = self._wanted
        frame = records.frame(found)
        if wanted.partitions:
            frame = frame.repartition(wanted.partitions)
        upsert = wanted.mode == "upsert"
        if upsert and not wanted.key:
            with self._server.connect() as connection:
                if not primary_key(connection, wanted.table):
                    raise JobError(f"the table {wanted.table} has no primary key, which --mode upsert needs: --key a,b")
        options = self._server.options(
            dbtable=wanted.table,
            writeMode="upsert" if upsert else None,
            keyColumns=",".join(wanted.key) if upsert and wanted.key else None,
        )
        with tempfile.TemporaryDirectory(prefix="shoal-pipeline-") as folder:
            result, aside = os.path.join(folder, "result"), os.path.join(folder, "rejects")
            items = tuple((file.path, file.bytes, file.modified) for file in found.files)
            step = Step(wanted.job, items, aside, max(wanted.most - before, 0), result)
            writer = frame.write.format("shoal_step").options(**options, **step.option())
            writer = writer.mode("overwrite" if wanted.mode == "overwrite" and overwrite else "append")
            try:
                run_with_progress(self._spark, self._progress, f"import {wanted.table}", writer.save)
            except JobError as error:
                if self._write_rejects(records, aside, before):
                    raise JobError(f"{error}; they are in {self._rejects}, and nothing was written") from None
                raise
            with open(result, encoding="utf-8") as text:
                rows, count = json.load(text)
            self._write_rejects(records, aside, before)
            return rows, count

    def _write_rejects(self, records: Records, aside: str, before: int) -> bool:
        """Finds the lines and reasons of rejected records, and appends them to those of earlier steps. Returns whether
        there are any."""
        if not os.path.exists(aside):
            return False
        rejects = records.with_reasons(read_back(aside))
        data = records.data
        if data.is_text and not data.flag("multiLine"):
            encoding = data.option("encoding") or "UTF-8"
            normal = records.record_of_line()

            def find() -> list[Reject]:
                return with_lines(self._spark, rejects, normal, encoding)

            rejects = run_with_progress(self._spark, self._progress, "lines of rejected records", find)
        earlier = read_back(self._rejects) if before and os.path.exists(self._rejects) else []
        rejects = [replace(item, file=without_credentials(unquote(item.file))) for item in rejects]
        write_rejects(self._rejects, [*earlier, *sorted(rejects, key=lambda item: (item.file, item.line or 0))])
        return True


def _definition(kinds: Mapping[str, t.DataType]) -> str:
    """The columns of a table for inferred types. Raises JobError."""
    items = []
    for name, kind in kinds.items():
        try:
            # A column of nothing but NULLs may be anything.
            made = "text" if isinstance(kind, t.NullType) else sql_type(t.StructField(name, kind))
        except ValueError:
            if not _is_nested(kind):
                raise JobError(
                    f'column "{name}" is of Spark\'s type {kind.simpleString()}, for which there is no SQL type: give '
                    "the table's columns with --schema"
                ) from None
            made = "jsonb"
        items.append(f"{quote_name(name)} {made}")
    return ", ".join(items)


def _is_nested(kind: t.DataType) -> bool:
    return isinstance(kind, t.StructType | t.MapType | t.ArrayType)
