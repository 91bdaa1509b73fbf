"""The jobs of `shoal pipeline` that run on Spark (shoal_spark/jobs)."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import pathlib
import re
import signal
from collections.abc import Iterator
from types import FrameType

import orjson
import psycopg
from pyspark.sql import SparkSession

from shoal.commands import compact
from shoal.commands.changes import one_line
from shoal.commands.cluster_access import table
from shoal.commands.pipeline_parser import extra_options, given_options
from shoal.commands.progress_bars import Bars
from shoal.config import ConfigError
from shoal_spark.jobs.copy_job import CopyOptions, run_copy
from shoal_spark.jobs.export_job import ExportOptions, run_export
from shoal_spark.jobs.import_job import ImportOptions, run_import
from shoal_spark.jobs.query_job import QueryOptions, run_query
from shoal_spark.jobs.server_access import ServerAccess, find_server
from shoal_spark.jobs.session import spark_session
from shoal_spark.jobs.summary import JobError, Summary
from shoal_spark.options import OptionError

JDBC_DRIVER = pathlib.Path("/usr/share/java/postgresql.jar")  # the place where Debian installs it
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\Z", re.IGNORECASE)


def run(options: argparse.Namespace) -> int:
    """Runs a job, and returns the exit status. Raises ConfigError, SqlError."""
    try:
        with _stopping():
            if options.action == "compact":
                return compact.run(options)
            summary = _run(options)
    except (JobError, OptionError, ValueError) as error:
        raise ConfigError(str(error)) from error
    except psycopg.Error as error:
        raise ConfigError(one_line(error)) from error
    except KeyboardInterrupt:
        raise ConfigError("interrupted: uncommitted rows were removed") from None
    print(orjson.dumps(summary.fields(), default=str).decode() if options.json else summary.text())
    return 0


@contextlib.contextmanager
def _stopping() -> Iterator[None]:
    """SIGTERM ends a job as an interrupt does: it rolls back what is not committed."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(options: argparse.Namespace) -> Summary:
    work = {"import": _import, "export": _export, "query": _query, "copy": _copy}[options.action]
    if options.action == "export":
        _check_export(options)
    alone = options.action == "query" and options.from_checkpoint is not None
    server = None if alone else find_server(options.dsn, options.password_file)
    settings = list(options.conf)
    if options.action == "copy":
        driver = options.jdbc_driver or (str(JDBC_DRIVER) if JDBC_DRIVER.exists() else None)
        settings[:0] = [f"spark.jars={driver}"] if driver else []
    with Bars() as bars:
        bars.show("starting Spark", 0, 0)
        with spark_session(options.master, settings, options.verbose) as spark:
            bars.show("starting Spark", 1, 1)
            summary = work(options, spark, server, bars)
        bars.finish()
        return summary


def _import(options: argparse.Namespace, spark: SparkSession, server: ServerAccess | None, bars: Bars) -> Summary:
    assert server is not None
    wanted = ImportOptions(
        tuple(options.source),
        options.table,
        format=options.format or "",
        mode=options.mode,
        options=given_options(options),
        definition=options.schema or "",
        columns=_names(options.columns),
        key=_names(options.key),
        rejects=options.rejects or "",
        most=options.max_rejected,
        job=options.job or "",
        resume=options.resume,
        step_bytes=_bytes(options.step_size),
        partitions=options.partitions,
    )
    return run_import(spark, server, wanted, bars)


def _check_export(options: argparse.Namespace) -> None:
    if (options.table is None) == (options.query is None):
        raise ConfigError("give either a table or --query")


def _export_options(options: argparse.Namespace, to: str) -> ExportOptions:
    """The options of an export, from the command line."""
    return ExportOptions(
        to, format=options.format, mode=options.mode, options=extra_options(options.option), files=options.files
    )


def _export(options: argparse.Namespace, spark: SparkSession, server: ServerAccess | None, bars: Bars) -> Summary:
    assert server is not None
    wanted = dataclasses.replace(
        _export_options(options, options.to),
        table=options.table,
        query=None if options.query is None else options.query.strip().rstrip(";"),
        partition_by=_names(options.partition_by),
        resume=options.resume,
    )
    return run_export(spark, server, wanted, bars)


def _query(options: argparse.Namespace, spark: SparkSession, server: ServerAccess | None, bars: Bars) -> Summary:
    text = options.statements
    if text is None:
        text = pathlib.Path(options.file).read_text(encoding="utf-8")
    output = None if options.output is None else _export_options(options, options.output)
    wanted = QueryOptions(text, options.tablespace, options.from_checkpoint, options.limit, output)
    answer = run_query(spark, server, wanted, bars)
    if options.json:
        answer.summary.more["results"] = [{"columns": item.columns, "rows": item.rows} for item in answer.results]
        return answer.summary
    for item in answer.results:
        print(table(item.columns, item.rows))
        if item.more:
            print(f"... more than {options.limit} rows: --limit shows more, --output writes all")
        print()
    return answer.summary


def _copy(options: argparse.Namespace, spark: SparkSession, server: ServerAccess | None, bars: Bars) -> Summary:
    assert server is not None
    source = find_server(options.source, options.from_password_file)
    wanted = CopyOptions(options.table, options.schema, options.mode, options.job or "", options.resume)
    return run_copy(spark, source, server, wanted, bars)


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def _bytes(text: str) -> int:
    found = _SIZE.match(text.strip())
    if found is None:
        raise ConfigError(f'"{text}" is not a size such as 500MiB or 1GiB')
    return int(float(found[1]) * 1024 ** " kmgt".index(found[2].lower() or " "))
