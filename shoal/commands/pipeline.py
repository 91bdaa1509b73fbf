"""`shoal pipeline`: jobs on Spark (shoal_spark/jobs). Spark is an extra that not every installation has, so it is
imported when a job runs."""

from __future__ import annotations

import argparse
import contextlib
import re
import signal
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING

import orjson

from shoal.commands.pipeline_parser import given_options
from shoal.commands.showing import Bars
from shoal.config import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shoal_spark.jobs.server import Server
    from shoal_spark.jobs.summary import Summary

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\Z", re.IGNORECASE)


def run(options: argparse.Namespace) -> int:
    """Runs a job; the exit status. Raises ConfigError."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise ConfigError("Spark is not installed here: pip install 'shoal[spark]', and Java 17 or newer") from None
    import psycopg

    from shoal_spark.jobs.summary import JobError
    from shoal_spark.options import OptionError

    try:
        with _stopping():
            summary = _run(options)
    except (JobError, OptionError, ValueError) as error:
        raise ConfigError(str(error)) from error
    except psycopg.Error as error:
        from shoal.commands.changes import one_line

        raise ConfigError(one_line(error)) from error
    except KeyboardInterrupt:
        raise ConfigError("interrupted: what was not committed has been taken back") from None
    print(orjson.dumps(summary.fields()).decode() if options.json else summary.text())
    return 0


@contextlib.contextmanager
def _stopping() -> Iterator[None]:
    """SIGTERM takes back what is not committed, as an interrupt does."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(options: argparse.Namespace) -> Summary:
    from shoal_spark.jobs.server import find_server
    from shoal_spark.jobs.session import spark_session

    server = find_server(options.dsn, options.password_file)
    work = {"import": _import}[options.action]
    with Bars() as bars:
        bars.show("starting Spark", 0, 0)
        with spark_session(options.master, options.conf, options.verbose) as spark:
            bars.show("starting Spark", 1, 1)
            summary = work(options, spark, server, bars)
        bars.finish()
        return summary


def _import(options: argparse.Namespace, spark: SparkSession, server: Server, bars: Bars) -> Summary:
    from shoal_spark.jobs.importing import Import, run_import

    wanted = Import(
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


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def _bytes(text: str) -> int:
    found = _SIZE.match(text.strip())
    if found is None:
        raise ConfigError(f'"{text}" is no size: 500MiB, 1GiB')
    return int(float(found[1]) * 1024 ** " kmgt".index(found[2].lower() or " "))
