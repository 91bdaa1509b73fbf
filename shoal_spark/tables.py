"""A whole database in Spark: its tables as views, and one moment for several reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from shoal_spark.options import quote_name, read_options

_TABLES = """
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relkind IN ('r', 'p', 'v', 'm') AND NOT c.relispartition ORDER BY 1
"""


@contextmanager
def moment(url: str) -> Iterator[str]:
    """What is committed now, for the option "snapshot": reads with it see one moment, as long as the block lasts.

    Args:
        url: as the option "url".
    """
    with read_options({"url": url, "query": "SELECT 1"}).connect() as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        ((name,),) = connection.execute("SELECT pg_export_snapshot()").fetchall()
        yield name


def register_tables(
    spark: SparkSession, url: str, schema: str = "public", prefix: str = "", snapshot: str | None = None
) -> list[str]:
    """Makes every table and view of a schema of the database a temporary view of Spark, and gives their names.

    Args:
        spark: the session, in which the data source is registered.
        url: as the option "url".
        schema: which schema of the database.
        prefix: what to put before each name.
        snapshot: of `moment`, for views that all see that one; without it each query sees what is committed by then.
    """
    with read_options({"url": url, "query": "SELECT 1"}).connect() as connection:
        names = [row[0] for row in connection.execute(_TABLES, (schema,)).fetchall()]
    for name in names:
        reader = (
            spark.read.format("shoal").option("url", url).option("dbtable", f"{quote_name(schema)}.{quote_name(name)}")
        )
        if snapshot is not None:
            reader = reader.option("snapshot", snapshot)
        reader.load().createOrReplaceTempView(f"`{prefix}{name}`")
    return [prefix + name for name in names]
