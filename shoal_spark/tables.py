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
    """Holds the present committed state, and yields a name for the option "snapshot". All reads with it see this state,
    while the block runs.

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
    """Makes a temporary view in Spark for every table and view of a schema, and returns their names.

    Args:
        spark: the session, in which the data source is registered.
        url: as the option "url".
        schema: the schema in the database.
        prefix: a prefix for the names of the views.
        snapshot: a name from `moment`, so that all views read one state. Without it, each query reads the state that is
            committed when it starts.
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
