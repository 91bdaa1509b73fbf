"""`shoal pipeline copy`: copies a table, or all tables of a schema, from PostgreSQL or another Shoal, with definitions.

All tables are read at one moment of the source: PostgreSQL's exported snapshot, which every JDBC connection of Spark
uses, or a moment that Shoal holds. PostgreSQL's tables are divided by ctid, whatever their keys are, and Shoal's by
ranges of keys. Each table is one commit, which is recorded under the job's name. The same job again copies the tables
that are missing, at a moment of its own. A table that was created but got no rows is dropped.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
from pyspark.sql import DataFrame, SparkSession

from shoal_spark.jobs import definitions
from shoal_spark.jobs.definitions import TableDefinition
from shoal_spark.jobs.server_access import ServerAccess, exists, hold_moment, release_moment
from shoal_spark.jobs.session import run_with_progress
from shoal_spark.jobs.step_writer import Step, read_done
from shoal_spark.jobs.summary import JobError, Progress, Summary
from shoal_spark.options import quote_name

MODES = ("errorifexists", "append", "overwrite", "upsert")
DRIVER = "org.postgresql.Driver"
PART_PAGES = 4096  # of PostgreSQL, 8 KiB each
MOST_PARTS = 200
_NATIVE = ("bool", "int2", "int4", "int8", "float4", "float8", "text", "varchar", "bytea", "date", "timestamp",
           "timestamptz", "numeric")  # fmt: skip
_PLACE = "_shoal_place"
_PASSED_ON = ("sslmode", "sslrootcert", "sslcert", "sslkey")


@dataclass(frozen=True)
class CopyOptions:
    """The options of a copy: a table (with its schema before it, or without), or a schema."""

    table: str | None = None
    schema: str | None = None
    mode: str = "errorifexists"
    job: str = ""
    resume: bool = False


def is_shoal(server: ServerAccess) -> bool:
    """Whether a server is Shoal."""
    with server.connect() as connection:
        return connection.execute("SELECT to_regproc('shoal_hold_snapshot')").fetchone() != (None,)


def run_copy(
    spark: SparkSession, source: ServerAccess, target: ServerAccess, wanted: CopyOptions, progress: Progress
) -> Summary:
    """Raises JobError, psycopg.Error."""
    return _Copy(spark, source, target, wanted, progress).run()


class _Copy:
    def __init__(
        self, spark: SparkSession, source: ServerAccess, target: ServerAccess, wanted: CopyOptions, progress: Progress
    ) -> None:
        self._spark = spark
        self._source = source
        self._target = target
        self._wanted = wanted
        self._progress = progress
        self._job = wanted.job
        self._left_out: list[str] = []
        self._shoal = is_shoal(source)
        if wanted.resume and not self._job:
            named = json.dumps([source.display_name, wanted.table, wanted.schema])
            self._job = f"copy-{hashlib.sha256(named.encode()).hexdigest()[:12]}"

    def run(self) -> Summary:
        summary = Summary("copy", more={"from": self._source.display_name, "to": self._target.display_name})
        if self._job:
            summary.more["job_name"] = self._job
        summary.begin()
        with self._moment() as (reading, snapshot, lsn), self._target.connect() as writing:
            if lsn is not None:
                summary.more["lsn"] = lsn
            tables = [definitions.definition_of(reading, *name) for name in self._tables(reading)]
            done = read_done(writing, self._job) if self._job else {}
            left = [table for table in tables if table.name not in done]
            if self._wanted.mode == "errorifexists":
                there = [table.name for table in left if exists(writing, table.name)]
                if there:
                    raise JobError(f"{there[0]} already exists: choose a --mode, append, overwrite or upsert")
            for table in left:
                summary.rows += self._copy(reading, writing, snapshot, table)
                row = reading.execute("SELECT pg_table_size(%s::regclass)", (table.name,)).fetchone()
                summary.bytes += int(row[0] or 0) if row is not None else 0
            for table in left:
                definitions.create_foreign_keys(writing, table, self._left_out)
            summary.more["tables"] = len(left)
            if done:
                summary.more["tables_done_before"] = len(tables) - len(left)
        if self._left_out:
            summary.more["left_out"] = "; ".join(self._left_out)
        return summary.end()

    def _tables(self, reading: psycopg.Connection[Any]) -> list[tuple[str, str]]:
        if self._wanted.schema is not None:
            found = definitions.tables_of(reading, self._wanted.schema)
            if not found:
                raise JobError(f'the schema "{self._wanted.schema}" has no tables in {self._source.display_name}')
            return found
        row = reading.execute(
            "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.oid = to_regclass(%s) AND c.relkind IN ('r', 'p')",
            (self._wanted.table,),
        ).fetchone()
        if row is None:
            raise JobError(f"there is no table {self._wanted.table} in {self._source.display_name}")
        return [(row[0], row[1])]

    @contextlib.contextmanager
    def _moment(self) -> Iterator[tuple[psycopg.Connection[Any], str, int | None]]:
        """A connection to the source, its moment, and the LSN if there is one."""
        with self._source.connect() as connection:
            if self._shoal:
                snapshot, lsn = hold_moment(connection)
                try:
                    yield connection, snapshot, lsn
                finally:
                    release_moment(connection, snapshot)
                return
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            row = connection.execute("SELECT pg_export_snapshot()").fetchone()
            assert row is not None
            yield connection, row[0], None

    # ---- one table ----------------------------------------------------------------------------------------------

    def _copy(
        self, reading: psycopg.Connection[Any], writing: psycopg.Connection[Any], snapshot: str, table: TableDefinition
    ) -> int:
        """Copies the rows of a table, and returns their number."""
        made = not exists(writing, table.name)
        if made:
            definitions.create_table(writing, table, self._left_out)
        try:
            frame = self._of_shoal(table, snapshot) if self._shoal else self._of_postgres(reading, table, snapshot)
            rows = self._write(frame, table)
        except BaseException:
            if made:
                writing.execute(f"DROP TABLE IF EXISTS {table.name}")
            raise
        if made:
            definitions.create_indexes(writing, table, self._left_out)
        return rows

    def _write(self, frame: DataFrame, table: TableDefinition) -> int:
        mode = self._wanted.mode
        options = self._target.options(dbtable=table.name, writeMode="upsert" if mode == "upsert" else None)
        with tempfile.TemporaryDirectory(prefix="shoal-pipeline-") as folder:
            result = os.path.join(folder, "result")
            step = Step(self._job, ((table.name, 0, 0),), result=result)
            writer = frame.write.format("shoal_step").options(**options, **step.option())
            writer = writer.mode("overwrite" if mode == "overwrite" else "append")
            run_with_progress(self._spark, self._progress, f"copy {table.schema}.{table.table}", writer.save)
            with open(result, encoding="utf-8") as text:
                return int(json.load(text)[0])

    def _of_shoal(self, table: TableDefinition, snapshot: str) -> DataFrame:
        # numeric without limits comes as text: Spark has none of any length.
        kinds = {"numeric": "string"}
        options = self._source.options(dbtable=table.name, snapshot=snapshot)
        whole = self._spark.read.format("shoal").options(**options).load().schema
        fields = []
        for column in table.data_columns:
            loose = column.type_name in kinds and column.modifier < 0
            kind = kinds[column.type_name] if loose else whole[column.name].dataType.simpleString()
            fields.append(f"`{column.name.replace('`', '``')}` {kind}")
        return self._spark.read.format("shoal").schema(", ".join(fields)).options(**options).load()

    def _of_postgres(self, reading: psycopg.Connection[Any], table: TableDefinition, snapshot: str) -> DataFrame:
        parts = self._source.parts
        given = {name: parts[name] for name in _PASSED_ON if name in parts}
        properties = {
            **given,
            "driver": DRIVER,
            "user": parts.get("user", ""),
            "fetchsize": "10000",
            "preferTimestampNTZ": "true",
            "sessionInitStatement": "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY;"
            f" SET TRANSACTION SNAPSHOT '{snapshot}'",
        }
        if self._source.password:
            properties["password"] = self._source.password
        url = f"jdbc:postgresql://{parts['host']}:{parts['port']}/{parts['dbname']}"
        listed = ", ".join(definitions.select_columns(table, _NATIVE))
        query = f"(SELECT {listed}, ctid AS {_PLACE} FROM {table.name}) AS q"
        frame = self._spark.read.jdbc(url, query, predicates=self._ranges(reading, table), properties=properties)
        return frame.drop(_PLACE)

    def _ranges(self, reading: psycopg.Connection[Any], table: TableDefinition) -> list[str]:
        """Conditions on ctid that divide a table's pages."""
        row = reading.execute("SELECT pg_relation_size(%s::regclass) / 8192", (table.name,)).fetchone()
        pages = int(row[0] or 0) if row is not None else 0
        parts = max(min(-(-pages // PART_PAGES), MOST_PARTS), 1)
        cuts = [pages * place // parts for place in range(1, parts)]
        bounds = [None, *cuts], [*cuts, None]
        found = []
        for low, high in zip(*bounds, strict=True):
            both = [f"{quote_name(_PLACE)} >= '({low},0)'::tid"] if low is not None else []
            both += [f"{quote_name(_PLACE)} < '({high},0)'::tid"] if high is not None else []
            found.append(" AND ".join(both) or "true")
        return found
