"""`shoal pipeline query`: runs statements of Spark's SQL over the tables of a database, all at one LSN.

The tables are temporary views: of a server, at a moment that it holds, or of a checkpoint's Parquet files, without a
server (docs/checkpoints.md). Only tables whose names occur in the statements become views.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from shoal_spark.jobs.export_job import ExportOptions, write_frame, written_bytes
from shoal_spark.jobs.files import file_system, without_credentials
from shoal_spark.jobs.server_access import ServerAccess, hold_moment, release_moment
from shoal_spark.jobs.session import one_line, run_with_progress
from shoal_spark.jobs.summary import JobError, Progress, Summary
from shoal_spark.options import quote_name
from shoal_spark.reader import columns_of
from shoal_spark.types import schema_of

_TABLES = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_tablespace s ON s.oid = c.reltablespace
WHERE c.relkind IN ('r', 'p', 'v', 'm') AND NOT c.relispartition AND c.relpersistence <> 't'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
  AND (%(tablespace)s::text IS NULL OR coalesce(s.spcname, 'pg_default') = %(tablespace)s AND c.relkind <> 'v')
ORDER BY 1, 2
"""
# A statement's pieces: strings, quoted names, comments, the end, anything else.
_PIECE = re.compile(r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*|/\*.*?\*/|;|[^;'"`/-]+|.""", re.DOTALL)
_ROW_NUMBER = "_shoal_row_number"


@dataclass(frozen=True)
class QueryOptions:
    """The options of a query. `output`: the destination of the whole last result; otherwise `limit` rows of each result
    are shown."""

    text: str
    tablespace: str | None = None
    checkpoint: str | None = None
    limit: int = 1000
    output: ExportOptions | None = None


@dataclass(frozen=True)
class StatementRows:
    """Rows of a statement's result. `more`: there are more rows."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    more: bool = False


@dataclass
class QueryAnswer:
    """The results of the statements."""

    summary: Summary
    results: list[StatementRows] = field(default_factory=list)


def statements(text: str) -> list[str]:
    """The statements of a file, without comments."""
    found, current = [], ""
    for match in _PIECE.finditer(text):
        piece = match[0]
        if piece == ";":
            found.append(current.strip())
            current = ""
        else:
            current += " " if piece.startswith(("--", "/*")) else piece
    return [item for item in [*found, current.strip()] if item]


def run_query(
    spark: SparkSession, server: ServerAccess | None, wanted: QueryOptions, progress: Progress
) -> QueryAnswer:
    """`server`: None with a checkpoint. Raises JobError."""
    given = statements(wanted.text)
    if not given:
        raise JobError("there is no statement")
    words = {word.lower() for word in re.findall(r"\w+", wanted.text)}
    answer = QueryAnswer(Summary("query"))
    answer.summary.begin()
    views: list[str] = []
    try:
        if wanted.checkpoint is not None:
            lsn = _checkpoint_views(spark, wanted.checkpoint, words, views)
            answer.summary.more["lsn"] = lsn
            _run(spark, given, wanted, progress, answer)
        else:
            assert server is not None
            with server.connect() as connection:
                snapshot, lsn = hold_moment(connection)
                answer.summary.more["lsn"] = lsn
                try:
                    _views(spark, connection, server, wanted.tablespace, snapshot, words, views)
                    _run(spark, given, wanted, progress, answer)
                finally:
                    release_moment(connection, snapshot)
    finally:
        for name in views:
            spark.catalog.dropTempView(f"`{name}`")
    answer.summary.end()
    return answer


def _name(schema: str, table: str) -> str:
    return table if schema == "public" else f"{schema}_{table}"


def _views(
    spark: SparkSession,
    connection: psycopg.Connection[Any],
    server: ServerAccess,
    tablespace: str | None,
    snapshot: str,
    words: set[str],
    made: list[str],
) -> None:
    found = connection.execute(_TABLES, {"tablespace": tablespace}).fetchall()
    if tablespace is not None and not found:
        raise JobError(f'there is no table in the tablespace "{tablespace}"')
    for schema, table in found:
        name = _name(schema, table)
        if not _is_mentioned(name, words):
            continue
        relation = f"{quote_name(schema)}.{quote_name(table)}"
        reader = spark.read.format("shoal").schema(schema_of(columns_of(connection, relation)))
        reader.options(**server.options(dbtable=relation, snapshot=snapshot)).load().createOrReplaceTempView(
            f"`{name}`"
        )
        made.append(name)


def _is_mentioned(name: str, words: set[str]) -> bool:
    """Whether all words of a name occur in the statements. An unnecessary view only costs time."""
    return all(word.lower() in words for word in re.findall(r"\w+", name))


# ---- checkpoints -----------------------------------------------------------------------------------------------------


def _checkpoint_views(spark: SparkSession, place: str, words: set[str], made: list[str]) -> int:
    """Views of the newest checkpoint in a folder, and its LSN."""
    root, manifest = _newest(spark, place)
    for table in manifest["tables"]:
        name = _name(table["schema"], table["name"])
        if not _is_mentioned(name, words):
            continue
        paths = [f"{root}/{item['file']['name']}" for item in table["files"]]
        if paths:
            frame = spark.read.parquet(*paths).drop(_ROW_NUMBER)
        else:
            empty = ", ".join(f"NULL AS `{column['name'].replace('`', '``')}`" for column in table["columns"])
            frame = spark.sql(f"SELECT {empty} WHERE false")
        frame.createOrReplaceTempView(f"`{name}`")
        made.append(name)
    return int(manifest["lsn"])


def _newest(spark: SparkSession, place: str) -> tuple[str, Mapping[str, Any]]:
    """The manifest with the highest LSN, and the root of its names. Raises JobError."""
    found: list[tuple[str, str, str]] = []
    for pattern in ("", "/*", "/*/*"):
        try:
            system, there = file_system(spark, f"{place.rstrip('/')}{pattern}/checkpoint-*/manifest.json")
            for status in system.globStatus(there) or ():
                path = status.getPath()
                folder = path.getParent()
                found.append((folder.getName(), folder.getParent().toString(), path.toString()))
        except Py4JJavaError as error:
            raise JobError(f"{without_credentials(place)} cannot be read: {one_line(error)}") from error
    if not found:
        raise JobError(f"there is no checkpoint in {without_credentials(place)}")
    if len({root for _, root, _ in found}) > 1:
        roots = ", ".join(sorted({without_credentials(root) for _, root, _ in found}))
        raise JobError(f"there are checkpoints of several tablespaces: name one of {roots}")
    _, root, path = max(found)
    text = spark.read.text(path, wholetext=True).collect()[0][0]
    return root, json.loads(text)


# ---- the statements --------------------------------------------------------------------------------------------------


def _run(spark: SparkSession, given: list[str], wanted: QueryOptions, progress: Progress, answer: QueryAnswer) -> None:
    for number, statement in enumerate(given, 1):
        what = f"statement {number} of {len(given)}"
        frame = run_with_progress(spark, progress, what, lambda statement=statement: spark.sql(statement))  # type: ignore[misc]
        if not frame.columns:
            continue
        if number == len(given) and wanted.output is not None:
            answer.summary.rows += write_frame(spark, frame, wanted.output, progress)
            answer.summary.bytes, answer.summary.more["files"] = written_bytes(spark, wanted.output.to)
            answer.summary.more["to"] = without_credentials(wanted.output.to)
            continue
        shown_rows = run_with_progress(spark, progress, what, lambda frame=frame: _first_rows(frame, wanted.limit))  # type: ignore[misc]
        answer.results.append(shown_rows)
        answer.summary.rows += len(shown_rows.rows)


def _first_rows(frame: DataFrame, limit: int) -> StatementRows:
    rows = [tuple(row) for row in frame.limit(limit + 1).collect()]
    return StatementRows(tuple(frame.columns), rows[:limit], len(rows) > limit)
